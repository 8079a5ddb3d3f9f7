/**
 * A clock that is set forward and back loses nothing of a memory: the engine's service in this process, with the clock of the
 * test.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { MemoryService } from '../../../src/capabilities/memory/engine/service.ts';
import type { NewEntry } from '../../../src/capabilities/memory/engine/types.ts';
import { deleteOrphans } from '../../../src/capabilities/memory/engine/upkeep.ts';
import { MEMORY_DEFAULTS } from '../../../src/capabilities/memory/limits.ts';
import { openedDatabase, temporaryFolder } from './support.ts';

const asker = { principal: 'ada', agent: 'planner', session: 'session-1' };
const YEAR_MS = 366 * 86_400_000;
/** More than two sweeps of the service. */
const SWEPT_MS = 5000;

async function served(t: TestContext) {
  const { maxEntries: quotaEntries, maxBytes: quotaBytes, ...limits } = MEMORY_DEFAULTS;
  const service = new MemoryService({ folder: temporaryFolder(t), quotaEntries, quotaBytes, ...limits });
  t.after(() => service.close());
  const { memory } = await service.run('init', asker, { agent: 'planner', namespace: 'default', scope: {} });
  const entry = (key: string, tier: NewEntry['tier'], ttl: number): NewEntry => ({
    ...{ key: { key }, content: key, tier, tags: [], source: '', score: 1, ttl, createdAt: 0, updatedAt: 0 },
    ...{ validFrom: undefined, validUntil: undefined, supersedes: [], metadata: undefined },
  });
  return { service, memory, entry };
}

async function opened(t: TestContext) {
  const { service, memory, entry } = await served(t);
  const entries = [entry('note', 'working', 0), entry('code', 'episodic', 3600)];
  await service.run('store', asker, { memory, entries, at: [0, 1] });
  const keys = async (): Promise<unknown[]> => {
    const { entries: found } = await service.run('retrieve', asker, {
      ...{ memory, spaces: [], keys: [], tags: [], tier: undefined, query: '', limit: 10, minScore: 0, cursor: '' },
      ...{ asOf: undefined, ranking: 'hybrid' as const, allVersions: false },
    });
    return found.map(({ key }) => (key as { key: string }).key).sort();
  };
  return keys;
}

test('what has expired by a clock that was set forward is hidden, and found again once the clock is set back', async (t) => {
  const keys = await opened(t);
  assert.deepEqual(await keys(), ['code', 'note']);
  const now = Date.now;
  const clock = t.mock.method(Date, 'now', () => now() + YEAR_MS);
  assert.deepEqual(await keys(), ['note']);
  await delay(SWEPT_MS);
  clock.mock.restore();
  assert.deepEqual(await keys(), ['code', 'note']);
});

test('working tiers that were not used for days are deleted, but for those of sessions that live', async (t) => {
  const database = openedDatabase(t, `${temporaryFolder(t)}/memory.db`);
  await database.write(() => {
    database.makePart('w dead ["default",{}]');
    database.makePart('w alive ["default",{}]');
  });
  const now = Date.now;
  t.mock.method(Date, 'now', () => now() + YEAR_MS);
  await deleteOrphans(database, 7, new Set(['alive']));
  const parts = database.db.prepare('SELECT name FROM part').all() as { name: string }[];
  assert.deepEqual(
    parts.map(({ name }) => name),
    ['w alive ["default",{}]'],
  );
});

test('an entry of before the clock was set back is found by key, by words and in lists, its newest version alone', async (t) => {
  const { service, memory, entry } = await served(t);
  const store = (key: string, content: string, more: Partial<NewEntry> = {}) =>
    service.run('store', asker, { memory, entries: [{ ...entry(key, 'semantic', 0), content, ...more }], at: [0] });
  const found = async (more: { keys?: readonly string[]; query?: string; asOf?: number } = {}) => {
    const { keys = [], query = '', asOf } = more;
    const { entries, total } = await service.run('retrieve', asker, {
      ...{ memory, spaces: [], keys: keys.map((key) => ({ key })), tags: [], tier: undefined, query, limit: 10 },
      ...{ minScore: 0, cursor: '', asOf, ranking: 'lexical' as const, allVersions: false },
    });
    assert.equal(total, entries.length);
    return entries.map(({ content, current }) => `${content}${current === true ? '' : ' (not current)'}`).sort();
  };
  await store('colour', 'red apple');
  await store('plan', 'next year apple', { validFrom: Date.now() / 1000 + 2 * 366 * 86_400 });
  await store('old name', 'superseded apple');
  await delay(20);
  const between = Date.now() / 1000;
  await delay(20);
  await store('colour', 'green apple');
  await store('new name', 'the apple', { supersedes: [{ key: 'old name' }] as never });
  const expected = ['green apple', 'the apple'];
  assert.deepEqual(await found(), expected);
  const now = Date.now;
  for (const back of [3_600_000, YEAR_MS]) {
    const clock = t.mock.method(Date, 'now', () => now() - back);
    assert.deepEqual(await found(), expected);
    assert.deepEqual(await found({ query: 'apple' }), expected);
    assert.deepEqual(await found({ keys: ['colour'] }), ['green apple']);
    assert.deepEqual(await found({ keys: ['old name'] }), []);
    const history = { memory, key: { key: 'colour' }, tier: undefined, limit: 10 };
    const { entries } = await service.run('history', asker, history as never);
    assert.deepEqual(
      entries.map(({ content, current }) => [content, current]),
      [
        ['green apple', true],
        ['red apple', false],
      ],
    );
    clock.mock.restore();
  }
  // An explicit time is used unchanged.
  assert.deepEqual(await found({ asOf: between, keys: ['colour'] }), ['red apple (not current)']);
  const clock = t.mock.method(Date, 'now', () => now() - YEAR_MS);
  await store('colour', 'blue apple');
  assert.deepEqual(await found({ keys: ['colour'] }), ['blue apple']);
  // The first fact repeated, and another key.
  await store('colour', 'blue apple');
  await store('size', 'large');
  assert.deepEqual(await found({ keys: ['colour', 'size'] }), ['blue apple', 'large']);
  clock.mock.restore();
  assert.deepEqual(await found({ keys: ['size'] }), ['large']);
  assert.deepEqual(await found({ keys: ['colour'] }), ['blue apple']);
});
