/**
 * The parts of an orchestrator put together, and the effects of each change of a task: its worker is free again, its lease
 * starts or ends, it is queued, refused, verified, and its waiters are notified.
 *
 * `orchestrator.ts` offers this to operators, `peer-event-handler.ts` feeds it with the messages of workers.
 */

import { type Clock, processTimer, TimerQueue } from '../../base/timer-queue.ts';
import { FEATURE_OF, type FleetMessage } from '../../protocol/fleet.ts';
import { fail } from '../../wire/errors.ts';
import { blockedPolicyOf } from '../blocked-policy.ts';
import { fleetMessage } from '../messages/encode.ts';
import { compileHooks, type Hooks } from '../route/hooks.ts';
import { RouteLearner } from '../route/learner.ts';
import { DEFAULT_ROUTE_POLICY } from '../route/profile.ts';
import { Router } from '../route/router.ts';
import { AttemptFailures } from './attempt-failures.ts';
import { AttemptFinder } from './attempt-finder.ts';
import { Dependencies } from './dependencies.ts';
import { Dispatcher } from './dispatcher.ts';
import { LeaseTimers } from './lease-timers.ts';
import type { OrchestratorOptions } from './orchestrator-options.ts';
import { Peers, type Verdict } from './peers.ts';
import { OperatorQuestions } from './questions.ts';
import { SubmitterShares } from './submitter-shares.ts';
import type { Attempt, TaskRecord, TaskStore } from './task.ts';
import type { TaskEvent } from './task-events.ts';
import { TaskJournal } from './task-journal.ts';
import { isActive, isEnded, isOffer } from './task-machine.ts';
import { TaskRegistry, type TrackedTask } from './task-registry.ts';
import { endOf, stepOf } from './task-steps.ts';
import { Verifier } from './verifier.ts';
import { headOf } from './verify.ts';

const LEASE_TTL_S = 45;
const PLAIN_PEER_TIMEOUT_S = 3600;
const MAX_OPEN_TASKS = 100_000;
/** Time that a worker has to report after a cancel or a deadline, milliseconds: its own ladder of signals takes ten seconds. */
const GRACE_MS = 30_000;

export class Engine {
  readonly options: OrchestratorOptions;
  readonly now: () => number;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly maxOpenTasks: number;
  readonly hooks: Hooks;
  readonly router: Router;
  /** Gets the outcome of every attempt that speaks for or against its worker. */
  readonly learner: RouteLearner | undefined;
  readonly registry: TaskRegistry;
  readonly journal: TaskJournal;
  readonly shares: SubmitterShares;
  readonly peers: Peers;
  readonly dispatcher: Dispatcher;
  readonly failures: AttemptFailures;
  readonly leases: LeaseTimers;
  readonly finder: AttemptFinder;
  readonly questions: OperatorQuestions;
  readonly dependencies = new Dependencies();
  readonly verifier: Verifier;
  /** Events since the start, for operators. */
  readonly totals = new Map<string, number>();
  readonly #deadlines: TimerQueue<string>;
  readonly #cancels: TimerQueue<string>;
  /** Tasks whose deadline has passed and whose worker was sent a cancel. */
  readonly #overdue = new Set<string>();
  readonly #waiters = new Map<string, Set<(record: TaskRecord | null) => void>>();
  readonly #stopping = new AbortController();

