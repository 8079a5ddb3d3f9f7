/** The dispatcher of plans over a scripted fleet: more ready tasks than a page has, and retried runs. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { PlanningClient } from '../../../src/capabilities/planning/client.ts';
import { type DispatchedTask, Dispatcher } from '../../../src/capabilities/planning/dispatch.ts';
import type { CommandFleet, FleetTask } from '../../../src/packages/capability.ts';
import { fail } from '../../../src/wire/errors.ts';
import { agentOf, planningHost } from './support.ts';

/** A fleet that ends each task at once, as its brief says: `error`, `done`, or after a delay: `slow`. */
class ScriptedFleet implements CommandFleet {
  readonly name = 'scripted';
  readonly tasks = new Map<string, FleetTask>();
  readonly submitted: string[] = [];

  async submit({ task_id: id = '', brief }: Parameters<CommandFleet['submit']>[0]): Promise<FleetTask> {
    this.submitted.push(brief);
    return this.set(id, brief.startsWith('slow') ? 'running' : brief.startsWith('error') ? 'error' : 'done', brief);
  }

  set(id: string, state: string, summary: string, tokens_spent = 1): FleetTask {
    const task = { task_id: id, state, parked: false, worker: 'w', tokens_spent, dead_letter: null, verified: null };
    const result = { summary: `${summary}: ${state}` };
    this.tasks.set(id, { ...task, verification: [], result } as unknown as FleetTask);
    return this.tasks.get(id) as FleetTask;
  }

  async get(id: string): Promise<FleetTask> {
    return this.tasks.get(id) ?? assertKnown(id);
  }

  cancel = (id: string): Promise<FleetTask> => Promise.resolve(this.set(id, 'canceled', 'cancelled'));

