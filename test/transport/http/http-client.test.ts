/**
 * The client side of the HTTP + SSE binding: against Handfast's server through connections that break, and against
 * servers that do not know Handfast's extensions.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { type ConnectHttpOptions, connectHttp } from '../../../src/transport/http/http-client.ts';
import type { Link } from '../../../src/transport/link.ts';
import { Recorder, Relay, serve, until, within } from './http-fixtures.ts';

/** Far above the duration of any of these; only present so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };
/** A close that is to end in good order has all the time it needs. */
const GRACE_MS = 60_000;
const failsWith = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

/** Through a relay the server is called by another port than its own. */
const relayed = { allowedHosts: ['127.0.0.1'] };

async function open(
  t: TestContext,
  address: string,
  options: ConnectHttpOptions = {},
  onMessage?: (text: string) => void,
) {
  const link = await within(connectHttp(address, options), 'the link');
  t.after(() => link.destroy('the test is over'));
  return new Recorder(link, onMessage);
}

/** Starts a server written only against the binding's text: one message a POST, events without ids. */
async function plainHost(
  t: TestContext,
  handle: (request: IncomingMessage, response: ServerResponse, body: string, plain: Plain) => void,
  session: object = { session_id: 'abc' },
) {
  const plain: Plain = { streams: [], lastEventIds: [] };
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      if (request.url === '/session' && request.method === 'POST') {
        response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(session));
      } else if (request.url === '/stream') {
        plain.lastEventIds.push(request.headers['last-event-id'] as string | undefined);
        response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' }).flushHeaders();
        plain.streams.push(response);
      } else handle(request, response, body, plain);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { plain, address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
interface Plain {
  readonly streams: ServerResponse[];
  readonly lastEventIds: (string | undefined)[];
}

describe('with our own server', TIMEOUT, () => {
  test('messages go both ways in order, with any characters', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 1e6, onMessage: (link, text) => link.send(text) });
    const client = await open(t, listener.address);
    const texts = Array.from({ length: 2_000 }, (_, n) =>
      JSON.stringify({ n, text: 'é😀\u2028\ud800"\\\n'.repeat(n % 20) }),
    );
    for (const text of texts) client.link.send(text);
    assert.ok(client.link.buffered > 0);
    await client.count(texts.length);
    const values = (lines: readonly string[]) => lines.map((line) => JSON.parse(line) as unknown);
    assert.deepEqual(values(client.messages), values(texts));
    assert.deepEqual(values(peers[0]!.messages), values(texts));
    assert.equal(client.link.buffered, 0);
  });

  test('the messages of one turn share a POST', async (t) => {
    let posts = 0;
    const { listener, peers } = await serve(t, { server: relayed });
    const { relay, address } = await Relay.to(t, listener.port);
    relay.pass = (chunk, up) => {
      if (up) posts += chunk.toString('latin1').split('POST /send').length - 1;
      return true;
    };
    const client = await open(t, address);
    for (let n = 0; n < 100; n++) client.link.send(`{"n":${n}}`);
    await until(() => peers[0]?.messages.length === 100, 'all messages came');
    assert.equal(posts, 1);
  });

  test('a message the host refuses as no message at all does not cost the link, nor those behind it', async (t) => {
    const heard: string[] = [];
    let session: Link | undefined;
    const { listener } = await serve(t, {
      accept: (link) => {
        session = link;
        link.open({
          message(text) {
            heard.push(text as string);
            return text === 'what?' ? 'parse_error' : undefined;
          },
          malformed() {},
          ended() {},
          closed() {},
        });
      },
    });
    const client = await open(t, listener.address);
    for (const text of ['what?', '"after"']) {
      client.link.send(text);
      await within(client.link.drained(), 'the message to be answered');
    }
    assert.deepEqual(heard, ['what?', '"after"']);
    assert.equal(client.closures, 0);
    session?.destroy('the test is over');
  });

  test('connections cut at any point lose nothing and repeat nothing, both ways', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 1e6, replayBytes: 1e6, server: relayed });
    const { relay, address } = await Relay.to(t, listener.port);
    const client = await open(t, address, { reconnectMs: 20_000 });
    await until(() => peers.length === 1, 'the session was accepted');
    const server = peers[0]!;
    // A cut after every n-th chunk, n running through small primes, lands in heads, in bodies and between requests.
    const strides = [2, 3, 5, 7, 11];
    const wanted = 40;
    let chunks = 0;
    let cuts = 0;
    relay.pass = () => {
      chunks += 1;
      if (chunks % strides[cuts % strides.length]! !== 0 || cuts >= wanted) return true;
      cuts += 1;
      chunks = 0;
      return false;
    };
    let total = 0;
    for (; cuts < wanted && total < 20_000; total++) {
      client.link.send(JSON.stringify({ up: total, pad: 'x'.repeat(total % 700) }));
      server.link.send(JSON.stringify({ down: total, pad: 'x'.repeat(total % 900) }));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await client.count(total);
    await server.count(total);
    const numbers = (texts: readonly string[], key: string) =>
      texts.map((text) => (JSON.parse(text) as Record<string, number>)[key]);
    const expected = Array.from({ length: total }, (_, n) => n);
    assert.deepEqual(numbers(client.messages, 'down'), expected);
    assert.deepEqual(numbers(server.messages, 'up'), expected);
    assert.equal(cuts, wanted);
    assert.equal(client.closures + server.closures, 0);
  });

  test('an answer lost on its way back does not repeat the messages it was for', async (t) => {
    const { listener, peers } = await serve(t, { server: relayed });
    const { relay, address } = await Relay.to(t, listener.port);
    const client = await open(t, address);
    let swallowed = 0;
    relay.pass = (chunk, up) => {
      if (up || swallowed >= 3 || !chunk.includes('{"ok":true}')) return true;
      swallowed += 1;
      return false;
    };
    client.link.send('"once"');
    await within(client.link.drained(), 'the message to be acknowledged');
    assert.equal(swallowed, 3);
    assert.deepEqual(peers[0]!.messages, ['"once"']);
  });

  test('a stream that cannot be had back closes the link after a bounded time', async (t) => {
    const { listener } = await serve(t, { server: relayed });
    const { relay, address } = await Relay.to(t, listener.port);
    const client = await open(t, address, { reconnectMs: 600 });
    await until(() => relay.connections > 0, 'the stream is open');
    relay.refusing = true;
    relay.cut();
    const { clean, reason } = await client.over;
    assert.equal(clean, false);
    assert.match(reason, /event stream was lost/);
  });

  test('a server that lost messages for good says so, and the link closes instead of continuing with a gap', async (t) => {
    const requests: string[] = [];
    const { plain, address } = await plainHost(
      t,
      ({ method, url, headers }, response) => {
        requests.push(`${method} ${url} ${headers['x-session-end']}`);
        response.end();
      },
      { session_id: 'abc', lines: true },
    );
    const client = await open(t, address);
    plain.streams[0]!.end('id: 1\ndata: "1"\n\n');
    await until(() => plain.streams.length === 2, 'the stream was opened again');
    plain.streams[1]!.write('event: gap\ndata: {"from":2,"to":7}\n\nid: 8\ndata: "8"\n\n');
    assert.deepEqual(await client.over, { clean: false, reason: 'messages 2 to 7 of this link are lost' });
    assert.deepEqual(client.messages, ['"1"']);
    assert.deepEqual(plain.lastEventIds, ['0', '1']);
    await until(() => requests.length > 0, 'the host received that the link is dropped');
    assert.deepEqual(requests, ['DELETE /session abrupt']);
  });

  test('closing sends what is queued, and both sides end in good order', async (t) => {
    const { listener, peers } = await serve(t);
    const client = await open(t, listener.address);
    for (let n = 0; n < 500; n++) client.link.send(`${n}`);
    const closed = client.link.close('done', GRACE_MS);
    assert.equal(client.link.close(), closed);
    client.link.send('"too late"');
    await within(closed, 'the link to close');
    assert.deepEqual(await client.over, { clean: true, reason: 'done' });
    assert.equal((await peers[0]!.over).clean, true);
    assert.equal(peers[0]!.messages.length, 500);
  });

  test('the server closing reaches the client with everything before it, destroying reaches it as a loss', async (t) => {
    const { listener, peers } = await serve(t);
    const first = await open(t, listener.address);
    await until(() => peers.length === 1, 'the session was accepted');
    for (let n = 0; n < 500; n++) peers[0]!.link.send(`${n}`);
    await within(peers[0]!.link.close('done', GRACE_MS), 'the link to close');
    assert.deepEqual(await first.over, { clean: true, reason: 'done' });
    assert.equal(first.messages.length, 500);

    const second = await open(t, listener.address);
    await until(() => peers.length === 2, 'the session was accepted');
    peers[1]!.link.destroy('enough');
    assert.equal((await second.over).clean, false);
  });

  test('a destroyed client is noticed at once and not in good order', async (t) => {
    const { listener, peers } = await serve(t);
    const client = await open(t, listener.address);
    client.link.send('"hello"');
    await within(client.link.drained(), 'the message to be acknowledged');
    client.link.destroy('enough');
    assert.deepEqual(await client.over, { clean: false, reason: 'enough' });
    assert.equal((await peers[0]!.over).clean, false);
  });

  test('a message too long for the server is refused there, and the link continues', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 1_000 });
    const client = await open(t, listener.address);
    client.link.send(JSON.stringify('x'.repeat(2_000)));
    client.link.send(JSON.stringify('x'.repeat(200_000)));
    client.link.send('"short"');
    await until(() => peers[0]?.messages.length === 1, 'the short one came');
    assert.deepEqual(peers[0]!.problems, Array(2).fill({ reason: 'too_large', limit: 1_000 }));
    assert.equal(client.closures, 0);
  });

  test('a message too long for the client is reported there, and the link continues', async (t) => {
    const { listener, peers } = await serve(t);
    const client = await open(t, listener.address, { maxMessageBytes: 1_000 });
    await until(() => peers.length === 1, 'the session was accepted');
    peers[0]!.link.send(JSON.stringify('x'.repeat(2_000)));
    peers[0]!.link.send('"short"');
    await client.count(1);
    assert.deepEqual(client.problems, [{ reason: 'too_large', limit: 1_000 }]);
    client.link.setMaxMessageBytes(10_000);
    peers[0]!.link.send(JSON.stringify('x'.repeat(2_000)));
    await client.count(2);
  });

  test('a paused client makes the server wait, and a paused server the client', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 1e6 });
    const client = await open(t, listener.address);
    await until(() => peers.length === 1, 'the session was accepted');
    const server = peers[0]!;
    const text = JSON.stringify('x'.repeat(100_000));
    const total = 200;
    for (const [reader, writer] of [
      [client, server],
      [server, client],
    ] as const) {
      reader.link.pause(true);
      for (let n = 0; n < total; n++) writer.link.send(text);
      const drained = writer.link.drained(0);
      await new Promise((resolve) => setTimeout(resolve, 100));
      assert.ok(writer.link.buffered > 5_000_000, `${writer.link.buffered} bytes wait`);
      reader.link.pause(false);
      await within(drained, 'the link to be drained');
      await reader.count(total);
    }
  });

  test('a link that stays quiet longer than pooled connections live continues to work', async (t) => {
    const { listener } = await serve(t, {
      onMessage: (link, text) => link.send(text),
      server: { keepAliveTimeoutMs: 50 },
    });
    const client = await open(t, listener.address);
    for (let n = 1; n <= 3; n++) {
      client.link.send(`${n}`);
      await client.count(n);
      await new Promise((resolve) => setTimeout(resolve, 120));
    }
    assert.equal(client.closures, 0);
  });
});

