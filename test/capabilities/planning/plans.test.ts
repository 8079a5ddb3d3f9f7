/** Plans, tasks, claims, history and subscriptions through the client, against a host of this process. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Entry } from '../../../src/capabilities/planning/client.ts';
import { HandfastError } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, planningHost } from './support.ts';

/** Returns the error with which a call is refused. */
async function refusal(call: Promise<unknown>): Promise<HandfastError> {
  const error = await call.then(
    () => assert.fail('it was not refused'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof HandfastError);
  return error;
}

describe('dependencies', { timeout: 60_000 }, () => {
  test('a cycle is refused with its tasks in order, whether by dependency or by parent', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const a = await planning.add(plan_id, 'a');
    const b = await planning.add(plan_id, 'b', { deps: [a.task_id] });
    const c = await planning.add(plan_id, 'c', { deps: [b.task_id] });
    const cycle = await refusal(planning.update(plan_id, a.task_id, { addDeps: [c.task_id] }));
    assert.equal(cycle.code, 'planning.cycle');
    assert.deepEqual(cycle.detail.cycle, [a.task_id, c.task_id, b.task_id, a.task_id]);
    assert.match(cycle.message, /a → c → b → a/);
    // A parent waits for its parts.
    const byParent = await refusal(planning.update(plan_id, a.task_id, { deps: [c.task_id], parent: c.task_id }));
    assert.equal(byParent.code, 'planning.cycle');
    assert.equal((await refusal(planning.update(plan_id, c.task_id, { parent: a.task_id }))).code, 'planning.cycle');
    assert.deepEqual((await refusal(planning.update(plan_id, a.task_id, { deps: [a.task_id] }))).detail.cycle, [
      a.task_id,
      a.task_id,
    ]);
    assert.equal((await refusal(planning.add(plan_id, 'd', { deps: ['ffffffffffff'] }))).code, 'planning.unknown_task');
    assert.deepEqual((await planning.task(plan_id, a.task_id)).deps, []);
  });

  test('done comes after dependencies and parts, unless forced or advisory', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const a = await planning.add(plan_id, 'a');
    const b = await planning.add(plan_id, 'b', { deps: [a.task_id] });
    const part = await planning.add(plan_id, 'part of a', { parent: a.task_id });
    const early = await refusal(planning.update(plan_id, a.task_id, { status: 'done' }));
    assert.deepEqual([early.code, early.detail.blocked_by], ['planning.blocked', [part.task_id]]);
    assert.deepEqual(
      (await planning.ready(plan_id)).tasks.map(({ title }) => title),
      ['part of a'],
    );
    await planning.update(plan_id, a.task_id, { deps: [part.task_id] });
    const both = await refusal(planning.update(plan_id, a.task_id, { status: 'done' }));
    const named = [both.detail.blocked_by, (await planning.task(plan_id, a.task_id)).blocked_by];
    assert.deepEqual(named, [[part.task_id], [part.task_id]], 'once, as a part that it also waits for');
    await planning.update(plan_id, part.task_id, { status: 'done' });
    assert.ok((await planning.update(plan_id, a.task_id, { status: 'done' })).done_at !== null);
    assert.deepEqual(
      (await planning.ready(plan_id)).tasks.map(({ title }) => title),
      ['b'],
    );
    await planning.update(plan_id, part.task_id, { status: 'todo' });
    const c = await planning.add(plan_id, 'c', { deps: [part.task_id] });
    assert.equal((await planning.update(plan_id, c.task_id, { status: 'done', force: true })).status, 'done');
    await planning.configure(plan_id, { rules: { deps: 'advisory' } });
    const d = await planning.add(plan_id, 'd', { deps: [part.task_id] });
    assert.equal((await planning.update(plan_id, d.task_id, { status: 'done' })).status, 'done');
    assert.equal((await planning.task(plan_id, b.task_id)).blocked_by.length, 0);
  });
});

