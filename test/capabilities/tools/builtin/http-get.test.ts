import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { builtinTools, httpGet } from '../../../../src/capabilities/tools/builtin/index.ts';
import type { AnyTool } from '../../../../src/capabilities/tools/tool.ts';
import { call, callShaped, failsWith, testCall } from './support.ts';

const anywhere = httpGet({ addressAllowed: () => true });
const context = () => testCall('/nonexistent');

/** Starts a local server; returns its address, and the requests it received. */
async function serve(
  t: TestContext,
  listener: RequestListener,
): Promise<{ url: string; port: number; seen: string[] }> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.headers.host}${request.url}`);
    listener(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, seen };
}

const fetchIt = (tool: AnyTool, url: string, args: Record<string, unknown> = {}) =>
  call(tool, { url, ...args }, context());

test('a page comes with status, headers and text', async (t) => {
  const { url, seen } = await serve(t, (_request, response) => {
    response.writeHead(404, { 'content-type': 'text/html; charset=utf-8', etag: '"1"', 'set-cookie': 'secret=1' });
    response.end('<p>né</p>');
  });
  const page = await callShaped(anywhere, { url: `${url}/x?y=1#z` }, context());
  assert.equal(page.data.url, `${url}/x?y=1`);
  assert.deepEqual(
    [page.data.status, page.data.text, page.data.bytes, page.data.truncated],
    [404, '<p>né</p>', 10, false],
  );
  assert.equal(page.data.content_type, 'text/html; charset=utf-8');
  assert.equal(page.data.headers.etag, '"1"');
  assert.equal(page.data.headers['set-cookie'], undefined);
  assert.deepEqual(seen, [`GET ${url.slice(7)}/x?y=1`]);
});

test('HEAD fetches only the headers', async (t) => {
  const { url } = await serve(t, (_request, response) => {
    response.writeHead(200, { 'content-length': '1000', 'content-encoding': 'gzip' });
    response.end();
  });
  const page = await fetchIt(anywhere, url, { method: 'HEAD' });
  assert.deepEqual([page.status, page.headers['content-length'], page.text, page.bytes], [200, '1000', undefined, 0]);
});

test('binary answers come as base64, other character sets are decoded', async (t) => {
  const { url } = await serve(t, (request, response) => {
    if (request.url === '/png') response.setHeader('content-type', 'image/png').end(Buffer.from([0x89, 0x50, 0, 255]));
    else if (request.url === '/bare') response.end(Buffer.from([255, 254, 0]));
    else if (request.url === '/plain') response.end('bare text');
    else response.setHeader('content-type', 'text/plain; charset=iso-8859-1').end(Buffer.from('caf\xe9', 'latin1'));
  });
  const png = await fetchIt(anywhere, `${url}/png`);
  assert.deepEqual([png.base64, png.text], ['iVAA/w==', undefined]);
  assert.equal((await fetchIt(anywhere, `${url}/bare`)).base64, '//4A');
  assert.equal((await fetchIt(anywhere, `${url}/plain`)).text, 'bare text');
  assert.equal((await fetchIt(anywhere, `${url}/latin`)).text, 'café');
});

test('a long answer is cut at the limit, between characters, and the server is let go', async (t) => {
  let closed = 0;
  const { url } = await serve(t, (_request, response) => {
    response.setHeader('content-type', 'text/plain; charset=utf-8');
    const more = () => {
      while (response.write('€'.repeat(10_000)));
    };
    response.on('drain', more).once('close', () => {
      closed += 1;
    });
    more();
  });
  const page = await callShaped(anywhere, { url, max_bytes: 100 }, context());
  assert.deepEqual([page.data.text, page.data.bytes, page.truncated], ['€'.repeat(33), 100, true]);
  const waited = performance.now() + 60_000;
  while (closed === 0 && performance.now() < waited) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(closed, 1);
});

test('an answer of exactly the limit is not truncated', async (t) => {
  const { url } = await serve(t, (_request, response) => response.end('x'.repeat(100)));
  const page = await fetchIt(anywhere, url, { max_bytes: 100 });
  assert.deepEqual([page.bytes, page.truncated], [100, false]);
});

