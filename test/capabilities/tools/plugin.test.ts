import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as zod from 'zod';
import { createLog } from '../../../src/base/log.ts';
import { type ToolsPluginOptions, toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { type AnyTool, result, tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import type { Principal } from '../../../src/host/context.ts';
import { createHost, type Host } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { fail } from '../../../src/wire/errors.ts';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

async function agentOf(
  tools: readonly AnyTool[],
  options: Partial<ToolsPluginOptions> = {},
  principal: Principal = { name: 'p', admin: true },
) {
  const auth = createAuthenticator([{ principal, digests: [tokenDigest('token')] }]);
  const lines: string[] = [];
  const host = createHost({
    plugins: [toolsPlugin({ tools, ...options })],
    auth,
    log: createLog({ level: 'debug', write: (line) => lines.push(line) }),
  });
  await host.start();
  hosts.push(host);
  return Object.assign(await connect(host, { capabilities: ['tools'], token: 'token' }), { lines });
}

const plain = (name: string, extra: Partial<AnyTool> = {}) =>
  tool({ name, description: `does ${name}`, run: () => ({ name }), ...extra });

test('a list tells everything a caller needs, in the flat form and as JSON Schema', async () => {
  const input = {
    type: 'object',
    properties: {
      path: { type: 'string', description: 'File to read' },
      mode: { enum: ['fast', 'slow'] },
      opts: { type: 'object', properties: { depth: { type: ['null', 'integer'] } }, required: ['depth'] },
    },
    required: ['path'],
  };
  const agent = await agentOf([
    plain('read', { input, tags: ['fs'], kind: 'file', risks: ['reads'], idempotent: true, version: '2.0.0' }),
  ]);
  const [read] = await agent.tools.list();
  assert.deepEqual(read, {
    name: 'read',
    description: 'does read',
    input_parameters: [
      { name: 'path', type: 'string', description: 'File to read', required: true, enum: null, properties: null },
      { name: 'mode', type: 'string', description: '', required: false, enum: ['fast', 'slow'], properties: null },
      {
        name: 'opts',
        type: 'object',
        description: '',
        required: false,
        enum: null,
        properties: {
          depth: { name: 'depth', type: 'integer', description: '', required: true, enum: null, properties: null },
        },
      },
    ],
    output_parameters: [],
    streaming: true,
    idempotent: true,
    tags: ['fs'],
    version: '2.0.0',
    toolkit: null,
    defer_loading: false,
    input_schema: input,
    kind: 'file',
    risks: ['reads'],
  });
});

test('lists filter by kind and by all tags, and leave deferred tools out unless asked', async () => {
  const agent = await agentOf([
    plain('a', { kind: 'file', tags: ['x', 'y'] }),
    plain('b', { kind: 'file', tags: ['x'] }),
    plain('c', { kind: 'net', tags: ['x', 'y'], deferred: true }),
  ]);
  const names = async (filter: object) => (await agent.tools.list(filter)).map(({ name }) => name);
  assert.deepEqual(await names({}), ['a', 'b']);
  assert.deepEqual(await names({ includeDeferred: true }), ['a', 'b', 'c']);
  assert.deepEqual(await names({ tags: ['x', 'y'] }), ['a']);
  assert.deepEqual(await names({ kind: 'net', includeDeferred: true }), ['c']);
});

test('a search finds deferred tools and puts the best match first', async () => {
  const agent = await agentOf([
    plain('list_dir', { description: 'Lists files; read access' }),
    plain('write_file', { description: 'Writes a file', tags: ['read-write'] }),
    plain('read', { description: 'Reads' }),
    plain('read_file', { description: 'Reads a file', deferred: true }),
    plain('weather', { description: 'Tells the weather' }),
  ]);
  const names = async (query: string, filter = {}) => (await agent.tools.search(query, filter)).map(({ name }) => name);
  assert.deepEqual((await names('read')).slice(0, 2), ['read', 'read_file']);
  assert.equal((await names('read file'))[0], 'read_file');
  assert.deepEqual(await names('READ', { includeDeferred: false }), ['read', 'write_file', 'list_dir']);
  assert.deepEqual(await names('nothing like it'), []);
});

test('arguments are checked with the path to the offending field, and defaults are filled in', async () => {
  const seen: unknown[] = [];
  const input = {
    type: 'object',
    properties: {
      path: { type: 'string' },
      opts: { type: 'object', properties: { depth: { type: 'integer', default: 2 } }, default: {} },
    },
    required: ['path'],
    additionalProperties: false,
  };
  const agent = await agentOf([tool({ name: 't', description: '', input, run: (args) => void seen.push(args) })]);
  for (const [args, path] of [
    [{}, '/path'],
    [{ path: 1 }, '/path'],
    [{ path: '', opts: { depth: 'x' } }, '/opts/depth'],
    [{ path: '', extra: 1 }, '/extra'],
  ] as const) {
    await assert.rejects(agent.tools.call('t', args), (error: { code: string; detail: { path: string } }) => {
      assert.deepEqual([error.code, error.detail.path], ['schema_violation', path]);
      return true;
    });
  }
  const args = { path: 'p' };
  await agent.tools.call('t', args);
  assert.deepEqual(seen, [{ path: 'p', opts: { depth: 2 } }]);
  assert.deepEqual(args, { path: 'p' }, 'what came by reference was not written into');
});

test('a Standard Schema checks, transforms and publishes itself', async () => {
  const input = zod.object({ n: zod.coerce.number().int().min(1) });
  const agent = await agentOf([tool({ name: 'z', description: '', input, run: ({ n }) => ({ next: n + 1 }) })]);
  assert.deepEqual((await agent.tools.call('z', { n: '41' })).data, { next: 42 });
  await assert.rejects(agent.tools.call('z', { n: 0 }), (error: { code: string; detail: { path: string } }) => {
    assert.deepEqual([error.code, error.detail.path], ['schema_violation', '/n']);
    return true;
  });
  const asynchronous = {
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate: async (value: unknown) => ({ value: { wrapped: value } }),
    },
  };
  const other = await agentOf([
    tool({ name: 'async', description: '', input: asynchronous, inputSchema: { type: 'object' }, run: (args) => args }),
  ]);
  assert.deepEqual((await other.tools.call('async', { a: 1 })).data, { wrapped: { a: 1 } });
  assert.deepEqual((await other.tools.list())[0]?.input_schema, { type: 'object' });
});

test('results: objects as they are, anything else as value, extras beside the data', async () => {
  const agent = await agentOf([
    plain('object', { run: () => ({ a: 1, exit_code: 3 }) }),
    plain('text', { run: () => 'hi' }),
    plain('nothing', { run: () => undefined }),
    plain('shaped', { run: () => result({ out: '' }, { summary: 'one line', truncated: true, exitCode: 7 }) }),
  ]);
  assert.deepEqual(await agent.tools.call('object').then(({ data, exit_code }) => [data, exit_code]), [
    { a: 1, exit_code: 3 },
    3,
  ]);
  assert.deepEqual((await agent.tools.call('text')).data, { value: 'hi' });
  assert.deepEqual((await agent.tools.call('nothing')).data, { value: null });
  const { summary, truncated, exit_code } = await agent.tools.call('shaped');
  assert.deepEqual([summary, truncated, exit_code], ['one line', true, 7]);
});

test('a result that breaks the output schema fails the call', async () => {
  const output = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  const agent = await agentOf([
    plain('good', { output, run: () => ({ n: 1 }) }),
    plain('bad', { output, run: () => ({ n: 'x' }) }),
  ]);
  assert.equal((await agent.tools.call('good')).success, true);
  await assert.rejects(
    agent.tools.call('bad'),
    (error: { code: string; message: string; detail: { path: string } }) => {
      assert.deepEqual([error.code, error.detail.path], ['schema_violation', '/n']);
      assert.match(error.message, /result of bad/);
      return true;
    },
  );
});

test('failures: the author’s message, retryable only when repeating is safe, codes of the table pass', async () => {
  const boom = () => {
    throw new Error('no luck');
  };
  const agent = await agentOf([
    plain('once', { run: boom }),
    plain('again', { run: boom, idempotent: true }),
    plain('precise', { run: () => Promise.reject(fail('tool_denied', 'outside', { path: 'x' })) }),
  ]);
  await assert.rejects(agent.tools.call('once'), {
    code: 'tool_error',
    message: 'no luck',
    retryable: false,
    capability: 'tools',
  });
  await assert.rejects(agent.tools.call('again'), { code: 'tool_error', retryable: true });
  await assert.rejects(agent.tools.call('precise'), { code: 'tool_denied', detail: { path: 'x' } });
});

test('what a principal may not call it does not see, and is denied by name', async () => {
  const tools = [
    plain('read_file', { risks: ['reads'] }),
    plain('write_file', { risks: ['writes'] }),
    plain('shell', { risks: ['exec'] }),
  ];
  const rules = async (own: Principal['tools'], host?: Principal['tools'], admin = false) => {
    const agent = await agentOf(tools, { rules: host }, { name: 'p', capabilities: ['tools'], tools: own, admin });
    const visible = (await agent.tools.list()).map(({ name }) => name);
    for (const { name } of tools) {
      const outcome = await agent.tools.call(name).then(
        () => 'ok',
        (error) => error.code,
      );
      assert.equal(outcome, visible.includes(name) ? 'ok' : 'tool_denied', name);
    }
    return visible;
  };
  assert.deepEqual(await rules(undefined, undefined, true), ['read_file', 'write_file', 'shell']);
  assert.deepEqual(await rules({ deny: ['shell'] }, undefined, true), ['read_file', 'write_file']);
  assert.deepEqual(await rules({ allow: ['*_file'] }), ['read_file', 'write_file']);
  assert.deepEqual(await rules({ allow: ['*_file'], deny: ['write*'] }), ['read_file']);
  assert.deepEqual(await rules({ denyRisks: ['exec', 'writes'] }), ['read_file']);
  assert.deepEqual(await rules({ deny: ['read_file'] }, { denyRisks: ['exec'] }), ['write_file']);
  // Tools that run programs must be named, by their whole name, or are for administrators.
  assert.deepEqual(await rules(undefined), ['read_file', 'write_file']);
  assert.deepEqual(await rules({ allow: ['*'] }), ['read_file', 'write_file']);
  assert.deepEqual(await rules({ allow: ['sh*ll', 'shel*'] }), []);
  assert.deepEqual(await rules({ allow: ['*', 'shell'] }), ['read_file', 'write_file', 'shell']);
  assert.deepEqual(await rules({ allow: ['shell'], denyRisks: ['exec'] }), []);
  assert.deepEqual(await rules({ allow: ['shell'] }, { deny: ['shell'] }), []);
});

test('a tool with a broken schema keeps its host from starting; with first-call compilation its call says so', async () => {
  const broken = plain('broken', { input: { type: 'object', properties: { n: { type: 'no-such-type' } } } });
  await assert.rejects(agentOf([broken, plain('good')]), {
    code: 'config_invalid',
    message: /broken.*\/properties\/n\/type/,
  });
  const late = await agentOf([broken], { compile: 'first-call' });
  await assert.rejects(late.tools.call('broken'), { code: 'config_invalid' });
});

test('names that are properties of every object are names like any other', async () => {
  const agent = await agentOf([plain('echo')]);
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    await assert.rejects(agent.tools.call(name, { ['__proto__']: { x: 1 } }), { code: 'unknown_tool' });
  }
  assert.equal(({} as Record<string, unknown>).x, undefined);
});
