import assert from 'node:assert/strict';
import { connect as netConnect, type Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { contractHost } from '../support/contract-host.ts';
import { rawAgent } from '../support/raw-agent.ts';
import { doorOf } from '../support/sites.ts';

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

test('F-21: a thousand silent sockets hold no more slots than there are, and delay no other client', async () => {
  // So long that no client can wait for a free slot.
  const host = await contractHost('open', () => {}, { limits: { handshakeTimeoutMs: 600_000 } });
  const door = await doorOf('tcp', host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  const before = rawAgent(host);
  await before.shake();

  const silent: Socket[] = [];
  const address = parseTcpAddress(door.address as string);
  for (let at = 0; at < 1_000; at++) {
    const socket = netConnect(address);
    socket.on('error', () => {});
    silent.push(socket);
    if (at % 50 === 49) await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  }
  closing.push(() => silent.forEach((socket) => void socket.destroy()));
  assert.ok(host.health().pending_links <= host.limits.maxPendingConnections);

  for (let round = 0; round < 20; round++) {
    const good = await door.dial();
    assert.equal((await good.shake()).ok, true);
    good.cut();
  }
  before.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: { n: 1 } });
  assert.equal((await before.answer('c')).data.data.n, 1);
  assert.ok(host.health().pending_links <= host.limits.maxPendingConnections);
});

describe('F-21: the deadline of the handshake is absolute', { concurrency: true }, () => {
  const TIMEOUT_MS = 300;
  for (const transport of ['memory', 'tcp', 'unix', 'websocket', 'http'] as const) {
    test(`over ${transport}: silence, half a line and one byte at a time all end in time`, async () => {
      const host = await contractHost('open', () => {}, { limits: { handshakeTimeoutMs: TIMEOUT_MS } });
      const door = await doorOf(transport, host);
      closing.push(
        () => host.close(0),
        () => door.close(),
      );
      const peers = await Promise.all([door.dial(), door.dial(), door.dial(), door.dial()]);
      const [, stalled, dripping, pinging] = peers;
      stalled?.write('{"type":"handshake/req",');
      const drip = setInterval(() => {
        dripping?.write(' ');
        pinging?.write('{"type":"ping","id":"p"}\n');
      }, 40);
      closing.push(() => clearInterval(drip));
      await Promise.all(peers.map((peer) => peer.closed()));
      clearInterval(drip);
      assert.deepEqual([host.health().pending_links, host.health().sessions], [0, 0]);
    });
  }
});
