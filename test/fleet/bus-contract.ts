/**
 * The contract of every bus whose workers speak messages, over any transport. A binding adds itself by writing a `BusFactory`
 * and calling `busContract` in a separate test file.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FleetPeer, OrchestratorBus } from '../../src/fleet/bus/peer.ts';
import type { WorkerPort } from '../../src/fleet/bus/reply-channel.ts';
import { dispatchMessage, fleetMessage } from '../../src/fleet/messages/encode.ts';
import type { TaskDispatch } from '../../src/protocol/fleet.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import type { PeerRecorder } from './support/peer-recorder.ts';
import { type ScriptedOptions, ScriptedWorker } from './support/scripted-worker.ts';

/** A bus that runs, with workers on it. */
export interface BusStand {
  readonly bus: OrchestratorBus;
  readonly events: PeerRecorder;
  /** Ends the worker's part in good order. Absent: the worker only sends its goodbye. */
  leave?(agentId: string): Promise<void>;
  /** Ends both sides and frees everything. */
  stop(): Promise<void>;
}

export interface BusFactory {
  readonly name: string;
  /**
   * The bus itself stores sent messages, whether the other end is connected or not; the tests below distinguish the effects.
   */
  readonly keepsMessages?: boolean;
  /** The worker's side of the bus keeps results for good, for an orchestrator that asks for them. */
  readonly keepsResults?: boolean;
  /** Opens a bus with these workers; resolves when it was started. */
  open(workers: readonly WorkerPort[]): Promise<BusStand>;
}

export interface Stage {
  readonly stand: BusStand;
  readonly events: PeerRecorder;
  readonly worker: ScriptedWorker;
  readonly peer: FleetPeer;
}

/** Makes a dispatch with the envelope an orchestrator gives it. */
export function aDispatch(task_id: string, more: Partial<TaskDispatch> = {}, attempt = 1): TaskDispatch {
  return dispatchMessage(
    { task: { task_id }, brief: 'do it', ...more },
    { message_id: `${task_id}#${attempt}`, attempt, lease: { ttl_s: 45, fence: attempt }, ...more.envelope },
  );
}

const structured = { mode: 'structured' } as const;
const codeIs =
  (code: string) =>
  (error: HandfastError): boolean =>
    error.code === code;

