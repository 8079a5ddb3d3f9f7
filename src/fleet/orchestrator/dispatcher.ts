/**
 * From the queue to a worker: takes the task whose turn it is, routes it, reserves its worker, writes the row, sends.
 *
 * A task nobody can take must not keep the others waiting, and must not be looked at again for every event. Tasks with equal
 * requirements wait in one line, which stands still until a worker changes that meets them; what is special about a single
 * task (its exclusions, its budget, its conversation) puts only that one aside for a moment.
 */

import type { Log } from '../../base/log.ts';
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import { asError } from '../../wire/errors.ts';
import type { OrchestratorBus } from '../bus/peer.ts';
import { TaskQueue } from '../queue.ts';
import type { AbsenceInfo } from '../route/explain.ts';
import { reasonsAgainst } from '../route/filters.ts';
import type { Explanation, RouteTask } from '../route/profile.ts';
import type { Decision, ExplainAt, Router } from '../route/router.ts';
import { decideWait, nonTransientReasons, type WaitDecision } from '../route/wait-decision.ts';
import type { AttemptFailure, AttemptFailures } from './attempt-failures.ts';
import type { Peers } from './peers.ts';
import { offerTo } from './task-machine.ts';
import { dispatchOf, routeTaskOf } from './task-record.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';

/** Tasks routed before others get a turn of the event loop. */
const MAX_PER_TURN = 256;
/** How long workers may take to join after a start. */
const SETTLE_MS = 5_000;
/** How long a task that was put aside waits, and how many are looked at then. */
const ASIDE_MS = 100;
const MAX_ASIDE_PER_TURN = 200;

export interface DispatcherOptions {
  readonly name: string;
  readonly ledger: TaskRegistry;
  readonly peers: Peers;
  readonly router: Router;
  readonly aftermath: () => AttemptFailures;
  readonly buses: readonly OrchestratorBus[];
  readonly leaseTtlS: number;
  readonly maxTasks: number;
  /** How long workers are waited for after the start before a task is refused for want of one, milliseconds. Default 5,000. */
  readonly joinGraceMs: number | undefined;
  readonly clock: Clock;
  /** Calls `run` when the event loop has served everything else that is due. */
  readonly nextTurn: (run: () => void) => void;
  readonly now: () => number;
  readonly log: Log;
  /** The attempt may have been delivered, or not: somebody should ask. */
  unsure(held: TrackedTask): void;
  /** Aborts when the orchestrator stops. */
  readonly signal: AbortSignal;
}

/** A task as it is queued: its requirements, and the line of those that have the same. */
interface Routed {
  readonly task: RouteTask;
  readonly line: string;
}

