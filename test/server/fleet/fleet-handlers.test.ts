/**
 * Replies to operators of a fleet.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FleetClient } from '../../../src/bridge/fleet-client.ts';
import type { RpcCall } from '../../../src/control/contract/handlers.ts';
import type { ControlClient } from '../../../src/control-client/control.ts';
import { fleetHandlers } from '../../../src/server/fleet/fleet-handlers.ts';
import { fail } from '../../../src/wire/errors.ts';
import { publishedProblem } from '../../control/support/published-schema.ts';
import { fleet, guardedStore } from '../../fleet/orchestrator/support/fleet.ts';
import { repository } from '../../fleet/support/git-repository.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const OPERATOR = { caller: { principal: { name: 'operator', admin: true } } };

/** Starts a fleet of one worker, and its operator, for whom everything ends with `stop`. */
async function operated(t: TestContext, repository?: string) {
  const { bus, journal, orchestrator } = await fleet(t, {
    // As on a disk: an event is reported before it is stored.
    store: guardedStore(() => new Promise((resolve) => setTimeout(resolve, 20))),
    ...(repository !== undefined && { repositories: new Map([['w', repository]]) }),
  });
  const worker = await bus.worker('w');
  const stopping = new AbortController();
  const handlers = fleetHandlers({ name: 'main', orchestrator, buses: [], journal, stopping: stopping.signal });
  const control = {
    state: 'open',
    server: { methods: handlers.map(({ method }) => method.name) },
    async call(name: string, params: object) {
      const { handle } = handlers.find(({ method }) => method.name === name)!;
      const call = {
        ...OPERATOR,
        signal: new AbortController().signal,
        yieldSlot: () => () => {},
      } as unknown as RpcCall;
      const result = JSON.parse(JSON.stringify(await handle(params as never, call)));
      assert.equal(publishedProblem(name, { result }), undefined);
      return result;
    },
  } as unknown as ControlClient;
  return {
    bus,
    orchestrator,
    worker,
    control,
    client: new FleetClient(control),
    stop: () => stopping.abort(fail('interrupted', 'the fleet is stopping')),
  };
}

/** Returns the reports about a task that its worker reports as done, and the record at the end. */
async function followed(
  { orchestrator, worker, client, stop }: Awaited<ReturnType<typeof operated>>,
  artifacts: Readonly<Record<string, unknown>>,
  stopAfter?: string,
) {
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  const events = client.follow(task_id);
  const told: string[] = [];
  for (;;) {
    const { value, done } = await events.next();
    if (done) return { told, record: value };
    told.push(value.kind);
    // Not waited for: when it is stored, all may be reported.
    if (value.kind === 'accepted') void worker.report(task_id, 'done', { artifacts }, 1);
    if (value.kind === stopAfter) stop();
  }
}

const BEGINNING = ['submitted', 'decided', 'accepted', 'result', 'ended'];

test('a reader of a task needs nothing more of the fleet once all is reported', async (t) => {
  const { told, record } = await followed(await operated(t), {}, 'ended');
  assert.deepEqual(told, [...BEGINNING, 'verified']);
  assert.equal(record.verified, 'not_checked');
});

// A follower that waits for more, waits 25 s.
test('a reader of a task receives whether its changes were found', { timeout: 20_000 }, async (t) => {
  const folder = temporaryFolder(t);
  await repository(folder);
  const { told, record } = await followed(await operated(t, folder), { files_changed: ['a.txt', 'invented.txt'] });
  assert.deepEqual(told, [...BEGINNING, 'verified']);
  assert.equal(record.verified, 'no');
});

test('a fleet that stops while it checks a result does not hold up readers of its task', async (t) => {
  const folder = temporaryFolder(t);
  await repository(folder);
  const { told, record } = await followed(await operated(t, folder), { files_changed: ['a.txt'] }, 'ended');
  assert.deepEqual(told, BEGINNING);
  assert.deepEqual([record.state, record.verified], ['done', null]);
});

test('every reply to an operator is what is published', async (t) => {
  const { client, worker } = await operated(t);
  const { task_id } = await client.submit({ brief: 'x', priority: 'high', required_mcp: ['not-there'] });
  assert.match((await client.explain(task_id)).explanation.sentence, /./);
  assert.equal((await client.explain({ brief: 'y' })).explanation.chosen, 'w');
  assert.deepEqual(
    (await client.list()).map((task) => task.task_id),
    [task_id],
  );
  const [{ profile, announced } = {}] = await client.workers();
  assert.ok(profile && announced);
  assert.equal((await client.status()).name, 'main');
  await client.drain('w', false);
  assert.equal((await client.cancel(task_id, 'not needed')).cancel_requested, true);
  const [first] = await client.submitBatch([{ brief: 'x' }, { brief: 'y' }]);
  void worker.report(first!.task_id, 'done', {}, 1);
  assert.equal((await client.ended(first!.task_id)).state, 'done');
  assert.equal((await client.get(first!.task_id)).attempts.length, 1);
});

test('a bus that carries nothing is reported with the workers', async (t) => {
  const { bus, client } = await operated(t);
  assert.deepEqual(await client.down(), []);
  const [ready] = await client.workers();
  assert.deepEqual([ready?.status, ready?.unknown_since], ['ready', null]);
  const outage = { reason: 'NATS at 127.0.0.1 does not respond', since: 1_700_000_000_000 };
  Object.assign(bus, { down: () => outage });
  assert.deepEqual(await client.down(), [outage]);
  // The status from before the loss of the bus is not its status now.
  const [worker] = await client.workers();
  assert.deepEqual([worker?.status, worker?.unknown_since], ['unknown', outage.since]);
  Object.assign(bus, { down: () => undefined });
  assert.equal((await client.workers())[0]?.status, 'ready');
});

test('parts of a millisecond and of a task are rounded down', async (t) => {
  const { client, control } = await operated(t);
  const { task_id } = await client.submit({ brief: 'x' });
  assert.equal((await client.list({ limit: 1.5 })).length, 1);
  for (const method of ['fleet.task.result', 'fleet.task.follow'])
    await control.call(method, { task_id, wait_ms: 1.5 });
});
