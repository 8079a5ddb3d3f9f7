/**
 * The worker: accepts tasks that pass preflight, runs them with its executor, and reports every one of them, also after a
 * crash.
 *
 * Buses reach it through `WorkerPort`. A task is in the journal before it is acknowledged, marked started before anything runs,
 * and its result is sent until the other end has it.
 * @see docs/fleet.md#worker
 */

import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { type Closable, Lifetime, type LifetimeState } from '../../base/lifetime.ts';
import type { Log } from '../../base/log.ts';
import { within } from '../../base/race.ts';
import { noteLoss } from '../../base/sqlite/losses.ts';
import { type Clock, processTimer, repeat, type Timer } from '../../base/timer-queue.ts';
import { answerSchemaProblem } from '../../base/value-check.ts';
import { requireMcpClient } from '../../mcp/sdk.ts';
import {
  type Envelope,
  FEATURE_OF,
  FEATURES,
  type Feature,
  type FleetMessage,
  type SessionAnnounce,
  type TaskAck,
  type TaskResult,
} from '../../protocol/fleet.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { DispatchOutcome, ReplyChannel, WorkerPort } from '../bus/reply-channel.ts';
import type { Dispatched, Finding, Incoming } from '../messages/decoded.ts';
import { fleetMessage } from '../messages/encode.ts';
import { isAgentId } from '../messages/names.ts';
import { DEFAULT_MAX_CONCURRENT, type PreflightFacts, preflight, refusalResult } from '../phases/preflight.ts';
import { decideAdmission, isAnsweredByAnother, type RunningAttempt, refused } from './admission.ts';
import { Announcer } from './announcer.ts';
import { Clocks } from './clocks.ts';
import { DeclinedAttempts } from './declined-attempts.ts';
import { descriptionOf } from './description.ts';
import { Facts } from './facts.ts';
import type { JournaledTask, WorkerJournal } from './journal.ts';
import { SqliteWorkerJournal } from './journal-sqlite.ts';
import { probeMcpServer } from './mcp-probe.ts';
import { Outbox } from './outbox.ts';
import { overheadOf } from './overhead.ts';
import { recover } from './recovery.ts';
import { gitRepository } from './repository/git.ts';
import { TreeOwner } from './repository/tree-owner.ts';
import { Worktrees } from './repository/worktrees.ts';
import { RunningTasks } from './running-tasks.ts';
import { type RunHost, TaskRun } from './task-run.ts';
import type { WorkerDeps, WorkerOptions } from './worker-options.ts';

/** A worker that was made. */
export interface Worker extends WorkerPort, Closable {
  /** Probes itself, announces itself, and accepts tasks from now on. Starting twice is fine. */
  start(): Promise<void>;
  /** Accepts no more tasks; resolves when those it has are done and reported. */
  drain(reason?: string): Promise<void>;
  /** Stops and reports running tasks, sends SESSION_BYE, closes its files. Bounded at some 20 s; idempotent. */
  close(): Promise<void>;
}

/** Longest time that a decision may wait for facts, milliseconds; it has to be answered within 2 s. */
const DECIDE_MS = 1500;
/** Longest time that an announce may wait for facts, milliseconds. */
const ANNOUNCE_MS = 9000;
const CHECK_MS = 10_000;
/** Time between two sweeps of old worktrees, milliseconds. */
const CLEAN_MS = 3_600_000;
const TURN_TIMEOUT_MS = 3_600_000;
/** Results that are not confirmed; past it nothing new is accepted. */
const MAX_UNDELIVERED = 10_000;
/** Longest time that stopping waits for tasks, then for the executor, then for results to be confirmed, milliseconds. */
const STOP_TASKS_MS = 16_000;
const STOP_EXECUTOR_MS = 5000;
const STOP_RESULTS_MS = 2000;

/**
 * Makes a worker. Its journal is open and the tasks of an earlier process are reported when this resolves; it accepts tasks
 * after `start`.
 *
 * Fails with `journal_locked` when another process has its home, `disk_full`, `not_configured` when MCP servers are to be
 * probed and the package for it is missing, `config_invalid` for a name or path that cannot be.
 */
