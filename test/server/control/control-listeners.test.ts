/**
 * Session RPC on the listeners of a whole server: the settings of its section of the configuration hold at every address.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { serve } from '../../../src/server/serve.ts';
import type { Link } from '../../../src/transport/link.ts';
import { connectTcp, connectUnix } from '../../../src/transport/socket.ts';
import { connectWebSocket } from '../../../src/transport/websocket.ts';
import { RpcPeer } from '../../control/rpc/rpc-peer.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

/** Starts a server with this section `control`; returns a dialler for each way in. */
async function started(t: TestContext, control: string, more = '') {
  const folder = temporaryFolder(t);
  const socket = join(folder, 's');
  writeFileSync(
    join(folder, 'handfast.yaml'),
    `listen: ["http://127.0.0.1:0", "tcp://127.0.0.1:0", "unix://${socket}"]\ncontrol:\n${control}\n${more}`,
  );
  const config = await loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } });
  const server = await serve(config, { announce: false });
  t.after(() => server.close(0));
  const [http = '', tcp = ''] = server.listeners;
  const dial: Readonly<Record<string, () => Promise<Link>>> = {
    '/ws': () => connectWebSocket(`${http.replace('http', 'ws')}/ws`),
    '/rpc': () => connectWebSocket(`${http.replace('http', 'ws')}/rpc`),
    tcp: () => connectTcp(tcp),
    unix: () => connectUnix(`unix://${socket}`),
  };
  const token = server.tokenFile === undefined ? undefined : readFileSync(server.tokenFile, 'utf8').trim();
  return { dial, token };
}

/** A request as one line of about `bytes` bytes. */
const filler = (bytes: number) => ({ text: 'x'.repeat(bytes) });

test('a prompt may be as long at /ws as at every other address', async (t) => {
  const { dial, token } = await started(t, '  backend: rehearsal');
  for (const [name, open] of Object.entries(dial)) {
    const peer = new RpcPeer(await open());
    await peer.call('rpc.handshake', { token });
    // Eight images of the largest size would not fit; one does, and takes more than any message of another edge.
    const images = [{ data_url: filler(11 * 1024 * 1024).text }];
    const unknown = await peer.refusal('session.send', { session_id: 'none', images });
    assert.equal(unknown.data.kind, 'session_not_found', name);
    await peer.close();
  }
});

test('the configuration says how long a line may be, and at every address it is the same', async (t) => {
  const { dial, token } = await started(t, '  backend: rehearsal\n  max_message_bytes: 131072');
  for (const [name, open] of Object.entries(dial)) {
    const peer = new RpcPeer(await open());
    await peer.call('rpc.handshake', { token });
    assert.equal((await peer.call('system.ping', filler(120_000))).ok, true, name);
    peer.begin('system.ping', filler(140_000));
    const { error } = await peer.answer(null);
    assert.deepEqual([error?.data.kind, error?.data.limit], ['too_large', 131_072], name);
    await peer.close();
  }
});

test('only prompts and imports of those who may drive sessions are long', async (t) => {
  const [driver, watcher] = ['d'.repeat(40), 'w'.repeat(40)];
  const tokens = `auth:
  tokens:
    - { name: driver, token: ${driver}, roles: [client] }
    - { name: watcher, token: ${watcher}, capabilities: [tools] }`;
  const { dial } = await started(t, '  backend: rehearsal', tokens);
  const limit = 1024 * 1024;
  for (const [name, open] of Object.entries(dial)) {
    const peer = new RpcPeer(await open());
    await peer.call('rpc.handshake', { token: driver });
    const { message, data } = await peer.refusal('system.ping', filler(2 * limit));
    assert.match(message, /limits\.max_message_bytes/, name);
    assert.deepEqual([data.kind, data.limit], ['too_large', limit], name);
    const members = Object.fromEntries(Array.from({ length: 40_000 }, (_, at) => [`k${at}`, 0]));
    peer.begin('system.ping', members);
    const { error } = await peer.answer(null);
    assert.deepEqual([error?.data.kind, error?.data.unit], ['too_large', 'values'], name);
    assert.equal((await peer.call('system.ping')).ok, true, name);
    await peer.close();

    const other = new RpcPeer(await open());
    await other.call('rpc.handshake', { token: watcher });
    other.begin('session.send', filler(2 * limit));
    const refused = await other.answer(null);
    assert.deepEqual([refused.error?.data.kind, refused.error?.data.limit], ['too_large', limit], name);
    assert.equal((await other.call('system.ping')).ok, true, name);
    await other.close();
  }
});

test('with require_handshake nothing is answered before one, although no token is required', async (t) => {
  const open = 'auth: { required: false }';
  const strict = await started(t, '  backend: rehearsal\n  require_handshake: true', open);
  const lax = await started(t, '  backend: rehearsal', open);
  for (const [name, connect] of Object.entries(strict.dial)) {
    const peer = new RpcPeer(await connect());
    assert.equal((await peer.refusal('session.list')).data.kind, 'handshake_required', name);
    await peer.call('rpc.handshake');
    assert.deepEqual((await peer.call('session.list')).sessions, [], name);
    await peer.close();
  }
  const peer = new RpcPeer(await (lax.dial['/rpc'] as () => Promise<Link>)());
  assert.deepEqual((await peer.call('session.list')).sessions, []);
  await peer.close();
});
