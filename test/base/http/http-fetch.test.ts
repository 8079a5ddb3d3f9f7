/** Requests to a server over HTTP, as `fetch` would send them: real servers, also ones that break off. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { httpFetch } from '../../../src/base/http/http-fetch.ts';

const MAX_BYTES = 1024;

async function served(t: TestContext, handle: RequestListener): Promise<string> {
  const server = createServer(handle);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp?key=1`;
}

const post = (url: string, body = '{"id":1}', signal?: AbortSignal) =>
  httpFetch(
    url,
    {
      method: 'POST',
      redirect: 'manual',
      headers: new Headers({ 'content-type': 'application/json', 'mcp-session-id': 'one' }),
      body,
      ...(signal && { signal }),
    },
    MAX_BYTES,
  );

const bodyOf = async (request: IncomingMessage): Promise<string> =>
  (await request.setEncoding('utf8').toArray()).join('');

test('the server gets the method, the path, the headers and the body; the caller the status, the headers and the body', async (t) => {
  const url = await served(t, async (request, response) => {
    const { method, url: path, headers } = request;
    const seen = { method, path, session: headers['mcp-session-id'], body: await bodyOf(request) };
    const body = JSON.stringify(seen);
    response.writeHead(201, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'x-a': 'b',
    });
    response.end(body);
  });
  const response = await post(url, '{"text":"grün"}');
  assert.deepEqual([response.status, response.ok, response.statusText], [201, true, 'Created']);
  assert.equal(response.headers.get('content-type'), 'application/json');
  assert.equal(response.headers.get('x-a'), 'b');
  assert.deepEqual(await response.json(), {
    method: 'POST',
    path: '/mcp?key=1',
    session: 'one',
    body: '{"text":"grün"}',
  });
});

test('a request without a body has none, and no length', async (t) => {
  const url = await served(t, async ({ method, headers }, response) => {
    response.end(JSON.stringify({ method, type: headers['content-type'], length: headers['content-length'] }));
  });
  for (const method of ['GET', 'DELETE']) {
    const response = await httpFetch(url, { method, redirect: 'manual' }, MAX_BYTES);
    assert.deepEqual(await response.json(), { method });
  }
});

test('requests one after another share a connection', async (t) => {
  const sockets = new Set<unknown>();
  const url = await served(t, (request, response) => {
    sockets.add(request.socket);
    request.resume().on('end', () => response.end('{}'));
  });
  for (let count = 0; count < 5; count++) await (await post(url)).text();
  assert.equal(sockets.size, 1);
});

test('a redirect is given to the caller, and a response without a body has none', async (t) => {
  const url = await served(t, (request, response) => {
    request.resume();
    response.writeHead(request.headers.accept === 'none' ? 204 : 307, { location: '/other' }).end();
  });
  const redirect = await post(url);
  assert.deepEqual([redirect.status, redirect.headers.get('location')], [307, '/other']);
  const init = { method: 'POST', redirect: 'manual', headers: { accept: 'none' }, body: '' } as const;
  const empty = await httpFetch(url, init, MAX_BYTES);
  assert.deepEqual([empty.status, empty.body], [204, null]);
});

for (const [coding, compress] of [
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
] as const) {
  test(`a body that is compressed as ${coding} is decompressed`, async (t) => {
    const text = 'text '.repeat(1_000);
    const url = await served(t, (request, response) => {
      assert.match(String(request.headers['accept-encoding']), new RegExp(coding));
      request.resume();
      response.writeHead(200, { 'content-encoding': coding }).end(compress(text));
    });
    assert.equal(await (await post(url)).text(), text);
  });
}

test('a body of a compression that is not known, and one that is not compressed as it says, fail', async (t) => {
  const url = await served(t, async (request, response) => {
    response.writeHead(200, { 'content-encoding': await bodyOf(request) }).end('not compressed');
  });
  await assert.rejects(post(url, 'zap'), (error: Error) =>
    /compressed as zap/.test(String((error.cause as Error).message)),
  );
  const broken = await post(url, 'gzip');
  await assert.rejects(broken.text(), TypeError);
});

test('a stream of events is read while it comes, and ends for the server when its reader leaves', async (t) => {
  const left = Promise.withResolvers<void>();
  const url = await served(t, (request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: 1\n\n');
    response.on('close', left.resolve);
  });
  const { body } = await post(url);
  const reader = body?.getReader();
  assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), 'data: 1\n\n');
  await reader?.cancel();
  await left.promise;
});

test('a long body waits until it is read', async (t) => {
  let written = 0;
  const url = await served(t, (request, response) => {
    request.resume();
    const piece = Buffer.alloc(64 * 1024);
    const more = (): void => {
      while (written < 64 * 1024 * 1024 && !response.destroyed) {
        written += piece.length;
        if (!response.write(piece)) return;
      }
      response.end();
    };
    response.on('drain', more);
    more();
  });
  const { body } = await post(url);
  const reader = body?.getReader();
  await reader?.read();
  const second = await post(
    await served(t, (request, response) => void request.resume().on('end', () => response.end())),
  );
  await second.text();
  assert.ok(written < 64 * 1024 * 1024, `${written} bytes were written to a reader that reads nothing`);
  await reader?.cancel();
});

test('a response that breaks off has a body that fails, of a known length and without one', async (t) => {
  const url = await served(t, async (request, response) => {
    const length = await bodyOf(request);
    response.writeHead(200, length === '' ? {} : { 'content-length': length });
    response.write('{"id"', () => response.destroy());
  });
  for (const length of ['100', '']) {
    const response = await post(url, length);
    assert.equal(response.status, 200);
    await assert.rejects(response.text(), TypeError);
  }
});

test('a server that is not there, or that leaves without a word, is the cause of the error', async (t) => {
  const url = await served(t, (request) => request.socket.destroy());
  await assert.rejects(post(url), (error: Error) => {
    assert.ok(error instanceof TypeError);
    return (error.cause as { code?: string }).code === 'ECONNRESET';
  });
  const { port } = new URL(url);
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port: free } = gone.address() as AddressInfo;
  gone.close();
  await once(gone, 'close');
  assert.notEqual(String(free), port);
  await assert.rejects(post(`http://127.0.0.1:${free}/`), (error: Error) => {
    return (error.cause as { code?: string }).code === 'ECONNREFUSED';
  });
});

test('a request that is aborted rejects with the reason, before it is sent, while it waits, and while its body comes', async (t) => {
  const arrived = Promise.withResolvers<void>();
  const url = await served(t, async (request, response) => {
    if ((await bodyOf(request)) === 'wait') return arrived.resolve();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: 1\n\n');
  });
  const reason = new Error('no longer wanted');
  await assert.rejects(post(url, 'wait', AbortSignal.abort(reason)), reason);
  const stop = new AbortController();
  const waiting = post(url, 'wait', stop.signal);
  await arrived.promise;
  stop.abort(reason);
  await assert.rejects(waiting, reason);
  const later = new AbortController();
  const response = await post(url, 'stream', later.signal);
  const reading = response.text();
  later.abort(reason);
  await assert.rejects(reading, TypeError);
});
