/**
 * The HTTP port on raw sockets: accepted clients, refusals before any handler, the end of slow and broken requests, and the
 * effect of closing on connected clients.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpListener, type HttpServerOptions, httpServer } from '../../../src/server/http/http.ts';
import { requestGuard } from '../../../src/server/http/http-guard.ts';
import type { ServerRoute } from '../../../src/server/http/server-route.ts';
import { jsonReply, readBody, sendReply } from '../../../src/transport/http/http-exchange.ts';
import type { WebSocketAcceptor } from '../../../src/transport/websocket.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { ask, newSession, openStream, raw, serve, until, within } from '../../transport/http/http-fixtures.ts';

/** Far above the need of any of these; only so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };

/** Opens a port whose `GET /seen` and `POST /body` note that a handler was reached. */
async function start(t: TestContext, options: HttpServerOptions = {}) {
  const reached: string[] = [];
  const routes: ServerRoute[] = [
    {
      method: 'GET',
      path: '/seen',
      needs: 'none',
      handle: (request, response) => {
        reached.push(`GET ${request.url}`);
        sendReply(response, jsonReply(200, { seen: true }));
      },
    },
    {
      method: 'POST',
      path: '/body',
      needs: 'none',
      handle: (request, response) => {
        readBody(request, 1_000, (body) => {
          const told = typeof body === 'string' ? body : body.toString('latin1');
          reached.push(told);
          sendReply(response, jsonReply(told === 'too_large' ? 413 : 200, { told }));
        });
      },
    },
  ];
  const listener = await httpServer({ ...options, routes: [...routes, ...(options.routes ?? [])] });
  t.after(() => listener.close());
  return { listener, port: listener.port, reached };
}

const get = (headers: string, path = '/seen') => `GET ${path} HTTP/1.1\r\n${headers}\r\n`;
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4);
const last = 'Connection: close\r\n';