export async function createWorker(options: WorkerOptions, deps: WorkerDeps = {}): Promise<Worker> {
  const { agentId, cwd, home, mcpServers = [], log, now = Date.now, newId = randomUUID } = options;
  const { repository = gitRepository } = deps;
  if (!isAgentId(agentId)) throw fail('config_invalid', `"${agentId}" is not a valid worker name`);
  for (const path of [cwd, home]) {
    if (!path.startsWith('/') && !/^[A-Za-z]:[\\/]/.test(path)) throw fail('config_invalid', `${path} is not absolute`);
  }
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
    throw fail('config_invalid', `${cwd}, the folder of worker ${agentId}, is not a directory`);
  }
  const probed = deps.probeServer === undefined;
  if (probed && mcpServers.some(({ disabled, stdio, http }) => disabled !== true && (stdio ?? http) !== undefined)) {
    await requireMcpClient();
  }
  const journal = deps.journal ?? openJournal(home, now, log);
  try {
    await recover({ journal, repository, agentId, log, now, newId });
    return new FleetWorker(options, deps, journal);
  } catch (thrown) {
    journal.close();
    throw thrown;
  }
}

function openJournal(home: string, now: () => number, log: Log): WorkerJournal {
  const journal = new SqliteWorkerJournal(home, now);
  if (journal.damage !== undefined) {
    log.error('the worker journal was damaged and quarantined; what it stored of earlier tasks is lost', {
      ...journal.damage,
    });
  }
  if (journal.loss !== undefined) noteLoss(log, journal.loss);
  return journal;
}

class FleetWorker implements Worker {
  readonly agentId: string;
  readonly incarnation: string;
  readonly features: readonly Feature[];
  readonly pools: readonly string[];
  readonly maxConcurrent: number;
  readonly #options: WorkerOptions;
  readonly #deps: WorkerDeps;
  readonly #journal: WorkerJournal;
  readonly #declined: DeclinedAttempts;
  readonly #outbox: Outbox;
  readonly #facts: Facts;
  readonly #announcer: Announcer;
  readonly #owner: TreeOwner;
  readonly #host: RunHost;
  readonly #running: RunningTasks;
  readonly #ending = new AbortController();
  readonly #clocks: Clocks;
  readonly #now: () => number;
  readonly #newId: () => string;
  #started: Promise<void> | undefined;
  readonly #lifetime = new Lifetime();
  #ready = false;
  #draining = false;
  readonly #timer: Timer;
  #stopChecks: (() => void) | undefined;
  #stopCleaning: (() => void) | undefined;
  #seq = 0;
  #overhead: number | null = null;
  #overheadSettled: Promise<void> = Promise.resolve();

