/**
 * An orchestrator on virtual time: the real router, queue, blocked policy, task machine and picture of the workers, with a
 * store that is a map. It dies now and then; what it has not written down is gone then.
 */

import { type Clock, TimerQueue } from '../src/base/timer-queue.ts';
import { blockedStep, DEFAULT_BLOCKED_POLICY } from '../src/fleet/blocked-policy.ts';
import type { FleetPeer } from '../src/fleet/bus/peer.ts';
import type { Announced } from '../src/fleet/messages/decoded.ts';
import { Peers, type Verdict } from '../src/fleet/orchestrator/peers.ts';
import type { TaskRecord } from '../src/fleet/orchestrator/task.ts';
import type { TaskEvent } from '../src/fleet/orchestrator/task-events.ts';
import { advance, isActive, isEnded } from '../src/fleet/orchestrator/task-machine.ts';
import { newRecord } from '../src/fleet/orchestrator/task-record.ts';
import { DEFAULT_ROUTE_POLICY } from '../src/fleet/route/profile.ts';
import { Router } from '../src/fleet/route/router.ts';
import type { TaskResult } from '../src/protocol/fleet.ts';
import type { Random } from './random.ts';
import type { Run } from './run.ts';
import { COMMIT_MS, type Held, indexOf, lineOf, SimDispatch, type SimWorld } from './sim-dispatch.ts';
import { type AckState, LEASE_MS, type SimMessageSink } from './sim-messages.ts';
import type { Site } from './site.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

export interface SimOrchestratorOptions extends SimWorld {
  readonly random: Random;
}

