/**
 * `handfast mcp` as MCP clients use it: the official clients of both generations start the command and use its pipes,
 * with a separate host and with one that runs, in both eras; and a client that sends arbitrary messages.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { type Json, User } from '../cli/command.ts';
import { ownPort } from '../support/own-port.ts';
import { PATIENCE_MS, STATELESS, textOf, until } from './support.ts';

const tools = fileURLToPath(new URL('../support/mcp-tools.mjs', import.meta.url));

function userWith(t: TestContext, config = `plugins: [tools, memory, { use: ${tools} }]\n`): User {
  const user = new User();
  t.after(() => user.leave());
  user.write('trial.yaml', config);
  user.write('greeting.txt', 'hello\n');
  return user;
}

/** Returns the settings with which a client starts the command. */
function startOf(user: User, words: readonly string[]) {
  const [command = '', ...args] = user.line(['mcp', ...words]);
  return { command, args, env: user.environment(), cwd: user.cwd, stderr: 'pipe' as const };
}

interface Opened {
  readonly client: Client;
  readonly transport: StdioClientTransport;
  stderr: string;
}

async function connect(t: TestContext, user: User, words: readonly string[], pin?: string): Promise<Opened> {
  const client = new Client(
    { name: 'trial', version: '1' },
    pin === undefined ? {} : { versionNegotiation: { mode: { pin } } },
  );
  const transport = new StdioClientTransport(startOf(user, words));
  const opened = { client, transport, stderr: '' };
  transport.stderr?.on('data', (chunk: Buffer) => {
    opened.stderr += String(chunk);
  });
  t.after(() => client.close());
  await client.connect(transport, { timeout: PATIENCE_MS });
  return opened;
}

const OWN = ['--config', 'trial.yaml'];

for (const pin of [undefined, STATELESS]) {
  const era = pin ?? 'sessions';
  test(`the official client uses a host of the command (${era})`, async (t) => {
    const user = userWith(t);
    const { client } = await connect(t, user, OWN, pin);
    assert.equal(client.getServerVersion()?.name, 'handfast');

    const { tools: listed } = await client.listTools();
    const named = Object.fromEntries(listed.map((each) => [each.name, each]));
    assert.ok(named.read_file !== undefined && named.memory_search !== undefined);
    assert.deepEqual(named.shout?.annotations, { readOnlyHint: true, idempotentHint: true, openWorldHint: false });
    assert.deepEqual(named.plain?.annotations, {
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    });
    assert.equal((named.shout as Json).outputSchema.properties.text.type, 'string');

    const shout = await client.callTool({ name: 'shout', arguments: { text: 'quiet' } });
    assert.deepEqual(shout.structuredContent, { text: 'QUIET' });
    assert.equal(textOf(shout), '{"text":"QUIET"}');
    assert.equal(textOf(await client.callTool({ name: 'plain' })), 'just text');
    const read = await client.callTool({ name: 'read_file', arguments: { path: 'greeting.txt' } });
    assert.match(textOf(read), /hello/);

    const failed = await client.callTool({ name: 'fails' });
    assert.deepEqual([failed.isError, textOf(failed)], [true, 'tool_error: the disk is on fire']);
    const wrong = await client.callTool({ name: 'shout', arguments: { text: 1 } });
    assert.equal(wrong.isError, true);
    assert.match(textOf(wrong), /^schema_violation: .*\/text/);
    await assert.rejects(client.callTool({ name: 'nope' }), /unknown tool: nope/);
  });

  test(`progress and log messages come before the reply (${era})`, async (t) => {
    const { client } = await connect(t, userWith(t), OWN, pin);
    const logged: unknown[] = [];
    client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(params.data));
    const seen: unknown[] = [];
    const _meta = pin === undefined ? {} : { 'io.modelcontextprotocol/logLevel': 'error' };
    if (pin === undefined) await client.setLoggingLevel('error');
    await client.callTool(
      { name: 'count', arguments: { to: 3 }, _meta },
      { onprogress: ({ progress, total, message }) => void seen.push([progress, total, message]) },
    );
    // The client drops notifications that it reads together with the reply; the test below has all of them.
    assert.deepEqual(seen[0], [33, 100, 'step 1']);
    assert.deepEqual(logged, ['line 3']);
  });

  test(`a cancelled call is cancelled in the tool (${era})`, async (t) => {
    const opened = await connect(t, userWith(t), OWN, pin);
    const stop = new AbortController();
    const call = opened.client.callTool({ name: 'hang' }, { signal: stop.signal, onprogress: () => stop.abort() });
    await assert.rejects(call);
    await until(() => opened.stderr.includes('cancelled: cancelled'));
    // The connection continues.
    assert.equal(textOf(await opened.client.callTool({ name: 'plain' })), 'just text');
  });
}

test('a client of sessions gets a notification of new tools', async (t) => {
  const { client } = await connect(t, userWith(t), OWN);
  const changed = Promise.withResolvers<void>();
  client.setNotificationHandler('notifications/tools/list_changed', () => changed.resolve());
  const before = await client.listTools();
  assert.ok(!before.tools.some(({ name }) => name === 'grown'));
  await client.callTool({ name: 'grow' });
  await changed.promise;
  const { tools: after } = await client.listTools();
  assert.ok(after.some(({ name }) => name === 'grown'));
});