describe('the guard', TIMEOUT, () => {
  test('lets a request in only under a name and the port of this server', async (t) => {
    const { port, reached } = await start(t, { allowedHosts: ['agents.example.org', 'other.example.org:8443'] });
    const good = [
      `localhost:${port}`,
      `LocalHost:${port}`,
      `127.0.0.1:${port}`,
      `[::1]:${port}`,
      'agents.example.org',
      'agents.example.org:443',
      'other.example.org:8443',
    ];
    for (const host of good) assert.equal(statusOf(await raw(port, get(`Host: ${host}\r\n${last}`))), 200, host);
    assert.equal(reached.length, good.length);
    const bad = [
      'evil.example',
      `evil.example:${port}`,
      `localhost.evil.com:${port}`,
      `127.0.0.1.nip.io:${port}`,
      `localhost:${port + 1}`,
      'localhost',
      `localhost.:${port}`,
      `user@localhost:${port}`,
      `localhost:${port}:80`,
      `127.0.0.2:${port}`,
      `0.0.0.0:${port}`,
      `2130706433:${port}`,
      'xagents.example.org',
      'agents.example.org.evil.com',
      'other.example.org',
      'null',
      '',
    ];
    for (const host of bad) {
      const answer = await raw(port, get(`Host: ${host}\r\n`));
      assert.equal(statusOf(answer), 403, host);
      const { detail } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
      assert.ok(detail.includes(JSON.stringify(host.toLowerCase())) && detail.includes('http.allowed_hosts'), detail);
    }
    for (const headers of [
      '',
      `Host: localhost:${port}\r\nhOsT: localhost:${port}\r\n`,
      `Host: localhost:${port}\r\nHost: evil.example\r\n`,
    ]) {
      const answer = await raw(port, get(headers));
      assert.equal(statusOf(answer), 403, headers);
      assert.match(answer, /a request needs exactly one Host header/);
    }
    assert.equal(reached.length, good.length, 'no handler was reached');
  });

  test('refuses before it routes: what exists and what does not look alike', async (t) => {
    const { port } = await start(t);
    for (const path of ['/seen', '/health', '/nothing', '/ws']) {
      assert.equal(statusOf(await raw(port, get('Host: evil.example\r\n', path))), 403, path);
    }
  });

  test('lets a page in only from this server itself or from a configured origin', async (t) => {
    const { port, reached } = await start(t, { allowedOrigins: ['https://console.example.org', 'null'] });
    const from = async (...lines: string[]) =>
      statusOf(
        await raw(port, get(`Host: localhost:${port}\r\n${lines.map((line) => `${line}\r\n`).join('')}${last}`)),
      );
    for (const origin of [`http://localhost:${port}`, `https://localhost:${port}`, 'https://console.example.org']) {
      assert.equal(await from(`Origin: ${origin}`), 200, origin);
    }
    assert.equal(await from('Sec-Fetch-Site: same-origin'), 200);
    assert.equal(await from('Sec-Fetch-Site: none'), 200);
    assert.equal(await from('Origin: https://console.example.org', 'Sec-Fetch-Site: cross-site'), 200);
    const count = reached.length;
    for (const origin of [
      'http://evil.example',
      'null',
      'chrome-extension://abcdefghijklmnop',
      `http://sub.localhost:${port}`,
      'http://localhost',
      `http://localhost:${port + 1}`,
      `http://127.0.0.1:${port}`,
      `http://localhost:${port}.evil.com`,
      'https://sub.console.example.org',
      'http://console.example.org',
      '',
    ]) {
      assert.equal(await from(`Origin: ${origin}`), 403, origin);
    }
    assert.equal(await from(`Origin: http://localhost:${port}`, `Origin: http://localhost:${port}`), 403);
    assert.equal(await from('Sec-Fetch-Site: cross-site'), 403);
    assert.equal(await from(`Origin: http://localhost:${port}`, 'Sec-Fetch-Site: cross-site'), 403);
    assert.equal(await from('Sec-Fetch-Site: same-origin', 'Sec-Fetch-Site: cross-site'), 403);
    assert.equal(reached.length, count);
  });

  test('keeps a foreign page from opening a session with a simple request, and allows no page to share responses', async (t) => {
    const { listener, peers } = await serve(t);
    const { port } = listener;
    const post = (headers: string) =>
      raw(port, `POST /session HTTP/1.1\r\nHost: localhost:${port}\r\n${headers}Content-Length: 0\r\n${last}\r\n`);
    for (const headers of [
      'Origin: http://evil.example\r\nContent-Type: text/plain\r\n',
      'Origin: null\r\nContent-Type: application/x-www-form-urlencoded\r\n',
      'Sec-Fetch-Site: cross-site\r\n',
    ]) {
      const answer = await post(headers);
      assert.equal(statusOf(answer), 403, headers);
      assert.doesNotMatch(answer, /session_id|access-control/i);
    }
    assert.equal(statusOf(await post('Content-Type: application/x-www-form-urlencoded\r\n')), 415);
    assert.equal(statusOf(await raw(port, get(`Host: localhost:${port}\r\n${last}`, '/session'))), 405);
    const preflight = await raw(
      port,
      `OPTIONS /send HTTP/1.1\r\nHost: localhost:${port}\r\nOrigin: http://localhost:${port}\r\n${last}\r\n`,
    );
    assert.equal(statusOf(preflight), 405);
    assert.doesNotMatch(preflight, /access-control/i);
    assert.equal(peers.length, 0);
    assert.doesNotMatch(await post(''), /access-control/i);
  });

  test('compares names literally, with any configuration', () => {
    const guard = requestGuard({ port: 80, host: '::1', allowedHosts: ['a.b'], allowedOrigins: [] });
    const admits = (host: string) => guard({ rawHeaders: ['Host', host] }) === undefined;
    for (const host of ['localhost', '127.0.0.1', '[::1]', '[::1]:80', 'a.b', 'A.B:9'])
      assert.equal(admits(host), true, host);
    for (const host of ['axb', '::1', '[::1', 'localhost:81', 'a.b:', 'a.b:x', 'a.b:123456'])
      assert.equal(admits(host), false, host);
    const wide = requestGuard({ port: 81, host: '0.0.0.0', allowedHosts: [], allowedOrigins: [] });
    assert.match(wide({ rawHeaders: ['host', '0.0.0.0:81'] }) ?? '', /add "0\.0\.0\.0" to http\.allowed_hosts/);
    assert.equal(wide({ rawHeaders: ['host', 'localhost:81'] }), undefined);
  });
});

