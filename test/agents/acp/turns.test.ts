/**
 * A turn of an agent behind the Agent Client Protocol: its stream, actions, questions and memory.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_USAGE } from '../../../src/protocol/session-types.ts';
import { FakeSessionLog } from '../../control/support/fake-session-log.ts';
import { FakeTurn, inShort } from '../../control/support/fake-turn.ts';
import { type AgentStep, calls, OPTIONS, says, scriptedAgent } from './scripted-agent.ts';

test('an agent is started where the session works, told who we are, and its answer and thoughts are streamed', async () => {
  await using agent = scriptedAgent({
    prompts: [[says('let me see', 'agent_thought_chunk'), says('it '), says('works'), { stop: 'end_turn' }]],
  });
  const turn = new FakeTurn({ cwd: '/tmp', text: 'does it?' });
  assert.deepEqual(await agent.backend.run(turn), { stopReason: 'end_turn' });
  assert.deepEqual(inShort(turn.deeds), [
    'status starting scripted...',
    'status thinking...',
    'thought let me see',
    'answer it ',
    'answer works',
  ]);
  assert.deepEqual(turn.items.slice(1), [
    { role: 'assistant', turn: 'turn-1', text: 'it works', reasoning: 'let me see' },
  ]);
  const [initialize] = agent.told('initialize');
  const { fs, terminal, elicitation } = initialize.clientCapabilities;
  assert.deepEqual(fs, { readTextFile: false, writeTextFile: false });
  assert.equal(terminal, false);
  assert.deepEqual(elicitation, { form: {} });
  assert.deepEqual(agent.told('session/new'), [{ cwd: '/tmp', mcpServers: [] }]);
  assert.deepEqual(agent.told('session/prompt'), [
    { sessionId: 'agent-session-1', prompt: [{ type: 'text', text: 'does it?' }] },
  ]);
});

test('tool calls become rounds: told when they run, with live output, results and history as of any other turn', async () => {
  const text = (words: string) => [{ type: 'content', content: { type: 'text', text: words } }];
  await using agent = scriptedAgent({
    prompts: [
      [
        says('looking'),
        calls('tool_call', { title: 'bash', kind: 'execute', status: 'pending', rawInput: { cwd: '/tmp' } }),
        calls('tool_call_update', { title: 'echo hi', status: 'in_progress', rawInput: { command: 'echo hi' } }),
        calls('tool_call_update', { status: 'in_progress', content: text('hi') }),
        calls('tool_call_update', { status: 'in_progress', content: text('hi\nho') }),
        calls('tool_call_update', { status: 'completed', content: text('hi\nho'), rawOutput: { exit: 0 } }),
        says('now writing'),
        calls('tool_call', { toolCallId: 'call-2', name: 'write', title: 'a.txt', kind: 'edit', rawInput: {} }),
        calls('tool_call_update', {
          toolCallId: 'call-2',
          status: 'failed',
          locations: [{ path: '/tmp/a.txt' }],
          content: [{ type: 'diff', path: '/tmp/a.txt', oldText: 'a', newText: 'b' }, ...text('no room')],
        }),
        says('done'),
        { stop: 'end_turn' },
      ],
    ],
  });
  const turn = new FakeTurn();
  await agent.backend.run(turn);
  assert.deepEqual(inShort(turn.deeds).slice(2), [
    'answer looking',
    'started 1 execute call-1',
    'output call-1 output hi',
    'output call-1 output \nho',
    'done 1 call-1 ok',
    'results 1 call-1',
    'answer now writing',
    'started 2 write call-2',
    'output call-2 output no room',
    'done 2 call-2 failed',
    'results 2 call-2',
    'answer done',
  ]);
  const [first, second] = turn.deedsOf('started');
  assert.deepEqual(first?.call, {
    name: 'execute',
    input: { cwd: '/tmp', command: 'echo hi' },
    providerToolName: 'echo hi',
    callId: 'call-1',
  });
  assert.deepEqual(first?.facts, { toolKind: 'execute', risks: ['exec'] });
  assert.deepEqual(second?.call.input, { path: '/tmp/a.txt' });
  const [ran, failed] = turn.deedsOf('done').map(({ done }) => done);
  assert.deepEqual(ran?.result, { text: 'hi\nho', output: { exit: 0 } });
  assert.equal(failed?.error, 'no room');
  assert.deepEqual(failed?.result, {
    text: 'no room',
    diffs: [{ path: '/tmp/a.txt', old_text: 'a', new_text: 'b' }],
    paths: ['/tmp/a.txt'],
  });
  assert.deepEqual(
    turn.items.map((item) => (item.role === 'tool' ? `tool ${item.callId} ${item.ok}` : `${item.role} ${item.text}`)),
    [
      'user do it',
      'assistant looking',
      'tool call-1 true',
      'assistant now writing',
      'tool call-2 false',
      'assistant done',
    ],
  );
});

test('calls that run side by side are one round; a call that is never finished is ended with the turn', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [
        calls('tool_call', { toolCallId: 'a', title: 'a', kind: 'read', status: 'in_progress' }),
        calls('tool_call', { toolCallId: 'b', title: 'b', kind: 'search', status: 'in_progress' }),
        calls('tool_call_update', { toolCallId: 'b', status: 'completed' }),
        says('meanwhile'),
        calls('tool_call', { toolCallId: 'never', title: 'only planned', status: 'pending' }),
        { stop: 'end_turn' },
      ],
    ],
  });
  const turn = new FakeTurn();
  await agent.backend.run(turn);
  assert.deepEqual(inShort(turn.deeds).slice(2), [
    'started 1 read a',
    'started 1 search b',
    'done 1 b ok',
    'answer meanwhile',
    'done 1 a failed',
    'results 1 a b',
  ]);
});

test('an id that an agent uses twice names two calls', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [
        calls('tool_call', { title: 'a', kind: 'read', status: 'completed' }),
        calls('tool_call', { title: 'b', kind: 'read', status: 'completed' }),
        { stop: 'end_turn' },
      ],
    ],
  });
  const turn = new FakeTurn();
  await agent.backend.run(turn);
  assert.deepEqual(
    turn.deedsOf('done').map(({ done }) => done.callId),
    ['call-1', 'call-1_2'],
  );
});

test('plans, the size of the context, cost and tokens are reported', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [
        { update: { sessionUpdate: 'plan', entries: [{ content: 'look', status: 'in_progress', priority: 'high' }] } },
        { update: { sessionUpdate: 'usage_update', used: 900, size: 8000, cost: { amount: 0.25, currency: 'USD' } } },
        { update: { sessionUpdate: 'usage_update', used: 950, size: 8000, cost: { amount: 0.75, currency: 'USD' } } },
        { stop: 'end_turn', usage: { inputTokens: 20, outputTokens: 3, totalTokens: 27, thoughtTokens: 4 } },
      ],
    ],
  });
  const turn = new FakeTurn();
  await agent.backend.run(turn);
  assert.deepEqual(turn.log.of('session.plan'), [
    { entries: [{ content: 'look', status: 'in_progress', priority: 'high' }] },
  ]);
  const [estimate] = turn.log.of('session.context.estimate');
  assert.deepEqual(
    [estimate?.total_tokens_estimate, estimate?.context_window_tokens, estimate?.source],
    [900, 8000, 'provider'],
  );
  assert.deepEqual(turn.used, [
    { ...NO_USAGE, cost_usd: 0.25 },
    { ...NO_USAGE, cost_usd: 0.5 },
    { ...NO_USAGE, input_tokens: 20, output_tokens: 3, total_tokens: 27, reasoning_tokens: 4 },
  ]);
});

test('permission is asked of the user with what is to be run, and the answer picks the option', async () => {
  const request = (command: string) => ({
    permission: {
      toolCall: { toolCallId: 'call-1', title: `run ${command}`, kind: 'execute', rawInput: { command } },
      options: OPTIONS,
    },
  });
  await using agent = scriptedAgent({
    prompts: [[...['a', 'b', 'c', 'd', 'e'].map(request), { stop: 'end_turn' }]],
  });
  const answers = [
    { state: 'allowed' as const },
    { state: 'allowed' as const, answer: { decision: 'allow' as const, remember: 'session' as const } },
    { state: 'allowed' as const, answer: { decision: 'allow' as const, remember: 'directory' as const } },
    { state: 'denied' as const },
    { state: 'cancelled' as const },
  ];
  const turn = new FakeTurn({ answers: () => answers.shift() ?? {} });
  await agent.backend.run(turn);
  assert.deepEqual(turn.asked[0], {
    kind: 'tool',
    title: 'run a',
    tool: { name: 'execute', input: { command: 'a' }, call_id: 'call-1' },
    toolKind: 'execute',
    risks: ['exec'],
  });
  assert.deepEqual(
    turn.asked.map(({ tool }) => tool?.call_id),
    ['call-1', 'call-1#2', 'call-1#3', 'call-1#4', 'call-1#5'],
    'each request is a question of its own',
  );
  assert.deepEqual(agent.told('permission answered'), [
    { outcome: 'selected', optionId: 'once' },
    { outcome: 'selected', optionId: 'once' },
    { outcome: 'selected', optionId: 'always' },
    { outcome: 'selected', optionId: 'no' },
    { outcome: 'cancelled' },
  ]);
});

test('a call without an input is distinguished by its title, so that no answer covers another one', async () => {
  await using agent = scriptedAgent({
    prompts: [
      [{ permission: { toolCall: { toolCallId: 'x', title: 'launch it' }, options: OPTIONS } }, { stop: 'end_turn' }],
    ],
  });
  const turn = new FakeTurn();
  await agent.backend.run(turn);
  assert.deepEqual(turn.asked[0]?.tool?.input, { title: 'launch it' });
  assert.deepEqual(turn.asked[0]?.risks, []);
});

test('a question with a form reaches the user with its schema, and its answer the agent', async () => {
  const form = {
    mode: 'form',
    message: 'which one?',
    requestedSchema: { type: 'object', properties: { which: { type: 'string' } } },
  };
  await using agent = scriptedAgent({
    prompts: [[{ elicit: form }, { elicit: form }, { elicit: form }, { stop: 'end_turn' }]],
  });
  const answers = [
    {
      state: 'allowed' as const,
      answer: { decision: 'allow' as const, remember: 'once' as const, content: { which: 'a' } },
    },
    { state: 'denied' as const },
    { state: 'expired' as const },
  ];
  const turn = new FakeTurn({ answers: () => answers.shift() ?? {} });
  await agent.backend.run(turn);
  assert.deepEqual(turn.asked[0], { kind: 'question', title: 'which one?', risks: [], schema: form.requestedSchema });
  assert.deepEqual(agent.told('elicitation answered'), [
    { action: 'accept', content: { which: 'a' } },
    { action: 'decline' },
    { action: 'cancel' },
  ]);
});

test('every stop reason has its outcome', async () => {
  const reasons = ['end_turn', 'max_tokens', 'max_turn_requests', 'refusal', 'cancelled'];
  await using agent = scriptedAgent({ prompts: reasons.map((stop) => [{ stop }]) });
  const outcomes: string[] = [];
  const log = new FakeSessionLog();
  for (const _ of reasons) outcomes.push((await agent.backend.run(new FakeTurn({ log }))).stopReason);
  assert.deepEqual(outcomes, ['end_turn', 'max_tokens', 'max_rounds', 'refusal', 'interrupted']);
  assert.equal(agent.told('initialize').length, 1, 'one process serves all turns of a session');
});

test('embedded resources, links, pictures and audio of an agent are text and names in its answer and its results', async () => {
  const resource = { type: 'resource', resource: { uri: 'file:///a.txt', text: 'of a file' } };
  const link = { type: 'resource_link', name: 'b.txt', uri: 'file:///b.txt' };
  const blob = { type: 'resource', resource: { uri: 'file:///c.bin', blob: 'AAEC' } };
  const sound = { type: 'audio', mimeType: 'audio/wav', data: 'AAEC' };
  const blocks = [resource, link, blob, sound];
  await using agent = scriptedAgent({
    prompts: [
      [
        calls('tool_call', {
          kind: 'read',
          title: 'read',
          status: 'completed',
          content: blocks.map((content) => ({ type: 'content', content })),
        }),
        ...blocks.map((content) => ({ update: { sessionUpdate: 'agent_message_chunk', content } })),
      ],
    ],
  });
  const turn = new FakeTurn();
  await agent.backend.run(turn);
  const words = ['of a file', '[b.txt](file:///b.txt)', '[file:///c.bin]', '[audio: audio/wav]'];
  assert.equal(turn.answerText, words.join(''));
  assert.deepEqual(turn.deedsOf('done')[0]?.done.result, { text: words.join('\n') });
});

test('the title of an agent names the session until a user does', async () => {
  const named = (title: string): AgentStep => ({ update: { sessionUpdate: 'session_info_update', title } });
  await using agent = scriptedAgent({
    prompts: [[named(' A good\n title ')], [named('A better title')], [named('Third')]],
  });
  const log = new FakeSessionLog();
  const title = async (text: string): Promise<string> => {
    await agent.backend.run(new FakeTurn({ log, text }));
    return log.record.title;
  };
  log.emit('session.renamed', { title: 'do it' });
  assert.equal(await title('do it, and more'), 'A good title');
  assert.equal(await title('then this'), 'A better title');
  log.emit('session.renamed', { title: 'mine' });
  assert.equal(await title('and that'), 'mine');
});

test('images are passed on to an agent that takes them, and refused in words for one that does not', async () => {
  const image = { path: '/project/a b.png', mimeType: 'image/png', dataUrl: 'data:image/png;base64,QUJD', byteSize: 3 };
  const withImage = (log?: FakeSessionLog) =>
    Object.assign(new FakeTurn({ log }), { prompt: { text: 'see', images: [image] } });
  await using agent = scriptedAgent({ capabilities: { promptCapabilities: { image: true } }, prompts: [[]] });
  await agent.backend.run(withImage());
  assert.deepEqual(agent.told('session/prompt')[0].prompt, [
    { type: 'text', text: 'see' },
    { type: 'image', data: 'QUJD', mimeType: 'image/png', uri: 'file:///project/a%20b.png' },
  ]);
  await using blind = scriptedAgent({ prompts: [[]] });
  await assert.rejects(blind.backend.run(withImage()), {
    code: 'not_configured',
    message: 'the agent scripted does not accept images',
  });
});

test('what this side does not know, or cannot read, disturbs nothing', async () => {
  await using agent = scriptedAgent({
    noise: 'starting up...\n',
    prompts: [
      [
        { update: { sessionUpdate: 'something_new', value: 1 } },
        { update: { sessionUpdate: 'tool_call', toolCallId: 7 } },
        { update: { sessionUpdate: 'tool_call_update', toolCallId: 'x', status: 'completed', content: 'no list' } },
        { update: { sessionUpdate: 'plan', entries: 'none' } },
        { update: { sessionUpdate: 'agent_message_chunk' } },
        { raw: 'not json' },
        { raw: '[]' },
        says('fine'),
        { stop: 'end_turn' },
      ],
    ],
  });
  const turn = new FakeTurn();
  assert.deepEqual(await agent.backend.run(turn), { stopReason: 'end_turn' });
  assert.equal(turn.answerText, 'fine');
  assert.ok(turn.steps.some(({ stage }) => stage === 'acp.something_new'));
});

test('what is said to a running turn is left for later: the protocol has no way to say it', async () => {
  await using agent = scriptedAgent({ prompts: [[says('a'), { stop: 'end_turn' }]] });
  const turn = new FakeTurn();
  turn.steer('not so fast');
  await agent.backend.run(turn);
  assert.deepEqual(turn.deedsOf('steers'), []);
  assert.deepEqual(turn.takeSteers(), ['not so fast']);
});
