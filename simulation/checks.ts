/**
 * What must hold at every step of a simulation, whatever goes wrong: delivered at least once, started at most once per
 * attempt, accepted once, nothing lost without a word. A simulation that breaks one of these stops there and says with
 * which seed, at which step, and what led to it.
 *
 * The rules are written down here anew rather than taken from the code they check.
 * @see docs/fleet.md#failure-semantics
 */

import type { Peers } from '../src/fleet/orchestrator/peers.ts';
import type { TaskRecord, TaskState } from '../src/fleet/orchestrator/task.ts';
import type { TaskEvent } from '../src/fleet/orchestrator/task-events.ts';
import type { RouteTask } from '../src/fleet/route/profile.ts';
import { route } from '../src/fleet/route/route.ts';
import type { DecideAt, Decision, Router } from '../src/fleet/route/router.ts';
import type { TaskResult } from '../src/protocol/fleet.ts';
import type { Run } from './run.ts';
import type { VirtualTime } from './virtual-time.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

/** A rule was broken. */
export interface Violation {
  readonly rule: string;
  readonly seed: number;
  /** Events that had happened. */
  readonly step: number;
  readonly atMs: number;
  /** What led to it: everything of the task, and the last of everything. */
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

/** From where a state may be reached. `ended` goes on only by an operator. */
const REACHED_FROM: Readonly<Record<TaskState, readonly TaskState[]>> = {
  queued: ['queued', 'reserved', 'sent', 'accepted', 'blocked', 'lost'],
  reserved: ['queued'],
  sent: ['reserved'],
  accepted: ['reserved', 'sent'],
  running: ['reserved', 'sent', 'accepted'],
  done: ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'],
  partial: ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'],
  blocked: ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'],
  error: ['reserved', 'sent', 'accepted', 'running', 'lost'],
  lost: ['reserved', 'sent', 'accepted', 'running', 'lost'],
  canceled: ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'],
};
const ENDED: ReadonlySet<TaskState> = new Set(['done', 'partial', 'error', 'canceled']);
const REMEMBERED = 4096;
const LAST = 25;
/** A worker may stop a moment after the deadline it was given. */
const SLACK_MS = 1000;

/** What is known of a task beside its record. */
interface Facts {
  /** Starts since an operator last said so. */
  starts: number;
  readonly startedAttempts: Set<number>;
  readonly running: Set<Run>;
  readonly refused: Set<number>;
  accepted: number;
}

export interface ChecksOptions {
  readonly seed: number;
  readonly time: VirtualTime;
  /** Every so many decisions one is held against the plain function. */
  readonly verifyEvery: number;
}

export class Checks {
  readonly #options: ChecksOptions;
  readonly #facts = new Map<string, Facts>();
  readonly #trace: { readonly atMs: number; readonly taskId: string; readonly what: string; readonly more: unknown }[] =
    [];
  #traced = 0;
  #peers: Peers | undefined;
  /** Decisions held against the plain function. */
  verified = 0;
  /** Runs that began while another of their task went on. */
  overlaps = 0;
  submittedTasks = 0;
  endedTasks = 0;

  constructor(options: ChecksOptions) {
    this.#options = options;
  }

