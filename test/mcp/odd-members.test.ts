/**
 * Servers whose messages differ a little from the protocol, as libraries in other languages write them: `null` for absent members, members that are
 * missing, of the wrong type, or unknown. Calls reach the good tool beside an odd one, and a reply that cannot be read fails at once.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { McpServer } from '../../src/mcp/server.ts';
import { errorOf, folder, PATIENCE_MS } from '../capabilities/mcp/support.ts';

const scripted = fileURLToPath(new URL('../support/mcp-scripted.mjs', import.meta.url));
const patiently = { signal: new AbortController().signal, timeoutMs: PATIENCE_MS };
const schema = { type: 'object', properties: {} };
const good = { name: 'good', description: 'good', inputSchema: schema };

interface Script {
  readonly tools?: readonly unknown[];
  readonly replies?: Readonly<Record<string, unknown>>;
}

function serverOf(t: TestContext, script: Script): McpServer {
  const env = { SCRIPT: JSON.stringify({ tools: [good], ...script }) };
  const stdio = { command: process.execPath, args: [scripted], env };
  const server = new McpServer({ address: { stdio }, cwd: folder(t), startTimeoutMs: PATIENCE_MS });
  t.after(() => server.close());
  return server;
}

/** Members of a tool, and the members that a list has of them. */
const MEMBERS: readonly (readonly [given: object, read: object | undefined])[] = [
  [{ description: null, title: null, annotations: null, _meta: null, icons: null, execution: null }, {}],
  [{ outputSchema: null }, {}],
  [
    { annotations: { title: null, readOnlyHint: null, idempotentHint: true } },
    { annotations: { idempotentHint: true } },
  ],
  [{ annotations: { readOnlyHint: 'yes' }, description: 7 }, { annotations: {} }],
  [{ inputSchema: {} }, { inputSchema: { type: 'object' } }],
  [{ inputSchema: null }, { inputSchema: { type: 'object' } }],
  [{ inputSchema: undefined }, { inputSchema: { type: 'object' } }],
  [{ inputSchema: true }, { inputSchema: { type: 'object' } }],
  [{ inputSchema: { type: ['object', 'null'] } }, { inputSchema: { type: 'object' } }],
  [{ inputSchema: { type: 'array' } }, { inputSchema: { type: 'object' } }],
  [{ inputSchema: { ...schema, required: null } }, { inputSchema: schema }],
  [{ inputSchema: { type: 'object', properties: null } }, { inputSchema: { type: 'object' } }],
  [
    { inputSchema: { type: 'object', properties: { a: null, b: true, c: 'string' } } },
    { inputSchema: { type: 'object', properties: { a: {}, b: true, c: { type: 'string' } } } },
  ],
  [
    { inputSchema: { type: 'object', properties: { a: { const: null, default: null } } } },
    { inputSchema: { type: 'object', properties: { a: { const: null, default: null } } } },
  ],
  [{ outputSchema: { description: 'y' } }, { outputSchema: { type: 'object', description: 'y' } }],
  [
    { outputSchema: { type: 'array', items: {} } },
    { outputSchema: { type: 'object', properties: { result: { type: 'array', items: {} } }, required: ['result'] } },
  ],
  [{ outputSchema: { type: 'array', items: { $ref: '#/$defs/a' } } }, {}],
  [{ unknown: 1 }, {}],
  [{ name: null }, undefined],
  [{ name: '' }, undefined],
];

test('a list has tools without members that do not fit, and no tool without a name', async (t) => {
  const odd = (given: object, at: number) => ({ name: `odd${at}`, inputSchema: schema, ...given });
  const server = serverOf(t, { tools: [...MEMBERS.map(([given], at) => odd(given, at)), null, 'odd', good] });
  await server.start();
  for (const [at, [given, read]] of MEMBERS.entries()) {
    const found = server.tools.find(({ name }) => name === `odd${at}`);
    const { digest: _, pin: __, ...tool } = found ?? { digest: '', pin: '' };
    const expected = read && { name: `odd${at}`, inputSchema: schema, ...read };
    assert.deepEqual(found && tool, expected, JSON.stringify(given));
  }
  assert.deepEqual(await server.call('good', {}, patiently), { content: [{ type: 'text', text: 'scripted good' }] });
});