  async *follow(id: string, { signal }: { readonly signal?: AbortSignal } = {}) {
    yield { kind: 'accepted' };
    for (;;) {
      const task = await this.get(id);
      if (task.state !== 'running') return task;
      await pause(20, undefined, { signal });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

function assertKnown(id: string): never {
  throw fail('not_found', `no task ${id}`);
}

async function place(t: TestContext) {
  const host = await planningHost(t);
  const { planning } = await agentOf(t, host, 'fleet');
  const { plan_id } = await planning.createPlan('p');
  return { planning, plan_id, fleet: new ScriptedFleet() };
}

function dispatcherOf(planId: string, more: Partial<ConstructorParameters<typeof Dispatcher>[0]> = {}) {
  const changes: DispatchedTask[] = [];
  const options = {
    planId,
    parallel: 16,
    retry: false,
    spec: {},
    onChange: (change: DispatchedTask) => changes.push(change),
  };
  return { dispatcher: new Dispatcher({ ...options, ...more }), changes };
}

async function addMany(planning: PlanningClient, planId: string, count: number, titleOf: (at: number) => string) {
  const add = async (at: number) => (await planning.add(planId, titleOf(at))).task_id;
  const ids: string[] = [];
  for (let at = 0; at < count; at += 100) {
    ids.push(...(await Promise.all(Array.from({ length: Math.min(100, count - at) }, (_, more) => add(at + more)))));
  }
  return ids;
}

test('tasks behind more than 1,000 that failed are dispatched, and so is one that is named', {
  timeout: 240_000,
}, async (t) => {
  const { planning, plan_id, fleet } = await place(t);
  const failing = await addMany(planning, plan_id, 1_100, (at) => `error ${at}`);
  const good = await addMany(planning, plan_id, 20, (at) => `good ${at}`);
  const [last] = await addMany(planning, plan_id, 1, () => 'named');
  // A page ends where its message would become too long, or at 1,000.
  const named = dispatcherOf(plan_id, { taskIds: [last as string] });
  await named.dispatcher.run({ planning, fleet }, new AbortController().signal);
  assert.deepEqual(
    named.dispatcher.outcomes.map(({ state }) => state),
    ['done'],
  );
  const { dispatcher } = dispatcherOf(plan_id);
  await dispatcher.run({ planning, fleet }, new AbortController().signal);
  const states = new Map(dispatcher.outcomes.map(({ task_id, state }) => [task_id, state]));
  assert.deepEqual([...new Set(failing.map((id) => states.get(id)))], ['error']);
  assert.deepEqual([...new Set(good.map((id) => states.get(id)))], ['done']);
  assert.equal(fleet.submitted.length, 1_121);
  assert.equal(new Set(fleet.submitted).size, 1_121);
});

test('pages of ready tasks have each once, in the order of claims', async (t) => {
  const { planning, plan_id } = await place(t);
  const ids = await addMany(planning, plan_id, 250, (at) => `t${at}`);
  await planning.update(plan_id, ids[200] as string, { priority: 1 });
  const seen: string[] = [];
  for (let after: string | undefined; ; ) {
    const { tasks, next, total } = await planning.ready(plan_id, { limit: 100, after });
    seen.push(...tasks.map(({ task_id }) => task_id));
    assert.equal(total, 250);
    if (next === undefined) break;
    after = next;
  }
  assert.deepEqual(seen, [ids[200], ...ids.slice(0, 200), ...ids.slice(201)]);
  await planning.delete(plan_id, ids[5] as string);
  await assert.rejects(planning.ready(plan_id, { after: ids[5] }), { code: 'planning.unknown_task' });
});

test('a failed run that is sent again comes back into its plan, while the dispatcher works and with the next one', {
  timeout: 60_000,
}, async (t) => {
  const { planning, plan_id, fleet } = await place(t);
  const [failing, slow, other] = (
    await Promise.all(['error a', 'slow b', 'error c'].map((title) => planning.add(plan_id, title)))
  ).map(({ task_id }) => task_id) as [string, string, string];
  const runOf = async (id: string) =>
    ((await planning.task(plan_id, id)).metadata.fleet as { task_id: string }).task_id;
  const until = async (fits: () => boolean | Promise<boolean>): Promise<void> => {
    while (!(await fits())) await pause(20);
  };
  const first = dispatcherOf(plan_id);
  const running = first.dispatcher.run({ planning, fleet }, new AbortController().signal);
  await until(() => first.changes.filter(({ state }) => state === 'error').length === 2);
  fleet.set(await runOf(failing), 'running', 'again');
  await until(async () => (await planning.task(plan_id, failing)).claim !== null);
  fleet.set(await runOf(failing), 'done', 'again');
  await until(async () => (await planning.task(plan_id, failing)).status === 'done');
  fleet.set(await runOf(slow), 'done', 'slow');
  await running;
  const stateOf = (id: string) => first.dispatcher.outcomes.find(({ task_id }) => task_id === id)?.state;
  assert.deepEqual([failing, slow, other].map(stateOf), ['done', 'done', 'error']);

  // The retry failed with another result, which also gets into the plan, once.
  fleet.set(await runOf(other), 'error', 'again', 2);
  for (let times = 0; times < 2; times += 1) {
    const { dispatcher } = dispatcherOf(plan_id);
    await dispatcher.run({ planning, fleet }, new AbortController().signal);
    assert.deepEqual(
      dispatcher.outcomes.map(({ state, tokens_spent }) => [state, tokens_spent]),
      [['error', 2]],
    );
  }
  const comments: string[] = [];
  for await (const { comment } of planning.history(plan_id, other)) if (comment !== undefined) comments.push(comment);
  assert.equal(comments.length, 2);
  assert.match(
    comments[0] as string,
    /again: error\nafter "handfast task retry .*": "handfast plan dispatch .*" brings/,
  );
  // Then it is done, with `--retry` as well: it starts no second run.
  fleet.set(await runOf(other), 'done', 'at last', 3);
  await dispatcherOf(plan_id, { retry: true }).dispatcher.run({ planning, fleet }, new AbortController().signal);
  assert.equal((await planning.task(plan_id, other)).status, 'done');
  assert.equal(fleet.submitted.length, 3);
});

test('of a run that was sent again while another agent has its task, the dispatcher says where its result is', async (t) => {
  const { planning, plan_id, fleet } = await place(t);
  const { task_id } = await planning.add(plan_id, 'error a');
  await dispatcherOf(plan_id).dispatcher.run({ planning, fleet }, new AbortController().signal);
  await planning.update(plan_id, task_id, { status: 'done' });
  const run = [...fleet.tasks.keys()][0] as string;
  fleet.set(run, 'done', 'again');
  const { dispatcher } = dispatcherOf(plan_id, { taskIds: [task_id] });
  await dispatcher.run({ planning, fleet }, new AbortController().signal);
  const [outcome] = dispatcher.outcomes;
  assert.equal(outcome?.state, 'done');
  assert.match(outcome?.reason ?? '', new RegExp(`it is in "done".* handfast task result ${run}$`));
});
