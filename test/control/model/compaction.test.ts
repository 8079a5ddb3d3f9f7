/**
 * The fill level of the context, and the compaction of a history that has grown too long for it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CompactionOptions, compactHistory } from '../../../src/control/backends/model/compaction.ts';
import { planCompaction, SUMMARY_HEADING } from '../../../src/control/backends/model/compaction-plan.ts';
import { ContextMeter, contextLimit, itemTokens, textTokens } from '../../../src/control/backends/model/context.ts';
import type { SummaryQuestion } from '../../../src/control/backends/model/summary.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import { fail } from '../../../src/wire/errors.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';

const said = (role: 'user' | 'assistant', text: string, turn = 'turn-0'): HistoryItem => ({ role, turn, text });
const called = (callId: string, turn = 'turn-1'): HistoryItem => ({
  role: 'assistant',
  turn,
  text: '',
  calls: [{ callId, name: 'bash', input: {} }],
});
const returned = (callId: string, output: string, turn = 'turn-1'): HistoryItem => ({
  role: 'tool',
  turn,
  callId,
  name: 'bash',
  ok: true,
  result: { output },
});
const words = (count: number, word = 'word'): string => Array.from({ length: count }, () => word).join(' ');

/** Compacts a history with a model that answers `answers` in turn. */
async function compacted(
  history: readonly HistoryItem[],
  changes: Partial<CompactionOptions> = {},
  answers: readonly (string | Error)[] = ['what happened'],
) {
  const log = new FakeSessionLog({ history: [...history] });
  const questions: SummaryQuestion[] = [];
  const run = () =>
    compactHistory({
      log,
      meter: new ContextMeter(),
      reason: 'manual',
      windowTokens: 200_000,
      turnId: 'turn-1',
      ask: async (question) => {
        questions.push(question);
        const answer = answers[questions.length - 1] ?? answers.at(-1)!;
        if (answer instanceof Error) throw answer;
        return answer;
      },
      now: () => Date.UTC(2026, 0, 2),
      ...changes,
    });
  return { log, questions, run, types: () => log.events.map(({ type }) => type) };
}

test('the estimate is four characters a token after white space is collapsed, 20 a message and 850 an image', () => {
  assert.equal(textTokens('  one \n\n two\t three '), Math.ceil('one two three'.length / 4));
  assert.equal(itemTokens(said('user', 'abcdefgh')), 20 + 2);
  const image = { path: 'a.png', mimeType: 'image/png', dataUrl: 'data:image/png;base64,AAAA', byteSize: 3 };
  assert.equal(itemTokens({ role: 'user', turn: 't', text: '', images: [image, image] }), 20 + 1700);
  assert.equal(itemTokens(returned('a', 'abcdefgh')), 20 + Math.ceil('{"output":"abcdefgh"}'.length / 4));
});

test('the limit is 82 % of the window, and at least 6,000 tokens', () => {
  assert.equal(contextLimit(32_000), 26_240);
  assert.equal(contextLimit(1_000), 6_000);
});

test('an estimate says what it is made of, and an empty conversation takes nothing', () => {
  const meter = new ContextMeter();
  const system = words(100);
  const tools = [{ type: 'function' as const, name: 'bash', description: 'd', inputSchema: { type: 'object' } }];
  meter.fixed('s', { system, tools });
  assert.equal(meter.estimate('s', []).tokens, 0);
  const { tokens, source, breakdown } = meter.estimate('s', [said('user', words(40))]);
  assert.equal(source, 'history');
  assert.equal(breakdown.pinned_tokens, textTokens(system));
  assert.equal(breakdown.conversation_tokens, 20 + 50);
  assert.ok(breakdown.tool_schema_tokens > 10);
  assert.equal(breakdown.provider_overhead_tokens, 0);
  assert.equal(tokens, breakdown.pinned_tokens + 70 + breakdown.tool_schema_tokens);
});

test('what the provider counted replaces the estimate of everything it counted, until the history is replaced', () => {
  const meter = new ContextMeter();
  meter.fixed('s', { system: words(10), tools: [] });
  const history = [said('user', words(40))];
  const used = {
    input_tokens: 900,
    output_tokens: 100,
    reasoning_tokens: 60,
    cached_input_tokens: 0,
    total_tokens: 1000,
  };
  meter.counted('s', history, used);
  const answered = [...history, said('assistant', 'x')];
  assert.deepEqual([meter.estimate('s', answered).tokens, meter.estimate('s', answered).source], [940, 'provider']);
  const next = [...answered, said('user', words(40))];
  const { tokens, breakdown } = meter.estimate('s', next);
  assert.equal(tokens, 940 + 70);
  assert.equal(
    Object.values(breakdown).reduce((sum, part) => sum + part, 0),
    tokens,
    'the parts are the whole',
  );
  assert.equal(meter.estimate('s', [said('user', 'new')]).source, 'history');
});