  constructor(options: WorkerOptions, deps: WorkerDeps, journal: WorkerJournal) {
    const { agentId, executor, cwd, home, tools, log, pools = [], mcpServers = [] } = options;
    const { now = Date.now, newId = randomUUID } = options;
    const { monotonic = () => performance.now(), timer = processTimer } = options;
    const { repository = gitRepository, probeServer = probeMcpServer } = deps;
    const clock: Clock = { monotonic, timer };
    this.#options = options;
    this.#deps = deps;
    this.#journal = journal;
    this.#declined = new DeclinedAttempts(journal, log);
    this.#now = now;
    this.#timer = timer;
    this.#clocks = new Clocks(monotonic, log);
    this.#newId = newId;
    this.agentId = agentId;
    this.incarnation = newId();
    this.pools = pools;
    this.maxConcurrent = options.maxConcurrent ?? DEFAULT_MAX_CONCURRENT;
    this.features = FEATURES.filter(
      (feature) => (feature !== 'steer' || executor.canSteer) && (feature !== 'questions' || executor.canAsk),
    );
    this.#facts = new Facts({
      executor,
      cwd,
      tools,
      mcpServers,
      mcpAgeMs: options.mcpAgeMs,
      log,
      clock,
      repository,
      probeServer: confirmedProbe(probeServer, options.confirm),
      signal: this.#ending.signal,
      ...(deps.probeMs !== undefined && { probeMs: deps.probeMs }),
    });
    this.#owner = new TreeOwner({
      kept: journal.value('tree_owner'),
      keep: (owner) => journal.storeValue('tree_owner', owner),
    });
    this.#announcer = new Announcer({
      describe: (contextId) => this.#describe(this.#continued ?? contextId),
      send: (announce) => this.#sendAll(this.#numbered(announce)),
      timer,
      ...(deps.debounceMs !== undefined && { debounceMs: deps.debounceMs }),
    });
    this.#outbox = new Outbox({
      load: (taskId, attempt) => journal.result(taskId, attempt),
      delivered: (taskId, attempt) => journal.delivered(taskId, attempt),
      log,
      timer,
      ...(deps.random !== undefined && { random: deps.random }),
      ...(deps.resendMs !== undefined && { firstDelayMs: deps.resendMs }),
    });
    for (const { outlet, taskId, attempt } of journal.undelivered()) void this.#outbox.add(outlet, taskId, attempt);
    this.#host = {
      agentId,
      executor,
      cwd,
      facts: this.#facts,
      worktrees: new Worktrees({ repository: cwd, home, now, log }),
      journal,
      countCacheReads: options.countCacheReads ?? false,
      turnTimeoutMs: options.turnTimeoutMs ?? TURN_TIMEOUT_MS,
      environments: options.environments,
      log,
      repository,
      now,
      clock,
      newId,
      send: (origin, message) => sendIfSupported(this.#outbox.channel(origin.name) ?? origin, message),
    };
    this.#running = new RunningTasks({
      agentId,
      journal,
      outbox: this.#outbox,
      facts: this.#facts,
      owner: this.#owner,
      log,
      clock,
      serving: (contextId) => this.#announcer.serve(contextId),
      changed: () => {
        if (this.#ready) void this.#facts.tree().then(() => this.#announcer.check());
      },
      signal: this.#ending.signal,
    });
  }

  get activeTasks(): number {
    return this.#running.size;
  }

  get draining(): boolean {
    return this.#draining;
  }

  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  async #start(): Promise<void> {
    await this.#facts.refresh();
    const { tokens, settled } = overheadOf(
      this.#options,
      this.#journal,
      this.#facts.executorVersion,
      this.#ending.signal,
      (measured) => {
        this.#overhead = measured;
        this.#announcer.check();
      },
    );
    this.#overhead = tokens;
    this.#overheadSettled = settled;
    if (this.#lifetime.state !== 'open') return;
    this.#ready = true;
    this.#announcer.announce();
    const { checkMs = CHECK_MS } = this.#deps;
    const check = (): void => void this.#facts.refreshAhead().then(() => this.#announcer.check());
    this.#stopChecks = repeat(this.#timer, checkMs, check);
    const clean = (): void => void this.#host.worktrees.end(() => this.#journal.worktrees());
    this.#stopCleaning = repeat(this.#timer, CLEAN_MS, clean);
    clean();
  }

  async drain(reason = 'asked to'): Promise<void> {
    if (!this.#draining) {
      this.#draining = true;
      this.#options.log.info('worker is draining', { reason, active: this.activeTasks });
      if (this.#ready) this.#announcer.announce();
    }
    await this.#running.whenIdle();
    await this.#outbox.settled(STOP_RESULTS_MS);
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
    this.#draining = true;
    this.#ready = false;
    this.#stopChecks?.();
    this.#stopCleaning?.();
    this.#announcer.end();
    this.#running.stop({ kind: 'shutdown', why: 'The worker was stopped during the task.' });
    this.#ending.abort(fail('interrupted', 'the worker stops'));
    await within(this.#running.whenIdle(), STOP_TASKS_MS, this.#timer);
    await within(Promise.all([this.#options.executor.stop(), this.#overheadSettled]), STOP_EXECUTOR_MS, this.#timer);
    await this.#outbox.settled(STOP_RESULTS_MS);
    const { agentId: agent_id, incarnation } = this;
    this.#sendAll(fleetMessage('SESSION_BYE', { agent_id, incarnation, reason: 'the worker was stopped' }));
    this.#outbox.close();
    this.#journal.close();
  }

  async announce(contextId: string | null = null): Promise<SessionAnnounce> {
    await within(this.#facts.refresh(), ANNOUNCE_MS, this.#timer);
    return this.#numbered(this.#describe(contextId ?? this.#continued));
  }

  attach(channel: ReplyChannel): () => void {
    const detach = this.#outbox.attach(channel);
    for (const run of this.#running.all()) if (run.channelName === channel.name) run.questions.resend();
    return detach;
  }

  async receive(given: Dispatched, channel: ReplyChannel): Promise<DispatchOutcome> {
    const own = this.#options.worktree === 'always' && given.access === 'write';
    const dispatch = own ? { ...given, worktree: true } : given;
    const receivedAt = this.#now();
    const { skewMs, delayMs } = this.#clocks.received(dispatch.envelope, channel, receivedAt);
    const redelivers = channel.durable === true;
    const facts = this.#facts.awaited(dispatch, this.#deps.decideMs ?? DECIDE_MS);
    if (facts !== undefined) await facts;
    const { answer_schema } = dispatch;
    const schemaProblem = answer_schema === null ? null : await answerSchemaProblem(answer_schema);
    // From here until it is accepted nothing else can come in between.
    const { task_id, envelope } = dispatch;
    const contextId = envelope.context_id ?? task_id;
    const parent = dispatch.parent_task_id === null ? undefined : this.#running.get(dispatch.parent_task_id)?.budget;
    const { no_worktree: noWorktree, unreadable } = this.#facts.now();
    const decision = decideAdmission({
      dispatch,
      agentId: this.agentId,
      noWorktree,
      unreadable,
      facts: { ...this.#preflightFacts(), skewMs },
      nowMs: receivedAt,
      // A dispatch that waited on its bus was not under way.
      delayMs: redelivers ? 0 : delayMs,
      redelivers,
      running: this.#runningAttempt(task_id),
      journaled: this.#earlier(task_id),
      denied: this.#declined.of(task_id),
      contextBusy: this.#running.isBusy(contextId),
      parent,
      schemaProblem,
      full: this.#outbox.size < MAX_UNDELIVERED ? undefined : `${this.#outbox.size} results wait to be confirmed`,
      busyS: this.#running.busyS,
    });
    if (decision.kind === 'answer') {
      const { reception, denial } = decision;
      // Nothing is sent that is not on disk.
      await (denial === undefined ? this.#declined.written(task_id) : this.#declined.add(task_id, denial));
      if (reception.kind !== 'taken' || (await this.#running.isWritten(task_id))) return reception;
      return this.receive(dispatch, channel);
    }
    const run = new TaskRun(this.#host, {
      dispatch,
      origin: channel,
      tokenBudget: decision.tokenBudget,
      parent,
      skewMs,
    });
    const reception = await this.#running.take(run, channel, decision.crashes);
    if (reception.kind === 'refused' && envelope.attempt !== undefined) {
      const { attempt } = envelope;
      const reason = { code: 'busy', detail: 'it could not be stored', retryable: true, missing: [] };
      await this.#declined.add(task_id, { attempt, digest: dispatch.digest, reason });
    }
    return reception;
  }

  refuse(taskId: string | undefined, errors: readonly Finding[]): TaskResult | undefined {
    if (taskId === undefined) return undefined;
    const facts = { ...this.#preflightFacts(), dispatchContextId: null };
    const refusal = preflight(errors, facts, this.#now());
    return refusal.accept ? undefined : refusalResult(taskId, refusal);
  }

  /** Handles a message. A task exists for the other end that dispatched it, and for no other. */
  async handle(message: Incoming, channel: ReplyChannel): Promise<TaskAck | TaskResult | undefined> {
    const { name } = channel;
    switch (message.type) {
      case 'TASK_CANCEL': {
        const run = this.#running.get(message.task_id);
        if (run?.channelName !== name) return this.#known(message, name);
        run.stop({ kind: 'canceled', why: message.reason ?? 'The task was canceled.' });
        return undefined;
      }
      case 'TASK_STEER': {
        const run = this.#running.get(message.task_id);
        if (run?.channelName !== name) return this.#known(message, name);
        await run.steer(message);
        return undefined;
      }
      case 'TASK_POLL': {
        const run = this.#running.get(message.task_id);
        if (run?.channelName !== name) return this.#known(message, name);
        const { taskId: task_id, attempt, state, lease } = run;
        return fleetMessage('TASK_ACK', { task_id, accepted: true, state, ...(lease && { lease }) }, { attempt });
      }
      case 'TASK_ANSWER': {
        const run = this.#running.get(message.task_id);
        if (run?.channelName === name) run.answer(message);
        return undefined;
      }
      case 'TASK_ACK': {
        const attempt = message.envelope?.attempt ?? this.#journal.find(message.task_id)?.attempt;
        if (!message.accepted || attempt === undefined || this.#running.get(message.task_id)?.attempt === attempt)
          return undefined;
        if (this.#outbox.confirm(name, message.task_id, attempt)) this.#journal.delivered(message.task_id, attempt);
        return undefined;
      }
      default:
        return undefined;
    }
  }

  #runningAttempt(taskId: string): RunningAttempt | undefined {
    const run = this.#running.get(taskId);
    if (run === undefined) return undefined;
    const { dispatch, attempt, state, lease } = run;
    return { digest: dispatch.digest, attempt, state, lease };
  }

  /**
   * Returns the latest attempt that ended, and whether its result was confirmed: the outbox knows that before the disk does.
   */
  #earlier(taskId: string): JournaledTask | undefined {
    if (this.#running.get(taskId) !== undefined) return undefined;
    const task = this.#journal.find(taskId);
    return task === undefined ? undefined : { ...task, delivered: !this.#outbox.has(taskId, task.attempt) };
  }

  /** Returns the known state of a task that does not run; of the attempt that is asked about, where one is named. */
  async #known(
    asked: { readonly task_id: string; readonly envelope?: Envelope },
    channelName: string,
  ): Promise<TaskAck | TaskResult> {
    const { task_id, envelope = {} } = asked;
    const { attempt } = envelope;
    const task = this.#journal.find(task_id);
    const owner = this.#running.get(task_id)?.channelName ?? task?.outlet ?? channelName;
    if (owner !== channelName) return unknown(task_id, attempt);
    if (task?.result != null && task.attempt >= (attempt ?? 1)) return task.result;
    if (attempt === undefined) return unknown(task_id, attempt);
    // An orchestrator that learns that it is unknown may send it to another worker.
    await this.#declined.add(task_id, { attempt, digest: null, reason: null });
    const denied = this.#declined.of(task_id);
    if (denied?.attempt === attempt && denied.reason !== null) {
      if (task?.result != null && isAnsweredByAnother(denied)) return task.result;
      const { agentId } = this;
      return refused({ dispatch: { task_id, envelope }, agentId, busyS: this.#running.busyS }, denied.reason);
    }
    return unknown(task_id, attempt);
  }

  #preflightFacts(): Omit<PreflightFacts, 'journalEntry' | 'dispatchContextId' | 'ownWorktree'> {
    const facts = this.#facts.now();
    const { tools, mcp_servers, mcp_health, repo_state, uncommitted } = facts;
    const { executor_present, executor_authenticated } = facts;
    const { minLeadS } = this.#options;
    return {
      tools,
      mcpServers: mcp_servers,
      mcpHealth: mcp_health,
      activeTasks: this.#running.size,
      maxConcurrent: this.maxConcurrent,
      executorPresent: executor_present,
      ...(executor_authenticated !== undefined && { executorAuthenticated: executor_authenticated }),
      repoState: repo_state,
      uncommitted,
      overheadTokens: this.#overhead,
      draining: this.#draining || !this.#ready,
      contextId: this.#owner.contextId,
      ...(minLeadS !== undefined && { minLeadS }),
    };
  }

  /** The context whose uncommitted changes are in the working tree: only its tasks are routed here to write. */
  get #continued(): string | null {
    return this.#facts.now().repo_state?.clean === false ? this.#owner.contextId : null;
  }

  #describe(contextId: string | null): SessionAnnounce {
    const { features, pools, maxConcurrent, incarnation } = this;
    return descriptionOf({
      options: this.#options,
      facts: this.#facts.now(),
      features,
      pools,
      maxConcurrent,
      overheadTokens: this.#overhead,
      activeTasks: this.#running.size,
      incarnation,
      draining: this.#draining,
      contextId,
    });
  }

  #numbered(announce: SessionAnnounce): SessionAnnounce {
    this.#seq += 1;
    return {
      ...announce,
      session: { ...announce.session, seq: this.#seq },
      envelope: { message_id: this.#newId(), sent_at: new Date(this.#now()).toISOString(), sender: this.agentId },
    };
  }

  #sendAll(message: FleetMessage): void {
    for (const channel of this.#outbox.attached()) sendIfSupported(channel, message);
  }
}

/** Returns the reply about a task that is not known. */
const unknown = (task_id: string, attempt: number | undefined): TaskAck =>
  fleetMessage(
    'TASK_ACK',
    { task_id, accepted: false, state: 'unknown' },
    attempt === undefined ? undefined : { attempt },
  );

/** Sends a message where the other end has its feature; false: it does not. */
function sendIfSupported(channel: ReplyChannel, message: FleetMessage): boolean {
  const feature = FEATURE_OF[message.type];
  if (feature !== undefined && !channel.features.has(feature)) return false;
  channel.send(message);
  return true;
}

/** Returns the same probe, which starts nothing that is not confirmed. */
function confirmedProbe(
  probe: NonNullable<WorkerDeps['probeServer']>,
  confirm: WorkerOptions['confirm'],
): NonNullable<WorkerDeps['probeServer']> {
  if (confirm === undefined) return probe;
  return (server, options) =>
    confirm().then(
      () => probe(server, options),
      (error) => ({ health: 'error', tools: [], detail: asError(error).message }),
    );
}
