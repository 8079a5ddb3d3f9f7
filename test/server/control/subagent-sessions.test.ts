/**
 * Subagents that are sessions of the server: each task a turn, seen, steered and approved by people, with the rights of the
 * subagent.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { connect } from '../../../src/connect.ts';
import { connect as connectControl } from '../../../src/control-client/connect.ts';
import type { SessionSummary } from '../../../src/protocol/session-types.ts';
import { type RunningServer, serve } from '../../../src/server/serve.ts';
import { type ModelServer, startModelServer } from '../../../src/testing/model-server.ts';
import { type AgentScript, calls, OPTIONS, says, scriptFolder } from '../../agents/acp/scripted-agent.ts';
import { until } from '../../capabilities/multi_agent/support.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

interface Site {
  readonly folder: string;
  readonly model: ModelServer;
  server: RunningServer;
  agent(token?: string): ReturnType<typeof connect<'multi_agent'>>;
  control(): ReturnType<typeof connectControl>;
  restart(): Promise<void>;
}

const session = (settings: object = {}) => ({ name: 'helper', session: { backend: 'model', ...settings } });

/** Starts a server with a model that says the texts of the test, and these kinds of subagents. */
async function siteOf(
  t: TestContext,
  { kinds, ...config }: { readonly kinds: readonly object[]; readonly [section: string]: unknown },
): Promise<Site> {
  const folder = realpathSync(temporaryFolder(t));
  const model = await startModelServer();
  t.after(() => model[Symbol.asyncDispose]());
  const compatible = { base_url: model.baseUrl('chat'), models: ['small', 'large'] };
  const whole = {
    listen: ['tcp://127.0.0.1:0'],
    plugins: [{ use: 'tools' }, { use: 'multi_agent', options: { kinds } }],
    providers: { keyring: false, compatible },
    ...config,
    control: { model: 'compatible/small', ...(config.control as object | undefined) },
  };
  writeFileSync(join(folder, 'handfast.yaml'), JSON.stringify(whole));
  writeFileSync(join(folder, 'notes.txt'), 'the door is green\n');
  const env = { HANDFAST_HOME: join(folder, 'home'), LEAD_TOKEN: 'lead-token-of-this-test' };
  const start = async () => serve(await loadConfig('handfast.yaml', { cwd: folder, env }), { announce: false });
  const site: Site = {
    folder,
    model,
    server: await start(),
    async agent(token = own()) {
      const agent = await connect(site.server.listeners[0] ?? '', { capabilities: ['multi_agent'], token });
      t.after(() => agent.close());
      return agent;
    },
    async control() {
      const client = await connectControl(site.server.listeners[0] ?? '', { token: own() });
      t.after(() => client.close());
      return client;
    },
    async restart() {
      await site.server.close(0);
      site.server = await start();
    },
  };
  const own = () => readFileSync(site.server.tokenFile ?? '', 'utf8').trim();
  t.after(() => site.server.close(0));
  return site;
}

async function sessionsOf(client: Awaited<ReturnType<typeof connectControl>>): Promise<SessionSummary[]> {
  const found = (await client.call('session.list', { include_closed: true })) as { sessions: SessionSummary[] };
  return found.sessions;
}

let callId = 0;
const call = (name: string, input: Readonly<Record<string, unknown>>) => ({
  tool_calls: [{ id: `call-${++callId}`, name, input }],
});

