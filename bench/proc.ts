/**
 * What processes cost: a thousand are spawned, read to their end and reaped, over one session in this process, and beside them
 * by bare `child_process`. Fails when one of them, a descriptor or a store is left.
 *
 * Run it with `npm run bench:proc`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { procPlugin } from '../src/capabilities/proc/plugin.ts';
import { connect } from '../src/connect.ts';
import { createHost } from '../src/host/host.ts';

const COUNT = 1_000;
const AT_ONCE = 8;
const cmd = ['echo', 'a line'] as const;

const workspace = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
process.env.HANDFAST_HOME = workspace;
const host = createHost({
  plugins: [procPlugin({ programs: ['echo'], maxProcesses: AT_ONCE, maxEnded: 10 })],
  workspace,
});
await host.start();
const agent = await connect(host, { capabilities: ['proc'] });

async function ours(): Promise<void> {
  const child = await agent.proc.spawn(cmd, { stdin: 'null' });
  let text = '';
  for await (const piece of child.output()) text += piece.text;
  assert.equal(text, 'a line\n');
}

async function bare(): Promise<void> {
  const child = spawn(cmd[0], cmd.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  assert.equal(text, 'a line\n');
}

/** Runs it `COUNT` times, `AT_ONCE` at a time; the milliseconds of each. */
async function timed(run: () => Promise<void>): Promise<number> {
  let left = COUNT;
  const startedAt = performance.now();
  const worker = async (): Promise<void> => {
    while (left-- > 0) await run();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return (performance.now() - startedAt) / COUNT;
}

/** Open descriptors of this process; 0 where the system does not say. */
function descriptors(): number {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return 0;
  }
}

await ours();
await bare();
const before = descriptors();
const [own, plain] = [await timed(ours), await timed(bare)];
global.gc?.();
const stored = await agent.proc.list();
assert.ok(stored.length <= 10 + AT_ONCE, `${stored.length} processes are still stored`);
assert.ok(stored.every(({ state }) => state !== 'running'));
assert.ok(descriptors() <= before + 2, `${descriptors() - before} descriptors are left`);
console.log(
  `${COUNT} processes, ${AT_ONCE} at once: ${own.toFixed(2)} ms each, bare child_process ${plain.toFixed(2)} ms`,
);
await agent.close();
await host.close(0);
rmSync(workspace, { recursive: true });