test('the client of the first generation works too, with what was remembered before', async (t) => {
  const user = userWith(t);
  for (const step of ['store', 'recall']) {
    const client = new FirstClient({ name: 'first', version: '1' });
    await client.connect(new FirstTransport(startOf(user, OWN)), { timeout: PATIENCE_MS });
    if (step === 'store') {
      const content = { city: 'Lisbon' };
      const args = { key: 'user/home', content, tags: ['user'] };
      assert.equal((await client.callTool({ name: 'memory_store', arguments: args })).isError, undefined);
    } else {
      const recalled = await client.callTool({ name: 'memory_recall', arguments: { key: 'user/home' } });
      assert.deepEqual(JSON.parse(textOf(recalled)).content, { city: 'Lisbon' });
      const found = await client.callTool({ name: 'memory_search', arguments: { query: 'lisbon' } });
      assert.equal(JSON.parse(textOf(found)).entries[0].key, 'user/home');
      await client.callTool({ name: 'memory_forget', arguments: { keys: ['user/home'] } });
      const gone = await client.callTool({ name: 'memory_recall', arguments: { key: 'user/home' } });
      assert.match(textOf(gone), /^not_found: /);
    }
    await client.close();
  }
});

test('a host that runs is used, with its rights; killed, it is reported, and its successor is used', async (t) => {
  const user = userWith(
    t,
    `plugins: [tools, { use: ${tools} }]
auth:
  tokens:
    - { name: reader, token_env: READER, capabilities: [tools], tools: { allow: [read_file, shout, hang] } }
`,
  );
  user.write('token', 'reader-token-0123456789');
  const env = { READER: 'reader-token-0123456789' };
  const port = String(await ownPort());
  const { command } = await user.up(['--config', 'trial.yaml', '--port', port], { env });
  const { client } = await connect(t, user, ['--token-file', 'token']);
  const { tools: listed } = await client.listTools();
  assert.deepEqual(listed.map(({ name }) => name).sort(), ['hang', 'read_file', 'shout']);
  const denied = await client.callTool({ name: 'write_file', arguments: { path: 'x', content: 'y' } });
  assert.match(textOf(denied), /^tool_denied: /);

  const hanging = Promise.withResolvers<void>();
  const call = client.callTool({ name: 'hang' }, { onprogress: () => hanging.resolve(), timeout: 2 * PATIENCE_MS });
  await hanging.promise;
  command.child.kill('SIGKILL');
  await command.ended();
  const { command: next } = await user.up(['--config', 'trial.yaml', '--port', port], { env });
  const lost = await call;
  assert.equal(lost.isError, true);
  assert.match(textOf(lost), /^(?:interrupted|connection_lost|session_expired|unreachable)/);
  const again = await client.callTool({ name: 'shout', arguments: { text: 'back' } });
  assert.deepEqual(again.structuredContent, { text: 'BACK' });
  next.child.kill('SIGTERM');
});

test('invalid messages get errors of JSON-RPC, and nothing hangs when the pipe is closed', async (t) => {
  const user = userWith(t);
  const { command, args, env, cwd } = startOf(user, OWN);
  const child = spawn(command, args, { env, cwd });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (line: string): Promise<Json> => {
    child.stdin.write(`${line}\n`);
    const { value } = await lines.next();
    return JSON.parse(value as string);
  };
  const codeOf = async (line: string) => (await ask(line)).error?.code;
  assert.equal(await codeOf('{"jsonrpc":"2.0","id":1,"method":"tools/list"}'), -32_600, 'before initialize');
  assert.equal(await codeOf('nonsense'), -32_700);
  assert.equal(await codeOf('[]'), -32_600);
  assert.equal(await codeOf('{"jsonrpc":"1.0","id":1,"method":"ping"}'), -32_600);
  assert.equal(await codeOf('{"jsonrpc":"2.0","id":null,"method":"ping"}'), -32_600);
  const opened = await ask(
    '{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{}}}',
  );
  assert.equal(opened.result.protocolVersion, '2025-11-25');
  assert.deepEqual(await ask('{"jsonrpc":"2.0","id":"\\n","method":"ping"}'), { jsonrpc: '2.0', id: '\n', result: {} });
  assert.equal(await codeOf('{"jsonrpc":"2.0","id":2,"method":"no/such"}'), -32_601);
  assert.equal(await codeOf('{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":7}}'), -32_602);
  assert.equal(await codeOf('{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":"x"}}'), -32_602);
  const deep = `${'['.repeat(100)}${']'.repeat(100)}`;
  assert.deepEqual(await ask(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":${deep}}}`), {
    jsonrpc: '2.0',
    id: 7,
    error: { code: -32_600, message: 'nested too deeply' },
  });
  const meta =
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}';
  assert.equal(await codeOf(`{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{${meta}}}`), -32_022);
  assert.equal(
    await codeOf(`{"jsonrpc":"2.0","id":6,"method":"ping","params":${'['.repeat(10)}${']'.repeat(10)}}`),
    -32_600,
  );
  child.stdin.write(
    '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"count","arguments":{"to":2},"_meta":{"progressToken":"p"}}}\n',
  );
  const counted: Json[] = [];
  do counted.push(JSON.parse((await lines.next()).value as string));
  while (counted.at(-1).id === undefined);
  assert.deepEqual(
    counted.map(({ method = 'reply', params = {} }) => [method, params.progress]),
    [
      ['notifications/progress', 50],
      ['notifications/progress', 100],
      ['notifications/message', undefined],
      ['reply', undefined],
    ],
  );
  const long = 'x'.repeat(5 * 1024 * 1024);
  assert.equal(await codeOf(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"${long}"}}`), -32_600);
  child.stdin.write('{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"hang"}}\n');
  child.stdin.end();
  const [code] = await once(child, 'close');
  assert.equal(code, 0);
});