describe('with a plain host of the binding', TIMEOUT, () => {
  test('each message is a POST of its own, in order, and events need no ids', async (t) => {
    const bodies: string[] = [];
    const headers: IncomingMessage['headers'][] = [];
    const { plain, address } = await plainHost(t, (request, response, body) => {
      bodies.push(body);
      headers.push(request.headers);
      plain.streams.at(-1)?.write(`data: ${body}\n\n`);
      response.end('{"ok": true}');
    });
    const client = await open(t, `${address}/`, { headers: { Authorization: 'Bearer x' } });
    await until(() => plain.streams.length === 1, 'the stream is open');
    for (let n = 0; n < 20; n++) client.link.send(`{"n":${n}}`);
    await client.count(20);
    assert.deepEqual(bodies, client.messages);
    assert.deepEqual(
      bodies,
      Array.from({ length: 20 }, (_, n) => `{"n":${n}}`),
    );
    assert.equal(headers[0]!['x-session-id'], 'abc');
    assert.equal(headers[0]!['content-type'], 'text/plain');
    assert.equal(headers[0]!.authorization, 'Bearer x');
    assert.equal(headers[0]!['x-send-sequence'], undefined);

    plain.streams[0]!.end();
    await until(() => plain.streams.length === 2, 'the stream was opened again');
    plain.streams[1]!.write('id: 77\ndata: "with id"\n\n');
    await client.count(21);
    plain.streams[1]!.destroy();
    await until(() => plain.streams.length === 3, 'the stream was opened again');
    assert.deepEqual(plain.lastEventIds, [undefined, undefined, '77']);
  });

  test('a POST with an unknown outcome is not repeated: the link closes', async (t) => {
    let posts = 0;
    const { address } = await plainHost(t, (request, response) => {
      if (request.url !== '/send') return response.writeHead(405).end();
      posts += 1;
      response.destroy();
    });
    const client = await open(t, address);
    client.link.send('"?"');
    const { clean, reason } = await client.over;
    assert.equal(clean, false);
    assert.match(reason, /the delivery of the last message is unknown/);
    assert.equal(posts, 1);
    assert.equal(client.link.buffered, 0);
    await client.link.drained();
  });

  test('a POST that was refused for the moment is repeated; one that was refused for good closes the link', async (t) => {
    const answers = [429, 503, 200, 404];
    const bodies: string[] = [];
    const { address } = await plainHost(t, (_request, response, body) => {
      bodies.push(body);
      response.writeHead(answers.shift() ?? 500, { 'Retry-After': '0' }).end();
    });
    const client = await open(t, address);
    client.link.send('"a"');
    client.link.send('"b"');
    assert.match((await client.over).reason, /no longer knows this session/);
    assert.deepEqual(bodies.slice(0, 4), ['"a"', '"a"', '"a"', '"b"']);
  });

  test('a host that stays busy is given up after a bounded time', async (t) => {
    const { address } = await plainHost(t, (_request, response) => {
      response.writeHead(503).end();
    });
    const client = await open(t, address, { reconnectMs: 500 });
    client.link.send('"a"');
    assert.match((await client.over).reason, /the host answers 503/);
  });

  test('closing is clean although the host knows no DELETE', async (t) => {
    const { address } = await plainHost(t, (request, response) => {
      response.writeHead(request.method === 'DELETE' ? 405 : 200).end('{}');
    });
    const client = await open(t, address);
    client.link.send('"a"');
    await within(client.link.close('done', GRACE_MS), 'the link to close');
    assert.deepEqual(await client.over, { clean: true, reason: 'done' });
  });

  test('closing a link whose host does not answer ends with the grace', async (t) => {
    const { address } = await plainHost(t, () => {});
    const client = await open(t, address);
    client.link.send('"a"');
    await within(client.link.close('done', 100), 'the grace to pass');
    assert.deepEqual(await client.over, { clean: false, reason: 'the peer did not finish within 100 ms' });
  });
});

