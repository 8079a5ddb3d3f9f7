/**
 * Toolkits in sessions: enabled, disabled, configured, searched, with secrets by reference, rights, and the state that outlives
 * a host.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sleep } from '../../../src/base/sleep.ts';
import { builtinToolkits } from '../../../src/capabilities/toolkits/kits/index.ts';
import { toolkitsPlugins } from '../../../src/capabilities/toolkits/plugin.ts';
import { defineToolkit } from '../../../src/capabilities/toolkits/toolkit.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { User } from '../../cli/command.ts';
import { agentOf, errorOf, folder, many, namesOf, PATIENCE_MS, toolkitsHost, tracker } from './support.ts';

test('tools of enabled toolkits are listed under them, and a disabled one refuses; other sessions are as they were', async (t) => {
  const host = await toolkitsHost(t, { workspace: folder(t) });
  const changes: string[] = [];
  const onCapabilityChanged = (capability: string): void => void changes.push(capability);
  const agent = await connect(host, { capabilities: ['toolkits', 'tools'], onCapabilityChanged });
  t.after(() => agent.close());
  const other = await agentOf(t, host, { agentId: 'ben' });
  const tools = await agent.tools.list();
  assert.equal(tools.find(({ name }) => name === 'move_file')?.toolkit, 'filesystem');
  assert.equal(tools.find(({ name }) => name === 'own')?.toolkit, null);
  await agent.tools.call('write_file', { path: 'a.txt', content: 'a' });
  const off = await agent.toolkits.disable('filesystem');
  assert.deepEqual([off.enabled, off.listed_tokens], [false, 0]);
  assert.deepEqual(namesOf(await agent.tools.list()), ['grep', 'own', 'search_files']);
  const { code, message, detail } = await errorOf(agent.tools.call('read_file', { path: 'a.txt' }));
  assert.deepEqual([code, detail.toolkit], ['unknown_tool', 'filesystem']);
  assert.match(message, /^no tool named "read_file": its toolkit filesystem is not enabled in this session/);
  assert.equal((await other.tools.call('read_file', { path: 'a.txt' })).success, true);
  const on = await agent.toolkits.enable('filesystem');
  assert.deepEqual([on.enabled, on.listed_tokens], [true, on.tokens]);
  assert.equal((await agent.tools.call('read_file', { path: 'a.txt' })).success, true);
  await agent.ping();
  assert.deepEqual(changes, ['tools', 'tools']);
});

test('a session without the capability has none of its tools', async (t) => {
  const host = await toolkitsHost(t);
  const agent = await connect(host, { capabilities: ['tools'] });
  t.after(() => agent.close());
  assert.deepEqual(namesOf(await agent.tools.list()), ['own']);
  assert.equal((await errorOf(agent.tools.call('read_file', { path: 'a' }))).message, 'no tool named "read_file"');
});

test('a call that runs when its toolkit is disabled continues', async (t) => {
  const { promise: running, resolve: runs } = Promise.withResolvers<void>();
  const { promise: finish, resolve: end } = Promise.withResolvers<void>();
  const slow = tool({
    name: 'slow',
    description: 'waits',
    async run() {
      runs();
      await finish;
      return { done: true };
    },
  });
  const kit = defineToolkit({ name: 'kit', description: 'waits', enabled: true, tools: [slow] });
  const host = await toolkitsHost(t, { toolkits: { toolkits: [kit] } });
  const agent = await agentOf(t, host);
  const calling = agent.tools.call('slow');
  await running;
  await agent.toolkits.disable('kit');
  assert.equal((await errorOf(agent.tools.call('slow'))).code, 'unknown_tool');
  end();
  assert.deepEqual((await calling).data, { done: true });
});

test('a configuration is checked field by field, per session; a refused one changes nothing', async (t) => {
  const host = await toolkitsHost(t, { toolkits: { toolkits: [tracker] } });
  const agent = await agentOf(t, host);
  const other = await agentOf(t, host, { agentId: 'ben' });
  const early = await errorOf(agent.toolkits.enable('tracker'));
  assert.equal(early.code, 'toolkits.not_configured');
  assert.equal(
    early.message,
    'the toolkit tracker cannot be enabled: it needs a configuration with /project: configure it',
  );
  const wrong = await errorOf(agent.toolkits.configure('tracker', { project: 1, extra: true }));
  assert.equal(wrong.code, 'toolkits.invalid');
  assert.deepEqual((wrong.detail.errors as { path: string }[]).map(({ path }) => path).sort(), ['/extra']);
  await agent.toolkits.configure('tracker', { project: 'DOOR' });
  await other.toolkits.configure('tracker', { project: 'ROOF', limit: 3 });
  assert.equal((await errorOf(agent.toolkits.configure('tracker', {}))).code, 'toolkits.invalid');
  assert.deepEqual((await agent.tools.call('issues')).data, { project: 'DOOR', limit: 7, length: 0 });
  assert.deepEqual((await other.tools.call('issues')).data, { project: 'ROOF', limit: 3, length: 0 });
  assert.equal((await errorOf(agent.toolkits.configure('nothing', {}))).code, 'toolkits.unknown');
  // A configuration stays when its toolkit is disabled.
  await agent.toolkits.disable('tracker');
  await agent.toolkits.enable('tracker');
  assert.equal((await agent.tools.call('issues')).success, true);
});

test('secrets are names; a value in place of one is refused, and neither is sent, listed or in the journal', async (t) => {
  const cwd = folder(t);
  const journal = memoryJournal();
  writeFileSync(join(cwd, 'token'), 'of the file\n');
  const host = await toolkitsHost(t, {
    journal,
    toolkits: {
      toolkits: [tracker],
      secrets: [
        { name: 'file', file: join(cwd, 'token') },
        { name: 'variable', env: 'TRACKER' },
        { name: 'missing', env: 'NOT_SET' },
      ],
      env: { TRACKER: 'of-the-variable' },
    },
    principals: [
      { name: 'admin', admin: true },
      { name: 'some', capabilities: ['tools'], grants: { toolkits: { names: ['*'], secrets: ['variable'] } } },
    ],
  });
  const agent = await agentOf(t, host, { principal: 'admin' });
  const literal = await errorOf(agent.toolkits.configure('tracker', { project: 'DOOR', token: 'hunter2-hunter2' }));
  assert.match(literal.message, /\/token must be the name of a secret of the host/);
  assert.doesNotMatch(JSON.stringify(literal), /hunter2/);
  for (const [name, length] of [
    ['file', 11],
    ['variable', 15],
  ] as const) {
    await agent.toolkits.configure('tracker', { project: 'DOOR', token: name });
    assert.deepEqual(((await agent.tools.call('issues')).data as { length: number }).length, length);
  }
  await agent.toolkits.configure('tracker', { project: 'DOOR', token: 'missing' });
  const missing = await errorOf(agent.tools.call('issues'));
  assert.deepEqual(
    [missing.code, missing.message],
    ['toolkits.secret', 'the host has no value for the secret "missing"'],
  );
  const seen = JSON.stringify([await agent.toolkits.list(), await agent.toolkits.describe('tracker')]);
  assert.doesNotMatch(seen, /DOOR|of-the-variable|of the file/);
  const { entries } = await journal.read(agent.sessionId, 0, 1_000);
  const requests = entries.filter(({ kind, body }) => kind === 'request' && /configure/.test(JSON.stringify(body)));
  assert.equal(requests.length, 4);
  assert.doesNotMatch(JSON.stringify(requests), /hunter2|DOOR/);

  const some = await agentOf(t, host, { principal: 'some' });
  await some.toolkits.configure('tracker', { project: 'DOOR', token: 'variable' });
  const other = await errorOf(some.toolkits.configure('tracker', { project: 'DOOR', token: 'file' }));
  assert.equal(other.code, 'toolkits.invalid');
});

test('deferred tools are found by search, then listed; without load they stay out', async (t) => {
  const host = await toolkitsHost(t, { toolkits: { toolkits: [many(500)] } });
  const agent = await agentOf(t, host);
  const [before] = await agent.toolkits.list();
  assert.deepEqual([before?.tools.length, before?.listed_tokens], [500, 0]);
  assert.ok((before?.tokens ?? 0) > 5_000);
  assert.deepEqual(namesOf(await agent.tools.list()), ['own']);
  const looked = await agent.toolkits.search('number 123', { load: false });
  assert.deepEqual([namesOf(looked.tools), looked.loaded], [['many_123'], []]);
  assert.deepEqual(namesOf(await agent.tools.list()), ['own']);
  const found = await agent.toolkits.search('number 123');
  assert.deepEqual(Object.keys(found), ['tools', 'loaded', 'tokens']);
  assert.deepEqual([found.loaded, found.tools[0]?.defer_loading], [['many_123'], false]);
  assert.ok(found.tokens > 0 && found.tokens < 100);
  assert.deepEqual(namesOf(await agent.tools.list()), ['many_123', 'own']);
  assert.deepEqual((await agent.toolkits.search('number 123')).loaded, []);
  assert.equal((await agent.toolkits.search('thing', { limit: 7 })).tools.length, 7);
  // A deferred tool can be called without being listed.
  assert.deepEqual((await agent.tools.call('many_9')).data, { at: 9 });
  const other = await agentOf(t, host, { agentId: 'ben' });
  assert.deepEqual(namesOf(await other.tools.list()), ['own']);
});

test('a principal has the toolkits, tools and sessions that it is granted', async (t) => {
  const grants = { names: ['many', 'filesystem'] };
  const host = await toolkitsHost(t, {
    workspace: folder(t),
    toolkits: {
      toolkits: [...builtinToolkits(undefined), many(2), tracker],
    },
    principals: [
      { name: 'admin', admin: true },
      { name: 'plain', capabilities: ['tools', 'toolkits'] },
      { name: 'some', capabilities: ['tools'], grants: { toolkits: grants } },
      { name: 'none', capabilities: ['tools'] },
    ],
  });
  const [admin, plain, some] = await Promise.all(
    ['admin', 'plain', 'some'].map((principal) => agentOf(t, host, { principal, agentId: principal })),
  );
  assert.ok(admin && plain && some);
  assert.deepEqual(namesOf(await admin.toolkits.list()), ['filesystem', 'many', 'search', 'sqlite', 'tracker']);
  assert.deepEqual(namesOf(await plain.toolkits.list()), ['filesystem', 'many', 'search']);
  assert.deepEqual(namesOf(await some.toolkits.list()), ['filesystem', 'many']);
  // A tool that can lose data needs more than the toolkit.
  const { toolkit } = await some.toolkits.describe('filesystem');
  assert.ok(toolkit.tools.includes('read_file') && !toolkit.tools.includes('delete_file'));
  assert.equal((await errorOf(some.tools.call('delete_file', { path: 'a' }))).code, 'tool_denied');
  for (const unknown of ['tracker', 'search', 'nothing']) {
    assert.equal(
      (await errorOf(some.toolkits.enable(unknown))).message,
      `there is no toolkit "${unknown}" for this principal`,
    );
  }
  assert.equal((await errorOf(some.tools.call('grep', { pattern: 'a' }))).message, 'no tool named "grep"');
  const none = await connect(host, { capabilities: ['tools'], token: 'none-token' });
  t.after(() => none.close());
  assert.equal((await errorOf(connect(host, { capabilities: ['toolkits'], token: 'none-token' }))).code, 'no_caps');

  assert.equal((await errorOf(some.toolkits.disable('many', { session: admin.sessionId }))).code, 'toolkits.unknown');
  await admin.toolkits.disable('many', { session: some.sessionId });
  assert.equal((await some.toolkits.list()).find(({ name }) => name === 'many')?.enabled, false);
  const twin = await agentOf(t, host, { principal: 'some', agentId: 'twin' });
  await twin.toolkits.enable('many', { session: some.sessionId });
  assert.equal((await some.toolkits.list()).find(({ name }) => name === 'many')?.enabled, true);
  // An administrator gives a session no more than its principal may have.
  assert.equal((await errorOf(admin.toolkits.enable('tracker', { session: some.sessionId }))).code, 'toolkits.unknown');
});

test('the plugins of packages are joined: lists, searches, and a configuration goes to its owner', async (t) => {
  const more = toolkitsPlugins({ name: 'more', toolkits: [tracker] });
  const host = createHost({ plugins: [...toolkitsPlugins({ toolkits: [many(3)] }), ...more] });
  await host.start();
  t.after(() => host.close(0));
  const agent = await agentOf(t, host);
  assert.deepEqual(namesOf(await agent.toolkits.list()), ['many', 'tracker']);
  await agent.toolkits.configure('tracker', { project: 'DOOR' });
  assert.deepEqual(namesOf((await agent.toolkits.search('issues')).tools), ['issues']);
  assert.deepEqual((await agent.toolkits.search('thing')).loaded.length, 3);
  assert.equal((await errorOf(agent.toolkits.configure('nothing', {}))).code, 'toolkits.unknown');
});

test('mistakes of authors are found when the plugin is made', () => {
  const define = defineToolkit as (toolkit: unknown) => unknown;
  for (const [mistake, message] of [
    [undefined, /a toolkit is an object/],
    [{ name: 'a b' }, /toolkit name "a b" must be 1 to 64 letters/],
    [{ name: 'a' }, /toolkit "a" needs a description/],
    [{ name: 'a', description: 'a' }, /toolkit "a": tools must be a list or a function/],
    [{ name: 'a', description: 'a', tools: [{}] }, /tool name/],
    [{ name: 'a', description: 'a', tools: [], config: 'no' }, /toolkit "a": config must be a JSON Schema/],
  ] as const) {
    assert.throws(() => define(mistake), message);
  }
  assert.throws(() => toolkitsPlugins({ toolkits: [tracker, tracker] }), /two toolkits are named tracker/);
  const twin = defineToolkit({ ...tracker, name: 'twin' });
  assert.throws(() => toolkitsPlugins({ toolkits: [tracker, twin] }), /two tools are named "issues"/);
});

test('what a session has made of its toolkits survives kill -9 and an orderly restart', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const config = user.write(
    'host.yaml',
    'journal: { kind: sqlite, durable: replies }\nplugins: [tools, { use: toolkits, options: { toolkits: [{ name: filesystem, deferred: true }, { name: search }] } }]\n',
  );
  let { command, ready } = await user.up(['--config', config]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const port = new URL(ready.url).port;
  const agent = await connect(ready.url, { capabilities: ['toolkits', 'tools'], agentId: 'ana', token });
  t.after(() => agent.close());
  await agent.toolkits.disable('search');
  await agent.toolkits.search('move');
  const state = async () =>
    (await agent.toolkits.list()).map(({ name, enabled, listed }) => [name, enabled, listed?.join(' ')]);
  const before = await state();
  assert.deepEqual(before, [
    ['filesystem', true, 'move_file'],
    ['search', false, ''],
  ]);
  for (const end of ['SIGKILL', 'SIGTERM'] as const) {
    command.child.kill(end);
    await command.ended();
    ({ command, ready } = await user.up(['--config', config, '--port', port]));
    assert.deepEqual(await state(), before, end);
    // The host's own tool serves if the toolkit with a tool of this name is off.
    const grep = (await agent.tools.list()).find(({ name }) => name === 'grep');
    assert.equal(grep?.toolkit, null);
  }
});

test('what is stored of a session is removed with it', async (t) => {
  const dataDir = folder(t);
  const host = await toolkitsHost(t, { dataDir });
  const agent = await agentOf(t, host);
  const stored = () => readdirSync(join(dataDir, 'toolkits', 'sessions'));
  await agent.toolkits.disable('search');
  assert.deepEqual(stored(), [`${agent.sessionId}.json`]);
  await agent.close();
  for (const bound = AbortSignal.timeout(PATIENCE_MS); stored().length > 0; await sleep(5)) bound.throwIfAborted();
});
