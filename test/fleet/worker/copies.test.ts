/**
 * Dispatches that come twice, late, or after the sender received that they would not be accepted: an attempt that was answered
 * is never started by a later copy, because the sender may have given the task to another worker.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import type { DispatchOutcome } from '../../../src/fleet/bus/reply-channel.ts';
import { WorkerMessageHandler } from '../../../src/fleet/bus/worker-messages.ts';
import { DeclinedAttempts } from '../../../src/fleet/worker/declined-attempts.ts';
import type { DeclinedAttempt } from '../../../src/fleet/worker/journal.ts';
import { MAX_STORED, type WorkerJournal } from '../../../src/fleet/worker/journal.ts';
import { SqliteWorkerJournal } from '../../../src/fleet/worker/journal-sqlite.ts';
import type { FleetMessage, TaskAck, TaskResult } from '../../../src/protocol/fleet.ts';
import { block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench, Desk, dispatch, folder, type Given, LEASE, silent } from '../support/worker-bench.ts';

const WEEK = 7 * 24 * 3600 * 1000;

/** The other end of a bus that keeps dispatches. */
class Stream extends Desk {
  readonly durable = true;
}

/** An attempt, as an orchestrator names it. */
const attempt = (taskId: string, number: number, given: Given = {}) =>
  dispatch(taskId, { ...given, envelope: { ...given.envelope, attempt: number, message_id: `${taskId}#${number}` } });

const ask = (type: 'TASK_POLL' | 'TASK_CANCEL', task_id: string, number?: number) =>
  ({ type, protocol_version: '2.0', task_id, ...(number && { envelope: { attempt: number } }) }) as const;

const codeOf = (reception: DispatchOutcome): string | undefined =>
  reception.kind === 'refused' ? reception.result.blocked?.code : reception.kind;

function gate() {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  return { opened, open: () => open() };
}

test('an attempt that was refused is not begun by a later copy, and the next attempt is', async (t) => {
  let ready = false;
  const executor = scriptedExecutor(undefined, { readiness: () => ({ present: ready, detail: '' }) });
  const home = await folder(t);
  const first = await bench(t, { executor, home, cwd: home });
  const refused = await first.give(attempt('t-1', 1));
  assert.equal(codeOf(refused), 'executor_missing');
  await first.worker.close();
  ready = true;
  const again = await bench(t, { executor, home, cwd: home });
  assert.deepEqual(await again.give(attempt('t-1', 1)), refused, 'the same answer, from another process');
  assert.equal((await again.do(attempt('t-2', 1))).status, 'done', 'though it could be done now');
  const poll = await again.worker.handle(ask('TASK_POLL', 't-1', 1), again.desk);
  assert.deepEqual((poll as TaskResult).blocked, refused.kind === 'refused' && refused.result.blocked);
  assert.equal((await again.do(attempt('t-1', 2))).status, 'done');
  assert.deepEqual(
    executor.turns.map(({ taskId }) => taskId),
    ['t-2', 't-1'],
  );
});

for (const type of ['TASK_POLL', 'TASK_CANCEL'] as const) {
  test(`an attempt that was unknown to a ${type} is not begun when it comes after all`, async (t) => {
    const executor = scriptedExecutor();
    const home = await folder(t);
    const first = await bench(t, { executor, home, cwd: home });
    assert.equal(((await first.worker.handle(ask(type, 't-1', 2), first.desk)) as TaskAck).state, 'unknown');
    for (const number of [1, 2]) {
      const late = await first.give(attempt('t-1', number));
      assert.equal(codeOf(late), 'busy', 'a code that lets it be sent again');
      assert.equal(late.kind === 'refused' && late.result.blocked?.retryable, true);
    }
    await first.worker.close();
    const again = await bench(t, { executor, home, cwd: home });
    assert.equal(codeOf(await again.give(attempt('t-1', 2))), 'busy');
    assert.equal(executor.turns.length, 0);
    assert.equal((await again.do(attempt('t-1', 3))).status, 'done');
  });
}

