/**
 * From an executor's reply to the result: blocks, repair, answers of a given shape, endings of all kinds.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExecutorOutcome } from '../../../src/fleet/executors/executor.ts';
import { decodeValue } from '../../../src/fleet/messages/decode.ts';
import { block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench, dispatch } from '../support/worker-bench.ts';

const SCHEMA = { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] };
const used = (input: number) => ({ source: 'measured', input }) as const;

test('a reply without its block is asked for once more in the same conversation, without the brief', async (t) => {
  const executor = scriptedExecutor(({ taskId, prompt }) =>
    prompt.startsWith('Do it.')
      ? { text: 'I did it all.', usage: used(100) }
      : { text: block(taskId, { summary: 'Mended.' }), usage: used(10) },
  );
  const { desk, ...rest } = await bench(t, { executor });
  const result = await rest.do(dispatch('t-1', { envelope: { context_id: 'c-1' } }));
  assert.deepEqual([result.status, result.summary, result.conformance], ['done', 'Mended.', 'strict']);
  assert.equal(result.prose, 'I did it all.');
  assert.equal(result.tokens_spent, 110, 'both turns count');
  assert.equal(executor.turns.length, 2);
  assert.equal(executor.turns[1]?.contextId, 'c-1');
  assert.ok(!executor.turns[1]?.prompt.includes('Do it.'));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'repairing');
});

test('a second reply without a block ends it: partial, with the first reply to be read', async (t) => {
  const executor = scriptedExecutor(({ prompt }) => (prompt.startsWith('Do it.') ? 'I did it all.' : 'What block?'));
  const result = await (await bench(t, { executor })).do(dispatch('t-1'));
  assert.deepEqual([result.status, result.conformance, result.prose], ['partial', 'unstructured', 'I did it all.']);
  assert.equal(executor.turns.length, 2);
});

test('no executor is asked again that would not remember, has no tokens left, or was not asked for a block', async (t) => {
  const forgetful = scriptedExecutor(() => 'All done.', { remembers: false });
  assert.equal((await (await bench(t, { executor: forgetful })).do(dispatch('t-1'))).status, 'partial');
  assert.equal(forgetful.turns.length, 1);
  const spender = scriptedExecutor(() => ({ text: 'All done.', usage: used(900) }));
  await (await bench(t, { executor: spender })).do(dispatch('t-1', { token_budget: 1000 }));
  assert.equal(spender.turns.length, 1);
  const talker = scriptedExecutor(() => 'All done.');
  assert.equal(
    (await (await bench(t, { executor: talker })).do(dispatch('t-1', { reply_schema: 'prose' }))).status,
    'done',
  );
  assert.equal(talker.turns.length, 1);
});

test('an answer that fits its schema is handed on; one that does not is asked for once more', async (t) => {
  const executor = scriptedExecutor(({ taskId, prompt }) =>
    block(taskId, { answer: prompt.startsWith('Do it.') ? { count: 'seven' } : { count: 7 } }),
  );
  const result = await (await bench(t, { executor })).do(dispatch('t-1', { answer_schema: SCHEMA }));
  assert.deepEqual([result.status, result.answer], ['done', { count: 7 }]);
  assert.equal(executor.turns.length, 2);
  assert.match(executor.turns[1]?.prompt ?? '', /count/);
});

test('an answer that never fits its schema is partial, with the raw text', async (t) => {
  const executor = scriptedExecutor(({ taskId }) => block(taskId, { answer: { count: 'seven' } }));
  const result = await (await bench(t, { executor })).do(dispatch('t-1', { answer_schema: SCHEMA }));
  assert.equal(result.status, 'partial');
  assert.equal(result.answer, undefined, 'it is not mistaken for what was asked for');
  assert.match(result.next_steps?.[0] ?? '', /count/);
  assert.match(result.prose ?? '', /"seven"/);
});

test('a task that is blocked owes no answer', async (t) => {
  const executor = scriptedExecutor(({ taskId }) =>
    block(taskId, { status: 'blocked', blocked_reason: 'Which branch?' }),
  );
  const result = await (await bench(t, { executor })).do(dispatch('t-1', { answer_schema: SCHEMA }));
  assert.deepEqual([result.status, result.blocked_reason], ['blocked', 'Which branch?']);
  assert.equal(executor.turns.length, 1);
});

const endings: readonly (readonly [name: string, outcome: Partial<ExecutorOutcome>, status: string, says: RegExp])[] = [
  ['nothing at all', { text: '' }, 'error', /^empty output$/],
  ['an exit code and no block', { text: 'oops', exitCode: 2 }, 'error', /^exit code 2: oops/],
  ['its own failure', { text: 'noise', failure: 'not signed in: run login' }, 'error', /^not signed in/],
  ['a refusal', { text: 'no', ending: 'refused' }, 'error', /^executor refused$/],
  ['its own turn limit', { text: 'so far', ending: 'limit' }, 'partial', /turn limit/],
  ['a stop without a cancel', { text: 'so far', ending: 'stopped' }, 'error', /was stopped/],
  ['a promise for later', { text: 'will do [queued]' }, 'partial', /put the task off/],
  ['being busy', { text: '[busy] later' }, 'blocked', /^busy: /],
];

for (const [name, outcome, status, says] of endings) {
  test(`an executor that ends with ${name} is reported as ${status}`, async (t) => {
    const executor = scriptedExecutor(() => ({ usage: used(3), ...outcome }), { remembers: false });
    const result = await (await bench(t, { executor })).do(dispatch('t-1'));
    assert.equal(result.status, status);
    assert.match(result.error_summary ?? result.blocked_reason ?? result.next_steps?.[0] ?? '', says);
    assert.equal(result.tokens_spent, 3);
    assert.ok(decodeValue(result).valid);
  });
}

test('an executor that cannot be run, or throws, is an error and not the end of the worker', async (t) => {
  const executor = scriptedExecutor(({ taskId }) => {
    if (taskId === 't-1') throw new Error('no such program');
    return block(taskId);
  });
  const made = await bench(t, { executor });
  const result = await made.do(dispatch('t-1'));
  assert.deepEqual([result.status, result.error_summary], ['error', 'no such program']);
  assert.equal((await made.do(dispatch('t-2'))).status, 'done');
});

test('facts and warnings of the executor are kept; a model that claims what only the worker can find is not heard', async (t) => {
  const executor = scriptedExecutor(({ taskId }) => ({
    text: block(taskId, { artifacts: { pr: 'https://example.invalid/1', late: 'no', base_commit: 'abc', port: 3 } }),
    facts: { worked_in: '/elsewhere' },
    warnings: ['its output drifted'],
  }));
  const { artifacts } = await (await bench(t, { executor })).do(dispatch('t-1'));
  assert.deepEqual(artifacts, {
    pr: 'https://example.invalid/1',
    port: 3,
    worked_in: '/elsewhere',
    warnings: ['its output drifted'],
  });
});
