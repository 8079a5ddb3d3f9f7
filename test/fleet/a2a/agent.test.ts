/** A worker as an A2A agent, spoken to by the official client. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { type StreamResponse, TaskState } from '@a2a-js/sdk';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { FLEET_EXTENSION } from '../../../src/protocol/fleet.ts';
import { within } from '../../contract/recorder.ts';
import { aDispatch } from '../bus-contract.ts';
import { blocked, ScriptedWorker } from '../support/scripted-worker.ts';
import {
  asTask,
  clientOf,
  dataIn,
  FLEET,
  folder,
  request,
  saying,
  served,
  TOKEN,
  text,
  wordsIn,
} from './agent-stand.ts';

interface RpcError {
  readonly envelopeCode: number;
  readonly message: string;
  readonly errorResponse?: {
    readonly error: { readonly data?: { reason: string; metadata: Record<string, string> }[] };
  };
}

/** Returns the error that a call fails with. */
const errorOf = async (call: Promise<unknown>): Promise<RpcError> => {
  try {
    await call;
  } catch (error) {
    return error as RpcError;
  }
  throw new Error('the call did not fail');
};

test('words are a task, whose reply is the artifact of a completed A2A task', async (context) => {
  const worker = new ScriptedWorker({ resultOf: () => ({ prose: 'Two plus two is four.' }) });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(request({ parts: [text('what is two plus two?')] })));
  assert.equal(task.status?.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(wordsIn(task.artifacts[0]?.parts), 'Two plus two is four.');
  assert.equal(worker.journal.size, 1);
  const [entry] = worker.journal.values();
  assert.deepEqual(
    [entry?.dispatch.brief, entry?.dispatch.envelope.context_id],
    ['what is two plus two?', task.contextId],
  );
  // Nothing of the extension, because the client has not named it.
  assert.equal(task.metadata?.[FLEET_EXTENSION], undefined);
  assert.deepEqual(dataIn(task.artifacts[0]?.parts), []);
  assert.deepEqual(dataIn(task.history.flatMap(({ parts }) => parts)), []);
  const again = await client.getTask({ tenant: '', id: task.id });
  assert.equal(again.status?.state, TaskState.TASK_STATE_COMPLETED);
  const { tasks } = await client.listTasks({
    tenant: '',
    contextId: task.contextId,
    status: 0,
    pageSize: 10,
    pageToken: '',
    statusTimestampAfter: undefined,
    includeArtifacts: true,
  });
  assert.deepEqual(
    tasks.map(({ id }) => id),
    [task.id],
  );
});