test('a task is a turn: its tools, its approval at its session, its answer and what it spent', {
  timeout: 120_000,
}, async (t) => {
  const site = await siteOf(t, { kinds: [session()] });
  const [agent, control] = await Promise.all([site.agent(), site.control()]);
  const events: string[] = [];
  agent.multi_agent.onEvent(({ event }) => void events.push(event));
  assert.deepEqual(
    (await agent.multi_agent.kinds()).map(({ kind, backend }) => [kind, backend]),
    [['helper', 'session']],
  );
  const helper = await agent.multi_agent.spawn('painter', { role: 'painter' });
  const [listed] = await sessionsOf(control);
  assert.deepEqual([listed?.title, listed?.subagent_id, listed?.backend], ['painter', helper.id, 'model']);
  site.model.play([
    { ...call('read_file', { path: 'notes.txt' }), text: 'Let me look.' },
    call('write_file', { path: 'door.txt', content: 'green' }),
    { text: 'The door is green.' },
  ]);
  const running = helper.run('Which colour?');
  await until(() => events.includes('waiting'));
  const [waiting] = await agent.multi_agent.list();
  assert.deepEqual(
    [waiting?.status, waiting?.waiting, waiting?.control_session_id],
    ['RUNNING', true, listed?.session_id],
  );
  const child = await control.open(String(listed?.session_id));
  const [approval] = (await child.state()).approvals;
  assert.equal(approval?.tool?.name, 'write_file');
  assert.equal(existsSync(join(site.folder, 'door.txt')), false);
  await control.call('approval.answer', { session_id: child.id, approval_id: approval?.id, decision: 'allow' });
  const done = await running;
  assert.deepEqual([done.status, done.result], ['COMPLETED', { summary: 'The door is green.' }]);
  assert.equal(readFileSync(join(site.folder, 'door.txt'), 'utf8'), 'green');
  assert.deepEqual([done.usage?.tokens, done.usage?.steps], [360, 2]);
  await until(() => events.includes('completed'));
  assert.deepEqual(
    events.filter((event) => event !== 'progress'),
    ['started', 'waiting', 'resumed', 'completed'],
  );
  const prompt = site.model.requests[0]?.body.messages.at(-1).content;
  assert.match(JSON.stringify(prompt), /Your role: painter.*Which colour\?/s);
  // The next task is the next turn of the same conversation.
  site.model.play([{ text: 'Still green.' }]);
  assert.deepEqual((await helper.run('And now?')).result, { summary: 'Still green.' });
  assert.match(JSON.stringify(site.model.requests.at(-1)?.body.messages), /Which colour/);
  await helper.terminate();
  const [ended] = await sessionsOf(control);
  assert.equal(ended?.closed, true);
  await assert.rejects(control.call('session.send', { session_id: child.id, text: 'on' }), { code: 'session_closed' });
  await control.call('session.load', { session_id: child.id });
  await assert.rejects(control.call('session.send', { session_id: child.id, text: 'on' }), { code: 'session_closed' });
});

test('its tools are those that its parent may delegate', { timeout: 120_000 }, async (t) => {
  const lead = {
    name: 'lead',
    token_env: 'LEAD_TOKEN',
    capabilities: ['tools'],
    tools: { allow: ['read_file'] },
    grants: {
      multi_agent: { delegate: { capabilities: ['tools'], tools: { allow: ['read_file', 'list_dir', 'write_file'] } } },
    },
  };
  const site = await siteOf(t, { kinds: [session({ approvals: 'allow' })], auth: { tokens: [lead] } });
  const agent = await site.agent('lead-token-of-this-test');
  const helper = await agent.multi_agent.spawn('one');
  site.model.play([
    call('shell', { command: 'touch made' }),
    call('write_file', { path: 'a.txt', content: 'a' }),
    { text: 'done' },
  ]);
  assert.equal((await helper.run('do it')).status, 'COMPLETED');
  const tools = (await site.model.request(0)).body.tools as { function: { name: string } }[];
  const offered = tools.map((each) => each.function.name);
  assert.deepEqual(
    ['read_file', 'list_dir', 'write_file', 'shell'].map((name) => offered.includes(name)),
    [true, true, true, false],
  );
  assert.equal(existsSync(join(site.folder, 'made')), false);
  assert.equal(existsSync(join(site.folder, 'a.txt')), true);
  const none = await agent.multi_agent.spawn('none', { toolScope: 'isolated' });
  site.model.play([{ text: 'without' }]);
  const outcome = await none.run('say something');
  assert.deepEqual([outcome.status, outcome.result], ['COMPLETED', { summary: 'without' }]);
  const left = (site.model.requests.at(-1)?.body.tools ?? []) as { function: { name: string } }[];
  assert.equal(
    left.some(({ function: { name } }) => name.endsWith('_file')),
    false,
  );
});