/** A line nobody can take from. */
interface Paused {
  /** What its tasks have in common. */
  readonly task: RouteTask;
  /** The worker that is to take them; null: any that comes; undefined: they are looked at again by themselves. */
  readonly hope: string | null | undefined;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #queue: TaskQueue;
  readonly #later: TimerQueue<string>;
  readonly #rounds: TimerQueue<'aside'>;
  readonly #routed = new WeakMap<object, Routed>();
  /** Lines nobody can take from, by name. */
  readonly #paused = new Map<string, Paused>();
  readonly #pausedLines = new Set<string | null>();
  readonly #aside = new Set<string>();
  /** Tasks that wait by the policy for a requirement to be met. */
  readonly #hoping = new Map<string, RouteTask>();
  /** Until then workers may still be joining. Monotonic. */
  readonly #settledAt: number;
  readonly #settling: TimerQueue<'settled'>;
  #scheduled = false;
  #pumping = false;
  #stopped = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#queue = new TaskQueue({ maxTasks: options.maxTasks + 1 });
    this.#settledAt = options.clock.monotonic() + (options.joinGraceMs ?? SETTLE_MS);
    this.#settling = new TimerQueue(options.clock, () => this.wakeAll());
    this.#settling.set('settled', this.#settledAt);
    this.#later = new TimerQueue(options.clock, (taskId) => this.#ripe(taskId));
    this.#rounds = new TimerQueue(options.clock, () => this.#tryAside());
  }

  /** Tasks that wait to be routed now. */
  get size(): number {
    return this.#queue.size + this.#aside.size;
  }

  /** A task waits to be routed, from its `not_before` on. */
  enqueue(held: TrackedTask): void {
    const { now, clock } = this.#options;
    const { not_before } = held.record;
    const delay = not_before === null ? 0 : not_before - now();
    if (delay > 0) return this.#later.set(held.id, clock.monotonic() + delay);
    this.#push(held);
    this.schedule();
  }

  /** It does not wait any more. */
  withdraw(taskId: string): void {
    this.#queue.remove(taskId);
    this.#later.clear(taskId);
    this.#aside.delete(taskId);
    this.#hoping.delete(taskId);
  }

  /** A worker changed, or has room again, or is not here any more. */
  wake(peerId: string): void {
    if (this.#paused.size + this.#hoping.size > 0) this.#wakeWaiting(peerId);
    this.schedule();
  }

  #wakeWaiting(peerId: string): void {
    const { router, peers, clock } = this.#options;
    const profile = router.profile(peerId, clock.monotonic());
    if (profile !== undefined) {
      for (const [taskId, task] of this.#hoping) {
        if (reasonsAgainst(task, profile, router.policy).length === 0) this.#ripe(taskId);
      }
    }
    const away = peers.away(peerId) !== null;
    for (const [line, { task, hope }] of this.#paused) {
      const reasons = profile === undefined ? undefined : reasonsAgainst(task, profile, router.policy);
      if (reasons?.length === 0) this.#resume(line);
      // What was hoped for has come to something, or to nothing.
      else if (hope === null && reasons !== undefined) this.#resume(line);
      else if (hope === peerId && (away || reasons === undefined || nonTransientReasons(reasons).length > 0)) {
        this.#resume(line);
      }
    }
  }

  /** Looks at every waiting task anew. */
  wakeAll(): void {
    for (const line of this.#paused.keys()) this.#resume(line);
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

  /** Routes what can be routed now. */
  pump(): void {
    const { ledger, now } = this.#options;
    if (this.#pumping || this.#stopped || ledger.failure !== undefined) return;
    this.#pumping = true;
    try {
      for (let routed = 0; routed < MAX_PER_TURN; routed += 1) {
        // Taken out only when it goes: whoever has to wait on keeps the place in its line.
        const next = this.#queue.peek(now(), this.#pausedLines);
        if (next === undefined) return;
        const held = ledger.get(next.task_id);
        if (held?.record.state === 'queued') this.#route(held);
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

  /** Where a task would go now, and why: looks at every worker. */
  explain(record: TrackedTask['record']): Explanation {
    const { router, peers, clock, now } = this.#options;
    const excluded = peers.excludedOf(record.excluded);
    const task = routeTaskOf(record);
    const outlook = decideWait(task, peers.prospects(task.only), router.policy);
    return router.explain(task, {
      nowMs: clock.monotonic(),
      wallMs: now(),
      excluded,
      nextAttemptMs: record.not_before,
      elsewhere: this.#elsewhere(task, outlook),
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#settling.stop();
    this.#later.stop();
    this.#rounds.stop();
  }

  #resume(line: string): void {
    this.#paused.delete(line);
    this.#pausedLines.delete(line);
  }

  #push({ id, record }: TrackedTask): void {
    const { line, task } = this.#routedOf(record);
    this.#aside.delete(id);
    this.#queue.push({
      task_id: id,
      priority: task.priority,
      enqueuedAtMs: record.created_at,
      notBeforeMs: null,
      pool: line,
    });
  }

  #ripe(taskId: string): void {
    this.#later.clear(taskId);
    this.#hoping.delete(taskId);
    const held = this.#options.ledger.get(taskId);
    if (held?.record.state !== 'queued') return;
    this.#push(held);
    this.schedule();
  }

  #tryAside(): void {
    let left = MAX_ASIDE_PER_TURN;
    for (const taskId of this.#aside) {
      if (left-- === 0) break;
      this.#aside.delete(taskId);
      this.#ripe(taskId);
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
      routed = { task, line: lineOf(task) };
      this.#routed.set(record.spec, routed);
    }
    return routed;
  }

  #route(held: TrackedTask): void {
    const { router, peers, clock, now, ledger } = this.#options;
    const { task } = this.#routedOf(held.record);
    const excluded = peers.excludedOf(held.record.excluded);
    const at = { nowMs: clock.monotonic(), wallMs: now(), excluded };
    const decision = router.decide(task, at);
    if (decision.chosen !== null) {
      const { mode, announced } = peers.get(decision.chosen)!;
      const explanation = router.explanation(task, decision, at);
      ledger.apply(held, {
        type: 'reserved',
        worker: decision.chosen,
        mode,
        incarnation: announced?.incarnation ?? null,
        explanation,
      });
      void this.#send(held);
    } else if (decision.reason.startsWith('deadline_')) {
      ledger.apply(held, { type: 'decided', explanation: router.explanation(task, decision, at) });
      ledger.apply(held, { type: 'failed', reason: `${decision.reason}: nobody could take it in time` });
    } else if (!this.#offer(held)) this.#nobody(held, decision, at);
  }

  /** Nobody can take it now: it waits for somebody, or is refused. Workers that are still coming are given a moment. */
  #nobody(held: TrackedTask, decision: Decision, now: ExplainAt): void {
    const { router, peers, clock } = this.#options;
    const { task, line } = this.#routedOf(held.record);
    const outlook = decideWait(task, peers.prospects(task.only), router.policy);
    const at = { ...now, elsewhere: this.#elsewhere(task, outlook) };
    if (!outlook.waits && clock.monotonic() >= this.#settledAt) {
      return this.#refuse(held, task, outlook.code, router.explanation(task, decision, at));
    }
    this.#noteNobody(held, task, decision, at);
    if (router.eligible(common(task), { nowMs: at.nowMs, wallMs: at.wallMs }) === 0) {
      this.#paused.set(line, { task: common(task), hope: outlook.waits ? outlook.worker : undefined });
      this.#pausedLines.add(line);
    } else {
      this.#queue.remove(held.id);
      this.#aside.add(held.id);
      this.#planRound();
    }
  }

  /** What is to be said of workers that are not here. */
  #elsewhere(task: RouteTask, outlook: WaitDecision): AbsenceInfo {
    const { peers } = this.#options;
    if (task.only !== null && peers.get(task.only) === undefined) {
      return { known: Array.from(peers.all(), ({ peer }) => peer.peerId) };
    }
    const worker = task.only ?? (outlook.waits ? outlook.worker : null);
    const away = worker === null ? null : peers.away(worker);
    return away === null ? {} : { away };
  }

  /** Takes it out of the queue when no worker meets its requirements, rather than let it wait for nothing. */
  #refuse(held: TrackedTask, task: RouteTask, code: string, explanation: Explanation): void {
    this.#queue.remove(held.id);
    this.#options.aftermath().unroutable(held, code, explanation);
    if (held.record.state !== 'queued') return;
    this.#hoping.set(held.id, task);
    this.enqueue(held);
  }

  /** Keeps the decision where it says something new. */
  #noteNobody(held: TrackedTask, task: RouteTask, decision: Decision, at: ExplainAt): void {
    const { router, ledger } = this.#options;
    const before = held.record.explanation;
    const away = at.elsewhere?.away;
    const waitsFor = away?.untilMs === null ? undefined : away?.agent_id;
    const known =
      before?.chosen === null &&
      before.waits_for === waitsFor &&
      JSON.stringify(before.rejected) === JSON.stringify(decision.rejected ?? {});
    if (known) return;
    ledger.apply(held, { type: 'decided', explanation: router.explanation(task, decision, at) });
  }

  /** Puts it where any worker of its pool may take it, when the bus can and nobody is free now. */
  #offer(held: TrackedTask): boolean {
    const { pool, worker } = held.record.spec;
    const bus =
      pool === null || worker !== null ? undefined : this.#options.buses.find(({ offer }) => offer !== undefined);
    if (bus === undefined || pool === null) return false;
    this.#options.ledger.apply(held, { type: 'reserved', worker: offerTo(pool), mode: 'structured' });
    void this.#deliver(held, (message) => bus.offer!(pool, message));
    return true;
  }

  #send(held: TrackedTask): Promise<void> {
    const { peers, signal } = this.#options;
    return this.#deliver(held, (message) => {
      const { peer, mode } = peers.get(held.record.worker as string)!;
      return peer.send(message, { mode, signal });
    });
  }

  /** Row first, then send. Never rejects. */
  async #deliver(held: TrackedTask, send: (message: ReturnType<typeof dispatchOf>) => Promise<void>): Promise<void> {
    held.sending = true;
    try {
      await this.#keepAndSend(held, send);
    } finally {
      held.sending = false;
    }
  }

  async #keepAndSend(
    held: TrackedTask,
    send: (message: ReturnType<typeof dispatchOf>) => Promise<void>,
  ): Promise<void> {
    const { ledger, name, leaseTtlS, now } = this.#options;
    const { attempt } = held.record;
    const current = (): boolean => !held.gone && held.record.attempt === attempt;
    try {
      await ledger.save(held);
    } catch (thrown) {
      // Taken over by somebody else, or the disk is full: nothing was sent.
      if (current() && held.record.state === 'reserved') {
        const reason = `not kept: ${asError(thrown).message}`;
        ledger.apply(held, { type: 'released', outcome: 'unknown', reason, not_before: now() + 1000 });
      }
      return;
    }
    if (!current() || held.record.state !== 'reserved') return;
    try {
      await send(dispatchOf(held.record, name, leaseTtlS, now()));
    } catch (thrown) {
      held.sending = false;
      if (current()) this.#unsent(held, asError(thrown));
      return;
    }
    if (!current()) return;
    ledger.apply(held, { type: 'sent' });
    // A worker that does not acknowledge has it when the bus says so.
    const entry = this.#options.peers.get(held.record.worker ?? '');
    if (entry !== undefined && !entry.peer.features.has('ack') && !entry.peer.durable) {
      ledger.apply(held, { type: 'accepted', attempt });
    }
  }

  #unsent(held: TrackedTask, error: ReturnType<typeof asError>): void {
    const { log, ledger, aftermath, unsure } = this.#options;
    const { worker, attempt } = held.record;
    log.warn('a task could not be sent', { task_id: held.id, worker, attempt, code: error.code, error: error.message });
    const refusal = refusalOf(error);
    if (refusal !== undefined) return aftermath().released(held, refusal);
    // It may have arrived: its worker is asked, or its lease decides.
    ledger.apply(held, { type: 'sent' });
    unsure(held);
  }
}

/** What a failure to send says about the attempt; undefined: it may have been delivered. */
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

/** What a task has in common with the others of its line. */
function common(task: RouteTask): RouteTask {
  return { ...task, token_budget: null, deadlineMs: null, brief_bytes: 0, context_id: null };
}

/** Name of the line of a task: equal for tasks that the same workers can take, but for what is special about one of them. */
function lineOf(task: RouteTask): string {
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
