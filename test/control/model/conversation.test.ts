/**
 * The history as a prompt: after any events in a session, the prompt for a provider is a conversation it accepts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messagesOf } from '../../../src/control/backends/model/conversation.ts';
import type { PromptMessage } from '../../../src/control/backends/model/provider-model.ts';
import { systemPrompt } from '../../../src/control/backends/model/system-prompt.ts';
import { toolNames } from '../../../src/control/backends/model/tool-names.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import type { Image } from '../../../src/protocol/session-types.ts';
import { imageOf } from '../../support/pictures.ts';
import fc from '../../support/properties.ts';
import { offer, user } from './harness.ts';

const options = { provider: 'anthropic', model: 'claude', names: toolNames([]), turnId: 'turn-1' };
const assistant = (text: string, calls: readonly string[] = [], more: object = {}): HistoryItem => ({
  role: 'assistant',
  turn: 'turn-1',
  text,
  ...(calls.length > 0 && { calls: calls.map((callId) => ({ callId, name: 'bash', input: { command: callId } })) }),
  ...more,
});
const result = (callId: string, changes: Partial<Extract<HistoryItem, { role: 'tool' }>> = {}): HistoryItem => ({
  role: 'tool',
  turn: 'turn-1',
  callId,
  name: 'bash',
  ok: true,
  result: { output: callId },
  ...changes,
});
const partTypes = (message: PromptMessage | undefined): string[] =>
  typeof message?.content === 'object' ? message.content.map(({ type }) => type) : [];
const outputs = (messages: readonly PromptMessage[]): unknown[] =>
  messages.flatMap((message) => (message.role === 'tool' ? message.content.map(({ output }) => output) : []));

test('results stand with their calls, in call order, in whichever order they finished', () => {
  const messages = messagesOf([user('x'), assistant('', ['a', 'b']), result('b'), result('a')], options);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool'],
  );
  const tools = messages[2]!.content as readonly { toolCallId: string }[];
  assert.deepEqual(
    tools.map(({ toolCallId }) => toolCallId),
    ['a', 'b'],
  );
});

test('a call without a result is answered as interrupted, a result without a call is left out', () => {
  const messages = messagesOf([user('x'), assistant('', ['a']), result('ghost'), user('go on')], options);
  assert.deepEqual(outputs(messages), [
    { type: 'error-text', value: 'no result: the call was interrupted, it may or may not have taken effect' },
  ]);
});

test('a steer between calls and results does not come between them', () => {
  const messages = messagesOf([user('x'), assistant('', ['a']), user('wait'), result('a')], options);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'user'],
  );
});

test('a failed call says why before what it returned', () => {
  const failed = result('a', { ok: false, error: 'exit code 3', result: { output: 'boom' } });
  const bare = result('b', { ok: false, error: 'not allowed', result: null });
  const messages = messagesOf([user('x'), assistant('', ['a', 'b']), failed, bare], options);
  assert.deepEqual(outputs(messages), [
    { type: 'error-text', value: 'exit code 3\n{"output":"boom"}' },
    { type: 'error-text', value: 'not allowed' },
  ]);
});

test('ids that another provider made are put into letters every provider takes, calls and results alike', () => {
  const messages = messagesOf([user('x'), assistant('', ['functions.bash:0']), result('functions.bash:0')], options);
  const [call] = messages[1]!.content as readonly { toolCallId: string }[];
  const [answered] = messages[2]!.content as readonly { toolCallId: string }[];
  assert.equal(call?.toolCallId, 'functions_bash_0');
  assert.equal(answered?.toolCallId, 'functions_bash_0');
});

test('models of Mistral get ids of nine letters and digits, and no prompt directly behind results', () => {
  const mistral = { ...options, provider: 'compatible', model: 'devstral-small' };
  const history = [
    user('x'),
    assistant('', ['call_abc-1', 'D681PevKs', 'call_abc-1']),
    result('call_abc-1'),
    user('y'),
  ];
  const messages = messagesOf(history, mistral);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'assistant', 'user'],
  );
  const idsOf = (at: number) =>
    (messages[at]!.content as readonly { toolCallId: string }[]).map((each) => each.toolCallId);
  assert.deepEqual(idsOf(1), ['call00001', 'D681PevKs', 'call00003']);
  assert.deepEqual(idsOf(2), idsOf(1));
  const others = messagesOf(history, { ...mistral, model: 'qwen' });
  assert.equal(others.length, 4);
});

test('a conversation that begins with a summary begins with the user, and one in which the model spoke last continues', () => {
  const messages = messagesOf([assistant('## Conversation Summary\n\nfoo')], options);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'user'],
  );
});

test('what a provider kept goes back to the model it came from and to no other', () => {
  const providerData = {
    provider: 'anthropic',
    model: 'claude',
    parts: [
      { kind: 'reasoning', start: 0, end: 4, fields: { anthropic: { signature: 's1' } } },
      { kind: 'text', start: 0, end: 2 },
      { kind: 'call' },
      { kind: 'reasoning', start: 6, end: 10, fields: { anthropic: { signature: 's2' } } },
      { kind: 'text', start: 2, end: 4 },
    ],
  };
  const item = assistant('abcd', ['c1'], { reasoning: 'one.\n\ntwo!', providerData });
  const [, same] = messagesOf([user('x'), item, result('c1')], options);
  assert.deepEqual(same?.content, [
    { type: 'reasoning', text: 'one.', providerOptions: { anthropic: { signature: 's1' } } },
    { type: 'text', text: 'ab' },
    { type: 'tool-call', toolCallId: 'c1', toolName: 'bash', input: { command: 'c1' } },
    { type: 'reasoning', text: 'two!', providerOptions: { anthropic: { signature: 's2' } } },
    { type: 'text', text: 'cd' },
  ]);
  const [, other] = messagesOf([user('x'), item, result('c1')], { ...options, model: 'another' });
  assert.deepEqual(partTypes(other), ['text', 'tool-call']);
});

test('unsigned reasoning goes back within its turn and not after it', () => {
  const providerData = {
    provider: 'compatible',
    model: 'claude',
    parts: [{ kind: 'reasoning', start: 0, end: 1 }, { kind: 'call' }],
  };
  const item = assistant('', ['c1'], { reasoning: 'r', providerData });
  const compatible = { ...options, provider: 'compatible' };
  const within = messagesOf([user('x'), item, result('c1')], compatible);
  assert.equal(partTypes(within[1])[0], 'reasoning');
  const later = messagesOf([user('x'), item, result('c1'), user('y')], { ...compatible, turnId: 'turn-2' });
  assert.equal(partTypes(later[1])[0], 'tool-call');
  // Anthropic refuses thinking without its signature, also within the turn.
  const unsigned = { ...item, providerData: { ...providerData, provider: 'anthropic' } };
  assert.equal(partTypes(messagesOf([user('x'), unsigned, result('c1')], options)[1])[0], 'tool-call');
});

test('provider data that does not fit its message is not used', () => {
  const providerData = { provider: 'anthropic', model: 'claude', parts: [{ kind: 'text', start: 0, end: 99 }] };
  const [, message] = messagesOf([user('x'), assistant('ab', [], { providerData }), user('y')], options);
  assert.deepEqual(message?.content, [{ type: 'text', text: 'ab' }]);
});

test('weakness 10: what tools did in earlier turns is part of what the model is given', () => {
  const earlier: HistoryItem[] = [
    { role: 'user', turn: 'turn-0', text: 'look' },
    { ...assistant('I look.', ['c1']), turn: 'turn-0' } as HistoryItem,
    result('c1', { turn: 'turn-0', result: { output: 'FOUND-IT' } }),
    { ...assistant('Done.'), turn: 'turn-0' } as HistoryItem,
  ];
  assert.match(JSON.stringify(messagesOf([...earlier, user('and?')], options)), /FOUND-IT/);
});

test('weakness 11: calls and results of a prompt are paired by id even when a provider uses its ids again', () => {
  const history = [
    user('x'),
    assistant('', ['call_0']),
    result('call_0', { result: 'first' }),
    assistant('', ['call_0']),
    result('call_0', { result: 'second' }),
  ];
  const messages = messagesOf(history, options);
  const ids = messages.flatMap((message) =>
    message.role === 'tool' ? message.content.map(({ toolCallId, output }) => [toolCallId, output.value]) : [],
  );
  assert.deepEqual(ids, [
    ['call_0', 'first'],
    ['call_0_2', 'second'],
  ]);
});

test('many calls of one id, and many tools of one name, are each looked up a few times', (t) => {
  const looks = [t.mock.method(Set.prototype, 'has'), t.mock.method(Map.prototype, 'has')];
  const ids = Array.from({ length: 1_000 }, () => 'x'.repeat(64));
  const messages = messagesOf([user('x'), assistant('', ids)], options);
  const [{ content }] = messages.filter(({ role }) => role === 'assistant') as [PromptMessage];
  const given = (content as readonly { toolCallId: string }[]).map(({ toolCallId }) => toolCallId);
  const names = toolNames(Array.from({ length: 1_000 }, (_, at) => offer('.'.repeat(at + 1))));
  const count = looks.reduce((sum, { mock }) => sum + mock.callCount(), 0);
  t.mock.restoreAll();
  assert.equal(new Set(given).size, 1_000);
  assert.equal(new Set(names.tools.map(({ name }) => name)).size, 1_000);
  for (const id of given) assert.ok(id.length <= 64, id);
  assert.ok(count < 50_000, `${count} looks`);
});

const ids = fc.constantFrom('a', 'b', 'c.1', 'a_2', '');
const texts = fc.constantFrom('', 'hello', '## Conversation Summary\n\nx');
const items: fc.Arbitrary<HistoryItem> = fc.oneof(
  texts.map(user),
  fc.record({ text: texts, calls: fc.array(ids, { maxLength: 3 }) }).map(({ text, calls }) => assistant(text, calls)),
  ids.map((id) => result(id)),
);

test('any history at all becomes a prompt that providers accept', () => {
  fc.assert(
    fc.property(fc.array(items, { maxLength: 12 }), (history) => {
      const messages = messagesOf(history, options);
      const calls = new Set<string>();
      for (const [at, message] of messages.entries()) {
        assert.ok(message.content.length > 0);
        if (message.role === 'tool') {
          const before = messages[at - 1];
          assert.equal(before?.role, 'assistant');
          const made = (before.content as readonly { type: string; toolCallId?: string }[]).filter(
            ({ type }) => type === 'tool-call',
          );
          assert.deepEqual(
            message.content.map(({ toolCallId }) => toolCallId),
            made.map(({ toolCallId }) => toolCallId),
          );
        }
        if (message.role === 'assistant') {
          const made = message.content.filter((part) => part.type === 'tool-call');
          if (made.length > 0) assert.equal(messages[at + 1]?.role, 'tool');
          for (const { toolCallId } of made) {
            assert.match(toolCallId, /^[A-Za-z0-9_-]{1,64}$/);
            assert.ok(!calls.has(toolCallId), 'ids are unique in a prompt');
            calls.add(toolCallId);
          }
          for (const part of message.content) if (part.type === 'text') assert.notEqual(part.text, '');
        }
      }
      if (messages.length > 0) {
        assert.equal(messages[0]?.role, 'user');
        assert.notEqual(messages.at(-1)?.role, 'assistant');
      }
    }),
  );
});

test('images of earlier turns, those of tools included, have 8 MiB at most, and older ones are not read', () => {
  const reads = [0, 0, 0, 0];
  const images = reads.map((_, at): Image => {
    const { dataUrl, ...facts } = imageOf('png', { bytes: 3 * 1024 * 1024 });
    const image = {
      ...facts,
      path: `${at}.png`,
      get dataUrl() {
        reads[at]! += 1;
        return dataUrl;
      },
    };
    return image;
  });
  const leftOut: string[] = [];
  const messages = messagesOf(
    [
      { ...user('x'), turn: 'turn-0', images: images.slice(0, 2) } as HistoryItem,
      assistant('', ['a'], { turn: 'turn-0' }),
      result('a', { turn: 'turn-0', images: images.slice(2) }),
      user('y'),
    ],
    { ...options, onLeftOut: ({ path }, reason) => leftOut.push(`${path}: ${reason}`) },
  );
  const reason = 'the images of earlier turns are too large for one request';
  assert.deepEqual(leftOut, [`0.png: ${reason}`, `1.png: ${reason}`]);
  assert.equal(JSON.stringify(messages).split('"file"').length, 3);
  assert.equal(reads[0], 0);
});

test('tool names are put into letters every provider accepts, stay distinct, and are found again', () => {
  const long = 'x'.repeat(80);
  const offers = ['a.b', 'a/b', 'a_b', long, `${long}y`, '9lives'].map(offer);
  const names = toolNames(offers);
  const given = names.tools.map(({ name }) => name);
  assert.equal(new Set(given).size, offers.length);
  for (const name of given) assert.match(name, /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/);
  for (const { name } of offers) assert.equal(names.fromProvider(names.toProvider(name)), name);
  assert.equal(names.toProvider('a_b'), 'a_b');
  assert.equal(names.fromProvider('nobody'), 'nobody');
});

test('the system prompt says where the model is, that calls may be refused, and what was added to it', () => {
  const facts = { cwd: '/project', now: Date.UTC(2026, 2, 1), hasTools: true, added: '# Skill: x' };
  const prompt = systemPrompt(facts);
  assert.match(prompt, /\/project/);
  assert.match(prompt, /2026-03-01/);
  assert.match(prompt, /approval/);
  assert.ok(prompt.endsWith('# Skill: x'));
  assert.match(systemPrompt({ ...facts, hasTools: false }), /no tools/);
});
