/**
 * One suite for every journal: the contract of `src/journal/journal.ts`, on each implementation and for each
 * durability. A new implementation is added to `implementations` and must pass unchanged.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Durability, Gap, Journal, JournalEntry, Retention } from '../../src/journal/journal.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import fc from '../support/properties.ts';

/** Far above the duration of any of these; only present so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };

interface Implementation {
  readonly name: string;
  /** Property runs; fewer where a run costs real disk syncs. */
  readonly runs: number;
  /** Runs `body` with a fresh journal and cleans up after it. */
  use(retention: Partial<Retention>, body: (journal: Journal) => Promise<void>): Promise<void>;
}

const implementations: readonly Implementation[] = [
  {
    name: 'memory',
    runs: 200,
    async use(retention, body) {
      const journal = memoryJournal({ retention });
      await body(journal).finally(() => journal.close());
    },
  },
  {
    name: 'sqlite',
    runs: 40,
    async use(retention, body) {
      const directory = mkdtempSync(join(tmpdir(), 'handfast-journal-'));
      const journal = await sqliteJournal({ file: join(directory, 'journal.db'), retention });
      await body(journal)
        .finally(() => journal.close())
        .finally(() => rmSync(directory, { recursive: true }));
    },
  },
];

/**
 * The manner in which the suite appends: the durability of the n-th append, and whether waiting entries are written
 * before a read.
 */
interface Manner {
  readonly name: string;
  durability(append: number): Durability | undefined;
  readonly written: boolean;
}

const manners: readonly Manner[] = [
  { name: 'as by default', durability: () => undefined, written: false },
  { name: 'volatile', durability: () => 'volatile', written: false },
  { name: 'volatile, written', durability: () => 'volatile', written: true },
  {
    name: 'volatile and durable in turn',
    durability: (append) => (append % 3 === 0 ? 'durable' : 'volatile'),
    written: true,
  },
];

/** Returns the journal, with appends in a certain manner. */
function appendedTo(journal: Journal, { durability, written }: Manner): Journal {
  let appends = 0;
  // Listing the sessions writes the entries that are not written yet, so a caller that lists waits for none.
  const settle = async () => void (written && (await journal.sessions(1)));
  return {
    append: (session, entries, _durability, owner) => journal.append(session, entries, durability(appends++), owner),
    read: async (session, after, limit) => {
      await settle();
      return journal.read(session, after, limit);
    },
    follow: (session, after, signal) => journal.follow(session, after, signal),
    sessions: (limit, owner) => journal.sessions(limit, owner),
    owner: (session) => journal.owner(session),
    delete: (session) => journal.delete(session),
    close: () => journal.close(),
    get volatileFailures() {
      return journal.volatileFailures;
    },
  };
}

const entry = (cursor: number, body: string | object = `body ${cursor}`): JournalEntry => ({
  cursor,
  ts: 1_700_000_000_000 + cursor,
  kind: 'event',
  request: `r${cursor % 3}`,
  body,
});
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => entry(from + index));
const cursors = (entries: readonly JournalEntry[]) => entries.map(({ cursor }) => cursor);
const isGap = (item: JournalEntry | Gap): item is Gap => item.kind === 'gap' && 'from' in item;
const failsWith = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

/** Returns the iterator of a `follow`, for tests that take items one by one. */
function follow(journal: Journal, session: string, after: number, signal?: AbortSignal) {
  return journal.follow(session, after, signal)[Symbol.asyncIterator]();
}

async function take(items: AsyncIterator<JournalEntry | Gap>, count: number): Promise<(JournalEntry | Gap)[]> {
  const taken: (JournalEntry | Gap)[] = [];
  while (taken.length < count) {
    const { done, value } = await items.next();
    assert.ok(!done, `ended after ${taken.length} of ${count}`);
    taken.push(value);
  }
  return taken;
}

const variants = implementations.flatMap(({ use, ...rest }) =>
  manners.map((manner) => ({
    ...rest,
    manner,
    use: (retention: Partial<Retention>, body: (journal: Journal) => Promise<void>) =>
      use(retention, (journal) => body(appendedTo(journal, manner))),
  })),
);

