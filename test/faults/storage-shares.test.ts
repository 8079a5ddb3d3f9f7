/**
 * Stored bytes of the journal have shares: a principal that has used up its share is refused until it deletes, also
 * after a restart, and the others never notice.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { ROLES } from '../../src/session/roles.ts';
import { StorageShares } from '../../src/session/storage-shares.ts';
import { type Client, composed, type WireError } from '../control/support/composed-control.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const KIB = 1024;
const token = (name: string): string => `${name}-token-of-a-test`;

/** Starts a server on a data directory, and a client for each principal. */
async function serve(t: TestContext, home: string) {
  const journal = await sqliteJournal({
    file: join(home, 'sessions.journal.db'),
    retention: { maxEntries: 1e6, maxBytes: 1e9 },
  });
  const auth = createAuthenticator(
    ['ann', 'bob'].map((name) => ({ principal: { name, ...ROLES.client }, digests: [tokenDigest(token(name))] })),
  );
  const base = await composed(t, {
    home,
    journal,
    auth,
    requireHandshake: true,
    backend: 'rehearsal',
    sessionLimits: { storedBytes: 64 * KIB },
  });
  const enter = async (name: string): Promise<Client> => {
    const client = base.client();
    await client.call('rpc.handshake', { token: token(name) });
    return client;
  };
  return { ...base, ann: await enter('ann'), bob: await enter('bob') };
}

test('a principal that has used up what may be stored for it is refused until it deletes, and no other principal is', {
  timeout: 300_000,
}, async (t) => {
  const home = temporaryFolder(t);
  const first = await serve(t, home);
  const { session_id } = await first.ann.call('session.create');
  const text = `say "${'x'.repeat(4 * KIB)}"`;
  let refusal: WireError | undefined;
  for (let turns = 0; turns < 40 && refusal === undefined; turns++) {
    const answer = await first.ann.request('session.send', { session_id, text });
    if (answer.error !== undefined) refusal = answer.error as WireError;
    else await first.ann.ended((answer.result as { turn_id: string }).turn_id);
  }
  assert.deepEqual([refusal?.code, refusal?.data.kind], [-32001, 'over_capacity']);
  assert.ok(Number(refusal?.data.retry_after_ms) > 0);
  assert.equal((await first.ann.refusal('session.create')).data.kind, 'over_capacity');
  const used = first.server.sessions.storage;
  assert.ok((used.principals.ann as number) >= 64 * KIB && used.refused === 2, JSON.stringify(used));
  const own = (await first.bob.call('session.create')).session_id as string;
  await first.bob.turn(own, 'say "hello"');
  await first.stop();

  const second = await serve(t, home);
  const again = second.server.sessions.storage.principals;
  assert.ok(
    Math.abs((again.ann as number) - (used.principals.ann as number)) < 4 * KIB,
    'the sum is read at the start',
  );
  assert.match((await second.ann.refusal('session.send', { session_id, text })).message, /delete some/);
  await second.bob.turn(own, 'say "still here"');
  // Its stored data can be read, and deleted; then it continues.
  assert.ok((await second.ann.call('session.get', { session_id })).messages.length > 0);
  await second.ann.call('session.delete', { session_id });
  const fresh = (await second.ann.call('session.create')).session_id as string;
  await second.ann.turn(fresh, 'say "again"');
});

test('where all together store too much, those with more than an equal part are refused', () => {
  const shares = new StorageShares({ storedBytes: 1000, totalStoredBytes: 1200 });
  shares.add('s1', 'ann', 900);
  shares.add('s2', 'bob', 400);
  const ann = { name: 'ann' };
  assert.throws(() => shares.mustHaveRoom(ann), { code: 'over_capacity' });
  shares.mustHaveRoom({ name: 'bob' });
  shares.mustHaveRoom({ name: 'new' });
  shares.delete('s2');
  shares.mustHaveRoom(ann);
  assert.throws(() => shares.mustHaveRoom({ ...ann, limits: { storedBytes: 900 } }), { code: 'over_capacity' });
  assert.deepEqual(shares.usage, { used: 900, principals: { ann: 900 }, refused: 2 });
});
