/**
 * The events of a sign-in are an invitation to sign in: they reach the principal that started it and administrators, over
 * sockets, live and replayed.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { ROLES } from '../../../src/session/roles.ts';
import { connectWebSocket } from '../../../src/transport/websocket.ts';
import { stand } from '../client/stand.ts';
import { startLoginService } from '../support/login-service.ts';
import { type RpcEvent, RpcPeer } from './rpc-peer.ts';

const FLOW = ['auth.flow.started', 'auth.flow.url', 'auth.flow.device_code', 'auth.flow.completed'];

async function server(t: TestContext) {
  const login = await startLoginService();
  t.after(() => login[Symbol.asyncDispose]());
  const grant = (name: string, more: object = {}) => ({
    principal: { name, ...ROLES.client, settings: true, ...more },
    digests: [tokenDigest(name)],
  });
  const auth = createAuthenticator([grant('ann', { admin: true }), grant('bob'), grant('eve')]);
  const { webSocket } = await stand(t, { auth, env: login.env });
  const peer = async (token: string): Promise<RpcPeer> => {
    const opened = new RpcPeer(await connectWebSocket(webSocket));
    t.after(() => opened.close());
    await opened.call('rpc.handshake', { token });
    return opened;
  };
  return { login, peer };
}

/** Returns the types of the `auth.` events that a peer received up to the end of the sign-in, which every client receives. */
async function told(peer: RpcPeer): Promise<string[]> {
  const isEnd = ({ payload }: RpcEvent): boolean => payload.reason === 'auth_openai_connected';
  await peer.recorder.until(() => peer.events.some(isEnd), 'the state behind the sign-in');
  return peer.events.map(({ type }) => type).filter((type) => type.startsWith('auth.'));
}

test('the addresses and codes of a sign-in go to its principal and to administrators, and to no other client', async (t) => {
  const { peer } = await server(t);
  const [bob, sameBob, ann, eve] = await Promise.all(['bob', 'bob', 'ann', 'eve'].map(peer));
  await bob!.call('auth.connect.openai', { mode: 'device_code' });
  assert.deepEqual(await told(bob!), FLOW);
  assert.deepEqual(await told(sameBob!), FLOW, 'another connection of the same principal');
  assert.deepEqual(await told(ann!), FLOW, 'an administrator');
  assert.deepEqual(await told(eve!), [], 'another principal');
});

test('a replay of the events of the server leaves out the sign-ins of others, also where they follow live', async (t) => {
  const { peer } = await server(t);
  const [bob, eve] = await Promise.all(['bob', 'eve'].map(peer));
  await eve!.call('events.subscribe', { after_seq: 0 });
  await bob!.call('auth.connect.openai', { mode: 'device_code' });
  assert.deepEqual(await told(eve!), []);
  for (const [name, types] of [
    ['eve', []],
    ['bob', FLOW],
    ['ann', FLOW],
  ] as const) {
    const late = await peer(name);
    await late.call('events.subscribe', { after_seq: 0 });
    assert.deepEqual(await told(late), types, name);
  }
});

test('a sign-in that fails is reported to its principal, and others can neither see nor end it', async (t) => {
  const { login, peer } = await server(t);
  login.behaviour.device = 'wait';
  const [bob, eve] = await Promise.all(['bob', 'eve'].map(peer));
  const refused = bob!.refusal('auth.connect.openai', { mode: 'browser' });
  await bob!.event('auth.flow.url');
  assert.deepEqual(await eve!.call('auth.cancel'), { cancelled: false });
  assert.deepEqual(await bob!.call('auth.cancel'), { cancelled: true });
  assert.match((await refused).message, /cancelled/);
  await bob!.event('auth.flow.failed');
  await eve!.quiet();
  assert.deepEqual(eve!.events, []);
});
