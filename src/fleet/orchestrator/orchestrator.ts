/**
 * The orchestrator: accepts tasks, dispatches them to workers over any bus, stores their results, and informs operators.
 *
 * `engine.ts` puts the parts together; this is the interface, for the command line and other clients through session RPC and
 * for programs through `handfast/fleet`.
 * @see docs/fleet.md
 */

import { Lifetime, type LifetimeState } from '../../base/lifetime.ts';
import { within } from '../../base/race.ts';
import type { ShareUsage } from '../../base/share-usage.ts';
import { SteadyClock } from '../../base/steady-clock.ts';
import { TimerQueue } from '../../base/timer-queue.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { BusOutage } from '../bus/peer.ts';
import { fleetMessage } from '../messages/encode.ts';
import type { Explanation } from '../route/profile.ts';
import { Engine } from './engine.ts';
import type { Orchestrator, OrchestratorOptions, WorkerView } from './orchestrator-options.ts';
import { PeerEventHandler } from './peer-event-handler.ts';
import { viewOf } from './peer-profile.ts';
import type { Answer } from './questions.ts';
import { matches } from './store-query.ts';
import { Submissions } from './submissions.ts';
import type { Submitter, TaskQuery, TaskRecord, TaskSpec } from './task.ts';
import { isActive, isEnded } from './task-machine.ts';
import { fullSpec, newRecord, unknownTask } from './task-record.ts';
import type { TrackedTask } from './task-registry.ts';

const RETAIN_MS = 30 * 24 * 3600 * 1000;
const MAX_TASKS = 100_000;
/** Time between two removals of old ended tasks, milliseconds; the first one soon after the start. */
const PRUNE_EVERY_MS = 3600 * 1000;
const FIRST_PRUNE_MS = 60 * 1000;
/** Longest `stop` waits for buses, and then for the disk, milliseconds. */
const STOP_MS = 10_000;

/** Makes an orchestrator over these buses and this store. `start` it; both stay the caller's to close after `stop`. */
export function createOrchestrator(options: OrchestratorOptions): Orchestrator {
  return new TaskOrchestrator(options);
}

class TaskOrchestrator implements Orchestrator {
  readonly #options: OrchestratorOptions;
  readonly #engine: Engine;
  readonly #peerEvents: PeerEventHandler;
  readonly #submissions: Submissions;
  readonly #pruning: TimerQueue<'prune'>;
  #phase: 'new' | 'starting' | 'running' | 'stopped' = 'new';
  readonly #lifetime = new Lifetime();
  readonly #steadyClock: SteadyClock;

  constructor(options: OrchestratorOptions) {
    this.#options = options;
    this.#engine = new Engine(options);
    this.#peerEvents = new PeerEventHandler(this.#engine);
    this.#submissions = new Submissions(this.#engine);
    this.#pruning = new TimerQueue(this.#engine.clock, () => void this.#prune());
    this.#steadyClock = new SteadyClock(() => this.#engine.now(), this.#engine.clock.monotonic);
  }

