/** A worker that asks: its question waits for a client of plain A2A, which answers it with the next message of the task. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type StreamResponse, type Task, TaskState } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import type { TaskQuestion } from '../../../src/protocol/fleet.ts';
import { within } from '../../contract/recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';
import { asTask, clientOf, data, dataIn, folder, request, served, text, wordsIn } from './agent-stand.ts';

const COLOUR = {
  type: 'object',
  properties: { colour: { type: 'string', enum: ['red', 'blue'] } },
  required: ['colour'],
};

const question = (taskId: string, more: Partial<Omit<TaskQuestion, 'type'>> = {}): TaskQuestion =>
  fleetMessage('TASK_QUESTION', {
    task_id: taskId,
    question_id: 'q-1',
    kind: 'question',
    title: 'Which colour?',
    schema: COLOUR,
    ...more,
  });

const stateOf = async (client: Client, id: string): Promise<TaskState | undefined> =>
  (await client.getTask({ tenant: '', id })).status?.state;

/** Returns the error that a call fails with. */
async function refusal(call: Promise<unknown>): Promise<{ readonly code: number; readonly message: string }> {
  try {
    await call;
  } catch (error) {
    const { envelopeCode, message } = error as { readonly envelopeCode: number; readonly message: string };
    return { code: envelopeCode, message };
  }
  throw new Error('the call did not fail');
}

interface Asking {
  readonly worker: ScriptedWorker;
  readonly client: Client;
  readonly address: string;
  /** The task as the client got it. */
  readonly task: Task;
  /** Of the fleet. */
  readonly taskId: string;
}

/** Sends a task whose worker asks, with the client waiting for its end. */
async function asking(
  context: TestContext,
  more: Partial<Omit<TaskQuestion, 'type'>> = {},
  file?: string,
): Promise<Asking> {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker, file === undefined ? {} : { file });
  const client = await clientOf(address);
  const sent = client.sendMessage(request({ parts: [text('paint it')], messageId: 'first' }));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const [taskId] = worker.begun as [string];
  worker.tell(question(taskId, more));
  const task = asTask(await within(sent, 'the question to end the call'));
  return { worker, client, address, task, taskId };
}

const answersOf = (worker: ScriptedWorker): object[] =>
  worker.handled.flatMap((one) =>
    one.type === 'TASK_ANSWER' ? [{ id: one.question_id, allowed: one.allowed, content: one.content }] : [],
  );