export function busContract(factory: BusFactory): void {
  async function staged(options: ScriptedOptions, run: (stage: Stage) => Promise<void>): Promise<void> {
    const worker = new ScriptedWorker(options);
    const stand = await factory.open([worker]);
    try {
      const { events } = stand;
      await run({ stand, events, worker, peer: await events.peer(worker.agentId) });
    } finally {
      await stand.stop();
      worker.close();
    }
  }

  describe(`bus contract: ${factory.name}`, () => {
    test('a worker that joins is a peer first, and then says what it is', () =>
      staged({}, async ({ events, peer, worker, stand }) => {
        assert.equal(events.comings[0], 'joined worker-1');
        const [announced] = events.of('SESSION_ANNOUNCE');
        assert.equal(announced?.agent_id, 'worker-1');
        assert.equal(announced?.incarnation, worker.incarnation);
        assert.deepEqual([peer.peerId, peer.structured, peer.reachable], ['worker-1', true, true]);
        assert.equal(peer.binding, stand.bus.binding);
        assert.ok(peer.features.has('cancel'));
      }));

    test('a dispatch is acknowledged, run and reported, and the worker learns that its result is kept', () =>
      staged({}, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        await events.until(() => events.results('t-1').length > 0, 'the result');
        await worker.until(() => worker.outbox.length === 0, 'the result to be confirmed');
        assert.deepEqual(worker.begun, ['t-1']);
        assert.equal(worker.leases[0]?.fence, 1);
        const [accepted] = events.of('TASK_ACK');
        assert.equal(accepted?.accepted, true);
        assert.equal(accepted?.state, 'accepted');
        const [result, ...more] = events.results('t-1');
        assert.equal(result?.status, 'done');
        assert.equal(result?.tokens_spent, 7);
        assert.equal(more.length, 0);
      }));

    test('what a worker says arrives in the order it was said', () =>
      staged({ byHand: true }, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        await worker.until(() => worker.begun.length === 1, 'the task to begin');
        for (let seq = 1; seq <= 50; seq++) {
          worker.tell(fleetMessage('TASK_PROGRESS', { task_id: 't-1', seq, phase: 'running' }));
        }
        worker.finish('t-1');
        await events.until(() => events.results().length > 0, 'the result');
        const types = events.heard.map(({ message }) => message.type);
        assert.equal(types.indexOf('TASK_ACK') < types.indexOf('TASK_PROGRESS'), true);
        assert.equal(types.lastIndexOf('TASK_PROGRESS') < types.indexOf('TASK_RESULT'), true);
        assert.deepEqual(
          events.of('TASK_PROGRESS').map(({ seq }) => seq),
          Array.from({ length: 50 }, (_, index) => index + 1),
        );
      }));

    test('a result is confirmed only when it is kept, and sent again until it is', () =>
      staged({}, async ({ events, worker, peer }) => {
        const disk = Promise.withResolvers<void>();
        let tries = 0;
        events.keep = async (message) => {
          if (message.type !== 'TASK_RESULT') return;
          tries++;
          if (tries <= 2) throw new Error('the disk is full');
          await disk.promise;
        };
        await peer.send(aDispatch('t-1'), structured);
        await events.until(() => tries >= 3 || events.results().length >= 3, 'the third try');
        assert.deepEqual(worker.outbox, factory.keepsMessages || factory.keepsResults ? [] : ['t-1']);
        disk.resolve();
        await events.until(() => events.results().length >= 3, 'the result to be sent until it is stored');
        await worker.until(() => worker.outbox.length === 0, 'the result to be confirmed');
        assert.deepEqual(worker.begun, ['t-1']);
      }));

    test('a dispatch that comes again while its task runs is busy, and nothing is run twice', () =>
      staged({ byHand: true }, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        // A bus that keeps messages takes it, and keeps it until the worker is not busy with it any more.
        if (factory.keepsMessages) {
          await worker.until(() => worker.begun.length === 1, 'the task to begin');
          await peer.send(aDispatch('t-1', {}, 2), structured);
        } else {
          await assert.rejects(peer.send(aDispatch('t-1', {}, 2), structured), (error: HandfastError) => {
            assert.equal(error.code, 'over_capacity');
            assert.equal(error.detail.retry_after_ms, 30_000);
            return true;
          });
        }
        worker.finish('t-1');
        await events.until(() => events.results().length > 0, 'the result');
        assert.deepEqual(worker.begun, ['t-1']);
      }));

    test('a dispatch that comes again after its end is answered with the result it had', () =>
      staged({}, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        await worker.until(() => worker.journal.get('t-1')?.delivered === true, 'the result to be confirmed');
        await peer.send(aDispatch('t-1', {}, 2), structured);
        await events.until(() => events.results('t-1').length === 2, 'the result again');
        assert.deepEqual(worker.begun, ['t-1']);
        assert.equal(events.results('t-1')[1]?.status, 'done');
      }));

    test('a dispatch with other content under a known id is refused', () =>
      staged({}, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        await events.until(() => events.results('t-1').length === 1, 'the result');
        await peer.send(aDispatch('t-1', { brief: 'something else' }, 2), structured);
        await events.until(() => events.results('t-1').length === 2, 'the refusal');
        assert.equal(events.results('t-1')[1]?.blocked?.code, 'duplicate_conflict');
        assert.deepEqual(worker.begun, ['t-1']);
      }));

    test('a refusal comes as a result, and nothing was begun', () =>
      staged({}, async ({ events, worker, peer }) => {
        worker.draining = true;
        await peer.send(aDispatch('t-1'), structured);
        await events.until(() => events.results('t-1').length === 1, 'the refusal');
        const [result] = events.results('t-1');
        assert.equal(result?.status, 'blocked');
        assert.equal(result?.tokens_spent, 0);
        assert.deepEqual(worker.begun, []);
      }));

    test('a dispatch that cannot be read but names its task is refused in its name', () =>
      staged({}, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1', { brief: '   ' }), structured).catch(() => {});
        await events.until(() => events.results('t-1').length === 1, 'the refusal');
        assert.equal(events.results('t-1')[0]?.blocked?.code, 'invalid_dispatch');
        assert.deepEqual(worker.begun, []);
      }));

    test('a task is cancelled, and cancelling it again after its end gives its result', () =>
      staged({ byHand: true }, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        await peer.send(fleetMessage('TASK_CANCEL', { task_id: 't-1', reason: 'not wanted' }), structured);
        await events.until(() => events.results('t-1').length === 1, 'the end of the task');
        assert.equal(events.results('t-1')[0]?.error_summary, 'canceled');
        await worker.until(() => worker.outbox.length === 0, 'the result to be confirmed');
        await peer.send(fleetMessage('TASK_CANCEL', { task_id: 't-1' }), structured);
        await events.until(() => events.results('t-1').length === 2, 'the stored result');
      }));

    test('what is sent behind a dispatch reaches the worker behind it', () => {
      const deciding = Promise.withResolvers<undefined>();
      return staged({ byHand: true, decide: () => deciding.promise }, async ({ worker, peer }) => {
        const sent = peer.send(aDispatch('t-1'), structured);
        await peer.send(
          fleetMessage('TASK_STEER', { task_id: 't-1', steer_id: 's-1', text: 'and add a test' }),
          structured,
        );
        await peer.send(fleetMessage('TASK_ANSWER', { task_id: 't-1', question_id: 'q-1', allowed: true }), structured);
        deciding.resolve(undefined);
        await sent;
        await worker.until(() => worker.handled.length === 2, 'both messages');
        assert.deepEqual(worker.begun, ['t-1']);
        assert.deepEqual(
          worker.handled.map(({ type }) => type),
          ['TASK_STEER', 'TASK_ANSWER'],
        );
      });
    });

    test('a poll is answered with the state of the task, or with its result', () =>
      staged({ byHand: true }, async ({ events, worker, peer }) => {
        const poll = (task_id: string): Promise<void> => peer.send(fleetMessage('TASK_POLL', { task_id }), structured);
        await poll('t-9');
        await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'unknown'), 'unknown');
        await peer.send(aDispatch('t-1'), structured);
        await poll('t-1');
        await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'running'), 'running');
        worker.finish('t-1');
        await worker.until(() => worker.outbox.length === 0, 'the result to be confirmed');
        await poll('t-1');
        await events.until(() => events.results('t-1').length === 2, 'the result');
      }));

    test('questions and progress of a worker reach the orchestrator', () =>
      staged({ byHand: true }, async ({ events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        worker.tell(
          fleetMessage('TASK_QUESTION', {
            task_id: 't-1',
            question_id: 'q-1',
            kind: 'tool',
            title: 'May I?',
            tool: { name: 'bash', input: { command: 'ls' } },
          }),
        );
        await events.until(() => events.of('TASK_QUESTION').length === 1, 'the question');
        assert.equal(events.of('TASK_QUESTION')[0]?.title, 'May I?');
        worker.finish('t-1');
      }));

    test('a worker describes itself again when it is asked to', () =>
      staged({}, async ({ events, worker, peer }) => {
        const before = events.of('SESSION_ANNOUNCE').length;
        await peer.send(fleetMessage('ANNOUNCE_REQUEST', { context_id: 'c-1' }), structured);
        await events.until(() => events.of('SESSION_ANNOUNCE').length > before, 'another announce');
        assert.equal(events.of('SESSION_ANNOUNCE').at(-1)?.context_id, 'c-1');
        assert.ok(worker.announces >= 2);
      }));

    test('a worker that says goodbye is asleep, and sending to it fails as unreachable', () =>
      staged({}, async ({ events, worker, peer }) => {
        const { agentId: agent_id, incarnation } = worker;
        worker.tell(fleetMessage('SESSION_BYE', { agent_id, incarnation, reason: 'idle' }));
        await events.until(() => events.comings.includes('asleep worker-1: idle'), 'the goodbye');
        await assert.rejects(peer.send(aDispatch('t-1'), structured), codeIs('unreachable'));
        assert.deepEqual(worker.begun, []);
      }));

    test('many tasks at once are each run once and each reported', () =>
      staged({}, async ({ events, worker, peer }) => {
        const ids = Array.from({ length: 200 }, (_, index) => `t-${index}`);
        await Promise.all(ids.map((id) => peer.send(aDispatch(id), structured)));
        await worker.until(() => worker.journal.size === 200 && worker.outbox.length === 0, 'all results');
        await events.until(() => events.results().length >= 200, 'all results to be heard');
        assert.deepEqual([...worker.begun].sort(), [...ids].sort());
        assert.deepEqual(
          events
            .results()
            .map(({ task_id }) => task_id)
            .sort(),
          [...ids].sort(),
        );
      }));

    test('workers of one bus hear only what is theirs', async () => {
      const workers = [new ScriptedWorker({ agentId: 'a' }), new ScriptedWorker({ agentId: 'b' })] as const;
      const stand = await factory.open(workers);
      try {
        const { events } = stand;
        const [a, b] = [await events.peer('a'), await events.peer('b')];
        await Promise.all([a.send(aDispatch('for-a'), structured), b.send(aDispatch('for-b'), structured)]);
        await events.until(() => events.results().length === 2, 'both results');
        assert.deepEqual([workers[0].begun, workers[1].begun], [['for-a'], ['for-b']]);
        const from = events.heard.filter(({ message }) => message.type === 'TASK_RESULT').map(({ peerId }) => peerId);
        assert.deepEqual(from.sort(), ['a', 'b']);
      } finally {
        await stand.stop();
        for (const worker of workers) worker.close();
      }
    });

    test('a bus that has stopped tells nothing more and takes nothing more', () =>
      staged({ byHand: true }, async ({ stand, events, worker, peer }) => {
        await peer.send(aDispatch('t-1'), structured);
        await stand.bus.close();
        const heard = events.heard.length;
        const comings = events.comings.length;
        worker.finish('t-1');
        await assert.rejects(peer.send(aDispatch('t-2'), structured), codeIs('unreachable'));
        await stand.bus.close();
        assert.equal(events.heard.length, heard);
        assert.equal(events.comings.length, comings);
        if (!factory.keepsMessages && !factory.keepsResults) assert.deepEqual(worker.outbox, ['t-1']);
      }));
  });
}