const info = { name: 'x', version: '1' };
const opened = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: info };
const GREETINGS: Readonly<Record<string, unknown>> = {
  'members that are null': {
    ...opened,
    capabilities: { tools: {}, prompts: null, resources: null, logging: null, experimental: null, completions: null },
    serverInfo: { ...info, title: null },
    instructions: null,
    _meta: null,
  },
  'no version of the server': { ...opened, serverInfo: { name: 'x' } },
  'a number as its version': { ...opened, serverInfo: { name: 'x', version: 2 } },
  'no name of the server': { ...opened, serverInfo: null },
  'no revision': { ...opened, protocolVersion: null },
  'true for a capability': { ...opened, capabilities: { tools: true, logging: true } },
  'texts for flags': { ...opened, capabilities: { tools: { listChanged: 'true' }, extra: 1 }, extra: null },
};

for (const [what, initialize] of Object.entries(GREETINGS)) {
  test(`a server that opens with ${what} is used`, async (t) => {
    const server = serverOf(t, { replies: { initialize } });
    assert.deepEqual(await server.call('good', {}, patiently), { content: [{ type: 'text', text: 'scripted good' }] });
  });
}

const LISTS: Readonly<Record<string, unknown>> = {
  'a cursor that is null': { tools: [good], nextCursor: null },
  'a cursor that is empty': { tools: [good], nextCursor: '', _meta: null },
  'an error that is null': '{"jsonrpc":"2.0","id":ID,"error":null,"result":{"tools":[{"name":"good"}]}}',
  'its id as a text': '{"jsonrpc":"2.0","id":"ID","result":{"tools":[{"name":"good"}]}}',
  'no version of JSON-RPC, and a member too many': '{"id":ID,"result":{"tools":[{"name":"good"}]},"took_ms":3}',
  'a byte order mark': '\ufeff{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"good"}]}}',
  'a request of the server before it that has its id and is not JSON':
    '{"jsonrpc":"2.0","id":ID,"method":"roots/list","params":{"a":NaN}}\n{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"good"}]}}',
  'a batch': '[{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"good"}]}}]',
};

for (const [what, list] of Object.entries(LISTS)) {
  test(`a list of tools with ${what} is read`, async (t) => {
    const server = serverOf(t, { replies: { 'tools/list': list } });
    await server.start();
    assert.deepEqual(
      server.tools.map(({ name }) => name),
      ['good'],
    );
  });
}

const text = (value: string) => ({ type: 'text', text: value });
const RESULTS: readonly (readonly [given: unknown, read: unknown])[] = [
  [
    {
      content: [{ ...text('a'), annotations: null, _meta: null }],
      isError: null,
      structuredContent: null,
      _meta: null,
    },
    { content: [text('a')] },
  ],
  [
    { content: null, structuredContent: { a: 1 } },
    { content: [], structuredContent: { a: 1 } },
  ],
  [{ content: text('a') }, { content: [text('a')] }],
  [{ content: 'a' }, { content: [text('a')] }],
  [{ content: [text('a'), { type: 'text', text: null }, null, 'b'] }, { content: [text('a'), text(''), text('b')] }],
  [{ structuredContent: [1] }, { content: [], structuredContent: { result: [1] } }],
  [null, { content: [] }],
  [
    { content: 'a', task: null, inputRequests: null, requestState: null },
    { content: [text('a')], task: null, inputRequests: null, requestState: null },
  ],
  [{ content: [{ type: 'video', url: 'x' }] }, { content: [text('{"type":"video","url":"x"}')] }],
  [
    { content: [{ type: 'image', data: 'data:image/gif;base64,QUJD', mimeType: null }] },
    { content: [{ type: 'image', data: 'QUJD', mimeType: 'image/png' }] },
  ],
  [
    { content: [{ type: 'image', data: 'QU\nJD_-', mimeType: 'image/png' }] },
    { content: [{ type: 'image', data: 'QUJD/+==', mimeType: 'image/png' }] },
  ],
  [
    { content: [{ type: 'resource', resource: { uri: 'a:b', text: 'x', blob: null, mimeType: null } }] },
    { content: [{ type: 'resource', resource: { uri: 'a:b', text: 'x' } }] },
  ],
  [
    { content: [{ type: 'resource_link', uri: 'a:b', size: null, annotations: { priority: 7, audience: ['user'] } }] },
    { content: [{ type: 'resource_link', uri: 'a:b', name: '', annotations: { audience: ['user'] } }] },
  ],
];

