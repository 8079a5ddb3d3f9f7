/**
 * Two orchestrators of one name whose tasks are on NATS: the second touches nothing while the first runs, continues its tasks
 * when it has gone, and is not disturbed by late messages of the first.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { describe, type TestContext } from 'node:test';
import { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { acquireLeadership, type Leadership, type LeadershipOptions } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { BUCKETS } from '../../../src/fleet/bus/nats/subjects.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import type { TaskStore } from '../../../src/fleet/orchestrator/task.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { record } from '../../contract/task-store.ts';
import { log, NatsFleet } from './fleet.ts';
import { natsTest } from './server.ts';
import { Wire } from './wire.ts';

const TTL_S = 4;

interface AtWork {
  readonly seat: Leadership;
  readonly store: TaskStore;
  readonly orchestrator: Orchestrator;
  stop(): Promise<void>;
}

/** Makes an orchestrator that stands by until it may begin. */
async function atWork(fleet: NatsFleet, options: Partial<LeadershipOptions> = {}): Promise<AtWork> {
  const shared = { servers: fleet.server.url, name: 'main', log, leaseTtlS: TTL_S, ...options };
  const seat = await acquireLeadership({ ...shared, standby: true });
  const store = await natsTaskStore(seat);
  const orchestrator = createOrchestrator({
    name: 'main',
    store,
    journal: memoryJournal(),
    buses: [natsBus({ ...shared, leadership: seat })],
    leaseTtlS: TTL_S,
    log,
  });
  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await orchestrator.close();
    await store.close();
    await seat.close();
  };
  const once = (): Promise<void> => {
    stopped ??= stop();
    return stopped;
  };
  fleet.onEnd(once);
  await orchestrator.start();
  return { seat, store, orchestrator, stop: once };
}

/** Makes a worker whose tasks end when the test says so. */
async function worker(fleet: NatsFleet) {
  const begun: string[] = [];
  const finish = new Map<string, () => void>();
  const [cwd, home] = [fleet.server.file('repository'), fleet.server.file('home')];
  for (const folder of [cwd, home]) mkdirSync(folder);
  const made = await createWorker({
    agentId: 'one',
    executor: functionExecutor({
      async run({ taskId }) {
        begun.push(taskId);
        await new Promise<void>((resolve) => finish.set(taskId, resolve));
        return { text: 'done', usage: { source: 'measured', input: 1, output: 1 } };
      },
    }),
    cwd,
    home,
    tools: [],
    maxConcurrent: 4,
    log,
  });
  await made.start();
  await fleet.worker(made, { leaseTtlS: TTL_S });
  fleet.onEnd(() => made.close());
  return { begun, finish };
}

const task = (id: string) => ({ task_id: id, brief: 'do it', reply_schema: 'prose' as const });
const settled = async (promise: Promise<unknown>): Promise<boolean> =>
  (await Promise.race([promise.then(() => true), Promise.resolve(false)])) === true;

async function staged(context: TestContext, installed: Parameters<typeof NatsFleet.start>[1]) {
  const fleet = await NatsFleet.start(context, installed);
  fleet.storage = { leaseTtlS: TTL_S };
  return { fleet, ...(await worker(fleet)) };
}

