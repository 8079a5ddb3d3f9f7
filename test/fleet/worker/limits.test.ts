/**
 * Limits of a task that runs: tokens, time, the lease, the real state of its MCP servers.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Budget } from '../../../src/base/budget.ts';
import { processTimer } from '../../../src/base/timer-queue.ts';
import { tokensSpent } from '../../../src/fleet/executors/usage.ts';
import { ClockSkew } from '../../../src/fleet/worker/clock-skew.ts';
import { Clocks } from '../../../src/fleet/worker/clocks.ts';
import { LeaseRenewer } from '../../../src/fleet/worker/lease-renewer.ts';
import type { Usage } from '../../../src/protocol/fleet.ts';
import { aborted, block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench, type Desk, dispatch } from '../support/worker-bench.ts';

const used = (input: number): Usage => ({ source: 'measured', input });

/** Returns the phases that were reported, in order. */
const phasesOf = ({ told }: Desk): unknown[] =>
  told.flatMap((one) => (one.type === 'TASK_PROGRESS' ? [one.phase] : []));

test('cache reads count only where they are configured to', () => {
  const usage: Usage = { source: 'measured', input: 1, output: 2, reasoning: 4, cache_write: 8, cache_read: 1000 };
  assert.equal(tokensSpent(usage, false), 15);
  assert.equal(tokensSpent(usage, true), 1015);
});

test('a budget gives notice once at 80 % and stops once at 100 %', () => {
  const told: string[] = [];
  const budget = new Budget(100, {
    notice: (spent, limit) => told.push(`notice ${spent}/${limit}`),
    spent: (spent, limit) => told.push(`spent ${spent}/${limit}`),
  });
  for (const total of [10, 79, 80, 85, 99, 50, 100, 130]) budget.spend(total);
  assert.deepEqual(told, ['notice 80/100', 'spent 100/100']);
});

test('children take from what their parent has left, and give back what they do not use', () => {
  const told: string[] = [];
  const events = (name: string) => ({ notice: () => {}, spent: () => told.push(name) });
  const parent = new Budget(100, events('parent'));
  parent.spend(20);
  const first = new Budget(30, events('first'), parent);
  assert.equal(parent.left, 50, 'what is promised cannot be promised again');
  const second = new Budget(50, events('second'), parent);
  assert.equal(parent.left, 0);
  first.spend(10);
  first.end();
  assert.equal(parent.left, 20);
  second.spend(50);
  assert.deepEqual(told, ['second']);
  parent.spend(40);
  assert.deepEqual(told, ['second', 'parent'], 'what children spent is spent: 40 + 10 + 50');
});

test('a parent that has nothing left stops what takes from it', () => {
  const told: string[] = [];
  const events = (name: string) => ({ notice: () => {}, spent: () => told.push(name) });
  const parent = new Budget(100, events('parent'));
  const child = new Budget(90, events('child'), parent);
  child.spend(50);
  parent.spend(50);
  assert.deepEqual(told, ['parent', 'child']);
});

test('a task that spends its budget is warned at 80 %, stopped at 100 %, and hands back what it has as partial', async (t) => {
  const executor = scriptedExecutor(async (_task, { signal, events }) => {
    events.usage(used(800));
    events.usage(used(1001));
    await aborted(signal);
    return { text: 'As far as I came.', ending: 'stopped', usage: used(1010) };
  });
  const { desk, ...rest } = await bench(t, { executor });
  const result = await rest.do(dispatch('t-1', { token_budget: 1000 }));
  assert.equal(result.status, 'partial');
  assert.equal(result.tokens_spent, 1010);
  assert.equal(result.usage?.source, 'measured');
  assert.match(result.next_steps?.[0] ?? '', /budget is spent: 1001 of 1000 tokens/);
  assert.equal(result.prose, 'As far as I came.');
  assert.match(executor.steered[0] ?? '', /about 200 tokens are left/);
  await desk.message('TASK_PROGRESS', ({ note }) => note?.startsWith('80 % of the budget') === true);
});