test('a dispatch in a data part comes back as a result in a data part, and counts more than the text beside it', async (context) => {
  const worker = new ScriptedWorker({
    resultOf: () => ({ prose: 'Fixed.', conformance: 'strict', next_steps: ['merge'] }),
  });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(
    await client.sendMessage(
      saying(aDispatch('t-1', { envelope: { context_id: 'c-1' } }), { contextId: 'c-1' }),
      FLEET,
    ),
  );
  assert.equal(task.status?.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(task.contextId, 'c-1');
  const [artifact] = task.artifacts;
  assert.equal(artifact?.artifactId, 'task-result');
  const [result] = dataIn(artifact?.parts);
  assert.deepEqual(
    [result?.type, result?.task_id, result?.status, result?.tokens_spent],
    ['TASK_RESULT', 't-1', 'done', 7],
  );
  assert.equal(wordsIn(artifact?.parts), 'Fixed.');
  assert.deepEqual(task.metadata?.[FLEET_EXTENSION], { task_id: 't-1', status: 'done', conformance: 'strict' });
  assert.equal(worker.journal.get('t-1')?.dispatch.brief, 'do it');
});

test('without the extension named, data of a fleet is nothing but data', async (context) => {
  const worker = new ScriptedWorker();
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  await client.sendMessage(saying(aDispatch('t-1')));
  assert.equal(worker.journal.has('t-1'), false);
  assert.deepEqual(
    [...worker.journal.values()].map(({ dispatch }) => dispatch.brief),
    ['see the data'],
  );
});

test('the first message of a context describes the worker, the next ones do not', async (context) => {
  const worker = new ScriptedWorker();
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const announces = async (taskId: string, contextId: string): Promise<unknown[]> => {
    const dispatch = aDispatch(taskId, { envelope: { context_id: contextId } });
    const task = asTask(await client.sendMessage(saying(dispatch, { contextId }), FLEET));
    return dataIn(task.history.flatMap(({ parts }) => parts)).filter(({ type }) => type === 'SESSION_ANNOUNCE');
  };
  const [first] = (await announces('t-1', 'c-1')) as {
    worker: { agent_id: string };
    session: { context_id: string };
  }[];
  assert.deepEqual([first?.worker.agent_id, first?.session.context_id], ['worker-1', 'c-1']);
  assert.equal((await announces('t-2', 'c-1')).length, 0);
  assert.equal((await announces('t-3', 'c-2')).length, 1);
  worker.tell(await worker.announce());
  assert.equal((await announces('t-4', 'c-1')).length, 1);
});

test('the public card says what is spoken, the extended one what the worker is', async (context) => {
  const { address } = await served(context, new ScriptedWorker({ tools: ['browser'] }));
  const card = (await (await fetch(`${address}/.well-known/agent-card.json`)).json()) as Record<string, never>;
  const open = JSON.stringify(card);
  assert.ok(open.includes(FLEET_EXTENSION) && open.includes('"protocol_versions":["2.0"]'));
  assert.ok(!open.includes('browser') && !open.includes('scripted'));
  const client = await clientOf(address);
  const extended = await client.getAgentCard();
  const ours = extended.capabilities?.extensions.find(({ uri }) => uri === FLEET_EXTENSION);
  assert.equal(ours?.required, false);
  assert.deepEqual(ours?.params?.announce?.capabilities.tools, ['browser']);
  assert.ok(extended.skills[0]?.tags.includes('browser'));
});

test('a stream tells of progress as it comes and ends with the end of the task', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const events: StreamResponse[] = [];
  const reading = (async () => {
    for await (const event of client.sendMessageStream(saying(aDispatch('t-1')), FLEET)) events.push(event);
  })();
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  worker.tell(
    fleetMessage('TASK_PROGRESS', { task_id: 't-1', seq: 1, phase: 'running', note: 'reading', percent: 10 }),
  );
  worker.finish('t-1');
  await within(reading, 'the stream to end');
  const kinds = events.map(({ payload }) => payload?.$case);
  assert.deepEqual(kinds, ['task', 'statusUpdate', 'statusUpdate', 'artifactUpdate', 'statusUpdate']);
  const states = events.flatMap(({ payload }) =>
    payload?.$case === 'statusUpdate' || payload?.$case === 'task' ? [payload.value.status?.state] : [],
  );
  assert.deepEqual(states, [
    TaskState.TASK_STATE_SUBMITTED,
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_COMPLETED,
  ]);
  const [, , progress] = events;
  assert.ok(progress?.payload?.$case === 'statusUpdate');
  const { message } = progress.payload.value.status ?? {};
  assert.equal(message?.metadata?.[FLEET_EXTENSION].percent, 10);
  assert.equal(wordsIn(message?.parts), 'running: reading (10 %)');
});

test('a client that lost its stream subscribes again, and what happened meanwhile is kept', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const stream = client.sendMessageStream(saying(aDispatch('t-1')), FLEET);
  const first = (await stream.next()).value as StreamResponse;
  assert.ok(first.payload?.$case === 'task');
  const { id } = first.payload.value;
  await stream.return();
  const question = fleetMessage('TASK_QUESTION', {
    task_id: 't-1',
    question_id: 'q-1',
    kind: 'question',
    title: 'Which one?',
  });
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  worker.tell(question);
  const second = client.resubscribeTask({ tenant: '', id });
  const snapshot = (await second.next()).value as StreamResponse;
  assert.ok(snapshot.payload?.$case === 'task');
  assert.equal(snapshot.payload.value.status?.state, TaskState.TASK_STATE_WORKING);
  assert.deepEqual(dataIn(snapshot.payload.value.status?.message?.parts), [question]);
  worker.finish('t-1');
  const rest: (string | undefined)[] = [];
  for await (const { payload } of second) rest.push(payload?.$case);
  assert.deepEqual(rest, ['artifactUpdate', 'statusUpdate']);
  // Also without any listener, the end is stored.
  const ended = await client.getTask({ tenant: '', id });
  assert.equal(ended.status?.state, TaskState.TASK_STATE_COMPLETED);
  await assert.rejects(client.resubscribeTask({ tenant: '', id }).next(), /terminal state/);
});

