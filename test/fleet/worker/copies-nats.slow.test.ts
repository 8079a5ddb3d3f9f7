/**
 * A real worker on NATS: a dispatch that it is too busy for stays on the queue, and is done when it comes again under its own
 * number.
 */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { aDispatch } from '../bus-contract.ts';
import { NatsFleet } from '../nats/fleet.ts';
import { natsTest } from '../nats/server.ts';
import { block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench } from '../support/worker-bench.ts';

describe('copies on NATS', () => {
  natsTest('a turn of a busy context is delivered again, and done then', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const executor = scriptedExecutor(async ({ taskId }) => {
      if (taskId === 't-1') await opened;
      return block(taskId);
    });
    const { worker } = await bench(context, { executor });
    await fleet.worker(worker);
    const peer = await events.peer('w-1');
    const give = (taskId: string) =>
      peer.send(
        aDispatch(taskId, {
          requirements: { access: 'read' },
          envelope: {
            message_id: `${taskId}#1`,
            attempt: 1,
            context_id: taskId === 't-0' ? 'c-0' : 'c-1',
            // It may wait on the queue for longer than a lease holds.
            sent_at: new Date(Date.now() - (taskId === 't-2' ? 60_000 : 0)).toISOString(),
            lease: { ttl_s: 45, fence: 1 },
          },
        }),
        { mode: 'structured' },
      );
    // From the first it knows how soon another may be over.
    await give('t-0');
    await events.until(() => events.results('t-0').length === 1, 'the first result');
    await give('t-1');
    await events.until(() => executor.turns.length === 2, 'the turn to begin');
    await give('t-2');
    await fleet.until(async () => (await fleet.outstanding()) === 1, 'the second turn to be back on the queue');
    open();
    await events.until(() => events.results('t-2').length === 1, 'the second turn');
    assert.equal(events.results('t-2')[0]?.status, 'done');
    assert.deepEqual(
      executor.turns.map(({ taskId }) => taskId),
      ['t-0', 't-1', 't-2'],
    );
  });
});
