import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelPart } from '../../../src/control/rounds/round-model.ts';
import { runRounds } from '../../../src/control/rounds/rounds.ts';
import type { ToolDone } from '../../../src/protocol/session-types.ts';
import { fail } from '../../../src/wire/errors.ts';
import { FakeTurn, inShort } from '../support/fake-turn.ts';
import { call, say, scriptedModel, toolboxOf } from '../support/scripted-model.ts';

const ran = (items: FakeTurn['items']) =>
  items.map((item) => {
    if (item.role === 'user') return `user ${item.text}`;
    if (item.role === 'tool') return `tool ${item.callId} ${item.ok ? 'ok' : item.error}`;
    return `assistant ${item.text}${item.calls === undefined ? '' : ` [${item.calls.map(({ callId }) => callId).join(' ')}]`}`;
  });

test('a round speaks, calls, reports and continues with the results, in the order of the protocol', async () => {
  const turn = new FakeTurn();
  const model = scriptedModel(
    [
      { type: 'thought', text: 'let me see' },
      say('Looking. '),
      call('c1', 'look', { at: 'a' }),
      call('c2', 'look', { at: 'b' }),
    ],
    [say('Both are fine.')],
  );
  const toolbox = toolboxOf({ look: ({ input }) => ({ seen: input.at }) });
  assert.deepEqual(await runRounds(turn, model, toolbox), { stopReason: 'end_turn' });
  assert.deepEqual(inShort(turn.deeds), [
    'thought let me see',
    'answer Looking. ',
    'started 1 look c1',
    'done 1 c1 ok',
    'started 1 look c2',
    'done 1 c2 ok',
    'results 1 c1 c2',
    'answer Both are fine.',
  ]);
  assert.deepEqual(turn.deedsOf('started')[0]?.call, {
    name: 'look',
    input: { at: 'a' },
    providerToolName: 'look',
    callId: 'c1',
  });
  assert.deepEqual(turn.deedsOf('started')[0]?.facts, { toolKind: undefined, risks: ['reads'] });
  assert.deepEqual(ran(turn.items), [
    'user do it',
    'assistant Looking.  [c1 c2]',
    'tool c1 ok',
    'tool c2 ok',
    'assistant Both are fine.',
  ]);
  assert.deepEqual(ran(model.requests[1]!.history as FakeTurn['items']), ran(turn.items).slice(0, 4));
  assert.deepEqual(
    model.requests.map(({ round, tools }) => [round, tools.map(({ name }) => name)]),
    [
      [1, ['look']],
      [2, ['look']],
    ],
  );
});

test('weakness 11: every finished call carries the id it was started with', async () => {
  const turn = new FakeTurn();
  const model = scriptedModel([call('c1', 'look'), call('c2', 'nothing')], [say('ok')]);
  await runRounds(turn, model, toolboxOf({ look: () => 1 }));
  const ids = (done: readonly ToolDone[]) => done.map(({ callId, ok }) => [callId, ok]);
  assert.deepEqual(ids(turn.deedsOf('done').map(({ done }) => done)), [
    ['c1', true],
    ['c2', false],
  ]);
  assert.deepEqual(ids(turn.deedsOf('results')[0]!.done), [
    ['c1', true],
    ['c2', false],
  ]);
});

test('a tool that is not offered is a failed call, and the turn continues', async () => {
  const turn = new FakeTurn();
  const model = scriptedModel([call('c', 'no_such_tool')], [say('sorry')]);
  assert.deepEqual(await runRounds(turn, model, toolboxOf({})), { stopReason: 'end_turn' });
  assert.deepEqual(turn.deedsOf('done')[0]?.done, {
    name: 'no_such_tool',
    ok: false,
    input: {},
    result: { callId: 'c', tool: 'no_such_tool', status: 'not_found' },
    error: 'unknown tool: no_such_tool',
    callId: 'c',
  });
  assert.equal(turn.answerText, 'sorry');
});

test('arguments that could not be read are answered and not called with', async () => {
  const turn = new FakeTurn();
  const broken: ModelPart = { type: 'call', callId: 'c', name: 'look', input: {}, invalid: 'not JSON' };
  const toolbox = toolboxOf({ look: () => 1 });
  await runRounds(turn, scriptedModel([broken], [say('ok')]), toolbox);
  assert.deepEqual(toolbox.called, []);
  assert.equal(turn.deedsOf('done')[0]?.done.error, 'invalid arguments: not JSON');
});

