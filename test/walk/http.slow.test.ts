/**
 * No body of an HTTP request holds the event loop: requests of MCP with parameters of any shape, and bodies that arrive before
 * any token was checked.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type JsonObject, membersOf } from '../../src/wire/json.ts';
import { walkedCapabilities } from './a2e-live.ts';
import { largest } from './largest.ts';
import { ADMIN, Walk, walkedHost } from './walk.ts';

const BYTES = 1024 * 1024 - 16 * 1024;
const VERSION = '2025-11-25';

/** Requests of MCP, with the parameters that make them legal. */
const requests: Readonly<Record<string, JsonObject>> = {
  initialize: { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: 'walker', version: '1' } },
  ping: {},
  'tools/list': {},
  'tools/call': { name: 'read_file', arguments: { path: 'one.txt' } },
  'prompts/list': {},
  'prompts/get': { name: 'shout', arguments: {} },
  'resources/list': {},
  'resources/read': { uri: 'memory://walked' },
  'completion/complete': { ref: { type: 'ref/prompt', name: 'shout' }, argument: { name: 'a', value: 'b' } },
  'logging/setLevel': { level: 'debug' },
};

/** Returns the schema of an object that is as free as any of MCP: each of its members may be any value. */
const open = (params: JsonObject): JsonObject => ({
  type: 'object',
  properties: { ...Object.fromEntries(Object.keys(params).map((name) => [name, {}])), _meta: { type: 'object' } },
  required: Object.keys(params),
});

test('bodies of HTTP requests hold the loop no longer than 50 ms', async (t) => {
  const host = await walkedHost(t, walkedCapabilities);
  const walk = new Walk(host);
  const post = (path: string, body: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${host.http}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers },
      body,
      signal: AbortSignal.timeout(10_000),
    });
  const rpc = (method: string, params: unknown) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const token = { Authorization: `Bearer ${ADMIN}` };
  const opened = await post('/mcp', rpc('initialize', requests.initialize), token);
  const session = opened.headers.get('mcp-session-id');
  assert.ok(session !== null, `${opened.status} ${await opened.text()}`);
  const known = { ...token, 'Mcp-Session-Id': session, 'Mcp-Protocol-Version': VERSION };
  for (const [method, params] of Object.entries(requests)) {
    for (const { title, value } of largest(open(params), params, BYTES, method)) {
      await walk.step(`mcp ${method} ${title}`, async () => {
        await (await post('/mcp', rpc(method, value), method === 'initialize' ? token : known)).text();
      });
    }
  }
  for (const path of ['/mcp', '/handshake', '/messages', '/', '/rpc', '/session']) {
    for (const { title, value } of largest({ type: 'object', properties: { x: {} } }, {}, BYTES)) {
      await walk.step(`POST ${path} ${title}, without a token`, async () => {
        // A server may close the connection of one that it refuses.
        await post(path, JSON.stringify(membersOf(value).x), {}).then(
          (response) => response.text(),
          () => undefined,
        );
      });
    }
  }
  walk.mustHaveHeldNobody();
});
