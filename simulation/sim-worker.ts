/**
 * A worker that speaks the handshake: it refuses before it spends, keeps a journal and an outbox, and says how it is. What
 * it makes of a dispatch is decided by the worker's own code (`fleet/worker/admission.ts`, phase 4 and the journal's rules); what
 * runs is a {@link Run} instead of an agent.
 */

import type { Announced, Dispatched } from '../src/fleet/messages/decoded.ts';
import { decideAdmission, isAnsweredByAnother, refused } from '../src/fleet/worker/admission.ts';
import { ClockSkew } from '../src/fleet/worker/clock-skew.ts';
import type { DeclinedAttempt, JournaledTask } from '../src/fleet/worker/journal.ts';
import { MAX_CRASHES } from '../src/fleet/worker/recovery.ts';
import type { TaskResult } from '../src/protocol/fleet.ts';
import type { Network } from './network.ts';
import type { Random } from './random.ts';
import { Run } from './run.ts';
import type { Setting } from './setting.ts';
import {
  type AckState,
  descriptionOf,
  dispatchedOf,
  LEASE_MS,
  type ResultBody,
  reportOf,
  type SimMessageSink,
  type SimObserver,
  stateOf,
} from './sim-messages.ts';
import type { Site } from './site.ts';
import type { Plan, VirtualTime } from './virtual-time.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

export const HEARTBEAT_MS = 15_000;

export interface SimWorkerOptions {
  readonly site: Site;
  readonly setting: Setting;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly network: Network;
  readonly hears: SimMessageSink;
  readonly witness: SimObserver;
}

const PROBE_MS = 30_000;
const DEBOUNCE_MS = 2000;
const RESEND_MS = [1000, 2000, 5000, 15_000, 60_000];
/** Attempts that were answered without being taken, and are remembered. */
const MAX_DENIALS = 1000;
/** How long what was delivered is kept: longer than any message is late. */
const KEEP_MS = 15 * 60_000;
const TTL_S = 45;
const BUSY_S = 30;

interface Entry extends JournaledTask {
  readonly task: SimTask;
  run: Run | undefined;
  endedMs: number;
  resend: Plan | undefined;
}

/** A task that is taken or runs. */
interface Active {
  readonly entry: Change<Entry>;
  /** When its lease was last renewed, as far as is known here, and the plan that stops it when that is too long ago. */
  renewedMs: number;
  fence: Plan | undefined;
}

type Change<T> = { -readonly [K in keyof T]: T[K] };

export class SimWorker {
  readonly site: Site;
  readonly #options: SimWorkerOptions;
  readonly #skew = new ClockSkew();
  /** What survives its death: the latest attempt of each task, and the latest that was answered without being taken. */
  readonly #journal = new Map<string, Change<Entry>>();
  readonly #denied = new Map<string, DeclinedAttempt>();
  /** Ended, and not known to be kept at the other end. */
  readonly #outbox = new Set<Change<Entry>>();
  /** Tasks taken or running, with the plan that would stop them when their lease is not confirmed. */
  readonly #active = new Map<string, Active>();
  #probed = new Map<string, string>();
  #probedMs = Number.NEGATIVE_INFINITY;
  #described = '';
  #announcing: Plan | undefined;
  #seq = 0;
  #context: string | null = null;
  /** Counts what was begun, so that a plan of a dead process does nothing. */
  #life = 0;

  constructor(options: SimWorkerOptions) {
    this.site = options.site;
    this.#options = options;
  }

  get active(): number {
    return this.#active.size;
  }

  /** Starts its process, the first one or another. */
  begin(): void {
    this.#life += 1;
    this.#probe();
    this.#recover();
    this.announce();
    this.#beat(this.#life, this.#options.random.below(HEARTBEAT_MS));
  }

