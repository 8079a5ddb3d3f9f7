/**
 * The bus to A2A agents beyond the contract: Handfast workers that fail in the middle, and agents that know no fleet.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { TaskState } from '@a2a-js/sdk';
import type { Log } from '../../../src/base/log.ts';
import { a2aBus } from '../../../src/fleet/bus/a2a/orchestrator-bus.ts';
import type { OrchestratorBus } from '../../../src/fleet/bus/peer.ts';
import type { PlainPeerOptions } from '../../../src/fleet/bus/plain/orchestrator-bus.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { within } from '../../contract/recorder.ts';
import { ownPort } from '../../support/own-port.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';
import { folder, served, TOKEN } from './agent-stand.ts';
import { type Doing, type PlainAgent, plainAgent } from './plain-agent.ts';

const structured = { mode: 'structured' } as const;
const inline = { mode: 'inline' } as const;

async function busTo(
  test: TestContext,
  peer: Pick<PlainPeerOptions, 'url'> & Partial<PlainPeerOptions>,
  log: Log = quiet,
): Promise<{ readonly bus: OrchestratorBus; readonly events: PeerRecorder }> {
  const events = new PeerRecorder();
  const bus = a2aBus({
    peers: [{ name: 'agent', ...peer }],
    log,
    healthIntervalMs: 40,
    pollDelay: { firstDelayMs: 5, maxDelayMs: 40 },
  });
  await bus.start(events);
  test.after(() => bus.close());
  return { bus, events };
}

const reachable = async (events: PeerRecorder): Promise<NonNullable<ReturnType<PeerRecorder['peers']['get']>>> => {
  await events.until(() => events.peers.get('agent')?.reachable === true, 'the agent to be found');
  return events.peers.get('agent')!;
};

// Agents that know no fleet.

interface Asked {
  readonly events: PeerRecorder;
  readonly agent: PlainAgent;
}

/** Gives a plain agent one task and waits for its result. */
async function ask(
  test: TestContext,
  doing: Doing,
  how: { streaming?: boolean; mode?: 'inline' | 'plain'; answer?: string } = {},
): Promise<Asked> {
  const agent = await plainAgent(test, doing, { streaming: how.streaming ?? true });
  const { events } = await busTo(test, { url: agent.address });
  const peer = await reachable(events);
  assert.deepEqual([peer.structured, peer.features.has('steer')], [false, false]);
  await peer.send(aDispatch('t-1'), { mode: how.mode ?? 'inline' });
  await events.until(() => events.results('t-1').length + events.of('TASK_QUESTION').length > 0, 'the result');
  const [question] = events.of('TASK_QUESTION');
  if (question !== undefined) {
    const { task_id, question_id } = question;
    const answer = how.answer === undefined ? { allowed: false } : { allowed: true, content: { answer: how.answer } };
    await peer.send(fleetMessage('TASK_ANSWER', { task_id, question_id, ...answer }, { attempt: 1 }), inline);
    await events.until(() => events.results('t-1').length > 0, 'the result');
  }
  return { events, agent };
}

for (const streaming of [true, false]) {
  test(`an agent that knows no fleet does a task, and its words are the result, ${streaming ? 'streamed' : 'asked for'}`, async (context) => {
    const { events, agent } = await ask(
      context,
      async ({ working, artifact, end }) => {
        working('looking around');
        await new Promise((resolve) => setImmediate(resolve));
        artifact('It was a typo; fixed.');
        end(TaskState.TASK_STATE_COMPLETED);
      },
      { streaming },
    );
    const [result] = events.results('t-1');
    assert.deepEqual(
      [result?.status, result?.prose, result?.conformance, result?.tokens_spent, result?.envelope.attempt],
      ['done', 'It was a typo; fixed.', 'unstructured', null, 1],
    );
    const [sent] = agent.heard;
    assert.equal(sent?.messageId, 't-1#1');
    assert.match(JSON.stringify(sent?.parts), /TASK DISPATCH \(inline\).*task_id: t-1/);
    assert.equal(sent?.parts.length, 1);
    // The extension is named to no peer that has not declared it.
    assert.ok(agent.headers.every((headers) => headers['a2a-extensions'] === undefined));
  });
}

