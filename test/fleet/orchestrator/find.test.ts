/** Attempts on a bus that stores them: one that waits is left alone, one that is nowhere is found and tried again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Whereabouts } from '../../../src/fleet/bus/peer.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import type { TaskDispatch } from '../../../src/protocol/fleet.ts';
import { HandfastError } from '../../../src/wire/errors.ts';
import { fleet } from './support/fleet.ts';
import { type PeerScript, ScriptedBus } from './support/scripted-bus.ts';

/** A lease, and a little. */
const LEASE_MS = 46_000;

/** The questions to the bus, and its answers. */
function finder(answer: Whereabouts) {
  const asked: string[] = [];
  const self = {
    answer: answer as Whereabouts | Error,
    asked,
    find: async ({ task, envelope }: TaskDispatch): Promise<Whereabouts> => {
      asked.push(`${task.task_id}#${envelope?.attempt}`);
      if (self.answer instanceof Error) throw self.answer;
      return self.answer;
    },
  };
  return self;
}

const silent = (find: PeerScript['find']): PeerScript => ({
  durable: true,
  onDispatch: () => {},
  ...(find && { find }),
});
const attempts = (sent: readonly { readonly envelope?: { readonly attempt?: number } }[]) =>
  sent.map(({ envelope }) => envelope?.attempt);

/** A pool whose only worker is busy, and a task that was offered to it. */
async function offered(t: Parameters<typeof fleet>[0], answer: Whereabouts) {
  const bus = new ScriptedBus(true);
  const finding = finder(answer);
  bus.find = (_pool, dispatch) => finding.find(dispatch);
  const made = await fleet(t, { bus });
  const announce = { worker: { pools: ['night'], max_concurrent: 1 }, session: { ttl_s: 100_000 } };
  const worker = await bus.worker('w', { durable: true, find: async () => ({ at: 'worker' }) }, announce);
  await made.orchestrator.submit({ brief: 'x', task_id: 'first' });
  await made.orchestrator.submit({ brief: 'x', task_id: 'offered', pool: 'night' });
  assert.equal(await made.state('offered'), 'sent');
  return { ...made, worker, finding };
}

test('a task that waits on the queue of a pool is left there, however long', async (t) => {
  const { bus, clock, finding, state } = await offered(t, { at: 'queue' });
  await clock.advance(LEASE_MS * 10);
  assert.equal(await state('offered'), 'sent');
  assert.equal(bus.offered.length, 1);
  assert.ok(finding.asked.length >= 10);
});

test('a task that has left the queue of a pool and is nowhere is offered again', async (t) => {
  const { bus, clock, finding, orchestrator } = await offered(t, { at: 'queue' });
  await clock.advance(LEASE_MS * 3);
  finding.answer = { at: 'nowhere' };
  while (bus.offered.length === 1) await clock.advance(1_000);
  finding.answer = { at: 'queue' };
  await clock.advance(LEASE_MS * 3);
  assert.deepEqual(attempts(bus.offered as TaskDispatch[]), [1, 2]);
  const { attempts: ended } = await orchestrator.get('offered');
  assert.deepEqual(
    ended.map(({ outcome }) => outcome),
    ['unknown', undefined],
  );
});

test('a task of a pool that only its worker can know of is asked about there', async (t) => {
  const { clock, worker, state, bus } = await offered(t, { at: 'nowhere', startedBy: 'w' });
  await clock.advance(LEASE_MS);
  assert.equal(worker.last('TASK_POLL')?.task_id, 'offered');
  await worker.report('offered', 'done', {}, 1);
  assert.equal(await state('offered'), 'done');
  assert.equal(bus.offered.length, 1);
});

test('while the bus cannot be asked, a task of a pool stays where it is', async (t) => {
  const { bus, clock, finding, state } = await offered(t, { at: 'queue' });
  finding.answer = new HandfastError('unreachable', 'the server is away');
  await clock.advance(LEASE_MS * 5);
  assert.equal(await state('offered'), 'sent');
  assert.equal(bus.offered.length, 1);
});

/** A worker of a bus that holds leases: it is there all the time, and says nothing about its tasks. */
async function present(t: Parameters<typeof fleet>[0], answer: Whereabouts) {
  const made = await fleet(t);
  const finding = finder(answer);
  const session = { ttl_s: 100_000 };
  const worker = await made.bus.worker('w', silent(finding.find), { session });
  const { task_id } = await made.orchestrator.submit({ brief: 'x' });
  return {
    ...made,
    finding,
    worker,
    task_id,
    async beats(times: number): Promise<void> {
      for (let n = 0; n < times; n += 1) {
        await made.clock.advance(15_000);
        await worker.heartbeat(1);
        await worker.announce({ session });
      }
    },
  };
}

test('a dispatch that waits on the queue of a worker is left there, and sent again when it is nowhere', async (t) => {
  const { beats, finding, worker, state, task_id } = await present(t, { at: 'queue' });
  await beats(10);
  assert.equal(await state(task_id), 'sent');
  assert.deepEqual(attempts(worker.dispatches), [1]);
  finding.answer = { at: 'nowhere' };
  for (let n = 0; n < 3 && worker.dispatches.length === 1; n += 1) await beats(1);
  assert.deepEqual(attempts(worker.dispatches), [1, 2], 'that the worker is there says nothing about the task');
  assert.equal(worker.last('TASK_POLL'), undefined);
});

test('a task that was accepted and whose lease has gone is asked about', async (t) => {
  const { beats, finding, worker, state, task_id } = await present(t, { at: 'worker' });
  await worker.say(fleetMessage('TASK_ACK', { task_id, accepted: true, state: 'accepted' }, { attempt: 1 }));
  await beats(10);
  assert.equal(worker.last('TASK_POLL'), undefined);
  // Its result was lost on the way.
  finding.answer = { at: 'nowhere', startedBy: 'w' };
  for (let n = 0; n < 3 && worker.last('TASK_POLL') === undefined; n += 1) await beats(1);
  assert.equal(worker.last('TASK_POLL')?.task_id, task_id);
  await worker.report(task_id, 'done', {}, 1);
  assert.equal(await state(task_id), 'done');
});

test('a task whose worker does not answer and whose bus cannot be asked is lost with its lease', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const finding = finder({ at: 'queue' });
  finding.answer = new HandfastError('unreachable', 'the server is away');
  const worker = await bus.worker('w', silent(finding.find), { session: { ttl_s: 100_000 } });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(LEASE_MS);
  assert.equal(worker.last('TASK_POLL')?.task_id, task_id);
  assert.equal(await state(task_id), 'lost');
});

test('a dispatch to a pool of which it is unknown whether it arrived is looked for at once', async (t) => {
  const bus = new ScriptedBus(true);
  const finding = finder({ at: 'nowhere' });
  bus.find = (_pool, dispatch) => finding.find(dispatch);
  const send = bus.offer;
  bus.offer = async () => {
    throw new HandfastError('timeout', 'no answer');
  };
  const { orchestrator, state, clock } = await fleet(t, { bus });
  await bus.worker('w', {}, { worker: { pools: ['night'], max_concurrent: 1 } });
  await orchestrator.submit({ brief: 'x', task_id: 'first' });
  await orchestrator.submit({ brief: 'x', task_id: 'offered', pool: 'night' });
  await state('offered');
  if (send !== undefined) bus.offer = send;
  await clock.advance(1_000);
  assert.deepEqual(finding.asked.slice(0, 1), ['offered#1']);
});
