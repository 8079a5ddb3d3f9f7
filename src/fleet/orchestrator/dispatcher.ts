/**
 * From the queue to a worker: takes the task whose turn it is, routes it, reserves its worker, writes the row, sends. It runs
 * on every change of a task or a worker.
 *
 * A task without an eligible worker must not delay the others, and must not be routed again for every event. Tasks with equal
 * requirements share a queue. The queue pauses when no worker is eligible and resumes when a matching worker changes. A
 * property of a single task (its exclusions, its budget, its conversation) puts only that task aside for a moment.
 */

import type { Log } from '../../base/log.ts';
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import { asError } from '../../wire/errors.ts';
import type { OrchestratorBus } from '../bus/peer.ts';
import { TaskQueue } from '../queue.ts';
import type { AbsenceInfo } from '../route/explain.ts';
import { capacityOf, loadOf, reasonsAgainst } from '../route/filters.ts';
import type { Explanation, Profile, RouteTask } from '../route/profile.ts';
import type { Decision, ExplainAt, Router } from '../route/router.ts';
import { decideWait, nonTransientReasons, type WaitDecision } from '../route/wait-decision.ts';
import type { AttemptFailure, AttemptFailures } from './attempt-failures.ts';
import type { Peers } from './peers.ts';
import { offerTo } from './task-machine.ts';
import { dispatchOf, routeTaskOf } from './task-record.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';

/** Tasks routed before others get a turn of the event loop. */
const MAX_PER_TURN = 256;
/** Longest time that workers may take to join after a start, milliseconds. */
const JOIN_GRACE_MS = 5_000;
/** Time that a task waits that was put aside, milliseconds, and the number of tasks that are routed again then. */
const ASIDE_MS = 100;
const MAX_ASIDE_PER_TURN = 200;

export interface DispatcherOptions {
  readonly name: string;
  readonly registry: TaskRegistry;
  readonly peers: Peers;
  readonly router: Router;
  readonly failures: () => AttemptFailures;
  readonly buses: readonly OrchestratorBus[];
  readonly leaseTtlS: number;
  readonly maxTasks: number;
  /** Time that workers are waited for after the start before a task is refused for want of one, milliseconds. Default 5,000. */
  readonly joinGraceMs: number | undefined;
  readonly clock: Clock;
  /** Calls `run` when the event loop has served everything else that is due. */
  readonly nextTurn: (run: () => void) => void;
  readonly now: () => number;
  readonly log: Log;
  /** Called when the attempt may have been delivered, or not: its worker should be polled. */
  unsure(tracked: TrackedTask): void;
  /** Aborts when the orchestrator stops. */
  readonly signal: AbortSignal;
}

/** A task as it is queued: its requirements, and the queue of the tasks that share them. */
interface Routed {
  readonly task: RouteTask;
  readonly queueName: string;
}

