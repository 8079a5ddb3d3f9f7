/**
 * The rules that must hold at every step of a simulation, under every fault: delivered at least once, started at most
 * once per attempt, accepted once, no task lost without a report. Checked from outside the shipped parts: rows on the
 * disk of the orchestrator, journals on the disks of the workers, messages on the wire, runs. A simulation that breaks
 * a rule ends at that step and reports the seed, the step, and the events before it.
 *
 * The rules are written here a second time on purpose, not taken from the code they check.
 * @see docs/fleet.md#failure-semantics
 */
import { isDeepStrictEqual } from 'node:util';
import type { Reported } from '../src/fleet/messages/decoded.ts';
import type { WorkerView } from '../src/fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord, TaskState } from '../src/fleet/orchestrator/task.ts';
import { HEAD_START_S } from '../src/fleet/queue.ts';
import type { FleetMessage } from '../src/protocol/fleet.ts';
import { LEASE_TTL_S } from './orchestrator-process.ts';
import type { Run } from './run.ts';
import type { Site } from './site.ts';
import { Trace } from './trace.ts';
import type { VirtualTime } from './virtual-time.ts';
import type { WorkerDisk } from './worker-disk.ts';
import type { WorkerObserver } from './worker-process.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

/** A rule was broken. */
export interface Violation {
  readonly rule: string;
  readonly seed: number;
  /** Events that had happened. */
  readonly step: number;
  readonly atMs: number;
  /** The events before it: all of the task, and the latest of all tasks. */
  readonly trace: readonly string[];
}

/** Thrown at the step that breaks a rule. */
export class RuleBroken extends Error {
  readonly violation: Violation;

  constructor(violation: Violation) {
    const { rule, seed, step, atMs, trace } = violation;
    super([`${rule}\nseed ${seed}, step ${step}, ${(atMs / 1000).toFixed(3)} s`, ...trace].join('\n  '));
    this.name = 'RuleBroken';
    this.violation = violation;
  }
}

const ACTIVE: ReadonlySet<TaskState> = new Set(['reserved', 'sent', 'accepted', 'running']);
const ENDED: ReadonlySet<TaskState> = new Set(['done', 'partial', 'error', 'canceled']);
/** A deadline may be missed by this much: clocks that differ by less than five seconds count as equal. */
const DEADLINE_SLACK_MS = 10_000;
/** Tokens are reported in whole numbers, and time passes in whole milliseconds. */
const BUDGET_SLACK = 1.01;
/** Longest time a task may stay with a worker that sends nothing: its lease, and some seconds. */
const SILENCE_MS = LEASE_TTL_S * 1000 + 5000;
/** A task that its worker no longer has on disk leaves the worker's list within this. */
const LISTED_MS = 5000;
/** Sweeps between two looks at that list, which is made again each time. */
const LIST_EVERY = 16;
/** Time for which the events of an ended task are stored: messages about it may be late. */
export const REMEMBER_MS = 15 * 60_000;

/** Facts about a task beside its row. */
interface Facts {
  readonly task: SimTask;
  record: TaskRecord | undefined;
  /** Starts since an operator last had it tried again. */
  starts: number;
  readonly startedAttempts: Set<number>;
  /** Runs by attempt. */
  readonly runs: Map<number, Run>;
  /** Results that reached the orchestrator: worker and attempt. */
  readonly reported: Set<string>;
  /** Time at which progress of the attempt under way last reached the orchestrator. */
  progressMs: number;
  /** An operator has asked for another attempt; the row may go back from its end. */
  retried: boolean;
}

export interface ChecksOptions {
  readonly seed: number;
  readonly time: VirtualTime;
  readonly sites: readonly Site[];
  readonly disks: ReadonlyMap<string, WorkerDisk>;
  /** Tasks a worker has accepted or runs; undefined: its process is dead. */
  readonly activeTasks: (worker: string) => number | undefined;
  /** Returns the workers as the orchestrator lists them, with the tasks they have; none while it is down. */
  readonly listed: () => readonly Pick<WorkerView, 'peer_id' | 'tasks'>[];
}

export class Checks {
  readonly #options: ChecksOptions;
  readonly #facts = new Map<string, Facts>();
  /** Tasks that wait and that nothing but their turn distinguishes, by the requirements they share. */
  readonly #waiting = new Map<string, Map<string, TaskRecord>>();
  /** Worker → when a message of it last reached the orchestrator. */
  readonly #heardMs = new Map<string, number>();
  readonly #open = new Set<Facts>();
  #ended: { readonly atMs: number; readonly taskId: string }[] = [];
  readonly #trace: Trace;
  /** Worker and task → time since when the orchestrator lists an assignment that its row does not have. */
  #misplaced = new Map<string, number>();
  #upSinceMs = Number.POSITIVE_INFINITY;
  #violation: RuleBroken | undefined;
  /** Times that everything was looked at. */
  sweeps = 0;
  /** Single rules that were asked. */
  asked = 0;
  /** Runs that started while another of their task was running. */
  overlaps = 0;