describe('upgrades', TIMEOUT, () => {
  const upgrade = (port: number, path: string, headers = '', protocol = 'websocket') =>
    `GET ${path} HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`;
  const handled: string[] = [];
  const webSocket: WebSocketAcceptor = {
    handle(request, socket, head, accept) {
      handled.push(`${request.url} ${head.toString()}`);
      assert.equal(typeof accept, 'function');
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n');
    },
  };

  test('only /ws is handed over, with the bytes that came along', async (t) => {
    const { port } = await start(t, { webSocket, accept: () => {} });
    assert.equal(statusOf(await raw(port, `${upgrade(port, '/ws?x=1')}early`, { keepOpen: true })), 101);
    assert.deepEqual(handled.splice(0), ['/ws?x=1 early']);
    for (const path of ['/', '/wsx', '/ws/', '/send', '/%77s', '//ws', '*']) {
      assert.equal(statusOf(await raw(port, upgrade(port, path), { keepOpen: true })), 404, path);
    }
    assert.deepEqual(handled, []);
  });

  test('a foreign page gets 403 and no upgrade', async (t) => {
    const { port } = await start(t, { webSocket, accept: () => {} });
    for (const headers of [
      'Origin: http://evil.example\r\n',
      'Origin: null\r\n',
      'Host: evil.example\r\n',
      'Sec-Fetch-Site: cross-site\r\n',
    ]) {
      assert.equal(statusOf(await raw(port, upgrade(port, '/ws', headers), { keepOpen: true })), 403, headers);
    }
    assert.deepEqual(handled, []);
    assert.equal(
      statusOf(await raw(port, upgrade(port, '/ws', `Origin: http://localhost:${port}\r\n`), { keepOpen: true })),
      101,
    );
    handled.length = 0;
  });

  test('without WebSockets there is nothing to upgrade to, and other protocols on offer are ignored', async (t) => {
    const { port, reached } = await start(t);
    assert.equal(statusOf(await raw(port, upgrade(port, '/ws'), { keepOpen: true })), 404);
    assert.equal(statusOf(await raw(port, upgrade(port, '/seen', last, 'h2c'))), 200);
    assert.deepEqual(reached, ['GET /seen']);
  });
});