test('a block in the words of any agent is its result, and what it says it has spent is a claim', async (context) => {
  const block = {
    type: 'TASK_RESULT',
    protocol_version: '2.0',
    task_id: 't-1',
    status: 'partial',
    next_steps: ['test'],
    tokens_spent: 50,
  };
  const { events } = await ask(context, ({ artifact, end }) => {
    artifact(`Half of it.\n\n\`\`\`json\n${JSON.stringify(block)}\n\`\`\``);
    end(TaskState.TASK_STATE_COMPLETED);
  });
  const [result] = events.results('t-1');
  assert.deepEqual(
    [result?.status, result?.next_steps, result?.prose, result?.usage?.source],
    ['partial', ['test'], 'Half of it.', 'claimed'],
  );
});

test('a bare message is read as the reply it is', async (context) => {
  const { events } = await ask(context, ({ message }) => message('Four.'), { mode: 'plain' });
  assert.deepEqual([events.results('t-1')[0]?.status, events.results('t-1')[0]?.prose], ['done', 'Four.']);
  const { events: more } = await ask(context, ({ message }) => message('Four.'));
  // A result was asked for and none came: an operator has to look.
  assert.equal(more.results('t-1')[0]?.status, 'partial');
});

for (const [state, words, expected] of [
  [TaskState.TASK_STATE_FAILED, 'out of memory', ['error', 'out of memory', undefined]],
  [TaskState.TASK_STATE_REJECTED, 'not my trade', ['blocked', 'not my trade', 'unknown']],
  [TaskState.TASK_STATE_CANCELED, 'as you wish', ['error', 'canceled', undefined]],
  [
    TaskState.TASK_STATE_INPUT_REQUIRED,
    'Which branch?',
    ['blocked', 'input_required: Which branch?', 'input_required'],
  ],
  [TaskState.TASK_STATE_AUTH_REQUIRED, 'sign in first', ['blocked', 'auth_required: sign in first', 'auth_required']],
] as const) {
  test(`${TaskState[state]} of an agent that knows no fleet is ${expected[0]}`, async (context) => {
    const { events } = await ask(context, ({ working, end }) => {
      working();
      end(state, words);
    });
    const [result] = events.results('t-1');
    const reason = result?.error_summary ?? result?.blocked_reason;
    assert.deepEqual([result?.status, reason, result?.blocked?.code], expected);
  });
}

for (const streaming of [true, false]) {
  test(`an agent that asks is answered in its task, and ends it, ${streaming ? 'streamed' : 'asked for'}`, async (context) => {
    const { events, agent } = await ask(
      context,
      ({ words, request, working, artifact, end }) => {
        if (request.task === undefined) {
          working();
          return end(TaskState.TASK_STATE_INPUT_REQUIRED, 'Which branch?');
        }
        working('going on');
        artifact(`On ${words}.`);
        end(TaskState.TASK_STATE_COMPLETED);
      },
      { streaming, answer: 'main' },
    );
    const [question] = events.of('TASK_QUESTION');
    assert.deepEqual([question?.kind, question?.title, question?.envelope?.attempt], ['question', 'Which branch?', 1]);
    assert.deepEqual(question?.schema?.required, ['answer']);
    assert.deepEqual([events.results('t-1')[0]?.status, events.results('t-1')[0]?.prose], ['done', 'On main.']);
    assert.deepEqual([agent.heard.length, agent.heard[1]?.taskId], [2, agent.heard[0]?.taskId]);
    assert.equal(events.of('TASK_QUESTION').length, 1);
  });
}