test('messages steer it, and a cancel, a spent budget and its closed session end the task once', {
  timeout: 120_000,
}, async (t) => {
  const site = await siteOf(t, { kinds: [session({ approvals: 'allow' })] });
  const [agent, control] = await Promise.all([site.agent(), site.control()]);
  const ends: string[] = [];
  agent.multi_agent.onEvent(({ subagentId, event, content }) => {
    if (['completed', 'failed', 'cancelled', 'terminated'].includes(event) && content.task_id !== undefined) {
      ends.push(`${subagentId} ${event} ${content.code ?? ''}`);
    }
  });
  const helper = await agent.multi_agent.spawn('one');
  await agent.multi_agent.send(helper, { type: 'note', content: 'knock first' });
  site.model.play([{ ...call('read_file', { path: 'notes.txt' }), delay_ms: 300 }, { text: 'yes' }]);
  const task = await helper.delegate('look');
  await site.model.request(0);
  await agent.multi_agent.send(helper, { type: 'note', content: 'and be quick' });
  assert.equal((await helper.result({ taskId: task })).status, 'COMPLETED');
  assert.match(JSON.stringify(site.model.requests[0]?.body.messages), /note of the agent above: knock first/);
  assert.match(JSON.stringify(site.model.requests[1]?.body.messages), /note of the agent above: and be quick/);

  const before = site.model.requests.length;
  site.model.play([{ breaks: 'silence' }]);
  await helper.delegate('wait');
  await site.model.request(before);
  assert.equal(await helper.cancel(), true);
  assert.equal((await helper.result()).code, 'multi_agent.cancelled');
  site.model.play([{ text: 'back' }]);
  assert.deepEqual((await helper.run('again')).result, { summary: 'back' });

  const poor = await agent.multi_agent.spawn('poor', { budget: { tokens: 100 } });
  site.model.play([call('read_file', { path: 'notes.txt' })]);
  assert.equal((await poor.run('read')).code, 'multi_agent.budget_spent');
  const short = await agent.multi_agent.spawn('short', { maxSteps: 1 });
  site.model.play([1, 2].map(() => call('read_file', { path: 'notes.txt' })));
  assert.equal((await short.run('read twice')).code, 'multi_agent.budget_spent');

  const closed = await agent.multi_agent.spawn('closed');
  const row = (await sessionsOf(control)).find(({ subagent_id }) => subagent_id === closed.id);
  site.model.play([{ breaks: 'silence' }]);
  const lost = await closed.delegate('wait');
  await until(async () => (await (await control.open(String(row?.session_id))).state()).turnId !== null);
  await control.call('session.close', { session_id: row?.session_id });
  assert.equal((await closed.result({ taskId: lost })).code, 'multi_agent.lost');
  await until(
    async () => (await agent.multi_agent.list()).find((one) => one.subagent_id === closed.id)?.open === false,
  );
  await until(() => ends.length === 6);
  assert.deepEqual(
    ends.filter((end) => end.startsWith(closed.id)),
    [`${closed.id} failed multi_agent.lost`],
  );
  assert.deepEqual(ends.filter((end) => end.startsWith(helper.id)).length, 3);
});