test('weakness 21: a compaction tells every step with its numbers, then says so to the user', async () => {
  const history = [
    said('user', words(400)),
    said('assistant', words(400)),
    said('user', 'last question'),
    said('assistant', 'last answer'),
  ];
  const { log, run, types } = await compacted(history);
  const result = await run();
  assert.deepEqual(types(), [
    'compaction.started',
    'compaction.anchor_selected',
    'compaction.summary_merged',
    'compaction.completed',
    'session.message.appended',
  ]);
  const [started] = log.of('compaction.started');
  assert.deepEqual(started, {
    reason: 'manual',
    anchor_event_index_before: 0,
    event_count: 4,
    context_window_tokens: 200_000,
  });
  assert.deepEqual(log.of('compaction.anchor_selected'), [
    { reason: 'manual', anchor_event_index_before: 0, anchor_event_index_after: 4, delta_event_count: 4 },
  ]);
  assert.deepEqual(log.of('compaction.summary_merged'), [
    { summary_updated_at: '2026-01-02T00:00:00.000Z', anchor_event_index_after: 4 },
  ]);
  assert.deepEqual(log.of('compaction.completed'), [{ ...result, high_watermark_limit: 164_000 }]);
  assert.equal(result.compressed, true);
  assert.ok(result.estimated_tokens_after < result.estimated_tokens_before);
  assert.equal(result.target_limit, 164_000);
  assert.ok(log.events.every(({ turnId }) => turnId === 'turn-1'));
});

test('between turns the history becomes one message of the assistant, the newest messages quoted in it word for word', async () => {
  const history = [
    said('user', words(400, 'old')),
    said('assistant', words(400, 'old')),
    said('user', 'what now'),
    said('assistant', 'this now'),
  ];
  const { log, run } = await compacted(history);
  await run();
  assert.equal(log.record.history.length, 1);
  const [summary] = log.record.history;
  assert.ok(summary?.role === 'assistant' && summary.turn === '');
  assert.ok(summary.text.startsWith(`${SUMMARY_HEADING}\n\nwhat happened\n\n`));
  assert.ok(summary.text.endsWith('User: what now\n\nAssistant: this now'));
  assert.equal(
    log.record.messages.length,
    1,
    'the messages a user sees are not touched, but for the line that says so',
  );
});