test('calls of one round wait for each other by default', async () => {
  const turn = new FakeTurn();
  const log: string[] = [];
  const toolbox = toolboxOf({
    async work({ callId }) {
      log.push(`${callId} begins`);
      await new Promise(setImmediate);
      log.push(`${callId} ends`);
    },
  });
  await runRounds(turn, scriptedModel([call('a', 'work'), call('b', 'work')], [say('ok')]), toolbox);
  assert.deepEqual(log, ['a begins', 'a ends', 'b begins', 'b ends']);
});

test('with parallel tools calls run at once, end in any order, and are reported in call order', async () => {
  const turn = new FakeTurn({ settings: { parallelTools: true } });
  const gate = Promise.withResolvers<void>();
  const toolbox = toolboxOf({
    slow: () => gate.promise.then(() => 'slow'),
    fast: () => {
      queueMicrotask(gate.resolve);
      return 'fast';
    },
  });
  await runRounds(turn, scriptedModel([call('a', 'slow'), call('b', 'fast')], [say('ok')]), toolbox);
  assert.deepEqual(inShort(turn.deeds), [
    'started 1 slow a',
    'started 1 fast b',
    'done 1 b ok',
    'done 1 a ok',
    'results 1 a b',
    'answer ok',
  ]);
});

test('call ids that are missing or used twice are made unique, so that results cannot be mixed up', async () => {
  const turn = new FakeTurn();
  const model = scriptedModel(
    [call('', 'look'), call('x', 'look'), call('x', 'look')],
    [call('x', 'look'), call('', 'look')],
    [say('ok')],
  );
  await runRounds(turn, model, toolboxOf({ look: () => 1 }));
  const ids = turn.deedsOf('done').map(({ done }) => done.callId);
  assert.equal(new Set(ids).size, 5);
  assert.deepEqual(ids, ['call_1_1', 'x', 'x_2', 'x_3', 'call_2_1']);
});

test('many calls of one id are each looked up a few times', async (t) => {
  const looks = t.mock.method(Set.prototype, 'has');
  const calls = Array.from({ length: 1_000 }, () => call('x', 'look'));
  const turn = new FakeTurn();
  await runRounds(turn, scriptedModel(calls, [say('ok')]), toolboxOf({ look: () => 1 }));
  const count = looks.mock.callCount();
  t.mock.restoreAll();
  assert.equal(new Set(turn.deedsOf('done').map(({ done }) => done.callId)).size, 1_000);
  assert.ok(count < 50_000, `${count} looks`);
});

test('weakness 14: a model that never stops calling is stopped after the rounds of the settings', async () => {
  const turn = new FakeTurn({ settings: { maxRounds: 3 } });
  const again = () => [call('c', 'look')];
  const model = scriptedModel(again, again, again, again);
  turn.steer('never taken: no round would see it');
  const stopping = new FakeTurn({ settings: { maxRounds: 1 } });
  stopping.steer('late');
  assert.deepEqual(await runRounds(stopping, scriptedModel(again), toolboxOf({ look: () => 1 })), {
    stopReason: 'max_rounds',
  });
  assert.deepEqual(stopping.deedsOf('steers'), []);
  assert.deepEqual(await runRounds(turn, model, toolboxOf({ look: () => 1 })), { stopReason: 'max_rounds' });
  assert.equal(model.requests.length, 3);
  assert.equal(turn.deedsOf('results').length, 3);
});

test('weakness 14: without a setting, 50 rounds are the most', async () => {
  const turn = new FakeTurn();
  const rounds = Array.from({ length: 60 }, () => () => [call('c', 'look')]);
  const model = scriptedModel(...rounds);
  assert.deepEqual(await runRounds(turn, model, toolboxOf({ look: () => 1 })), { stopReason: 'max_rounds' });
  assert.equal(model.requests.length, 50);
});

test('what is said meanwhile reaches the model between two rounds', async () => {
  const turn = new FakeTurn({
    onDeed: (deed, self) => deed.kind === 'started' && self.steer('go left'),
  });
  const model = scriptedModel([say('starting.'), call('s1', 'look')], [say('went left')]);
  await runRounds(turn, model, toolboxOf({ look: () => 1 }));
  assert.deepEqual(inShort(turn.deeds), [
    'answer starting.',
    'started 1 look s1',
    'done 1 s1 ok',
    'results 1 s1',
    'steers go left',
    'status steer applied; continuing...',
    'answer went left',
  ]);
  assert.deepEqual(ran(model.requests[1]!.history as FakeTurn['items']).at(-1), 'user go left');
});