test('a cancel of a task that waits for an answer ends it', async (context) => {
  const agent = await plainAgent(context, async ({ working, end, canceled }) => {
    working();
    end(TaskState.TASK_STATE_INPUT_REQUIRED, 'Which branch?');
    await canceled;
    end(TaskState.TASK_STATE_CANCELED);
  });
  const { events } = await busTo(context, { url: agent.address });
  const peer = await reachable(events);
  await peer.send(aDispatch('t-1'), inline);
  await events.until(() => events.of('TASK_QUESTION').length > 0, 'the question');
  const running = (): number => events.of('TASK_ACK').filter(({ state }) => state === 'running').length;
  const before = running();
  await peer.send(fleetMessage('TASK_POLL', { task_id: 't-1' }, { attempt: 1 }), inline);
  await events.until(() => running() > before, 'the lease to be renewed while it asks');
  await peer.send(fleetMessage('TASK_CANCEL', { task_id: 't-1' }, { attempt: 1 }), inline);
  await events.until(() => events.results('t-1').length > 0, 'the end');
  assert.equal(events.results('t-1')[0]?.error_summary, 'canceled');
});

test('a task of an agent that knows no fleet is polled and cancelled in the words of A2A', async (context) => {
  const agent = await plainAgent(context, async ({ working, end, canceled }) => {
    working();
    await canceled;
    end(TaskState.TASK_STATE_CANCELED);
  });
  const { events } = await busTo(context, { url: agent.address });
  const peer = await reachable(events);
  await peer.send(aDispatch('t-1'), inline);
  assert.equal(events.of('TASK_ACK')[0]?.state, 'accepted');
  const running = (): number => events.of('TASK_ACK').filter(({ state }) => state === 'running').length;
  await events.until(() => running() === 1, 'the agent to work');
  await peer.send(fleetMessage('TASK_POLL', { task_id: 't-1' }, { attempt: 1 }), inline);
  await events.until(() => running() === 2, 'the poll to be answered');
  await peer.send(fleetMessage('TASK_CANCEL', { task_id: 't-1' }, { attempt: 1 }), inline);
  await events.until(() => events.results('t-1').length > 0, 'the end');
  assert.equal(events.results('t-1')[0]?.error_summary, 'canceled');
});

test('an orchestrator that was started again finds the task it had sent', async (context) => {
  const go = Promise.withResolvers<void>();
  const agent = await plainAgent(context, async ({ working, artifact, end }) => {
    working();
    await go.promise;
    artifact('Done after all.');
    end(TaskState.TASK_STATE_COMPLETED);
  });
  const first = await busTo(context, { url: agent.address });
  await (await reachable(first.events)).send(aDispatch('t-1', {}, 2), inline);
  await first.bus.close();
  const { events } = await busTo(context, { url: agent.address });
  await (await reachable(events)).send(fleetMessage('TASK_POLL', { task_id: 't-1' }, { attempt: 2 }), inline);
  await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'running'), 'the poll to be answered');
  go.resolve();
  await events.until(() => events.results('t-1').length > 0, 'the result');
  assert.deepEqual(
    [events.results('t-1')[0]?.prose, events.results('t-1')[0]?.envelope.attempt],
    ['Done after all.', 2],
  );
});

test('an agent that has forgotten a task says so, and its lease need not run out', async (context) => {
  const at: Doing = async ({ working, canceled }) => {
    working();
    await canceled;
  };
  const agent = await plainAgent(context, at, { streaming: false, port: await ownPort() });
  const { events } = await busTo(context, { url: agent.address });
  const peer = await reachable(events);
  await peer.send(aDispatch('t-1'), inline);
  await agent.close();
  await events.until(() => events.comings.some((one) => one.startsWith('left agent')), 'the agent to be missed');
  await plainAgent(context, at, { port: agent.port });
  await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'unknown'), 'the task to be missed');
});

// Handfast workers.