  constructor(options: OrchestratorOptions) {
    const { monotonic = () => performance.now(), timer = processTimer, random = Math.random, log, store } = options;
    const { leaseTtlS = LEASE_TTL_S, plainPeerTimeoutS = PLAIN_PEER_TIMEOUT_S } = options;
    this.options = options;
    const now = options.now ?? Date.now;
    this.now = now;
    this.newId = options.newId ?? (() => crypto.randomUUID());
    this.maxOpenTasks = options.maxOpenTasks ?? MAX_OPEN_TASKS;
    const clock = { monotonic, timer };
    this.clock = clock;
    this.hooks = compileHooks(options.hooks);
    const hooked = options.hooks?.some(({ then }) => then !== 'refuse') === true;
    const learner = options.learn ? new RouteLearner(options.name, options.learnedIn) : undefined;
    this.learner = learner;
    const routePolicy = { ...DEFAULT_ROUTE_POLICY, ...options.routePolicy };
    const router = new Router(routePolicy, hooked ? this.hooks : undefined, {}, learner);
    this.router = router;
    this.journal = new TaskJournal(options.journal, now);
    const registry = new TaskRegistry({
      store: learner === undefined ? store : afterLearning(store, learner),
      clock,
      now,
      log,
      changed: (tracked, before, event) => this.#changed(tracked, before, event),
      superseded: (tracked) => {
        this.options.log.warn('another orchestrator took a task over', { task_id: tracked.id });
        this.stopTracking(tracked);
      },
      settled: (tracked) => this.#settled(tracked),
      recovered: () => this.dispatcher.wakeAll(),
    });
    this.registry = registry;
    this.shares = new SubmitterShares(registry, store, options.submitterLimits);
    const peers = new Peers({
      router,
      clock,
      now,
      inlineHints: options.inlineHints ?? true,
      log,
      changed: (peerId) => this.dispatcher.wake(peerId),
      expired: (entry) => this.notify(entry.peer.peerId, fleetMessage('ANNOUNCE_REQUEST', {})),
    });
    this.peers = peers;
    const policy = blockedPolicyOf(options.blockedPolicy);
    this.failures = new AttemptFailures({ registry, peers, router, policy, now, monotonic, random, log });
    this.leases = new LeaseTimers({
      registry,
      peers,
      clock,
      now,
      leaseTtlMs: leaseTtlS * 1000,
      plainPeerTimeoutMs: plainPeerTimeoutS * 1000,
      finds: (offer) => this.finder.finds(offer),
      silent: (tracked) => this.#silent(tracked),
      expired: (tracked) => this.#expired(tracked),
    });
    this.finder = new AttemptFinder({
      name: options.name,
      registry,
      peers,
      buses: options.buses,
      failures: () => this.failures,
      leases: () => this.leases,
      leaseTtlS,
      now,
      log,
      poll: (tracked) => void this.poll(tracked),
    });
    this.questions = new OperatorQuestions({ registry, peers, clock, askUser: options.askUser, log });
    this.verifier = new Verifier(registry, options.repositories, options.findRepository);
    this.#deadlines = new TimerQueue(clock, (taskId) => this.#overdueAt(taskId));
    this.#cancels = new TimerQueue(clock, (taskId) => this.#notCanceled(taskId));
    this.dispatcher = new Dispatcher({
      name: options.name,
      registry,
      peers,
      router,
      failures: () => this.failures,
      buses: options.buses,
      leaseTtlS,
      maxTasks: this.maxOpenTasks,
      joinGraceMs: options.joinGraceMs,
      clock,
      nextTurn: options.nextTurn ?? setImmediate,
      now,
      log,
      unsure: (tracked) => this.#silent(tracked),
      signal: this.#stopping.signal,
    });
  }

  get stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Routes, watches or polls a task from now on: one of an earlier process, or one that was just added. */
  admit(tracked: TrackedTask): void {
    const { record } = tracked;
    this.watchDeadline(tracked);
    if (record.state === 'queued') this.enqueue(tracked);
    else if (isActive(record)) {
      this.peers.reserve(record.worker ?? '', tracked.id, record.spec.context_id);
      this.leases.renew(tracked);
      this.questions.resume(tracked);
      if (record.cancel_requested) this.requestCancel(tracked, 'canceled');
    } else if (!isEnded(record) && !record.parked) {
      if (record.state === 'blocked') this.failures.blocked(tracked);
      else this.failures.afterLoss(tracked, record.attempts.at(-1)?.reason ?? 'lost');
    }
  }

  enqueue(tracked: TrackedTask): void {
    if (!this.dependencies.isWaiting(tracked.id)) this.dispatcher.enqueue(tracked);
  }