test('a client that waits for nothing gets the task at once and finds its end later', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(request({ parts: [text('do it')], returnImmediately: true })));
  assert.ok([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status?.state as TaskState));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  worker.finish(worker.begun[0] as string, { prose: 'Done.' });
  await worker.until(() => worker.outbox.length === 0, 'the result to be stored');
  const ended = await client.getTask({ tenant: '', id: task.id });
  assert.deepEqual(
    [ended.status?.state, wordsIn(ended.artifacts[0]?.parts)],
    [TaskState.TASK_STATE_COMPLETED, 'Done.'],
  );
});

test('a cancelled task ends as cancelled and shows what was done by then', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(saying(aDispatch('t-1'), { returnImmediately: true }), FLEET));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const canceled = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
  assert.equal(canceled.status?.state, TaskState.TASK_STATE_CANCELED);
  assert.equal(dataIn(canceled.artifacts[0]?.parts)[0]?.error_summary, 'canceled');
  assert.equal(
    worker.handled.some(({ type }) => type === 'TASK_CANCEL'),
    true,
  );
  const again = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
  assert.equal(again.status?.state, TaskState.TASK_STATE_CANCELED);
});

test('a refused task is rejected with its reason, unfinished work is no success, a failure is a failure', async (context) => {
  const results = {
    refused: { decide: () => ({ kind: 'refused', result: blocked('t-1', 'missing_mcp', false, 'figma') }) as const },
    partial: { resultOf: () => ({ status: 'partial', next_steps: ['test it'], conformance: 'strict' }) as const },
    failed: { resultOf: () => ({ status: 'error', error_summary: 'it broke' }) as const },
  };
  const ask = async (how: keyof typeof results, fleet: boolean) => {
    const { address } = await served(context, new ScriptedWorker(results[how]));
    const client = await clientOf(address);
    const sent = fleet ? saying(aDispatch('t-1')) : request({ parts: [text('do it')] });
    const { status, metadata, artifacts } = asTask(await client.sendMessage(sent, fleet ? FLEET : undefined));
    return {
      state: status?.state,
      words: wordsIn(status?.message?.parts),
      metadata: metadata?.[FLEET_EXTENSION],
      artifacts,
    };
  };
  const refused = await ask('refused', true);
  assert.deepEqual([refused.state, refused.words], [TaskState.TASK_STATE_REJECTED, 'missing_mcp: figma']);
  assert.equal(refused.metadata.status, 'blocked');
  const partial = await ask('partial', true);
  assert.equal(partial.state, TaskState.TASK_STATE_FAILED);
  assert.deepEqual(partial.metadata, { task_id: 't-1', status: 'partial', conformance: 'strict' });
  const failed = await ask('failed', true);
  assert.deepEqual([failed.state, failed.words], [TaskState.TASK_STATE_FAILED, 'it broke']);
  const plain = await ask('partial', false);
  assert.deepEqual([plain.state, plain.metadata], [TaskState.TASK_STATE_FAILED, undefined]);
  assert.match(wordsIn(plain.artifacts[0]?.parts), /Not finished[\s\S]*test it/);
});

for (const [partialState, state] of [
  ['completed', TaskState.TASK_STATE_COMPLETED],
  ['input_required', TaskState.TASK_STATE_INPUT_REQUIRED],
] as const) {
  test(`unfinished work may be shown as ${partialState}`, async (context) => {
    const worker = new ScriptedWorker({ resultOf: () => ({ status: 'partial', next_steps: ['go on'] }) });
    const { address } = await served(context, worker, { partialState });
    const client = await clientOf(address);
    const task = asTask(await client.sendMessage(request({ parts: [text('do it')] })));
    assert.equal(task.status?.state, state);
    if (partialState === 'completed') return;
    const more = asTask(await client.sendMessage(request({ parts: [text('go on')], taskId: task.id })));
    assert.equal(more.id, task.id);
    assert.deepEqual(
      [...worker.journal.values()].map(({ dispatch }) => dispatch.brief),
      ['do it', 'go on'],
    );
  });
}

test('a busy worker answers with an error of its own and starts nothing', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(saying(aDispatch('t-1'), { returnImmediately: true }), FLEET));
  const busy = await errorOf(client.sendMessage(saying(aDispatch('t-1', {}, 2)), FLEET));
  assert.equal(busy.envelopeCode, -31001);
  assert.match(busy.message, /retry after 30 s/);
  const [info] = busy.errorResponse?.error.data ?? [];
  assert.equal(info?.reason, 'FLEET_BUSY');
  assert.deepEqual(info?.metadata, { retry_after_s: '30', busy: 'in_flight', task_id: task.id });
  const streamed = await errorOf(client.sendMessageStream(saying(aDispatch('t-1', {}, 2)), FLEET).next());
  assert.equal(streamed.envelopeCode, -31001);
  assert.deepEqual(worker.begun, ['t-1']);
});

