/**
 * Runs a simulation: one fleet, one stream of tasks, one set of faults, for one of two contenders. Both meet the same ones,
 * because chance comes in streams of its own for the fleet, the tasks and the network.
 *
 * Called by `scripts/simulate.ts` and by tests.
 * @see docs/simulation.md
 */
import { Checks } from './checks.ts';
import { FireAndForget } from './fire-and-forget.ts';
import { Measures } from './measures.ts';
import { Network } from './network.ts';
import { Random } from './random.ts';
import type { Setting } from './setting.ts';
import { SimOrchestrator } from './sim-orchestrator.ts';
import { SimWorker } from './sim-worker.ts';
import { Site } from './site.ts';
import { VirtualTime } from './virtual-time.ts';
import { type SimTask, tasksOf } from './workload.ts';

/** What one contender came to. */
export interface Outcome {
  readonly measures: Measures;
  /** Virtual time of the whole run, milliseconds, and when the last task came. */
  readonly endedMs: number;
  readonly lastArrivalMs: number;
  readonly steps: number;
  /** Steps at which every rule was held; 0: none were. */
  readonly checked: number;
  /** Decisions held against the plain function. */
  readonly verified: number;
  /** Runs that began while another of their task went on. */
  readonly overlaps: number;
}

export interface SimulateOptions {
  /** A clock of the real world, milliseconds, for what decisions cost. Default: none, and they cost nothing. */
  readonly stopwatch?: () => number;
  /** Called now and then with the number of tasks submitted so far. */
  readonly progress?: (submitted: number) => void;
}

const MINUTE = 60_000;
/** What can happen happens within this after the last task came, even to what an operator must see several times. */
const MAX_END_MS = 24 * 60 * MINUTE;
/** When nothing but waiting was done for this share of the time a server is ill, nobody can take what still waits. */
const PATIENCE = 0.5;
const PROGRESS_EVERY = 10_000;
const NOTICED_MS = 500;

interface Stage {
  readonly setting: Setting;
  readonly time: VirtualTime;
  readonly network: Network;
  readonly sites: readonly Site[];
  readonly measures: Measures;
}

function stageOf(setting: Setting): Stage {
  const time = new VirtualTime();
  const random = new Random(setting.seed);
  const network = new Network(time, random.fork(1), setting.faults);
  const sites = Array.from({ length: setting.workers }, (_, index) => new Site(index, setting, time));
  return { setting, time, network, sites, measures: new Measures() };
}

/** The handshake. Throws {@link RuleBroken} at the first step that breaks a rule. */
export function simulateHandshake(setting: Setting, options: SimulateOptions = {}): Outcome {
  const stage = stageOf(setting);
  const { time, network, sites, measures } = stage;
  const random = new Random(setting.seed);
  const checks = new Checks({ seed: setting.seed, time, verifyEvery: setting.verifyEvery });
  const workers = new Map<string, SimWorker>();
  const orchestrator = new SimOrchestrator({
    time,
    random: random.fork(2),
    network,
    checks,
    measures,
    workers,
    sites,
    stopwatch: options.stopwatch ?? (() => 0),
  });
  for (const site of sites) {
    const worker = new SimWorker({
      site,
      setting,
      time,
      random: random.fork(1_000_000 + site.index),
      network,
      hears: orchestrator,
      witness: {
        started: (run) => checks.started(run),
        ended: (run) => {
          checks.stopped(run);
          measures.ranTo(run);
        },
        refused: (task, attempt, result) => checks.refused(task, attempt, result),
        deadOnArrival: (_, spent) => measures.deadOnArrival(spent),
      },
    });
    workers.set(site.name, worker);
    site.begin({
      crashed: () => {
        worker.crashed();
        time.after(NOTICED_MS, () => {
          if (network.listening && !site.up) orchestrator.left(site);
        });
      },
      restarted: () => worker.begin(),
      mended: () => worker.reconnected(),
    });
    time.after(random.fork(2_000_000 + site.index).between(0, 1000), () => {
      if (site.up) worker.begin();
    });
  }
  planRestarts(stage, orchestrator, random.fork(3));
  const run = runTo(
    stage,
    options,
    (task) => orchestrator.submit(task),
    () => orchestrator.open,
  );
  const look = (): void => {
    const quietMs = time.nowMs - Math.max(run.lastArrivalMs, orchestrator.busyMs);
    if (quietMs > PATIENCE * setting.faults.illMs) orchestrator.dropWaiting();
    time.after(MINUTE, look);
  };
  look();
  const lastArrivalMs = run.play();
  if (orchestrator.open > 0) checks.finished(orchestrator.records());
  checks.finished([]);
  measures.close();
  return {
    measures,
    endedMs: time.nowMs,
    lastArrivalMs,
    steps: time.steps,
    checked: time.steps,
    verified: checks.verified,
    overlaps: checks.overlaps,
  };
}

/** The baseline. Nothing is checked: it promises nothing. */
export function simulateFireAndForget(setting: Setting, options: SimulateOptions = {}): Outcome {
  const stage = stageOf(setting);
  const { time, network, sites, measures } = stage;
  const bus = new FireAndForget({ time, network, measures, sites });
  for (const site of sites) {
    site.begin({ crashed: () => bus.crashed(site), restarted: () => {}, mended: () => {} });
  }
  const run = runTo(
    stage,
    options,
    (task) => bus.submit(task),
    () => bus.open,
  );
  const lastArrivalMs = run.play();
  measures.close();
  return { measures, endedMs: time.nowMs, lastArrivalMs, steps: time.steps, checked: 0, verified: 0, overlaps: 0 };
}

/** Lets tasks come one after the other, and everything else happen, until none is open. */
function runTo(
  { setting, time, network, sites }: Stage,
  { progress }: SimulateOptions,
  submit: (task: SimTask) => void,
  open: () => number,
): { readonly lastArrivalMs: number; play(): number } {
  const capacity = sites.reduce((sum, site) => sum + site.capacity, 0);
  const tasks = tasksOf(setting, new Random(setting.seed).fork(4), capacity);
  let lastArrivalMs = Number.POSITIVE_INFINITY;
  const next = (): void => {
    const { value, done } = tasks.next();
    if (done) {
      lastArrivalMs = time.nowMs;
      network.calm();
      for (const site of sites) site.calm();
      return;
    }
    time.after(value.arrivalMs - time.nowMs, () => {
      submit(value);
      if (value.number % PROGRESS_EVERY === 0) progress?.(value.number);
      next();
    });
  };
  return {
    get lastArrivalMs() {
      return lastArrivalMs;
    },
    play() {
      next();
      while ((lastArrivalMs === Number.POSITIVE_INFINITY || open() > 0) && time.nowMs <= lastArrivalMs + MAX_END_MS) {
        if (!time.step()) break;
      }
      return lastArrivalMs;
    },
  };
}

/** The orchestrator dies so often, somewhere in the run, and comes back. */
function planRestarts({ setting, time, network, sites }: Stage, orchestrator: SimOrchestrator, random: Random): void {
  const capacity = sites.reduce((sum, site) => sum + site.capacity, 0);
  const expectedMs = (setting.tasks * setting.runMs) / (setting.load * capacity);
  const [least, most] = setting.faults.restartMs;
  for (let restart = 0; restart < setting.faults.restarts; restart += 1) {
    time.after(expectedMs * (0.05 + 0.9 * random.next()), () => {
      if (!network.listening) return;
      network.listening = false;
      orchestrator.crash();
      time.after(random.between(least, most), () => {
        network.listening = true;
        orchestrator.restart();
      });
    });
  }
}