test('a question makes the task wait for its client, which sees the question, its choices and its schema', async (context) => {
  const { task, client } = await asking(context);
  assert.equal(task.status?.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  assert.match(wordsIn(task.status?.message?.parts), /^Which colour\?\n.*one of red, blue/s);
  const [shown] = dataIn(task.status?.message?.parts);
  assert.deepEqual(
    [shown?.question_id, shown?.kind, shown?.title, shown?.choices, shown?.schema],
    ['q-1', 'question', 'Which colour?', ['red', 'blue'], COLOUR],
  );
  assert.equal(await stateOf(client, task.id), TaskState.TASK_STATE_INPUT_REQUIRED);
});

test('the next message of the client answers, and the same task continues to its end', async (context) => {
  const { worker, client, task, taskId } = await asking(context);
  const sent = client.sendMessage(request({ parts: [text('Blue')], taskId: task.id, messageId: 'second' }));
  await worker.until(() => answersOf(worker).length === 1, 'the answer');
  assert.deepEqual(answersOf(worker), [{ id: 'q-1', allowed: true, content: { colour: 'blue' } }]);
  worker.finish(taskId, { prose: 'Painted it blue.' });
  const ended = asTask(await within(sent, 'the end'));
  assert.deepEqual(
    [ended.id, ended.status?.state, wordsIn(ended.artifacts[0]?.parts)],
    [task.id, TaskState.TASK_STATE_COMPLETED, 'Painted it blue.'],
  );
  const said = ended.history.map(({ parts }) => wordsIn(parts).split('\n')[0]);
  assert.deepEqual(said, ['paint it', 'Which colour?', 'Blue']);
  // The client did not receive the response, and sends its answer again.
  const again = asTask(
    await client.sendMessage(request({ parts: [text('Blue')], taskId: task.id, messageId: 'second' })),
  );
  assert.equal(again.status?.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(answersOf(worker).length, 1);
});

test('an answer may be data or JSON in the text', async (context) => {
  const schema = {
    type: 'object',
    properties: { colour: { type: 'string' }, coats: { type: 'integer' } },
    required: ['colour', 'coats'],
  };
  for (const part of [data({ colour: 'red', coats: 2 }), text('{"colour": "red", "coats": 2}')]) {
    const { worker, client, task } = await asking(context, { schema });
    await client.sendMessage(request({ parts: [part], taskId: task.id, returnImmediately: true }));
    await worker.until(() => answersOf(worker).length === 1, 'the answer');
    assert.deepEqual(answersOf(worker), [{ id: 'q-1', allowed: true, content: { colour: 'red', coats: 2 } }]);
  }
});

test('a wrong answer is refused with what is wrong, and the task waits for another', async (context) => {
  const { worker, client, task } = await asking(context);
  const answer = (...parts: Parameters<typeof request>[0]['parts']) =>
    client.sendMessage(request({ parts, taskId: task.id }));
  const green = await refusal(answer(text('green')));
  assert.equal(green.code, -32602);
  assert.match(green.message, /the answer was not accepted: answer\/colour .*red, blue/);
  assert.equal((await refusal(answer(data({ color: 'red' })))).code, -32602);
  assert.equal((await refusal(answer(text('  ')))).code, -32602);
  const streamed = await refusal(client.sendMessageStream(request({ parts: [text('green')], taskId: task.id })).next());
  assert.equal(streamed.code, -32602);
  assert.deepEqual(answersOf(worker), []);
  const still = await client.getTask({ tenant: '', id: task.id });
  assert.equal(still.status?.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  assert.equal(dataIn(still.status?.message?.parts)[0]?.question_id, 'q-1');
  // Nothing of a refused message is part of the task.
  assert.equal(still.history.length, 2);
  await client.sendMessage(request({ parts: [text('red')], taskId: task.id, returnImmediately: true }));
  await worker.until(() => answersOf(worker).length === 1, 'the answer');
});

test('permission for a tool is given or refused with a word', async (context) => {
  for (const [words, allowed] of [
    ['yes', true],
    ['No.', false],
    ['deny', false],
  ] as const) {
    const { worker, client, task } = await asking(context, {
      title: 'Run rm?',
      kind: 'tool',
      tool: { name: 'shell', input: { command: 'rm -r build' } },
      risks: ['exec'],
      schema: undefined,
    });
    const shown = wordsIn(task.status?.message?.parts);
    assert.match(shown, /Run rm\?[\s\S]*shell[\s\S]*rm -r build[\s\S]*yes or no/);
    assert.match(
      (await refusal(client.sendMessage(request({ parts: [text('maybe')], taskId: task.id })))).message,
      /yes or no/,
    );
    await client.sendMessage(request({ parts: [text(words)], taskId: task.id, returnImmediately: true }));
    await worker.until(() => answersOf(worker).length === 1, 'the answer');
    assert.deepEqual(answersOf(worker), [{ id: 'q-1', allowed, content: undefined }]);
  }
});

test('a stream ends with the question, and the stream of the answer reaches the end', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const read = async (stream: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> => {
    const events: StreamResponse[] = [];
    for await (const event of stream) events.push(event);
    return events;
  };
  const states = (events: StreamResponse[]): unknown[] =>
    events.flatMap(({ payload }) =>
      payload?.$case === 'statusUpdate' || payload?.$case === 'task' ? [payload.value.status?.state] : [],
    );
  const first = read(client.sendMessageStream(request({ parts: [text('paint it')] })));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const [taskId] = worker.begun as [string];
  worker.tell(question(taskId));
  const before = await within(first, 'the question to end the stream');
  assert.deepEqual(states(before), [
    TaskState.TASK_STATE_SUBMITTED,
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_INPUT_REQUIRED,
  ]);
  const [opening] = before;
  assert.ok(opening?.payload?.$case === 'task');
  const { id } = opening.payload.value;
  const second = read(client.sendMessageStream(request({ parts: [text('red')], taskId: id })));
  await worker.until(() => answersOf(worker).length === 1, 'the answer');
  worker.tell(fleetMessage('TASK_PROGRESS', { task_id: taskId, seq: 2, phase: 'running', note: 'painting' }));
  worker.finish(taskId);
  const after = await within(second, 'the stream to end');
  assert.deepEqual(states(after), [
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_COMPLETED,
  ]);
});

test('several questions are asked one after the other', async (context) => {
  const { worker, client, task, taskId } = await asking(context);
  worker.tell(question(taskId, { question_id: 'q-2', title: 'Which brush?', schema: undefined }));
  // The worker repeats open questions whenever its channel is attached.
  worker.tell(question(taskId));
  const next = asTask(
    await within(client.sendMessage(request({ parts: [text('red')], taskId: task.id })), 'the second question'),
  );
  assert.equal(next.status?.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  assert.match(wordsIn(next.status?.message?.parts), /^Which brush\?/);
  const last = client.sendMessage(request({ parts: [text('yes')], taskId: task.id }));
  await worker.until(() => answersOf(worker).length === 2, 'both answers');
  worker.finish(taskId);
  assert.equal(asTask(await within(last, 'the end')).status?.state, TaskState.TASK_STATE_COMPLETED);
  assert.deepEqual(answersOf(worker), [
    { id: 'q-1', allowed: true, content: { colour: 'red' } },
    { id: 'q-2', allowed: true, content: undefined },
  ]);
});

test('a question that expires leaves the task at work, and an answer that comes too late is refused', async (context) => {
  const { worker, client, task, taskId } = await asking(context, { expires_s: 0.2 });
  const working = async (): Promise<boolean> => (await stateOf(client, task.id)) === TaskState.TASK_STATE_WORKING;
  for (let tries = 0; tries < 200 && !(await working()); tries++) await new Promise((next) => setTimeout(next, 20));
  const shown = await client.getTask({ tenant: '', id: task.id });
  assert.equal(shown.status?.state, TaskState.TASK_STATE_WORKING);
  assert.match(wordsIn(shown.status?.message?.parts), /no answer/i);
  worker.finish(taskId);
  await worker.until(() => worker.outbox.length === 0, 'the result to be stored');
  assert.equal(await stateOf(client, task.id), TaskState.TASK_STATE_COMPLETED);
  const late = await refusal(client.sendMessage(request({ parts: [text('red')], taskId: task.id })));
  assert.equal(late.code, -32004);
  assert.deepEqual(answersOf(worker), []);
});

test('a task that waits for an answer is cancelled as any other', async (context) => {
  const { worker, client, task } = await asking(context);
  const canceled = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
  assert.equal(canceled.status?.state, TaskState.TASK_STATE_CANCELED);
  await worker.until(() => worker.outbox.length === 0, 'the result to be stored');
  assert.equal(await stateOf(client, task.id), TaskState.TASK_STATE_CANCELED);
  assert.ok(worker.handled.some(({ type }) => type === 'TASK_CANCEL'));
});

test('no other client sees the question or answers it', async (context) => {
  const { worker, address, task } = await asking(context);
  const other = await clientOf(address, 'token-of-another');
  await assert.rejects(other.getTask({ tenant: '', id: task.id }), /not found/i);
  await assert.rejects(other.sendMessage(request({ parts: [text('red')], taskId: task.id })), /not found/i);
  assert.deepEqual(answersOf(worker), []);
});

test('a question stays open over a restart of the agent, and its answer reaches the worker', async (context) => {
  const file = join(await folder(context), 'a2a.db');
  const worker = new ScriptedWorker({ byHand: true });
  const agent = await served(context, worker, { file });
  const before = await clientOf(agent.address);
  const sent = before.sendMessage(request({ parts: [text('paint it')] }));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const [taskId] = worker.begun as [string];
  worker.tell(question(taskId));
  const { id } = asTask(await within(sent, 'the question'));
  await agent.close();
  const { address } = await served(context, worker, { file });
  const client = await clientOf(address);
  // As a real worker does when its channel is attached.
  worker.tell(question(taskId));
  assert.equal(await stateOf(client, id), TaskState.TASK_STATE_INPUT_REQUIRED);
  const answered = client.sendMessage(request({ parts: [text('red')], taskId: id }));
  await worker.until(() => answersOf(worker).length === 1, 'the answer');
  worker.finish(taskId, { prose: 'Painted it red.' });
  const ended = asTask(await within(answered, 'the end'));
  assert.equal(ended.status?.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(ended.history.length, 3);
});

test('a task that asked when its worker was lost fails at the restart, instead of waiting for ever', async (context) => {
  const file = join(await folder(context), 'a2a.db');
  const worker = new ScriptedWorker({ byHand: true });
  const agent = await served(context, worker, { file });
  const before = await clientOf(agent.address);
  const sent = before.sendMessage(request({ parts: [text('paint it')] }));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const [taskId] = worker.begun as [string];
  worker.tell(question(taskId));
  const { id } = asTask(await within(sent, 'the question'));
  await agent.close();
  worker.journal.delete(taskId);
  const { address } = await served(context, worker, { file });
  const client = await clientOf(address);
  await worker.until(() => worker.handled.some(({ type }) => type === 'TASK_POLL'), 'the poll');
  for (let tries = 0; tries < 200 && (await stateOf(client, id)) !== TaskState.TASK_STATE_FAILED; tries++)
    await new Promise((next) => setTimeout(next, 20));
  const { status } = await client.getTask({ tenant: '', id });
  assert.equal(status?.state, TaskState.TASK_STATE_FAILED);
  assert.match(wordsIn(status?.message?.parts), /restarted/);
});

test('an executor of a real worker gets the answer of a plain client', async (context) => {
  const home = await folder(context);
  const worker = await createWorker({
    agentId: 'painter',
    executor: functionExecutor({
      async run(_task, { events }) {
        const { allowed, content } = await events.ask({ kind: 'question', title: 'Which colour?', schema: COLOUR });
        return `Painted it ${allowed ? content?.colour : 'nothing'}.`;
      },
    }),
    tools: [],
    cwd: home,
    home: join(home, 'data'),
    log: quiet,
  });
  await worker.start();
  context.after(() => worker.close());
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(request({ parts: [text('paint it')] })));
  assert.equal(task.status?.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  const ended = asTask(await client.sendMessage(request({ parts: [text('blue')], taskId: task.id })));
  assert.deepEqual(
    [ended.status?.state, wordsIn(ended.artifacts[0]?.parts)],
    [TaskState.TASK_STATE_COMPLETED, 'Painted it blue.'],
  );
});
