import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, describe, it, test } from 'node:test';
import { openStateDatabase } from '../../../src/host/store/database.ts';
import type { Store } from '../../../src/host/store/store.ts';
import { StorageShares } from '../../../src/session/storage-shares.ts';
import fc from '../../support/properties.ts';

const folder = mkdtempSync(join(tmpdir(), 'handfast-store-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
const freshFile = (): string => join(folder, `state-${++files}.db`);

const session = (id: string, principal: string, agentId: string) => ({ id, agentId, principal: { name: principal } });

for (const [where, file] of [
  ['in memory', () => ':memory:'],
  ['on disk', freshFile],
] as const) {
  describe(`the store of a plugin, ${where}`, () => {
    it('reads its own writes at once, in key order, and gives copies', async () => {
      const state = openStateDatabase({ file: file() });
      const store = state.plugin('notes', {}).shared;
      const value = { text: 'one' };
      const written = [store.set('b/1', value), store.set('b/2', 2), store.set('a', null)];
      value.text = 'changed';
      assert.deepEqual(store.get('b/1'), { text: 'one' });
      assert.deepEqual(store.list({ prefix: 'b/' }), [
        { key: 'b/1', value: { text: 'one' } },
        { key: 'b/2', value: 2 },
      ]);
      assert.deepEqual(store.list({ after: 'a', limit: 1 }), [{ key: 'b/1', value: { text: 'one' } }]);
      await Promise.all(written);
      await store.delete('b/1');
      assert.equal(store.get('b/1'), undefined);
      assert.deepEqual(
        store.list().map(({ key }) => key),
        ['a', 'b/2'],
      );
      state.close();
    });

    it('keeps principals, agents of one name, sessions and plugins apart', async () => {
      const state = openStateDatabase({ file: file() });
      const notes = state.plugin('notes', {});
      const ann = notes.of(session('s1', 'ann', 'bot'));
      const again = notes.of(session('s2', 'ann', 'bot'));
      const bob = notes.of(session('s3', 'bob', 'bot'));
      for (const scope of ['principal', 'agent', 'session', 'shared'] as const) await ann[scope].set('k', scope);
      const seen = (stores: Record<string, Store>) =>
        ['principal', 'agent', 'session', 'shared'].map((scope) => stores[scope]!.get('k'));
      assert.deepEqual(seen(again), ['principal', 'agent', undefined, 'shared']);
      assert.deepEqual(seen(bob), [undefined, undefined, undefined, 'shared']);
      assert.equal(state.plugin('other', {}).shared.get('k'), undefined);
      await state.dropSession('s1');
      assert.deepEqual(seen(ann), ['principal', 'agent', undefined, 'shared']);
      state.close();
    });

    it('refuses what is over its quota and counts what is deleted', async () => {
      const state = openStateDatabase({ file: file() });
      const store = state.plugin('notes', { quotaBytes: 500 }).shared;
      await store.set('a', 'x'.repeat(300));
      await assert.rejects(store.set('b', 'x'.repeat(300)), { code: 'quota_exceeded', retryable: false });
      assert.equal(store.get('b'), undefined);
      await store.set('a', 'x'.repeat(400));
      await store.delete('a');
      assert.deepEqual(store.usage, { bytes: 0, quotaBytes: 500 });
      await store.set('b', 'x'.repeat(300));
      await store.clear();
      assert.deepEqual([store.usage.bytes, store.get('b')], [0, undefined]);
      state.close();
    });

    it('never reuses the id of a row', async () => {
      const state = openStateDatabase({ file: file() });
      const rows = state.plugin('notes', {}).shared.rows<{ n: number }>('log');
      assert.deepEqual(
        await Promise.all([rows.insert({ n: 1 }), rows.insert({ n: 2 }), rows.insert({ n: 3 })]),
        [1, 2, 3],
      );
      await rows.delete(3);
      assert.equal(await rows.insert({ n: 4 }), 4);
      await rows.replace(2, { n: 22 });
      assert.deepEqual(rows.list({ after: 1 }), [
        { id: 2, row: { n: 22 } },
        { id: 4, row: { n: 4 } },
      ]);
      assert.deepEqual([rows.get(2), rows.get(3)], [{ n: 22 }, undefined]);
      state.close();
    });

    it('makes writes together or not at all', async () => {
      const state = openStateDatabase({ file: file() });
      const store = state.plugin('notes', { quotaBytes: 1000 }).shared;
      await store.atomically(() => {
        void store.set('a', 1);
        void store.update<number>('a', (a = 0) => a + 1);
        void store.rows('log').insert({ a: 2 });
      });
      assert.deepEqual([store.get('a'), store.rows('log').list().length], [2, 1]);
      const failing = store.atomically(() => {
        void store.set('a', 3);
        void store.set('b', 'x'.repeat(2000));
      });
      await assert.rejects(failing, { code: 'quota_exceeded' });
      assert.deepEqual([store.get('a'), store.get('b')], [2, undefined]);
      await assert.rejects(
        store.atomically(() => Promise.resolve()),
        { code: 'usage' },
      );
      state.close();
      await assert.rejects(store.set('a', 4), { code: 'interrupted' });
    });

    it('refuses what is no key and no JSON', async () => {
      const state = openStateDatabase({ file: file() });
      const store = state.plugin('notes', {}).shared;
      for (const key of ['', 'x'.repeat(513), '\ud800']) {
        await assert.rejects(store.set(key, 1), { code: 'schema_violation' });
      }
      await assert.rejects(store.set('k', undefined), { code: 'schema_violation' });
      assert.throws(() => store.rows('no/table'), { code: 'schema_violation' });
      state.close();
    });
  });
}

describe('the store of a plugin on disk', () => {
  it('has what a closed one had, but for sessions, in a private file that one host has at a time', async () => {
    const file = freshFile();
    const first = openStateDatabase({ file });
    const stores = first.plugin('notes', {}).of(session('s', 'ann', 'bot'));
    await stores.principal.set('k', 1);
    await stores.session.set('k', 1);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.throws(() => openStateDatabase({ file }), { code: 'journal_locked' });
    first.close();
    const second = openStateDatabase({ file });
    const later = second.plugin('notes', {}).of(session('s', 'ann', 'bot'));
    assert.deepEqual([later.principal.get('k'), later.session.get('k')], [1, undefined]);
    assert.ok(later.principal.usage.bytes > 0);
    second.close();
  });

  it('has every acknowledged write after its process was killed, whole and in order', {
    timeout: 120_000,
  }, async () => {
    const file = freshFile();
    let promised = 0;
    for (let round = 1; round <= 8; round += 1) {
      const child = spawn(process.execPath, ['-C', 'handfast-source', `${import.meta.dirname}/writer.ts`, file]);
      let lines = 0;
      for await (const line of createInterface({ input: child.stdout })) {
        const [word, count] = line.split(' ');
        if (word === 'stored') promised = Math.max(promised, Number(count));
        // A different moment each round, in the middle of running work.
        if (++lines === round * 7) break;
      }
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      const state = openStateDatabase({ file });
      const store = state.plugin('crash', {}).shared;
      const count = store.get<number>('count') ?? 0;
      assert.ok(count >= promised, `round ${round}: ${count} of ${promised}`);
      const rows = store.rows<{ n: number }>('log').list({ limit: 1_000_000 });
      assert.deepEqual(
        rows.map(({ id, row }) => [id, row.n]),
        Array.from({ length: count }, (_, at) => [at + 1, at + 1]),
      );
      promised = count;
      state.close();
    }
    assert.ok(promised > 20, String(promised));
  });

  it('equals a map, after any operations and reopenings', async () => {
    const file = freshFile();
    const key = fc.constantFrom('a', 'b', 'ä', 'z', '\u{10ffff}', 'a/b');
    const step = fc.oneof(
      fc.record({ do: fc.constant('set' as const), key, value: fc.jsonValue() }),
      fc.record({ do: fc.constant('delete' as const), key }),
      fc.record({ do: fc.constant('list' as const), prefix: fc.constantFrom('', 'a', 'z') }),
      fc.record({ do: fc.constant('open' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        let state = openStateDatabase({ file });
        let store = state.plugin('notes', {}).shared;
        await store.clear();
        const model = new Map<string, unknown>();
        for (const each of steps) {
          if (each.do === 'set') {
            model.set(each.key, JSON.parse(JSON.stringify(each.value)));
            void store.set(each.key, each.value);
          } else if (each.do === 'delete') {
            model.delete(each.key);
            void store.delete(each.key);
          } else if (each.do === 'open') {
            state.close();
            state = openStateDatabase({ file });
            store = state.plugin('notes', {}).shared;
          } else {
            const expected = [...model.keys()].filter((one) => one.startsWith(each.prefix));
            const order = expected.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
            assert.deepEqual(
              store.list({ prefix: each.prefix }),
              order.map((one) => ({ key: one, value: model.get(one) })),
            );
          }
          for (const one of ['a', 'z']) assert.deepEqual(store.get(one), model.get(one));
        }
        state.close();
      }),
      { numRuns: 60 },
    );
  });
});

test('what is stored for a principal is counted over its agents and plugins, with what was there at the start', async (t) => {
  const file = freshFile();
  const open = () => {
    const storage = new StorageShares({ storedBytes: 1000, totalStoredBytes: 1_000_000 });
    const state = openStateDatabase({ file, storage });
    const of = (name: string, agentId: string) =>
      state.plugin('notes', {}).of(session(`session-${agentId}`, name, agentId));
    return { storage, state, of };
  };
  const first = open();
  const [one, two, bob] = [first.of('ann', 'one'), first.of('ann', 'two'), first.of('bob', 'one')];
  await one.agent.set('k', 'x'.repeat(200));
  await two.agent.set('k', 'x'.repeat(200));
  await one.principal.set('k', 'x'.repeat(200));
  await one.session.set('k', 'x'.repeat(200));
  await one.shared.set('k', 'x'.repeat(2000));
  await bob.agent.set('k', 'x'.repeat(20));
  const { ann = 0 } = first.storage.usage.principals;
  assert.ok(ann > 4 * 200 && ann < 4 * 250, `${ann}`);
  await one.principal.set('more', 'x'.repeat(200));
  await assert.rejects(two.agent.set('more', 'x'), { code: 'over_capacity' });
  await bob.agent.set('more', 'x');
  await one.principal.delete('more');
  assert.equal(first.storage.usage.principals.ann, ann);
  await two.agent.clear();
  const left = first.storage.usage.principals.ann as number;
  assert.ok(left < ann);
  await first.state.dropSession('session-one');
  const durable = first.storage.usage.principals;
  assert.ok((durable.ann as number) < left);
  first.state.close();
  const second = open();
  t.after(() => second.state.close());
  assert.deepEqual(second.storage.usage.principals, durable);
});
