/**
 * A server of sessions that is killed over and over: no acknowledged change is lost, every turn ends exactly once over
 * all its starts, and no event number ever means two events.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openSessionStore } from '../../src/control/sessions/store/store.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { within } from '../contract/recorder.ts';
import { Harness, isTerminal } from '../control/sessions/harness.ts';
import { random } from '../journal/fixtures/random.ts';

const SERVER = fileURLToPath(new URL('fixtures/session-server.ts', import.meta.url));
const LIVES = 8;
/** With fewer acknowledgements nothing is proved: if the kills were early, more starts follow. */
const ENOUGH = 60;
const MAX_LIVES = 60;

/** Runs the server, kills it some moments after it was ready, and returns all of its output. */
async function live(directory: string, afterLines: number): Promise<string[]> {
  const child = spawn(process.execPath, ['-C', 'handfast-source', SERVER, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const closed = once(child, 'close');
  let text = '';
  let counted = -1;
  const ready = Promise.withResolvers<void>();
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    if (counted < 0 && /^ready$/m.test(text)) counted = 0;
    if (counted >= 0) counted += chunk.split('\n').length - 1;
    if (counted >= afterLines) ready.resolve();
  });
  child.once('exit', () => ready.resolve());
  try {
    await within(ready.promise, 'the server to be busy', 30_000);
    assert.equal(child.exitCode, null, 'the server ended by itself');
  } finally {
    child.kill('SIGKILL');
    await closed;
  }
  // The last line may be cut.
  return text.split('\n').slice(0, -1);
}

test('a server that is killed at any time loses nothing it acknowledged, and ends every turn once', {
  timeout: 180_000,
}, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'handfast-kill-'));
  const seed = Date.now() % 1_000_000;
  const below = random(seed);
  const lines: string[] = [];
  const acks = (): string[] => lines.flatMap((line) => /^ack \S+ (\S+)$/.exec(line)?.[1] ?? []);
  for (let life = 0; life < LIVES || (acks().length < ENOUGH && life < MAX_LIVES); life += 1) {
    lines.push(...(await live(directory, below(900))));
  }

  const journal = await sqliteJournal({
    file: join(directory, 'journal.db'),
    retention: { maxEntries: 1e6, maxBytes: 1e9 },
  });
  const store = openSessionStore({ file: join(directory, 'sessions.db') });
  const harness = await Harness.start({ journal, store });
  const where = `seed ${seed}`;
  // Waiting turns run now, with any outcome: the script is empty.
  for (const id of harness.sessions.liveIds()) {
    const { queue, turn } = harness.sessions.open(id).record;
    for (const { turnId } of queue) await harness.ended(turnId);
    if (turn !== null && queue.length === 0) await harness.ended(turn.id);
  }

  const created = lines.flatMap((line) => /^created (\S+)$/.exec(line)?.[1] ?? []);
  assert.deepEqual(
    created.filter((id) => !harness.sessions.liveIds().includes(id)),
    [],
    where,
  );
  const hashes = new Map<string, string>();
  const missing = new Set<string>();
  const ends = new Map<string, number>();
  const issued = new Set<string>();
  const messageIds = new Set<number>();
  let events = 0;
  for (const id of harness.sessions.liveIds()) {
    let at = 0;
    for (;;) {
      const page = await harness.sessions.events.read(id, at, 500);
      if (page.gap !== undefined) {
        assert.equal(page.gap.from_seq, at + 1, where);
        missing.add(`${id} ${page.gap.from_seq} ${page.gap.to_seq}`);
        at = page.gap.to_seq;
      }
      for (const event of page.events) {
        assert.equal(event.seq, at + 1, `${where}: the numbers of events have a hole that is no gap`);
        at = event.seq;
        events += 1;
        hashes.set(`${id} ${event.seq}`, createHash('sha1').update(event.line).digest('hex'));
        const { turn_id, message } = event.params.payload as { turn_id?: string; message?: { id: number } };
        if (event.type === 'session.turn.started' || event.type === 'session.turn.queued') issued.add(turn_id!);
        if (isTerminal(event)) ends.set(turn_id!, (ends.get(turn_id!) ?? 0) + 1);
        if (event.type === 'session.message.appended' && message !== undefined) {
          assert.ok(!messageIds.has(message.id), `${where}: message ${message.id} twice`);
          messageIds.add(message.id);
        }
      }
      if (page.gap === undefined && page.events.length === 0) break;
    }
    assert.equal(at, harness.sessions.events.lastSeq(id), where);
    const { record } = harness.sessions.open(id);
    assert.deepEqual([record.phase, record.turn, record.queue], ['idle', null, []], where);
  }
  const acknowledged = acks();
  for (const turnId of acknowledged) assert.equal(ends.get(turnId), 1, `${where}: acknowledged turn ${turnId}`);
  for (const turnId of issued) assert.equal(ends.get(turnId), 1, `${where}: turn ${turnId}`);
  for (const [turnId, count] of ends) assert.equal(count, 1, `${where}: turn ${turnId} ended ${count} times`);
  // A client finds its received events again, or it receives a gap.
  let lost = 0;
  for (const line of lines) {
    const [, id, seq, hash] = /^told (\S+) (\d+) (\w{40})$/.exec(line) ?? [];
    if (id === undefined) continue;
    const now = hashes.get(`${id} ${seq}`);
    if (now === undefined) lost += 1;
    else assert.equal(now, hash, `${where}: event ${seq} of ${id} is another one now`);
  }
  assert.ok(acknowledged.length >= ENOUGH && events > 500, `${where}: ${acknowledged.length} acks, ${events} events`);
  assert.ok(lost === 0 || missing.size > 0, `${where}: ${lost} events are gone without a gap`);
  await harness.stop();
  rmSync(directory, { recursive: true });
});
