/**
 * A first fleet in one process: an orchestrator, two workers whose work is a function, and a task that goes to the
 * worker that meets its requirements.
 *
 * Run it with `node -C handfast-source examples/fleet.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLog, memoryJournal } from 'handfast';
import { createOrchestrator, createWorker, functionExecutor, inProcessBus, memoryTaskStore } from 'handfast/fleet';

const cwd = mkdtempSync(join(tmpdir(), 'handfast-example-'));
const log = createLog();

// #region fleet
const executor = functionExecutor({ run: ({ prompt }) => `I was asked to ${/write \w+/.exec(prompt)}` });
const worker = (agentId: string, tools: string[]) =>
  createWorker({ agentId, executor, tools, cwd, home: join(cwd, agentId), log });
const workers = [await worker('reader', []), await worker('writer', ['file'])];
const [store, journal, buses] = [memoryTaskStore(), memoryJournal(), [inProcessBus(workers)]];
const fleet = await createOrchestrator({ name: 'first', buses, store, journal, log });
for (const each of [...workers, fleet]) await each.start();

const spec = { brief: 'write poems', required_capabilities: ['file'], reply_schema: 'prose' } as const;
const { record } = await fleet.result((await fleet.submit(spec)).task_id);
console.log(record.state, 'by', record.worker, record.result?.prose); // done by writer I was asked to write poems
// #endregion

assert.deepEqual([record.state, record.worker], ['done', 'writer']);
await fleet.close();
for (const each of workers) await each.close();
rmSync(cwd, { recursive: true });