test('what is said in the last round is not taken: it is reported as late by the session', async () => {
  const turn = new FakeTurn({ onDeed: (deed, self) => deed.kind === 'answer' && self.steer('late') });
  await runRounds(turn, scriptedModel([say('finished')]), toolboxOf({}));
  assert.deepEqual(inShort(turn.deeds), ['answer finished']);
  assert.deepEqual(turn.takeSteers(), ['late']);
});

test('weakness 10: the calls of a round are in the history before the first of them starts, each result before it is reported', async () => {
  const seen: string[][] = [];
  const turn = new FakeTurn({
    onDeed: (deed, self) => (deed.kind === 'started' || deed.kind === 'done') && seen.push(ran(self.items)),
  });
  await runRounds(turn, scriptedModel([call('a', 'look')], [say('ok')]), toolboxOf({ look: () => 1 }));
  assert.deepEqual(seen, [
    ['user do it', 'assistant  [a]'],
    ['user do it', 'assistant  [a]', 'tool a ok'],
  ]);
});

test('an interrupt ends a model that hears nothing; what it had said stays in the history', async () => {
  const turn = new FakeTurn({ onDeed: (deed, self) => deed.kind === 'answer' && self.interrupt() });
  let ended = false;
  const model = scriptedModel(async function* () {
    try {
      yield say('partial');
      await new Promise(() => {});
    } finally {
      ended = true;
    }
  });
  assert.deepEqual(await runRounds(turn, model, toolboxOf({})), { stopReason: 'interrupted' });
  assert.deepEqual(ran(turn.items), ['user do it', 'assistant partial']);
  assert.equal(ended, true);
});

test('an interrupt before the model has said a word leaves no assistant message', async () => {
  const turn = new FakeTurn();
  const waiting = Promise.withResolvers<void>();
  const model = scriptedModel(async function* () {
    waiting.resolve();
    await new Promise(() => {});
    yield say('never');
  });
  const run = runRounds(turn, model, toolboxOf({}));
  await waiting.promise;
  turn.interrupt();
  assert.deepEqual(await run, { stopReason: 'interrupted' });
  assert.deepEqual(ran(turn.items), ['user do it']);
});

test('an interrupt in a tool: its end is reported, later calls of the round are not made, all have a result', async () => {
  const turn = new FakeTurn();
  const toolbox = toolboxOf({
    wait: (_call, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        turn.interrupt();
      }),
  });
  const model = scriptedModel([say('working.'), call('i1', 'wait'), call('i2', 'wait')]);
  assert.deepEqual(await runRounds(turn, model, toolbox), { stopReason: 'interrupted' });
  assert.deepEqual(inShort(turn.deeds), ['answer working.', 'started 1 wait i1', 'done 1 i1 failed', 'results 1 i1']);
  assert.deepEqual(ran(turn.items), [
    'user do it',
    'assistant working. [i1 i2]',
    'tool i1 interrupted by the user',
    'tool i2 not run: the turn was interrupted before',
  ]);
});

test('a provider that fails after some words fails the turn and keeps the words in the history', async () => {
  const turn = new FakeTurn();
  const model = scriptedModel(function* () {
    yield say('half an ans');
    yield call('c', 'look');
    throw fail('provider_error', 'the provider hung up');
  });
  await assert.rejects(runRounds(turn, model, toolboxOf({ look: () => 1 })), { code: 'provider_error' });
  assert.deepEqual(ran(turn.items), ['user do it', 'assistant half an ans']);
});

test('an environment that cannot be reached fails the turn before the model is asked', async () => {
  const turn = new FakeTurn();
  const model = scriptedModel([say('never')]);
  const toolbox = { ...toolboxOf({}), list: () => Promise.reject(fail('unreachable', 'no reply')) };
  await assert.rejects(runRounds(turn, model, toolbox), { code: 'unreachable' });
  assert.equal(model.requests.length, 0);
});