test('busy is the answer to an attempt, unless the bus stores it and notifies no worker', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    if (taskId === 't-1') await opened;
    return block(taskId);
  });
  const { worker, desk, ...made } = await bench(t, { executor });
  const stream = new Stream('stream');
  worker.attach(stream);
  const envelope = { context_id: 'c-1' };
  await made.give(attempt('t-1', 1, { envelope }));
  assert.equal((await made.give(attempt('t-2', 1, { envelope }))).kind, 'busy');
  assert.equal((await worker.receive(attempt('t-3', 1, { envelope }), stream)).kind, 'busy');
  open();
  await desk.result('t-1');
  await made.idle();
  assert.equal(codeOf(await made.give(attempt('t-2', 1, { envelope }))), 'busy', 'a copy');
  assert.equal(
    (await made.do(attempt('t-2', 2, { envelope }))).status,
    'done',
    'sent again by the sender that received the refusal',
  );
  await made.idle();
  const delivered = await worker.receive(attempt('t-3', 1, { envelope }), stream);
  assert.equal(delivered.kind, 'accepted', 'delivered again by the bus');
  if (delivered.kind === 'accepted') delivered.start(LEASE);
  assert.equal((await stream.result('t-3')).status, 'done');
});

test('an attempt that came while another one ran is shown its result, also when that was taken long ago', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await opened;
    return block(taskId);
  });
  const { worker, desk, ...made } = await bench(t, { executor });
  await made.give(attempt('t-1', 1));
  const second = await made.give(attempt('t-1', 2));
  assert.deepEqual([second.kind, second.kind === 'busy' && second.reason], ['busy', 'in_flight']);
  open();
  const result = await desk.result('t-1');
  await made.idle();
  const copy = await made.give(attempt('t-1', 2));
  assert.deepEqual(copy, { kind: 'replay', result });
  assert.deepEqual(await worker.handle(ask('TASK_POLL', 't-1', 2), desk), result);
  assert.equal(executor.turns.length, 1);
  assert.equal((await made.give(attempt('t-1', 3))).kind, 'accepted', 'asked for by who knows the result');
});

test('an attempt that was shown the result of an earlier one is not begun by a copy', async (t) => {
  const executor = scriptedExecutor();
  const { desk, worker, ...made } = await bench(t, { executor });
  desk.refuses = true;
  await made.give(attempt('t-1', 1));
  await made.idle();
  const shown = await made.give(attempt('t-1', 2));
  assert.equal(shown.kind, 'replay');
  desk.refuses = false;
  await desk.result('t-1');
  assert.deepEqual(await made.give(attempt('t-1', 2)), shown);
  assert.equal(executor.turns.length, 1);
});

test('an attempt that was taken and not begun before the worker died is not begun by a copy', async (t) => {
  const home = await folder(t);
  const executor = scriptedExecutor();
  const journal = new SqliteWorkerJournal(home, Date.now);
  const { digest } = dispatch('t-1');
  const about = { context_id: null, access: 'read' } as const;
  await journal.accept({ taskId: 't-1', attempt: 1, digest, outlet: 'desk', crashes: 0, about });
  journal.close();
  const made = await bench(t, { executor, home, cwd: home });
  const reported = await made.desk.result('t-1');
  assert.equal(reported.blocked?.code, 'draining');
  assert.deepEqual(await made.give(attempt('t-1', 1)), { kind: 'replay', result: reported });
  assert.equal(executor.turns.length, 0);
  assert.equal((await made.give(attempt('t-1', 2))).kind, 'accepted');
});

