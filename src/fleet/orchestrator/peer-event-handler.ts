/**
 * Handles the messages of workers. The sender is the one the transport authenticated; a message about a task
 * counts when its sender has that attempt of it.
 */

import { evictOldest } from '../../base/evict-oldest.ts';
import { isLogged } from '../../base/log.ts';
import type { SessionHeartbeat, TaskAck, TaskProgress, TaskQuestion } from '../../protocol/fleet.ts';
import { fail } from '../../wire/errors.ts';
import type { FleetPeer, PeerEvents } from '../bus/peer.ts';
import type { Announced, Incoming, Reported } from '../messages/decoded.ts';
import { fleetMessage, resultFrom } from '../messages/encode.ts';
import { attemptOf, type Engine } from './engine.ts';
import { isSameProcess, type PeerEntry } from './peer-profile.ts';
import { StaleResults } from './stale-results.ts';
import type { TaskRecord } from './task.ts';
import type { ResultEvent, StaleReason } from './task-events.ts';
import { isActive, isOffer } from './task-machine.ts';
import type { TrackedTask } from './task-registry.ts';
import { creditOf } from './task-result.ts';

/** Beginning of a worker's report about a task that it was working on when it ended; see `worker/recovery.ts`. */
const RESTARTED = /^worker restarted\b/;
/** Attempts that were sent a cancel because their task has ended; remembered so that each gets one. */
const MAX_STRAYS = 1000;