describe('routing', TIMEOUT, () => {
  test('answers 404 and 405 as JSON, and every answer carries the safe headers', async (t) => {
    const { listener } = await start(t);
    const missing = await ask(listener.address, 'GET', '/nothing');
    assert.equal(missing.status, 404);
    const { detail, error } = JSON.parse(missing.body) as { detail: string; error: { code: string; message: string } };
    assert.deepEqual([error.code, error.message], ['unknown_type', detail]);
    const wrong = await ask(listener.address, 'DELETE', '/seen');
    assert.deepEqual([wrong.status, wrong.headers.allow], [405, 'GET']);
    for (const { headers } of [missing, wrong, await ask(listener.address, 'GET', '/health')]) {
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['cache-control'], 'no-store');
      assert.equal(headers['content-type'], 'application/json');
    }
  });

  test('takes paths literally: no spelling of one path reaches another', async (t) => {
    const { port, reached } = await start(t);
    for (const path of [
      '/%73een',
      '/seen/',
      '//seen',
      '/./seen',
      '/x/../seen',
      '/..%2fseen',
      '/%5cseen',
      '/seen%00',
      '/..;/seen',
      '//etc/passwd',
      '/seen;x=1',
    ]) {
      assert.equal(statusOf(await raw(port, get(`Host: localhost:${port}\r\n${last}`, path))), 404, path);
    }
    assert.equal(statusOf(await raw(port, get(`Host: localhost:${port}\r\n`, `http://localhost:${port}/seen`))), 400);
    assert.deepEqual(reached, []);
    assert.equal(statusOf(await raw(port, get(`Host: localhost:${port}\r\n${last}`, '/seen?a=1'))), 200);
  });

  test('serves prefixes longest first and behind exact paths', async (t) => {
    const named = (name: string) => ({
      needs: 'none' as const,
      handle: (_request: IncomingMessage, response: ServerResponse, path: string) =>
        sendReply(response, jsonReply(200, `${name} ${path}`)),
    });
    const { listener } = await start(t, {
      routes: [
        { method: 'GET', path: '/a/', prefix: true, ...named('short') },
        { method: 'GET', path: '/a/b/', prefix: true, ...named('long') },
        { method: 'GET', path: '/a/b/c', ...named('exact') },
      ],
    });
    for (const [path, expected] of [
      ['/a/x?q', 'short /a/x'],
      ['/a/b/x', 'long /a/b/x'],
      ['/a/b/c', 'exact /a/b/c'],
    ] as const) {
      assert.equal(JSON.parse((await ask(listener.address, 'GET', path)).body), expected);
    }
    assert.equal((await ask(listener.address, 'GET', '/a')).status, 404);
    assert.equal((await ask(listener.address, 'PUT', '/a/x')).status, 405);
  });

  test('two routes for the same thing are refused at the start', async () => {
    const route: ServerRoute = { method: 'GET', path: '/health', needs: 'none', handle: () => {} };
    await assert.rejects(httpServer({ routes: [route] }), /two routes for GET \/health/);
  });

  test('a route without a named right cannot be registered, nor one that asks for a right where no token is known', async () => {
    const handle = () => assert.fail('it was served');
    const nameless = { method: 'GET', path: '/open', handle } as unknown as ServerRoute;
    await assert.rejects(httpServer({ routes: [nameless] }), /no right is named for GET \/open/);
    const guarded: ServerRoute = { method: 'GET', path: '/mine', needs: 'token', answer: () => ({}) };
    await assert.rejects(httpServer({ routes: [guarded] }), /GET \/mine needs a token/);
  });

  test('health says ok, and what it was given to say', async (t) => {
    const plain = await start(t);
    assert.equal((await ask(plain.listener.address, 'GET', '/health')).body, '{"status":"ok"}');
    const more = await start(t, { health: () => ({ sessions: 3 }) });
    assert.deepEqual(JSON.parse((await ask(more.listener.address, 'GET', '/health')).body), {
      status: 'ok',
      sessions: 3,
    });
  });

  test('a handler that throws or rejects is a 500 without details', async (t) => {
    const errors: unknown[] = [];
    const { listener } = await start(t, {
      onHandlerError: (error, path) => errors.push([(error as Error).message, path]),
      routes: [
        {
          method: 'GET',
          path: '/throws',
          needs: 'none',
          handle: () => {
            throw new Error('secret one');
          },
        },
        { method: 'GET', path: '/rejects', needs: 'none', handle: () => Promise.reject(new Error('secret two')) },
      ],
    });
    for (const path of ['/throws', '/rejects']) {
      const { status, body } = await ask(listener.address, 'GET', path);
      assert.equal(status, 500);
      assert.doesNotMatch(body, /secret|at /);
    }
    assert.deepEqual(errors, [
      ['secret one', '/throws'],
      ['secret two', '/rejects'],
    ]);
  });
});