  /** Its process is dead. */
  crashed(): void {
    const { time } = this.#options;
    this.#life += 1;
    for (const { fence } of this.#active.values()) time.cancel(fence);
    for (const { resend } of this.#outbox) time.cancel(resend);
    this.#active.clear();
    time.cancel(this.#announcing);
    this.#announcing = undefined;
    this.#probedMs = Number.NEGATIVE_INFINITY;
  }

  /** Can be heard again, or the orchestrator can: what waits is sent at once. */
  reconnected(): void {
    if (!this.site.up) return;
    this.announce();
    for (const entry of this.#outbox) this.#deliver(entry, 0);
  }

  announce(): void {
    const { network, hears } = this.#options;
    const announced = this.#describe();
    this.#described = descriptionOf(announced);
    network.toOrchestrator(this.site, () => hears.announce(this.site, announced));
  }

  /** A dispatch has come. `sentAtMs` by the clock of the orchestrator. */
  receive(task: SimTask, attempt: number, sentAtMs: number): void {
    const { site } = this;
    const { time, hears, network, witness } = this.#options;
    const wallMs = EPOCH_MS + time.nowMs + site.skewMs;
    this.#skew.heard(sentAtMs, wallMs, time.nowMs);
    if (time.nowMs - this.#probedMs >= PROBE_MS) this.#probe();
    const dispatch = dispatchedOf(task, attempt);
    const running = this.#active.get(task.task_id)?.entry;
    const journaled = running === undefined ? this.#journal.get(task.task_id) : undefined;
    const decision = decideAdmission({
      dispatch,
      agentId: site.name,
      facts: {
        tools: site.tools,
        mcpServers: site.servers,
        mcpHealth: this.#probed,
        activeTasks: this.#active.size,
        maxConcurrent: site.capacity,
        executorPresent: true,
        repoState: { branch: 'main', clean: !site.dirty },
        overheadTokens: site.overhead,
        draining: false,
        contextId: this.#context,
        skewMs: this.#skew.aheadMs,
      },
      nowMs: wallMs,
      delayMs: this.#skew.delayMs(sentAtMs, wallMs),
      redelivers: false,
      running: running && { ...running, state: stateOf(running), lease: undefined },
      journaled,
      denied: this.#denied.get(task.task_id),
      contextBusy: task.route.context_id !== null && this.#runsContext(task),
      parent: undefined,
      schemaProblem: null,
      full: undefined,
      busyS: BUSY_S,
    });
    if (decision.kind === 'take') return this.#take(task, attempt, decision.crashes, dispatch);
    const { reception, denial } = decision;
    if (denial !== undefined) this.#deny(task.task_id, denial);
    if (reception.kind === 'taken') return this.#ack(task.task_id, attempt, reception.state);
    if (reception.kind === 'busy')
      return this.#ack(task.task_id, attempt, reception.reason === 'context' ? 'busy' : 'in_flight');
    if (reception.kind !== 'refused' && reception.kind !== 'replay') return;
    const { result } = reception;
    const toldAttempt = result.envelope?.attempt ?? attempt;
    if (reception.kind === 'refused') {
      witness.refused(task, attempt, result);
      const again = denial === undefined;
      if (!again && result.blocked?.code !== 'busy') witness.deadOnArrival(task, false);
    }
    const run = reception.kind === 'replay' ? journaled?.run : undefined;
    network.toOrchestrator(site, () => hears.result(site, toldAttempt, result, run));
  }

  /** How is this attempt? */
  poll(taskId: string, attempt: number): void {
    const { hears, network } = this.#options;
    const active = this.#active.get(taskId)?.entry;
    if (active !== undefined) return this.#ack(taskId, active.attempt, stateOf(active));
    const entry = this.#journal.get(taskId);
    const tell = (of: number, result: TaskResult, run?: Run): void =>
      network.toOrchestrator(this.site, () => hears.result(this.site, of, result, run));
    if (entry?.result != null && entry.attempt >= attempt) return tell(entry.attempt, entry.result, entry.run);
    this.#deny(taskId, { attempt, digest: null, reason: null });
    const denied = this.#denied.get(taskId);
    if (denied?.attempt !== attempt || denied.reason === null) return this.#ack(taskId, attempt, 'unknown');
    if (entry?.result != null && isAnsweredByAnother(denied)) return tell(entry.attempt, entry.result, entry.run);
    const dispatch = { task_id: taskId, envelope: { attempt } };
    tell(attempt, refused({ dispatch, agentId: this.site.name, busyS: BUSY_S }, denied.reason));
  }

  cancel(taskId: string, attempt: number): void {
    const entry = this.#active.get(taskId)?.entry;
    if (entry === undefined || entry.attempt !== attempt) return;
    if (entry.run !== undefined) entry.run.stop();
    else this.#end(entry, { status: 'error', error_summary: 'canceled before it began', tokens_spent: 0 });
  }

  /** The orchestrator has the result of this attempt for good. */
  kept(taskId: string, attempt: number): void {
    for (const entry of this.#outbox) {
      if (entry.taskId !== taskId || entry.attempt !== attempt) continue;
      entry.delivered = true;
      this.#options.time.cancel(entry.resend);
      this.#outbox.delete(entry);
    }
  }

  /** The orchestrator renewed the lease of this attempt then. */
  confirmed(taskId: string, attempt: number, renewedMs: number): void {
    const active = this.#active.get(taskId);
    if (active?.entry.attempt === attempt) this.#fence(active, renewedMs);
  }

  #take(task: SimTask, attempt: number, crashes: number, { digest }: Dispatched): void {
    const { time, random } = this.#options;
    const entry: Change<Entry> = {
      taskId: task.task_id,
      digest,
      attempt,
      state: 'accepted',
      outlet: 'orchestrator',
      about: { context_id: task.route.context_id, access: task.spec.access },
      processes: [],
      crashes,
      result: null,
      delivered: false,
      task,
      run: undefined,
      endedMs: Number.POSITIVE_INFINITY,
      resend: undefined,
    };
    this.#forgetOld();
    this.#journal.delete(task.task_id);
    this.#journal.set(task.task_id, entry);
    const active: Active = { entry, renewedMs: Number.NEGATIVE_INFINITY, fence: undefined };
    this.#active.set(task.task_id, active);
    this.#fence(active, time.nowMs);
    this.#ack(task.task_id, attempt, 'accepted');
    const life = this.#life;
    time.after(random.between(50, 800), () => {
      if (life === this.#life && this.#active.get(task.task_id) === active) this.#start(entry);
    });
  }

  #start(entry: Change<Entry>): void {
    const { site } = this;
    const { time, hears, network, witness } = this.#options;
    const { task, attempt } = entry;
    const unmet = site.unmet(task.route.required_mcp, task.route.required_capabilities);
    if (unmet && site.revealing) {
      // Its agent says what it has before its first turn: stopped with nothing spent.
      witness.deadOnArrival(task, false);
      const reason = 'unhealthy_mcp: the executor found a server that does not answer';
      const blocked = { code: 'unhealthy_mcp', retryable: true };
      this.#probe();
      return this.#end(entry, { status: 'blocked', blocked_reason: reason, blocked, tokens_spent: 0 });
    }
    if (unmet) witness.deadOnArrival(task, true);
    entry.state = 'started';
    const limits = {
      budget: task.route.token_budget,
      deadlineMs: task.route.deadlineMs === null ? null : task.route.deadlineMs - EPOCH_MS,
      noticesAt: 0.3,
    };
    entry.run = new Run(site, task, attempt, time, limits, (run) => {
      witness.ended(run);
      if (run.end !== 'killed') this.#end(entry, reportOf(run));
    });
    if (entry.task.route.context_id !== null) this.#context = entry.task.route.context_id;
    witness.started(entry.run);
    network.toOrchestrator(site, () => hears.started(site, task.task_id, attempt));
  }

  #end(entry: Change<Entry>, body: ResultBody): void {
    const { time } = this.#options;
    const active = this.#active.get(entry.taskId);
    time.cancel(active?.fence);
    this.#active.delete(entry.taskId);
    this.#finish(entry, body);
    // Fewer tasks: whoever routes here hears it from the result; a changed tree is told.
    this.#noteChange();
  }

  #finish(entry: Change<Entry>, body: ResultBody): void {
    entry.state = 'ended';
    entry.endedMs = this.#options.time.nowMs;
    entry.result = {
      type: 'TASK_RESULT',
      protocol_version: '2.0',
      task_id: entry.taskId,
      ...body,
      envelope: { attempt: entry.attempt },
    };
    this.#outbox.add(entry);
    this.#deliver(entry, 0);
  }

  /** Sends a result, again and again until it is known to be kept. */
  #deliver(entry: Change<Entry>, tries: number): void {
    const { time, hears, network } = this.#options;
    const { result, run, attempt } = entry;
    if (result === null || !this.site.up) return;
    time.cancel(entry.resend);
    network.toOrchestrator(this.site, () => hears.result(this.site, attempt, result, run));
    entry.resend = time.after(RESEND_MS[Math.min(tries, RESEND_MS.length - 1)]!, () => {
      if (this.#outbox.has(entry)) this.#deliver(entry, tries + 1);
    });
  }

  /** What an earlier process left: nothing is gone on with. */
  #recover(): void {
    for (const entry of this.#outbox) this.#deliver(entry, 0);
    for (const entry of this.#journal.values()) {
      if (entry.state === 'ended') continue;
      if (entry.state === 'accepted') {
        const blocked = { code: 'draining', retryable: true };
        const reason = 'draining: the worker restarted before the task was begun';
        this.#finish(entry, { status: 'blocked', blocked_reason: reason, blocked, tokens_spent: 0 });
      } else {
        entry.crashes += 1;
        const poisoned = entry.crashes >= MAX_CRASHES;
        const summary = poisoned ? 'crashed the worker twice' : 'worker restarted during the task';
        this.#finish(entry, { status: 'error', error_summary: summary, tokens_spent: null });
      }
    }
  }

  #ack(taskId: string, attempt: number, state: AckState): void {
    const { hears, network } = this.#options;
    network.toOrchestrator(this.site, () => hears.ack(this.site, taskId, attempt, state));
  }

  #beat(life: number, afterMs: number): void {
    const { time, hears, network } = this.#options;
    time.after(afterMs, () => {
      if (life !== this.#life) return;
      if (time.nowMs - this.#probedMs >= PROBE_MS) this.#probe();
      if (network.passes(this.site)) {
        // Renewed leases hold for their lifetime from the moment this was sent.
        for (const taskId of hears.heartbeat(this.site, this.#incarnation(), this.#active.size)) {
          const active = this.#active.get(taskId);
          if (active !== undefined) this.#fence(active, time.nowMs);
        }
      }
      this.#beat(life, HEARTBEAT_MS);
    });
  }

  /** A lease nobody confirmed for its lifetime is lost; only where a second run does no harm does somebody begin one. */
  #fence(active: Active, renewedMs: number): void {
    const { time } = this.#options;
    const { entry } = active;
    if (!entry.task.spec.retry_safe || renewedMs <= active.renewedMs) return;
    active.renewedMs = renewedMs;
    time.cancel(active.fence);
    active.fence = time.after(renewedMs + LEASE_MS - time.nowMs, () => {
      if (entry.run !== undefined) entry.run.stop();
      else this.#end(entry, { status: 'error', error_summary: 'lease lost before it began', tokens_spent: 0 });
    });
  }

  /** Looks at its servers as they are. */
  #probe(): void {
    this.#probedMs = this.#options.time.nowMs;
    this.#probed = new Map(this.site.health);
    this.#noteChange();
  }

  #noteChange(): void {
    if (this.#announcing !== undefined || this.#described === '') return;
    if (descriptionOf(this.#describe(false)) === this.#described) return;
    const life = this.#life;
    this.#announcing = this.#options.time.after(DEBOUNCE_MS, () => {
      this.#announcing = undefined;
      if (life === this.#life) this.announce();
    });
  }

  #describe(next = true): Announced {
    const { site } = this;
    if (next) this.#seq += 1;
    return {
      type: 'SESSION_ANNOUNCE',
      protocol_version: '2.0',
      agent_id: site.name,
      model: null,
      model_tier: site.tier,
      context_window: site.window,
      tools: site.tools,
      mcp_servers: site.servers,
      mcp_health: this.#probed,
      context_id: this.#context,
      active_tasks: this.#active.size,
      repo_state: { branch: 'main', clean: !site.dirty },
      session_fresh: this.#context === null,
      protocol_versions: ['2.0'],
      features: ['ack', 'progress', 'cancel', 'lease', 'heartbeat', 'announce', 'poll'],
      max_concurrent: site.capacity,
      overhead_tokens: site.overhead,
      pools: site.pools,
      incarnation: this.#incarnation(),
      seq: this.#seq,
      ttl_s: TTL_S,
      draining: false,
      not_ready: null,
      envelope: {},
    };
  }

  #incarnation(): string {
    return `i-${this.site.incarnation}`;
  }

  /** This attempt will not be run here, whatever comes. */
  #deny(taskId: string, denial: DeclinedAttempt): void {
    if ((this.#denied.get(taskId)?.attempt ?? 0) >= denial.attempt) return;
    this.#denied.delete(taskId);
    this.#denied.set(taskId, denial);
    if (this.#denied.size > MAX_DENIALS) this.#denied.delete(this.#denied.keys().next().value!);
  }

  #runsContext({ task_id, route }: SimTask): boolean {
    for (const { entry } of this.#active.values()) {
      if (entry.task.route.context_id === route.context_id && entry.taskId !== task_id) return true;
    }
    return false;
  }

  #forgetOld(): void {
    const before = this.#options.time.nowMs - KEEP_MS;
    for (const [taskId, entry] of this.#journal) {
      if (!entry.delivered || entry.endedMs > before) break;
      this.#journal.delete(taskId);
    }
  }
}
