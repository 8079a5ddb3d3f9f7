/**
 * Hostile and foreign clients of `/mcp`, by hand: sessions of others, forged ids, cursors and headers, bodies that are
 * no messages, and clients that leave open resources behind.
 */
import assert from 'node:assert/strict';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ADMIN, ann, start, TOKEN } from '../support/changing-rights.ts';
import { STATELESS, statelessHeaders, until } from './support.ts';

type Headers = Readonly<Record<string, string>>;
interface Reply {
  readonly status: number;
  readonly text: string;
  readonly headers: IncomingHttpHeaders;
}

const MAY = 'capabilities: [tools, memory], tools: { allow: [read_file, shell] }';
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};
const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

/** Starts a host, and returns functions that send requests to it: `open` requests return the output so far. */
async function attacked(t: TestContext, grants = MAY) {
  const { server } = await start(t, ann(grants));
  const url = new URL('/mcp', server.url as string);
  const begin = (body: unknown, headers: Headers, token: string, method: string) => {
    const seen = { status: 0, text: '', headers: {} as IncomingHttpHeaders, ended: false };
    const request = httpRequest(url, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
    });
    request.on('response', (response) => {
      seen.status = response.statusCode ?? 0;
      seen.headers = response.headers;
      response.setEncoding('utf8').on('data', (text: string) => {
        seen.text += text;
      });
      response.once('end', () => {
        seen.ended = true;
      });
    });
    request.on('error', () => {});
    t.after(() => request.destroy());
    request.end(typeof body === 'string' || Buffer.isBuffer(body) || body === undefined ? body : JSON.stringify(body));
    return { seen, leave: () => request.destroy() };
  };
  const send = async (body: unknown, headers: Headers = {}, token = TOKEN, method = 'POST'): Promise<Reply> => {
    const { seen } = begin(body, headers, token, method);
    await until(() => seen.ended);
    return seen;
  };
  const opened = await send(INITIALIZE);
  const session = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
  return { send, begin, session };
}

const codeOf = ({ text }: Reply): number | undefined => (JSON.parse(text) as { error?: { code: number } }).error?.code;

test('a session is its principal’s alone: others cannot use, read, end or guess it', async (t) => {
  const { send, session } = await attacked(t);
  const event = { accept: 'text/event-stream' };
  const foreign = [
    send(LIST, session, ADMIN),
    send(undefined, session, ADMIN, 'DELETE'),
    send(undefined, { ...session, ...event }, ADMIN, 'GET'),
    send(LIST, { 'mcp-session-id': '__proto__' }),
    send(LIST, { 'mcp-session-id': 'x'.repeat(1_000) }),
  ];
  for (const reply of await Promise.all(foreign)) {
    assert.equal(reply.status, 404);
    // The same for existing and missing sessions.
    assert.equal(reply.text, (await send(LIST, { 'mcp-session-id': '0'.repeat(32) })).text);
  }
  assert.equal((await send(LIST, session)).status, 200);
  for (const last of ['5-1', '0-99', '../0', '1', '0-1;2-1', '9999999999-1']) {
    const reply = await send(undefined, { ...session, ...event, 'last-event-id': last }, TOKEN, 'GET');
    assert.equal(reply.status, 400, last);
  }
});

test('a client whose token has no memory reads nothing about it', async (t) => {
  for (const [grants, says] of [
    ['capabilities: [tools]', false],
    ['capabilities: [tools, memory]', true],
  ] as const) {
    const { send } = await attacked(t, grants);
    const opened = await send(INITIALIZE);
    assert.equal(JSON.parse(opened.text).result.instructions.includes('memory_store'), says);
    const discovered = await send(...alone('server/discover', {}));
    assert.equal(JSON.parse(discovered.text).result.instructions.includes('memory_store'), says);
  }
});