describe('slow, huge and broken requests', TIMEOUT, () => {
  test('a head or a body that does not come is 408, and the connection closes', async (t) => {
    const { port, reached } = await start(t, { headersTimeoutMs: 400, requestTimeoutMs: 500 });
    const host = `Host: localhost:${port}\r\n`;
    assert.equal(statusOf(await raw(port, `GET /seen HTTP/1.1\r\n${host}X-Slow: `, { keepOpen: true })), 408);
    const slow = `POST /body HTTP/1.1\r\n${host}Content-Length: 10\r\n\r\n12345`;
    assert.equal(statusOf(await raw(port, slow, { keepOpen: true })), 408);
    assert.deepEqual(reached, ['aborted']);
    assert.equal(statusOf(await raw(port, get(`${host}${last}`))), 200);
  });

  test('a huge body is refused at once and not kept', async (t) => {
    const { port, reached } = await start(t);
    const host = `Host: localhost:${port}\r\n`;
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(`POST /body HTTP/1.1\r\n${host}Content-Length: 60000000000\r\n\r\nx`);
    const [answer] = (await within(once(socket, 'data'), 'the refusal')) as [Buffer];
    assert.equal(statusOf(answer.toString()), 413);
    assert.deepEqual(reached, ['too_large']);
    // A client that continues to send is cut off in the end.
    socket.on('error', () => {});
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    const megabyte = Buffer.alloc(1024 * 1024);
    const feed = (): void => {
      if (!socket.destroyed) socket.write(megabyte, feed);
    };
    feed();
    await within(closed, 'the server to cut the connection');
    assert.ok(socket.bytesWritten < 200 * 1024 * 1024);
  });

  test('a body in chunks is counted; after the refusal the same connection serves the next request', async (t) => {
    const { port, reached } = await start(t);
    const host = `Host: localhost:${port}\r\n`;
    const chunked = `POST /body HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`;
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    const both = `${chunked}${chunk('x'.repeat(700)).repeat(2)}0\r\n\r\n${get(`${host}${last}`)}`;
    const answers = await raw(port, both);
    assert.deepEqual(
      [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]),
      ['413', '200'],
    );
    const tiny = `${chunked}${[...'one byte a chunk'].map(chunk).join('')}0\r\n\r\n`;
    await raw(port, tiny);
    assert.deepEqual(reached, ['too_large', 'GET /seen', 'one byte a chunk']);
  });

  test('what is not HTTP, or lies about its length, is 400 and closed', async (t) => {
    const { port, reached } = await start(t);
    const host = `Host: localhost:${port}\r\n`;
    const cases: Record<string, string> = {
      'a message line': '{"type":"handshake/req","id":"1"}\n',
      'a TLS hello': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
      'both lengths': `POST /body HTTP/1.1\r\n${host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      'two lengths': `POST /body HTTP/1.1\r\n${host}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde`,
      'a signed length': `POST /body HTTP/1.1\r\n${host}Content-Length: +4\r\n\r\nabcd`,
      'another coding': `POST /body HTTP/1.1\r\n${host}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      'a bad chunk size': `POST /body HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n`,
      'a chunk longer than told': `POST /body HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n`,
      'a blank before the colon': `GET /seen HTTP/1.1\r\nHost : localhost:${port}\r\n\r\n`,
      'a folded header': `GET /seen HTTP/1.1\r\n${host}X: a\r\n b\r\n\r\n`,
      'a bare line feed': `GET /seen HTTP/1.1\n${host}\r\n`,
    };
    for (const [name, bytes] of Object.entries(cases)) {
      const answer = await raw(port, Buffer.from(bytes, 'latin1'), { keepOpen: true });
      assert.equal(statusOf(answer), 400, name);
      assert.equal((JSON.parse(bodyOf(answer)) as { error: { code: string } }).error.code, 'parse_error', name);
    }
    assert.deepEqual(
      reached.filter((told) => told !== 'aborted'),
      [],
    );
  });

  test('a head that is too large is 431, many small headers are fine and all of them are looked at', async (t) => {
    const { port } = await start(t);
    const host = `Host: localhost:${port}\r\n`;
    assert.equal(statusOf(await raw(port, get(`${host}X: ${'x'.repeat(20_000)}\r\n`), { keepOpen: true })), 431);
    assert.equal(statusOf(await raw(port, get(`${host}${'a:b\r\n'.repeat(2_900)}${last}`))), 200);
    assert.equal(
      statusOf(await raw(port, get(`${host}${'a:b\r\n'.repeat(2_900)}Origin: http://evil.example\r\n`))),
      403,
    );
  });

  test('garbage behind a request that is being answered cuts the connection and adds nothing to the answer', async (t) => {
    const { listener } = await serve(t);
    const session = await newSession(listener.address);
    const stream = `GET /stream HTTP/1.1\r\nHost: localhost:${listener.port}\r\nX-Session-Id: ${session}\r\n\r\n`;
    const answer = await raw(listener.port, `${stream}garbage\r\n\r\n`, { keepOpen: true });
    assert.equal(answer.split('HTTP/1.1').length, answer === '' ? 1 : 2);
    assert.doesNotMatch(answer, /400/);
  });

  test('requests in one go are answered in order', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const post = (body: string, more = '') =>
      `POST /send HTTP/1.1\r\nHost: localhost:${listener.port}\r\nX-Session-Id: ${session}\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`;
    const answers = await raw(listener.port, `${post('1')}${post('2')}${post('3')}${post('4', last)}`);
    assert.equal(answers.split('{"ok":true}').length, 5);
    assert.deepEqual(peers[0]!.messages, ['1', '2', '3', '4']);
  });
});