test('what is said in a channel steers the sessions in it, in its order, once, and never who said it', {
  timeout: 120_000,
}, async (t) => {
  const site = await siteOf(t, { kinds: [session(), { name: 'rehearsed', session: { backend: 'rehearsal' } }] });
  const [agent, control] = await Promise.all([site.agent(), site.control()]);
  const heard: [string, unknown][] = [];
  agent.multi_agent.onSaid((_channel, { from, message }) => heard.push([from, message.content]));
  const [one, two, out] = await Promise.all(
    ['one', 'two', 'out'].map((name) => agent.multi_agent.spawn(name, name === 'two' ? { kind: 'rehearsed' } : {})),
  );
  assert.ok(one && two && out);
  await agent.multi_agent.channel('plan', [one, two]);
  const say = (content: unknown) => agent.multi_agent.say('plan', { type: 'note', content });
  await say('before its task');
  site.model.play([
    call('write_file', { path: 'door.txt', content: 'green' }),
    call('agent_say', { channel: 'plan', message: 'I begin' }),
    call('agent_history', { channel: 'plan' }),
    call('agent_say', { channel: 'other', message: 'who is there?' }),
    { text: 'done' },
  ]);
  const task = await one.delegate('look');
  const idOf = async (subagent: string) =>
    String((await sessionsOf(control)).find(({ subagent_id }) => subagent_id === subagent)?.session_id);
  const child = await control.open(await idOf(one.id));
  await until(async () => (await child.state()).approvals.length === 1);
  for (let at = 0; at < 5; at++) await say(at);
  await control.call('session.configure', { session_id: child.id, approvals: 'allow' });
  const [approval] = (await child.state()).approvals;
  await control.call('approval.answer', { session_id: child.id, approval_id: approval?.id, decision: 'allow' });
  assert.equal((await one.result({ taskId: task })).status, 'COMPLETED');
  const texts = (body: { messages: { role: string; content: unknown }[] }) =>
    body.messages.filter(({ role }) => role === 'user').flatMap(({ content }) => JSON.stringify(content));
  const said = (content: unknown) => `note of the agent above in the channel \\\\?"plan\\\\?": ${content}`;
  const all = texts(site.model.requests.at(-1)?.body as never).join('\n');
  const order = ['before its task', 0, 1, 2, 3, 4].map((each) => new RegExp(said(each), 'g'));
  const at = order.map((each) => [...all.matchAll(each)].map(({ index }) => index));
  assert.ok(
    at.every(({ length }) => length === 1),
    all,
  );
  assert.deepEqual(
    at.flat(),
    at.flat().toSorted((x, y) => x - y),
  );
  assert.equal(all.includes('I begin'), false, all);
  await until(() => heard.length === 7);
  assert.deepEqual(heard.at(-1), [one.id, 'I begin']);
  const results = site.model.requests.at(-1)?.body.messages.filter(({ role }: { role: string }) => role === 'tool');
  assert.match(results.at(-2).content, /the agent that made the channel.*before its task.*I begin/s);
  assert.match(results.at(-1).content, /no channel .*other/);
  // The other one had no task: messages wait for it, also those of the first.
  assert.equal((await two.run('say "ready"')).status, 'COMPLETED');
  const { messages } = (await control.call('session.messages', { session_id: await idOf(two.id) })) as {
    messages: { kind: string; text: string }[];
  };
  const [prompt = ''] = messages.filter(({ kind }) => kind === 'user').map(({ text }) => text);
  assert.deepEqual(prompt.split('\n\n'), [
    ...['before its task', 0, 1, 2, 3, 4].map((each) => `note of the agent above in the channel "plan": ${each}`),
    `message of ${one.id} in the channel "plan": I begin`,
    'say "ready"',
  ]);
  // One that is in no channel hears nothing and reads nothing.
  site.model.play([call('agent_history', { channel: 'plan' }), { text: 'nothing' }]);
  await out.run('what was said?');
  const last = site.model.requests.at(-1)?.body;
  assert.match(last.messages.at(-1).content, /no channel/);
  assert.equal(JSON.stringify(last.messages).includes('before its task'), false);
});