test('an interrupt is not kept waiting by an environment that does not answer', async () => {
  const turn = new FakeTurn();
  const toolbox = { ...toolboxOf({}), list: () => new Promise<never>(() => {}) };
  const run = runRounds(turn, scriptedModel([say('never')]), toolbox);
  turn.interrupt();
  assert.deepEqual(await run, { stopReason: 'interrupted' });
});

test('retries are shown with attempt, delay and reason', async () => {
  const turn = new FakeTurn();
  const retry: ModelPart = { type: 'retry', attempt: 2, maxAttempts: 8, delayMs: 1250.4, reason: 'rate limit' };
  await runRounds(turn, scriptedModel([retry, say('ok')]), toolboxOf({}));
  assert.deepEqual(turn.deeds[0], {
    kind: 'status',
    label: 'capacity unavailable; retrying (2/8)...',
    detail: { retry: { attempt: 2, max_attempts: 8, delay_ms: 1250, reason: 'rate limit' } },
  });
});

test('the end the model gives becomes the stop reason; what it refuses it does not do', async () => {
  const ending = async (reason: 'max_tokens' | 'refusal' | 'other') => {
    const turn = new FakeTurn();
    const toolbox = toolboxOf({ look: () => 1 });
    const parts: ModelPart[] = reason === 'refusal' ? [call('c', 'look')] : [say('so far')];
    const outcome = await runRounds(turn, scriptedModel([...parts, { type: 'finish', reason }]), toolbox);
    assert.deepEqual(toolbox.called, []);
    return outcome.stopReason;
  };
  assert.equal(await ending('max_tokens'), 'max_tokens');
  assert.equal(await ending('refusal'), 'refusal');
  assert.equal(await ending('other'), 'end_turn');
});

test('reasoning and what the provider wants back are kept with the message, usage is passed on', async () => {
  const turn = new FakeTurn();
  const usage = { input_tokens: 5, output_tokens: 2, reasoning_tokens: 1, cached_input_tokens: 0, total_tokens: 7 };
  const model = scriptedModel([
    { type: 'thought', text: 'hm' },
    say('yes'),
    { type: 'usage', usage },
    { type: 'finish', reason: 'stop', providerData: { signature: 's' } },
  ]);
  await runRounds(turn, model, toolboxOf({}), { system: 'be brief' });
  assert.deepEqual(turn.items.at(-1), {
    role: 'assistant',
    turn: 'turn-1',
    text: 'yes',
    reasoning: 'hm',
    providerData: { signature: 's' },
  });
  assert.deepEqual(turn.used, [usage]);
  assert.equal(model.requests[0]?.system, 'be brief');
});

test('a result larger than 64 KiB is cut for the model, the history and the events alike', async () => {
  const turn = new FakeTurn();
  const text = 'x'.repeat(300_000);
  const model = scriptedModel([call('c', 'dump', { note: text })], [say('ok')]);
  await runRounds(turn, model, toolboxOf({ dump: ({ input }) => ({ text, length: (input.note as string).length }) }));
  const done = turn.deedsOf('done')[0]!.done;
  const { text: shown, length } = done.result as { text: string; length: number };
  assert.equal(length, 300_000, 'the tool got the whole argument');
  assert.ok(Buffer.byteLength(JSON.stringify(done.result)) <= 64 * 1024);
  assert.ok(shown.length > 60_000);
  assert.match(shown, /^x+\n\[… \d+ characters left out …\]\nx+$/);
  assert.deepEqual(turn.deedsOf('results')[0]?.done, [done]);
  const remembered = turn.items.find((item) => item.role === 'tool');
  assert.deepEqual(remembered?.result, done.result);
  assert.ok(JSON.stringify(turn.deedsOf('started')[0]?.call).length < 70_000, 'events show cut arguments');
  const assistant = turn.items.find((item) => item.role === 'assistant')!;
  assert.equal((assistant.calls![0]!.input.note as string).length, 300_000);
});

test('a toolbox that throws, against its contract, fails its call and not the turn', async () => {
  const turn = new FakeTurn();
  const toolbox = { ...toolboxOf({ look: () => 1 }), call: () => Promise.reject(new Error('a bug')) };
  await runRounds(turn, scriptedModel([call('c', 'look')], [say('ok')]), toolbox);
  assert.equal(turn.deedsOf('done')[0]?.done.error, 'a bug');
  assert.equal(turn.answerText, 'ok');
});