describe('closing', TIMEOUT, () => {
  test('refuses what is new, ends idle connections, and closes the port', async (t) => {
    const { listener, port } = await start(t);
    const idle = connect(port, '127.0.0.1');
    idle.on('error', () => {});
    idle.write(get(`Host: localhost:${port}\r\n`));
    await once(idle, 'data');
    const ended = once(idle, 'close');
    await within(listener.close(), 'the port to close');
    await within(ended, 'the idle connection to end');
    await assert.rejects(ask(listener.address, 'GET', '/seen'), /ECONNREFUSED/);
    await listener.close();
  });

  test('lets an answer under way finish, but not for ever', async (t) => {
    const release: (() => void)[] = [];
    const route: ServerRoute = {
      method: 'GET',
      path: '/slow',
      needs: 'none',
      handle: (_request, response) => {
        release.push(() => sendReply(response, jsonReply(200, 'done')));
      },
    };
    const first = await start(t, { routes: [route] });
    const answer = ask(first.listener.address, 'GET', '/slow');
    await until(() => release.length === 1, 'the handler runs');
    const closed = first.listener.close();
    release[0]!();
    assert.equal((await answer).status, 200);
    await within(closed, 'the port to close');

    const second = await start(t, { routes: [route], drainMs: 50 });
    const cut = ask(second.listener.address, 'GET', '/slow');
    cut.catch(() => {});
    await until(() => release.length === 2, 'the handler runs');
    await within(second.listener.close(), 'the port to close');
    await assert.rejects(cut);
  });

  test('sessions already open continue, new ones are refused, and the last one to close closes the port', async (t) => {
    const { listener, peers } = await serve(t, { onMessage: (link, text) => link.send(text) });
    const { address } = listener;
    const session = await newSession(address);
    const stream = await openStream(address, session);
    await within(listener.close(), 'the port to accept nothing new');
    assert.equal((await ask(address, 'POST', '/session')).status, 503);
    assert.equal((await ask(address, 'GET', '/health')).status, 503);
    assert.equal((await ask(address, 'POST', '/send', { 'X-Session-Id': session }, '"still here"')).status, 200);
    await stream.count(1);
    await peers[0]!.link.close('done');
    await stream.end();
    await within(
      (async () => {
        for (;;) {
          const refused = await ask(address, 'GET', '/health').then(
            () => false,
            (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
          );
          if (refused) return;
          await delay(5);
        }
      })(),
      'the port to close',
    );
  });

  test('an upgraded connection is not waited for', async (t) => {
    const upgraded = Promise.withResolvers<void>();
    const webSocket: WebSocketAcceptor = {
      handle(_request, socket) {
        socket.on('data', (chunk) => socket.write(chunk));
        upgraded.resolve();
      },
    };
    const { listener, port } = await start(t, { webSocket, accept: () => {} });
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(`GET /ws HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    await within(upgraded.promise, 'the upgrade');
    await within(listener.close(), 'the port to close');
    socket.write('still here');
    const [echo] = (await within(once(socket, 'data'), 'the echo')) as [Buffer];
    assert.equal(echo.toString(), 'still here');
  });

  test('an address that is taken says so', async (t) => {
    const { port } = await start(t);
    const again: Promise<HttpListener> = httpServer({ port });
    await assert.rejects(
      again,
      (error: HandfastError) => error.code === 'runtime_error' && error.detail.reason === 'EADDRINUSE',
    );
  });
});

test('when every place is held by connections that ask nothing, a new one gets the place of the oldest', async (t) => {
  const listener = await httpServer({ maxConnections: 4 });
  t.after(() => listener.close());
  const held = Array.from({ length: 8 }, () => connect(listener.port, '127.0.0.1').on('error', () => {}));
  t.after(() => held.forEach((socket) => void socket.destroy()));
  await Promise.all(held.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (let round = 0; round < 6; round++) {
    const response = await fetch(`${listener.address}/health`, { headers: { Connection: 'close' } });
    assert.deepEqual(await response.json(), { status: 'ok' });
  }
  assert.ok(held.some((socket) => socket.destroyed));
});