  async start(): Promise<void> {
    if (this.#phase !== 'new') throw fail('usage', 'this orchestrator was started before');
    this.#phase = 'starting';
    await this.#reload();
    const started = await Promise.allSettled(this.#options.buses.map((bus) => bus.start(this.#peerEvents)));
    const failed = started.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) {
      await this.close();
      throw failed.reason;
    }
    if (this.#phase !== 'starting') return;
    this.#phase = 'running';
    this.#pruning.set('prune', this.#engine.clock.monotonic() + FIRST_PRUNE_MS);
    this.#engine.dispatcher.schedule();
  }

  async submit(spec: TaskSpec, submitter?: Submitter): Promise<TaskRecord> {
    this.#check();
    return this.#submissions.submit(spec, submitter);
  }

  async submitBatch(specs: readonly TaskSpec[], submitter?: Submitter): Promise<readonly TaskRecord[]> {
    this.#check();
    return this.#submissions.submitBatch(specs, submitter);
  }

  shares(): Promise<Readonly<Record<string, ShareUsage>>> {
    return this.#engine.shares.usage();
  }

  async get(taskId: string): Promise<TaskRecord> {
    const record = this.#engine.registry.get(taskId)?.record ?? (await this.#options.store.get(taskId))?.record;
    if (record === undefined) throw unknownTask(taskId);
    return record;
  }

  async find(query: TaskQuery): Promise<readonly TaskRecord[]> {
    const found = await this.#options.store.find(query);
    // The record in memory may be newer.
    return found
      .map((record) => this.#engine.registry.get(record.task_id)?.record ?? record)
      .filter((record) => matches(record, query));
  }

  cancel(taskId: string, reason = 'canceled'): Promise<TaskRecord> {
    return this.#with(taskId, (tracked) => {
      const { registry } = this.#engine;
      if (isEnded(tracked.record)) return;
      registry.apply(tracked, { type: 'cancel_requested' });
      if (isActive(tracked.record)) this.#engine.requestCancel(tracked, reason);
      else registry.apply(tracked, { type: 'canceled', reason });
    });
  }

  retry(taskId: string, worker?: string): Promise<TaskRecord> {
    return this.#with(taskId, async (tracked) => {
      const { registry, peers, dispatcher } = this.#engine;
      const { record } = tracked;
      if (!record.parked && !isEnded(record)) {
        throw fail('invalid_message', `task ${taskId} is running`, { task_id: taskId, state: record.state });
      }
      if (worker !== undefined && peers.get(worker) === undefined)
        throw fail('not_found', `no worker ${worker}`, { worker });
      await this.#submissions.waitAgain(tracked);
      registry.apply(tracked, { type: 'requeued', cause: 'operator', ...(worker !== undefined && { only: worker }) });
      dispatcher.pump();
    });
  }

  drop(taskId: string, reason = 'dropped by an operator'): Promise<TaskRecord> {
    return this.#with(taskId, (tracked) => {
      const { parked, state } = tracked.record;
      if (!parked) throw fail('invalid_message', `task ${taskId} is not parked`, { task_id: taskId, state });
      this.#engine.registry.apply(tracked, { type: 'failed', reason });
    });
  }

  async steer(taskId: string, text: string): Promise<void> {
    const tracked = await this.#active(taskId);
    const { worker, attempt } = tracked.record;
    const entry = this.#engine.peers.get(worker ?? '');
    if (entry === undefined || !entry.connected) throw fail('unreachable', `${worker} is not connected`, { worker });
    if (!entry.peer.features.has('steer')) {
      throw fail('capability_missing', `${worker} accepts no input while it works`, { worker });
    }
    const steer_id = this.#engine.newId();
    const message = fleetMessage('TASK_STEER', { task_id: taskId, steer_id, text }, { attempt });
    await entry.peer.send(message, { mode: entry.mode });
    this.#engine.journal.write(tracked.record, 'steer', { steer_id, text });
  }

  async answer(taskId: string, questionId: string, answer: Answer): Promise<void> {
    await this.#engine.questions.answer(await this.#active(taskId), questionId, answer);
  }

  async result(taskId: string, signal?: AbortSignal): ReturnType<Orchestrator['result']> {
    signal?.throwIfAborted();
    const record = await this.get(taskId);
    if (record.parked || this.#engine.registry.get(taskId) === undefined) return { record, result: record.result };
    const ended = await new Promise<TaskRecord | null>((resolve, reject) => {
      const callOff = this.#engine.onEnd(taskId, (last) => {
        signal?.removeEventListener('abort', aborted);
        resolve(last);
      });
      const aborted = (): void => {
        callOff();
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', aborted, { once: true });
    });
    if (ended !== null) return { record: ended, result: ended.result };
    if (this.#engine.stopped) throw fail('interrupted', 'the orchestrator stopped', { task_id: taskId });
    throw fail('superseded', `another orchestrator took over task ${taskId}`, { task_id: taskId });
  }

  verifying(taskId: string): boolean {
    return this.#engine.verifier.has(taskId);
  }

  async explain(task: string | TaskSpec): Promise<Explanation> {
    if (typeof task === 'string') return this.#engine.dispatcher.explain(await this.get(task));
    const taskId = task.task_id ?? 'this-task';
    const spec = fullSpec(taskId, task);
    this.#submissions.checkTier(spec);
    return this.#engine.dispatcher.explain(newRecord(taskId, spec, 0, this.#engine.now()));
  }

  down(): readonly BusOutage[] {
    return this.#options.buses.flatMap((bus) => bus.down?.() ?? []);
  }

  workers(): readonly WorkerView[] {
    const { peers, router } = this.#engine;
    const lost = new Map(this.#options.buses.map((bus) => [bus.binding, bus.down?.()?.since]));
    return [...peers.all()]
      .map((entry) => viewOf(entry, peers.profile(entry), router.policy.ttl_s, lost.get(entry.peer.binding)))
      .sort((one, other) => (one.peer_id < other.peer_id ? -1 : 1));
  }

  async drain(peerId: string, on = true): Promise<void> {
    const { peers } = this.#engine;
    const entry = peers.get(peerId);
    if (entry === undefined) throw fail('not_found', `no worker ${peerId}`, { worker: peerId });
    peers.drain(entry, on);
  }

  counts(): Readonly<Record<string, number>> {
    const { registry, dependencies, totals, peers } = this.#engine;
    const counts: Record<string, number> = { open: registry.openCount, waiting_for_others: dependencies.size };
    for (const [state, count] of registry.counts) counts[state] = count;
    for (const entry of peers.all()) {
      const name = entry.connected ? 'workers_here' : 'workers_away';
      counts[name] = (counts[name] ?? 0) + 1;
    }
    for (const [kind, count] of totals) counts[`total_${kind}`] = count;
    return counts;
  }

  close(): Promise<void> {
    return this.#lifetime.close(() => this.#stop());
  }

  get state(): LifetimeState {
    return this.#lifetime.state;
  }

  get closed(): Promise<HandfastError | undefined> {
    return this.#lifetime.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #stop(): Promise<void> {
    this.#phase = 'stopped';
    this.#pruning.stop();
    this.#engine.halt();
    const { timer } = this.#engine.clock;
    await within(Promise.allSettled(this.#options.buses.map((bus) => bus.close())), STOP_MS, timer);
    await within(this.#engine.registry.flush(), STOP_MS, timer);
    this.#engine.registry.stop();
  }

  /**
   * Loads the tasks that an earlier process left. A task is not sent again before its worker was polled or its lease expired.
   */
  async #reload(): Promise<void> {
    const { store } = this.#options;
    const { registry } = this.#engine;
    this.#submissions.begin(await store.lastNumber());
    const open: TrackedTask[] = [];
    for await (const stored of store.open()) open.push(registry.adopt(stored));
    this.#engine.learner?.retain((taskId) => registry.get(taskId) !== undefined);
    for (const tracked of open) if (tracked.record.state === 'queued') await this.#submissions.waitStill(tracked);
    for (const tracked of open) {
      const { record, id } = tracked;
      if (isActive(record)) this.#peerEvents.expect(record.worker ?? '', id);
      if (!isEnded(record)) this.#engine.admit(tracked);
    }
    if (open.length > 0) this.#options.log.info('resumed tasks of an earlier process', { tasks: open.length });
  }

  async #prune(): Promise<void> {
    const { store, log, retainMs = RETAIN_MS, maxTasks = MAX_TASKS } = this.#options;
    try {
      const before = this.#steadyClock.trusts() ? this.#engine.now() - retainMs : Number.MIN_SAFE_INTEGER;
      const pruned = await store.prune(before, maxTasks);
      if (pruned > 0) log.info('old tasks were removed', { tasks: pruned });
    } catch (thrown) {
      log.warn('old tasks could not be removed', { error: asError(thrown).message });
    }
    this.#pruning.set('prune', this.#engine.clock.monotonic() + PRUNE_EVERY_MS);
  }

  /** Changes a task and resolves with its record when that is on disk. */
  async #with(taskId: string, work: (tracked: TrackedTask) => void | Promise<void>): Promise<TaskRecord> {
    this.#check();
    const { registry } = this.#engine;
    const tracked = await registry.pin(taskId);
    if (tracked === undefined) throw unknownTask(taskId);
    try {
      await work(tracked);
      await registry.save(tracked);
      return tracked.record;
    } finally {
      registry.release(tracked);
    }
  }

  async #active(taskId: string): Promise<TrackedTask> {
    this.#check();
    const tracked = this.#engine.registry.get(taskId);
    if (tracked !== undefined && isActive(tracked.record)) return tracked;
    const { state } = await this.get(taskId);
    throw fail('invalid_message', `task ${taskId} is not running`, { task_id: taskId, state });
  }

  #check(): void {
    if (this.#phase === 'running') return;
    throw fail('interrupted', `the orchestrator is ${this.#phase === 'stopped' ? 'stopped' : 'not started'}`);
  }
}