describe('columns and rules', { timeout: 60_000 }, () => {
  test('columns are named freely, order and all, and the rules come from them', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const columns = ['idea, or two', 'doing', 'shipped', '__proto__'];
    const plan = await planning.createPlan('release', { columns });
    assert.deepEqual(plan.columns, columns);
    assert.deepEqual([plan.rules.done, plan.rules.active], [['__proto__'], 'shipped']);
    await planning.add(plan.plan_id, 'one');
    const [board] = await planning.boards(plan.plan_id);
    assert.equal(board?.tasks['idea, or two']?.[0]?.title, 'one');
    const shipped = await planning.configure(plan.plan_id, { rules: { done: ['shipped'], active: 'doing' } });
    assert.deepEqual(shipped.rules.done, ['shipped']);
    assert.equal((await refusal(planning.createPlan('x', { columns: ['a', 'a'] }))).code, 'planning.invalid');
    assert.equal(
      (await refusal(planning.configure(plan.plan_id, { rules: { done: ['no'] } }))).code,
      'planning.invalid',
    );
  });

  test('only the allowed moves are made; a renamed column takes its tasks along', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const rules = { moves: { backlog: ['todo'], todo: ['in_progress'], in_progress: ['done', 'todo'] } };
    const { plan_id } = await planning.createPlan('strict', { rules });
    const a = await planning.add(plan_id, 'a');
    const move = await refusal(planning.update(plan_id, a.task_id, { status: 'done' }));
    assert.deepEqual([move.code, move.detail.allowed], ['planning.not_allowed', ['todo']]);
    assert.equal((await refusal(planning.add(plan_id, 'b', { status: 'nowhere' }))).code, 'planning.not_allowed');
    await planning.update(plan_id, a.task_id, { status: 'todo' });
    await planning.configure(plan_id, { rename: { todo: 'to do, soon' } });
    assert.equal((await planning.task(plan_id, a.task_id)).status, 'to do, soon');
    await planning.update(plan_id, a.task_id, { status: 'in_progress' });
    assert.equal((await planning.update(plan_id, a.task_id, { status: 'done' })).status, 'done');
    await planning.update(plan_id, a.task_id, { status: 'backlog', force: true });
  });
});

describe('updates', { timeout: 60_000 }, () => {
  test('of different fields at once are all applied', async (t) => {
    const host = await planningHost(t);
    const agents = await Promise.all(['a', 'b', 'c', 'd'].map((name) => agentOf(t, host, name)));
    const [{ planning }] = agents as [(typeof agents)[0]];
    const { plan_id } = await planning.createPlan();
    const { task_id } = await planning.add(plan_id, 'shared');
    const dep = await planning.add(plan_id, 'dep');
    await Promise.all(
      agents.flatMap(({ planning }, at) => [
        planning.update(plan_id, task_id, { metadata: { [`m${at}`]: at } }),
        planning.update(plan_id, task_id, at === 0 ? { title: 'new' } : at === 1 ? { priority: 7 } : { assignee: 'x' }),
        planning.update(plan_id, task_id, { addDeps: [dep.task_id] }),
      ]),
    );
    const task = await planning.task(plan_id, task_id);
    assert.deepEqual(task.metadata, { m0: 0, m1: 1, m2: 2, m3: 3 });
    assert.deepEqual([task.title, task.priority, task.assignee, task.deps], ['new', 7, 'x', [dep.task_id]]);
    const cleared = await planning.update(plan_id, task_id, { clear: ['assignee', 'deps'], metadata: { m0: null } });
    assert.deepEqual([cleared.assignee, cleared.deps, cleared.metadata], ['', [], { m1: 1, m2: 2, m3: 3 }]);
  });

  test('with a revision that is old is a conflict that has both sides', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const { task_id, revision } = await planning.add(plan_id, 'a');
    const now = await planning.update(plan_id, task_id, { title: 'theirs', ifRevision: revision });
    const error = await refusal(planning.update(plan_id, task_id, { title: 'mine', ifRevision: revision }));
    assert.equal(error.code, 'planning.conflict');
    assert.deepEqual(error.detail.yours, { if_revision: 1, changes: { title: 'mine' } });
    const current = error.detail.current as { title: string; revision: number };
    assert.deepEqual([current.title, current.revision], ['theirs', 2]);
    // A comment changes no revision.
    await planning.comment(plan_id, task_id, 'why?');
    assert.equal((await planning.task(plan_id, task_id)).revision, now.revision);
  });

  test('the same key is the same plan and the same task', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const one = await planning.createPlan('p', { key: 'k' });
    assert.equal((await planning.createPlan('p', { key: 'k' })).plan_id, one.plan_id);
    const a = await planning.add(one.plan_id, 'a', { key: 'x' });
    assert.equal((await planning.add(one.plan_id, 'a', { key: 'x' })).task_id, a.task_id);
    assert.equal((await planning.tasks(one.plan_id)).length, 1);
  });
});

