/**
 * Claims that wait: the cost of a change is counted, not timed. It depends neither on the number of waiting claims nor on the
 * number of other agents' tasks; each task wakes one claim, the one that waited longest, and none is forgotten.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { atOnce } from '../../../src/base/turns.ts';
import { ClaimQueue } from '../../../src/capabilities/planning/claim-queue.ts';
import { TaskGraph } from '../../../src/capabilities/planning/graph.ts';
import { DEFAULT_COLUMNS, rulesFor } from '../../../src/capabilities/planning/rules.ts';
import type { StoredTask } from '../../../src/capabilities/planning/stored.ts';
import { connect } from '../../../src/connect.ts';
import { agentOf, planningHost } from './support.ts';

/** Returns a queue over a count of ready tasks, which counts the queries and the attempts. */
function countedQueue() {
  const ready = new Map<string, number>();
  const counts = { queries: 0, attempts: 0 };
  const queue = new ClaimQueue((_, assignee) => {
    counts.queries += 1;
    return ready.get(assignee) ?? 0;
  });
  const taken: string[] = [];
  const claim = (agent: string, signal = new AbortController().signal) =>
    queue.claim({ planId: 'p', agent, waitMs: 60_000, context: { signal, yieldSlot: () => () => {} } }, async () => {
      counts.attempts += 1;
      const from = [agent, ''].find((name) => (ready.get(name) ?? 0) > 0);
      if (from === undefined) return { task: null };
      ready.set(from, (ready.get(from) ?? 0) - 1);
      taken.push(agent);
      return { task: {} };
    });
  const add = (assignee: string, tasks = 1): void => {
    ready.set(assignee, (ready.get(assignee) ?? 0) + tasks);
    queue.notify('p', [assignee]);
  };
  return { claim, add, taken, counts, queue };
}

/** Returns the cost of one change while `waiting` claims of other agents wait. */
async function costWith(waiting: number) {
  const { claim, add, taken, counts } = countedQueue();
  const ends = new AbortController();
  const claims = Array.from({ length: waiting }, (_, at) => claim(`agent-${at}`, ends.signal));
  await turn();
  const measured = async (change: () => void) => {
    Object.assign(counts, { queries: 0, attempts: 0 });
    change();
    await turn();
    return { ...counts };
  };
  const costs = {
    ofAnother: await measured(() => add('another')),
    forNone: await measured(() => add('')),
    forOne: await measured(() => add('agent-5')),
    twice: await measured(() => add('', 2)),
  };
  assert.deepEqual(taken, ['agent-0', 'agent-5', 'agent-1', 'agent-2']);
  ends.abort();
  await Promise.all(claims);
  return costs;
}

test('a change costs the same behind ten waiting claims and behind a thousand, and wakes one for each task', async () => {
  const few = await costWith(10);
  assert.deepEqual(few.ofAnother, { queries: 0, attempts: 0 });
  assert.equal(few.forNone.attempts, 1);
  assert.equal(few.forOne.attempts, 1);
  assert.equal(few.twice.attempts, 2);
  assert.ok(few.twice.queries <= 3, `${few.twice.queries} queries`);
  assert.deepEqual(await costWith(1_000), few);
});

test('a task whose woken claim was cancelled goes to the next one', async () => {
  const { claim, add, taken } = countedQueue();
  const cancelled = new AbortController();
  const first = claim('first', cancelled.signal);
  const second = claim('second');
  await turn();
  add('');
  cancelled.abort();
  assert.deepEqual(await first, { task: null });
  assert.deepEqual(await second, { task: {} });
  assert.deepEqual(taken, ['second']);
});