  submitted({ task_id }: SimTask): void {
    this.#require(!this.#facts.has(task_id), task_id, 'a task is submitted once');
    this.submittedTasks += 1;
    this.#facts.set(task_id, {
      starts: 0,
      startedAttempts: new Set(),
      running: new Set(),
      refused: new Set(),
      accepted: 0,
    });
    this.#note(task_id, 'submitted', undefined);
  }

  orchestratorDied(): void {
    this.#note('', 'the orchestrator died', undefined);
  }

  orchestratorStarted(peers: Peers): void {
    this.#peers = peers;
    this.#note('', 'an orchestrator started', undefined);
  }

  /** A record has advanced, or refused to. */
  step(before: TaskRecord, after: TaskRecord, event: TaskEvent, outcome: string): void {
    const id = after.task_id;
    this.#note(id, event.type, {
      outcome,
      from: before.state,
      to: after.state,
      attempt: after.attempt,
      worker: after.worker,
    });
    const operator = event.type === 'requeued' && event.cause === 'operator';
    const facts = this.#facts.get(id);
    if (facts === undefined) return this.#require(before === after, id, 'nothing happens to a task that is forgotten');
    if (after.state !== before.state) {
      const allowed = operator || REACHED_FROM[after.state].includes(before.state);
      this.#require(allowed, id, `${before.state} does not lead to ${after.state}`);
    }
    this.#require(
      after.attempt === before.attempt + (event.type === 'reserved' && outcome === 'changed' ? 1 : 0),
      id,
      'an attempt is counted when it is reserved, and never otherwise',
    );
    const wasEnded = before.ended_at !== null;
    if (wasEnded && !operator) {
      const same = after.state === before.state && after.result === before.result && after.ended_at === before.ended_at;
      this.#require(same, id, 'what has ended stays as it ended');
    }
    if (operator) {
      facts.starts = 0;
      facts.accepted = 0;
    }
    if (event.type === 'result' && outcome === 'changed' && ENDED.has(after.state)) {
      facts.accepted += 1;
      this.#require(facts.accepted === 1, id, 'one result is accepted');
    }
    this.#require(after.late_results.length >= before.late_results.length, id, 'a late result is never thrown away');
    if (after.ended_at === null) {
      const waits = after.state === 'queued' || after.parked;
      const active = after.worker !== null && !waits;
      const between = after.state === 'blocked' || after.state === 'lost';
      this.#require(
        waits || active || between,
        id,
        'a task that has not ended is queued, with a worker, or with an operator',
      );
    }
  }

  /** A result came in: it counts, or it is kept, or it was there already. */
  reported(after: TaskRecord, worker: string, attempt: number, result: TaskResult, outcome: string): void {
    const tried = after.attempts.some((one) => one.worker === worker && one.attempt === attempt);
    this.#require(tried, after.task_id, `a result of an attempt that ${worker} was given`);
    this.#require(outcome !== 'refused', after.task_id, 'a result that is no repetition is accepted or kept');
    if (result.status === 'blocked' && result.tokens_spent === 0) this.#facts.get(after.task_id)?.refused.add(attempt);
    if (outcome === 'changed')
      this.#require(
        after.result === result || after.state === 'queued' || after.parked,
        after.task_id,
        'the result that counts is in the record',
      );
  }

  sent({ task_id, attempt }: TaskRecord): void {
    this.#note(task_id, 'dispatch leaves', { attempt });
  }

  refused({ task_id }: SimTask, attempt: number, result: TaskResult): void {
    this.#note(task_id, 'refused', { attempt, reason: result.blocked_reason });
    const facts = this.#facts.get(task_id);
    this.#require(
      result.status === 'blocked' && result.tokens_spent === 0,
      task_id,
      'a refusal is blocked and has spent nothing',
    );
    this.#require(result.blocked_reason !== undefined, task_id, 'a refusal says why');
    facts?.refused.add(attempt);
  }

  /** An executor starts. */
  started(run: Run): void {
    const { task, attempt, site } = run;
    const id = task.task_id;
    this.#note(id, 'starts', { attempt, at: site.name });
    const facts = this.#facts.get(id);
    if (facts === undefined) return;
    this.#require(!facts.startedAttempts.has(attempt), id, `attempt ${attempt} is started once`);
    this.#require(!facts.refused.has(attempt), id, `attempt ${attempt} was refused and is not run`);
    this.#require(site.runs.size <= site.capacity, id, `${site.name} runs no more than it can`);
    const { budget, deadlineMs } = { budget: task.route.token_budget, deadlineMs: task.route.deadlineMs };
    this.#require(budget === null || budget >= site.overhead, id, 'a budget that buys nothing starts nothing');
    const inTime = deadlineMs === null || this.#options.time.nowMs + EPOCH_MS < deadlineMs + SLACK_MS;
    this.#require(inTime, id, 'nothing is started after its deadline');
    facts.starts += 1;
    facts.startedAttempts.add(attempt);
    // A dispatch that is later than its lease may begin beside another attempt: only where that does no harm.
    if (facts.running.size > 0) this.overlaps += 1;
    if (!task.spec.retry_safe) {
      this.#require(facts.starts === 1, id, 'what a second run may harm is not run again unless an operator says so');
    }
    facts.running.add(run);
  }

  stopped(run: Run): void {
    const { task, attempt, end, spent } = run;
    this.#note(task.task_id, 'run ends', { attempt, end, spent });
    this.#facts.get(task.task_id)?.running.delete(run);
    const budget = task.route.token_budget;
    this.#require(budget === null || spent <= budget, task.task_id, 'no run spends more than its budget');
  }

  decided(number: number, task: RouteTask, decision: Decision, router: Router, at: DecideAt): void {
    if (decision.chosen !== null) {
      const profile = router.profile(decision.chosen, at.nowMs)!;
      const held = this.#peers?.get(decision.chosen)?.tasks.size;
      this.#require(
        held === profile.outstanding,
        task.task_id,
        `${decision.chosen}: what is on its way is what was sent there`,
      );
    }
    if (number % this.#options.verifyEvery !== 0) return;
    this.verified += 1;
    const plain = route(task, router.profiles(at.nowMs), router.policy, { nowMs: at.wallMs, excluded: at.excluded });
    this.#require(
      plain.chosen === decision.chosen,
      task.task_id,
      `the router chooses ${plain.chosen}, not ${decision.chosen}`,
    );
    if (plain.chosen === null || decision.chosen === null) return;
    const same = JSON.stringify(plain.ranking.slice(0, 20)) === JSON.stringify(decision.ranking);
    this.#require(same, task.task_id, 'the router ranks as the plain function does');
  }

  ended({ task_id, state, result, dead_letter, cancel_requested }: TaskRecord): void {
    this.endedTasks += 1;
    const said = result !== null || dead_letter !== null || cancel_requested;
    this.#require(said, task_id, `a task that ended as ${state} says why`);
  }

  /** An ended task is not kept any more. */
  forgotten(taskId: string): void {
    this.#facts.delete(taskId);
  }

  /** Nothing happens any more: everything that came has ended. */
  finished(records: Iterable<TaskRecord>): void {
    for (const record of records) {
      this.#require(record.ended_at !== null, record.task_id, `it is still ${record.state} at the end`);
    }
    this.#require(this.endedTasks === this.submittedTasks, '', 'every task that was submitted has ended');
  }

  fail(rule: string): never {
    this.#require(false, '', rule);
    throw new Error(rule);
  }

  #note(taskId: string, what: string, more: unknown): void {
    this.#trace[this.#traced++ % REMEMBERED] = { atMs: this.#options.time.nowMs, taskId, what, more };
  }

  #require(holds: boolean, taskId: string, rule: string): void {
    if (holds) return;
    const { seed, time } = this.#options;
    const begin = Math.max(0, this.#traced - REMEMBERED);
    const notes = Array.from({ length: this.#traced - begin }, (_, at) => this.#trace[(begin + at) % REMEMBERED]!);
    const lines = notes
      .filter(
        (note, at) => (taskId !== '' && note.taskId === taskId) || note.taskId === '' || at >= notes.length - LAST,
      )
      .map(({ atMs, taskId: id, what, more }) => {
        return `${(atMs / 1000).toFixed(3).padStart(10)} s  ${id.padEnd(8)} ${what} ${more === undefined ? '' : JSON.stringify(more)}`;
      });
    throw new RuleBroken({ rule: `${taskId}: ${rule}`, seed, step: time.steps, atMs: time.nowMs, trace: lines });
  }
}