describe('claims', { timeout: 60_000 }, () => {
  test('of many agents at once never get one task twice, by priority and then by age', async (t) => {
    const host = await planningHost(t);
    const agents = await Promise.all(Array.from({ length: 8 }, (_, at) => agentOf(t, host, `a${at}`)));
    const { planning } = agents[0]!;
    const { plan_id } = await planning.createPlan();
    for (let at = 0; at < 12; at += 1) await planning.add(plan_id, `t${at}`, { priority: at === 11 ? 1 : 0 });
    const claims = await Promise.all(
      agents.flatMap(({ planning }) => [planning.claim(plan_id), planning.claim(plan_id)]),
    );
    const taken = claims.filter((claim) => claim !== undefined);
    assert.equal(taken.length, 12);
    assert.equal(new Set(taken.map(({ id }) => id)).size, 12);
    assert.equal(taken[0]?.task.title, 't11');
    assert.equal(taken[1]?.task.title, 't0');
    assert.equal(taken[0]?.task.status, 'in_progress');
    await Promise.all(taken.map((claim) => claim.done('it works')));
    assert.deepEqual(await planning.ready(plan_id), { tasks: [], total: 0, claimed: 0, open: 0 });
  });

  test('a stale holder cannot write, and its error has the task as it is now', async (t) => {
    const host = await planningHost(t);
    const [ana, bo] = [await agentOf(t, host, 'ana'), await agentOf(t, host, 'bo')];
    const { plan_id } = await ana.planning.createPlan();
    const { task_id } = await ana.planning.add(plan_id, 'a');
    const stale = await ana.planning.claim(plan_id, { leaseMs: 100, renew: false });
    assert.ok(stale !== undefined);
    assert.equal((await refusal(bo.planning.claim(plan_id, { taskId: task_id }))).code, 'planning.claimed');
    assert.equal((await refusal(bo.planning.update(plan_id, task_id, { status: 'done' }))).code, 'planning.claimed');
    // Fields on which the work does not depend may change.
    await bo.planning.update(plan_id, task_id, { description: 'more' });
    const fresh = await bo.planning.claim(plan_id, { waitMs: 30_000 });
    assert.equal(fresh?.fence, 2);
    const lost = await refusal(stale.update({ status: 'done' }));
    assert.equal(lost.code, 'planning.claim_lost');
    assert.equal(stale.signal.aborted, true);
    assert.deepEqual((lost.detail.current as { fence: number }).fence, 2);
    await fresh?.done();
    const actions: string[] = [];
    for await (const { action, fence } of ana.planning.history(plan_id, task_id))
      actions.push(`${action} ${fence ?? ''}`);
    assert.deepEqual(actions, ['updated 2', 'claimed 2', 'expired 1', 'updated ', 'claimed 1', 'created ']);
  });

  test('a lease is renewed while its holder works, and released it returns', async (t) => {
    const host = await planningHost(t);
    const { planning } = await agentOf(t, host, 'ana');
    const { plan_id } = await planning.createPlan();
    await planning.add(plan_id, 'a', { status: 'todo' });
    // Time passes for the holder alone, by as much as the test says.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    {
      await using claim = await planning.claim(plan_id, { leaseMs: 60_000 });
      assert.ok(claim !== undefined);
      const { mock } = t.mock.method(claim, 'renew');
      for (let renewals = 1; renewals <= 3; renewals += 1) {
        t.mock.timers.tick(20_000);
        assert.equal(mock.callCount(), renewals);
        // The host starts the lease again, even the third time, when the first one would have ended.
        await mock.calls.at(-1)?.result;
        assert.equal((await planning.task(plan_id, claim.id)).claim?.fence, 1);
      }
      assert.equal(claim.signal.aborted, false);
    }
    t.mock.timers.reset();
    const [task] = await planning.tasks(plan_id);
    assert.deepEqual([task?.status, task?.claim, task?.ready], ['todo', null, true]);
  });

  test('a repeated claim with its key is the same claim, and an agent id alone is no identity', async (t) => {
    const principals = [
      { name: 'one', capabilities: ['planning'] },
      { name: 'two', capabilities: ['planning'] },
    ];
    const host = await planningHost(t, { principals });
    const mine = await agentOf(t, host, 'same', 'one');
    const other = await agentOf(t, host, 'same', 'two');
    const { plan_id } = await mine.planning.createPlan();
    await mine.planning.share(plan_id, 'two', 'write');
    await mine.planning.add(plan_id, 'a');
    await mine.planning.add(plan_id, 'b');
    const first = await mine.planning.claim(plan_id, { key: 'k' });
    assert.equal((await mine.planning.claim(plan_id, { key: 'k' }))?.id, first?.id);
    const second = await other.planning.claim(plan_id, { key: 'k' });
    assert.notEqual(second?.id, first?.id);
    const stolen = other.planning.update(plan_id, first!.id, { status: 'done', fence: first!.fence });
    assert.equal((await refusal(stolen)).code, 'planning.claim_lost');
  });

  test('a task that is assigned goes to its assignee alone', async (t) => {
    const host = await planningHost(t);
    const [ana, bo] = [await agentOf(t, host, 'ana'), await agentOf(t, host, 'bo')];
    const { plan_id } = await ana.planning.createPlan();
    const { task_id } = await ana.planning.add(plan_id, 'a', { assignee: 'bo' });
    assert.equal(await ana.planning.claim(plan_id), undefined);
    assert.equal((await refusal(ana.planning.claim(plan_id, { taskId: task_id }))).code, 'planning.claimed');
    assert.equal((await bo.planning.claim(plan_id))?.id, task_id);
  });
});

