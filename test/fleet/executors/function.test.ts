/**
 * The function executor: the return values, errors and stopping of a function.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { fakeContext, taskOf } from './fake-context.ts';

test('a function gets the task and returns a reply, with usage where it knows it', async () => {
  const plain = functionExecutor({ run: ({ prompt }) => prompt.toUpperCase() });
  assert.deepEqual(await plain.start(taskOf('hello'), fakeContext('/')).outcome, {
    text: 'HELLO',
    ending: 'completed',
    exitCode: null,
    usage: { source: 'unknown' },
  });
  const measured = functionExecutor({
    run: async () => ({ text: 'x', usage: { source: 'measured', input: 1, output: 2 }, ending: 'limit' }),
  });
  const outcome = await measured.start(taskOf('hello'), fakeContext('/')).outcome;
  assert.deepEqual([outcome.usage.output, outcome.ending], [2, 'limit']);
});

test('what a function throws is its failure', async () => {
  const executor = functionExecutor({
    run: () => {
      throw new Error('no luck');
    },
  });
  assert.equal((await executor.start(taskOf('x'), fakeContext('/')).outcome).failure, 'no luck');
});

test('a stopped function may hand back what it has, and one that does not listen is not waited for', async (t) => {
  const context = fakeContext('/');
  const listening = functionExecutor({
    run: (_, { signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve('half'), { once: true })),
  });
  const { outcome } = listening.start(taskOf('x'), context);
  context.stop(new Error('cancelled'));
  const half = await outcome;
  assert.deepEqual([half.text, half.ending], ['half', 'stopped']);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const deaf = fakeContext('/');
  const forever = functionExecutor({ run: () => new Promise(() => {}) }).start(taskOf('x'), deaf).outcome;
  deaf.stop(new Error('cancelled'));
  t.mock.timers.tick(2000);
  assert.equal((await forever).failure, 'stopped: cancelled');
});