test('an executor that reports its tokens only at the end is not stopped, and what it spent over is reported', async (t) => {
  const executor = scriptedExecutor(({ taskId }) => ({ text: block(taskId, { tokens_spent: 10 }), usage: used(5000) }));
  const result = await (await bench(t, { executor })).do(dispatch('t-1', { token_budget: 1000 }));
  assert.deepEqual([result.status, result.tokens_spent], ['done', 5000]);
  assert.equal(result.usage?.claimed, 10, 'a claim that is far off is shown');
});

test('what the model claims counts where nothing was measured, and is marked; nothing at all is unknown', async (t) => {
  const executor = scriptedExecutor(({ taskId }) => block(taskId, taskId === 't-1' ? { tokens_spent: 12 } : {}));
  const made = await bench(t, { executor });
  const claimed = await made.do(dispatch('t-1'));
  assert.deepEqual([claimed.tokens_spent, claimed.usage?.source], [12, 'claimed']);
  const unknown = await made.do(dispatch('t-2'));
  assert.deepEqual([unknown.tokens_spent, unknown.usage?.source], [null, 'unknown']);
});

test('a task takes its budget from the task it is part of, where that runs here', async (t) => {
  let done = (): void => {};
  const ended = new Promise<void>((resolve) => {
    done = resolve;
  });
  const executor = scriptedExecutor(async ({ taskId }, { events }) => {
    if (taskId === 'parent') {
      events.usage(used(600));
      await ended;
    }
    return { text: block(taskId), usage: used(taskId === 'parent' ? 600 : 300) };
  });
  const { give, desk, ...rest } = await bench(t, { executor });
  await give(dispatch('parent', { token_budget: 1000 }));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  await rest.do(dispatch('child-1', { parent_task_id: 'parent', token_budget: 5000 }));
  assert.equal(executor.turns[1]?.tokenBudget, 400);
  await rest.do(dispatch('child-2', { parent_task_id: 'parent' }));
  assert.equal(executor.turns[2]?.tokenBudget, 100);
  const third = await rest.do(dispatch('child-3', { parent_task_id: 'parent', token_budget: 50 }));
  assert.equal(third.blocked?.code, 'budget_too_small');
  done();
  await desk.result('parent');
});

test('a task is stopped in time to report before its deadline', async (t) => {
  const executor = scriptedExecutor(async (_task, { signal }) => {
    await aborted(signal);
    return { text: '', ending: 'stopped', usage: used(5) };
  });
  const now = Date.now();
  const { desk, give } = await bench(t, { executor, now: () => now });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  await give(dispatch('t-1', { deadline: new Date(now + 60_000).toISOString() }));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  t.mock.timers.tick(49_999);
  assert.ok(!phasesOf(desk).includes('stopping'));
  t.mock.timers.tick(1);
  assert.equal(phasesOf(desk).at(-1), 'stopping', 'ten seconds before the deadline');
  t.mock.timers.reset();
  const result = await desk.result('t-1');
  assert.equal(result.status, 'partial');
  // The deadline has not passed yet, and the report does not say that it has.
  assert.match(result.next_steps?.[0] ?? '', /^The work was stopped 10 s before the deadline \S+, to report in time\./);
});

test('the longest turn ends a task that has no deadline', async (t) => {
  const executor = scriptedExecutor(async (_task, { signal }) => {
    await aborted(signal);
    return { text: '', ending: 'stopped' };
  });
  const { desk, give } = await bench(t, { executor, turnTimeoutMs: 30_000 });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  await give(dispatch('t-1'));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'running');
  t.mock.timers.tick(29_999);
  assert.ok(!phasesOf(desk).includes('stopping'));
  t.mock.timers.tick(1);
  assert.equal(phasesOf(desk).at(-1), 'stopping');
  t.mock.timers.reset();
  assert.equal((await desk.result('t-1')).status, 'partial');
});

test('a deadline by a clock that is an hour ahead means the same moment here', async (t) => {
  const { give } = await bench(t);
  const theirNow = Date.now() + 3_600_000;
  const at = (ms: number): string => new Date(ms).toISOString();
  const envelope = { sent_at: at(theirNow) };
  const late = await give(dispatch('t-1', { deadline: at(theirNow + 10_000), envelope }));
  assert.equal(late.kind === 'refused' && late.result.blocked?.code, 'deadline_too_close');
  assert.equal((await give(dispatch('t-2', { deadline: at(theirNow + 60_000), envelope }))).kind, 'accepted');
});

