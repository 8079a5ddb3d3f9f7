/**
 * Small fleets for which everything fails, the findings of the rules, and the content of a report.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Checks, RuleBroken } from '../../simulation/checks.ts';
import { plotsOf } from '../../simulation/plots.ts';
import { numbersOf, type Report, reportText } from '../../simulation/report.ts';
import type { Run } from '../../simulation/run.ts';
import { FULL, type Setting, tiny } from '../../simulation/setting.ts';
import { simulateBaseline, simulateHandshake } from '../../simulation/simulation.ts';
import type { Site } from '../../simulation/site.ts';
import { VirtualTime } from '../../simulation/virtual-time.ts';
import { WorkerDisk } from '../../simulation/worker-disk.ts';
import type { SimTask } from '../../simulation/workload.ts';

const SEEDS = 12;

test('with crashes, partitions, lost messages and restarts every task ends and no rule is broken', async () => {
  let asked = 0;
  let sweeps = 0;
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const setting = tiny(seed);
    const outcome = await simulateHandshake(setting);
    assert.equal(numbersOf(outcome).tasks, setting.tasks);
    asked += outcome.asked;
    sweeps += outcome.sweeps;
  }
  assert.ok(sweeps > 20_000, `after ${sweeps} steps everything was looked at`);
  assert.ok(asked > 200_000, `rules were asked ${asked} times`);
});

test('the same seed gives the same run', async () => {
  const run = async (seed: number) => numbersOf(await simulateHandshake(tiny(seed)));
  assert.deepEqual(await run(7), await run(7));
  assert.notDeepEqual(await run(7), await run(14));
});

test('an attempt that starts twice, or that was declined before, is found out with the seed and what led to it', () => {
  const task = {
    task_id: 't-1',
    route: { token_budget: 9, deadlineMs: null, context_id: null },
    spec: { retry_safe: true },
  } as unknown as SimTask;
  const site = { name: 'w-1', runs: new Set(), capacity: 1, overhead: 0 } as unknown as Site;
  const disk = new WorkerDisk();
  const made = (): Checks => {
    const time = new VirtualTime();
    const disks = new Map([['w-1', disk]]);
    const checks = new Checks({ seed: 7, time, sites: [site], disks, activeTasks: () => 0, listed: () => [] });
    checks.submitted(task);
    checks.written({
      task_id: 't-1',
      state: 'running',
      worker: 'w-1',
      attempt: 1,
      attempts: [{ attempt: 1, worker: 'w-1' }],
      ended_at: null,
      result: null,
    } as never);
    return checks;
  };
  const run = { task, attempt: 1, site, end: 'done', spent: 5 } as unknown as Run;
  const again = made();
  again.worker(site).started(run, null);
  again.throwIfBroken();
  again.worker(site).started(run, null);
  assert.throws(
    () => again.throwIfBroken(),
    (thrown) => {
      assert.ok(thrown instanceof RuleBroken, String(thrown));
      const { rule, seed, step, trace } = thrown.violation;
      assert.equal(rule, 't-1: attempt 1 is started once');
      assert.match(thrown.message, new RegExp(`seed ${seed}, step ${step}, `));
      assert.ok(trace.some((line) => line.includes('t-1 ') && line.includes('starts')));
      return true;
    },
  );
  const declined = made();
  disk.declined.set('t-1', { taskId: 't-1', attempt: 1, digest: null, reason: null });
  const accepted = { taskId: 't-1', attempt: 1, digest: 'd', outlet: 'o', crashes: 0 };
  declined.worker(site).accepted({ ...accepted, about: { context_id: null, access: 'read' } });
  assert.throws(() => declined.throwIfBroken(), /attempt 1 was declined by w-1 and is not accepted later/);
});

/** A fleet in which half of the servers that tasks require are ill. */
const ill: Setting = {
  ...FULL,
  workers: 30,
  tasks: 250,
  faults: { ...FULL.faults, wellMs: 20 * 60_000, illMs: 20 * 60_000 },
};

test('the handshake wastes less than both baselines, and a report shows that as text, data and plots', async () => {
  const outcomes = {
    handshake: await simulateHandshake(ill),
    configured: await simulateBaseline('configured', ill),
    blind: await simulateBaseline('blind', ill),
  };
  const { handshake, configured, blind } = outcomes;
  const contenders = { handshake: numbersOf(handshake), configured: numbersOf(configured), blind: numbersOf(blind) };
  for (const { tasks } of Object.values(contenders)) assert.equal(tasks, ill.tasks);
  const wasted = ({ tokens }: (typeof contenders)['blind']): number => tokens.wasted;
  assert.ok(wasted(contenders.handshake) * 2 < wasted(contenders.configured));
  assert.ok(wasted(contenders.configured) < wasted(contenders.blind), 'configuration alone saves something');
  assert.ok(contenders.handshake.dead_on_arrival.burnt * 5 < contenders.configured.dead_on_arrival.burnt);

  const report: Report = { setting: ill, contenders };
  assert.match(reportText(report), /250 tasks, 30 workers, seed 1/);
  assert.match(reportText(report), /dead on arrival, tokens spent( +\d+ \([\d.]+ ‰\)){3}/);
  assert.deepEqual(JSON.parse(JSON.stringify(report)), report);
  const plots = plotsOf(report, {
    handshake: handshake.measures.firstToken,
    configured: configured.measures.firstToken,
    blind: blind.measures.firstToken,
  });
  assert.deepEqual([...plots.keys()], ['tokens.svg', 'dead-on-arrival.svg', 'first-token.svg', 'fairness.svg']);
  for (const [name, picture] of plots) {
    assert.match(picture, /^<svg [^>]*>[\s\S]*<\/svg>\n$/, name);
    assert.doesNotMatch(picture, /NaN|undefined|Infinity/, name);
    assert.ok(picture.length < 30_000, name);
  }
});