test('a result loses members that do not fit', async (t) => {
  const replies = Object.fromEntries(
    RESULTS.map(([result], at) => [`odd${at}`, `{"jsonrpc":"2.0","id":ID,"result":${JSON.stringify(result)}}`]),
  );
  const tools = RESULTS.map((_, at) => ({ ...good, name: `odd${at}` }));
  const server = serverOf(t, { tools, replies });
  for (const [at, [given, read]] of RESULTS.entries()) {
    assert.deepEqual(await server.call(`odd${at}`, {}, patiently), read, JSON.stringify(given));
  }
});

test('progress with members that are null is progress', async (t) => {
  const good =
    '{"jsonrpc":"2.0","id":null,"method":"notifications/progress","params":{"progressToken":ID,"progress":1,"total":null,"message":null}}';
  const server = serverOf(t, { replies: { good } });
  const seen: unknown[] = [];
  const stop = new AbortController();
  const onProgress = (each: unknown): void => {
    seen.push(each);
    stop.abort(new Error('seen'));
  };
  await assert.rejects(server.call('good', {}, { ...patiently, signal: stop.signal, onProgress }), /seen/);
  assert.deepEqual(seen, [{ progress: 1 }]);
});

/** Replies that cannot be read, and the reason. A wait would end at the limit of the call, which is far away. */
const UNREADABLE: readonly (readonly [reply: string, why: RegExp])[] = [
  ['{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"a":NaN}}}', /NaN and Infinity/],
  ["{'jsonrpc': '2.0', 'id': ID, 'result': {'content': []}}", /cannot be read: it is not JSON/],
  ['{"jsonrpc":"2.0","id":ID,"result":{"content":[', /cannot be read: it is not JSON/],
  ['{\n  "jsonrpc": "2.0",\n  "id": ID,\n  "result": {}\n}', /cannot be read: it is not JSON/],
  ['{"jsonrpc":"2.0","id":ID}', /neither a result nor an error/],
  ['{"jsonrpc":"2.0","id":ID,"error":"broken"}', /broken/],
  ['{"jsonrpc":"2.0","id":ID,"error":{"code":"7","message":null}}', /says no more/],
  ['{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}', /parse error/],
];

test('a reply on pipes that cannot be read fails its call at once with the reason, and the next call works', async (t) => {
  const replies = Object.fromEntries(UNREADABLE.map(([reply], at) => [`odd${at}`, reply]));
  const tools = [good, ...UNREADABLE.map((_, at) => ({ ...good, name: `odd${at}` }))];
  const server = serverOf(t, { tools, replies });
  for (const [at, [reply, why]] of UNREADABLE.entries()) {
    const { message } = await errorOf(server.call(`odd${at}`, {}, patiently));
    assert.match(message, why, reply);
    assert.ok(message.length < 400 && !message.includes('\n'), message);
  }
  assert.deepEqual(await server.call('good', {}, patiently), { content: [text('scripted good')] });
});
