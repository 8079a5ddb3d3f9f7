import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Journal, JournalEntry } from '../../src/journal/journal.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { Progress } from '../../src/journal/sqlite/progress.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { contractHost } from '../support/contract-host.ts';
import { doorOf } from '../support/sites.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

test('F-42: a clock that jumps changes the times that are written down, and nothing else', async () => {
  const start = 1_767_225_600_000;
  let now = start;
  const journal: Journal = memoryJournal();
  const host = await contractHost('open', () => {}, {
    now: () => now,
    journal,
    limits: { idleTimeoutMs: 1_000, resumeWindowMs: 600_000, handshakeTimeoutMs: 600_000 },
  });
  const door = await doorOf('tcp', host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  const silent = await door.dial();
  const away = await door.dial();
  const left = await away.shake({ extensions: { 'handfast/resume': {} } });
  away.cut();
  const peer = await door.dial();
  const { session_id } = await peer.shake({ extensions: { 'handfast/resume': {} } });

  for (const [round, ms] of [10 * DAY_MS, -DAY_MS, -5_000, 365 * DAY_MS, -start + 1, 0].entries()) {
    const id = `c${round}`;
    peer.send({ type: 'tool/call/req', id, tool_name: 'wait', arguments: { ms: 60_000 }, timeout: 0.4 });
    peer.send({ type: 'tool/call/req', id: `${id}-ok`, tool_name: 'wait', arguments: { ms: 20 }, timeout: 30 });
    await peer.ping();
    now = start + ms;
    const answerTo = (request: string) => peer.messages.find(({ req_id }) => req_id === request);
    // The patience of a test is far less than the duration of the late one without its deadline.
    await peer.until(() => answerTo(`${id}-ok`) !== undefined && answerTo(id) !== undefined, 'both answers');
    assert.equal(answerTo(`${id}-ok`)?.type, 'tool/call/resp', 'a deadline came early');
    const late = answerTo(id);
    assert.deepEqual([late?.code, late?.ts], ['timeout', now / 1000]);
    assert.equal(host.health().sessions, 2, 'sessions expired by the clock on the wall');
    assert.equal(silent.over, false, 'a link before its handshake was dropped by the clock on the wall');
  }
  const again = await door.dial();
  const resumed = await again.shake({
    extensions: { 'handfast/resume': { session_id: left.session_id, cursor: 0 } },
  });
  assert.equal(resumed.session_id, left.session_id);

  // Entries stay in the order in which they were written, with any times.
  const { entries } = await journal.read(session_id, 0, 1_000);
  const cursors = entries.map(({ cursor }: JournalEntry) => cursor);
  assert.deepEqual(
    cursors,
    [...cursors].sort((one, other) => one - other),
  );
  assert.ok(entries.some(({ ts }, at) => at > 0 && ts < (entries[at - 1] as JournalEntry).ts));

  // Real time still counts.
  const until = performance.now() + 10_000;
  while (host.health().sessions > 0) {
    assert.ok(performance.now() < until, 'an idle session never ended');
    await delay(20);
  }
});

test('F-103: the clock of retention counts time that passed, against any wall clock', () => {
  const start = 1_767_225_600_000;
  let wall = start;
  let passed = 0;
  const clock = (state: { progress: number; seenAt: number }) =>
    new Progress(
      state,
      30 * DAY_MS,
      () => wall,
      () => passed,
    );
  let one = clock({ progress: 0, seenAt: 0 });
  assert.deepEqual(one.advance(), { progress: 0, seenAt: start });
  // A day of use, with jumps: forty days ahead and back, and a step of an hour back.
  for (const offset of [40 * DAY_MS, 0, -3_600_000, 40 * DAY_MS, 0]) {
    passed += DAY_MS / 5;
    wall = start + passed + offset;
    one.advance();
  }
  const { progress, seenAt } = one.advance();
  assert.ok(progress >= DAY_MS && progress <= 2 * DAY_MS, `${progress / DAY_MS} days`);
  // A new process, a jump ahead at its start, again and again: a jump counts once, and a day at most.
  let state = { progress, seenAt };
  for (let round = 0; round < 10; round++) {
    wall = start + (round % 2) * 80 * DAY_MS;
    passed = 0;
    one = clock(state);
    state = one.advance();
  }
  assert.ok(state.progress - progress <= DAY_MS, `${(state.progress - progress) / DAY_MS} days in no time`);
  // Real pauses do count: a host that runs now and then forgets too.
  const paused = clock({ progress: 0, seenAt: start });
  wall = start + 3_600_000;
  assert.equal(paused.advance().progress, 3_600_000);
});

test('F-103: a clock 40 days ahead, and back, costs no session of a journal on disk', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-clock-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'journal.db');
  const start = Date.now();
  let offset = 0;
  let passed = 0;
  const entry = (cursor: number) => ({ cursor, ts: start + offset + passed, kind: 'event', request: '', body: 'x' });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const open = () =>
    sqliteJournal({
      file,
      now: () => start + offset + passed,
      monotonicNow: () => passed,
      expiry: { maxAgeMs: 30 * DAY_MS, maxSessions: 1000, retains: () => false },
    });
  /** Lets a sweep run to its end. */
  const sweep = async (ms: number) => {
    t.mock.timers.tick(ms);
    for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
  };
  const names = async (journal: Journal) => (await journal.sessions()).map(({ session }) => session).sort();

  let journal = await open();
  for (const name of ['a', 'b', 'c']) await journal.append(name, [entry(1)]);
  await sweep(1000);
  // While it runs, with an entry written meanwhile; at its next start; and back again, and a step back behind the start.
  offset = 40 * DAY_MS;
  await journal.append('ahead', [entry(1)]);
  await sweep(HOUR_MS);
  assert.deepEqual(await names(journal), ['a', 'ahead', 'b', 'c']);
  await journal.close();
  for (const jump of [40 * DAY_MS, 80 * DAY_MS, 0, -5_000, -40 * DAY_MS, 40 * DAY_MS]) {
    offset = jump;
    journal = await open();
    await journal.append('a', [entry((await journal.read('a', 0)).last + 1)]);
    await sweep(1000);
    await sweep(HOUR_MS);
    assert.deepEqual(await names(journal), ['a', 'ahead', 'b', 'c'], `after a jump of ${jump} ms`);
    await journal.close();
  }

  // Time that passes still counts.
  offset = 0;
  journal = await open();
  await sweep(1000);
  passed += 29 * DAY_MS;
  await journal.append('a', [entry((await journal.read('a', 0)).last + 1)]);
  await sweep(HOUR_MS);
  passed += 4 * DAY_MS;
  await sweep(HOUR_MS);
  assert.deepEqual(await names(journal), ['a']);
  await journal.close();
});
