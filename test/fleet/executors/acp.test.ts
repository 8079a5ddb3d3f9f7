/** The acp executor, over real processes of a scripted agent: turns, questions, steering, and how one is cancelled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { calls, says } from '../../agents/acp/scripted-agent.ts';
import { fakeContext, taskOf } from './fake-context.ts';
import { type Agent, permission, scripted, USAGE } from './scripted-acp.ts';

const promptsOf = (agent: Agent): string[] =>
  agent
    .told('session/prompt')
    .map(({ prompt }: { prompt: { text: string }[] }) => prompt.map(({ text }) => text).join());

test('a turn has a reply, progress, tokens and cost, and the process is kept for the next one', async () => {
  const plan = { content: 'look around', status: 'in_progress', priority: 'high' };
  await using agent = scripted({
    prompts: [
      [
        says('thinking', 'agent_thought_chunk'),
        { update: { sessionUpdate: 'plan', entries: [{ ...plan, status: 'completed' }, plan] } },
        says('I will '),
        says('look.'),
        calls('tool_call', { title: 'Run ls', kind: 'execute', status: 'in_progress' }),
        calls('tool_call_update', { status: 'completed' }),
        { update: { sessionUpdate: 'usage_update', used: 5, size: 10, cost: { amount: 0.25, currency: 'USD' } } },
        { update: { sessionUpdate: 'news_of_another_version' } },
        says('```json\n{}\n```'),
        { stop: 'end_turn', usage: USAGE },
      ],
      [says('two')],
    ],
  });
  const context = fakeContext(agent.cwd);
  const outcome = await agent.executor.start(taskOf('do it'), context).outcome;
  assert.deepEqual(outcome, {
    text: 'I will look.\n\n```json\n{}\n```',
    ending: 'completed',
    exitCode: null,
    usage: {
      source: 'provider',
      ...{ input: 100, output: 20, reasoning: 3, cache_read: 50, cache_write: 0, cost_usd: 0.25 },
    },
  });
  assert.ok(context.progressed.some(({ note, percent }) => note === 'look around' && percent === 50));
  assert.ok(context.progressed.some(({ note }) => note === 'Run ls'));
  assert.deepEqual(context.used.at(-1), outcome.usage);
  assert.equal(agent.executor.hasConversation('c-1'), true);
  const second = await agent.executor.start(taskOf('go on'), fakeContext(agent.cwd)).outcome;
  assert.deepEqual([second.text, second.usage], ['two', { source: 'unknown' }]);
  assert.equal(agent.told('initialize').length, 1);
  assert.deepEqual(agent.told('session/new'), [{ cwd: agent.cwd, mcpServers: [] }]);
});

test('what it asks is asked of the user, with what the call is about, and answered in its words', async () => {
  const elicit = {
    elicit: { mode: 'form', message: 'Which?', requestedSchema: { properties: { a: { type: 'string' } } } },
  };
  await using agent = scripted({
    prompts: [
      [
        calls('tool_call', { title: 'Run ls', rawInput: { cwd: '/x' } }),
        permission('execute'),
        permission('execute'),
        elicit,
      ],
    ],
  });
  const answers = [{ allowed: true }, { allowed: false }, { allowed: true, content: { a: 'b' } }];
  const context = fakeContext(agent.cwd, { answer: () => answers.shift()! });
  await agent.executor.start(taskOf('do it'), context).outcome;
  assert.deepEqual(context.asked[0], {
    kind: 'tool',
    title: 'Run ls',
    tool: { name: 'execute', input: { cwd: '/x', command: 'ls' } },
    risks: ['exec'],
  });
  assert.equal(context.asked[2]?.kind, 'question');
  assert.deepEqual(agent.told('permission answered'), [
    { outcome: 'selected', optionId: 'once' },
    { outcome: 'selected', optionId: 'no' },
  ]);
  assert.deepEqual(agent.told('elicitation answered'), [{ action: 'accept', content: { a: 'b' } }]);
});

test('what is steered in is the next prompt of the same turn', async () => {
  await using agent = scripted({
    prompts: [
      [says('one'), permission('execute'), { stop: 'end_turn', usage: USAGE }],
      [says('two'), { stop: 'end_turn', usage: USAGE }],
    ],
  });
  const context = fakeContext(agent.cwd, {
    answer: async () => {
      assert.deepEqual(await Promise.all([execution.steer?.('also this'), execution.steer?.('and that')]), [
        'queued',
        'queued',
      ]);
      return { allowed: true };
    },
  });
  const execution = agent.executor.start(taskOf('do it'), context);
  const outcome = await execution.outcome;
  assert.equal(outcome.text, 'one\n\ntwo');
  assert.equal(outcome.usage.input, 200);
  assert.deepEqual(promptsOf(agent), ['do it', 'also this\n\nand that']);
  assert.equal(await execution.steer?.('too late'), 'rejected');
});

test('a cancelled turn ends with what was said, also while it waits for an answer, and the agent is kept', async () => {
  const script = {
    prompts: [
      [says('half'), { untilCancelled: true }, { stop: 'cancelled' }],
      [permission('execute'), { stop: 'cancelled' }],
    ],
  } as const;
  // However busy the machine is: an agent that takes longer is ended.
  await using agent = scripted(script, { cancelTimeoutMs: 60_000 });
  const first = fakeContext(agent.cwd);
  const running = agent.executor.start(taskOf('do it'), first).outcome;
  await first.until(({ progressed }) => progressed.some(({ phase }) => phase === 'running'));
  first.stop(new Error('cancelled'));
  const half = await running;
  assert.deepEqual([half.text, half.ending], ['half', 'stopped']);
  const second = fakeContext(agent.cwd, { answer: () => new Promise(() => {}) });
  const asking = agent.executor.start(taskOf('do it'), second).outcome;
  await second.until(({ asked }) => asked.length > 0);
  second.stop(new Error('cancelled'));
  assert.equal((await asking).ending, 'stopped');
  assert.deepEqual(agent.told('permission answered'), [{ outcome: 'cancelled' }]);
  assert.equal(agent.told('initialize').length, 1);
});

test('MCP servers that the agent cannot use are named in the result, in progress and in the health of the worker', async () => {
  const mcpServers = [
    { name: 'Web Search', type: 'http', url: 'https://search.example.com/mcp', headers: {} },
    { name: 'files', command: 'files-mcp', args: [] },
  ];
  await using agent = scripted({ prompts: [[says('done')], [says('not sent')]] }, { mcpServers });
  const context = fakeContext(agent.cwd);
  const outcome = await agent.executor.start(taskOf('do it'), context).outcome;
  const line = 'MCP server "Web Search" cannot be used: MCP servers over http are not supported here (agent scripted)';
  assert.deepEqual(outcome.warnings, [line]);
  assert.ok(context.progressed.some(({ note }) => note === line));
  assert.deepEqual([...context.health], [['web_search', 'error']]);
  assert.equal(agent.told('session/new')[0]?.mcpServers.length, 1);
  // A worker stops the turn of a task that requires it: the agent gets no prompt.
  const required = fakeContext(agent.cwd, { onHealth: (_found, { stop }) => stop(new Error('required')) });
  const refused = await agent.executor.start(taskOf('go on'), required).outcome;
  assert.deepEqual([refused.ending, agent.told('session/prompt').length], ['stopped', 1]);
});

test('the environment of a task is a server of the session, and the next task of the conversation gets its own', async () => {
  const environment = (token: string) => ({ name: 'handfast', url: 'http://127.0.0.1:9/mcp', token });
  for (const http of [true, false]) {
    const capabilities = { loadSession: true, mcpCapabilities: { http } };
    await using agent = scripted({ capabilities, prompts: [[says('one')], [says('two')], [says('three')]] });
    const run = async (token: string | undefined) => {
      const context = fakeContext(agent.cwd);
      const task = taskOf('do it');
      const given = token === undefined ? context : { ...context, environment: environment(token) };
      const { failure } = await agent.executor.start(task, given).outcome;
      assert.equal(failure, undefined);
    };
    await run('first');
    await run('second');
    await run(undefined);
    const [opened] = agent.told('session/new');
    const loaded = agent.told('session/load');
    const header = (token: string) => [{ name: 'Authorization', value: `Bearer ${token}` }];
    const variables = (token: string) => [
      { name: 'HANDFAST_MCP_URL', value: 'http://127.0.0.1:9/mcp' },
      { name: 'HANDFAST_MCP_TOKEN', value: token },
    ];
    const servers = [opened, ...loaded].map(({ mcpServers: [server] }) => (http ? server?.headers : server?.env));
    const told = http ? header : variables;
    assert.deepEqual(servers, [told('first'), told('second'), undefined]);
    assert.ok(!JSON.stringify(opened.mcpServers[0].args ?? []).includes('first'), 'no argument has the token');
  }
});