export class PeerEventHandler implements PeerEvents {
  readonly #engine: Engine;
  readonly #strays = new Set<string>();
  /** Worker → tasks of an earlier process that it may still have. */
  readonly #expected = new Map<string, Set<string>>();
  readonly #staleResults: StaleResults;
  /** Fault and worker → how often. */
  readonly #faults = new Map<string, number>();

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#staleResults = new StaleResults(engine.journal);
  }

  /** Notes a task that an earlier process had dispatched to a worker. */
  expect(peerId: string, taskId: string): void {
    const tasks = this.#expected.get(peerId);
    if (tasks === undefined) this.#expected.set(peerId, new Set([taskId]));
    else tasks.add(taskId);
  }

  joined(peer: FleetPeer): void {
    if (this.#engine.stopped) return;
    const { peers, options } = this.#engine;
    const entry = peers.joined(peer);
    this.#engine.verifier.joined(peer.peerId);
    options.log.info('worker joined', { worker: peer.peerId, binding: peer.binding, mode: entry.mode });
    this.#recover(peer.peerId);
    for (const tracked of this.#tasksOf(entry)) {
      if (tracked.record.cancel_requested) this.#engine.requestCancel(tracked, 'canceled');
    }
  }

  /**
   * Polls for the tasks of an earlier process. A plain peer joins before its features are known, and again when they are:
   * a task is expected until its poll could be sent.
   */
  #recover(peerId: string): void {
    const { peers, registry, leases } = this.#engine;
    const expected = this.#expected.get(peerId) ?? new Set();
    for (const taskId of expected) {
      const tracked = registry.get(taskId);
      if (tracked === undefined || !isActive(tracked.record) || tracked.record.worker !== peerId) {
        expected.delete(taskId);
        continue;
      }
      peers.reserve(peerId, taskId, tracked.record.spec.context_id);
      leases.renew(tracked);
      if (this.#engine.poll(tracked)) expected.delete(taskId);
    }
    if (expected.size === 0) this.#expected.delete(peerId);
  }

  left(peer: FleetPeer, reason: string, asleep: boolean): void {
    if (this.#engine.stopped || !this.#engine.peers.left(peer, reason, asleep)) return;
    this.#engine.options.log.info('worker left', { worker: peer.peerId, reason, asleep });
  }

  malformed(peer: FleetPeer, codes: readonly string[]): void {
    this.#engine.count('unreadable');
    const count = this.#counted(`invalid ${peer.peerId}`);
    if (count === undefined) return;
    this.#engine.options.log.warn('a worker sent an invalid message', { worker: peer.peerId, codes, count });
  }

  received(peer: FleetPeer, message: Incoming): Promise<void> | void {
    if (this.#engine.stopped) throw fail('interrupted', 'the orchestrator stops');
    const entry = this.#engine.peers.get(peer.peerId) ?? this.#engine.peers.joined(peer);
    entry.lastSeenAt = this.#engine.now();
    switch (message.type) {
      case 'TASK_RESULT':
        return this.#result(entry, message);
      case 'TASK_QUESTION':
        return this.#question(entry, message);
      case 'TASK_ACK':
        return this.#ack(entry, message);
      case 'TASK_PROGRESS':
        return this.#progress(entry, message);
      case 'SESSION_ANNOUNCE':
        return this.#announced(entry, message);
      case 'SESSION_HEARTBEAT':
        return this.#heartbeat(entry, message);
      default:
        // The bus reports a goodbye; the other types are for workers.
        return;
    }
  }

  async #result(entry: PeerEntry, reported: Reported): Promise<void> {
    const { registry, failures, options } = this.#engine;
    const { peer } = entry;
    const worker = peer.peerId;
    const { task_id, envelope } = reported;
    // As it was when the result came: the acknowledgement may follow at once.
    const unacknowledged = peer.unacknowledged?.(task_id) ?? null;
    const tracked = await registry.pin(task_id);
    if (tracked === undefined) {
      // Resolve: sending it again would not help.
      const count = this.#counted(`unknown ${worker}`);
      if (count === undefined) return;
      return options.log.warn('result of an unknown task', { worker, task_id, status: reported.status, count });
    }
    try {
      this.#claim(entry, tracked, envelope.attempt);
      const result = resultFrom(reported);
      // A durable bus issues separate fences; its leases decide there.
      const fence = peer.durable ? null : (envelope.lease?.fence ?? null);
      const attempt = envelope.attempt ?? fence;
      const event: ResultEvent = { type: 'result', worker, attempt, fence, unacknowledged, result };
      const credited = creditOf(tracked.record, event);
      if (typeof credited === 'string') return await this.#storeStale(tracked.record, event, credited);
      const current = tracked.record.worker === worker && credited.attempt === tracked.record.attempt;
      if (current && isActive(tracked.record) && RESTARTED.test(reported.error_summary ?? '')) {
        failures.lost(tracked, reported.error_summary as string, result);
      } else {
        const { outcome, why } = registry.apply(tracked, event);
        if (outcome === 'refused') options.log.warn('result was not accepted', { worker, task_id, why });
      }
      await registry.save(tracked);
    } finally {
      registry.release(tracked);
    }
  }

  /** Resolves: sending it again would give no credit either. */
  async #storeStale(task: TaskRecord, { worker, attempt, fence = null, result }: ResultEvent, why: StaleReason) {
    const { options } = this.#engine;
    this.#engine.count('stale_result');
    const stored = await this.#staleResults.store(task, { worker, attempt, fence, why, result });
    const count = this.#counted(`stale ${worker}`);
    if (count === undefined) return;
    const { status } = result;
    options.log.warn('a result was stored and not applied', {
      worker,
      task_id: task.task_id,
      status,
      why,
      stored,
      count,
    });
  }

  /** Counts a fault of a worker. Returns the count when it is to be logged: a worker must not fill the log. */
  #counted(fault: string): number | undefined {
    const count = (this.#faults.get(fault) ?? 0) + 1;
    this.#faults.set(fault, count);
    evictOldest(this.#faults, MAX_STRAYS);
    return isLogged(count) ? count : undefined;
  }

  async #question(entry: PeerEntry, question: TaskQuestion): Promise<void> {
    const tracked = this.#atWork(entry, question.task_id, question.envelope?.attempt);
    if (tracked === undefined) return this.#stray(entry, question.task_id, question.envelope?.attempt);
    this.#engine.leases.renew(tracked);
    await this.#engine.questions.asked(tracked, question);
  }

  #ack(entry: PeerEntry, { task_id, accepted, state, retry_after_s, envelope }: TaskAck): void {
    const { registry, leases, failures } = this.#engine;
    const known = registry.get(task_id);
    if (known !== undefined && accepted) this.#claim(entry, known, envelope?.attempt);
    const tracked = this.#mine(entry, task_id, envelope?.attempt);
    if (tracked === undefined) {
      if (accepted && state !== 'finished') this.#stray(entry, task_id, envelope?.attempt);
      return;
    }
    const started = tracked.record.state === 'accepted' || tracked.record.state === 'running';
    if (state === 'unknown') {
      // A reply to a poll that was sent before the dispatch says nothing about it.
      if (tracked.sending) return;
      if (started) failures.lost(tracked, 'the worker no longer knows it');
      else failures.unknownToWorker(tracked);
    } else if (state === 'busy' || (!accepted && state === undefined)) {
      if (started) return;
      const retry = retry_after_s === undefined ? {} : { retryAfterS: retry_after_s };
      failures.released(tracked, { outcome: 'busy', code: 'busy', reason: 'the worker is busy', ...retry });
    } else {
      if (!started) registry.apply(tracked, { type: 'accepted' });
      if (state === 'running') registry.apply(tracked, { type: 'started' });
      leases.renew(tracked);
    }
  }

  #progress(entry: PeerEntry, message: TaskProgress): void {
    const { registry, leases, journal } = this.#engine;
    const { task_id, seq, phase, note, percent, tokens_so_far, envelope } = message;
    const known = registry.get(task_id);
    if (known !== undefined) this.#claim(entry, known, envelope?.attempt);
    const tracked = this.#atWork(entry, task_id, envelope?.attempt);
    if (tracked === undefined) return this.#stray(entry, task_id, envelope?.attempt);
    if (tracked.record.state !== 'running') registry.apply(tracked, { type: 'started' });
    tracked.tokensSoFar = tokens_so_far ?? tracked.tokensSoFar;
    leases.renew(tracked);
    journal.write(tracked.record, 'progress', {
      seq,
      phase,
      ...(note !== undefined && { note }),
      ...(percent !== undefined && { percent }),
      ...(tokens_so_far !== undefined && { tokens_so_far }),
    });
  }

  #announced(entry: PeerEntry, announced: Announced): void {
    const { peers, leases, options } = this.#engine;
    const what = peers.announced(entry, announced);
    if (what === 'old') return;
    if (what === 'restarted') options.log.info('worker was restarted', { worker: entry.peer.peerId });
    for (const tracked of this.#tasksOf(entry)) {
      if (isSameProcess(attemptOf(tracked.record), entry)) {
        if (this.#has(entry, tracked)) leases.renew(tracked);
      } else {
        // The new process has lost them, or reports them; nothing else renews the lease.
        this.#engine.poll(tracked);
      }
    }
  }

  #heartbeat(entry: PeerEntry, beat: SessionHeartbeat): void {
    const { peers, leases } = this.#engine;
    const fewer = peers.heartbeat(entry, beat);
    for (const tracked of this.#tasksOf(entry)) {
      const same = (attemptOf(tracked.record)?.incarnation ?? beat.incarnation) === beat.incarnation;
      if (fewer || !same) this.#engine.poll(tracked);
      else if (this.#has(entry, tracked)) leases.renew(tracked);
    }
  }

  /** Claims a task: one that was offered to a pool belongs to the first worker that reports having it. */
  #claim({ peer, announced }: PeerEntry, tracked: TrackedTask, attempt: number | undefined): void {
    const { worker, spec } = tracked.record;
    if (!isOffer(worker) || !(announced?.pools ?? []).includes(spec.pool ?? '')) return;
    const incarnation = announced?.incarnation ?? null;
    const claimed = { type: 'claimed', worker: peer.peerId, incarnation } as const;
    this.#engine.registry.apply(tracked, attempt === undefined ? claimed : { ...claimed, attempt });
  }

  /**
   * Returns whether a heartbeat of the worker renews the lease: only after it acknowledged the attempt, and not where the bus has a lease of
   * each attempt.
   */
  #has({ peer }: PeerEntry, { record }: TrackedTask): boolean {
    if (!peer.features.has('lease') || peer.find !== undefined) return false;
    return record.state === 'accepted' || record.state === 'running' || peer.durable;
  }

  /** Returns the task, when this worker has its attempt under way. */
  #mine({ peer }: PeerEntry, taskId: string, attempt: number | undefined): TrackedTask | undefined {
    const tracked = this.#engine.registry.get(taskId);
    if (tracked === undefined || !isActive(tracked.record) || tracked.record.worker !== peer.peerId) return undefined;
    return attempt === undefined || attempt === tracked.record.attempt ? tracked : undefined;
  }

  /** Returns the task, when this worker works on its attempt: where its link awaits an acknowledgement it does not yet. */
  #atWork(entry: PeerEntry, taskId: string, attempt: number | undefined): TrackedTask | undefined {
    const tracked = this.#mine(entry, taskId, attempt);
    return entry.peer.unacknowledged?.(taskId) === tracked?.record.attempt ? undefined : tracked;
  }

  /**
   * Handles a worker that continues an attempt of a task that was canceled, or ended otherwise, while the worker was not
   * connected.
   */
  #stray({ peer }: PeerEntry, taskId: string, attempt: number | undefined): void {
    const key = `${peer.peerId} ${taskId} ${attempt}`;
    const tracked = this.#engine.registry.get(taskId);
    // An attempt that only counts as lost may still succeed.
    if (this.#strays.has(key) || (tracked !== undefined && !tracked.record.cancel_requested)) return;
    evictOldest(this.#strays.add(key), MAX_STRAYS);
    void this.#stopStray(peer.peerId, taskId, attempt);
  }

  async #stopStray(peerId: string, taskId: string, attempt: number | undefined): Promise<void> {
    const { registry } = this.#engine;
    try {
      const tracked = await registry.pin(taskId);
      if (tracked === undefined) return;
      const { state } = tracked.record;
      registry.release(tracked);
      if (state !== 'canceled') return;
      const envelope = attempt === undefined ? undefined : { attempt };
      this.#engine.notify(peerId, fleetMessage('TASK_CANCEL', { task_id: taskId, reason: 'canceled' }, envelope));
    } catch {
      // The store cannot be read now; the next message of the worker tries again.
      this.#strays.delete(`${peerId} ${taskId} ${attempt}`);
    }
  }

  *#tasksOf({ tasks }: PeerEntry): Iterable<TrackedTask> {
    for (const taskId of [...tasks.keys()]) {
      const tracked = this.#engine.registry.get(taskId);
      if (tracked !== undefined && isActive(tracked.record)) yield tracked;
    }
  }
}