describe('whose plans', { timeout: 60_000 }, () => {
  const principals = ['one', 'two', 'three'].map((name) => ({ name, capabilities: ['planning'] }));

  test('a plan is its principal’s, private to an agent if wanted, and shared for reading or writing', async (t) => {
    const host = await planningHost(t, { principals });
    const one = await agentOf(t, host, 'ana', 'one');
    const two = await agentOf(t, host, 'ana', 'two');
    const { plan_id } = await one.planning.createPlan('mine');
    assert.deepEqual(await two.planning.plans(), []);
    assert.equal((await refusal(two.planning.plan(plan_id))).code, 'planning.unknown_plan');
    const sibling = await agentOf(t, host, 'other', 'one');
    const own = await one.planning.createPlan('own', { private: true });
    assert.deepEqual(
      (await sibling.planning.plans()).map(({ name }) => name),
      ['mine'],
    );
    assert.equal((await refusal(sibling.planning.plan(own.plan_id))).code, 'planning.unknown_plan');
    await one.planning.share(plan_id, 'two', 'read');
    assert.deepEqual(
      (await two.planning.plans()).map(({ name, owner }) => [name, owner]),
      [['mine', 'one']],
    );
    assert.equal((await refusal(two.planning.add(plan_id, 'x'))).code, 'planning.read_only');
    await one.planning.share(plan_id, 'two', 'write');
    await two.planning.add(plan_id, 'x');
    assert.equal((await refusal(two.planning.archivePlan(plan_id))).code, 'planning.read_only');
    assert.equal((await refusal(two.planning.share(plan_id, 'three', 'read'))).code, 'planning.read_only');
    await one.planning.share(plan_id, 'two', 'none');
    assert.equal((await refusal(two.planning.plan(plan_id))).code, 'planning.unknown_plan');
  });

  test('a grant narrows a principal to reading, and to plans it does not share', async (t) => {
    const host = await planningHost(t, {
      principals: [
        { name: 'reader', grants: { planning: { access: 'read' } } },
        { name: 'writer', grants: { planning: { share: false } } },
        { name: 'none', capabilities: ['tools'] },
      ],
    });
    const reader = await agentOf(t, host, 'r', 'reader');
    assert.equal((await refusal(reader.planning.createPlan())).code, 'planning.read_only');
    const writer = await agentOf(t, host, 'w', 'writer');
    const { plan_id } = await writer.planning.createPlan();
    assert.equal((await refusal(writer.planning.share(plan_id, 'reader', 'read'))).code, 'planning.read_only');
    await assert.rejects(agentOf(t, host, 'n', 'none'), { code: 'no_caps' });
  });
});

