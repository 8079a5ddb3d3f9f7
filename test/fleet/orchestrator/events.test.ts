/** The events of a task in the journal: those of an earlier task of its name are not among them. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import { taskStream } from '../../../src/fleet/orchestrator/task-journal.ts';
import type { Page } from '../../../src/journal/journal.ts';
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
    const submit = (to: Orchestrator, name: string, task_id: string) =>
      to.submit({ task_id, brief: 'x', required_mcp: ['none'] }, { name, ownOnly: true });
    await submit(orchestrator, 'ann', 'report');
    await orchestrator.cancel('report', 'the secret of ann');
    await submit(orchestrator, 'ann', 'another');
    await orchestrator.cancel('another');
    await clock.advance(61_000);
    assert.equal(await store.get('report'), undefined, 'it was removed');
    const stream = taskStream(await submit(orchestrator, 'bob', 'report'));
    await orchestrator.cancel('report', 'of bob');
    const eventsOf = async (name: string): Promise<Page['entries']> => {
      const read = () => journal.read(name, 0).then(({ entries }) => entries);
      for (let n = 0; n < 200 && !(await read()).some(({ kind }) => kind === 'ended'); n += 1) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      return read();
    };
    const entries = await eventsOf(stream);
    assert.deepEqual([entries[0]?.kind, entries.at(-1)?.kind], ['submitted', 'ended']);
    assert.equal(entries.filter((entry) => entry.kind === 'submitted').length, 1);
    assert.doesNotMatch(JSON.stringify(entries), /the secret of ann/);

    // The store is lost and numbers its tasks again; the journal has the events of an earlier task of this number and name.
    const other = await fleet(t, { journal });
    for (let number = 1; number < 3; number += 1) await submit(other.orchestrator, 'carl', `filler ${number}`);
    assert.equal(taskStream(await submit(other.orchestrator, 'carl', 'report')), stream);
    await other.orchestrator.cancel('report', 'of carl');
    const later = await eventsOf(stream);
    assert.equal(later.filter((entry) => entry.kind === 'submitted').length, 1);
    assert.doesNotMatch(JSON.stringify(later), /of bob/);
  });
}
