/**
 * Parts of the HTTP dialect by themselves: requests, the memory of tasks, and the first response to one.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { evictOldest } from '../../../src/base/evict-oldest.ts';
import { awaitFirstResponse, type FirstResponseOptions } from '../../../src/fleet/bus/http/first-response.ts';
import { endpointBelow, HttpClient } from '../../../src/fleet/bus/plain/http-client.ts';
import { OpenTasks } from '../../../src/fleet/bus/plain/open-tasks.ts';
import { fail, type HandfastError } from '../../../src/wire/errors.ts';

test('past its bound the oldest of a set are forgotten, and the newest stay', () => {
  const kept = new Set<number>();
  for (let n = 0; n < 100; n++) {
    kept.add(n);
    evictOldest(kept, 16);
    assert.ok(kept.size <= 16);
    assert.ok(kept.has(n));
  }
  assert.deepEqual(
    [...kept],
    [...kept].toSorted((a, b) => a - b),
  );
  assert.ok(kept.size >= 14);
});

test('tasks that have ended are forgotten before those that are open, in either order', () => {
  const tasks = new OpenTasks();
  const add = (n: number) =>
    tasks.add({ taskId: `t-${n}`, attempt: 1, contextId: `c-${n}`, replySchema: 'structured' });
  const open = Array.from({ length: 5_000 }, (_, n) => add(n));
  for (let n = 5_000; n < 25_000; n++) add(n).ended = true;
  for (const { taskId, contextId } of open) {
    assert.equal(tasks.get(taskId)?.ended, false);
    assert.equal(tasks.inContext(contextId)?.taskId, taskId);
  }
  assert.equal(tasks.get('t-5000'), undefined);
  assert.equal(tasks.inContext('c-5000'), undefined);
  assert.equal(tasks.get('t-24999')?.ended, true);
});

test('where nothing has ended, the oldest is forgotten all the same', () => {
  const tasks = new OpenTasks();
  for (let n = 0; n <= 10_000; n++)
    tasks.add({ taskId: `t-${n}`, attempt: 1, contextId: `c-${n}`, replySchema: 'structured' });
  assert.equal(tasks.get('t-0'), undefined);
  assert.equal(tasks.inContext('c-0'), undefined);
  assert.equal(tasks.get('t-1')?.taskId, 't-1');
});

interface Told {
  taken: number;
  readonly later: string[];
}

function waiting(told: Told, more: Partial<FirstResponseOptions> = {}): FirstResponseOptions {
  return {
    graceMs: 60_000,
    accepted: () => {
      told.taken += 1;
    },
    failedLater: ({ code }) => told.later.push(code),
    ...more,
  };
}

test('a response within the grace decides, with any content', async () => {
  const told: Told = { taken: 0, later: [] };
  const answered = async (onSent: () => void): Promise<void> => onSent();
  await awaitFirstResponse(answered, waiting(told));
  const refused = async (onSent: () => void): Promise<void> => {
    onSent();
    throw fail('over_capacity', 'busy');
  };
  await assert.rejects(awaitFirstResponse(refused, waiting(told)), { code: 'over_capacity' });
  assert.deepEqual(told, { taken: 0, later: [] });
});

test('silence after the request has left counts as accepted, and a failure after that is distinguished', async () => {
  const told: Told = { taken: 0, later: [] };
  const failure = Promise.withResolvers<void>();
  const ask = (onSent: () => void): Promise<void> => {
    onSent();
    return failure.promise;
  };
  const heard = Promise.withResolvers<HandfastError>();
  await awaitFirstResponse(ask, waiting(told, { graceMs: 1, failedLater: heard.resolve }));
  assert.equal(told.taken, 1);
  failure.reject(fail('connection_lost', 'cut'));
  assert.equal((await heard.promise).code, 'connection_lost');
});

test('a caller that cancels receives the reason, and the outcome of the request is not reported', async () => {
  const told: Told = { taken: 0, later: [] };
  const failure = Promise.withResolvers<void>();
  const leaving = new AbortController();
  const word = awaitFirstResponse(
    (onSent) => {
      onSent();
      return failure.promise;
    },
    waiting(told, { signal: leaving.signal }),
  );
  leaving.abort(fail('interrupted', 'stopping'));
  await assert.rejects(word, { code: 'interrupted' });
  failure.reject(fail('connection_lost', 'cut'));
  await failure.promise.catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(told, { taken: 0, later: [] });
});

/**
 * Starts a server that replies with the request, except for `/silence`; returns it and the number of connections it has seen.
 */
