/**
 * The bus inside one process, held to the contract of all buses, and to its own rules.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inProcessBus } from '../../../src/fleet/bus/in-process.ts';
import { aDispatch, busContract } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';

busContract({
  name: 'in-process',
  async open(workers) {
    const events = new PeerRecorder();
    const bus = inProcessBus(workers);
    await bus.start(events);
    return { bus, events, stop: () => bus.close() };
  },
});

test('two workers of one name are refused', () => {
  assert.throws(() => inProcessBus([new ScriptedWorker(), new ScriptedWorker()]), { code: 'config_invalid' });
});

test('messages that have no normalised form are handed over by reference', async () => {
  const worker = new ScriptedWorker({ byHand: true });
  const events = new PeerRecorder();
  const bus = inProcessBus([worker]);
  await bus.start(events);
  const peer = await events.peer('worker-1');
  await peer.send(aDispatch('t-1'), { mode: 'structured' });
  const progress = {
    type: 'TASK_PROGRESS',
    protocol_version: '2.0',
    task_id: 't-1',
    seq: 1,
    phase: 'running',
  } as const;
  worker.tell(progress);
  assert.equal(events.of('TASK_PROGRESS')[0], progress);
  await bus.close();
});

test('a worker is heard of once a heartbeat', async (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const worker = new ScriptedWorker({ byHand: true });
  const events = new PeerRecorder();
  const bus = inProcessBus([worker], { heartbeatS: 15 });
  await bus.start(events);
  await (await events.peer('worker-1')).send(aDispatch('t-1'), { mode: 'structured' });
  context.mock.timers.tick(30_000);
  assert.deepEqual(
    events.of('SESSION_HEARTBEAT').map(({ seq, active_tasks }) => [seq, active_tasks]),
    [
      [1, 1],
      [2, 1],
    ],
  );
  await bus.close();
});

test('a worker that cannot decide leaves the task to others', async () => {
  const worker = new ScriptedWorker({
    decide: () => {
      throw new Error('the journal is full');
    },
  });
  const events = new PeerRecorder();
  const bus = inProcessBus([worker]);
  await bus.start(events);
  const peer = await events.peer('worker-1');
  await assert.rejects(peer.send(aDispatch('t-1'), { mode: 'structured' }), { code: 'unreachable' });
  assert.deepEqual(worker.begun, []);
  await bus.close();
});