  watchDeadline({ id, record }: TrackedTask): void {
    const { deadline } = record.spec;
    if (deadline !== null) this.#deadlines.set(id, this.clock.monotonic() + Date.parse(deadline) - this.now());
  }

  /** Drops a task that another orchestrator took over, or that was never stored. */
  stopTracking(tracked: TrackedTask): void {
    const { id, record } = tracked;
    this.dispatcher.withdraw(id);
    this.dependencies.remove(id);
    if (isActive(record)) this.peers.release(record.worker ?? '', id, 'neutral');
    this.#forget(tracked);
    this.questions.ended(id, record.questions);
    this.#wakeWaiters(id, null);
  }

  /** Sends a message that needs no reply. False: the worker lacks the feature, or is not connected. */
  notify(peerId: string | null, message: FleetMessage): boolean {
    const entry = this.peers.get(peerId ?? '');
    const feature = FEATURE_OF[message.type];
    if (entry === undefined || !entry.connected || (feature !== undefined && !entry.peer.features.has(feature)))
      return false;
    entry.peer.send(message, { mode: entry.mode, signal: this.#stopping.signal }).catch((thrown: Error) => {
      this.options.log.debug('message was not delivered', {
        worker: peerId,
        type: message.type,
        error: thrown.message,
      });
    });
    return true;
  }

  /** Asks the worker how the attempt is. False: it cannot be asked. */
  poll({ id, record, sending }: TrackedTask): boolean {
    if (sending) return false;
    return this.notify(record.worker, fleetMessage('TASK_POLL', { task_id: id }, { attempt: record.attempt }));
  }

  /** Sends a cancel to the worker; the task is canceled without a reply where none can come. */
  requestCancel(tracked: TrackedTask, reason: string): void {
    const { id, record } = tracked;
    const message = fleetMessage('TASK_CANCEL', { task_id: id, reason }, { attempt: record.attempt });
    const entry = this.peers.get(record.worker ?? '');
    const sent = this.notify(record.worker, message);
    if (!sent && (isOffer(record.worker) || (entry?.connected && !entry.peer.features.has('cancel')))) {
      const why = `${reason}; its worker supports no cancel and may continue`;
      this.registry.apply(tracked, { type: 'canceled', reason: isOffer(record.worker) ? reason : why });
    } else if (this.#cancels.at(id) === undefined) {
      this.#cancels.set(id, this.clock.monotonic() + GRACE_MS);
    }
  }

  /**
   * Calls `done` with the record when the task has ended, or was parked, and that is on disk; with null when another
   * orchestrator has taken the task over. Returns the function that cancels the wait.
   */
  onEnd(taskId: string, done: (record: TaskRecord | null) => void): () => void {
    const waiters = this.#waiters.get(taskId) ?? new Set();
    this.#waiters.set(taskId, waiters);
    waiters.add(done);
    return () => {
      waiters.delete(done);
      if (waiters.size === 0 && this.#waiters.get(taskId) === waiters) this.#waiters.delete(taskId);
    };
  }

  count(name: string): void {
    this.totals.set(name, (this.totals.get(name) ?? 0) + 1);
  }

  /** Ends all waiting. Tasks stay as they are. */
  halt(): void {
    this.#stopping.abort(fail('interrupted', 'the orchestrator stops'));
    this.dispatcher.stop();
    this.leases.stop();
    this.finder.stop();
    this.questions.stop();
    this.verifier.stop();
    this.#deadlines.stop();
    this.#cancels.stop();
    this.peers.stop();
    for (const taskId of [...this.#waiters.keys()]) this.#wakeWaiters(taskId, null);
  }

  /** No sign of an attempt: its bus knows where it is, or else its worker. */
  #silent(tracked: TrackedTask): void {
    if (this.finder.finds(tracked.record.worker)) this.finder.look(tracked);
    else this.poll(tracked);
  }

  #expired(tracked: TrackedTask): void {
    const { worker } = tracked.record;
    if (!isOffer(worker) && !this.finder.looks(tracked.id)) {
      return this.failures.lost(tracked, 'the worker sent nothing while the lease was valid');
    }
    this.leases.renew(tracked);
    this.finder.look(tracked);
  }

  #changed(tracked: TrackedTask, before: TaskRecord, event: TaskEvent): void {
    const after = tracked.record;
    this.#note(event, before, after);
    const was = isActive(before);
    const is = isActive(after);
    if (was && (!is || before.worker !== after.worker)) this.#left(tracked, before, event);
    if (is && (!was || before.worker !== after.worker)) this.#entered(tracked, event);
    if (before.state === 'queued' && after.state !== 'queued') this.dispatcher.withdraw(tracked.id);
    if (after.parked && !before.parked) this.#parked(tracked);
    if (isEnded(after) && !isEnded(before)) this.#ended(tracked);
    else if (after.state === 'queued' && before.state !== 'queued') {
      this.watchDeadline(tracked);
      this.enqueue(tracked);
    } else if (event.type === 'result' && after.state === 'blocked' && before.state !== 'blocked') {
      this.failures.blocked(tracked);
    }
  }