/** A queue whose tasks no worker can accept now. */
interface Paused {
  /** The requirements that its tasks have in common. */
  readonly task: RouteTask;
  /** The worker that will be able to; null: any that joins; undefined: the end of the join grace decides. */
  readonly waitsFor: string | null | undefined;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #queue: TaskQueue;
  readonly #later: TimerQueue<string>;
  readonly #rounds: TimerQueue<'aside'>;
  readonly #routed = new WeakMap<object, Routed>();
  /** Queues no worker can accept from now, by name. */
  readonly #paused = new Map<string, Paused>();
  /** Worker, or null for any that joins → paused queues that wait for it. */
  readonly #waitingFor = new Map<string | null, Set<string>>();
  /** Workers that changed since they were last offered the paused queues. */
  readonly #changed = new Set<string>();
  readonly #aside = new Set<string>();
  /** Tasks the policy defers until a worker meets their requirements. */
  readonly #deferred = new Map<string, RouteTask>();
  /** End of the time in which workers may still be joining. Monotonic. */
  readonly #joinGraceEndsAt: number;
  readonly #joinGrace: TimerQueue<'settled'>;
  #scheduled = false;
  #pumping = false;
  #stopped = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#queue = new TaskQueue({ maxTasks: options.maxTasks + 1 });
    this.#joinGraceEndsAt = options.clock.monotonic() + (options.joinGraceMs ?? JOIN_GRACE_MS);
    this.#joinGrace = new TimerQueue(options.clock, () => this.wakeAll());
    this.#joinGrace.set('settled', this.#joinGraceEndsAt);
    this.#later = new TimerQueue(options.clock, (taskId) => this.#requeue(taskId));
    this.#rounds = new TimerQueue(options.clock, () => this.#tryAside());
  }

  /** Tasks that wait to be routed now. */
  get size(): number {
    return this.#queue.size + this.#aside.size;
  }

  /** Queues a task that waits to be routed, from its `not_before` on. */
  enqueue(tracked: TrackedTask): void {
    const { now, clock } = this.#options;
    const { not_before } = tracked.record;
    const delay = not_before === null ? 0 : not_before - now();
    if (delay > 0) return this.#later.set(tracked.id, clock.monotonic() + delay);
    this.#push(tracked);
    this.schedule();
  }

  /** Removes a task that no longer waits. */
  withdraw(taskId: string): void {
    this.#queue.remove(taskId);
    this.#later.clear(taskId);
    this.#aside.delete(taskId);
    this.#deferred.delete(taskId);
  }

  /** Notes that a worker changed: its announce, its load, or its connection. */
  wake(peerId: string): void {
    if (this.#paused.size + this.#deferred.size > 0) this.#wakeWaiting(peerId);
    this.schedule();
  }

  #wakeWaiting(peerId: string): void {
    const { router, peers, clock } = this.#options;
    const profile = router.profile(peerId, clock.monotonic());
    if (profile !== undefined) {
      for (const [taskId, task] of this.#deferred) {
        if (reasonsAgainst(task, profile, router.policy).length === 0) this.#requeue(taskId);
      }
    }
    if (profile !== undefined) {
      this.#changed.add(peerId);
      for (const queueName of [...(this.#waitingFor.get(null) ?? [])]) this.#resume(queueName);
    }
    const absent = profile === undefined || peers.absenceOf(peerId) !== null;
    for (const queueName of [...(this.#waitingFor.get(peerId) ?? [])]) {
      const { task } = this.#paused.get(queueName) as Paused;
      // The worker will not be able to accept its tasks after all: the next step for them is decided again.
      const hopeless = absent || nonTransientReasons(reasonsAgainst(task, profile, router.policy)).length > 0;
      if (hopeless) this.#resume(queueName);
    }
  }

  /** Resumes, in the order of their turns, as many paused queues as the workers that changed have capacity for. */
  #offerPaused(): boolean {
    const { router, clock } = this.#options;
    let resumed = false;
    for (const peerId of this.#changed) {
      const profile = router.profile(peerId, clock.monotonic());
      const room = profile === undefined ? 0 : capacityOf(profile, router.policy) - loadOf(profile);
      let offered = 0;
      for (; profile !== undefined && offered < room; offered += 1) {
        const fits = (name: string | null): boolean => this.#fits(name as string, profile);
        const queueName = this.#queue.firstPaused(fits);
        if (queueName === undefined) break;
        this.#resume(queueName as string);
      }
      if (offered === 0) this.#changed.delete(peerId);
      else resumed = true;
    }
    return resumed;
  }

  #fits(queueName: string, profile: Profile): boolean {
    const { task } = this.#paused.get(queueName) as Paused;
    return reasonsAgainst(task, profile, this.#options.router.policy).length === 0;
  }

  /** Decides about every waiting task again. */
  wakeAll(): void {
    for (const queueName of [...this.#paused.keys()]) this.#resume(queueName);
    this.schedule();
  }

  schedule(): void {
    if (this.#scheduled || this.#stopped) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.pump();
    });
  }

  /** Routes the tasks that can be routed now. */
  pump(): void {
    const { registry } = this.#options;
    if (this.#pumping || this.#stopped || registry.failure !== undefined) return;
    this.#pumping = true;
    try {
      this.#offerPaused();
      for (let routed = 0; routed < MAX_PER_TURN; routed += 1) {
        // Removed only when it is dispatched, so that a waiting task retains its position.
        const next = this.#queue.peek() ?? (this.#offerPaused() ? this.#queue.peek() : undefined);
        if (next === undefined) return;
        const tracked = registry.get(next.task_id);
        if (tracked?.record.state === 'queued') this.#route(tracked);
        else this.#queue.remove(next.task_id);
      }
      if (!this.#scheduled) {
        this.#scheduled = true;
        this.#options.nextTurn(() => {
          this.#scheduled = false;
          this.pump();
        });
      }
    } finally {
      this.#pumping = false;
    }
  }

  /** Returns the place where a task would go now, and the reasons: compares every worker. */
  explain(record: TrackedTask['record']): Explanation {
    const { router, peers, clock, now } = this.#options;
    const excluded = peers.excludedOf(record.excluded);
    const task = routeTaskOf(record);
    const wait = decideWait(task, peers.candidates(task.only), router.policy);
    return router.explain(task, {
      nowMs: clock.monotonic(),
      wallMs: now(),
      excluded,
      nextAttemptMs: record.not_before,
      elsewhere: this.#absenceInfo(task, wait),
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#joinGrace.stop();
    this.#later.stop();
    this.#rounds.stop();
  }

  #pause(queueName: string, paused: Paused): void {
    const { router, clock } = this.#options;
    this.#paused.set(queueName, paused);
    this.#queue.pause(queueName);
    if (paused.waitsFor !== undefined) {
      const waiting = this.#waitingFor.get(paused.waitsFor) ?? new Set();
      this.#waitingFor.set(paused.waitsFor, waiting.add(queueName));
    }
    // A policy hook rejects these workers: offering the task to them at once would pause and resume the queue without end.
    for (const peerId of this.#changed) {
      const profile = router.profile(peerId, clock.monotonic());
      if (profile !== undefined && this.#fits(queueName, profile)) this.#changed.delete(peerId);
    }
  }

  #resume(queueName: string): void {
    const paused = this.#paused.get(queueName);
    if (paused === undefined) return;
    this.#paused.delete(queueName);
    this.#queue.resume(queueName);
    const waiting = paused.waitsFor === undefined ? undefined : this.#waitingFor.get(paused.waitsFor);
    if (waiting?.delete(queueName) && waiting.size === 0) this.#waitingFor.delete(paused.waitsFor as string | null);
  }

  #push({ id, record }: TrackedTask): void {
    const { queueName, task } = this.#routedOf(record);
    this.#aside.delete(id);
    this.#queue.push({
      task_id: id,
      priority: task.priority,
      enqueuedAtMs: record.created_at,
      pool: queueName,
    });
  }

  #requeue(taskId: string): void {
    this.#later.clear(taskId);
    this.#deferred.delete(taskId);
    const tracked = this.#options.registry.get(taskId);
    if (tracked?.record.state !== 'queued') return;
    this.#push(tracked);
    this.schedule();
  }

  #tryAside(): void {
    let left = MAX_ASIDE_PER_TURN;
    for (const taskId of this.#aside) {
      if (left-- === 0) break;
      this.#aside.delete(taskId);
      this.#requeue(taskId);
    }
    this.#planRound();
  }

  #planRound(): void {
    if (this.#aside.size === 0 || this.#rounds.at('aside') !== undefined) return;
    this.#rounds.set('aside', this.#options.clock.monotonic() + ASIDE_MS);
  }

  #routedOf(record: TrackedTask['record']): Routed {
    let routed = this.#routed.get(record.spec);
    if (routed === undefined) {
      const task = routeTaskOf(record);
      routed = { task, queueName: queueNameOf(task) };
      this.#routed.set(record.spec, routed);
    }
    return routed;
  }

  #route(tracked: TrackedTask): void {
    const { router, peers, clock, now, registry } = this.#options;
    const { task } = this.#routedOf(tracked.record);
    const excluded = peers.excludedOf(tracked.record.excluded);
    const attempt = tracked.record.attempt + 1;
    const at = { nowMs: clock.monotonic(), wallMs: now(), excluded, attempt };
    const decision = router.decide(task, at);
    if (decision.chosen !== null) {
      const { mode, announced } = peers.get(decision.chosen)!;
      const explanation = router.explanation(task, decision, at);
      registry.apply(tracked, {
        type: 'reserved',
        worker: decision.chosen,
        mode,
        incarnation: announced?.incarnation ?? null,
        explanation,
      });
      void this.#send(tracked);
    } else if (decision.reason.startsWith('deadline_')) {
      registry.apply(tracked, { type: 'decided', explanation: router.explanation(task, decision, at) });
      registry.apply(tracked, {
        type: 'failed',
        reason: `${decision.reason}: ${this.#lateness(task, decision.reason)}`,
      });
    } else if (!this.#offer(tracked)) this.#noWorker(tracked, decision, at);
  }

  /**
   * Returns the reason for a deadline that is near and has not passed: it names the time left and the setting that needs more.
   */
  #lateness({ deadlineMs }: RouteTask, reason: string): string {
    if (reason === 'deadline_passed') return 'no worker accepted it before the deadline';
    const leftS = Math.max(0, Math.floor(((deadlineMs ?? 0) - this.#options.now()) / 1000));
    return `${leftS} s are left before the deadline, and routing needs ${this.#options.router.policy.min_lead_s} s (min_lead_s)`;
  }

  /**
   * Handles a task that no worker can accept now: it waits for one, or is refused. Workers that are still joining get a grace
   * time.
   */
  #noWorker(tracked: TrackedTask, decision: Decision, now: ExplainAt): void {
    const { router, peers, clock } = this.#options;
    const { task, queueName } = this.#routedOf(tracked.record);
    const wait = decideWait(task, peers.candidates(task.only), router.policy);
    const at = { ...now, elsewhere: this.#absenceInfo(task, wait) };
    if (!wait.waits && clock.monotonic() >= this.#joinGraceEndsAt) {
      return this.#refuse(tracked, task, wait.code, router.explanation(task, decision, at));
    }
    this.#noteUnroutable(tracked, task, decision, at);
    if (router.eligible(common(task), { nowMs: at.nowMs, wallMs: at.wallMs }) === 0) {
      this.#pause(queueName, { task: common(task), waitsFor: wait.waits ? wait.worker : undefined });
    } else {
      this.#queue.remove(tracked.id);
      this.#aside.add(tracked.id);
      this.#planRound();
    }
  }

  /** Facts for the explanation about workers that are not connected. */
  #absenceInfo(task: RouteTask, wait: WaitDecision): AbsenceInfo {
    const { peers } = this.#options;
    if (task.only !== null && peers.get(task.only) === undefined) {
      return { known: Array.from(peers.all(), ({ peer }) => peer.peerId) };
    }
    const worker = task.only ?? (wait.waits ? wait.worker : null);
    const away = worker === null ? null : peers.absenceOf(worker);
    return away === null ? {} : { away };
  }

  /** Removes it from the queue when no worker meets its requirements, because waiting would be useless. */
  #refuse(tracked: TrackedTask, task: RouteTask, code: string, explanation: Explanation): void {
    this.#queue.remove(tracked.id);
    this.#options.failures().unroutable(tracked, code, explanation);
    if (tracked.record.state !== 'queued') return;
    this.#deferred.set(tracked.id, task);
    this.enqueue(tracked);
  }

  /** Stores the decision if it differs from the last one. */
  #noteUnroutable(tracked: TrackedTask, task: RouteTask, decision: Decision, at: ExplainAt): void {
    const { router, registry } = this.#options;
    const before = tracked.record.explanation;
    const away = at.elsewhere?.away;
    const waitsFor = away?.untilMs === null ? undefined : away?.agent_id;
    const known =
      before?.chosen === null &&
      before.waits_for === waitsFor &&
      JSON.stringify(before.rejected) === JSON.stringify(decision.rejected ?? {});
    if (known) return;
    registry.apply(tracked, { type: 'decided', explanation: router.explanation(task, decision, at) });
  }

  /** Offers it to every worker of its pool, when the bus can and none is free now. */
  #offer(tracked: TrackedTask): boolean {
    const { pool, worker } = tracked.record.spec;
    const bus =
      pool === null || worker !== null ? undefined : this.#options.buses.find(({ offer }) => offer !== undefined);
    if (bus === undefined || pool === null) return false;
    this.#options.registry.apply(tracked, { type: 'reserved', worker: offerTo(pool), mode: 'structured' });
    void this.#deliver(tracked, (message) => bus.offer!(pool, message));
    return true;
  }

  #send(tracked: TrackedTask): Promise<void> {
    const { peers, signal } = this.#options;
    return this.#deliver(tracked, (message) => {
      const { peer, mode } = peers.get(tracked.record.worker as string)!;
      return peer.send(message, { mode, signal });
    });
  }

  /** Stores the row first, then sends. Never rejects. */
  async #deliver(tracked: TrackedTask, send: (message: ReturnType<typeof dispatchOf>) => Promise<void>): Promise<void> {
    tracked.sending = true;
    try {
      await this.#storeAndSend(tracked, send);
    } finally {
      tracked.sending = false;
    }
  }

  async #storeAndSend(
    tracked: TrackedTask,
    send: (message: ReturnType<typeof dispatchOf>) => Promise<void>,
  ): Promise<void> {
    const { registry, name, leaseTtlS, now } = this.#options;
    const { attempt } = tracked.record;
    const current = (): boolean => !tracked.superseded && tracked.record.attempt === attempt;
    try {
      await registry.save(tracked);
    } catch (thrown) {
      // Another orchestrator took it over, or the disk is full: nothing was sent.
      if (current() && tracked.record.state === 'reserved') {
        const reason = `not stored: ${asError(thrown).message}`;
        registry.apply(tracked, { type: 'released', outcome: 'unknown', reason, not_before: now() + 1000 });
      }
      return;
    }
    if (!current() || tracked.record.state !== 'reserved') return;
    try {
      await send(dispatchOf(tracked.record, name, leaseTtlS, now()));
    } catch (thrown) {
      tracked.sending = false;
      if (current()) this.#unsent(tracked, asError(thrown));
      return;
    }
    if (!current()) return;
    registry.apply(tracked, { type: 'sent' });
    // Without acknowledgements the bus reports that the worker has it.
    const entry = this.#options.peers.get(tracked.record.worker ?? '');
    if (entry !== undefined && !entry.peer.features.has('ack') && !entry.peer.durable) {
      registry.apply(tracked, { type: 'accepted', attempt });
    }
  }

  #unsent(tracked: TrackedTask, error: ReturnType<typeof asError>): void {
    const { log, registry, failures, unsure } = this.#options;
    const { worker, attempt } = tracked.record;
    log.warn('dispatch could not be sent', {
      task_id: tracked.id,
      worker,
      attempt,
      code: error.code,
      error: error.message,
    });
    const refusal = refusalOf(error);
    if (refusal !== undefined) return failures().released(tracked, refusal);
    // It may have arrived: its worker is asked, or its lease decides.
    registry.apply(tracked, { type: 'sent' });
    unsure(tracked);
  }
}

