/**
 * Prompts that wait, and long conversations, are held in memory: one principal can fill its own share of it, not the heap of
 * the server. Over a real server's wire.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { ROLES } from '../../src/session/roles.ts';
import { type Client, composed, type WireError } from '../control/support/composed-control.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const MIB = 1024 * 1024;
/** With the words of a directive around it, the longest prompt. */
const PROMPT = 'x'.repeat(MIB - 64);
const token = (name: string): string => `${name}-token-of-a-test`;

test('prompts that wait fill the share of their principal; room is made as they go and by what is idle; no other notices', async (t) => {
  const home = temporaryFolder(t);
  const auth = createAuthenticator(
    ['ann', 'bob'].map((name) => ({ principal: { name, ...ROLES.client }, digests: [tokenDigest(token(name))] })),
  );
  const journal = await sqliteJournal({ file: join(home, 'j.db'), retention: { maxEntries: 1e6, maxBytes: 1e9 } });
  const sessionLimits = { memoryBytes: 8 * MIB };
  const base = await composed(t, { home, journal, auth, requireHandshake: true, backend: 'rehearsal', sessionLimits });
  const enter = async (name: string): Promise<Client> => {
    const client = base.client();
    await client.call('rpc.handshake', { token: token(name) });
    return client;
  };
  const [ann, bob] = [await enter('ann'), await enter('bob')];
  const create = async (client: Client): Promise<string> => (await client.call('session.create')).session_id;
  const say = async (client: Client, session_id: string, text: string): Promise<void> => {
    await client.ended((await client.call('session.send', { session_id, text })).turn_id);
  };

  // Conversations that are idle: they are unloaded when room is needed, and read again when they are.
  const idle = [await create(ann), await create(ann), await create(ann)];
  for (const session_id of idle) await say(ann, session_id, `say "${PROMPT}"`);
  for (const session_id of idle) assert.equal((await ann.call('session.get', { session_id })).messages.length, 2);

  // Prompts that wait, in two sessions.
  const busy = [await create(ann), await create(ann)];
  for (const session_id of busy) await ann.call('session.send', { session_id, text: 'wait 600000 ms' });
  let refusal: WireError | undefined;
  let sent = 0;
  for (; sent < 40 && refusal === undefined; sent += 1) {
    const params = { session_id: busy[sent % 2], text: PROMPT, enqueue: true };
    refusal = (await ann.request('session.send', params)).error as WireError | undefined;
  }
  assert.equal(refusal?.data.kind, 'over_capacity');
  assert.ok(Number(refusal?.data.retry_after_ms) > 0);
  // A prompt is among the turns, too.
  assert.ok(sent >= 4 && sent <= 9, `${sent} prompts of 1 MiB in a share of 8`);
  const steer = await ann.refusal('session.steer', { session_id: busy[0], text: PROMPT });
  assert.equal(steer.data.kind, 'over_capacity');
  assert.equal(base.server.sessions.memory.refused, 2);

  const other = await create(bob);
  await say(bob, other, 'say "fine"');
  for (const session_id of busy) await ann.call('session.queue.clear', { session_id });
  await ann.call('session.send', { session_id: busy[0], text: 'say "again"', enqueue: true });
});
