/**
 * The contract of every store of task records; `task-store.test.ts` runs it over those of this package.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskRecord, TaskSpec, TaskStore } from '../../src/fleet/orchestrator/task.ts';
import { fullSpec, newRecord } from '../../src/fleet/orchestrator/task-record.ts';

/** A store to test, and a way to open it again as another process would. */
export interface StoreSetup {
  readonly store: TaskStore;
  /** Closes it and opens the stored data; absent: nothing outlives it. */
  reopen?(): Promise<TaskStore>;
  close(): Promise<void>;
}

export const NOW = 1_000_000;

export function record(
  id: string,
  number: number,
  more: Partial<TaskRecord> = {},
  spec: TaskSpec = { brief: 'x' },
): TaskRecord {
  return { ...newRecord(id, fullSpec(id, spec), number, NOW), ...more };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const superseded = { code: 'superseded' };

/** Tests the behaviour of a store. `open` returns a fresh one. */
export function taskStoreContract(name: string, open: () => Promise<StoreSetup>): void {
  const behaves = (what: string, body: (setup: StoreSetup) => Promise<void>): void => {
    test(`${name}: ${what}`, async () => {
      const setup = await open();
      try {
        await body(setup);
      } finally {
        await setup.close();
      }
    });
  };

  behaves('what was put is what is got, whole', async ({ store }) => {
    const kept = record(
      't-1',
      1,
      { state: 'blocked', parked: true, dead_letter: 'x' },
      { brief: 'é\n"€"', batch: 'b' },
    );
    const revision = await store.put(kept, 0);
    assert.deepEqual(await store.get('t-1'), { record: kept, revision });
    assert.equal(await store.get('t-2'), undefined);
  });

  behaves('tasks are found by their submitter', async ({ store }) => {
    const revision = await store.put(record('t-1', 1, { submitter: 'ann' }), 0);
    await store.put(record('t-2', 2, { submitter: 'bob' }), 0);
    await store.put(record('t-3', 3), 0);
    await store.put(record('t-1', 1, { submitter: 'ann', state: 'reserved', worker: 'w' }), revision);
    const found = async (query: object): Promise<readonly string[]> =>
      (await store.find(query)).map(({ task_id }) => task_id);
    assert.deepEqual(await found({ submitter: 'ann' }), ['t-1']);
    assert.deepEqual(await found({ submitter: 'nobody' }), []);
    assert.deepEqual(await found({}), ['t-3', 't-2', 't-1']);
  });

  behaves('a put over a revision that is not the kept one is refused and changes nothing', async ({ store }) => {
    const first = await store.put(record('t', 1), 0);
    await assert.rejects(store.put(record('t', 1, { parked: true }), 0), superseded);
    const second = await store.put(record('t', 1, { state: 'lost' }), first);
    assert.ok(second > first);
    await assert.rejects(store.put(record('t', 1, { state: 'error' }), first), superseded);
    await assert.rejects(store.put(record('never', 7), 3), superseded);
    assert.equal((await store.get('t'))?.record.state, 'lost');
  });

  behaves('of two that put over the same revision at the same moment one succeeds', async ({ store }) => {
    const revision = await store.put(record('t', 1), 0);
    const outcomes = await Promise.allSettled([
      store.put(record('t', 1, { state: 'reserved', worker: 'a' }), revision),
      store.put(record('t', 1, { state: 'reserved', worker: 'b' }), revision),
      store.put(record('other', 2), 0),
    ]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal((await store.get('t'))?.record.worker, 'a');
  });

  behaves('what is open comes in the order of its numbers, what has ended does not', async ({ store }) => {
    const count = 600;
    const numbers = Array.from({ length: count }, (_, at) => ((at * 7) % count) + 1);
    await Promise.all(
      numbers.map((number) => store.put(record(`t-${number}`, number, { ended_at: number % 3 === 0 ? NOW : null }), 0)),
    );
    const found = (await all(store.open())).map(({ record }) => record.number);
    assert.deepEqual(
      found,
      numbers.filter((number) => number % 3 !== 0).sort((one, other) => one - other),
    );
  });

  behaves('a task that ended and is tried again is open again', async ({ store }) => {
    const revision = await store.put(record('t', 1, { state: 'done', ended_at: NOW }), 0);
    assert.deepEqual(await all(store.open()), []);
    await store.put(record('t', 1, { state: 'queued' }), revision);
    assert.deepEqual(
      (await all(store.open())).map(({ record }) => record.task_id),
      ['t'],
    );
  });

  behaves('find filters by each member, newest first, page by page', async ({ store }) => {
    const puts = Array.from({ length: 12 }, (_, at) =>
      store.put(
        record(
          `t-${at + 1}`,
          at + 1,
          { state: at % 2 === 0 ? 'done' : 'blocked', parked: at % 4 === 1, worker: at % 3 === 0 ? 'a' : 'b' },
          { brief: 'x', batch: at < 6 ? 'first' : 'second' },
        ),
        0,
      ),
    );
    await Promise.all(puts);
    const numbers = async (query: Parameters<TaskStore['find']>[0]) =>
      (await store.find(query)).map(({ number }) => number);
    assert.deepEqual(await numbers({ limit: 3 }), [12, 11, 10]);
    assert.deepEqual(await numbers({ limit: 3, before: 10 }), [9, 8, 7]);
    assert.deepEqual(await numbers({ states: ['done'] }), [11, 9, 7, 5, 3, 1]);
    assert.deepEqual(await numbers({ states: [] }), []);
    assert.deepEqual(await numbers({ parked: true }), [10, 6, 2]);
    assert.deepEqual(await numbers({ worker: 'a' }), [10, 7, 4, 1]);
    assert.deepEqual(await numbers({ batch: 'first', states: ['blocked'], parked: false }), [4]);
    assert.deepEqual(await numbers({ limit: 0 }), []);
  });

  behaves('the request and the decision of a task may change', async ({ store }) => {
    const before = record('t', 1);
    const revision = await store.put(before, 0);
    const spec = { ...before.spec, worker: 'somebody' };
    const explanation = { task_id: 't', chosen: null, sentence: 'nobody' } as unknown as TaskRecord['explanation'];
    const second = await store.put({ ...before, explanation }, revision);
    await store.put({ ...before, spec, explanation }, second);
    const { record: after } = (await store.get('t'))!;
    assert.equal(after.spec.worker, 'somebody');
    assert.deepEqual(after.explanation, explanation);
  });

  behaves('records that share a request keep it each', async ({ store }) => {
    const one = record('one', 1);
    await store.put(one, 0);
    await store.put({ ...one, task_id: 'two', number: 2 }, 0);
    assert.deepEqual((await store.get('two'))?.record.spec, one.spec);
  });

  behaves('prune forgets what ended long ago and the oldest of too many, never what is open', async ({ store }) => {
    const puts: Promise<number>[] = [];
    for (let number = 1; number <= 20; number += 1) {
      const ended_at = number % 5 === 0 ? null : NOW + number;
      puts.push(store.put(record(`t-${number}`, number, { ended_at }), 0));
    }
    await Promise.all(puts);
    assert.equal(await store.prune(NOW + 4, 100), 3);
    assert.equal(await store.get('t-3'), undefined);
    assert.notEqual(await store.get('t-4'), undefined);
    assert.equal(await store.prune(NOW, 10), 7);
    const left = (await store.find({ limit: 100 })).map(({ number }) => number);
    assert.deepEqual(
      left,
      [20, 19, 18, 17, 16, 15, 14, 13, 10, 5].sort((one, other) => other - one),
    );
    assert.equal(await store.prune(NOW + 1000, 0), 6);
    assert.equal((await all(store.open())).length, 4);
  });

  behaves('the highest number is known, also after its task was forgotten', async ({ store }) => {
    assert.equal(await store.lastNumber(), 0);
    await store.put(record('t', 41, { ended_at: NOW }), 0);
    assert.equal(await store.lastNumber(), 41);
    await store.prune(NOW + 1, 0);
    assert.equal(await store.lastNumber(), 41);
  });

  behaves('what was acknowledged is there after closing and opening', async ({ store, reopen }) => {
    if (reopen === undefined) return;
    const kept = record('t', 3, { state: 'running', worker: 'w' });
    await store.put(kept, 0);
    const again = await reopen();
    const { record: found, revision } = (await again.get('t')) ?? { revision: 0 };
    assert.deepEqual(found, kept);
    assert.equal(await again.lastNumber(), 3);
    await assert.rejects(again.put(kept, 0), superseded);
    assert.ok((await again.put({ ...kept, state: 'done' }, revision)) > revision);
  });

  behaves('a closed store refuses, and closing twice is fine', async ({ store }) => {
    await store.close();
    await store.close();
    await assert.rejects(store.put(record('t', 1), 0));
    await assert.rejects(store.get('t'));
  });
}