test('compressed answers are unfolded, up to the limit only', async (t) => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const { url } = await serve(t, (request, response) => {
    const answers: Record<string, [string, Buffer]> = {
      '/gzip': ['gzip', gzipSync('packed text')],
      '/br': ['br', brotliCompressSync('packed text')],
      '/bomb': ['gzip', bomb],
      '/damaged': ['gzip', Buffer.from('not gzip at all')],
      '/cut': ['gzip', gzipSync('packed text'.repeat(100)).subarray(0, 30)],
      '/other': ['compress', Buffer.from('x')],
    };
    const [encoding, body] = answers[request.url ?? '']!;
    response.writeHead(200, { 'content-encoding': encoding, 'content-type': 'text/plain' });
    response.end(body);
  });
  assert.equal((await fetchIt(anywhere, `${url}/gzip`)).text, 'packed text');
  assert.equal((await fetchIt(anywhere, `${url}/br`)).text, 'packed text');
  const before = process.memoryUsage().rss;
  const page = await fetchIt(anywhere, `${url}/bomb`, { max_bytes: 1000 });
  assert.deepEqual([page.bytes, page.truncated], [1000, true]);
  assert.ok(process.memoryUsage().rss - before < 48 * 1024 * 1024);
  for (const path of ['/damaged', '/cut', '/other']) {
    await assert.rejects(fetchIt(anywhere, url + path), failsWith('tool_error', 'bad_encoding'), path);
  }
});

const redirecting: RequestListener = (request: IncomingMessage, response: ServerResponse) => {
  const left = Number(request.url?.slice(1));
  if (left === 0) response.end('arrived');
  else response.writeHead([301, 302, 303, 307, 308][left % 5]!, { location: `${left - 1}` }).end('not this');
};

test('up to five redirects are followed and listed', async (t) => {
  const { url, seen } = await serve(t, redirecting);
  const call5 = context();
  const page = await call(anywhere, { url: `${url}/5` }, call5);
  assert.deepEqual([page.text, page.url, page.redirects.length], ['arrived', `${url}/0`, 5]);
  assert.equal(seen.length, 6);
  assert.equal(call5.events.filter(({ kind }) => kind === 'status').length, 5);
  await assert.rejects(fetchIt(anywhere, `${url}/6`), failsWith('tool_error', 'too_many_redirects'));
});

test('private and local addresses are refused without a connection', async (t) => {
  const { port, seen } = await serve(t, (_request, response) => response.end('secret'));
  const guarded = builtinTools().find(({ name }) => name === 'http_get')!;
  const refused = failsWith('tool_denied', 'private_address');
  for (const host of [
    '127.0.0.1',
    'localhost',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '0.0.0.0',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '127.0.0.1.',
    '169.254.169.254',
    '10.0.0.1',
    '[fd00:ec2::254]',
  ]) {
    await assert.rejects(fetchIt(guarded, `http://${host}:${port}/`), refused, host);
  }
  assert.deepEqual(seen, []);
  const open = builtinTools({ allowPrivateAddresses: true }).find(({ name }) => name === 'http_get')!;
  assert.equal((await fetchIt(open, `http://127.0.0.1:${port}/`)).text, 'secret');
});

test('a redirect to a private address is refused like a first call', async (t) => {
  const inner = await serve(t, (_request, response) => response.end('secret'));
  const outer = await serve(t, (request, response) => {
    const location = request.url === '/name' ? `http://inner.test:${inner.port}/` : `http://127.0.0.2:${inner.port}/`;
    response.writeHead(302, { location }).end();
  });
  // Stands for the internet: only this one address counts as public.
  const addressAllowed = (address: string) => address === '127.0.0.1';
  const resolve = async (name: string) => [{ address: name === 'inner.test' ? '127.0.0.2' : '127.0.0.1', family: 4 }];
  const tool = httpGet({ addressAllowed, resolve });
  for (const path of ['/name', '/address']) {
    await assert.rejects(fetchIt(tool, outer.url + path), failsWith('tool_denied', 'private_address'), path);
  }
  assert.deepEqual(inner.seen, []);
});

test('a name is resolved once and the checked address is the one that is connected to', async (t) => {
  const { port, seen } = await serve(t, (_request, response) => response.end('here'));
  let asked = 0;
  // A name that changes its address: allowed at the check, another one afterwards.
  const resolve = async () => {
    asked += 1;
    return [{ address: asked === 1 ? '127.0.0.1' : '127.0.0.66', family: 4 }];
  };
  const tool = httpGet({ resolve, addressAllowed: (address) => address === '127.0.0.1' });
  assert.equal((await fetchIt(tool, `http://rebind.test:${port}/`)).text, 'here');
  assert.equal(asked, 1);
  assert.deepEqual(seen, [`GET rebind.test:${port}/`]);
});