async function echo(context: TestContext): Promise<{ readonly base: URL; readonly connections: () => number }> {
  let connections = 0;
  const server = createServer(async (request, response) => {
    if (request.url === '/silence') return;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, rawHeaders } = request;
    response.end(JSON.stringify({ method, url, rawHeaders, body: Buffer.concat(chunks).toString() }));
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    base: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`),
    connections: () => connections,
  };
}

const bounds = { timeoutMs: 10_000, maxBytes: 100_000 };

test('a request brings its headers once each, and its whole body with its length', async (context) => {
  const { base } = await echo(context);
  const client = new HttpClient();
  context.after(() => client.close());
  let sent = 0;
  const body = JSON.stringify({ text: 'ä'.repeat(20_000) });
  const { status, body: answer } = await client.exchange({
    method: 'POST',
    to: endpointBelow(base, '/task'),
    headers: ['Authorization', 'Bearer x'],
    body,
    onSent: () => {
      sent += 1;
    },
    ...bounds,
  });
  const seen = JSON.parse(answer.toString()) as { readonly rawHeaders: string[]; readonly [name: string]: unknown };
  assert.deepEqual([status, sent, seen.method, seen.url, seen.body], [200, 1, 'POST', '/base/task', body]);
  assert.deepEqual(
    Array.from({ length: seen.rawHeaders.length / 2 }, (_, n) => seen.rawHeaders.slice(2 * n, 2 * n + 2)),
    [
      ['Host', base.host],
      ['Accept', 'application/json'],
      ['Content-Type', 'application/json'],
      ['Content-Length', String(Buffer.byteLength(body))],
      ['Authorization', 'Bearer x'],
      ['Connection', 'keep-alive'],
    ],
  );
});

test('requests one after the other go over one connection', async (context) => {
  const { base, connections } = await echo(context);
  const client = new HttpClient();
  context.after(() => client.close());
  for (let n = 0; n < 20; n++) {
    await client.exchange({ method: n % 2 === 0 ? 'GET' : 'POST', to: endpointBelow(base, '/'), ...bounds });
    // The connection is given back in a separate turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(connections(), 1);
});

test('closing a client ends what is under way with its reason, and nothing is begun after it', async (context) => {
  const { base } = await echo(context);
  const client = new HttpClient();
  const to = { ...endpointBelow(base, '/'), path: '/silence' };
  const sent = Promise.withResolvers<void>();
  const asked = client.exchange({ method: 'GET', to, onSent: sent.resolve, ...bounds });
  await sent.promise;
  client.close(fail('interrupted', 'the orchestrator is stopping'));
  await assert.rejects(asked, { code: 'interrupted', message: 'the orchestrator is stopping' });
  await assert.rejects(client.exchange({ method: 'GET', to, ...bounds }), { code: 'interrupted' });
});

test('a request that is given up fails with the reason it was given up for', async (context) => {
  const { base } = await echo(context);
  const client = new HttpClient();
  context.after(() => client.close());
  const leaving = new AbortController();
  const to = { ...endpointBelow(base, '/'), path: '/silence' };
  const asked = client.exchange({ method: 'GET', to, signal: leaving.signal, ...bounds });
  leaving.abort(fail('cancelled', 'not wanted'));
  await assert.rejects(asked, { code: 'cancelled' });
  await assert.rejects(client.exchange({ method: 'GET', to, signal: leaving.signal, ...bounds }), {
    code: 'cancelled',
  });
});

for (const [address, expected] of [
  ['http://[::1]:9300/', { hostname: '::1', port: 9300, path: '/jsonrpc', secure: false, host: '[::1]:9300' }],
  [
    'http://peer.example/a2a/',
    { hostname: 'peer.example', port: 80, path: '/a2a/jsonrpc', secure: false, host: 'peer.example' },
  ],
  [
    'https://peer.example',
    { hostname: 'peer.example', port: 443, path: '/jsonrpc', secure: true, host: 'peer.example' },
  ],
] as const) {
  test(`requests to ${address} go where it says`, () => {
    const { hostname, port, path, secure, headers } = endpointBelow(new URL(address), '/jsonrpc');
    assert.deepEqual({ hostname, port, path, secure, host: headers[1] }, expected);
  });
}