test('the next ready task of an agent is found without looking at those of others', () => {
  const rules = rulesFor(DEFAULT_COLUMNS);
  /** Returns the number of tasks read to find one behind `others` tasks of other agents. */
  const readsBehind = (others: number): number => {
    let reads = 0;
    const taskOf = (at: number, assignee: string): StoredTask => {
      const fields = { title: 't', status: 'backlog', description: '', deps: [], metadata: {}, parent: '' };
      const times = { created_at: 0, updated_at: 0, done_at: null, first: at, seq: at };
      const task = { ...fields, ...times, archived: false, revision: 1, fence: 0, claim: null, task_id: `t${at}` };
      const priority = assignee === '' ? 0 : 9;
      return Object.defineProperty({ ...task, assignee, priority }, 'priority', {
        get() {
          reads += 1;
          return priority;
        },
      });
    };
    const tasks = Array.from({ length: others }, (_, at) => taskOf(at + 1, `other-${at % 100}`));
    const graph = atOnce(new TaskGraph(rules).fill([...tasks, taskOf(others + 1, '')]));
    reads = 0;
    assert.equal(graph.next('ana')?.task_id, `t${others + 1}`);
    assert.equal(graph.readyFor(''), 1);
    return reads;
  };
  assert.equal(readsBehind(19_000), readsBehind(10));
});

test('hundreds of waiting agents get one task each, and none waits beside a ready one', {
  timeout: 120_000,
}, async (t) => {
  const host = await planningHost(t);
  const { planning } = await agentOf(t, host);
  const { plan_id } = await planning.createPlan('many');
  for (let at = 0; at < 50; at += 1) await planning.add(plan_id, `of another ${at}`, { assignee: 'another' });
  const agents = await Promise.all(Array.from({ length: 20 }, (_, at) => agentOf(t, host, `a${at}`)));
  const claims = agents.flatMap(({ planning }) =>
    Array.from({ length: 10 }, () => planning.claim(plan_id, { waitMs: 60_000, renew: false })),
  );
  await Promise.all(agents.map((agent) => agent.ping()));
  await Promise.all(agents.map((_, at) => planning.add(plan_id, `own ${at}`, { assignee: `a${at}` })));
  await Promise.all(Array.from({ length: 180 }, (_, at) => planning.add(plan_id, `t${at}`)));
  const claimed = await Promise.all(claims);
  assert.equal(new Set(claimed.map((claim) => claim?.id)).size, 200);
  assert.ok(claimed.every((claim) => claim !== undefined && claim.task.assignee !== 'another'));
});

test('a waiting claim that was cancelled claims nothing, and an archived plan hands out nothing', {
  timeout: 60_000,
}, async (t) => {
  const host = await planningHost(t);
  const [ana, bo] = [await agentOf(t, host, 'ana'), await agentOf(t, host, 'bo')];
  const { plan_id } = await ana.planning.createPlan('p');
  const cancelled = new AbortController();
  const claim = ana.planning.claim(plan_id, { waitMs: 60_000, signal: cancelled.signal });
  const refused = assert.rejects(claim);
  await ana.ping();
  cancelled.abort();
  await refused;
  await ana.ping();
  const waiting = bo.planning.claim(plan_id, { waitMs: 60_000, renew: false });
  await bo.ping();
  const { task_id } = await ana.planning.add(plan_id, 'a');
  assert.equal((await waiting)?.id, task_id);
  await bo.planning.release(plan_id, task_id, 1);
  await ana.planning.archivePlan(plan_id);
  const again = bo.planning.claim(plan_id, { waitMs: 60_000, renew: false });
  await bo.ping();
  await ana.planning.restorePlan(plan_id);
  assert.equal((await again)?.fence, 2);
  // The timeout of a call starts after the wait.
  const hasty = await connect(host, { capabilities: ['planning'], agentId: 'hasty', timeoutMs: 500 });
  t.after(() => hasty.close());
  assert.equal(await hasty.planning.claim(plan_id, { waitMs: 1_000 }), undefined);
  // A deleted plan ends the claims that wait for it.
  const lost = assert.rejects(ana.planning.claim(plan_id, { waitMs: 60_000 }), { code: 'planning.unknown_plan' });
  await ana.ping();
  await ana.planning.deletePlan(plan_id, { force: true });
  await lost;
});