test('a name with one private address among public ones is refused', async () => {
  const resolve = async () => [
    { address: '8.8.8.8', family: 4 },
    { address: '::1', family: 6 },
  ];
  await assert.rejects(
    fetchIt(httpGet({ resolve }), 'http://mixed.test/'),
    failsWith('tool_denied', 'private_address'),
  );
});

test('credentials, other schemes and broken URLs are refused, also in redirects, and not repeated', async (t) => {
  const { url } = await serve(t, (request, response) => {
    const location = request.url === '/user' ? 'http://user:hunter2@example.test/' : 'file:///etc/passwd';
    response.writeHead(302, { location }).end();
  });
  for (const [address, code, reason] of [
    ['http://user:hunter2@example.test/', 'tool_denied', 'url_credentials'],
    ['http://hunter2@example.test/', 'tool_denied', 'url_credentials'],
    [`${url}/user`, 'tool_denied', 'url_credentials'],
    [`${url}/file`, 'tool_denied', 'scheme'],
    ['file:///etc/passwd', 'tool_denied', 'scheme'],
    ['ftp://example.test/', 'tool_denied', 'scheme'],
    ['data:text/plain,x', 'tool_denied', 'scheme'],
    ['not a url', 'tool_error', 'bad_url'],
    ['http://', 'tool_error', 'bad_url'],
  ] as const) {
    await assert.rejects(fetchIt(anywhere, address), failsWith(code, reason, 'hunter2'), address);
  }
});

test('a slow answer ends at the time limit, a cancelled one at once', async (t) => {
  const { url } = await serve(t, (request, response) => {
    if (request.url === '/head') return;
    response.write('the beginning');
  });
  for (const path of ['/head', '/body']) {
    await assert.rejects(
      fetchIt(anywhere, url + path, { timeout_seconds: 0.2 }),
      failsWith('timeout', 'time_limit'),
      path,
    );
  }
  const given = context();
  const fetching = call(anywhere, { url: `${url}/body` }, given);
  setTimeout(() => given.cancel(), 50);
  await assert.rejects(fetching, failsWith('cancelled'));
  const never = httpGet({ resolve: () => new Promise(() => {}) });
  const resolving = fetchIt(never, 'http://slow.test/', { timeout_seconds: 0.1 });
  await assert.rejects(resolving, failsWith('timeout', 'time_limit'));
});

test('network failures have a reason and no address of the host', async (t) => {
  const gone = createTcpServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port: closedPort } = gone.address() as AddressInfo;
  gone.close();
  await once(gone, 'close');
  const raw = createTcpServer((socket) => {
    socket.once('data', (data) => {
      if (data.includes('GET /broken')) socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf');
      else socket.end('this is not HTTP\r\n\r\n');
    });
    socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(raw, 'listening');
  t.after(() => raw.close());
  const { port } = raw.address() as AddressInfo;
  const resolve = async (name: string) => {
    if (name === 'unknown.test') throw Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
    return name === 'nothing.test' ? [] : [{ address: '127.0.0.1', family: 4 }];
  };
  const tool = httpGet({ resolve, addressAllowed: () => true });
  for (const [url, reason] of [
    [`http://closed.test:${closedPort}/`, 'connect_failed'],
    [`http://raw.test:${port}/broken`, 'connection_broken'],
    [`http://raw.test:${port}/nonsense`, 'bad_response'],
    [`https://raw.test:${port}/`, 'tls_failed'],
    ['http://unknown.test/', 'dns_failure'],
    ['http://nothing.test/', 'dns_failure'],
  ] as const) {
    await assert.rejects(
      fetchIt(tool, url, { timeout_seconds: 60 }),
      failsWith('tool_error', reason, '127.0.0.1'),
      url,
    );
  }
});

test('a long body reports progress and waits for a reader that is slow', async (t) => {
  const { url } = await serve(t, (_request, response) => response.end('x'.repeat(390_000)));
  let running = 0;
  let most = 0;
  const slow = testCall('/nonexistent', async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running -= 1;
  });
  await call(anywhere, { url, max_bytes: 400_000 }, slow);
  const progress = slow.events.filter(({ kind }) => kind === 'progress').map(({ data }) => Number(data.pct));
  assert.ok(progress.length >= 2, `only ${progress.length} reports`);
  assert.deepEqual(
    progress,
    progress.toSorted((one, other) => one - other),
  );
  assert.ok(progress.every((pct) => pct > 0 && pct < 100));
  assert.equal(most, 1);
});