/** An operator looks at what waits for him after so long. */
const OPERATOR_MS = 4 * 60_000;
const CANCEL_GRACE_MS = 30_000;
/** Ended tasks are kept for messages that come late. */
const KEEP_MS = 10 * 60_000;
const FEATURES = new Set(['ack', 'progress', 'cancel', 'lease', 'heartbeat', 'announce', 'poll'] as const);
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export class SimOrchestrator implements SimMessageSink {
  /** What is on disk. */
  readonly #disk = new Map<string, Held>();
  readonly #ended: { readonly atMs: number; readonly taskId: string }[] = [];
  #pruned = 0;
  readonly #options: SimOrchestratorOptions;
  readonly #peersOf = new Map<string, FleetPeer>();
  #router!: Router;
  #dispatch!: SimDispatch;
  #peers!: Peers;
  #leases!: TimerQueue<string>;
  #leaseEnds = new Map<string, number>();
  #deadlines!: TimerQueue<string>;
  #overdue = new Set<string>();
  /** Worker → tasks an earlier process gave to it. */
  #expected = new Map<string, Set<string>>();
  /** Which process this is: plans of an earlier one do nothing. */
  #life = 0;

  constructor(options: SimOrchestratorOptions) {
    this.#options = options;
    for (const { name } of options.sites) {
      this.#peersOf.set(name, {
        peerId: name,
        binding: 'stream',
        address: name,
        structured: true,
        features: FEATURES,
        durable: false,
        reachable: true,
        send: () => Promise.resolve(),
      });
    }
    this.#startProcess();
  }

  /** Tasks that have not ended. */
  open = 0;
  /** When a task was last with a worker or with an operator. */
  busyMs = 0;

  get router(): Router {
    return this.#router;
  }

  /** Tasks on disk. */
  *records(): Iterable<TaskRecord> {
    for (const { record } of this.#disk.values()) yield record;
  }

  submit(task: SimTask): void {
    const { time, checks } = this.#options;
    const record = newRecord(task.task_id, task.spec, task.number, this.#wallMs());
    const held: Held = { task, record, line: lineOf(task.route), sending: false, asides: 0 };
    this.#disk.set(task.task_id, held);
    this.open += 1;
    checks.submitted(task);
    if (task.cancelAfterMs !== null) time.after(task.cancelAfterMs, () => this.#cancel(task.task_id));
    if (!this.#options.network.listening) return;
    this.#watchDeadline(held);
    this.#dispatch.enqueue(held);
    this.#forgetEnded();
  }

  /** Its process dies. */
  crash(): void {
    this.#life += 1;
    this.#dispatch.stop();
    this.#leases.stop();
    this.#deadlines.stop();
    this.#peers.stop();
    this.#options.checks.orchestratorDied();
  }

  /** Another process on the same disk: nothing is sent again before a poll was answered or the lease ran out. */
  restart(): void {
    this.#startProcess();
    for (const held of [...this.#disk.values()]) {
      const { record } = held;
      held.sending = false;
      if (isEnded(record)) continue;
      this.#watchDeadline(held);
      if (record.state === 'queued') this.#dispatch.enqueue(held);
      else if (isActive(record)) {
        this.#expect(record.worker!, record.task_id);
        this.#renew(held);
        if (record.cancel_requested) this.#askToCancel(held);
      } else if (record.parked) this.#tellOperator(held);
      else if (record.state === 'blocked') this.#blocked(held);
      else this.#afterLoss(held, 'lost before a restart');
    }
    // Connections are made again one after the other.
    const life = this.#life;
    for (const site of this.#options.sites) {
      this.#options.time.after(this.#options.random.between(100, 4000), () => {
        if (life === this.#life && site.reachable) this.#options.workers.get(site.name)!.reconnected();
      });
    }
  }

  announce(site: Site, announced: Announced): void {
    const entry = this.#peers.get(site.name) ?? this.#peers.joined(this.#peersOf.get(site.name)!);
    if (!entry.connected) this.#peers.joined(entry.peer);
    if (this.#peers.announced(entry, announced) === 'old') return;
    for (const taskId of this.#expected.get(site.name) ?? []) {
      const held = this.#disk.get(taskId);
      if (held === undefined || !isActive(held.record) || held.record.worker !== site.name) continue;
      this.#peers.reserve(site.name, taskId, held.record.spec.context_id);
      this.#poll(held);
    }
    this.#expected.delete(site.name);
    for (const held of this.#tasksAt(site)) {
      if (incarnationOf(held.record) === announced.incarnation) this.#renew(held);
      else this.#poll(held);
    }
  }

  heartbeat(site: Site, incarnation: string, active: number): readonly string[] {
    const entry = this.#peers.get(site.name);
    const renewed: string[] = [];
    if (entry === undefined || !entry.connected) {
      this.#options.workers.get(site.name)!.announce();
      return renewed;
    }
    const beat = { agent_id: site.name, incarnation, seq: 0, active_tasks: active };
    const fewer = this.#peers.heartbeat(entry, { type: 'SESSION_HEARTBEAT', protocol_version: '2.0', ...beat });
    for (const held of this.#tasksAt(site)) {
      if (!fewer && incarnationOf(held.record) === incarnation) {
        this.#renew(held);
        renewed.push(held.record.task_id);
      } else this.#poll(held);
    }
    return renewed;
  }

  ack(site: Site, taskId: string, attempt: number, state: AckState): void {
    const held = this.#mine(site, taskId, attempt);
    if (held === undefined) return;
    const begun = held.record.state === 'accepted' || held.record.state === 'running';
    if (state === 'unknown') {
      if (begun) this.#lost(held, 'its worker does not know it any more');
      else this.#apply(held, { type: 'released', outcome: 'unknown', reason: 'the worker has never seen it' });
    } else if (state === 'busy' || state === 'in_flight') {
      if (!begun) this.#released(held, 'busy', state);
    } else {
      if (!begun) this.#apply(held, { type: 'accepted', attempt });
      if (state === 'running') this.#apply(held, { type: 'started', attempt });
      this.#renew(held);
      // A lease that was renewed is confirmed, as it is to a heartbeat.
      const { network, workers, time } = this.#options;
      const renewedMs = time.nowMs;
      network.toWorker(site, () => workers.get(site.name)!.confirmed(taskId, attempt, renewedMs));
    }
  }

  started(site: Site, taskId: string, attempt: number): void {
    const held = this.#mine(site, taskId, attempt);
    if (held === undefined) return;
    this.#apply(held, { type: 'started', attempt });
    this.#renew(held);
  }

  result(site: Site, attempt: number, result: TaskResult, run: Run | undefined): void {
    const { time, network, workers, checks } = this.#options;
    const held = this.#disk.get(result.task_id);
    if (held !== undefined) {
      const { record } = held;
      const current = record.worker === site.name && attempt === record.attempt;
      if (current && isActive(record) && result.error_summary?.startsWith('worker restarted') === true) {
        this.#lost(held, result.error_summary, result);
      } else {
        const { outcome } = this.#apply(held, { type: 'result', worker: site.name, attempt, result }, run);
        checks.reported(held.record, site.name, attempt, result, outcome);
      }
    }
    // It is on disk, or nobody can make anything of it: it need not be sent again.
    const life = this.#life;
    time.after(COMMIT_MS, () => {
      if (life !== this.#life) return;
      network.toWorker(site, () => workers.get(site.name)!.kept(result.task_id, attempt));
    });
  }

  left(site: Site): void {
    const entry = this.#peers.get(site.name);
    if (entry !== undefined) this.#peers.left(entry.peer, 'the connection broke', false);
  }

  /** Gives up what nobody can take: at the end of a run, when nothing will change any more. */
  dropWaiting(): void {
    for (const held of [...this.#disk.values()]) {
      if (held.record.state === 'queued') this.#apply(held, { type: 'failed', reason: 'dropped: nobody can take it' });
    }
  }

  #startProcess(): void {
    const { time, checks } = this.#options;
    this.#life += 1;
    const clock: Clock = {
      monotonic: () => time.nowMs,
      timer: (run, ms) => {
        const plan = time.after(Math.ceil(ms), run);
        return () => time.cancel(plan);
      },
    };
    this.#router = new Router(DEFAULT_ROUTE_POLICY);
    this.#leaseEnds = new Map();
    this.#overdue = new Set();
    this.#expected = new Map();
    this.#leases = new TimerQueue(clock, (taskId) => this.#leaseRings(taskId));
    this.#deadlines = new TimerQueue(clock, (taskId) => this.#deadlineRings(taskId));
    this.#peers = new Peers({
      router: this.#router,
      clock,
      now: () => this.#wallMs(),
      inlineHints: true,
      log: SILENT,
      changed: (peerId) => this.#dispatch.wake(peerId),
      expired: () => {},
    });
    this.#dispatch = new SimDispatch({
      ...this.#options,
      router: this.#router,
      peers: this.#peers,
      wallMs: () => this.#wallMs(),
      held: (taskId) => this.#disk.get(taskId)!,
      apply: (held, event) => void this.#apply(held, event),
      renew: (held) => this.#renew(held),
      unreachable: (held) => this.#released(held, 'unreachable', 'busy'),
    });
    checks.orchestratorStarted(this.#peers);
  }

  #wallMs(): number {
    return EPOCH_MS + this.#options.time.nowMs;
  }

  /** Applies an event, writes the row, and does what follows from it. */
  #apply(held: Held, event: TaskEvent, run?: Run): { readonly outcome: string } {
    const { checks, measures } = this.#options;
    const before = held.record;
    const { record, outcome } = advance(before, event, this.#wallMs());
    held.record = record;
    checks.step(before, record, event, outcome);
    if (record === before) return { outcome };
    if (record.state !== 'queued' && !isEnded(record)) this.busyMs = this.#options.time.nowMs;
    const was = isActive(before);
    const is = isActive(record);
    if (was && (!is || before.worker !== record.worker || before.attempt !== record.attempt)) {
      this.#peers.release(before.worker!, record.task_id, verdictOf(event));
      this.#leases.clear(record.task_id);
      this.#leaseEnds.delete(record.task_id);
      this.#overdue.delete(record.task_id);
    }
    if (before.state === 'queued' && record.state !== 'queued') this.#dispatch.withdraw(record.task_id);
    if (event.type === 'result' && outcome === 'changed') {
      measures.accepted(held.task, event.result, run, this.#options.time.nowMs);
      if (was && before.worker !== event.worker) this.#tellToStop(before);
    }
    if (isEnded(record) && !isEnded(before)) this.#endedNow(held);
    else if (record.state === 'queued' && before.state !== 'queued') {
      this.#watchDeadline(held);
      this.#dispatch.enqueue(held);
    } else if (event.type === 'result' && record.state === 'blocked' && before.state !== 'blocked') this.#blocked(held);
    else if (record.parked && !before.parked) this.#tellOperator(held);
    return { outcome };
  }

  #endedNow(held: Held): void {
    const { time, measures, checks } = this.#options;
    this.open -= 1;
    this.#deadlines.clear(held.record.task_id);
    this.#ended.push({ atMs: time.nowMs, taskId: held.record.task_id });
    measures.ended(held.task, held.record);
    checks.ended(held.record);
  }

  #forgetEnded(): void {
    const before = this.#options.time.nowMs - KEEP_MS;
    for (; this.#pruned < this.#ended.length && this.#ended[this.#pruned]!.atMs < before; this.#pruned += 1) {
      const { taskId } = this.#ended[this.#pruned]!;
      this.#options.checks.forgotten(taskId);
      this.#disk.delete(taskId);
    }
    if (this.#pruned > 10_000) this.#ended.splice(0, this.#pruned);
    if (this.#pruned > 10_000) this.#pruned = 0;
  }

  /** The task, when this worker has the attempt of it that is under way. */
  #mine(site: Site, taskId: string, attempt: number): Held | undefined {
    const held = this.#disk.get(taskId);
    if (held === undefined || !isActive(held.record) || held.record.worker !== site.name) return undefined;
    return held.record.attempt === attempt ? held : undefined;
  }

  *#tasksAt(site: Site): Iterable<Held> {
    for (const taskId of [...(this.#peers.get(site.name)?.tasks.keys() ?? [])]) {
      const held = this.#disk.get(taskId);
      if (held !== undefined && isActive(held.record)) yield held;
    }
  }

  #expect(worker: string, taskId: string): void {
    const tasks = this.#expected.get(worker);
    if (tasks === undefined) this.#expected.set(worker, new Set([taskId]));
    else tasks.add(taskId);
  }

  #renew({ record }: Held): void {
    const { nowMs } = this.#options.time;
    this.#leaseEnds.set(record.task_id, nowMs + LEASE_MS);
    if (this.#leases.at(record.task_id) === undefined) this.#leases.set(record.task_id, nowMs + (LEASE_MS * 2) / 3);
  }

  #leaseRings(taskId: string): void {
    const held = this.#disk.get(taskId);
    const end = this.#leaseEnds.get(taskId);
    if (held === undefined || end === undefined || !isActive(held.record)) return;
    const left = end - this.#options.time.nowMs;
    if (left <= 0) return this.#lost(held, 'its worker was not heard of while its lease held');
    if (left > LEASE_MS / 3) return this.#leases.set(taskId, end - LEASE_MS / 3);
    this.#leases.set(taskId, end);
    this.#poll(held);
  }

  #poll({ record, sending }: Held): void {
    const { network, workers, sites } = this.#options;
    if (sending) return;
    const { worker, task_id, attempt } = record;
    network.toWorker(sites[indexOf(worker!)]!, () => workers.get(worker!)!.poll(task_id, attempt));
  }

  #watchDeadline({ task, record }: Held): void {
    if (task.route.deadlineMs !== null) this.#deadlines.set(record.task_id, task.route.deadlineMs - EPOCH_MS);
  }

  #deadlineRings(taskId: string): void {
    const held = this.#disk.get(taskId);
    if (held === undefined || isEnded(held.record)) return;
    if (!isActive(held.record)) {
      this.#apply(held, { type: 'failed', reason: 'deadline_passed: it was not done in time' });
    } else if (this.#overdue.has(taskId)) this.#lost(held, 'the deadline passed and its worker did not report');
    else {
      this.#overdue.add(taskId);
      this.#tellToStop(held.record);
      this.#deadlines.set(taskId, this.#options.time.nowMs + CANCEL_GRACE_MS);
    }
  }

  #tellToStop({ worker, task_id, attempt }: TaskRecord): void {
    const { network, workers, sites } = this.#options;
    network.toWorker(sites[indexOf(worker!)]!, () => workers.get(worker!)!.cancel(task_id, attempt));
  }

  #cancel(taskId: string): void {
    const held = this.#disk.get(taskId);
    if (held === undefined || isEnded(held.record) || !this.#options.network.listening) return;
    this.#apply(held, { type: 'cancel_requested' });
    if (isActive(held.record)) this.#askToCancel(held);
    else this.#apply(held, { type: 'canceled', reason: 'canceled' });
  }

  #askToCancel(held: Held): void {
    this.#tellToStop(held.record);
    const life = this.#life;
    this.#options.time.after(CANCEL_GRACE_MS, () => {
      if (life === this.#life && !isEnded(held.record)) {
        this.#apply(held, { type: 'canceled', reason: 'canceled; its worker did not answer' });
      }
    });
  }

  /** What follows a refusal in a result. */
  #blocked(held: Held): void {
    const { record } = held;
    const { worker, result } = record;
    if (record.cancel_requested) return void this.#apply(held, { type: 'canceled', reason: 'canceled' });
    const code = result?.blocked?.code ?? 'unknown';
    const { action, delay_s = 30 } = this.#step(record, code, result?.blocked?.retry_after_s);
    const not_before = this.#wallMs() + delay_s * 1000;
    if (action === 'reroute') {
      const exclude = { worker: worker!, marker: this.#peers.marker(worker!) };
      this.#apply(held, { type: 'requeued', cause: 'reroute', exclude });
    } else if (action === 'retry' || action === 'wait')
      this.#apply(held, { type: 'requeued', cause: 'retry', not_before });
    else if (action === 'fail') this.#apply(held, { type: 'failed', reason: code });
    else this.#apply(held, { type: 'parked', reason: code });
  }

  /** What follows an attempt that could not begin. */
  #released(held: Held, outcome: 'unreachable' | 'busy', code: 'busy' | 'in_flight'): void {
    const { record } = held;
    const event = { type: 'released', outcome, reason: outcome } as const;
    if (record.cancel_requested) return void this.#apply(held, { type: 'canceled', reason: 'canceled' });
    const { action, delay_s = 30 } = this.#step(record, code);
    const not_before = this.#wallMs() + delay_s * 1000;
    if (action === 'reroute') {
      this.#apply(held, { ...event, cause: 'reroute', exclude: this.#peers.marker(record.worker!) });
    } else if (action === 'retry') this.#apply(held, { ...event, cause: 'retry', not_before });
    else if (action === 'wait') this.#apply(held, { ...event, not_before });
    else {
      this.#apply(held, { ...event, not_before: Number.MAX_SAFE_INTEGER });
      this.#apply(held, { type: 'parked', reason: outcome });
    }
  }

  #lost(held: Held, reason: string, result?: TaskResult): void {
    const { outcome } = this.#apply(held, { type: 'lost', reason, ...(result !== undefined && { result }) });
    if (outcome === 'changed') this.#afterLoss(held, reason);
  }

  #afterLoss(held: Held, reason: string): void {
    const { record, task } = held;
    if (record.cancel_requested) this.#apply(held, { type: 'canceled', reason });
    else if (task.route.deadlineMs !== null && task.route.deadlineMs <= this.#wallMs()) {
      this.#apply(held, { type: 'failed', reason: `deadline_passed: ${reason}` });
    } else if (record.spec.retry_safe && record.retries < DEFAULT_BLOCKED_POLICY.max_retries) {
      this.#apply(held, { type: 'requeued', cause: 'retry' });
    } else this.#apply(held, { type: 'parked', reason: `lost: ${reason}` });
  }

  #step(record: TaskRecord, code: string, retryAfterS?: number) {
    const { route } = this.#disk.get(record.task_id)!.task;
    const excluded = new Set(this.#peers.excludedOf(record.excluded));
    if (record.worker !== null) excluded.add(record.worker);
    return blockedStep(DEFAULT_BLOCKED_POLICY, {
      code,
      eligible_untried_workers: this.#router.eligible(route, {
        nowMs: this.#options.time.nowMs,
        wallMs: this.#wallMs(),
        excluded,
      }),
      reroutes_done: record.reroutes,
      retries_done: record.retries,
      seconds_to_deadline: route.deadlineMs === null ? null : (route.deadlineMs - this.#wallMs()) / 1000,
      retry_after_s: retryAfterS ?? null,
      jitter: this.#options.random.next(),
    });
  }

  /** A person looks at it: mostly it is tried again, sometimes dropped. */
  #tellOperator(held: Held): void {
    const { time, random } = this.#options;
    const life = this.#life;
    const { attempt } = held.record;
    time.after(random.around(OPERATOR_MS), () => {
      if (life !== this.#life || !held.record.parked || held.record.attempt !== attempt) return;
      if (attempt < 4 && random.chance(0.8)) this.#apply(held, { type: 'requeued', cause: 'operator' });
      else this.#apply(held, { type: 'failed', reason: 'dropped by an operator' });
    });
  }
}

function ignore(): void {}

function incarnationOf(record: TaskRecord): string | null {
  return record.attempts.at(-1)?.incarnation ?? null;
}

/** What the end of an attempt says about its worker. */
function verdictOf(event: TaskEvent): Verdict {
  if (event.type === 'lost') return 'failed';
  if (event.type === 'released') return event.outcome === 'unreachable' ? 'failed' : 'neutral';
  if (event.type !== 'result' || event.result.status === 'blocked') return 'neutral';
  return event.result.status === 'error' ? 'failed' : 'ok';
}