  #note(event: TaskEvent, before: TaskRecord, after: TaskRecord): void {
    const step = stepOf(event, before, after);
    if (step !== undefined) {
      this.journal.write(after, step.kind, step.body);
      this.count(step.kind);
    }
    if (step?.kind === 'running') void this.#noteSession(after);
    const end = endOf(before, after);
    if (end === undefined) return;
    this.journal.write(after, end.kind, end.body);
    this.count(`ended_${after.state}`);
  }

  /** Writes down where the task can be watched. */
  async #noteSession(record: TaskRecord): Promise<void> {
    const session_id = await this.options.sessionOf?.(record);
    if (session_id === undefined || this.stopped) return;
    this.journal.write(record, 'session', { session_id });
    // It may have ended meanwhile: nothing else closes its stream again.
    if (this.registry.get(record.task_id) === undefined) this.journal.end(record.task_id);
  }

  /** Notes that the worker of the attempt under way does not have it any more. */
  #left(tracked: TrackedTask, before: TaskRecord, event: TaskEvent): void {
    const verdict = verdictOf(event);
    this.peers.release(before.worker ?? '', tracked.id, verdict);
    if (verdict !== 'neutral' && before.worker !== null && !isOffer(before.worker)) {
      this.learner?.learn(before.worker, verdict === 'ok', { taskId: tracked.id, attempt: before.attempt });
    }
    if (isActive(tracked.record)) return;
    this.leases.end(tracked.id);
    this.#cancels.clear(tracked.id);
    this.#overdue.delete(tracked.id);
    this.questions.ended(tracked.id, before.questions);
    tracked.tokensSoFar = 0;
    if (event.type !== 'result') return;
    const { attempt, worker } = before;
    if (event.worker === worker && (event.attempt === null || event.attempt === attempt)) return;
    // An earlier attempt has done the work after all, perhaps at the same worker.
    this.notify(worker, fleetMessage('TASK_CANCEL', { task_id: tracked.id, reason: 'done elsewhere' }, { attempt }));
  }

  #entered(tracked: TrackedTask, event: TaskEvent): void {
    const { worker, attempt, spec } = tracked.record;
    this.peers.reserve(worker ?? '', tracked.id, spec.context_id);
    this.leases.renew(tracked);
    const repository = event.type === 'reserved' ? this.verifier.repositoryOf(worker) : undefined;
    if (repository === undefined) return;
    void headOf(repository).then((commit) => {
      if (commit !== null && !tracked.superseded) this.registry.apply(tracked, { type: 'based', attempt, commit });
    });
  }

  #ended(tracked: TrackedTask): void {
    const { record } = tracked;
    this.#forget(tracked);
    if (record.state === 'done') this.verifier.check(tracked);
    void this.registry.save(tracked).catch(() => {});
    const { ready, failed, why } = this.dependencies.ended(record);
    for (const id of ready) {
      const other = this.registry.get(id);
      if (other?.record.state === 'queued') this.dispatcher.enqueue(other);
    }
    for (const id of failed) {
      const other = this.registry.get(id);
      if (other !== undefined) this.registry.apply(other, { type: 'failed', reason: why });
    }
    this.dependencies.remove(tracked.id);
    this.#giveBack(record);
  }

  /** Returns to the parent the part of its budget that a child did not use. */
  #giveBack({ spec, tokens_spent }: TaskRecord): void {
    const { parent_task_id, token_budget } = spec;
    const parent = parent_task_id === null ? undefined : this.registry.get(parent_task_id);
    if (parent === undefined || token_budget === null || tokens_spent === null || tokens_spent >= token_budget) return;
    this.registry.apply(parent, { type: 'granted', tokens: tokens_spent - token_budget });
  }

  /** Handles a task that now waits for an operator: callers that wait for its end are notified, once that is on disk. */
  #parked(tracked: TrackedTask): void {
    void this.registry.save(tracked).then(
      () => tracked.record.parked && this.#wakeWaiters(tracked.id, tracked.record),
      () => {},
    );
  }

  #settled({ id, record }: TrackedTask): void {
    this.journal.end(id);
    this.#wakeWaiters(id, record);
  }

  #wakeWaiters(taskId: string, record: TaskRecord | null): void {
    const waiters = this.#waiters.get(taskId);
    this.#waiters.delete(taskId);
    for (const done of waiters ?? []) done(record);
  }

  #forget({ id }: TrackedTask): void {
    this.leases.end(id);
    this.#deadlines.clear(id);
    this.#cancels.clear(id);
    this.#overdue.delete(id);
  }

  #overdueAt(taskId: string): void {
    const tracked = this.registry.get(taskId);
    const { deadline } = tracked?.record.spec ?? { deadline: null };
    if (tracked === undefined || deadline === null || isEnded(tracked.record)) return;
    // The clock was set back.
    if (Date.parse(deadline) > this.now()) return this.watchDeadline(tracked);
    if (!isActive(tracked.record)) {
      this.registry.apply(tracked, { type: 'failed', reason: 'deadline_passed: it was not done before the deadline' });
    } else if (this.#overdue.has(taskId)) {
      this.failures.lost(tracked, 'the deadline passed and the worker did not report');
    } else {
      // A worker stops at the deadline by itself and reports its result; the cancel is for a worker that does not.
      this.#overdue.add(taskId);
      const { attempt, worker } = tracked.record;
      this.notify(worker, fleetMessage('TASK_CANCEL', { task_id: taskId, reason: 'deadline' }, { attempt }));
      this.#deadlines.set(taskId, this.clock.monotonic() + GRACE_MS);
    }
  }

  #notCanceled(taskId: string): void {
    const tracked = this.registry.get(taskId);
    if (tracked === undefined || isEnded(tracked.record)) return;
    this.registry.apply(tracked, { type: 'canceled', reason: 'canceled; the worker did not reply' });
  }
}

/** Returns the attempt a record is at. */
export function attemptOf(record: TaskRecord): Attempt | undefined {
  return record.attempts.at(-1);
}

/** Returns the store that the registry writes to: the learned outcome of an attempt is on disk before its record. */
const afterLearning = (store: TaskStore, learner: RouteLearner): Pick<TaskStore, 'get' | 'put'> => ({
  get: (taskId) => store.get(taskId),
  put: (record, revision) => learner.before(record.task_id, () => store.put(record, revision)),
});

/** Returns the verdict on a worker that the end of an attempt supports. A refusal before the start is no evidence. */
function verdictOf(event: TaskEvent): Verdict {
  switch (event.type) {
    case 'result':
      if (event.result.status === 'blocked') return 'neutral';
      return event.result.status === 'error' ? 'failed' : 'ok';
    case 'lost':
      return 'failed';
    case 'released':
      return event.outcome === 'unreachable' ? 'failed' : 'neutral';
    default:
      return 'neutral';
  }
}