for (const { name, runs, manner, use } of variants) {
  describe(`journal contract: ${name}, appended to ${manner.name}`, TIMEOUT, () => {
    it('reads back what was appended, texts and objects alike', () =>
      use({}, async (journal) => {
        const entries = [
          entry(1, '{"type":"tool/call"}'),
          entry(2, { type: 'tool/result', deep: { list: [1, null] } }),
          { cursor: 3, ts: 0, kind: 'opened', request: '', body: '' },
          entry(4, 'nul \0, newline \n, astral \u{1f600}'),
        ];
        await journal.append('s', entries);
        const page = await journal.read('s', 0);
        assert.deepEqual([...page.entries], entries);
        assert.equal(page.last, 4);
        assert.equal(page.gap, undefined);
      }));

    it('knows nothing of a session that was never written to', () =>
      use({}, async (journal) => {
        const page = await journal.read('nobody', 7);
        assert.deepEqual([...page.entries], []);
        assert.equal(page.last, 0);
        assert.equal(page.gap, undefined);
        await journal.delete('nobody');
        await journal.append('s', []);
        assert.deepEqual(await journal.sessions(), []);
      }));

    it('shows an entry to readers at once, before the append is acknowledged', () =>
      use({}, async (journal) => {
        await journal.append('s', [entry(1)]);
        const acknowledged = journal.append('s', [entry(2), entry(3, { object: true })]);
        const page = await journal.read('s', 0);
        assert.deepEqual([...page.entries], [entry(1), entry(2), entry(3, { object: true })]);
        assert.equal(page.last, 3);
        assert.deepEqual(cursors((await journal.read('s', 1, 1)).entries), [2]);
        await acknowledged;
        assert.deepEqual(cursors((await journal.read('s', 2)).entries), [3]);
      }));

    it('pages by cursor and limit, 256 entries by default', () =>
      use({}, async (journal) => {
        await journal.append('s', range(1, 300));
        assert.equal((await journal.read('s', 0)).entries.length, 256);
        assert.deepEqual([...(await journal.read('s', 0, 0)).entries], []);
        assert.deepEqual([...(await journal.read('s', 300)).entries], []);
        assert.deepEqual([...(await journal.read('s', 9_999)).entries], []);
        const seen: number[] = [];
        for (;;) {
          const page = await journal.read('s', seen.at(-1) ?? 0, 77);
          seen.push(...cursors(page.entries));
          if (seen.at(-1) === page.last) break;
        }
        assert.deepEqual(seen, cursors(range(1, 300)));
      }));

    it('separates sessions of any names', () =>
      use({}, async (journal) => {
        const names = ['a', 'b', 'a b', "a'; DROP TABLE entries; --", '', 'ä\0', '__proto__'];
        for (const session of names) await journal.append(session, [entry(1, session)]);
        for (const session of names) {
          assert.deepEqual([...(await journal.read(session, 0)).entries], [entry(1, session)]);
        }
      }));

    it('refuses a batch whose cursors do not grow, and keeps nothing of it', () =>
      use({}, async (journal) => {
        await journal.append('s', [entry(1), entry(5)]);
        for (const wrong of [
          [entry(5)],
          [entry(6), entry(6)],
          [entry(7), entry(3)],
          [entry(6.5)],
          [entry(Number.NaN)],
        ]) {
          await assert.rejects(async () => journal.append('s', wrong), failsWith('runtime_error'));
        }
        await assert.rejects(async () => journal.append('new', [entry(0)]), failsWith('runtime_error'));
        assert.deepEqual(cursors((await journal.read('s', 0)).entries), [1, 5]);
        assert.deepEqual(
          (await journal.sessions()).map(({ session }) => session),
          ['s'],
        );
        await journal.append('s', [entry(6)]);
      }));

    it('accepts cursors that jump, and takes no jump for a gap', () =>
      use({}, async (journal) => {
        await journal.append('s', [entry(4), entry(9), entry(100)]);
        const page = await journal.read('s', 1);
        assert.deepEqual(cursors(page.entries), [4, 9, 100]);
        assert.equal(page.gap, undefined);
        assert.deepEqual(cursors((await journal.read('s', 50)).entries), [100]);
      }));

    it('evicts the oldest entries past the entry bound and names them in one gap', () =>
      use({ maxEntries: 10 }, async (journal) => {
        for (let cursor = 1; cursor <= 200; cursor += 1) await journal.append('s', [entry(cursor)]);
        const page = await journal.read('s', 150);
        assert.deepEqual(page.gap, { kind: 'gap', from: 151, to: 190 });
        assert.deepEqual(cursors(page.entries), cursors(range(191, 200)));
        assert.equal((await journal.read('s', 190)).gap, undefined);
        assert.deepEqual(await journal.sessions(), [{ session: 's', first: 191, last: 200, bytes: 80 }]);
      }));

    it('evicts within one large batch too', () =>
      use({ maxEntries: 10 }, async (journal) => {
        await journal.append('s', range(1, 500));
        assert.deepEqual((await journal.read('s', 0)).gap, { kind: 'gap', from: 1, to: 490 });
        assert.deepEqual(cursors((await journal.read('s', 0)).entries), cursors(range(491, 500)));
      }));

    it('evicts the oldest entries past the byte bound', () =>
      use({ maxBytes: 100 }, async (journal) => {
        for (let cursor = 1; cursor <= 9; cursor += 1) await journal.append('s', [entry(cursor, 'x'.repeat(30))]);
        assert.deepEqual(cursors((await journal.read('s', 0)).entries), [7, 8, 9]);
        await journal.append('s', [entry(10, 'y'.repeat(95))]);
        assert.deepEqual(await journal.sessions(), [{ session: 's', first: 10, last: 10, bytes: 95 }]);
      }));

    it('evicts an entry that alone is over the byte bound, and continues after it', () =>
      use({ maxBytes: 100 }, async (journal) => {
        await journal.append('s', [entry(1)]);
        await journal.append('s', [entry(2, 'z'.repeat(101))]);
        assert.deepEqual(await journal.sessions(), [{ session: 's', first: 3, last: 2, bytes: 0 }]);
        const page = await journal.read('s', 0);
        assert.deepEqual(page.gap, { kind: 'gap', from: 1, to: 2 });
        assert.deepEqual([...page.entries], []);
        assert.equal(page.last, 2);
        await assert.rejects(async () => journal.append('s', [entry(2)]), failsWith('runtime_error'));
        const items = follow(journal, 's', 0);
        assert.deepEqual(await take(items, 1), [{ kind: 'gap', from: 1, to: 2 }]);
        const next = items.next();
        await journal.append('s', [entry(3)]);
        assert.deepEqual((await next).value, entry(3));
        await items.return?.();
        assert.deepEqual(cursors((await journal.read('s', 2)).entries), [3]);
      }));

    it('holds exactly what a plain list with the same retention holds', () =>
      fc.assert(
        fc.asyncProperty(
          fc.record({ maxEntries: fc.integer({ min: 1, max: 90 }), maxBytes: fc.integer({ min: 1, max: 400 }) }),
          fc.array(
            fc.array(
              fc.record({ jump: fc.integer({ min: 1, max: 3 }), body: fc.string({ unit: 'grapheme', maxLength: 30 }) }),
              { minLength: 1, maxLength: 20 },
            ),
            { maxLength: 25 },
          ),
          fc.integer({ min: 0, max: 200 }),
          (retention, batches, after) =>
            use(retention, async (journal) => {
              let held: JournalEntry[] = [];
              let last = 0;
              let evicted = 0;
              for (const batch of batches) {
                const entries = batch.map(({ jump, body }) => {
                  last += jump;
                  return entry(last, body);
                });
                await journal.append('s', entries);
                held = [...held, ...entries];
                const bytes = () => held.reduce((sum, { body }) => sum + (body as string).length, 0);
                while (held.length > retention.maxEntries || bytes() > retention.maxBytes) {
                  evicted = held.shift()?.cursor ?? evicted;
                }
              }
              const page = await journal.read('s', after, 1000);
              assert.deepEqual(
                [...page.entries],
                held.filter(({ cursor }) => cursor > after),
              );
              assert.deepEqual(page.gap, after < evicted ? { kind: 'gap', from: after + 1, to: evicted } : undefined);
              assert.equal(page.last, last);
              if (last > 0) {
                const bytes = held.reduce((sum, { body }) => sum + (body as string).length, 0);
                assert.deepEqual(await journal.sessions(), [
                  { session: 's', first: held[0]?.cursor ?? last + 1, last, bytes },
                ]);
              }
            }),
        ),
        { numRuns: runs },
      ));

    it('follows from the store into the present', () =>
      use({}, async (journal) => {
        await journal.append('s', range(1, 200));
        const items = follow(journal, 's', 120);
        assert.deepEqual(await take(items, 80), range(121, 200));
        const next = items.next();
        journal.append('s', [entry(201), entry(202)]);
        assert.deepEqual((await next).value, entry(201));
        assert.deepEqual(await take(items, 1), [entry(202)]);
        await items.return?.();
        assert.deepEqual(await items.next(), { done: true, value: undefined });
      }));

    it('follows entries of many sizes, stored and just appended, in order', () =>
      use({}, async (journal) => {
        const large = (cursor: number) => entry(cursor, `${cursor}`.repeat(150_000));
        await journal.append('s', [1, 2, 3, 4].map(large));
        const acknowledged = journal.append('s', [5, 6].map(large));
        const items = follow(journal, 's', 0);
        const first = await items.next();
        await acknowledged;
        assert.deepEqual([first.value, ...(await take(items, 5))], [1, 2, 3, 4, 5, 6].map(large));
        await items.return?.();
      }));

    it('follows a session that does not exist yet', () =>
      use({}, async (journal) => {
        const items = follow(journal, 's', 0);
        const first = items.next();
        await turn();
        await journal.append('other', [entry(1)]);
        assert.deepEqual(
          (await journal.sessions()).map(({ session }) => session),
          ['other'],
        );
        await journal.append('s', [entry(1)]);
        assert.deepEqual(await first, { done: false, value: entry(1) });
        await items.return?.();
      }));

    it('answers several calls of one follower in order', () =>
      use({}, async (journal) => {
        const items = follow(journal, 's', 0);
        const calls = [items.next(), items.next(), items.next(), items.next()];
        await journal.append('s', [entry(1)]);
        await journal.append('s', [entry(2), entry(3)]);
        const answers = await Promise.all(calls.slice(0, 3));
        assert.deepEqual(
          answers.map(({ value }) => value),
          range(1, 3),
        );
        await items.return?.();
        assert.deepEqual(await calls[3], { done: true, value: undefined });
      }));

    it('delivers to a follower every cursor once, as an entry or in a gap, however both sides are timed', () =>
      fc.assert(
        fc.asyncProperty(
          fc.record({ maxEntries: fc.integer({ min: 1, max: 100 }) }),
          fc.array(
            fc.record({ count: fc.integer({ min: 1, max: 40 }), wait: fc.constantFrom('none', 'turn', 'append') }),
            { minLength: 1, maxLength: 20 },
          ),
          fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 20 }),
          fc.integer({ min: 0, max: 30 }),
          (retention, appends, pauses, after) =>
            use(retention, async (journal) => {
              const total = appends.reduce((sum, { count }) => sum + count, 0);
              const write = async () => {
                let last = 0;
                const acknowledged: unknown[] = [];
                for (const { count, wait } of appends) {
                  acknowledged.push(journal.append('s', range(last + 1, last + count)));
                  last += count;
                  if (wait === 'turn') await turn();
                  if (wait === 'append') await acknowledged.at(-1);
                }
                await Promise.all(acknowledged);
              };
              const readAll = async () => {
                let position = after;
                let items = 0;
                let gaps = 0;
                if (total <= after) return;
                for await (const item of journal.follow('s', after)) {
                  if (isGap(item)) {
                    assert.equal(item.from, position + 1);
                    assert.ok(item.to >= item.from);
                    gaps += 1;
                    assert.equal(gaps, 1, 'two gaps with no entry between are one');
                  } else {
                    assert.deepEqual(item, entry(position + 1));
                    gaps = 0;
                  }
                  position = isGap(item) ? item.to : item.cursor;
                  if (position === total) return;
                  for (let pause = pauses[items % pauses.length] ?? 0; pause > 0; pause -= 1) await turn();
                  items += 1;
                }
                assert.fail('the follower ended by itself');
              };
              await Promise.all([readAll(), write(), readAll()]);
            }),
        ),
        { numRuns: runs },
      ));

    it('reports one gap to a follower that retention has overtaken, then continues', () =>
      use({ maxEntries: 5 }, async (journal) => {
        await journal.append('s', range(1, 3));
        const items = follow(journal, 's', 0);
        assert.deepEqual(await take(items, 1), [entry(1)]);
        for (let cursor = 4; cursor <= 300; cursor += 1) await journal.append('s', [entry(cursor)]);
        const rest = await take(items, 1 + 5 + 2);
        // Entries it had already fetched may still come; then one gap, then the newest.
        const gap = rest.findIndex(isGap);
        assert.deepEqual(rest.slice(0, gap), range(2, 1 + gap));
        assert.deepEqual(rest[gap], { kind: 'gap', from: 2 + gap, to: 295 });
        assert.deepEqual(rest.slice(gap + 1), range(296, 300).slice(0, rest.length - gap - 1));
        await items.return?.();
      }));

    it('ends a follower when its signal aborts, waiting or not', () =>
      use({}, async (journal) => {
        await journal.append('s', range(1, 10));
        const waiting = new AbortController();
        const items = follow(journal, 's', 10, waiting.signal);
        const next = items.next();
        waiting.abort();
        assert.deepEqual(await next, { done: true, value: undefined });
        const reading = new AbortController();
        const seen: number[] = [];
        for await (const item of journal.follow('s', 0, reading.signal)) {
          seen.push((item as JournalEntry).cursor);
          if (seen.length === 2) reading.abort();
        }
        assert.deepEqual(seen, [1, 2]);
        assert.deepEqual(await follow(journal, 's', 0, AbortSignal.abort()).next(), { done: true, value: undefined });
      }));

    it('forgets a deleted session: followers end, cursors may start again', () =>
      use({}, async (journal) => {
        await journal.append('s', range(1, 100));
        await journal.append('other', [entry(1)]);
        const waiting = follow(journal, 's', 100);
        const next = waiting.next();
        const reading = follow(journal, 's', 0);
        await take(reading, 1);
        await journal.delete('s');
        assert.deepEqual(await next, { done: true, value: undefined });
        assert.equal((await journal.read('s', 0)).last, 0);
        await journal.append('s', [entry(1, 'anew')]);
        assert.equal((await reading.next()).done, true);
        assert.deepEqual([...(await journal.read('s', 0)).entries], [entry(1, 'anew')]);
        assert.deepEqual([...(await journal.read('other', 0)).entries], [entry(1)]);
      }));

    it('keeps the order of calls when append and delete come in one turn', () =>
      use({}, async (journal) => {
        await journal.append('s', range(1, 5));
        const calls = [
          journal.append('s', [entry(6)]),
          journal.delete('s'),
          journal.append('s', [entry(1, 'second life')]),
        ];
        assert.deepEqual([...(await journal.read('s', 0)).entries], [entry(1, 'second life')]);
        await Promise.all(calls);
        assert.deepEqual([...(await journal.read('s', 0)).entries], [entry(1, 'second life')]);
        await Promise.all([journal.append('t', [entry(1)]), journal.delete('t')]);
        assert.deepEqual(
          (await journal.sessions()).map(({ session }) => session),
          ['s'],
        );
      }));

    it('knows who a session belongs to: the owner of its first append', () =>
      use({}, async (journal) => {
        await journal.append('a', [entry(1)], 'volatile', 'ann');
        await journal.append('a', [entry(2)], 'volatile', 'bob');
        await journal.append('b', [entry(1)], 'volatile', 'bob');
        await journal.append('c', [entry(1)], 'volatile');
        assert.deepEqual(
          ['a', 'b', 'c', 'd'].map((session) => journal.owner(session)),
          ['ann', 'bob', undefined, undefined],
        );
        const ownedBy = async (owner?: string) =>
          (await journal.sessions(9, owner)).map((session) => [session.session, session.owner]);
        assert.deepEqual(await ownedBy('ann'), [['a', 'ann']]);
        assert.deepEqual(await ownedBy('dan'), []);
        assert.deepEqual(await ownedBy(), [
          ['c', undefined],
          ['b', 'bob'],
          ['a', 'ann'],
        ]);
      }));

    it('lists sessions newest write first, by order of writing and not by clock', () =>
      use({}, async (journal) => {
        for (const [session, cursor] of [
          ['a', 3],
          ['b', 2],
          ['c', 1],
          ['a', 4],
        ] as const) {
          await journal.append(session, [{ ...entry(cursor), ts: 1_000 - cursor }]);
        }
        assert.deepEqual(
          (await journal.sessions()).map(({ session }) => session),
          ['a', 'c', 'b'],
        );
        assert.deepEqual(
          (await journal.sessions(1)).map(({ session }) => session),
          ['a'],
        );
      }));

    it('settles everything when it closes, and refuses what comes after', () =>
      use({}, async (journal) => {
        await journal.append('s', range(1, 3));
        const late = journal.append('s', [entry(4)]);
        const waiting = follow(journal, 's', 4);
        const next = waiting.next();
        const reading = follow(journal, 's', 0);
        await take(reading, 1);
        await Promise.all([journal.close(), journal.close()]);
        await late;
        assert.deepEqual(await next, { done: true, value: undefined });
        assert.equal((await reading.next()).done, true);
        await assert.rejects(async () => journal.append('s', [entry(5)]), failsWith('runtime_error'));
        await assert.rejects(journal.read('s', 0), failsWith('runtime_error'));
        await assert.rejects(journal.sessions(), failsWith('runtime_error'));
        await assert.rejects(journal.delete('s'), failsWith('runtime_error'));
        await assert.rejects(follow(journal, 's', 0).next(), failsWith('runtime_error'));
      }));
  });
}