describe('connecting', TIMEOUT, () => {
  test('an https address is spoken to in TLS', async (t) => {
    const first = Promise.withResolvers<number>();
    const server = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', (chunk: Buffer) => {
        first.resolve(chunk[0]!);
        socket.destroy();
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    await assert.rejects(connectHttp(`https://127.0.0.1:${port}`), failsWith('unreachable'));
    assert.equal(await within(first.promise, 'the first byte'), 0x16);
  });

  test('fails with a code that says why, and leaves nothing open', async (t) => {
    let answer: (response: ServerResponse) => void = () => {};
    const server = createServer((_request, response) => answer(response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const status =
      (code: number, body = '') =>
      (response: ServerResponse) =>
        response.writeHead(code).end(body);
    const never = (): void => {};
    const cases: [code: string, behaviour: (response: ServerResponse) => void][] = [
      ['auth_failed', status(401)],
      ['unauthorized', status(403)],
      ['over_capacity', status(429)],
      ['over_capacity', status(503)],
      ['unreachable', status(404, '{"detail":"Not Found"}')],
      ['unreachable', status(200, '<html>')],
      ['unreachable', status(200, 'null')],
      ['unreachable', status(200, '{"session_id":"a\\r\\nb"}')],
      ['unreachable', status(200, 'x'.repeat(100_000))],
      ['unreachable', (response) => response.destroy()],
      ['unreachable', never],
    ];
    for (const [code, behaviour] of cases) {
      answer = behaviour;
      await assert.rejects(
        connectHttp(address, { timeoutMs: behaviour === never ? 50 : 60_000 }),
        failsWith(code),
        code,
      );
    }
    answer = () => {};
    const late = new AbortController();
    const connecting = connectHttp(address, { signal: late.signal });
    late.abort();
    await assert.rejects(connecting, failsWith('cancelled'));
    await assert.rejects(connectHttp(address, { signal: AbortSignal.abort() }), failsWith('cancelled'));
    for (const bad of ['tcp://127.0.0.1:1', 'nonsense', 'http://user:secret@127.0.0.1:1']) {
      await assert.rejects(
        connectHttp(bad),
        (error: Error) => failsWith('usage')(error) && !/secret/.test(error.message),
      );
    }
    server.closeAllConnections();
    const port = (server.address() as AddressInfo).port;
    await new Promise((resolve) => server.close(resolve));
    await assert.rejects(connectHttp(`http://127.0.0.1:${port}`), failsWith('unreachable'));
  });
});
