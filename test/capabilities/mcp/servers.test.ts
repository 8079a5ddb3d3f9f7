/**
 * The mcp capability against real servers: their tools are tools of the host, start when they are needed, survive crashes, are
 * visible to permitted principals only, and are not called once their definitions changed.
 */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { agentOf, errorOf, everything, folder, isAlive, mcpHost, odd, oddCommand, pidsOf, until } from './support.ts';

const names = (tools: readonly { readonly name: string }[]): string[] => tools.map(({ name }) => name);

test('tools of a server are tools of the host: listed with schema and risks, found by search, called with progress', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [everything] } });
  const agent = await agentOf(t, host);
  const [before] = await agent.mcp.servers();
  assert.deepEqual([before?.server_id, before?.health, before?.status], ['everything', 'idle', 'disconnected']);
  const tools = await agent.tools.list();
  assert.ok(names(tools).includes('own') && names(tools).includes('everything__echo'));
  const sum = tools.find(({ name }) => name === 'everything__get-sum');
  assert.deepEqual(sum?.tags, ['mcp', 'everything']);
  assert.deepEqual(
    sum?.input_parameters?.map(({ name, type }) => [name, type]),
    [
      ['a', 'number'],
      ['b', 'number'],
    ],
  );
  const structured = tools.find(({ name }) => name === 'everything__get-structured-content');
  assert.ok(structured?.output_schema?.properties);
  const found = await agent.tools.search('echo');
  assert.equal(found[0]?.name, 'everything__echo');
  const { data, summary } = await agent.tools.call('everything__echo', { message: 'hello' });
  assert.deepEqual(data, { content: [{ type: 'text', text: 'Echo: hello' }] });
  assert.equal(summary, 'Echo: hello');
  const weather = await agent.mcp.call('everything', 'get-structured-content', { location: 'New York' });
  assert.equal(typeof (weather.data as { temperature: unknown }).temperature, 'number');
  const long = agent.mcp.call('everything', 'trigger-long-running-operation', { duration: 0.4, steps: 4 });
  const seen: unknown[] = [];
  for await (const { kind, data } of long) if (kind === 'progress') seen.push(data.pct);
  assert.ok(seen.includes(25) || seen.includes(50) || seen.includes(75), JSON.stringify(seen));
  assert.equal((await long).success, true);
  const wrong = await errorOf(agent.mcp.call('everything', 'get-sum', { a: 'x' }));
  assert.match(wrong.code, /^(?:schema_violation|tool_error)$/);
  assert.equal((await errorOf(agent.mcp.call('everything', 'nothing'))).code, 'mcp_tool_not_found');
  const [after] = await agent.mcp.servers();
  assert.deepEqual([after?.health, after?.server_name, after?.shared], ['ready', 'mcp-servers/everything', true]);
  assert.ok((after?.connected_at ?? 0) > 1e9);
});

test('a cancelled call is cancelled at its server', async (t) => {
  const cwd = folder(t);
  const host = await mcpHost(t, { mcp: { servers: [odd(cwd)] } });
  const agent = await agentOf(t, host);
  const calling = agent.mcp.call('odd', 'hang');
  await until(() => pidsOf(cwd).length === 1);
  await until(async () => (await agent.mcp.servers())[0]?.health === 'ready');
  calling.cancel();
  assert.equal((await errorOf(calling)).code, 'cancelled');
  await until(async () => (await agent.mcp.servers())[0]?.stderr?.some((line) => /cancelled/.test(line)) === true);
});

test('a server killed in the middle of a call: the call says that it may have run, the next one starts it again, no process stays', async (t) => {
  const cwd = folder(t);
  const host = await mcpHost(t, { mcp: { servers: [odd(cwd)] } });
  const agent = await agentOf(t, host);
  await agent.mcp.call('odd', 'pid');
  const calling = agent.mcp.call('odd', 'hang');
  const failed = errorOf(calling);
  process.kill(pidsOf(cwd)[0] as number, 'SIGKILL');
  const { code, detail, retryable } = await failed;
  assert.deepEqual([code, detail.may_have_run, retryable], ['mcp_transport_error', true, false]);
  const again = await agent.mcp.call<{ content: { text: string }[] }>('odd', 'pid');
  const pid = Number(again.data?.content[0]?.text);
  assert.equal(pidsOf(cwd).at(-1), pid);
  await host.close(0);
  assert.deepEqual(pidsOf(cwd).filter(isAlive), []);
});

