/** Runs over sockets that are cut, and beside readers that read nothing. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { listenUnix } from '../../../src/transport/socket.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, call, chainHost } from './support.ts';

/** Starts a host on a socket, and a second socket before it whose links can be cut. */
async function site(t: TestContext) {
  const folder = temporaryFolder(t);
  const made = await chainHost(t, { journal: memoryJournal() });
  const path = join(folder, 'host');
  const listener = await listenUnix({ path }, (link) => made.host.accept(link));
  t.after(() => listener.close());
  const sockets = new Set<Socket>();
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((near) => {
    const far = connectSocket(path);
    for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => other.destroy());
      socket.pipe(other);
    }
  });
  server.listen(join(folder, 'before'));
  await once(server, 'listening');
  t.after(() => {
    cut();
    server.close();
  });
  return { ...made, path, before: `unix://${join(folder, 'before')}`, cut };
}

test('a run continues over a lost link, and its agent gets every event once', async (t) => {
  const { before, cut, held, release, called } = await site(t);
  const agent = await connect(before, { capabilities: ['chains'], agentId: 'cut', reconnect: { maxMs: 5 } });
  t.after(() => agent.close());
  const nodes = [call('a'), call('hold', { name: 'hold', after: ['a'] }), call('z', { after: ['hold'] })];
  const run = agent.chains.run({ nodes });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { fields } of run) {
      const { node_id, phase } = fields as Record<string, unknown>;
      seen.push(`${node_id} ${phase}`);
    }
  })();
  await held('hold');
  cut();
  release('hold');
  assert.equal((await run).success, true);
  await reading;
  assert.deepEqual(seen, ['a start', 'a done', 'hold start', 'hold done', 'z start', 'z done']);
  assert.deepEqual(called, ['a', 'hold', 'z']);
});

test('a reader that reads nothing does not hold the run it watches', { timeout: 25_000 }, async (t) => {
  const { host, path, held, release } = await site(t);
  const socket = connectSocket(path);
  t.after(() => socket.destroy());
  const send = (message: object): void =>
    void socket.write(`${JSON.stringify({ version: '1.0', ts: 1, ...message })}\n`);
  send({ type: 'handshake/req', id: 'h', agent_id: 'stuck', agent_caps: ['chains'], auth_token: '' });
  await once(socket, 'data');
  socket.pause();
  const { chains } = await agentOf(t, host);
  const large = Array.from({ length: 100 }, (_, at) =>
    call(`n${at}`, { after: [at === 0 ? 'hold' : `n${at - 1}`], input_map: { text: '$.text' } }),
  );
  const run = chains.run(
    { nodes: [call('hold', { name: 'hold' }), ...large] },
    { text: 'x'.repeat(200_000) },
    { chainId: 'r', durable: false },
  );
  await held('hold');
  send({ type: 'chain/watch/req', id: 'w', chain_id: 'r' });
  // Its reply comes after the watch: requests of a session start in order.
  send({ type: 'chain/runs/req', id: 'l' });
  await once(socket, 'readable');
  release('hold');
  const { success } = await run;
  socket.destroy();
  assert.equal(success, true);
});
