/**
 * The mapping of events, results, options and commands for an editor, in the cases that a whole session does not show.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandIn, commandOutput, commandsOf } from '../../../src/bridge/acp/commands.ts';
import { changeOfOption, configOptionsOf } from '../../../src/bridge/acp/options.ts';
import { promptOf } from '../../../src/bridge/acp/prompt.ts';
import { changesOf, kindOf, outcomeOf, startOf } from '../../../src/bridge/acp/tool-calls.ts';
import { SessionUpdates } from '../../../src/bridge/acp/updates.ts';
import type { ControlEvent } from '../../../src/control-client/control-event.ts';
import type { ModelListResult } from '../../../src/protocol/session-rpc.ts';
import { NO_USAGE, type UiMessage } from '../../../src/protocol/session-types.ts';

const updates = (compactions = false) =>
  new SessionUpdates({ cwd: '/project', settings: {}, notices: false, compactions });
const event = (type: string, payload: object) =>
  ({ type, timestamp: '', seq: 1, payload: { session_id: 's', turn_id: 't', ...payload } }) as unknown as ControlEvent;
const answers = (text: string) =>
  event('session.stream.chunk', { chunk: { thoughts: [], answerText: text, segments: [{ kind: 'answer', text }] } });
const appended = (message: UiMessage, turn_id = 't') => event('session.message.appended', { message, turn_id });
const texts = (told: ReturnType<SessionUpdates['of']>) =>
  told.map((update) => [update.sessionUpdate, (update as { content?: { text?: string } }).content?.text]);

test('what a crash took from the stream of an answer is taken from its message', () => {
  const told = updates();
  told.of(answers('half of '));
  const message: UiMessage = { id: 2, kind: 'assistant', text: 'half of it' };
  assert.deepEqual(texts(told.of(appended(message))), [['agent_message_chunk', 'it']]);
});

test('a compression of the context is shown from its beginning to its end, where the editor shows such', () => {
  const started = event('compaction.started', { reason: 'auto' });
  const ends = [event('compaction.completed', {}), event('compaction.failed', { message: 'no room' })];
  ends.push(event('session.interrupted', { stop_reason: 'interrupted' }));
  const seen = ends.map((end) => {
    const told = updates(true);
    return [...told.of(started), ...told.of(end)].filter((one) => one.sessionUpdate === 'compaction_update');
  });
  const begun = { sessionUpdate: 'compaction_update', compactionId: 'compaction-1', status: 'in_progress' };
  assert.deepEqual(seen, [
    [begun, { ...begun, status: 'completed' }],
    [begun, { ...begun, status: 'failed', error: 'no room' }],
    [begun, { ...begun, status: 'cancelled' }],
  ]);
  assert.deepEqual(updates().of(started), []);
});

test('the end of work that no call waits for is a notice, where the editor shows such', () => {
  const work = { id: 'task_1', kind: 'subagent', name: 'looker', about: 'look', state: 'completed', result: '{}' };
  const ended = event('session.work', { work, event: 'ended', text: 'completed' });
  const told = new SessionUpdates({ cwd: '/project', settings: {}, notices: true, compactions: false });
  assert.deepEqual(told.of(ended), [
    { sessionUpdate: 'notice', severity: 'info', title: 'subagent looker: completed' },
  ]);
  assert.deepEqual(told.of(event('session.work', { work, event: 'progress', text: '10 %' })), []);
  assert.deepEqual(told.of(event('session.work', { work, event: 'ended', text: 'completed', delivered: true })), []);
  assert.deepEqual(updates().of(ended), []);
});

test('messages whose events are lost are sent when the session is loaded, in their order', () => {
  const told = updates();
  const messages: UiMessage[] = [
    { id: 3, kind: 'user', text: 'old question' },
    { id: 4, kind: 'assistant', text: 'old answer' },
    { id: 9, kind: 'user', text: 'new question' },
    { id: 12, kind: 'assistant', text: 'from elsewhere' },
  ];
  told.startReplay({ messages });
  assert.deepEqual(texts(told.of(appended(messages[2] as UiMessage))), [
    ['user_message_chunk', 'old question'],
    ['agent_message_chunk', 'old answer'],
    ['user_message_chunk', 'new question'],
  ]);
  assert.deepEqual(told.of(appended({ id: 10, kind: 'user', text: 'cleared' }, 'u')), []);
  assert.deepEqual(
    told.of({ ...answers('cleared too'), payload: { ...answers('x').payload, turn_id: 'u' } } as never),
    [],
  );
  const unsent = appended({ id: 11, kind: 'user', text: 'failed early', unsent: true }, 'v');
  assert.deepEqual(texts(told.of(unsent)), [['user_message_chunk', 'failed early']]);
  assert.deepEqual(texts(told.endReplay()), [['agent_message_chunk', 'from elsewhere']]);
});

test('plan, title and usage are sent; usage only where the size of the context is known, and when it changed', () => {
  const told = updates();
  assert.deepEqual(told.of(event('session.plan', { entries: [{ content: 'look', status: 'odd' }] })), [
    { sessionUpdate: 'plan', entries: [{ content: 'look', status: 'pending', priority: 'medium' }] },
  ]);
  assert.deepEqual(told.of(event('session.renamed', { title: 'new' })), [
    { sessionUpdate: 'session_info_update', title: 'new' },
  ]);
  assert.deepEqual(told.of(event('session.usage', { session_usage: { ...NO_USAGE, cost_usd: 0.5 } })), []);
  const estimate = { total_tokens_estimate: 900, context_window_tokens: 8000 };
  assert.deepEqual(told.of(event('session.context.estimate', estimate)), [
    { sessionUpdate: 'usage_update', used: 900, size: 8000, cost: { amount: 0.5, currency: 'USD' } },
  ]);
  assert.deepEqual(told.of(event('session.context.estimate', estimate)), []);
  assert.deepEqual(told.of(event('of.another.version', {})), []);
});

test('of a long output the end is shown, once for all pieces since it was asked for last', () => {
  const told = updates();
  const call = { name: 'shell', input: { command: 'x' }, providerToolName: 'shell', callId: 'c' };
  told.of(event('session.tool.call.started', { data: { toolRound: 1, call }, risks: ['exec'] }));
  for (const text of ['a'.repeat(20_000), 'the end\n']) {
    assert.deepEqual(told.of(event('session.tool.output', { call_id: 'c', stream: 'stdout', text })), []);
  }
  const [update, ...others] = told.outputs() as unknown as [{ content: [{ content: { text: string } }] }];
  assert.equal(others.length, 0);
  const { text } = update.content[0].content;
  assert.ok(text.length < 17_000 && text.endsWith('the end\n```'));
  assert.deepEqual(told.outputs(), []);
});

test('a call has the kind its host says, else what its risks come to, and the title an agent behind us gave it', () => {
  const kinds = [
    kindOf({ toolKind: 'file', risks: ['writes', 'destructive'] }),
    kindOf({ toolKind: 'file', risks: ['reads'] }),
    kindOf({ toolKind: 'search', risks: ['reads'] }),
    kindOf({ toolKind: 'http', risks: ['network'] }),
    kindOf({ toolKind: 'shell', risks: ['exec', 'reads'] }),
    kindOf({ toolKind: 'think' }),
    kindOf({}),
  ];
  assert.deepEqual(kinds, ['edit', 'read', 'search', 'fetch', 'execute', 'think', 'other']);
  const call = { name: 'execute', title: 'Run the tests', input: { command: 'npm test' }, toolKind: 'execute' };
  assert.equal(startOf(call, '/project').title, 'Run the tests');
  const read = { name: 'read_file', input: { path: '../x.ts', offset: 7 }, risks: ['reads'] };
  assert.deepEqual(startOf(read, '/project').locations, [{ path: '/x.ts', line: 7 }]);
});

test('a change is shown as one, but never with text that was shortened on its way', () => {
  const write = (content: string, more = {}) => ({
    name: 'write_file',
    input: { path: 'a', content, ...more },
    risks: ['writes'],
  });
  assert.deepEqual(changesOf(write('x'), '/p'), [{ type: 'diff', path: '/p/a', newText: 'x' }]);
  assert.deepEqual(changesOf(write('eA==', { encoding: 'base64' }), '/p'), []);
  assert.deepEqual(changesOf(write('begins\n[… 70000 characters left out …]\nends'), '/p'), []);
  assert.deepEqual(changesOf({ ...write('x'), risks: ['reads'] }, '/p'), []);
});

test('a result is shown as its changes, its output, what it found, or whole', () => {
  const done = (result: unknown, error?: string) => ({ name: 'tool', ok: error === undefined, result, error });
  const told = (result: unknown, error?: string) =>
    outcomeOf(done(result, error) as never, { name: 'tool', input: {} }, '/p').map((part) =>
      part.type === 'content' ? (part.content as { text: string }).text : part,
    );
  assert.deepEqual(told({ diffs: [{ path: 'a', old_text: null, new_text: 'b' }] }), [
    { type: 'diff', path: '/p/a', oldText: null, newText: 'b' },
  ]);
  assert.deepEqual(told({ stdout: 'out\n', stderr: 'err', exit_code: 1 }, 'exit code 1'), [
    'exit code 1\n\n```\nout\n```\n\n```\nerr\n```',
  ]);
  assert.deepEqual(told({ content: 'has ``` in it' }), ['````\nhas ``` in it\n````']);
  assert.deepEqual(
    told({
      files: [
        { path: 'a', matches: [{ line: 2, text: 'hit' }] },
        { path: 'b', count: 3 },
      ],
    }),
    ['```\na:2: hit\nb: 3\n```'],
  );
  assert.deepEqual(
    told({
      entries: [
        { path: 'src', type: 'directory' },
        { path: 'a', type: 'file' },
      ],
    }),
    ['```\nsrc/\na\n```'],
  );
  assert.deepEqual(told({ count: 3 }), ['```\n{\n  "count": 3\n}\n```']);
  assert.deepEqual(told({ code: 'not_found' }, 'no such file'), ['no such file']);
  assert.deepEqual(told(null), []);
});

test('a session that asks a model of ours can choose it, and how much it thinks', () => {
  const list: ModelListResult = {
    providers: ['openai'],
    models: [
      { id: 'a/b', provider: 'openai', label: 'AB', description: '', supportedThinkingLevels: ['LOW', 'HIGH'] },
      { id: 'c', provider: 'openai', label: 'C', description: '' },
    ],
    selected_model: 'c',
    selected_provider: 'openai',
    selected_thinking: 'MEDIUM',
    selected_openrouter_provider: 'any',
  };
  const chosen = (settings: object, models = list) =>
    configOptionsOf({ settings }, models).map(({ id, currentValue }) => [id, currentValue]);
  assert.deepEqual(chosen({}), [
    ['mode', 'ask'],
    ['model', 'openai/c'],
  ]);
  assert.deepEqual(chosen({ model: 'a/b', provider: 'openai', approvals: 'deny' }), [
    ['mode', 'deny'],
    ['model', 'openai/a/b'],
    ['thinking', 'LOW'],
  ]);
  const none = { ...list, models: [], selected_model: '', selected_provider: null };
  assert.deepEqual(chosen({}, none)[1], ['model', 'none']);
  assert.deepEqual(changeOfOption('model', 'openai/a/b', list), { model: 'a/b', provider: 'openai' });
  assert.deepEqual(changeOfOption('thinking', 'HIGH', list), { thinking_level: 'HIGH' });
  assert.throws(() => changeOfOption('model', 'openai/nope', list), { code: 'schema_violation' });
});

test('a prompt is a command only when it begins with one that is offered', () => {
  const offered = commandsOf({
    commands: [
      { name: '/help', description: 'h' },
      { name: '/quit', description: 'q' },
    ],
  });
  assert.deepEqual(offered, [{ name: 'help', description: 'h' }]);
  assert.equal(commandIn('/HELP me', offered), '/HELP me');
  assert.equal(commandIn('/quit', offered), undefined);
  assert.equal(commandIn('/etc/hosts: what is in it?', offered), undefined);
  assert.deepEqual(commandsOf(undefined), []);
  assert.equal(commandOutput({ error: 'no such thing' }), 'no such thing');
  assert.equal(commandOutput({ total: 1, sessions: [{ id: 'x', title: 'one\ntwo' }] }), '- `x`: one');
  assert.equal(commandOutput({ cleared: true }), '```\n{\n  "cleared": true\n}\n```');
  assert.equal(commandOutput(null), 'Done.');
});

test('mentions of what is no file of the session stay as they are, and contents cannot end their own frame', () => {
  const link = (uri: string) => promptOf([{ type: 'resource_link', name: 'n', uri }], '/p').text;
  assert.equal(link('https://example.org/x'), '[@n](https://example.org/x)');
  assert.equal(link('file:///etc/hosts#L3'), '[@n](/etc/hosts#L3)');
  assert.equal(link('file:///p/a.ts#L3:9'), '[@n](a.ts#L3:9)');
  assert.equal(link('file://%zz'), '[@n](file://%zz)');
  const resource = { uri: 'file:///p/a', text: 'x</content>y' };
  assert.match(
    promptOf([{ type: 'resource', resource }], '/p').text,
    /<content-of of="a">\nx<\/content>y\n<\/content-of>$/,
  );
});
