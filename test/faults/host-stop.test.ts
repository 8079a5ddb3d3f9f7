import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../src/connect.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { within } from '../contract/recorder.ts';
import { dialAddress } from '../support/carriers.ts';
import { contractHost } from '../support/contract-host.ts';
import { ownPort } from '../support/own-port.ts';
import { doorOf } from '../support/sites.ts';

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

/** Time for everything that a peer sends when it learns of the stop; the host uses all of it, because one call never ends. */
const GRACE_MS = 1_500;

const call = (id: string, ms: number): Record<string, unknown> => ({
  type: 'tool/call/req',
  id,
  tool_name: 'wait',
  arguments: { ms },
});

describe('F-38: a host that stops', () => {
  for (const transport of ['memory', 'tcp', 'unix', 'websocket', 'http'] as const) {
    test(`over ${transport}: lets finish what can, answers the rest with interrupted, takes nothing new, and ends its links`, async () => {
      const ran: string[] = [];
      const host = await contractHost('open', (name) => ran.push(name));
      const door = await doorOf(transport, host);
      closing.push(() => door.close());
      const [peer, idle, stranger] = [await door.dial(), await door.dial(), await door.dial()];
      await peer.shake();
      await idle.shake();
      peer.send(call('soon', 100));
      peer.send(call('never', 60_000));
      await peer.ping();
      const stopped = host.close(GRACE_MS);
      peer.send({ type: 'tool/call/req', id: 'late', tool_name: 'mark', arguments: { name: 'late' } });
      stranger.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'] });
      const late = await peer.answer('late');
      assert.deepEqual([late.code, late.detail.reason, late.retryable], ['runtime_error', 'interrupted', true]);
      assert.equal((await peer.answer('soon')).data.success, true);
      const never = await peer.answer('never');
      assert.deepEqual([never.code, never.retryable], ['runtime_error', false]);
      assert.deepEqual(never.detail, { reason: 'interrupted', may_have_run: true });
      await stopped;
      await Promise.all([peer.closed(), idle.closed(), stranger.closed()]);
      assert.deepEqual([peer.rest, idle.rest, ran], [[], [], []]);
      assert.ok(
        stranger.messages.every((message) => message.ok !== true),
        'a stopping host opened a session',
      );
      const { sessions, pending_links, running, abandoned } = host.health();
      assert.deepEqual([sessions, pending_links, running, abandoned], [0, 0, 0, 0]);
      assert.equal(host.close(), host.close(), 'stopping twice is one stop');
    });
  }

  test('does not wait for the time an agent granted itself', async () => {
    const host = await contractHost('open', () => {});
    const door = await doorOf('tcp', host);
    closing.push(() => door.close());
    const peer = await door.dial();
    await peer.shake();
    peer.send({ ...call('never', 60_000), timeout: 3_600 });
    peer.send({ type: 'shutdown', id: 's', timeout: 3_600 });
    peer.send({ type: 'tool/call/req', id: 'late', tool_name: 'echo', arguments: {} });
    await peer.answer('late');
    await within(host.close(50), 'the host to stop, with any claim of an agent');
    assert.equal((await peer.answer('never')).detail.reason, 'interrupted');
    await peer.closed();
  });

  for (const transport of ['tcp', 'websocket', 'http'] as const) {
    test(`over ${transport}: has said what it had to say when stop resolves, so that the process may end`, async () => {
      const script = fileURLToPath(new URL('./fixtures/stop-and-exit.ts', import.meta.url));
      const child = spawn(process.execPath, [script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      closing.push(() => child.kill('SIGKILL'));
      const [addresses] = await once(child, 'message');
      const peer = await dialAddress(addresses[transport]);
      await peer.shake();
      peer.send(call('never', 60_000));
      await peer.ping();
      child.send('stop');
      assert.equal((await peer.answer('never')).detail.reason, 'interrupted');
      if (child.exitCode === null) await once(child, 'exit');
      assert.equal(child.exitCode, 0);
      peer.cut();
    });
  }

  test('and starts again: a call of ours fails as one that may have run and is not run a second time behind the caller’s back', async () => {
    const ran: string[] = [];
    const first = await contractHost('open', (name) => ran.push(name));
    const before = await listenTcp({ port: await ownPort() }, (link) => first.accept(link));
    await using agent = await connect(before.address, { capabilities: ['tools'] });
    const pending = agent.tools.call('wait', { ms: 60_000 });
    await agent.tools.call('mark', { name: 'before' });
    const outcome = pending.catch((error) => error);
    await before.close();
    await first.close(50);
    const second = await contractHost('open', (name) => ran.push(name));
    const after = await listenTcp({ ...parseTcpAddress(before.address) }, (link) => second.accept(link));
    closing.push(
      () => second.close(0),
      () => after.close(),
    );
    const error = await outcome;
    assert.deepEqual([error.code, error.retryable, error.detail.may_have_run], ['interrupted', false, true]);
    assert.equal(second.health().running, 0);
    assert.deepEqual(ran, ['before']);
  });
});