test('a later compaction merges the summary that is there and counts on', async () => {
  const { log, run } = await compacted([said('user', 'one'), said('assistant', 'two')]);
  await run();
  log.remember([said('user', 'three'), said('assistant', 'four')]);
  const questions: string[] = [];
  const result = await compactHistory({
    log,
    meter: new ContextMeter(),
    reason: 'provider_switch',
    windowTokens: 200_000,
    turnId: undefined,
    ask: async ({ text }) => {
      questions.push(text);
      return `${SUMMARY_HEADING}\n\nall of it`;
    },
    now: Date.now,
  });
  assert.match(questions[0]!, /<summary_so_far>\n## Conversation Summary\n\nwhat happened/);
  assert.match(questions[0]!, /User: three/);
  assert.doesNotMatch(questions[0]!, /User: one/);
  assert.deepEqual([result.anchor_event_index_before, result.anchor_event_index_after], [2, 4]);
  const [summary] = log.record.history;
  assert.equal(summary?.role === 'assistant' && summary.text.match(/## Conversation Summary/g)?.length, 1);
});

test('auto does nothing below the limit and nothing to an empty session; both say so in numbers', async () => {
  const small = await compacted([said('user', 'hi')], { reason: 'auto' });
  assert.equal((await small.run()).compressed, false);
  assert.deepEqual(small.types(), []);
  const empty = await compacted([], { windowTokens: 32_000 });
  assert.deepEqual(await empty.run(), {
    compressed: false,
    reason: 'manual',
    estimated_tokens_before: 0,
    estimated_tokens_after: 0,
    model_context_window: 32_000,
    target_limit: 26_240,
    anchor_event_index_before: 0,
    anchor_event_index_after: 0,
  });
});

test('auto compresses what has grown over the limit', async () => {
  const history = [said('user', words(20_000)), said('assistant', 'ok')];
  const { run, log } = await compacted(history, { reason: 'auto', windowTokens: 16_000 });
  const result = await run();
  assert.equal(result.compressed, true);
  assert.ok(result.estimated_tokens_before > result.target_limit);
  assert.ok(result.estimated_tokens_after < result.target_limit);
  assert.equal(log.of('compaction.started')[0]?.reason, 'auto');
});

test('a summary that cannot be made is reported and changes nothing', async () => {
  const history = [said('user', 'one'), said('assistant', 'two')];
  const { run, log, types } = await compacted(history, {}, [fail('provider_error', 'no such luck')]);
  await assert.rejects(run(), { code: 'provider_error', message: 'no such luck' });
  assert.deepEqual(types(), ['compaction.started', 'compaction.anchor_selected', 'compaction.failed']);
  assert.deepEqual(log.of('compaction.failed'), [{ reason: 'manual', message: 'no such luck' }]);
  assert.deepEqual(log.record.history, history);
  const empty = await compacted(history, {}, ['   ']);
  await assert.rejects(empty.run(), { code: 'provider_error' });
});

test('what is said while a summary is made is kept, and a conversation cleared meanwhile stays cleared', async () => {
  const history = [said('user', 'one'), said('assistant', 'two')];
  const later = said('user', 'three');
  const grown: Awaited<ReturnType<typeof compacted>> = await compacted(history, {
    ask: async () => {
      grown.log.remember([later]);
      return 'sum';
    },
  });
  await grown.run();
  assert.deepEqual(grown.log.record.history.slice(1), [later]);
  const cleared: Awaited<ReturnType<typeof compacted>> = await compacted(history, {
    ask: async () => {
      cleared.log.remember([], 'replace');
      return 'sum';
    },
  });
  await assert.rejects(cleared.run(), { message: 'the conversation was changed while it was summarised' });
  assert.deepEqual(cleared.log.record.history, []);
});

test('in the middle of a turn its prompt and newest rounds stay, calls with their results', async () => {
  const history = [
    said('user', words(4_000)),
    said('assistant', 'done'),
    said('user', 'the task', 'turn-1'),
    called('a'),
    returned('a', words(4_000)),
    called('b'),
    returned('b', 'short'),
  ];
  const { log, run } = await compacted(history, { reason: 'auto', windowTokens: 10_000 });
  const result = await run();
  assert.deepEqual(
    log.record.history.map((item) => [item.role, item.turn]),
    [
      ['assistant', ''],
      ['user', 'turn-1'],
      ['assistant', 'turn-1'],
      ['tool', 'turn-1'],
    ],
  );
  assert.deepEqual(log.record.history.slice(2), history.slice(5));
  assert.equal(result.anchor_event_index_after, 4);
});

test('a result that is too large for the window by itself is cut, not summed up', () => {
  const meter = new ContextMeter();
  const history = [said('user', 'task', 'turn-1'), called('a'), returned('a', words(50_000))];
  const plan = planCompaction(history, {
    turnId: 'turn-1',
    keepTokens: 3_000,
    quoteTokens: 0,
    tokensOf: (items) => meter.tokensOf(items),
  });
  assert.deepEqual(plan?.summarised, []);
  assert.ok(meter.tokensOf(plan.kept) < 3_500, String(meter.tokensOf(plan.kept)));
  assert.match(JSON.stringify(plan.kept[2]), /left out/);
});

test('nothing is planned where nothing could get shorter', () => {
  const options = { turnId: 'turn-1', keepTokens: 3_000, quoteTokens: 0, tokensOf: () => 10 };
  assert.equal(planCompaction([], options), undefined);
  assert.equal(planCompaction([said('user', 'task', 'turn-1')], options), undefined);
});

test('a conversation longer than the window is summed up in pieces, each summary the beginning of the next', async () => {
  const history = Array.from({ length: 6 }, (_, at) => said('user', words(2_000, `part${at}`)));
  const { questions, run } = await compacted(history, { windowTokens: 16_000 }, ['first', 'second', 'third', 'fourth']);
  await run();
  assert.ok(questions.length >= 3, `${questions.length} questions`);
  assert.match(questions[1]!.text, /<summary_so_far>\nfirst\n/);
  for (const { text, maxOutputTokens } of questions) {
    assert.ok(text.length / 4 + maxOutputTokens < 16_000);
  }
});
