/**
 * The wall clock jumps between two hosts: sessions that outlive the first are resumed at the second, retention drops no
 * young entry, and neither window nor retention lets an entry stay for ever.
 *
 * `clock.test.ts` has the jumps while a host runs.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StoredSessions } from '../../src/host/stored-sessions.ts';
import type { SessionRecords } from '../../src/journal/journal.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import type { SessionRecord } from '../../src/session/stored-session.ts';
import { storedHost, WRITTEN_MS } from './support/stored-host.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const JUMPS = [
  { name: '40 days ahead', ms: 40 * DAY_MS },
  { name: '40 days back', ms: -40 * DAY_MS },
];
/** More than it takes until a host has looked for sessions that its retention drops. */
const SWEPT_MS = 1_500;

describe('F-109: a host is killed, and the next one has a clock that is', { concurrency: 2 }, () => {
  for (const { name, ms } of JUMPS) {
    test(`${name}: an agent that was connected resumes, there and back`, async (t) => {
      const here = await storedHost(t);
      let host = await here.up();
      const states: string[] = [];
      await using agent = await here.agent(here.addresses().tcp as string, states);
      const id = agent.sessionId;
      const echo = async (n: number) => (await agent.tools.call<{ n: number }>('echo', { n })).data?.n;
      assert.equal(await echo(1), 1);
      for (const [round, clock] of [ms, 0].entries()) {
        await delay(WRITTEN_MS);
        await here.kill(host);
        host = await here.up(clock);
        assert.equal(await echo(round + 2), round + 2);
        await delay(SWEPT_MS);
        assert.equal(agent.sessionId, id);
      }
      assert.equal(states.filter((state) => state === 'resumed').length, 2);
      const replies = (await here.tail(id)).filter((line) => JSON.parse(line).kind === 'reply');
      assert.deepEqual(
        replies.map((line) => Number(/"n":(\d+)/.exec(line)?.[1])),
        [1, 2, 3],
      );
    });
  }

  test('40 days back: a session without a link has one window, measured by a clock that is never set', async (t) => {
    const here = await storedHost(t);
    const id = await here.leftBehind();
    // From now on the wall clock determines when its link was lost: at the start of this host.
    let host = await here.up();
    await delay(WRITTEN_MS);
    await here.kill(host);
    host = await here.up(-40 * DAY_MS);
    assert.equal((await here.resume(id)).session_id, id, 'it is not lost early');
    await delay(WRITTEN_MS);
    await here.kill(host);
    here.configure(2_000);
    host = await here.up(-80 * DAY_MS);
    await delay(3_000);
    assert.notEqual((await here.resume(id)).session_id, id, 'nor does it stay');
    await here.kill(host);
    await here.up();
    assert.notEqual((await here.resume(id)).session_id, id, 'nor come back');
    assert.match((await here.tail(id)).join(), /"n":1/, 'its entries stay for their own time');
  });

  test('40 days ahead: a session without a link has ended, and its entries are there', async (t) => {
    const here = await storedHost(t);
    const id = await here.leftBehind();
    const host = await here.up();
    await delay(WRITTEN_MS);
    await here.kill(host);
    await here.up(40 * DAY_MS);
    await delay(SWEPT_MS);
    assert.notEqual((await here.resume(id)).session_id, id);
    assert.match((await here.tail(id)).join(), /"n":1/);
  });
});

for (const { name, ms } of JUMPS) {
  test(`F-109: a journal whose clock stays ${name} drops records and entries after the time in use, not before`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'handfast-clock-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const start = Date.now();
    let offset = 0;
    let passed = 0;
    const now = () => start + offset + passed;
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const live = new Set<string>();
    const open = () =>
      sqliteJournal({
        file: join(folder, 'journal.db'),
        now,
        monotonicNow: () => passed,
        expiry: { maxAgeMs: 30 * DAY_MS, maxSessions: 1000, retains: (session) => live.has(session) },
      });
    /** Lets a sweep run to its end. */
    const sweep = async (after: number) => {
      t.mock.timers.tick(after);
      for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
    };
    const record: SessionRecord = { agent_id: 'a', granted: [], extensions: ['handfast/resume'], restarts: 0 };
    const entry = (cursor: number) => ({ cursor, ts: now(), kind: 'event', request: '', body: 'x' });

    let journal = await open();
    for (const [session, more] of [
      ['attached', {}],
      ['detached', { detached_at: now() }],
    ] as const) {
      await journal.append(session, [entry(1)], 'durable', 'ann');
      (journal.records as SessionRecords).put(session, JSON.stringify({ ...record, ...more }));
    }
    await sweep(1000);
    await journal.close();

    offset = ms;
    const loaded = () => new StoredSessions(journal.records as SessionRecords, 60_000, now).load().map(({ id }) => id);
    const names = async () => (await journal.sessions()).map(({ session }) => session).sort();
    journal = await open();
    await sweep(1000);
    await sweep(HOUR_MS);
    assert.deepEqual(await names(), ['attached', 'detached']);
    assert.deepEqual(loaded().sort(), ms > 0 ? ['attached'] : ['attached', 'detached']);

    // 28 days in use, and a day for the jump, which may have been a pause. A session that a host has restored stays
    // while the host has it.
    passed += 28 * DAY_MS;
    await sweep(HOUR_MS);
    await journal.close();
    journal = await open();
    await sweep(1000);
    assert.deepEqual(await names(), ['attached', 'detached']);
    live.add('attached');
    passed += 4 * DAY_MS;
    await sweep(HOUR_MS);
    assert.deepEqual(await names(), ['attached']);
    live.clear();
    await sweep(HOUR_MS);
    assert.deepEqual(await names(), []);
    assert.deepEqual(loaded(), []);
    await journal.close();
  });
}
