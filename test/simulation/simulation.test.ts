/** Small fleets for which everything goes wrong, and that the rules notice what breaks them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Checks, RuleBroken } from '../../simulation/checks.ts';
import { plotsOf } from '../../simulation/plots.ts';
import { curvesOf, numbersOf, type Report, reportText } from '../../simulation/report.ts';
import type { Run } from '../../simulation/run.ts';
import { FULL, type Setting, tiny } from '../../simulation/setting.ts';
import { simulateFireAndForget, simulateHandshake } from '../../simulation/simulation.ts';
import { VirtualTime } from '../../simulation/virtual-time.ts';
import type { SimTask } from '../../simulation/workload.ts';
import { refusalResult } from '../../src/fleet/phases/preflight.ts';

const seeds = Array.from({ length: 40 }, (_, at) => at + 1);

test('with crashes, partitions, lost messages and restarts every task ends and no rule is broken', () => {
  let steps = 0;
  let verified = 0;
  for (const seed of seeds) {
    const setting = tiny(seed);
    const outcome = simulateHandshake(setting);
    assert.equal(numbersOf(outcome).tasks, setting.tasks);
    steps += outcome.checked;
    verified += outcome.verified;
  }
  assert.ok(steps > 20_000, `${steps} steps were checked`);
  assert.ok(verified > 1000, `${verified} decisions were held against the plain function`);
});

test('the same seed gives the same run', () => {
  const numbers = [tiny(7), tiny(7)].map((setting) => numbersOf(simulateHandshake(setting)));
  assert.deepEqual(numbers[0], numbers[1]);
  assert.notDeepEqual(numbers[0], numbersOf(simulateHandshake(tiny(14))));
});

test('an attempt that was refused and begins all the same is found out, with the seed and what led to it', () => {
  const time = new VirtualTime();
  const task = { task_id: 't-1', route: { token_budget: null, deadlineMs: null }, spec: { retry_safe: true } };
  const site = { name: 'w-1', runs: new Set(), capacity: 1, overhead: 0 };
  const run = (attempt: number) => ({ task, attempt, site }) as unknown as Run;
  const refusal = refusalResult('t-1', { code: 'busy', detail: 'no room', retryable: true, missing: [] } as never);
  const made = (): Checks => {
    const checks = new Checks({ seed: 7, time, verifyEvery: 1 });
    checks.submitted(task as unknown as SimTask);
    return checks;
  };
  const refused = made();
  refused.refused(task as unknown as SimTask, 1, refusal);
  refused.started(run(2));
  assert.throws(
    () => refused.started(run(1)),
    (thrown) => {
      assert.ok(thrown instanceof RuleBroken, String(thrown));
      const { rule, seed, step, trace } = thrown.violation;
      assert.equal(rule, 't-1: attempt 1 was refused and is not run');
      assert.match(thrown.message, new RegExp(`seed ${seed}, step ${step}, `));
      assert.ok(trace.some((line) => line.includes('refused') && line.includes('no room')));
      assert.ok(trace.some((line) => line.includes('t-1 ') && line.includes('starts')));
      return true;
    },
  );
  const again = made();
  again.started(run(1));
  assert.throws(() => again.started(run(1)), /attempt 1 is started once/);
});

/** A fleet in which half of what tasks need is ill. */
const ill: Setting = {
  ...FULL,
  workers: 60,
  tasks: 500,
  faults: { ...FULL.faults, wellMs: 20 * 60_000, illMs: 20 * 60_000 },
  verifyEvery: 100,
};

test('the handshake spends less on what cannot work than fire and forget', () => {
  const handshake = numbersOf(simulateHandshake(ill));
  const baseline = numbersOf(simulateFireAndForget(ill));
  assert.equal(handshake.tasks, baseline.tasks);
  assert.ok(handshake.dead_on_arrival.burnt * 10 < baseline.dead_on_arrival.burnt);
  assert.ok(handshake.tokens.wasted * 2 < baseline.tokens.wasted);
  assert.ok(handshake.first_token_by_priority.urgent!.p50 < baseline.first_token_by_priority.urgent!.p50);
});

test('a report is text, data and plots', () => {
  let now = 0;
  const stopwatch = (): number => (now += 0.01);
  const handshake = simulateHandshake(ill, { stopwatch });
  const baseline = simulateFireAndForget(ill);
  const report: Report = { setting: ill, handshake: numbersOf(handshake), fire_and_forget: numbersOf(baseline) };
  assert.ok(Math.abs(report.handshake.decision_us.p50 - 10) < 1, 'a decision took ten microseconds of that stopwatch');
  assert.match(reportText(report), /500 tasks, 60 workers, seed 1/);
  assert.match(reportText(report), /dead on arrival, tokens spent +\d+ \([\d.]+ ‰\) +\d+ \([\d.]+ ‰\)/);
  assert.deepEqual(JSON.parse(JSON.stringify(report)), report);
  const curves = { handshake: curvesOf(handshake.measures), baseline: curvesOf(baseline.measures) };
  const plots = plotsOf(report, curves);
  assert.deepEqual(
    [...plots.keys()],
    ['tokens.svg', 'dead-on-arrival.svg', 'first-token.svg', 'fairness.svg', 'decision-cost.svg'],
  );
  for (const [name, picture] of plots) {
    assert.match(picture, /^<svg [^>]*>[\s\S]*<\/svg>\n$/, name);
    assert.doesNotMatch(picture, /NaN|undefined|Infinity/, name);
    assert.ok(picture.length < 30_000, name);
  }
});