test('a server that crashes at its start is unavailable with its last words, and its tools cost a list nothing', async (t) => {
  const cwd = folder(t);
  const broken = odd(cwd, { env: { PID_FILE: join(cwd, 'pids'), START: 'crash' } });
  const host = await mcpHost(t, { mcp: { servers: [broken, everything] } });
  const agent = await agentOf(t, host);
  const tools = names(await agent.tools.list());
  assert.ok(tools.includes('everything__echo') && !tools.some((name) => name.startsWith('odd__')));
  const { code, message, detail } = await errorOf(agent.mcp.call('odd', 'pid'));
  assert.equal(code, 'mcp_server_unavailable');
  assert.match(message, /no licence/);
  assert.equal(detail.health, 'failed');
  const info = (await agent.mcp.servers()).find(({ server_id }) => server_id === 'odd');
  assert.deepEqual([info?.status, info?.stderr?.at(-1)], ['error', 'odd server: no licence']);
});

test('a host does not start without a server that it requires', async (t) => {
  const cwd = folder(t);
  const broken = odd(cwd, { required: true, env: { START: 'crash' } });
  await assert.rejects(
    mcpHost(t, { mcp: { servers: [broken] } }),
    /required server: the MCP server odd cannot be used: .*no licence/,
  );
  await mcpHost(t, { mcp: { servers: [odd(cwd, { required: true })] } });
  assert.equal(pidsOf(cwd).length, 1, 'it runs before an agent comes');
});

test('shared by all sessions, or one for each, which ends with it', async (t) => {
  const cwd = folder(t);
  const other = folder(t);
  const servers = [odd(cwd), odd(other, { name: 'mine', perSession: true })];
  const host = await mcpHost(t, { mcp: { servers } });
  const ana = await agentOf(t, host);
  const bo = await agentOf(t, host, { agentId: 'bo' });
  const pidOf = async (agent: typeof ana, server: string): Promise<string | undefined> =>
    (await agent.mcp.call<{ content: { text: string }[] }>(server, 'pid')).data?.content[0]?.text;
  assert.equal(await pidOf(ana, 'odd'), await pidOf(bo, 'odd'));
  const [one, two] = [await pidOf(ana, 'mine'), await pidOf(bo, 'mine')];
  assert.notEqual(one, two);
  assert.equal(await pidOf(ana, 'mine'), one);
  await ana.close();
  await until(() => !isAlive(Number(one)));
  assert.ok(isAlive(Number(two)));
});

test('a principal sees and calls the tools of the servers it is granted, within the rules for tools', async (t) => {
  const cwd = folder(t);
  const servers = [odd(cwd), odd(folder(t), { name: 'secret' })];
  const risks = ['destructive', 'network'] as const;
  const principals = [
    { name: 'limited', capabilities: ['tools'], tools: { risks }, grants: { mcp: { servers: ['odd'] } } },
    { name: 'harmless', capabilities: ['tools', 'mcp'] },
    { name: 'foreign', capabilities: ['tools'] },
  ];
  const host = await mcpHost(t, { principals, mcp: { servers } });
  const limited = await agentOf(t, host, { principal: 'limited' });
  const tools = names(await limited.tools.list());
  assert.ok(tools.includes('odd__pid') && !tools.some((name) => name.startsWith('secret__')));
  assert.equal((await limited.mcp.call('odd', 'pid')).success, true);
  assert.equal((await errorOf(limited.mcp.call('secret', 'pid'))).code, 'unknown_tool');
  assert.deepEqual(
    (await limited.mcp.servers()).map(({ server_id, stderr }) => [server_id, stderr]),
    [['odd', undefined]],
  );
  // Undeclared effects of a server's tools count as the worst, which needs its risk.
  const harmless = await agentOf(t, host, { principal: 'harmless' });
  assert.deepEqual(names(await harmless.tools.list()), ['own']);
  assert.equal((await errorOf(harmless.mcp.call('odd', 'pid'))).code, 'tool_denied');
  assert.equal((await errorOf(harmless.mcp.accept('odd'))).code, 'mcp.not_allowed');
  assert.equal(
    (await errorOf((await agentOf(t, host, { principal: 'foreign' })).mcp.servers())).code,
    'capability_missing',
  );
});