  constructor(options: ChecksOptions) {
    this.#options = options;
    this.#trace = new Trace(options.time);
  }

  /** Number of tasks that were submitted and whose row has not ended. */
  get open(): number {
    return this.#open.size;
  }

  /** Throws when a rule was broken: rules are checked inside shipped code, which would handle an error thrown there. */
  throwIfBroken(): void {
    if (this.#violation !== undefined) throw this.#violation;
  }

  task(taskId: string): SimTask | undefined {
    return this.#facts.get(taskId)?.task;
  }

  record(taskId: string): TaskRecord | undefined {
    return this.#facts.get(taskId)?.record;
  }

  run(taskId: string, attempt: number): Run | undefined {
    return this.#facts.get(taskId)?.runs.get(attempt);
  }

  *waitingTasks(): Iterable<string> {
    for (const { record } of this.#open) if (record?.state === 'queued') yield record.task_id;
  }

  // The user and the operator.

  submitted(task: SimTask): void {
    const facts: Facts = {
      task,
      record: undefined,
      starts: 0,
      startedAttempts: new Set(),
      runs: new Map(),
      reported: new Set(),
      progressMs: Number.NEGATIVE_INFINITY,
      retried: false,
    };
    this.#facts.set(task.task_id, facts);
    this.#open.add(facts);
    this.#trace.note(task.task_id, 'submitted');
  }

  acknowledged({ task_id }: SimTask): void {
    const known = this.#facts.get(task_id);
    if (known !== undefined)
      this.#require(known.record !== undefined, task_id, 'a task is on disk before it is acknowledged');
  }

  operatorRetries(taskId: string): void {
    const facts = this.#facts.get(taskId);
    if (facts === undefined) return;
    facts.retried = true;
    facts.starts = 0;
    this.#trace.note(taskId, 'an operator retries it');
  }

  orchestratorDied(): void {
    this.#upSinceMs = Number.POSITIVE_INFINITY;
    this.#trace.note('', 'the orchestrator died');
  }

  orchestratorStarted(): void {
    this.#upSinceMs = this.#options.time.nowMs;
    this.#trace.note('', 'an orchestrator started');
  }

  /** Handles an error that a shipped part has logged: none of them meets one here. */
  loggedError(message: string, fields: Record<string, unknown>): void {
    this.#require(false, '', `nothing is logged as an error, but: ${message} ${JSON.stringify(fields)}`);
  }

  // The rows of the orchestrator.

  written(after: TaskRecord): void {
    const id = after.task_id;
    const facts = this.#facts.get(id);
    if (facts === undefined) return;
    const before = facts.record;
    facts.record = after;
    const { state, attempt, worker } = after;
    this.#trace.note(id, 'row', { state, attempt, worker, parked: after.parked });
    if (before !== undefined) this.#changed(facts, before, after);
    this.#states(after);
    this.#resultOf(facts, after);
    this.#turns(facts, before, after);
    if (after.ended_at !== null && before?.ended_at == null) {
      this.#open.delete(facts);
      this.#ended.push({ atMs: this.#options.time.nowMs, taskId: id });
    } else if (after.ended_at === null) this.#open.add(facts);
  }

  #changed(facts: Facts, before: TaskRecord, after: TaskRecord): void {
    const id = after.task_id;
    this.#require(after.attempt >= before.attempt, id, 'attempts only grow');
    this.#require(after.late_results.length >= before.late_results.length, id, 'a late result is never thrown away');
    const again = before.ended_at !== null && after.ended_at !== before.ended_at;
    this.#require(!again || facts.retried, id, 'what has ended stays as it ended, unless an operator retries it');
    if (before.ended_at !== null && !again) {
      const same = after.state === before.state && isDeepStrictEqual(after.result, before.result);
      this.#require(same, id, 'one result is accepted, once');
    }
    this.#fence(before, after);
    if (after.state === 'queued' && before.state !== 'queued') facts.retried = false;
    const last = after.attempts.at(-1);
    const lost =
      last?.outcome === 'lost' && before.attempts.find((one) => one.attempt === last.attempt)?.outcome == null;
    if (lost && last.reason === 'the worker sent nothing while the lease was valid') {
      const quietMs = this.#options.time.nowMs - facts.progressMs;
      this.#require(
        quietMs >= LEASE_TTL_S * 1000,
        id,
        `a lease holds while progress comes: the last was ${quietMs} ms ago`,
      );
    }
  }

