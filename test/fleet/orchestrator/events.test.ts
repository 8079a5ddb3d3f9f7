/** The events of a task in the journal: those of an earlier task of its name are not among them. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { fleet } from './support/fleet.ts';

for (const kind of ['memory', 'sqlite'] as const) {
  test(`${kind}: a task whose name was used before has its own events alone`, async (t) => {
    const journal =
      kind === 'memory' ? memoryJournal() : await sqliteJournal({ file: join(temporaryFolder(t), 'events.db') });
    t.after(() => journal.close());
    const { orchestrator, clock, store } = await fleet(t, { journal, maxTasks: 1 });
    const submit = (name: string, task_id: string) =>
      orchestrator.submit({ task_id, brief: 'x', required_mcp: ['none'] }, { name, ownOnly: true });
    await submit('ann', 'report');
    await orchestrator.cancel('report', 'the secret of ann');
    await submit('ann', 'another');
    await orchestrator.cancel('another');
    await clock.advance(61_000);
    assert.equal(await store.get('report'), undefined, 'it was removed');
    await submit('bob', 'report');
    await orchestrator.cancel('report', 'of bob');
    const kinds = async (): Promise<readonly string[]> =>
      (await journal.read('task:report', 0)).entries.map((entry) => entry.kind);
    for (let n = 0; n < 200 && !(await kinds()).includes('ended'); n += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const { entries } = await journal.read('task:report', 0);
    assert.deepEqual([entries[0]?.kind, entries.at(-1)?.kind], ['submitted', 'ended']);
    assert.equal(entries.filter((entry) => entry.kind === 'submitted').length, 1);
    assert.doesNotMatch(JSON.stringify(entries), /the secret of ann/);
  });
}