test('what was said shortly before a cancel starts no turn of its own, and is read with the next task, once', {
  timeout: 120_000,
}, async (t) => {
  const site = await siteOf(t, { kinds: [session({ approvals: 'allow' })] });
  const agent = await site.agent();
  const one = await agent.multi_agent.spawn('one');
  await agent.multi_agent.channel('plan', [one]);
  site.model.play([{ breaks: 'silence' }]);
  await one.delegate('wait');
  await site.model.request(0);
  for (const content of ['first', 'second']) await agent.multi_agent.say('plan', { type: 'note', content });
  assert.equal(await one.cancel(), true);
  site.model.play([{ text: 'here' }]);
  assert.deepEqual((await one.run('again')).result, { summary: 'here' });
  assert.equal(site.model.requests.length, 2);
  const read = JSON.stringify(site.model.requests[1]?.body.messages);
  assert.deepEqual(read.match(/: (first|second)|again/g), [': first', ': second', 'again']);
});

test('an agent of the Agent Client Protocol does tasks: asked at its session, cancelled, lost', {
  timeout: 120_000,
}, async (t) => {
  const files = scriptFolder();
  t.after(() => files[Symbol.dispose]());
  const script: AgentScript = {
    prompts: [
      [
        calls('tool_call', { title: 'Paint', kind: 'edit', status: 'pending' }),
        { permission: { toolCall: { toolCallId: 'call-1' }, options: OPTIONS } },
        says('painted'),
        { stop: 'end_turn', usage: { inputTokens: 30, outputTokens: 12, totalTokens: 42 } },
      ],
      [says('half'), { untilCancelled: true }],
      [says('then '), { exit: 3, stderr: 'gone' }],
      [says('back')],
    ],
  };
  const painter = { name: 'painter', command: process.execPath, args: [...files.args(script)] };
  const site = await siteOf(t, { kinds: [session({ backend: 'painter' })], control: { agents: [painter] } });
  const [agent, control] = await Promise.all([site.agent(), site.control()]);
  const ends: string[] = [];
  const waiting: unknown[] = [];
  agent.multi_agent.onEvent(({ event, content }) => {
    if (['completed', 'failed', 'cancelled', 'terminated'].includes(event)) ends.push(`${event} ${content.code ?? ''}`);
    if (event === 'waiting') waiting.push(content.reason);
  });
  const one = await agent.multi_agent.spawn('one');
  const first = one.run('paint the door');
  await until(() => waiting.length === 1);
  assert.deepEqual(waiting, ['Paint']);
  const [row] = await sessionsOf(control);
  const child = await control.open(String(row?.session_id));
  const [approval] = (await child.state()).approvals;
  await control.call('approval.answer', { session_id: child.id, approval_id: approval?.id, decision: 'allow' });
  const done = await first;
  assert.deepEqual([done.status, done.result, done.usage?.tokens], ['COMPLETED', { summary: 'painted' }, 42]);
  const second = await one.delegate('paint on');
  await until(() => files.told('session/prompt').length === 2);
  assert.equal(await one.cancel(), true);
  assert.equal((await one.result({ taskId: second })).code, 'multi_agent.cancelled');
  const third = await one.run('and on');
  assert.deepEqual([third.status, third.code], ['FAILED', 'multi_agent.failed']);
  assert.deepEqual((await one.run('once more')).result, { summary: 'back' });
  await one.terminate();
  await until(() => ends.length === 5);
  assert.deepEqual(ends, [
    'completed ',
    'cancelled multi_agent.cancelled',
    'failed multi_agent.failed',
    'completed ',
    'terminated multi_agent.terminated',
  ]);
});

test('the subagents of a session are sessions below it, and theirs below them', { timeout: 120_000 }, async (t) => {
  const site = await siteOf(t, { kinds: [session({ approvals: 'allow' })] });
  const control = await site.control();
  const top = await control.create({ approvals: 'allow', title: 'top' });
  site.model.play([
    call('agent_run', { task: 'one', name: 'child' }),
    call('agent_run', { task: 'two', name: 'grandchild' }),
    { text: 'from the grandchild' },
    { text: 'from the child' },
    { text: 'from the top' },
  ]);
  assert.equal((await (await top.prompt('begin')).result()).stopReason, 'end_turn');
  assert.match(JSON.stringify(site.model.requests.at(-1)?.body.messages), /from the child/);
  assert.match(JSON.stringify(site.model.requests.at(-2)?.body.messages), /from the grandchild/);
  const rows = await sessionsOf(control);
  const named = (title: string) => rows.find((row) => row.title === title);
  assert.equal(named('child')?.parent_session_id, top.id);
  assert.equal(named('grandchild')?.parent_session_id, named('child')?.session_id);
  assert.deepEqual([named('child')?.closed, named('grandchild')?.closed, named('top')?.closed], [true, true, false]);
});

