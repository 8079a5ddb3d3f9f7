/**
 * The executor for remote A2A agents, against agents that know no fleet and a Handfast worker.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { TaskState } from '@a2a-js/sdk';
import type { Executor, ExecutorOutcome } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { extractReply } from '../../../src/fleet/phases/reply.ts';
import { type FakeContextOptions, fakeContext, taskOf } from '../executors/fake-context.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';
import { folder, served, TOKEN } from './agent-stand.ts';
import { type Doing, plainAgent } from './plain-agent.ts';

function executorOf(test: TestContext, url: string, home?: string, token?: string): Executor {
  const executor = makeExecutor(
    { kind: 'a2a', url, ...(token !== undefined && { token: async () => token }) },
    { home, log: quiet },
  );
  test.after(() => executor.stop());
  return executor;
}

async function turn(test: TestContext, doing: Doing, options: FakeContextOptions = {}) {
  const agent = await plainAgent(test, doing);
  const context = fakeContext('/', options);
  const outcome = await executorOf(test, agent.address).start(taskOf('do it'), context).outcome;
  return { outcome, context, agent };
}

const blockOf = ({ text }: ExecutorOutcome) =>
  extractReply({ text, taskId: 't-1', replySchema: 'structured', exitCode: null }).result;

test('the words of a remote agent are the reply, and its progress is reported', async (context) => {
  const {
    outcome,
    context: told,
    agent,
  } = await turn(context, ({ working, artifact, end }) => {
    working('reading');
    artifact('Done.');
    end(TaskState.TASK_STATE_COMPLETED);
  });
  assert.deepEqual(
    [outcome.text, outcome.ending, outcome.exitCode, outcome.usage.source],
    ['Done.', 'completed', null, 'unknown'],
  );
  assert.equal(outcome.failure, undefined);
  assert.deepEqual(
    agent.heard.map(({ contextId }) => contextId),
    ['c-1'],
  );
  assert.ok(told.progressed.every(({ phase }) => phase === 'working'));
});

test('a bare message is the reply too', async (context) => {
  const { outcome } = await turn(context, ({ message }) => message('Hello.'));
  assert.deepEqual([outcome.text, outcome.ending], ['Hello.', 'completed']);
});

test('a failed task is a failure, a rejected one is blocked', async (context) => {
  const { outcome: failed } = await turn(context, ({ working, end }) => {
    working();
    end(TaskState.TASK_STATE_FAILED, 'it broke');
  });
  assert.equal(failed.failure, 'it broke');
  const { outcome: rejected } = await turn(context, ({ working, end }) => {
    working();
    end(TaskState.TASK_STATE_REJECTED, 'not my trade');
  });
  assert.deepEqual([blockOf(rejected)?.status, blockOf(rejected)?.blocked_reason], ['blocked', 'not my trade']);
});

test('an agent that asks is answered by the user, and continues in the same task', async (context) => {
  const asks: Doing = ({ words, request, end, artifact, working }) => {
    if (request.task === undefined) {
      working();
      return end(TaskState.TASK_STATE_INPUT_REQUIRED, 'Which branch?');
    }
    artifact(`On ${words}.`);
    end(TaskState.TASK_STATE_COMPLETED);
  };
  const {
    outcome,
    context: told,
    agent,
  } = await turn(context, asks, {
    answer: () => ({ allowed: true, content: { answer: 'main' } }),
  });
  assert.equal(outcome.text, 'On main.');
  assert.deepEqual(
    told.asked.map(({ kind, title }) => [kind, title]),
    [['question', 'Which branch?']],
  );
  assert.equal(agent.heard[1]?.taskId, agent.heard[0]?.taskId);
  const { outcome: unanswered } = await turn(context, asks);
  assert.deepEqual([blockOf(unanswered)?.status, blockOf(unanswered)?.blocked?.code], ['blocked', 'input_required']);
});

test('a stopped turn cancels the remote task', async (context) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const agent = await plainAgent(context, async ({ working, end, canceled }) => {
    working();
    await canceled;
    end(TaskState.TASK_STATE_CANCELED, 'stopped by the client');
    resolve();
  });
  const told = fakeContext('/');
  const execution = executorOf(context, agent.address).start(taskOf('do it'), told);
  await told.until(({ progressed }) => progressed.length > 0);
  told.stop(new Error('canceled'));
  const outcome = await execution.outcome;
  await promise;
  assert.equal(outcome.ending, 'stopped');
});

test('a context continues the conversation the agent knows, also after a restart', async (context) => {
  const home = await folder(context);
  const agent = await plainAgent(context, ({ artifact, end }) => {
    artifact('yes');
    end(TaskState.TASK_STATE_COMPLETED);
  });
  const first = executorOf(context, agent.address, home);
  assert.equal(first.hasConversation('c-1'), false);
  await first.start(taskOf('remember'), fakeContext('/')).outcome;
  const second = executorOf(context, agent.address, home);
  assert.equal(second.hasConversation('c-1'), true);
  await second.start(taskOf('recall'), fakeContext('/')).outcome;
  assert.equal(agent.heard[1]?.contextId, agent.heard[0]?.contextId);
});

test('a worker of ours at the other end hands its result and what it has measured over', async (context) => {
  const worker = new ScriptedWorker({
    resultOf: () => ({
      prose: 'Fixed.',
      summary: 'a typo',
      usage: { source: 'measured', input: 9, output: 3 },
      tokens_spent: 12,
    }),
  });
  const { address } = await served(context, worker, { file: join(await folder(context), 'a2a.db') });
  const outcome = await executorOf(context, address, undefined, TOKEN).start(taskOf('do it'), fakeContext('/')).outcome;
  assert.deepEqual(outcome.usage, { source: 'provider', input: 9, output: 3 });
  const extracted = extractReply({ text: outcome.text, taskId: 't-1', replySchema: 'structured', exitCode: null });
  assert.deepEqual(
    [extracted.result?.status, extracted.result?.summary, extracted.prose],
    ['done', 'a typo', 'Fixed.'],
  );
  const busy = new ScriptedWorker({ decide: () => ({ kind: 'busy', retryAfterS: 7, reason: 'context' }) });
  const other = await served(context, busy);
  const refused = await executorOf(context, other.address, undefined, TOKEN).start(taskOf('do it'), fakeContext('/'))
    .outcome;
  assert.deepEqual(
    [blockOf(refused)?.status, blockOf(refused)?.blocked],
    ['blocked', { code: 'busy', retryable: true, retry_after_s: 7 }],
  );
});

test('a probe tells whether the agent is there and takes the token, and begins nothing', async (context) => {
  const { signal } = new AbortController();
  // Its own patience is short, and this machine may be busy.
  context.mock.method(AbortSignal, 'timeout', () => signal);
  const agent = await plainAgent(context, ({ message }) => message('hello'), { token: 'right' });
  const probe = (token?: string) => executorOf(context, agent.address, undefined, token).probe(signal);
  const [right, wrong] = [await probe('right'), await probe('wrong')];
  assert.deepEqual([right.present, right.authenticated], [true, true]);
  assert.deepEqual([wrong.present, wrong.authenticated], [true, false]);
  await agent.close();
  assert.equal((await probe('right')).present, false);
  assert.equal(agent.heard.length, 0);
});