/** Returns the effect of a failed send on the attempt; undefined: it may have been delivered. */
function refusalOf({ code, message, detail }: ReturnType<typeof asError>): AttemptFailure | undefined {
  switch (code) {
    case 'unreachable':
      return { outcome: 'unreachable', code: 'busy', reason: message };
    case 'over_capacity': {
      const { retry_after_ms: ms, reason } = detail;
      const row = reason === 'in_flight' ? 'in_flight' : 'busy';
      return { outcome: 'busy', code: row, reason: message, ...(typeof ms === 'number' && { retryAfterS: ms / 1000 }) };
    }
    case 'unauthorized':
    case 'auth_failed':
      return { outcome: 'unreachable', code: 'auth_required', reason: message };
    case 'invalid_message':
    case 'too_large':
      return { outcome: 'unreachable', code: 'invalid_dispatch', reason: `invalid_dispatch: ${message}` };
    default:
      return undefined;
  }
}

/** Returns the part of a task that all tasks of its queue have in common. */
function common(task: RouteTask): RouteTask {
  return { ...task, token_budget: null, deadlineMs: null, brief_bytes: 0, context_id: null };
}

/** Returns name of the queue of a task: equal for tasks with equal requirements. */
function queueNameOf(task: RouteTask): string {
  const { required_mcp, required_capabilities, min_tier, min_context_window, access, pool, only } = task;
  return JSON.stringify([
    required_mcp.toSorted(),
    required_capabilities.toSorted(),
    min_tier,
    min_context_window,
    access,
    pool,
    only,
  ]);
}