test('pages of other sites, other names of this server, and other kinds of bodies are refused', async (t) => {
  const { send, session } = await attacked(t);
  const refused: [status: number, headers: Headers, body?: unknown][] = [
    [403, { host: 'evil.example:80' }],
    [403, { origin: 'http://evil.example' }],
    [403, { origin: 'null' }],
    [415, { 'content-type': 'text/plain' }],
    [415, { 'content-encoding': 'gzip' }, gzipSync(JSON.stringify(LIST))],
    [406, { accept: 'text/html' }],
    [400, {}, Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
    [400, {}, Buffer.from('{"jsonrpc":"2.0","id":"\xff","method":"ping"}', 'latin1')],
    [400, {}, [LIST, LIST]],
    [400, {}, []],
    [400, {}, '"text"'],
    [400, {}, '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    [400, { 'mcp-protocol-version': '1999-01-01' }],
  ];
  for (const [status, headers, body = LIST] of refused) {
    const reply = await send(body, { ...session, ...headers });
    assert.equal(reply.status, status, JSON.stringify(headers) + String(body).slice(0, 40));
  }
});

test('ids, cursors and params that no client of ours sends have errors of JSON-RPC', async (t) => {
  const { send, session } = await attacked(t);
  for (const id of ['null', '1.5', '1e400', '9007199254740993', '{}', '[]', 'true']) {
    const reply = await send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`, session);
    assert.deepEqual([reply.status, codeOf(reply)], [400, -32_600], id);
  }
  for (const id of ['-1', '""', `"${'x'.repeat(100_000)}"`, '"__proto__"']) {
    const { text } = await send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`, session);
    assert.equal(text, `{"jsonrpc":"2.0","id":${id},"result":{}}`);
  }
  for (const cursor of ['p-1', 'p999999999', 'p1000', 1, {}, 'x', 'p00000000001', '__proto__']) {
    assert.equal(codeOf(await send({ ...LIST, params: { cursor } }, session)), -32_602, JSON.stringify(cursor));
  }
  const call = (params: string): Promise<Reply> =>
    send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`, session);
  assert.equal(codeOf(await call('{"__proto__":{"name":"shell"},"arguments":{}}')), -32_602);
  for (const name of ['constructor', '__proto__', 'toString']) {
    assert.equal(codeOf(await call(`{"name":"${name}","arguments":{}}`)), -32_602, name);
  }
  assert.equal(codeOf(await send({ ...LIST, method: '__proto__' }, session)), -32_601);
  for (const levels of [100, 50_000]) {
    const deep = `${'['.repeat(levels)}${']'.repeat(levels)}`;
    const reply = await call(`{"name":"read_file","arguments":{"path":${deep}}}`);
    assert.equal(reply.status, 400);
    assert.deepEqual(JSON.parse(reply.text), {
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32_600, message: 'nested too deeply' },
    });
  }
  // A reply without a request, and a cancel without a match.
  assert.equal((await send({ jsonrpc: '2.0', id: 'handfast-1', result: {} }, session)).status, 202);
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: { a: 1 } } };
  assert.equal((await send(cancel, session)).status, 202);
  assert.equal((await send(LIST, session)).status, 200);
});

test('a client that writes null for absent members is served', async (t) => {
  const { send, session } = await attacked(t);
  const resultOf = ({ text }: Reply): Readonly<Record<string, unknown>> => JSON.parse(text).result;
  for (const params of [null, { cursor: null }, { _meta: null, cursor: null }]) {
    assert.ok(Array.isArray(resultOf(await send({ ...LIST, params }, session)).tools), JSON.stringify(params));
  }
  const call = { ...LIST, method: 'tools/call', params: { name: 'read_file', arguments: null, _meta: null } };
  // The tool runs, and misses its argument.
  assert.match(JSON.stringify(resultOf(await send(call, session))), /path/);
  const notification = { jsonrpc: '2.0', id: null, method: 'notifications/initialized', params: null };
  assert.equal((await send(notification, session)).status, 202);
});

const META = {
  'io.modelcontextprotocol/protocolVersion': STATELESS,
  'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
};
const alone = (method: string, params: object, more: Headers = {}): [object, Headers] => [
  { jsonrpc: '2.0', id: 1, method, params: { _meta: META, ...params } },
  { ...statelessHeaders(method), ...more },
];

test('requests that stand alone: headers that say another thing than the body are refused', async (t) => {
  const { send } = await attacked(t);
  const read = { name: 'read_file', arguments: { path: 'x' } };
  const mismatches = [
    alone('tools/list', {}, { 'Mcp-Method': 'tools/call' }),
    alone('tools/call', read, { 'Mcp-Name': 'shell' }),
    alone('tools/call', read, { 'Mcp-Name': '=?base64?c2hlbGw=?=' }),
    alone('tools/call', read),
    alone('tools/list', {}, { 'MCP-Protocol-Version': '2025-11-25' }),
  ];
  for (const [body, headers] of mismatches) {
    const reply = await send(body, headers);
    assert.deepEqual([reply.status, codeOf(reply)], [400, -32_020], JSON.stringify(headers));
  }
  const forged = { inputResponses: JSON.parse('{"__proto__":{"action":"accept"}}'), requestState: '__proto__' };
  assert.equal(
    codeOf(await send(...alone('tools/call', { ...read, ...forged }, { 'Mcp-Name': 'read_file' }))),
    -32_602,
  );
});

test('a call that is cancelled ends its response, and one whose session is ended says so', async (t) => {
  const { send, begin, session } = await attacked(t);
  const wait = (id: number, seconds: number): object => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'shell', arguments: { command: `sleep ${seconds}` }, _meta: { progressToken: id } },
  });
  const cancelled = begin(wait(7, 50), session, TOKEN, 'POST');
  const ended = begin(wait(8, 50), session, TOKEN, 'POST');
  // Both are running: their ids are in use.
  for (const id of [7, 8]) await until(async () => (await send({ ...LIST, id }, session)).status === 400);
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };
  assert.equal((await send(cancel, session)).status, 202);
  await until(() => cancelled.seen.ended);
  assert.ok(!cancelled.seen.text.includes('"id":7'), cancelled.seen.text);
  assert.equal((await send(undefined, session, TOKEN, 'DELETE')).status, 204);
  await until(() => ended.seen.ended);
  assert.match(ended.seen.text, /"id":8,"error":.*the session has ended/);
});

test('clients that listen for thousands of resources, and leave, take nothing from those that come later', async (t) => {
  const { send, begin } = await attacked(t);
  const uris = (from: number, count: number) => Array.from({ length: count }, (_, at) => `memory://mcp/k${from + at}`);
  const listen = (resourceSubscriptions: string[]) => {
    const [body, headers] = alone('subscriptions/listen', { notifications: { resourceSubscriptions } });
    return begin(body, headers, TOKEN, 'POST');
  };
  const honoured = (text: string): number => text.match(/memory:\/\/mcp\/k/g)?.length ?? 0;
  for (let round = 0; round < 20; round += 1) {
    const { seen, leave } = listen(uris(round * 1_000, 1_000));
    await until(() => seen.text.includes('acknowledged'));
    // As many as one request may have, each time: those of requests that have ended do not count.
    assert.equal(honoured(seen.text), 256);
    leave();
  }
  const { seen } = listen(uris(0, 2));
  await until(() => seen.text.includes('acknowledged'));
  assert.equal(honoured(seen.text), 2);
  const opened = await send(INITIALIZE);
  const own = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
  const subscribe = (at: number) =>
    send({ jsonrpc: '2.0', id: at, method: 'resources/subscribe', params: { uri: `memory://mcp/k${at}` } }, own);
  for (let at = 0; at < 256; at += 1) assert.equal(codeOf(await subscribe(at)), undefined);
  assert.match((await subscribe(256)).text, /quota_exceeded/);
  assert.equal(codeOf(await subscribe(0)), undefined, 'one that there is costs nothing');
});
