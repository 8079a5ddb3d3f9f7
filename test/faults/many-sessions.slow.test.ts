/**
 * F-101: ten thousand empty sessions. The journal grows linearly with them, the server's stream in it is bounded, and
 * no event lists ids or names a session of another principal.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { SERVER_STREAM } from '../../src/control/sessions/log/server-events.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { ROLES } from '../../src/session/roles.ts';
import { type Client, composed } from '../control/support/composed-control.ts';

const SESSIONS = 10_000;
/** Sessions that are created at a time. */
const WIDTH = 100;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const SERVER_RETENTION = { maxEntries: 4096, maxBytes: 4 * 1024 * 1024 };

/** Returns the bytes of all bodies, and of those of the server alone. */
function stored(file: string): { all: number; server: number } {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const sum = (where: string) =>
      Number((db.prepare(`SELECT coalesce(sum(bytes), 0) AS sum FROM sessions ${where}`).get() as { sum: number }).sum);
    return { all: sum(''), server: sum(`WHERE session = '${SERVER_STREAM}'`) };
  } finally {
    db.close();
  }
}

test('F-101: 10,000 sessions make a journal that grows linearly and events that name no sessions of others', {
  timeout: 600_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-many-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.db');
  const journal = await sqliteJournal({
    file,
    retention: { maxEntries: 1e6, maxBytes: 1e9 },
    retentionOf: { [SERVER_STREAM]: SERVER_RETENTION },
  });
  const names = ['ann', 'bob', 'root'];
  const auth = createAuthenticator(
    names.map((name) => ({
      principal: { name, ...(name === 'root' ? ROLES.admin : ROLES.client) },
      digests: [tokenDigest(`${name}-token-of-a-test`)],
    })),
  );
  const { client, stop } = await composed(t, {
    journal,
    auth,
    requireHandshake: true,
    backend: 'rehearsal',
    sessionLimits: { sessions: 2 * SESSIONS, perPrincipal: SESSIONS, loaded: 64 },
  });
  const clients: Record<string, Client> = {};
  for (const name of names) {
    const one = client();
    await one.call('rpc.handshake', { protocol_version: '1.0.0', token: `${name}-token-of-a-test` });
    clients[name] = one;
  }
  const [ann, bob, root] = names.map((name) => clients[name] as Client) as [Client, Client, Client];
  const own = (await bob.call('session.create')).session_id as string;

  const sizes: number[] = [];
  for (let made = 0; made < SESSIONS; made += WIDTH) {
    await Promise.all(Array.from({ length: WIDTH }, () => ann.call('session.create')));
    if ([SESSIONS / 4, SESSIONS / 2, SESSIONS].includes(made + WIDTH)) {
      await journal.sessions(1);
      sizes.push(stored(file).all);
    }
  }
  const [quarter = 0, half = 0, whole = 0] = sizes;
  const perSession = [(half - quarter) / (SESSIONS / 4), (whole - half) / (SESSIONS / 2)];
  assert.ok(
    (perSession[1] as number) <= (perSession[0] as number) * 1.2,
    `bytes a session grow with their number: ${perSession}`,
  );
  assert.ok(stored(file).server <= SERVER_RETENTION.maxBytes);

  const ofServer = await journal.read(SERVER_STREAM, 0, 100_000);
  assert.ok(ofServer.entries.length <= SERVER_RETENTION.maxEntries && ofServer.entries.length > 1000);
  for (const { body, request } of ofServer.entries) {
    const ids = new Set(String(body).match(UUID));
    assert.ok(ids.size <= 1, 'a stored event lists ids');
    if (ids.size === 1) assert.ok(request === 'ann' || request === 'bob', 'an event that names a session has an owner');
  }
  assert.deepEqual(
    bob.events.filter(({ payload }) => (JSON.stringify(payload).match(UUID) ?? []).some((id) => id !== own)),
    [],
    'another principal’s session was named',
  );
  for (const { type, payload } of [...ann.events, ...root.events]) {
    if (type !== 'state.changed') continue;
    assert.ok(new Set(JSON.stringify(payload).match(UUID)).size <= 1, 'an event lists ids');
  }
  const { sessions } = await ann.call('state.get');
  assert.deepEqual([sessions.count, sessions.ids.length], [SESSIONS, SESSIONS], 'who asks gets the list of its own');
  assert.deepEqual((await bob.call('state.get')).sessions, { count: 1, ids: [own] });
  // Replayed events for another principal are filtered like live ones.
  const before = bob.events.length;
  await bob.call('events.subscribe', { after_seq: 0 });
  await bob.call('state.get');
  for (const { payload } of bob.events.slice(before)) {
    assert.ok((JSON.stringify(payload).match(UUID) ?? []).every((id) => id === own));
  }
  await stop();
});