test('a busy worker answers others as upstream does', async (context) => {
  const decide = () => ({ kind: 'busy', retryAfterS: 12, reason: 'context' }) as const;
  const { address } = await served(context, new ScriptedWorker({ decide }));
  const busy = await errorOf((await clientOf(address)).sendMessage(request({ parts: [text('do it')] })));
  assert.equal(busy.envelopeCode, -32001);
  assert.match(busy.message, /retry after 12 s/);
});

test('a busy worker does not call a task that waits for its client unknown', async (context) => {
  let busy = false;
  const worker = new ScriptedWorker({
    resultOf: () => ({ status: 'partial', next_steps: ['go on'] }),
    decide: () => (busy ? { kind: 'busy', retryAfterS: 12, reason: 'context' } : undefined),
  });
  const { address } = await served(context, worker, { partialState: 'input_required' });
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(request({ parts: [text('do it')] })));
  busy = true;
  const refused = await errorOf(client.sendMessage(request({ parts: [text('go on')], taskId: task.id })));
  // -32001 would mean that the task does not exist.
  assert.deepEqual([refused.envelopeCode, /retry after 12 s/.test(refused.message)], [-31001, true]);
});

test('a task that has ended is answered with the same A2A task, however often it is sent', async (context) => {
  const worker = new ScriptedWorker();
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const first = asTask(await client.sendMessage(saying(aDispatch('t-1')), FLEET));
  const again = asTask(await client.sendMessage(saying(aDispatch('t-1', {}, 2)), FLEET));
  assert.deepEqual([again.id, again.status?.state], [first.id, TaskState.TASK_STATE_COMPLETED]);
  const words = request({ parts: [text('do it')], messageId: 'the-same' });
  const one = asTask(await client.sendMessage(words));
  const two = asTask(await client.sendMessage(words));
  assert.equal(two.id, one.id);
  assert.equal(worker.begun.length, 2);
});

test('a task keeps its end over a restart of the agent, and one in the middle gets the end its worker reports', async (context) => {
  const file = join(await folder(context), 'a2a.db');
  const worker = new ScriptedWorker({ byHand: true });
  const agent = await served(context, worker, { file });
  const before = await clientOf(agent.address);
  const send = async (id: string): Promise<string> =>
    asTask(await before.sendMessage(saying(aDispatch(id), { returnImmediately: true }), FLEET)).id;
  const ids = { done: await send('done'), later: await send('later'), lost: await send('lost') };
  await worker.until(() => worker.begun.length === 3, 'the tasks to begin');
  worker.finish('done');
  await worker.until(() => worker.outbox.length === 0, 'the result to be stored');
  await agent.close();
  worker.journal.delete('lost');
  worker.finish('later', { status: 'error', error_summary: 'worker restarted during the task' });
  const { address } = await served(context, worker, { file });
  await worker.until(() => worker.outbox.length === 0, 'the other result to be stored');
  const after = await clientOf(address);
  const stateOf = async (id: string) => (await after.getTask({ tenant: '', id })).status?.state;
  assert.equal(await stateOf(ids.done), TaskState.TASK_STATE_COMPLETED);
  assert.equal(await stateOf(ids.later), TaskState.TASK_STATE_FAILED);
  assert.equal(await stateOf(ids.lost), TaskState.TASK_STATE_FAILED);
});

test('a wrong token gets nothing but the card, and no client sees the tasks of another', async (context) => {
  const worker = new ScriptedWorker();
  const { address } = await served(context, worker);
  const stranger = await clientOf(address, 'wrong');
  await assert.rejects(stranger.sendMessage(request({ parts: [text('do it')] })), /401/);
  assert.equal(worker.journal.size, 0);
  const task = asTask(await (await clientOf(address)).sendMessage(saying(aDispatch('t-1')), FLEET));
  const other = await clientOf(address, 'token-of-another');
  await assert.rejects(other.getTask({ tenant: '', id: task.id }), /not found/i);
  const answer = await other.sendMessage(saying(fleetMessage('TASK_POLL', { task_id: 't-1' })), FLEET);
  assert.ok('parts' in answer);
  assert.equal(dataIn(answer.parts)[0]?.state, 'unknown');
});

