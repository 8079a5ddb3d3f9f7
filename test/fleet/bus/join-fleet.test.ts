/**
 * Joining by address: over a WebSocket, and over plain HTTP where something on the way refuses that.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { join as joinFleet } from '../../../src/bridge/join-fleet.ts';
import { streamBus } from '../../../src/fleet/bus/stream/stream-bus.ts';
import { httpSseEndpoint } from '../../../src/transport/http/http-sse.ts';
import { webSocketAcceptor } from '../../../src/transport/websocket.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';

/** Starts an orchestrator behind one HTTP port; counts its requests. */
async function port(t: TestContext, upgrades: 'taken' | 'refused') {
  const bus = streamBus({ name: 'orchestrator', log: quiet });
  await bus.start(new PeerRecorder());
  const acceptor = webSocketAcceptor();
  const { routes } = httpSseEndpoint({ accept: (link) => bus.accept(link) });
  const asked = { upgrades: 0, requests: 0 };
  const http = createServer((request, response) => {
    asked.requests += 1;
    const route = routes.find(({ method, path }) => method === request.method && path === request.url);
    void route?.handle(request, response, route.path);
  });
  http.on('upgrade', (request, socket, head) => {
    asked.upgrades += 1;
    if (upgrades === 'taken') acceptor.handle(request, socket, head, (link) => bus.accept(link));
    else socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  t.after(async () => {
    await bus.close();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  return { address, asked };
}

const reconnect = { backoff: { firstDelayMs: 1, maxDelayMs: 5 } };

test('an http:// address is joined over a WebSocket', async (t) => {
  const { address, asked } = await port(t, 'taken');
  const joined = joinFleet(new ScriptedWorker(), address, { log: quiet, reconnect });
  t.after(() => joined.close());
  await joined.accepted;
  assert.deepEqual(asked, { upgrades: 1, requests: 0 });
});

test('where WebSockets are refused on the way it is joined over requests and an event stream', async (t) => {
  const { address, asked } = await port(t, 'refused');
  const joined = joinFleet(new ScriptedWorker(), address, { log: quiet, reconnect });
  t.after(() => joined.close());
  await joined.accepted;
  assert.equal(asked.upgrades, 1);
  assert.ok(asked.requests > 0);
});

test('an address of no known form is refused at once', () => {
  assert.throws(() => joinFleet(new ScriptedWorker(), 'ftp://127.0.0.1', { log: quiet }), { code: 'usage' });
});

test('an address that only looks like a known form is refused at the first attempt, and never retried', async (t) => {
  for (const address of ['unix:/run/fleet.sock', 'tcp://orchestrator']) {
    const joined = joinFleet(new ScriptedWorker(), address, { log: quiet, reconnect });
    t.after(() => joined.close());
    assert.equal((await joined.closed)?.code, 'usage');
    await assert.rejects(joined.accepted, { code: 'usage' });
  }
});
