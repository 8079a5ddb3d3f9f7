import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Journal, JournalEntry } from '../../src/journal/journal.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { contractHost } from '../support/contract-host.ts';
import { doorOf } from '../support/sites.ts';

const DAY_MS = 86_400_000;

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
    // The patience of a test is far less than what the late one would take without its deadline.
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

  // Entries stay in the order in which they were written, whatever their times say.
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