describe('history', { timeout: 60_000 }, () => {
  test('has every change with before and after, who made it, and comments', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const { task_id } = await planning.add(plan_id, 'a');
    await planning.update(plan_id, task_id, { title: 'b', comment: 'clearer' });
    await planning.comment(plan_id, task_id, 'said');
    await planning.archive(plan_id, task_id);
    assert.equal((await refusal(planning.update(plan_id, task_id, { title: 'c' }))).code, 'planning.archived');
    assert.deepEqual(await planning.tasks(plan_id), []);
    await planning.restore(plan_id, task_id);
    await planning.delete(plan_id, task_id);
    const entries: Entry[] = [];
    for await (const entry of planning.history(plan_id)) entries.push(entry);
    assert.deepEqual(
      entries.map(({ seq, action, agent, comment }) => [seq, action, agent, comment]),
      [
        [1, 'created', 'ana', undefined],
        [2, 'created', 'ana', undefined],
        [3, 'updated', 'ana', 'clearer'],
        [4, 'commented', 'ana', 'said'],
        [5, 'archived', 'ana', undefined],
        [6, 'restored', 'ana', undefined],
        [7, 'deleted', 'ana', undefined],
      ],
    );
    assert.deepEqual(entries[2]?.changes, { title: ['a', 'b'] });
    // The history still has a deleted task.
    assert.equal((entries[6]!.changes.task![0] as { title: string }).title, 'b');
  });

  test('a task others wait for is deleted only by force, a plan only when it is archived', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const a = await planning.add(plan_id, 'a');
    const b = await planning.add(plan_id, 'b', { deps: [a.task_id] });
    assert.equal((await refusal(planning.delete(plan_id, a.task_id))).code, 'planning.blocked');
    assert.deepEqual(await planning.delete(plan_id, a.task_id, { force: true }), [b.task_id]);
    assert.deepEqual((await planning.task(plan_id, b.task_id)).deps, []);
    assert.equal((await refusal(planning.deletePlan(plan_id))).code, 'planning.blocked');
    await planning.archivePlan(plan_id);
    assert.deepEqual(await planning.plans(), []);
    assert.equal((await planning.plans({ includeArchived: true })).length, 1);
    assert.equal((await refusal(planning.add(plan_id, 'c'))).code, 'planning.archived');
    assert.deepEqual(await planning.deletePlan(plan_id), { tasks: 1, entries: 6 });
    assert.deepEqual(await planning.plans({ includeArchived: true }), []);
  });

  test('limits are refused by their name, and quotas with the bytes', async (t) => {
    const host = await planningHost(t, { planning: { maxPlans: 1, maxTasks: 2, quotaBytes: 20_000 } });
    const { planning } = await agentOf(t, host);
    const { plan_id } = await planning.createPlan();
    assert.deepEqual((await refusal(planning.createPlan())).detail.limit, 'max_plans');
    const { task_id } = await planning.add(plan_id, 'a');
    await planning.add(plan_id, 'b');
    const full = await refusal(planning.add(plan_id, 'c'));
    assert.deepEqual([full.code, full.detail.limit], ['planning.full', 'max_tasks']);
    assert.equal((await refusal(planning.update(plan_id, task_id, { title: ' '.repeat(9) }))).code, 'planning.invalid');
    assert.equal((await refusal(planning.update(plan_id, task_id, { title: 'a\nb' }))).code, 'planning.invalid');
    const big = await refusal(planning.update(plan_id, task_id, { description: 'x'.repeat(30_000) }));
    assert.equal(big.code, 'quota_exceeded');
    // A refused change was not made, neither on disk nor in memory.
    assert.equal((await planning.task(plan_id, task_id)).description, '');
    assert.equal((await planning.update(plan_id, task_id, { title: 'fits' })).title, 'fits');
  });
});