for (const { name, use } of implementations) {
  describe(`journal contract: ${name}, durability`, TIMEOUT, () => {
    it('gives nothing to wait for to a volatile append, and shows its entry at once', () =>
      use({}, async (journal) => {
        const items = follow(journal, 's', 0);
        const next = items.next();
        assert.equal(journal.append('s', [entry(1), entry(2, { object: true })], 'volatile'), undefined);
        assert.deepEqual((await next).value, entry(1));
        assert.deepEqual([...(await journal.read('s', 0)).entries], [entry(1), entry(2, { object: true })]);
        await items.return?.();
      }));

    it('keeps one order of cursors for both durabilities', () =>
      use({}, async (journal) => {
        journal.append('s', [entry(1)], 'volatile');
        const acknowledged = journal.append('s', [entry(2)], 'durable');
        journal.append('s', [entry(3)], 'volatile');
        assert.deepEqual([...(await journal.read('s', 0)).entries], range(1, 3));
        await acknowledged;
        journal.append('s', [entry(4)], 'volatile');
        assert.deepEqual([...(await journal.read('s', 0)).entries], range(1, 4));
        await assert.rejects(async () => journal.append('s', [entry(4)], 'durable'), failsWith('runtime_error'));
        await journal.append('s', [entry(5)], 'durable');
        assert.deepEqual([...(await journal.read('s', 0)).entries], range(1, 5));
      }));

    it('refuses a volatile append without harm to a caller that ignores it', () =>
      use({}, async (journal) => {
        journal.append('s', [entry(1)], 'volatile');
        const refused = [journal.append('s', [entry(1)], 'volatile'), journal.append('s', [entry(0.5)], 'volatile')];
        await journal.close();
        refused.push(journal.append('s', [entry(2)], 'volatile'));
        // An unhandled rejection would have ended the test by now.
        await turn();
        for (const promise of refused) await assert.rejects(async () => promise, failsWith('runtime_error'));
        assert.equal(journal.volatileFailures, 0);
      }));
  });
}
