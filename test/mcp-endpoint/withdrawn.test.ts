/**
 * A token that is withdrawn while an MCP client uses it over HTTP: requests that run are cancelled with the reason,
 * streams end, and the next request is refused; sessions of the principal stay for its other tokens, with their present
 * rights.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { connect as connectSocket, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Json } from '../cli/command.ts';
import { ADMIN, ann, start, TOKEN } from '../support/changing-rights.ts';
import { PATIENCE_MS, STATELESS, statelessHeaders, textOf, until } from './support.ts';

const OTHER = 'another-token-of-the-same-principal';
const MAY = 'roles: [agent], tools: { allow: [shell, read_file] }';
/** Leaves a mark where it was not cancelled. */
const wait = { name: 'shell', arguments: { command: 'touch started; sleep 25; touch finished' } };

async function clientWith(t: TestContext, url: string, token: string, era: string): Promise<Client> {
  const pinned = era === 'stateless' ? { versionNegotiation: { mode: { pin: STATELESS } } } : {};
  const client = new Client({ name: 'trial', version: '1' }, pinned);
  client.onerror = () => {};
  t.after(() => client.close());
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit }), {
    timeout: PATIENCE_MS,
  });
  return client;
}

for (const era of ['sessions', 'stateless']) {
  for (const change of ['the principal is removed', 'the token is replaced']) {
    test(`${change} while a call runs: it is cancelled with 401, and so is the next (${era})`, async (t) => {
      const { server, folder, write, reload } = await start(t, ann(MAY));
      const client = await clientWith(t, server.url as string, TOKEN, era);
      const call = client.callTool(wait, { timeout: PATIENCE_MS }).then(
        () => assert.fail('it ran on'),
        (error: Json) => error,
      );
      await until(() => existsSync(join(folder, 'started')));
      write(change === 'the principal is removed' ? '' : ann(MAY).replace(TOKEN, OTHER));
      assert.equal((await reload()).status, 200);
      const error = await call;
      assert.equal(error.status, 401, String(error));
      await assert.rejects(client.listTools(), { status: 401 });
      assert.ok(!existsSync(join(folder, 'finished')));
    });
  }
}

/** Sends a request by hand on a separate socket, and collects the response. */
function asked(t: TestContext, url: string, head: readonly string[], body = '') {
  const { hostname, port, host } = new URL(url);
  const socket = connectSocket(Number(port), hostname);
  t.after(() => socket.destroy());
  const seen = { text: '', ended: false, socket: socket as Socket };
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    seen.text += text;
    // The last chunk of a stream.
    if (seen.text.endsWith('0\r\n\r\n')) seen.ended = true;
  });
  socket.on('close', () => {
    seen.ended = true;
  });
  const length = head.some((line) => /^content-length/i.test(line))
    ? []
    : [`Content-Length: ${Buffer.byteLength(body)}`];
  socket.write(`${[head[0], `Host: ${host}`, ...head.slice(1), ...length].join('\r\n')}\r\n\r\n${body}`);
  return seen;
}

const FIELDS = ['Content-Type: application/json', 'Accept: application/json, text/event-stream'];
const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
});
const bearer = (token: string): string => `Authorization: Bearer ${token}`;

async function session(t: TestContext, url: string, token: string): Promise<string> {
  const opened = asked(t, url, ['POST /mcp HTTP/1.1', bearer(token), ...FIELDS], initialize);
  await until(() => opened.text.includes('protocolVersion'));
  return /mcp-session-id: (\w+)/i.exec(opened.text)?.[1] ?? assert.fail(opened.text);
}

test('streams end: that of a session, that of a call in it, and that of a request that listens; other principals keep theirs', async (t) => {
  const { server, folder, write, reload } = await start(t, ann(MAY));
  const url = server.url as string;
  const id = await session(t, url, TOKEN);
  const others = await session(t, url, ADMIN);
  const get = (token: string, of: string) =>
    asked(t, url, ['GET /mcp HTTP/1.1', bearer(token), 'Accept: text/event-stream', `Mcp-Session-Id: ${of}`]);
  const stream = get(TOKEN, id);
  const foreign = get(ADMIN, others);
  const params = { ...wait, _meta: { progressToken: 1 } };
  const call = asked(
    t,
    url,
    ['POST /mcp HTTP/1.1', bearer(TOKEN), `Mcp-Session-Id: ${id}`, ...FIELDS],
    JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params }),
  );
  const meta = {
    'io.modelcontextprotocol/protocolVersion': STATELESS,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const listen = asked(
    t,
    url,
    [
      'POST /mcp HTTP/1.1',
      bearer(TOKEN),
      ...FIELDS,
      ...Object.entries(statelessHeaders('subscriptions/listen')).map(([name, value]) => `${name}: ${value}`),
    ],
    JSON.stringify({
      jsonrpc: '2.0',
      id: 8,
      method: 'subscriptions/listen',
      params: { _meta: meta, notifications: { toolsListChanged: true } },
    }),
  );
  // A request whose body is not complete yet.
  const slow = asked(t, url, [
    'POST /mcp HTTP/1.1',
    bearer(TOKEN),
    ...FIELDS,
    `Content-Length: ${Buffer.byteLength(initialize)}`,
  ]);
  slow.socket.write(initialize.slice(0, 20));
  await until(() => stream.text.includes(': attached') && foreign.text.includes(': attached'));
  await until(() => existsSync(join(folder, 'started')) && listen.text.includes('acknowledged'));
  write('');
  await reload();
  await until(() => stream.ended && listen.ended && call.text.includes('"id":7'));
  assert.match(call.text, /401 Unauthorized.*WWW-Authenticate: Bearer.*unauthorized: the token was withdrawn/is);
  assert.match(listen.text, /"id":8,"error":\{"code":-32000,"message":"unauthorized: the token was withdrawn"/);
  slow.socket.write(initialize.slice(20));
  await until(() => slow.text.includes('HTTP/1.1 401'));
  assert.equal(foreign.ended, false);
  // The session has ended, also for the present owner of the name.
  write(ann(MAY));
  await reload();
  const again = get(TOKEN, id);
  await until(() => again.text.includes('HTTP/1.1 404'));
});

test('a session continues with another token of its principal, and has the rights of now', async (t) => {
  const both = (grants: string): string => `    - { name: ann, token: [${TOKEN}, ${OTHER}], ${grants} }\n`;
  const { server, write, reload } = await start(t, both(MAY));
  const url = server.url as string;
  const client = await clientWith(t, url, OTHER, 'sessions');
  assert.ok((await client.listTools()).tools.some(({ name }) => name === 'shell'));
  write(ann('roles: [agent], tools: { allow: [read_file] }').replace(TOKEN, OTHER));
  assert.equal((await reload()).status, 200);
  const refused = await client.callTool({ name: 'shell', arguments: { command: 'true' } });
  assert.match(textOf(refused), /^tool_denied/);
  await until(async () => !(await client.listTools()).tools.some(({ name }) => name === 'shell'));
});