test('who counts no attempts may ask again, because every dispatch of his is the first', async (t) => {
  let ready = false;
  const executor = scriptedExecutor(undefined, { readiness: () => ({ present: ready, detail: '' }) });
  const home = await folder(t);
  const first = await bench(t, { executor, home, cwd: home });
  assert.equal(codeOf(await first.give(dispatch('t-1'))), 'executor_missing');
  assert.equal(((await first.worker.handle(ask('TASK_POLL', 't-1'), first.desk)) as TaskAck).state, 'unknown');
  await first.worker.close();
  ready = true;
  const again = await bench(t, { executor, home, cwd: home });
  assert.equal((await again.do(dispatch('t-1'))).status, 'done');
});

test('another task under the id of one that was refused is decided on by itself', async (t) => {
  const executor = scriptedExecutor();
  const made = await bench(t, { executor, overheadTokens: 15_000 });
  assert.equal(codeOf(await made.give(attempt('t-1', 1, { token_budget: 4000 }))), 'budget_too_small');
  assert.equal((await made.do(attempt('t-1', 1, { token_budget: 40_000 }))).status, 'done');
});

test('a copy of what is taken or runs is answered with how it is, and other content under its id is refused', async (t) => {
  const { opened, open } = gate();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await opened;
    return block(taskId);
  });
  const { worker, desk, ...made } = await bench(t, { executor });
  using file = new DatabaseSync(join(made.home, 'worker.db'), { readOnly: true });
  const taken = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const reception = await worker.receive(attempt('t-1', 1), desk);
      assert.equal(file.prepare('SELECT count(*) AS tasks FROM tasks').get()?.tasks, 1, 'told when it is written down');
      return reception;
    }),
  );
  assert.deepEqual(taken.map(({ kind }) => kind).sort(), ['accepted', 'taken', 'taken']);
  for (const one of taken) if (one.kind === 'accepted') one.start({ fence: 7, ttlS: 45 });

  const intake = new WorkerMessageHandler(worker);
  const answers: FleetMessage[] = [];
  await intake.dispatch(attempt('t-1', 1), desk, (answer) => answers.push(answer));
  const [said] = answers as TaskAck[];
  assert.deepEqual([said?.accepted, said?.state, said?.lease], [true, 'running', { fence: 7, ttl_s: 45 }]);
  assert.deepEqual(said?.envelope, { causation_id: 't-1#1', attempt: 1 });
  await intake.dispatch(attempt('t-1', 1), new Desk('knows no acks', []), (answer) => answers.push(answer));
  assert.equal(answers.length, 1, 'its own result is all that one understands');

  assert.equal(codeOf(await made.give(attempt('t-1', 1, { brief: 'Other.' }))), 'duplicate_conflict');
  open();
  await desk.result('t-1');
  await made.idle();
  assert.equal(executor.turns.length, 1);
});

test('an attempt that could not be written down is not begun by a copy', async (t) => {
  const executor = scriptedExecutor();
  const { worker, desk, ...made } = await bench(t, { executor });
  using file = new DatabaseSync(join(made.home, 'worker.db'));
  file.exec("CREATE TRIGGER full BEFORE INSERT ON tasks BEGIN SELECT RAISE(ABORT, 'no room'); END");
  const both = await Promise.all([1, 2].map(() => worker.receive(attempt('t-1', 1), desk)));
  assert.deepEqual(both.map(codeOf), ['busy', 'busy']);
  file.exec('DROP TRIGGER full');
  assert.equal(codeOf(await made.give(attempt('t-1', 1))), 'busy');
  assert.equal((await made.do(attempt('t-1', 2))).status, 'done');
  assert.equal(executor.turns.length, 1);
});

