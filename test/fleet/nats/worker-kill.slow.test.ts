/** Workers that are killed: before they decided on a task, and while they worked on it. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { aDispatch } from '../bus-contract.ts';
import { NatsFleet, PoolWorker } from './fleet.ts';
import { natsTest } from './server.ts';

const structured = { mode: 'structured' } as const;

// They wait more than they work.
describe('workers that are killed on NATS', { concurrency: 4 }, () => {
  natsTest(
    'a worker that is killed before it has decided gets the dispatch again, and so does another of its pool',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { ackWaitS: 1 };
      const { bus, events } = await fleet.orchestrator();
      const deciding: string[] = [];
      const options = { agentId: 'w', pools: ['p'], journal: fleet.journal('w') };
      const stuck = await fleet.child({ ...options, stuck: true }, (said) => deciding.push(said));
      const peer = await events.peer('w');
      await Promise.all([peer.send(aDispatch('own'), structured), bus.offer?.('p', aDispatch('pool'))]);
      await fleet.until(async () => deciding.length === 2, 'both to be decided on');
      await fleet.kill(stuck);
      const other = new PoolWorker(['p'], { agentId: 'other' });
      await fleet.worker(other);
      await fleet.child(options);
      await events.until(() => events.results().length === 2, 'both results');
      assert.deepEqual(
        events.results().map(({ status }) => status),
        ['done', 'done'],
      );
      await fleet.until(async () => (await fleet.waiting()) === 0, 'the queues to be empty');
    },
  );

  natsTest(
    'a worker that is killed while it works does not begin again, and says what it had begun',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { ackWaitS: 1, leaseTtlS: 2 };
      const { events } = await fleet.orchestrator();
      const begun: string[] = [];
      const options = { agentId: 'w', journal: fleet.journal('w') };
      const child = await fleet.child(
        { ...options, workMs: 60_000 },
        (said) => said.startsWith('begun') && begun.push(said),
      );
      const peer = await events.peer('w');
      await peer.send(aDispatch('t-1'), structured);
      await events.until(
        () => events.of('TASK_ACK').some(({ state }) => state === 'running'),
        'the lease to be renewed',
      );
      await fleet.kill(child);
      await fleet.child(options, (said) => said.startsWith('begun') && begun.push(said));
      await events.until(() => events.results('t-1').length === 1, 'its report');
      assert.equal(events.results('t-1')[0]?.error_summary, 'worker restarted during the task');
      assert.deepEqual(begun, ['begun t-1#1']);
      // The next attempt is another matter.
      await (await events.peer('w')).send(aDispatch('t-2', {}, 2), structured);
      await events.until(() => events.results('t-2').length === 1, 'the next task');
    },
  );
});
