/**
 * Runs a simulation: one fleet, one stream of tasks, one set of faults, for one contender. All contenders meet the same
 * ones, because randomness comes in separate streams for the fleet, the tasks and the network.
 * @see docs/simulation.md
 */
import type { TaskRecord } from '../src/fleet/orchestrator/task.ts';
import { asError } from '../src/wire/errors.ts';
import { Baseline, type BaselineKind } from './baseline.ts';
import { Checks, REMEMBER_MS } from './checks.ts';
import { simLog } from './log.ts';
import { Measures } from './measures.ts';
import { Network } from './network.ts';
import { Operator } from './operator.ts';
import { OrchestratorProcess } from './orchestrator-process.ts';
import { Random } from './random.ts';
import type { Setting } from './setting.ts';
import { Site } from './site.ts';
import { TaskDisk } from './task-disk.ts';
import { VirtualTime } from './virtual-time.ts';
import { WorkerDisk } from './worker-disk.ts';
import { type WorkerObserver, WorkerProcess } from './worker-process.ts';
import { EPOCH_MS, type SimTask, tasksOf } from './workload.ts';

/** The result of one contender. */
export interface Outcome {
  readonly measures: Measures;
  /** Virtual time of the whole run, milliseconds, and the arrival of the last task. */
  readonly endedMs: number;
  readonly lastArrivalMs: number;
  readonly steps: number;
  /** Rules that were asked, and times that everything was looked at; 0: nothing was checked. */
  readonly asked: number;
  readonly sweeps: number;
  /** Runs that started while another of their task was running. */
  readonly overlaps: number;
}

export interface SimulateOptions {
  /** Called at intervals with the number of tasks submitted so far. */
  readonly progress?: (submitted: number) => void;
}

const MINUTE = 60_000;
/**
 * Bound on the time after the last task within which every possible event happens, even one that an operator must
 * handle several times.
 */
const MAX_END_MS = 24 * 60 * MINUTE;
/** Share of the time a server is ill; if no task ended for that time, no worker can do the waiting ones. */
const PATIENCE = 0.5;
/** After the last task has ended: reports that were lost arrive by then. */
const QUIET_MS = 20 * MINUTE;
const PROGRESS_EVERY = 1000;
/** Time after which a broken connection is noticed at the other end, if that can be reached. */
const NOTICED_MS = 500;
/** A client without an answer asks again. */
const CLIENT_RETRY_MS = 10_000;
const CLIENT_WAIT_MS = 500;

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

/** Runs the handshake. Rejects with `RuleBroken` at the first step that breaks a rule. */
export async function simulateHandshake(setting: Setting, options: SimulateOptions = {}): Promise<Outcome> {
  const stage = stageOf(setting);
  const fleet = new Fleet(stage);
  const { time } = stage;
  const tasks = submitAll(stage, options, (task) => fleet.submit(task));
  let quietAtMs = Number.POSITIVE_INFINITY;
  await time.play(() => {
    fleet.check();
    const ended = tasks.lastArrivalMs < time.nowMs && fleet.checks.open === 0;
    quietAtMs = ended ? Math.min(quietAtMs, time.nowMs + QUIET_MS) : Number.POSITIVE_INFINITY;
    return time.nowMs >= quietAtMs || time.nowMs > tasks.lastArrivalMs + MAX_END_MS;
  });
  fleet.checks.finished();
  return outcomeOf(stage, tasks.lastArrivalMs, fleet.checks);
}

/** Runs a baseline. Nothing is checked: it promises nothing. */
export async function simulateBaseline(
  kind: BaselineKind,
  setting: Setting,
  options: SimulateOptions = {},
): Promise<Outcome> {
  const stage = stageOf(setting);
  const { time, network, sites, measures } = stage;
  const bus = new Baseline({ kind, time, network, measures, sites });
  for (const site of sites) {
    site.begin({ crashed: () => bus.crashed(site), restarted: () => {}, mended: () => {} });
  }
  const tasks = submitAll(stage, options, (task) => bus.submit(task));
  while (bus.open > 0 || tasks.lastArrivalMs === Number.POSITIVE_INFINITY) if (!time.step()) break;
  return outcomeOf(stage, tasks.lastArrivalMs, undefined);
}

function outcomeOf({ time, measures }: Stage, lastArrivalMs: number, checks: Checks | undefined): Outcome {
  measures.close();
  const { asked = 0, sweeps = 0, overlaps = 0 } = checks ?? {};
  return { measures, endedMs: time.nowMs, lastArrivalMs, steps: time.steps, asked, sweeps, overlaps };
}