  #states({ task_id: id, state, parked, dead_letter, ended_at, worker, result, cancel_requested }: TaskRecord): void {
    if (ended_at === null) {
      const waits = state === 'queued' || parked;
      this.#require(waits || (ACTIVE.has(state) && worker !== null), id, 'a task waits, has a worker, or is parked');
      if (parked) this.#require(dead_letter !== null && dead_letter !== '', id, 'a parked task says why');
    } else {
      const said = result !== null || dead_letter !== null || cancel_requested;
      this.#require(said, id, `a task that ended as ${state} says why`);
      this.#require(!parked, id, 'what has ended does not wait for an operator');
    }
  }

  /** Checks the fence: while an accepted attempt is under way, the report of an earlier one is not applied. */
  #fence(before: TaskRecord, after: TaskRecord): void {
    const of = after.result?.envelope?.attempt;
    const holds = before.state === 'accepted' || before.state === 'running';
    if (!holds || of === undefined || of >= before.attempt || isDeepStrictEqual(before.result, after.result)) return;
    // If the accepted attempt was lost in between, the fence was too.
    const lost = after.attempts.some(({ attempt, outcome }) => attempt === before.attempt && outcome === 'lost');
    this.#require(
      lost,
      after.task_id,
      `a result with the old fence ${of} is never applied over attempt ${before.attempt}`,
    );
  }

  /** Checks that the worker reported the result in a row, and that it matches the real outcome of the run. */
  #resultOf(facts: Facts, { task_id: id, state, result }: TaskRecord): void {
    if (result === null || !ENDED.has(state)) return;
    const { attempt, sender } = result.envelope ?? {};
    this.#require(facts.reported.has(`${sender} ${attempt}`), id, 'a result in a row was reported by its worker');
    if (result.status !== 'done') return;
    const run = facts.runs.get(attempt as number);
    this.#require(run?.end === 'done', id, 'what is reported as done was done');
    this.#require(result.tokens_spent === run?.spent, id, 'a result says what its run has spent');
  }

  /** Checks turns: among tasks of the same requirements the next one by priority goes first, and no task waits for ever. */
  #turns(facts: Facts, before: TaskRecord | undefined, after: TaskRecord): void {
    const line = lineOf(facts.task);
    if (line === undefined) return;
    const waits =
      after.state === 'queued' && after.attempt === 0 && after.not_before === null && !after.cancel_requested;
    if (waits) {
      const waiting = this.#waiting.get(line) ?? new Map<string, TaskRecord>();
      this.#waiting.set(line, waiting.set(after.task_id, before ?? after));
      return;
    }
    this.#waiting.get(line)?.delete(after.task_id);
    const reserved = before?.attempt === 0 || before === undefined ? after.attempts[0] : undefined;
    if (reserved === undefined) return;
    for (const other of this.#waiting.get(line)?.values() ?? []) {
      const passed = turnOf(other) < turnOf(after) && other.updated_at < reserved.sent_at;
      this.#require(!passed, after.task_id, `${other.task_id} waits for the same workers, and it was its turn`);
    }
  }

  // The wire, at the orchestrator.

  sent(worker: string, message: FleetMessage): void {
    if (message.type !== 'TASK_DISPATCH') return;
    const { task_id: id } = message.task;
    const { attempt } = message.envelope ?? {};
    this.#trace.note(id, 'dispatch leaves', { attempt, worker });
    const facts = this.#facts.get(id);
    if (facts === undefined) return;
    const { record } = facts;
    const stored = record?.attempt === attempt && record?.worker === worker && ACTIVE.has(record.state);
    this.#require(stored, id, 'the row is on disk before its dispatch leaves');
  }

  received(worker: string, message: FleetMessage): void {
    const { nowMs } = this.#options.time;
    this.#heardMs.set(worker, nowMs);
    if (message.type !== 'TASK_RESULT' && message.type !== 'TASK_PROGRESS') return;
    const { task_id, envelope } = message;
    const facts = this.#facts.get(task_id);
    if (facts === undefined) return;
    if (message.type === 'TASK_RESULT') {
      this.#trace.note(task_id, 'result arrives', { worker, attempt: envelope?.attempt, status: message.status });
      facts.reported.add(`${worker} ${envelope?.attempt}`);
    } else if (facts.record?.worker === worker && facts.record.attempt === envelope?.attempt) facts.progressMs = nowMs;
  }

  /** Handles the orchestrator's acknowledgement to a worker that it has this result. */
  confirmed({ task_id: id, status, tokens_spent, envelope }: Reported): void {
    const record = this.#facts.get(id)?.record;
    if (record === undefined || (status !== 'done' && status !== 'partial')) return;
    // Another report of the same content is the same report.
    const stored = [record.result, ...record.late_results.map(({ result }) => result)].some(
      (one) => one?.status === status && one.tokens_spent === tokens_spent,
    );
    this.#require(stored, id, `the result of attempt ${envelope?.attempt} is on disk before it is confirmed`);
  }

  // A worker.

  worker(site: Site): WorkerObserver {
    const disk = this.#options.disks.get(site.name) as WorkerDisk;
    return {
      accepted: ({ taskId, attempt, digest }) => {
        this.#trace.note(taskId, 'accepted', { attempt, at: site.name });
        const declined = disk.declined.get(taskId);
        const again = declined !== undefined && declined.attempt >= attempt;
        this.#require(
          !again || (declined.digest !== null && declined.digest !== digest),
          taskId,
          `attempt ${attempt} was declined by ${site.name} and is not accepted later`,
        );
      },
      declined: ({ taskId, attempt, reason }) => {
        this.#trace.note(taskId, 'declined', { attempt, at: site.name, code: reason?.code });
        const started = this.#facts.get(taskId)?.runs.get(attempt);
        this.#require(started?.site !== site, taskId, `attempt ${attempt} was started and is not declined`);
      },
      ended: (run) => this.#ran(run),
      started: (run, budget) => this.#started(run, budget),
      deadOnArrival: () => {},
      sent: (message) => this.#workerSends(site, disk, message),
      received: (message) => {
        if (message.type === 'TASK_DISPATCH')
          this.#trace.note(message.task.task_id, 'dispatch arrives', {
            attempt: message.envelope?.attempt,
            at: site.name,
          });
      },
    };
  }

  #workerSends(site: Site, disk: WorkerDisk, message: FleetMessage): void {
    if (message.type === 'TASK_ACK' && message.accepted) {
      const { task_id, envelope } = message;
      const stored = disk.tasks.get(task_id)?.some(({ attempt }) => attempt === envelope?.attempt);
      this.#require(stored === true, task_id, 'an attempt is in the journal before it is acknowledged');
    } else if (message.type === 'TASK_RESULT') {
      const { task_id, status, tokens_spent, blocked_reason, envelope } = message;
      const attempt = envelope?.attempt as number;
      this.#trace.note(task_id, 'result leaves', { attempt, at: site.name, status, blocked_reason });
      const stored = disk.tasks.get(task_id)?.some((one) => one.attempt === attempt && one.state === 'ended');
      const refusal = status === 'blocked' && tokens_spent === 0;
      const replayed = status === 'error' && disk.latest(task_id)?.result?.status === 'error';
      this.#require(stored === true || refusal || replayed, task_id, 'a result is in the journal before it is sent');
      if (refusal) this.#require(blocked_reason != null && blocked_reason !== '', task_id, 'a refusal says why');
    }
  }

  #started(run: Run, budget: number | null): void {
    const { task, attempt, site } = run;
    const id = task.task_id;
    this.#trace.note(id, 'starts', { attempt, at: site.name });
    const facts = this.#facts.get(id);
    if (facts === undefined) return;
    this.#require(attempt > 0, id, 'an attempt is marked as started on disk before it runs');
    this.#require(!facts.startedAttempts.has(attempt), id, `attempt ${attempt} is started once`);
    const given = facts.record?.attempts.find((one) => one.attempt === attempt)?.worker;
    this.#require(
      given === site.name,
      id,
      `attempt ${attempt} runs at ${given}, which it was given to, not at ${site.name}`,
    );
    this.#require(site.runs.size <= site.capacity, id, `${site.name} runs no more than it can`);
    this.#require(budget === null || budget >= site.overhead, id, 'a budget that buys nothing starts nothing');
    const { deadlineMs } = task.route;
    const inTime = deadlineMs === null || this.#options.time.nowMs + EPOCH_MS < deadlineMs + DEADLINE_SLACK_MS;
    this.#require(inTime, id, 'nothing is started after its deadline');
    facts.starts += 1;
    facts.startedAttempts.add(attempt);
    if ([...facts.runs.values()].some(({ end }) => end === undefined)) this.overlaps += 1;
    if (!task.spec.retry_safe) {
      this.#require(facts.starts === 1, id, 'what a second run may harm runs once, unless an operator retries it');
    }
    facts.runs.set(attempt, run);
  }

  #ran({ task, attempt, end, spent }: Run): void {
    this.#trace.note(task.task_id, 'run ends', { attempt, end, spent });
    const { token_budget: budget } = task.route;
    this.#require(
      budget === null || spent <= budget * BUDGET_SLACK,
      task.task_id,
      'no run spends more than its budget',
    );
  }

  // Checks of everything.

  /** Looks at every open task and every worker. */
  sweep(): void {
    const { time, sites, activeTasks } = this.#options;
    this.sweeps += 1;
    for (const site of sites) {
      const active = activeTasks(site.name) ?? 0;
      this.#require(active <= site.capacity, '', `${site.name} has ${active} tasks, and room for ${site.capacity}`);
      this.#require(site.runs.size <= site.capacity, '', `${site.name} runs no more than it can`);
    }
    if (this.sweeps % LIST_EVERY === 0) this.#sweepListed();
    const upMs = time.nowMs - this.#upSinceMs;
    if (upMs < SILENCE_MS) return;
    for (const { record } of this.#open) {
      if (record === undefined || !ACTIVE.has(record.state)) continue;
      const silentMs = time.nowMs - (this.#heardMs.get(record.worker as string) ?? 0);
      const heldMs = time.nowMs + EPOCH_MS - record.updated_at;
      const stuck = silentMs > SILENCE_MS && heldMs > SILENCE_MS;
      this.#require(!stuck, record.task_id, `it stays with ${record.worker}, which has been silent for ${silentMs} ms`);
    }
  }

  /** Checks that the listed load of a worker matches its rows; rows follow within some moments. */
  #sweepListed(): void {
    const { time, listed } = this.#options;
    const misplaced = new Map<string, number>();
    for (const { peer_id, tasks } of listed()) {
      for (const taskId of tasks) {
        const record = this.#facts.get(taskId)?.record;
        if (record !== undefined && record.worker === peer_id && ACTIVE.has(record.state)) continue;
        const key = `${peer_id} ${taskId}`;
        const sinceMs = this.#misplaced.get(key) ?? time.nowMs;
        misplaced.set(key, sinceMs);
        this.#require(
          time.nowMs - sinceMs < LISTED_MS,
          taskId,
          `${peer_id} is listed with a task that it does not have`,
        );
      }
    }
    this.#misplaced = misplaced;
  }

  /** Checks the end, when nothing more happens: every task has ended, and every report has arrived. */
  finished(): void {
    for (const { record, task } of this.#open) {
      this.#require(false, task.task_id, `it is ${record?.state ?? 'not stored'} at the end`);
    }
    for (const [worker, disk] of this.#options.disks) {
      for (const { taskId, attempt, state, delivered } of disk.all()) {
        this.#require(state === 'ended', taskId, `attempt ${attempt} is ${state} at ${worker} at the end`);
        this.#require(delivered, taskId, `the result of attempt ${attempt} never left ${worker}`);
      }
    }
    this.throwIfBroken();
  }

  /** Forgets tasks that ended long ago. */
  forget(): void {
    const before = this.#options.time.nowMs - REMEMBER_MS;
    const old = this.#ended.filter(({ atMs }) => atMs < before);
    this.#ended = this.#ended.slice(old.length);
    for (const { taskId } of old) {
      const facts = this.#facts.get(taskId);
      const idle = facts !== undefined && [...facts.runs.values()].every(({ end }) => end !== undefined);
      if (idle && !this.#open.has(facts)) this.#facts.delete(taskId);
    }
  }

  #require(holds: boolean, taskId: string, rule: string): void {
    this.asked += 1;
    if (holds || this.#violation !== undefined) return;
    const { seed, time } = this.#options;
    this.#violation = new RuleBroken({
      rule: `${taskId}: ${rule}`,
      seed,
      step: time.steps,
      atMs: time.nowMs,
      trace: this.#trace.of(taskId),
    });
  }
}

/**
 * Returns the queue that tasks for the same workers share; undefined: a requirement of this task alone decides when it
 * can go.
 */
function lineOf({ route, spec }: SimTask): string | undefined {
  const { required_mcp, required_capabilities, min_tier, min_context_window, access, pool } = route;
  if (route.token_budget !== null || route.deadlineMs !== null || route.context_id !== null) return undefined;
  if (spec.worker !== null || spec.after.length > 0) return undefined;
  return JSON.stringify([
    required_mcp.toSorted(),
    required_capabilities.toSorted(),
    min_tier,
    min_context_window,
    access,
    pool,
  ]);
}

const turnOf = ({ created_at, spec }: TaskRecord): number => created_at - HEAD_START_S[spec.priority] * 1000;
