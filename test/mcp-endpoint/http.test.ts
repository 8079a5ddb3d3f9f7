/**
 * `/mcp` of a host as MCP clients use it: the official clients of both generations over streamable HTTP, in both eras,
 * with the rights of their tokens; and requests by hand, which a well-behaved client never sends.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type Json, User } from '../cli/command.ts';
import { ADMIN, PATIENCE_MS, poster, STATELESS, statelessHeaders, textOf, until } from './support.ts';

const tools = fileURLToPath(new URL('../support/mcp-tools.mjs', import.meta.url));
const READER = 'reader-token-0123456789';

const CONFIG = `plugins: [tools, memory, { use: ${tools} }]
auth:
  tokens:
    - { name: boss, token_env: ADMIN, admin: true }
    - { name: reader, token_env: READER, capabilities: [tools], tools: { allow: [read_file, shout, hang] } }
`;

async function hostOf(t: TestContext) {
  const user = new User();
  t.after(() => user.leave());
  user.write('trial.yaml', CONFIG);
  user.write('greeting.txt', 'hello\n');
  const { command, ready } = await user.up(['--config', 'trial.yaml'], { env: { ADMIN, READER } });
  return { user, command, url: new URL('/mcp', ready.url) };
}

async function connect(t: TestContext, url: URL, token: string, pin?: string): Promise<Client> {
  const client = new Client(
    { name: 'trial', version: '1' },
    pin === undefined ? {} : { versionNegotiation: { mode: { pin } } },
  );
  t.after(() => client.close());
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }), { timeout: PATIENCE_MS });
  return client;
}

for (const pin of [undefined, STATELESS]) {
  const era = pin ?? 'sessions';
  test(`the official client calls tools over HTTP, with progress and cancel (${era})`, async (t) => {
    const { url, command } = await hostOf(t);
    const client = await connect(t, url, ADMIN, pin);
    assert.equal(client.getServerVersion()?.name, 'handfast');
    const shout = await client.callTool({ name: 'shout', arguments: { text: 'quiet' } });
    assert.deepEqual(shout.structuredContent, { text: 'QUIET' });
    const failed = await client.callTool({ name: 'fails' });
    assert.deepEqual([failed.isError, textOf(failed)], [true, 'tool_error: the disk is on fire']);

    const seen: unknown[] = [];
    const onprogress = ({ progress }: { progress: number }) => void seen.push(progress);
    const counted = await client.callTool({ name: 'count', arguments: { to: 3 } }, { onprogress });
    assert.equal(textOf(counted), '{"counted":3}');
    assert.equal(seen[0], 33);

    const stop = new AbortController();
    const call = client.callTool({ name: 'hang' }, { signal: stop.signal, onprogress: () => stop.abort() });
    await assert.rejects(call);
    await until(() => command.stderr.includes('cancelled: cancelled'));
    assert.equal(textOf(await client.callTool({ name: 'plain' })), 'just text');
  });

  test(`a restricted token sees and calls its own tools alone (${era})`, async (t) => {
    const { url } = await hostOf(t);
    const client = await connect(t, url, READER, pin);
    const { tools: listed } = await client.listTools();
    assert.deepEqual(listed.map(({ name }) => name).sort(), ['hang', 'read_file', 'shout']);
    assert.match(textOf(await client.callTool({ name: 'plain' })), /^tool_denied: /);
    await assert.rejects(client.callTool({ name: 'memory_search' }), /unknown tool/);
  });

  test(`a host that is killed fails the running call (${era})`, async (t) => {
    const { url, command } = await hostOf(t);
    const client = await connect(t, url, ADMIN, pin);
    const hanging = Promise.withResolvers<void>();
    const call = client.callTool({ name: 'hang' }, { onprogress: () => hanging.resolve(), timeout: 5_000 });
    await hanging.promise;
    command.child.kill('SIGKILL');
    await assert.rejects(call);
  });
}

test('the client of the first generation works over HTTP and gets changed lists on its stream', async (t) => {
  const { url } = await hostOf(t);
  const client = new FirstClient({ name: 'first', version: '1' });
  t.after(() => client.close());
  const requestInit = { headers: { Authorization: `Bearer ${ADMIN}` } };
  const transport = new FirstTransport(url, { requestInit });
  // Its declarations are not made for exact optional properties.
  await client.connect(transport as Json, { timeout: PATIENCE_MS });
  const changed = Promise.withResolvers<void>();
  client.fallbackNotificationHandler = async ({ method }) => {
    if (method === 'notifications/tools/list_changed') changed.resolve();
  };
  await client.callTool({ name: 'grow' });
  await changed.promise;
  assert.ok((await client.listTools()).tools.some(({ name }) => name === 'grown'));
  await transport.terminateSession();
});

test('a client that was cut off reads on behind the last event, and gets the reply', async (t) => {
  const { url } = await hostOf(t);
  const post = poster(url);
  const opened = await post(initialize);
  const session = { 'Mcp-Session-Id': opened.headers.get('mcp-session-id') as string };
  await opened.json();
  const call = {
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { name: 'count', arguments: { to: 40 }, _meta: { progressToken: 1 } },
  };
  const cut = await post(call, session);
  const reader = (cut.body as ReadableStream<Uint8Array>).getReader();
  let read = '';
  while (!read.includes('step 2"')) read += new TextDecoder().decode((await reader.read()).value);
  await reader.cancel();
  const last = [...read.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1] as string;
  const headers = { Authorization: `Bearer ${ADMIN}`, Accept: 'text/event-stream', ...session };
  const rest = await (await fetch(url, { headers: { ...headers, 'Last-Event-ID': last } })).text();
  const seen = [...`${read}\n\n${rest}`.matchAll(/"progress":(\d+)/g)].map(([, pct]) => Number(pct));
  assert.deepEqual(seen, [...new Set(seen)], 'no event twice');
  assert.equal(seen.at(-1), 100);
  assert.match(rest, /"id":2,"result"/);
  assert.equal((await fetch(url, { headers: { ...headers, 'Last-Event-ID': '9-9' } })).status, 400);
  // Sessions of other principals do not exist.
  const other = { ...headers, Authorization: `Bearer ${READER}` };
  assert.equal((await fetch(url, { headers: other })).status, 404);
  assert.equal((await fetch(url, { method: 'DELETE', headers })).status, 204);
  assert.equal((await post({ ...call, id: 3 }, session)).status, 404);
});

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'hand', version: '1' } },
};

test('what is refused, with which status', async (t) => {
  const { url } = await hostOf(t);
  const post = poster(url);
  const status = async (body: unknown, headers?: Readonly<Record<string, string>>) =>
    (await post(body, headers)).status;
  const refused = await post(initialize, { Authorization: 'Bearer wrong' });
  assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer']);
  assert.equal(await status(initialize, { Origin: 'http://evil.example' }), 403);
  assert.equal(await status(initialize, { 'Content-Type': 'text/plain' }), 415);
  assert.equal(await status(initialize, { Accept: 'application/json' }), 406);
  assert.equal(await status('{'), 400);
  assert.equal(await status([initialize]), 400);
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  assert.equal(await status(ping), 400);
  assert.equal(await status(ping, { 'Mcp-Session-Id': 'nope' }), 404);
  assert.equal((await fetch(url, { headers: { Authorization: `Bearer ${ADMIN}` } })).status, 405);
  assert.equal(await status(`"${'x'.repeat(2 * 1024 * 1024)}"`), 413);

  const _meta = {
    'io.modelcontextprotocol/protocolVersion': STATELESS,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const headers = statelessHeaders('tools/list');
  const alone = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } };
  const codeOf = async (body: unknown, given: Readonly<Record<string, string>>) => {
    const response = await post(body, given);
    return [response.status, ((await response.json()) as Json).error?.code];
  };
  assert.deepEqual(await codeOf(alone, headers), [200, undefined]);
  assert.deepEqual(await codeOf(alone, { ...headers, 'Mcp-Method': 'ping' }), [400, -32_020]);
  assert.deepEqual(await codeOf(alone, { ...headers, 'MCP-Protocol-Version': '2025-11-25' }), [400, -32_020]);
  assert.deepEqual(await codeOf({ ...alone, params: {} }, headers), [400, -32_602]);
  const ofUnknown = { ...alone, method: 'no/such' };
  assert.deepEqual(await codeOf(ofUnknown, { ...headers, 'Mcp-Method': 'no/such' }), [404, -32_601]);
});