/** Submits the tasks one after the other; after the last, no new fault occurs. */
function submitAll(
  { setting, time, network, sites }: Stage,
  { progress }: SimulateOptions,
  submit: (task: SimTask) => void,
): { readonly lastArrivalMs: number } {
  const tasks = tasksOf(setting, new Random(setting.seed).fork(4), capacityOf(sites));
  const arrivals = { lastArrivalMs: Number.POSITIVE_INFINITY };
  const next = (): void => {
    const { value, done } = tasks.next();
    if (done) {
      arrivals.lastArrivalMs = time.nowMs;
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
  next();
  return arrivals;
}

const capacityOf = (sites: readonly Site[]): number => sites.reduce((sum, { capacity }) => sum + capacity, 0);

/** The shipped orchestrator and workers, their processes, disks and clients. */
class Fleet {
  readonly checks: Checks;
  readonly #stage: Stage;
  readonly #random: Random;
  readonly #disk: TaskDisk;
  readonly #disks: ReadonlyMap<string, WorkerDisk>;
  readonly #workers = new Map<string, WorkerProcess>();
  readonly #operator: Operator;
  readonly #log = simLog((message, fields) => this.checks.loggedError(message, fields));
  #orchestrator: OrchestratorProcess | undefined;
  #starts = 0;
  #endedMs = 0;

  constructor(stage: Stage) {
    const { setting, time, sites } = stage;
    this.#stage = stage;
    this.#random = new Random(setting.seed);
    this.#disks = new Map(sites.map(({ name }) => [name, new WorkerDisk()]));
    this.checks = new Checks({
      seed: setting.seed,
      time,
      sites,
      disks: this.#disks,
      activeTasks: (worker) => this.#workers.get(worker)?.worker?.activeTasks,
      listed: () => (this.#orchestrator?.ready ? this.#orchestrator.orchestrator.workers() : []),
    });
    this.#disk = new TaskDisk({ written: (record) => this.#written(record) });
    this.#operator = new Operator({
      time,
      random: this.#random.fork(5),
      checks: this.checks,
      orchestrator: () => (this.#orchestrator?.ready ? this.#orchestrator.orchestrator : undefined),
    });
    this.#startOrchestrator();
    this.#planRestarts();
    for (const site of sites) this.#begin(site);
    this.#dropHopeless();
    this.#tidy();
  }

  /** Submits a task as a client and repeats the request until it has a reply; later the client may cancel it. */
  submit(task: SimTask): void {
    const { time } = this.#stage;
    this.checks.submitted(task);
    let acknowledged = false;
    const send = (): void => {
      if (acknowledged) return;
      const process = this.#orchestrator;
      if (!process?.ready) return void time.after(CLIENT_WAIT_MS, send);
      time.after(CLIENT_RETRY_MS, send);
      process.orchestrator.submit(specOf(task)).then(
        () => {
          if (acknowledged) return;
          acknowledged = true;
          this.checks.acknowledged(task);
        },
        (thrown) => {
          const { code, message } = asError(thrown);
          if (code !== 'interrupted') this.checks.loggedError(`a task is refused: ${message}`, { code });
        },
      );
    };
    send();
    if (task.cancelAfterMs !== null) time.after(task.cancelAfterMs, () => this.#cancel(task));
  }

  /** Runs after every step; in small fleets it checks everything. */
  check(): void {
    const { setting, time } = this.#stage;
    if (time.steps % setting.sweepEvery === 0) this.checks.sweep();
    this.checks.throwIfBroken();
  }

  #cancel(task: SimTask): void {
    const again = (): void => void this.#stage.time.after(CLIENT_WAIT_MS, () => this.#cancel(task));
    if (!this.#orchestrator?.ready || this.checks.record(task.task_id) === undefined) return again();
    this.#orchestrator.orchestrator.cancel(task.task_id, 'canceled by its user').catch(again);
  }

  #written(record: TaskRecord): void {
    const { measures, time } = this.#stage;
    const before = this.checks.record(record.task_id);
    this.checks.written(record);
    const task = this.checks.task(record.task_id);
    if (task === undefined) return;
    this.#operator.looksAt(record);
    if (record.ended_at === null || before?.ended_at != null) return;
    this.#endedMs = time.nowMs;
    const { result, state, late_results } = record;
    const run = this.checks.run(record.task_id, result?.envelope?.attempt ?? 0);
    if (result !== null) measures.accepted(task, result.status, run, time.nowMs);
    measures.ended(task, state, time.nowMs, late_results.length);
  }

  #startOrchestrator(): void {
    const { time, network, sites, measures } = this.#stage;
    const { checks } = this;
    const process = new OrchestratorProcess({
      time,
      network,
      random: this.#random.fork(3_000_000 + this.#starts++),
      disk: this.#disk,
      log: this.#log,
      observer: {
        sent: (worker, message) => {
          if (message.type === 'TASK_DISPATCH') measures.dispatched();
          checks.sent(worker, message);
        },
        received: (worker, message) => checks.received(worker, message),
        confirmed: (result) => checks.confirmed(result),
      },
      deliver: (site, message) => this.#workers.get(site.name)?.receive(message),
    });
    this.#orchestrator = process;
    network.listening = true;
    void process.start().then(() => checks.orchestratorStarted());
    // Connections that the process before had are broken.
    time.after(NOTICED_MS, () => {
      for (const { name } of sites) this.#workers.get(name)?.checkConnection();
    });
  }

  #planRestarts(): void {
    const { setting, time, network, sites } = this.#stage;
    const random = this.#random.fork(3);
    const expectedMs = (setting.tasks * setting.runMs) / (setting.load * capacityOf(sites));
    for (let restart = 0; restart < setting.faults.restarts; restart += 1) {
      time.after(expectedMs * (0.05 + 0.9 * random.next()), () => {
        if (!network.listening) return;
        network.listening = false;
        this.#orchestrator?.kill();
        this.#orchestrator = undefined;
        this.checks.orchestratorDied();
        time.after(random.between(...setting.faults.restartMs), () => this.#startOrchestrator());
      });
    }
  }

  #begin(site: Site): void {
    const { time, network } = this.#stage;
    site.begin({
      crashed: () => {
        this.#workers.get(site.name)?.kill();
        this.#workers.delete(site.name);
        time.after(NOTICED_MS, () => {
          if (network.listening && !site.up && !site.cut) this.#orchestrator?.bus.lost(site, 'the connection broke');
        });
      },
      restarted: () => this.#startWorker(site),
      mended: () => {},
    });
    time.after(this.#random.fork(2_000_000 + site.index).between(0, 1000), () => {
      if (site.up && !this.#workers.has(site.name)) this.#startWorker(site);
    });
  }

  #startWorker(site: Site): void {
    const { time, network, measures } = this.#stage;
    const checked = this.checks.worker(site);
    const observer: WorkerObserver = {
      ...checked,
      ended: (run) => {
        checked.ended(run);
        measures.ranTo(run);
      },
      deadOnArrival: (spent) => measures.deadOnArrival(spent),
      sent: (message) => {
        checked.sent(message);
        if (message.type === 'TASK_RESULT' && isFruitless(message.blocked?.code)) measures.deadOnArrival(false);
      },
    };
    const process = new WorkerProcess({
      site,
      disk: this.#disks.get(site.name) as WorkerDisk,
      time,
      random: this.#random.fork(1_000_000 + site.index * 64 + (site.incarnation % 64)),
      network,
      orchestrator: {
        admit: (announce) => this.#orchestrator?.bus.admit(site, announce),
        receive: (message) => this.#orchestrator?.bus.receive(site, message),
      },
      taskOf: (taskId) => this.checks.task(taskId) as SimTask,
      observer,
      log: this.#log,
    });
    this.#workers.set(site.name, process);
    void process.start();
  }

  /** Removes from disks and checks the tasks that ended long ago. */
  #tidy(): void {
    const { time } = this.#stage;
    time.after(REMEMBER_MS, () => {
      this.#tidy();
      this.checks.forget();
      const over = (taskId: string): boolean => this.checks.task(taskId) === undefined;
      for (const disk of this.#disks.values()) disk.prune(over);
      void this.#disk.prune(EPOCH_MS + time.nowMs - REMEMBER_MS);
    });
  }

  /** Cancels, at the end of a run when nothing will change any more, the tasks that no worker can do, as the user would. */
  #dropHopeless(): void {
    const { time, setting } = this.#stage;
    time.after(MINUTE, () => {
      this.#dropHopeless();
      if (!this.#stage.network.isCalm || time.nowMs - this.#endedMs < PATIENCE * setting.faults.illMs) return;
      for (const taskId of [...this.checks.waitingTasks()]) {
        void this.#orchestrator?.orchestrator.cancel(taskId, 'no worker can do it').catch(() => {});
      }
    });
  }
}

/** Returns true if the refusal is for a missing requirement, rather than because the worker is busy or was asked before. */
function isFruitless(code: string | undefined): boolean {
  return (
    code !== undefined && !['busy', 'in_flight', 'draining', 'deadline_too_close', 'budget_too_small'].includes(code)
  );
}

/** Returns the request of a task: members that it leaves open are left out. */
function specOf({ task_id, spec }: SimTask): { readonly task_id: string; readonly brief: string } {
  const given = Object.entries(spec).filter(([, value]) => value !== null);
  return { task_id, brief: spec.brief, ...Object.fromEntries(given) };
}