// They wait more than they work.
describe('a second orchestrator whose tasks are on NATS', { concurrency: 4 }, () => {
  natsTest(
    'touches no task of the first while that runs, and continues them when it stops',
    async (context, installed) => {
      const { fleet, begun, finish } = await staged(context, installed);
      const first = await atWork(fleet);
      await first.orchestrator.submit(task('long'));
      await fleet.until(async () => begun.includes('long'), 'the task to begin');
      const waiting = atWork(fleet);
      // Longer than leases hold: an orchestrator that had loaded the tasks would have abandoned this one by now.
      const bucket = new Bucket(first.seat.link, BUCKETS.orchestrators);
      const renewals = async (): Promise<number> =>
        JSON.parse(Buffer.from((await bucket.get('main'))!.value).toString()).renewed;
      await fleet.until(async () => (await renewals()) >= 8, 'two lifetimes of leases to pass');
      assert.equal(await settled(waiting), false);
      const { state, parked, attempt } = await first.orchestrator.get('long');
      assert.deepEqual([state, parked, attempt], ['running', false, 1]);
      await first.stop();
      const second = await waiting;
      finish.get('long')?.();
      const { record: ended } = await second.orchestrator.result('long', AbortSignal.timeout(60_000));
      assert.deepEqual([ended.state, ended.attempt, begun], ['done', 1, ['long']]);
    },
  );

  natsTest('takes over when the first was cut off, which then decides nothing more', async (context, installed) => {
    const { fleet, begun, finish } = await staged(context, installed);
    const wire = await Wire.to(context, fleet.server.port);
    const first = await atWork(fleet, { servers: wire.url, publishTimeoutMs: 5_000 });
    await first.orchestrator.submit(task('long'));
    await fleet.until(async () => begun.includes('long'), 'the task to begin');
    const waiting = atWork(fleet);
    wire.silence();
    const second = await waiting;
    await assert.rejects(first.store.put(record('late', 9), 0), { code: 'unreachable' });
    wire.speak();
    assert.equal((await first.seat.lost).code, 'superseded');
    finish.get('long')?.();
    const { record: ended } = await second.orchestrator.result('long', AbortSignal.timeout(60_000));
    assert.deepEqual([ended.state, ended.attempt, begun], ['done', 1, ['long']]);
    await assert.rejects(first.store.put({ ...ended, parked: true }, 1), { code: 'unreachable' });
  });

  natsTest('is not disturbed by what the first sent in time and what arrives late', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const wire = await Wire.to(context, fleet.server.port);
    const shared = { name: 'main', log, leaseTtlS: TTL_S, standby: true, publishTimeoutMs: 5_000 };
    const seat = await acquireLeadership({ ...shared, servers: wire.url });
    fleet.onEnd(() => seat.close());
    const store = await natsTaskStore(seat);
    const revision = await store.put(record('open', 1), 0);
    // From here on everything is on its way for a long time: a change, and a task that has only its number so far.
    wire.hold('$KV.a2a_tasks_main.new');
    const puts = Promise.allSettled([store.put(record('new', 2), 0)]);
    await fleet.until(async () => wire.holds, 'the new task to be on its way');
    const change = Promise.allSettled([store.put(record('open', 1, { parked: true }), revision)]);
    const after = await acquireLeadership({ ...shared, servers: fleet.server.url });
    fleet.onEnd(() => after.close());
    const taken = await natsTaskStore(after);
    wire.release();
    assert.deepEqual(
      [...(await puts), ...(await change)].map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    assert.equal((await seat.lost).code, 'superseded');
    assert.deepEqual([(await taken.get('open'))?.record.parked, await taken.get('new')], [false, undefined]);
    // A client that submitted it and received no reply submits it again.
    assert.equal(await taken.lastNumber(), 2);
    await taken.put(record('new', 3), 0);
    assert.equal((await taken.get('new'))?.record.number, 3);
  });

  natsTest('stops waiting when it is aborted, and waits through an outage', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const shared = { servers: fleet.server.url, name: 'main', log, publishTimeoutMs: 5_000 };
    const seat = await acquireLeadership(shared);
    fleet.onEnd(() => seat.close());
    const leaving = new AbortController();
    const lines: string[] = [];
    const heard = { ...log, warn: (line: string) => void lines.push(line) };
    const waiting = acquireLeadership({ ...shared, standby: true, signal: leaving.signal, log: heard });
    waiting.catch(() => {});
    await fleet.until(async () => lines.some((line) => /running as standby/.test(line)), 'it to stand by');
    await fleet.server.kill();
    await fleet.until(async () => lines.some((line) => /no NATS server responds/.test(line)), 'it to notice');
    await fleet.server.up();
    leaving.abort(new Error('enough'));
    await assert.rejects(waiting, { message: 'enough' });
  });
});