test('a dispatch that waited on a durable bus is no sign of a wrong clock, and its deadline stays where it was', () => {
  const warnings: string[] = [];
  const log = { debug() {}, info() {}, warn: (message: string) => void warnings.push(message), error() {} };
  const clocks = new Clocks(() => 0, log);
  const sent_at = '2026-06-01T12:00:00.000Z';
  const sentAt = Date.parse(sent_at);
  assert.equal(clocks.received({ sent_at }, { name: 'nats', durable: true }, sentAt + 600_000).skewMs, 0);
  assert.deepEqual(warnings, []);
  // It cannot come before it was sent.
  assert.equal(clocks.received({ sent_at }, { name: 'nats', durable: true }, sentAt - 600_000).skewMs, 600_000);
  assert.equal(warnings.length, 1);
  // A link delivers at once: there it is the clock.
  assert.equal(clocks.received({ sent_at }, { name: 'link' }, sentAt + 600_000).skewMs, -600_000);
});

test('a message that waited in a queue does not pass for a clock that is behind', () => {
  const skew = new ClockSkew();
  skew.received(1_000_000, 1_300_000, 0);
  assert.equal(skew.aheadMs, -300_000, 'nothing better is known');
  skew.received(1_400_000, 1_400_100, 1000);
  assert.equal(skew.aheadMs, 0);
  skew.received(1_000_000, 1_500_000, 2000);
  assert.equal(skew.aheadMs, 0, 'another late one changes nothing');
  skew.received(5_000_000, 1_600_000, 11 * 60_000);
  assert.equal(skew.aheadMs, 3_400_000, 'a clock that was set is noticed');
});

test('a lease that is not renewed on this side is kept alive by heartbeats, every third of its lifetime', (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const alive = mock.fn();
  const keeper = new LeaseRenewer(
    { fence: 1, ttlS: 45 },
    { heartbeat: alive, lost: assert.fail },
    { retrySafe: true, monotonic: () => 0, timer: processTimer },
  );
  for (let third = 0; third < 3; third += 1) t.mock.timers.tick(15_000);
  assert.equal(alive.mock.callCount(), 3);
  keeper.end();
  t.mock.timers.tick(45_000);
  assert.equal(alive.mock.callCount(), 3);
});

for (const retrySafe of [true, false]) {
  const does = retrySafe ? 'ends itself' : 'continues';
  test(`a task that is ${retrySafe ? '' : 'not '}safe to repeat ${does} when its lease cannot be renewed for its lifetime`, async (t) => {
    t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
    let now = 0;
    const lost = mock.fn();
    let reachable = true;
    const renew = async (): Promise<boolean> => {
      if (!reachable) throw new Error('partition');
      return true;
    };
    const keeper = new LeaseRenewer(
      { fence: 1, ttlS: 45, renew },
      { heartbeat: assert.fail, lost },
      { retrySafe, monotonic: () => now, timer: processTimer },
    );
    const pass = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second += 5) {
        now += 5000;
        t.mock.timers.tick(5000);
        await new Promise<void>((resolve) => setImmediate(resolve));
      }
    };
    await pass(60);
    reachable = false;
    await pass(40);
    assert.equal(lost.mock.callCount(), 0, 'it still holds');
    await pass(10);
    assert.equal(lost.mock.callCount(), retrySafe ? 1 : 0);
    keeper.end();
  });
}

test('a lost lease stops the executor at once and the report is marked late', async (t) => {
  const executor = scriptedExecutor(async (_task, { signal }) => {
    await aborted(signal);
    return { text: '', ending: 'stopped', usage: used(9) };
  });
  const { desk, give } = await bench(t, { executor });
  const released = Promise.withResolvers<void>();
  const lease = {
    fence: 3,
    ttlS: 0.06,
    // Lost while a turn runs, however long it took to begin one.
    renew: async () => executor.turns.length === 0,
    release: async () => released.resolve(),
  };
  await give(dispatch('t-1'), lease);
  const result = await desk.result('t-1');
  assert.equal(result.status, 'error');
  assert.equal(result.artifacts?.late, 'lease_lost');
  assert.equal(result.tokens_spent, 9);
  await released.promise;
});