test('more words for a task that is worked on reach its executor, where it takes any', async (context) => {
  const worker = new ScriptedWorker({ byHand: true });
  const { address } = await served(context, worker);
  const client = await clientOf(address);
  const task = asTask(await client.sendMessage(request({ parts: [text('do it')], returnImmediately: true })));
  const same = asTask(await client.sendMessage(request({ parts: [text('and test it')], taskId: task.id })));
  assert.equal(same.id, task.id);
  assert.deepEqual(
    worker.handled.map((one) => (one.type === 'TASK_STEER' ? one.text : one.type)),
    ['and test it'],
  );
  const deaf = new ScriptedWorker({ byHand: true, features: ['cancel'] });
  const other = await clientOf((await served(context, deaf)).address);
  const running = asTask(await other.sendMessage(request({ parts: [text('do it')], returnImmediately: true })));
  const refused = await errorOf(other.sendMessage(request({ parts: [text('faster')], taskId: running.id })));
  assert.equal(refused.envelopeCode, -32004);
});

test('what is no request, of no version, or for no task is refused in the words of A2A', async (context) => {
  const worker = new ScriptedWorker();
  const { address } = await served(context, worker);
  const post = async (body: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${address}/a2a`, {
      method: 'POST',
      body,
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Bearer ${TOKEN}`,
        'A2A-Version': '1.0',
        ...headers,
      },
    });
    return ((await answer.json()) as { error: { code: number } }).error.code;
  };
  assert.equal(await post('{'), -32700);
  assert.equal(await post('{"jsonrpc":"2.0","id":1,"id":2}'), -32600);
  const call = (method: string, params: unknown): Promise<number> =>
    post(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));
  for (const params of [{}, [], 'x', 7, null, { '': 1 }, undefined]) {
    assert.equal(await call('tasks/nothing', params), -32601, JSON.stringify(params));
  }
  for (const id of [7, {}, ['nobody'], true]) {
    assert.equal(await call('GetTask', { id }), -32602, JSON.stringify(id));
    assert.equal(await call('CancelTask', { id }), -32602, JSON.stringify(id));
    assert.equal(await call('SubscribeToTask', { id }), -32602, JSON.stringify(id));
  }
  for (const params of [[], 'x', 7, null, { id: 'nobody', historyLength: 'many' }, { id: 'nobody', tenant: 7 }]) {
    assert.equal(await call('GetTask', params), -32602, JSON.stringify(params));
  }
  // The JSON form of A2A's messages allows these.
  assert.equal(await call('GetTask', { id: 'nobody', historyLength: '2', tenant: null }), -32001);
  const message = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'do it' }] };
  for (const wrong of [{ messageId: 7 }, { parts: 'x' }, { parts: [{ text: 7 }] }, { parts: [7] }, { contextId: {} }]) {
    assert.equal(await call('SendMessage', { message: { ...message, ...wrong } }), -32602, JSON.stringify(wrong));
  }
  assert.equal(await call('SendMessage', { message, configuration: { returnImmediately: 'yes' } }), -32602);
  assert.deepEqual(worker.begun, []);
  assert.equal(await post('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"nobody"}}'), -32001);
  assert.equal(
    await post('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}', { 'A2A-Version': '' }),
    -32009,
  );
  const client = await clientOf(address);
  const invalid = asTask(await client.sendMessage(saying(aDispatch('t-1', { brief: '  ' })), FLEET));
  assert.equal(invalid.status?.state, TaskState.TASK_STATE_REJECTED);
});

test('push notifications are refused, as the card says, and no address a client names is called', async (context) => {
  const { address } = await served(context, new ScriptedWorker());
  let called = 0;
  const target = createServer((_request, response) => {
    called += 1;
    response.end();
  });
  await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve));
  context.after(() => target.close());
  const url = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
  const post = async (method: string, params: object) => {
    const answer = await fetch(`${address}/a2a`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${TOKEN}`, 'A2A-Version': '1.0' },
    });
    return (await answer.json()) as {
      readonly error?: { readonly code: number };
      readonly result?: { readonly task?: { readonly id: string; readonly status: { readonly state: string } } };
    };
  };
  const { result } = await post('SendMessage', {
    message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'do it' }] },
    configuration: { taskPushNotificationConfig: { url } },
  });
  assert.equal(result?.task?.status.state, 'TASK_STATE_COMPLETED');
  const set = await post('CreateTaskPushNotificationConfig', { taskId: result?.task?.id, url });
  assert.equal(set.error?.code, -32003);
  assert.equal(called, 0);
});