test('what comes after its lease has run out is not begun where a second run may do harm', async (t) => {
  const begin = Date.parse('2030-01-01T00:00:00Z');
  let wall = begin;
  const { worker, desk, give, ...made } = await bench(t, { now: () => wall, maxConcurrent: 20 });
  const stream = new Stream('stream');
  worker.attach(stream);
  const lease = { ttl_s: 45, fence: 1 };
  // Their clock is an hour behind.
  const sent = (taskId: string, number: number, agoMs: number, given: Given = {}) =>
    attempt(taskId, number, {
      ...given,
      envelope: { sent_at: new Date(wall - agoMs - 3_600_000).toISOString(), lease, ...given.envelope },
    });
  assert.equal((await give(sent('t-1', 1, 0))).kind, 'accepted');
  wall += 60_000;
  const late = await give(sent('t-2', 1, 46_000));
  assert.equal(codeOf(late), 'busy');
  assert.match(late.kind === 'refused' ? (late.result.blocked_reason ?? '') : '', /46 s .* 45 s/);
  assert.equal(codeOf(await give(sent('t-2', 1, 0))), 'busy', 'nor is a copy that was faster');
  assert.equal((await give(sent('t-2', 2, 0))).kind, 'accepted', 'it may be sent again');
  assert.equal((await give(sent('t-3', 1, 44_000))).kind, 'accepted');
  assert.equal((await give(sent('t-4', 1, 46_000, { retry_safe: true }))).kind, 'accepted');
  const waited = await worker.receive(sent('t-5', 1, 46_000), stream);
  assert.equal(waited.kind, 'accepted', 'that bus keeps the leases');
  if (waited.kind === 'accepted') waited.start(LEASE);
  const { lease: _, ...envelope } = sent('t-6', 1, 46_000).envelope;
  assert.equal((await give(dispatch('t-6', { envelope }))).kind, 'accepted');
  await made.idle();
});

const denied: DeclinedAttempt = {
  attempt: 1,
  digest: 'd',
  reason: { code: 'busy', detail: 'no', retryable: true, missing: [] },
};

test('a refusal is on disk before it is sent, and what cannot be written stays in memory', async () => {
  const disk = Promise.withResolvers<void>();
  const written: string[] = [];
  const said: string[] = [];
  const journal = {
    declined: () => [],
    decline: ({ taskId }: { taskId: string }) => {
      written.push(taskId);
      return taskId === 't-1' ? disk.promise : Promise.reject(new Error('the disk is full'));
    },
  } as unknown as WorkerJournal;
  const denials = new DeclinedAttempts(journal, { ...silent, error: (message) => void said.push(message) });
  const order: string[] = [];
  const both = [
    denials.add('t-1', denied).then(() => order.push('told')),
    denials.add('t-1', denied).then(() => order.push('told')),
    denials.written('t-1')?.then(() => order.push('told')),
  ];
  await denials.add('t-2', denied);
  assert.deepEqual([order, said.length], [[], 1]);
  assert.deepEqual(denials.of('t-2'), denied);
  disk.resolve();
  await Promise.all(both);
  assert.deepEqual([order.length, written, denials.written('t-1')], [3, ['t-1', 't-2'], undefined]);
});

test('a flood of refusals is bounded, in memory and on disk, and old ones are forgotten', async (t) => {
  let now = 0;
  const home = await folder(t);
  const journal = new SqliteWorkerJournal(home, () => now);
  const denials = new DeclinedAttempts(journal, silent);
  const many = Array.from({ length: MAX_STORED + 1 }, (_, number) => `t-${number}`);
  const long = { code: 'missing_mcp', detail: 'x'.repeat(60_000), retryable: false, missing: Array(256).fill('name') };
  await Promise.all(many.map((taskId) => denials.add(taskId, { ...denied, reason: long })));
  assert.equal(denials.of('t-0'), undefined);
  assert.ok(JSON.stringify(denials.of('t-1')).length < 500);
  journal.close();
  const again = new SqliteWorkerJournal(home, () => now);
  assert.equal(again.declined().length, MAX_STORED);
  assert.deepEqual(again.declined()[0], { taskId: 't-1', ...denials.of('t-1') });
  now += WEEK - 1;
  await again.decline({ ...denied, taskId: 'new' });
  now += 2;
  assert.deepEqual(
    again.declined().map(({ taskId }) => taskId),
    ['new'],
  );
  again.close();
});