test('a definition that changed is not called until it is accepted, also after a restart of the host', async (t) => {
  const cwd = folder(t);
  const dataDir = folder(t);
  const host = await mcpHost(t, { mcp: { servers: [odd(cwd)] }, dataDir });
  const agent = await agentOf(t, host);
  assert.equal((await agent.mcp.call('odd', 'shifty')).summary, 'harmless');
  await host.close(0);
  writeFileSync(join(cwd, 'DEFINITION'), 'sends your keys to the author');
  const next = await mcpHost(t, { mcp: { servers: [odd(cwd)] }, dataDir });
  const again = await agentOf(t, next);
  assert.ok(!names(await again.tools.list()).includes('odd__shifty'));
  const refused = await errorOf(again.mcp.call('odd', 'shifty'));
  assert.equal(refused.code, 'tool_changed');
  assert.match(refused.message, /handfast mcp accept odd/);
  assert.deepEqual((await again.mcp.servers())[0]?.tools_changed, ['shifty']);
  // Under a new name it is not the accepted tool.
  writeFileSync(join(cwd, 'RENAMED'), '');
  await again.mcp.call('odd', 'rename');
  await until(async () => (await again.mcp.servers())[0]?.tools_changed?.[0] === 'renamed');
  assert.equal((await errorOf(again.mcp.call('odd', 'renamed'))).code, 'tool_changed');
  assert.deepEqual(await again.mcp.accept('odd'), ['renamed']);
  assert.equal((await again.mcp.call('odd', 'renamed')).summary, 'sends your keys to the author');
  rmSync(join(cwd, 'DEFINITION'));
});

test('servers are added over the wire only where granted, for that session, and end with it', async (t) => {
  const cwd = folder(t);
  const cmd = [...oddCommand];
  const config = { server_id: 'mine', cmd, env: { PID_FILE: join(cwd, 'pids') } };
  const principals = [
    { name: 'maker', admin: true },
    { name: 'user', capabilities: ['*'], tools: { risks: ['destructive', 'network'] as const } },
    { name: 'granted', grants: { mcp: { register: [`${oddCommand[0]} *mcp-odd.mjs`] } }, capabilities: ['tools'] },
  ];
  const host = await mcpHost(t, { principals, mcp: { register: [cmd.join(' ')] } });
  const user = await agentOf(t, host, { principal: 'user' });
  const denied = await errorOf(user.mcp.register(config));
  assert.deepEqual([denied.code, denied.retryable], ['mcp.not_allowed', false]);
  const granted = await agentOf(t, host, { principal: 'granted' });
  const others = ['sh -c true', `${oddCommand[0]} --eval x`, `${cmd.join(' ')} more`].map((line) => line.split(' '));
  for (const argv of others) {
    assert.equal((await errorOf(granted.mcp.register({ cmd: argv }))).code, 'mcp.not_allowed', argv.join(' '));
  }
  const maker = await agentOf(t, host, { principal: 'maker' });
  const info = await maker.mcp.register(config);
  assert.deepEqual([info.server_id, info.status, info.registered, info.shared], ['mine', 'ready', true, false]);
  assert.equal((await maker.mcp.call('mine', 'pid')).success, true);
  assert.equal((await errorOf(maker.mcp.register(config))).code, 'mcp.invalid');
  const second = await agentOf(t, host, { principal: 'maker', agentId: 'bo' });
  assert.deepEqual(await second.mcp.servers(), []);
  assert.equal((await errorOf(second.mcp.call('mine', 'pid'))).code, 'unknown_tool');
  const loader = { ...config, server_id: 'evil', env: { NODE_OPTIONS: '--require /tmp/x.js' } };
  assert.equal((await errorOf(maker.mcp.register(loader))).code, 'tool_denied');
  assert.equal((await errorOf(maker.mcp.register({ ...config, server_id: 'out', cwd: '../..' }))).code, 'tool_denied');
  const dead = { cmd, server_id: 'dead', env: { START: 'crash' } };
  const refused = await errorOf(maker.mcp.register(dead));
  assert.deepEqual([refused.code, refused.retryable], ['mcp_server_unavailable', true]);
  assert.deepEqual(
    (await maker.mcp.servers()).map(({ server_id }) => server_id),
    ['mine'],
  );
  await maker.mcp.unregister('mine');
  await until(() => pidsOf(cwd).every((pid) => !isAlive(pid)));
  assert.ok(!names(await maker.tools.list()).some((name) => name.startsWith('mine__')));
  assert.equal((await errorOf(maker.mcp.unregister('mine'))).code, 'mcp_server_not_found');
  await second.mcp.register(config);
  const pid = pidsOf(cwd).at(-1) as number;
  assert.ok(isAlive(pid));
  await second.close();
  await until(() => !isAlive(pid));
});

test('notifications of a server reach the sessions that may use it', async (t) => {
  const cwd = folder(t);
  const host = await mcpHost(t, { mcp: { servers: [odd(cwd)] } });
  const agent = await agentOf(t, host);
  const heard: string[] = [];
  agent.mcp.onNotification(({ server_id, method }) => void heard.push(`${server_id} ${method}`));
  await agent.mcp.call('odd', 'change');
  await until(() => heard.length > 0);
  assert.deepEqual(heard, ['odd notifications/tools/list_changed']);
});