test('a token that was replaced is read again; a wrong one makes the agent unreachable', async (context) => {
  const { address } = await served(context, new ScriptedWorker());
  const tokens = ['old', TOKEN];
  const { events } = await busTo(context, {
    url: address,
    token: () => (tokens.length > 1 ? tokens.shift() : tokens[0]),
  });
  const peer = await reachable(events);
  await peer.send(aDispatch('t-1'), structured);
  await events.until(() => events.results('t-1').length === 1, 'the result');

  const refusals: string[] = [];
  const refused = Promise.withResolvers<void>();
  const wrong = await busTo(
    context,
    { url: address, token: () => 'wrong' },
    {
      ...quiet,
      error(message) {
        refusals.push(message);
        refused.resolve();
      },
    },
  );
  await within(refused.promise, 'the refusal');
  assert.deepEqual(refusals, ['peer refuses the token']);
  const other = wrong.events.peers.get('agent')!;
  await assert.rejects(
    other.send(aDispatch('t-2'), structured),
    (error: HandfastError) => error.code === 'unreachable',
  );
  assert.equal(other.reachable, false);
  assert.equal(wrong.events.of('SESSION_ANNOUNCE').length, 0);
});

test('a plain agent that refuses the token fails the dispatch as unauthorized', async (context) => {
  const agent = await plainAgent(context, ({ message }) => message('hello'), { token: 'right' });
  const { events } = await busTo(context, { url: agent.address, token: () => 'wrong' });
  const peer = await reachable(events);
  await assert.rejects(peer.send(aDispatch('t-1'), inline), (error: HandfastError) => error.code === 'unauthorized');
  assert.equal(agent.heard.length, 0);
});

test('an agent killed in the middle of a task is missed, and its end is reported when it is back', async (context) => {
  const file = join(await folder(context), 'a2a.db');
  const worker = new ScriptedWorker({ byHand: true });
  const agent = await served(context, worker, { file, port: await ownPort() });
  const { events } = await busTo(context, { url: agent.address, token: () => TOKEN });
  const peer = await events.peer('agent');
  await peer.send(aDispatch('t-1'), structured);
  await agent.close();
  await events.until(() => events.comings.some((one) => one.startsWith('left agent')), 'the agent to be missed');
  await assert.rejects(peer.send(aDispatch('t-2'), structured), (error: HandfastError) => error.code === 'unreachable');
  worker.finish('t-1', { status: 'error', error_summary: 'worker restarted during the task' });
  await served(context, worker, { file, port: agent.port });
  await events.until(() => events.results('t-1').length > 0, 'the result');
  assert.deepEqual(
    events.results('t-1').map(({ error_summary }) => error_summary),
    ['worker restarted during the task'],
  );
  assert.deepEqual(worker.begun, ['t-1']);
});

test('a poll finds a task again that an earlier orchestrator had sent, and its end is heard', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const first = await busTo(context, { url: address, token: () => TOKEN });
  await (await first.events.peer('agent')).send(aDispatch('t-1', {}, 3), structured);
  await first.bus.close();
  const { events } = await busTo(context, { url: address, token: () => TOKEN });
  await (await events.peer('agent')).send(fleetMessage('TASK_POLL', { task_id: 't-1' }, { attempt: 3 }), structured);
  await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'running'), 'the poll to be answered');
  worker.finish('t-1');
  await events.until(() => events.results('t-1').length > 0, 'the result');
  assert.equal(events.results('t-1')[0]?.envelope.attempt, 3);
});

test('two peers of one name, and addresses that are none, are refused before anything starts', () => {
  const peers = (...urls: string[]) => urls.map((url) => ({ name: 'a', url }));
  const invalid = (error: HandfastError): boolean => error.code === 'config_invalid';
  assert.throws(() => a2aBus({ peers: peers('http://127.0.0.1:1', 'http://127.0.0.1:2'), log: quiet }), invalid);
  assert.throws(() => a2aBus({ peers: peers('ftp://127.0.0.1'), log: quiet }), invalid);
});