describe('subscriptions', { timeout: 60_000 }, () => {
  test('of a plan send what is stored behind a cursor, then what changes; of all plans what may be read', async (t) => {
    const host = await planningHost(t);
    const { planning } = await agentOf(t, host);
    const watcher = await agentOf(t, host, 'watcher');
    const { plan_id } = await planning.createPlan();
    const { task_id } = await planning.add(plan_id, 'a');
    const seen: string[] = [];
    const all: string[] = [];
    const one = (async () => {
      for await (const { seq, action } of watcher.planning.watch(plan_id, { after: 1 })) {
        seen.push(`${seq} ${action}`);
        if (seq === 4) return;
      }
    })();
    const every = (async () => {
      for await (const { plan_id: from, action } of watcher.planning.watch()) {
        all.push(`${from === plan_id ? 'one' : 'two'} ${action}`);
        if (all.length === 4) return;
      }
    })();
    await watcher.ping();
    await planning.update(plan_id, task_id, { status: 'todo' });
    await planning.comment(plan_id, task_id, 'x');
    const two = await planning.createPlan('two');
    await planning.add(two.plan_id, 'b');
    await Promise.all([one, every]);
    assert.deepEqual(seen, ['2 created', '3 updated', '4 commented']);
    assert.deepEqual(all.sort(), ['one commented', 'one updated', 'two created', 'two created']);
  });

  test('end when their plan is deleted', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const watching = (async () => {
      for await (const _ of planning.watch(plan_id));
    })();
    const ended = refusal(watching);
    await planning.plan(plan_id);
    await planning.deletePlan(plan_id, { force: true });
    assert.equal((await ended).code, 'planning.unknown_plan');
  });
});

test('everything is there after a restart; a claim has its whole lease again, and its key and fence hold', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const before = await planningHost(t, { stateFile });
  const ana = await agentOf(t, before);
  const { plan_id } = await ana.planning.createPlan('p', { columns: ['a', 'b', 'c'] });
  const first = await ana.planning.add(plan_id, 'first');
  await ana.planning.add(plan_id, 'second', { deps: [first.task_id] });
  const claim = await ana.planning.claim(plan_id, { leaseMs: 1_500, renew: false, key: 'k' });
  await before.close(0);
  const after = await planningHost(t, { stateFile });
  const again = await agentOf(t, after);
  const [board] = await again.planning.boards(plan_id);
  assert.deepEqual({ ...board?.counts }, { a: 1, b: 1, c: 0 });
  assert.equal((await again.planning.claim(plan_id, { key: 'k' }))?.fence, claim?.fence);
  const other = await agentOf(t, after, 'bo');
  assert.equal(await other.planning.claim(plan_id), undefined);
  const next = await other.planning.claim(plan_id, { waitMs: 30_000, key: 'k' });
  // The holder of the first claim renews nothing here.
  assert.deepEqual([next?.id, next?.fence], [first.task_id, 2]);
});

test('a host that takes the state over gives every claim its whole lease, however long it has been up', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  let upMs = 0;
  let ring = (): void => {};
  const timer = (work: () => void): (() => void) => {
    ring = work;
    return () => {};
  };
  const clock = { monotonic: () => upMs, timer };
  // Up before the other host, and for much longer than the lease when it takes the state over.
  const heir = await planningHost(t, { stateFile, planning: { clock } });
  const bo = await agentOf(t, heir, 'bo');
  const holder = await planningHost(t, { stateFile });
  const ana = await agentOf(t, holder);
  const { plan_id } = await ana.planning.createPlan('p');
  await ana.planning.add(plan_id, 'first');
  const claim = await ana.planning.claim(plan_id, { leaseMs: 20_000, renew: false });
  upMs = 3_600_000;
  await holder.close(0);
  const held = (await bo.planning.task(plan_id, claim?.id ?? '')).claim;
  assert.equal(held?.expires_in_ms, 20_000);
  assert.equal(await bo.planning.claim(plan_id), undefined);
  upMs += 19_999;
  ring();
  assert.equal(await bo.planning.claim(plan_id), undefined);
  upMs += 2;
  ring();
  assert.equal((await bo.planning.claim(plan_id))?.fence, 2);
});
