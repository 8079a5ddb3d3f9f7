/**
 * A partition in the middle of work: the NATS server, then a worker under load, stops for longer than a lease and
 * continues. Every task ends once, and no attempt starts twice.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { natsBus } from '../../src/fleet/bus/nats/orchestrator-bus.ts';
import { createOrchestrator } from '../../src/fleet/orchestrator/orchestrator.ts';
import { memoryTaskStore } from '../../src/fleet/orchestrator/store-memory.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { log, NatsFleet } from '../fleet/nats/fleet.ts';
import { natsTest } from '../fleet/nats/server.ts';

const TASKS = 120;
const LEASE_S = 2;
/** Longer than a lease. */
const STOPPED_MS = 2 * LEASE_S * 1000;

natsTest(
  'a server, and a worker under load, that stand still past a lease lose no task and repeat no attempt',
  async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { ackWaitS: 2, leaseTtlS: LEASE_S };
    const orchestrator = createOrchestrator({
      name: 'main',
      store: memoryTaskStore(),
      journal: memoryJournal(),
      buses: [natsBus({ servers: fleet.server.url, name: 'main', log, ...fleet.storage })],
      leaseTtlS: LEASE_S,
      blockedPolicy: { backoff_s: [1, 1, 1] },
      log,
    });
    fleet.onEnd(() => orchestrator.close());
    await orchestrator.start();
    const begun: string[] = [];
    const heard = (said: string): void => {
      if (said.startsWith('begun ')) begun.push(said.slice('begun '.length));
    };
    const worker = (agentId: string) =>
      fleet.child({ agentId, journal: fleet.journal(agentId), maxConcurrent: 4, workMs: 100 }, heard);
    const [stopped] = await Promise.all([worker('one'), worker('two')]);
    await fleet.until(
      async () => orchestrator.workers().filter(({ status }) => status === 'ready').length === 2,
      'both workers',
    );

    // An attempt that is lost may be repeated: as another attempt.
    const tasks = await orchestrator.submitBatch(
      Array.from({ length: TASKS }, () => ({ brief: 'x', access: 'read' as const, retry_safe: true })),
    );
    const ended = async (): Promise<number> => {
      const records = await Promise.all(tasks.map(({ task_id }) => orchestrator.get(task_id)));
      return records.filter(({ ended_at }) => ended_at !== null).length;
    };
    await fleet.until(async () => (await ended()) >= TASKS / 10, 'some results');
    fleet.server.signal('SIGSTOP');
    await delay(STOPPED_MS);
    fleet.server.signal('SIGCONT');

    const before = await ended();
    await fleet.until(async () => (await ended()) > before, 'work to continue');
    stopped.kill('SIGSTOP');
    await delay(STOPPED_MS);
    stopped.kill('SIGCONT');

    const results = await Promise.all(tasks.map(({ task_id }) => orchestrator.result(task_id)));
    const states = results.map(({ record }) => record.state);
    assert.deepEqual(
      states.filter((state) => state !== 'done'),
      [],
    );
    assert.equal(new Set(begun).size, begun.length, `an attempt started twice: ${begun.toSorted().join(' ')}`);
    const counted = new Set(begun.map((name) => name.split('#')[0]));
    assert.equal(counted.size, TASKS, 'each task was started');
  },
);