test('with its host its session ends, and its task was interrupted', { timeout: 120_000 }, async (t) => {
  const site = await siteOf(t, { kinds: [session()] });
  const agent = await site.agent();
  const one = await agent.multi_agent.spawn('one');
  site.model.play([call('write_file', { path: 'x', content: 'x' })]);
  const task = await one.delegate('write');
  await until(async () => (await agent.multi_agent.list())[0]?.waiting === true);
  await site.restart();
  const again = await site.agent();
  const outcome = await again.multi_agent.subagent(one.id).result({ taskId: task });
  assert.equal(outcome.code, 'multi_agent.interrupted');
  const control = await site.control();
  const [row] = await sessionsOf(control);
  assert.deepEqual([row?.subagent_id, row?.closed, row?.pending], [one.id, true, false]);
});

test('a killed server leaves no session of a subagent open, and none with the rights of its owner', {
  timeout: 180_000,
}, async (t) => {
  const folder = realpathSync(temporaryFolder(t));
  const file = join(folder, 'handfast.yaml');
  const kinds = [{ name: 'helper', session: { backend: 'rehearsal' } }];
  const plugins = [{ use: 'tools' }, { use: 'multi_agent', options: { kinds } }];
  writeFileSync(file, JSON.stringify({ listen: [`unix://${join(folder, 'socket')}`], plugins }));
  const start = async () => {
    const script = join(import.meta.dirname, '../../support/serve-process.ts');
    const host = spawn(process.execPath, ['-C', 'handfast-source', script, file], {
      cwd: join(import.meta.dirname, '../../..'),
      env: { ...process.env, HANDFAST_HOME: join(folder, 'home') },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    t.after(() => host.kill('SIGKILL'));
    const [{ tokenFile }] = (await once(host, 'message')) as [{ tokenFile: string }];
    const token = readFileSync(tokenFile, 'utf8').trim();
    const address = `unix://${join(folder, 'socket')}`;
    return { host, address, token };
  };
  const before = await start();
  const { address, token } = before;
  const agent = await connect(address, { capabilities: ['multi_agent'], agentId: 'lead', token });
  t.after(() => agent.close());
  const [idle, asks] = await Promise.all([agent.multi_agent.spawn('idle'), agent.multi_agent.spawn('asks')]);
  assert.equal((await idle.run('say "hello"')).status, 'COMPLETED');
  const task = await asks.delegate('write "x" to x.txt');
  await until(async () => (await agent.multi_agent.list()).some(({ waiting }) => waiting === true));
  const dead = once(before.host, 'exit');
  before.host.kill('SIGKILL');
  await dead;
  await agent.close();
  const after = await start();
  const control = await connectControl(after.address, { token: after.token });
  t.after(() => control.close());
  const rows = await sessionsOf(control);
  assert.deepEqual(
    rows.map(({ title, closed, pending, approvals_pending }) => [title, closed, pending, approvals_pending]).sort(),
    [
      ['asks', true, false, 0],
      ['idle', true, false, 0],
    ],
  );
  const again = await connect(after.address, { capabilities: ['multi_agent'], agentId: 'lead', token: after.token });
  t.after(() => again.close());
  assert.equal((await again.multi_agent.subagent(asks.id).result({ taskId: task })).code, 'multi_agent.interrupted');
  assert.equal(existsSync(join(folder, 'x.txt')), false);
  // It writes to the folder until it has ended.
  const ended = once(after.host, 'exit');
  after.host.kill('SIGKILL');
  await ended;
});
