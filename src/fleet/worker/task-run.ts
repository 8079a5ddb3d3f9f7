/**
 * One attempt at a task, from the moment it may start to its report: the executor's turns under budget, deadline and lease;
 * progress, questions and steering; the reply read, asked for once more where it has no result; files and tokens measured.
 *
 * One for each accepted task. Nothing an executor does makes it throw.
 */

import { Budget } from '../../base/budget.ts';
import type { Log } from '../../base/log.ts';
import type { Clock } from '../../base/timer-queue.ts';
import type { Envelope, FleetMessage, TaskAnswer, TaskResult, TaskSteer, Usage } from '../../protocol/fleet.ts';
import { asError, type ErrorName, fail } from '../../wire/errors.ts';
import type { Lease, ReplyChannel } from '../bus/reply-channel.ts';
import type { Execution, Executor, ExecutorEvents, ExecutorOutcome } from '../executors/executor.ts';
import { tokensSpent } from '../executors/usage.ts';
import type { Dispatched } from '../messages/decoded.ts';
import { type Body, resultMessage } from '../messages/encode.ts';
import { repairPrompt } from '../phases/instruction.ts';
import type { Facts } from './facts.ts';
import type { WorkerJournal } from './journal.ts';
import { LeaseRenewer } from './lease-renewer.ts';
import { identityOf, type ProcessIdentity } from './process-identity.ts';
import { Progress } from './progress.ts';
import { promptOf, wrapUp } from './prompt.ts';
import { ExecutorQuestions } from './questions.ts';
import type { RepositoryReader, TreeChanges } from './repository/git.ts';
import { changesIn, closeWorkdir, openWorkdir, type Workdir } from './repository/workdir.ts';
import type { Worktrees } from './repository/worktrees.ts';
import { type OpenEnvironment, outcomeWithoutToken, type TaskEnvironments, withoutTokens } from './task-environment.ts';
import { hasBlock, reportOf, type Stop, sumUsage } from './task-report.ts';
import { endOf, problemsOf, readTurn, type Turn } from './turn.ts';

/** The part of its worker that a run needs. */
export interface RunHost {
  readonly agentId: string;
  readonly executor: Executor;
  /** Absolute. */
  readonly cwd: string;
  readonly facts: Facts;
  readonly worktrees: Worktrees;
  readonly repository: RepositoryReader;
  readonly journal: WorkerJournal;
  readonly countCacheReads: boolean;
  readonly turnTimeoutMs: number;
  /** undefined: the worker lends none. */
  readonly environments: TaskEnvironments | undefined;
  readonly log: Log;
  readonly now: () => number;
  readonly clock: Clock;
  readonly newId: () => string;
  /** Sends a message of a task to its sender, wherever that is attached now; false: it does not know the feature. */
  send(origin: ReplyChannel, message: FleetMessage): boolean;
}

export interface RunOptions {
  readonly dispatch: Dispatched;
  /** The channel that it came from; its messages go to the reply channel of that name. */
  readonly origin: ReplyChannel;
  /** Tokens; null = no limit. */
  readonly tokenBudget: number | null;
  readonly parent: Budget | undefined;
  /** Milliseconds that the clock of its sender is ahead of this worker's. */
  readonly skewMs: number;
}

/**
 * Time before a deadline that is reserved for stopping and reporting: this number of milliseconds, or a quarter of the
 * remaining time.
 */
const REPORT_MS = 10_000;
/** A repair turn is not started with less than this left. */
const REPAIR_MS = 30_000;
const REPAIR_TOKENS = 1000;
/** Programs of one task that are remembered for the case of a crash. */
const MAX_PROCESSES = 16;
const MAX_STEERS = 256;
/** Longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const ERROR_OF: Readonly<Record<Stop['kind'], ErrorName>> = {
  canceled: 'cancelled',
  deadline: 'timeout',
  turn_timeout: 'timeout',
  budget: 'budget_spent',
  lease_lost: 'lease_lost',
  shutdown: 'interrupted',
  unhealthy_mcp: 'capability_missing',
};

/** Outcome of a run. */
export interface RunEnd {
  readonly result: TaskResult;
  /** undefined: without a repository, or not started. */
  readonly changes: TreeChanges | undefined;
}

export class TaskRun {
  readonly taskId: string;
  readonly attempt: number;
  readonly dispatch: Dispatched;
  readonly channelName: string;
  /** The conversation it belongs to; its own where the dispatch names none. */
  readonly contextId: string;
  readonly budget: Budget;
  readonly questions: ExecutorQuestions;
  readonly #host: RunHost;
  readonly #options: RunOptions;
  readonly #progress: Progress;
  readonly #abort = new AbortController();
  readonly #steers = new Set<string>();
  readonly #processes: ProcessIdentity[] = [];
  readonly #usages: Usage[] = [];
  #claimed = false;
  #lease: { readonly ttl_s: number; readonly fence: number } | undefined;
  #stop: Stop | undefined;
  #stopBy = Number.POSITIVE_INFINITY;
  #execution: Execution | undefined;
  /** The environment that its executor may use over MCP, while turns run. */
  #environment: OpenEnvironment | undefined;
  /** Usage of the present turn so far. */
  #live: Usage | undefined;
  /** Marks the present turn: events of an earlier one are ignored. */
  #turn: symbol | undefined;

  constructor(host: RunHost, options: RunOptions) {
    const { dispatch, origin, tokenBudget, parent } = options;
    this.#host = host;
    this.#options = options;
    this.dispatch = dispatch;
    this.channelName = origin.name;
    this.taskId = dispatch.task_id;
    this.attempt = dispatch.envelope.attempt ?? 1;
    this.contextId = dispatch.envelope.context_id ?? dispatch.task_id;
    this.budget = new Budget(
      tokenBudget,
      {
        notice: (spent, limit) => this.#notice(spent, limit),
        // Tokens that are reported after a turn has ended are spent already.
        spent: (spent, limit) => {
          if (this.#turn === undefined) return;
          this.stop({ kind: 'budget', why: `The budget is spent: ${spent} of ${limit} tokens.` });
        },
      },
      parent,
    );
    const { taskId, attempt } = this;
    const send = (message: FleetMessage): boolean => host.send(origin, message);
    this.questions = new ExecutorQuestions({ taskId, attempt, newId: host.newId, timer: host.clock.timer, send });
    this.#progress = new Progress({
      taskId,
      attempt,
      send: (message) => void send(message),
      tokens: () => this.#tokensSoFar(),
      clock: host.clock,
    });
  }

  /** True once: the caller that gets it decides whether the run starts. */
  claim(): boolean {
    const first = !this.#claimed;
    this.#claimed = true;
    return first;
  }

  get state(): 'accepted' | 'running' {
    return this.#claimed ? 'running' : 'accepted';
  }

  /** The lease it runs under; undefined before it runs. */
  get lease(): Envelope['lease'] {
    return this.#lease;
  }

  /** Reason why it has to stop, where it has. */
  get stopping(): Stop | undefined {
    return this.#stop;
  }

  /** Ends the executor; the first reason stands. Idempotent. */
  stop(stop: Stop): void {
    if (this.#stop !== undefined) return;
    this.#stop = stop;
    // Before the executor notices: its calls are refused from now on.
    this.#environment?.withdraw();
    this.#progress.reportNow({ phase: 'stopping', note: stop.why });
    this.#abort.abort(fail(ERROR_OF[stop.kind], stop.why, { task_id: this.taskId }));
  }

  /** Takes more input for the executor. The same id again does nothing. */
  async steer({ steer_id, text }: TaskSteer): Promise<void> {
    if (this.#steers.has(steer_id) || this.#steers.size >= MAX_STEERS) return;
    this.#steers.add(steer_id);
    const became = await this.#handIn(text);
    const why = became === 'rejected' ? ': the executor takes no input now' : '';
    this.#progress.reportNow({ phase: 'running', note: `steer ${steer_id} ${became}${why}` });
  }

  answer(answer: TaskAnswer): void {
    this.questions.answer(answer);
  }

  /** Runs it to its report. Never rejects. */
  async run(lease: Lease): Promise<RunEnd> {
    this.#lease = { ttl_s: lease.ttlS, fence: lease.fence };
    const renewer = new LeaseRenewer(
      lease,
      {
        heartbeat: () => this.#progress.heartbeat(),
        lost: (why) => this.stop({ kind: 'lease_lost', why: `The lease of the task is lost: ${why}.` }),
      },
      { retrySafe: this.dispatch.retry_safe, ...this.#host.clock },
    );
    const timers = this.#limits();
    let workdir: Workdir | undefined;
    let body: Body<TaskResult>;
    let changes: TreeChanges | undefined;
    try {
      workdir = await openWorkdir(this.dispatch, this.contextId, this.#host);
      await this.#started(workdir);
      const turns = await this.#inEnvironment(workdir.cwd, () => this.#work(workdir as Workdir));
      this.#progress.report({ phase: 'reporting' });
      changes = await changesIn(workdir, this.#host);
      body = await this.#report(workdir, turns, changes);
    } catch (thrown) {
      body = this.#failed(thrown);
      if (workdir?.worktree !== undefined)
        await closeWorkdir(workdir, await changesIn(workdir, this.#host), this.#host);
    }
    for (const cancel of timers) cancel();
    renewer.end();
    this.questions.end();
    this.#progress.end();
    this.budget.end();
    return { result: resultMessage(body, this.envelope()), changes };
  }

  /** Returns the result of a task that was not started, with the reason. */
  notStarted({ kind, why }: Pick<Stop, 'kind' | 'why'>): TaskResult {
    this.budget.end();
    this.#progress.end();
    const body: Body<TaskResult> =
      kind === 'shutdown'
        ? {
            task_id: this.taskId,
            status: 'blocked',
            blocked_reason: `draining: ${why}`,
            blocked: { code: 'draining', retryable: true },
          }
        : { task_id: this.taskId, status: 'error', error_summary: `${kind}: ${why}` };
    return resultMessage({ ...body, tokens_spent: 0, next_steps: [] }, this.envelope());
  }

  envelope(): Envelope {
    const { envelope } = this.dispatch;
    const { agentId, newId, now } = this.#host;
    return {
      message_id: newId(),
      ...(envelope.context_id != null && { context_id: envelope.context_id }),
      ...(envelope.correlation_id !== undefined && { correlation_id: envelope.correlation_id }),
      ...(envelope.message_id !== undefined && { causation_id: envelope.message_id }),
      sent_at: new Date(now()).toISOString(),
      sender: agentId,
      attempt: this.attempt,
      ...(this.#lease !== undefined && { lease: this.#lease }),
    };
  }

  /** Starts the clocks that end it. */
  #limits(): (() => void)[] {
    const { turnTimeoutMs, now, clock } = this.#host;
    const timers: (() => void)[] = [];
    const after = (ms: number, stop: Stop): void => {
      this.#stopBy = Math.min(this.#stopBy, clock.monotonic() + ms);
      if (ms <= MAX_TIMER_MS) timers.push(clock.timer(() => this.stop(stop), Math.max(0, ms)));
    };
    after(turnTimeoutMs, {
      kind: 'turn_timeout',
      why: `The turn took longer than ${Math.round(turnTimeoutMs / 1000)} s.`,
    });
    const { deadline } = this.dispatch;
    if (deadline !== null) {
      const left = Date.parse(deadline) - this.#options.skewMs - now();
      const reserved = Math.max(0, Math.min(REPORT_MS, left / 4));
      const why = `The work was stopped ${Math.round(reserved / 1000)} s before the deadline ${deadline}, to report in time.`;
      after(left - reserved, { kind: 'deadline', why });
    }
    return timers;
  }

  /** Stores the start, on disk before anything runs. */
  async #started({ cwd, mark, worktree }: Workdir): Promise<void> {
    const { envelope, access } = this.dispatch;
    await this.#host.journal.start(this.taskId, this.attempt, {
      context_id: envelope.context_id ?? null,
      ...(envelope.correlation_id !== undefined && { correlation_id: envelope.correlation_id }),
      ...(envelope.message_id !== undefined && { causation_id: envelope.message_id }),
      ...(this.#lease !== undefined && { fence: this.#lease.fence }),
      access,
      cwd,
      ...(mark !== null && { branch: mark.branch, base_commit: mark.head }),
      ...(worktree !== undefined && { worktree: true }),
    });
  }

  /** Runs the turns with the environment of the task, which is withdrawn with their end, however they end. */
  async #inEnvironment<Result>(cwd: string, work: () => Promise<Result>): Promise<Result> {
    this.#abort.signal.throwIfAborted();
    const { taskId, attempt, dispatch } = this;
    const opened = await this.#host.environments?.open({ taskId, attempt, cwd, dispatch });
    this.#environment = opened;
    if (this.#stop !== undefined) opened?.withdraw();
    try {
      return await work();
    } finally {
      await opened?.close();
    }
  }

  /** Runs the turn, and the one that asks for the result alone where the first left it out. */
  async #work(workdir: Workdir): Promise<readonly Turn[]> {
    this.#abort.signal.throwIfAborted();
    this.#progress.reportNow({ phase: 'running' });
    const { dispatch, taskId, budget } = this;
    const theirNow = this.#host.now() + this.#options.skewMs;
    const first = await this.#runTurn(promptOf(dispatch, workdir.cwd, budget.left, theirNow), workdir.cwd);
    const problems = problemsOf(first);
    if (problems.length === 0 || !this.#mayRepair(first)) return [first];
    this.#progress.reportNow({ phase: 'repairing', note: problems.join('; ') });
    const { reply_schema: replySchema, answer_schema: answerSchema } = dispatch;
    return [first, await this.#runTurn(repairPrompt({ taskId, replySchema, answerSchema, problems }), workdir.cwd)];
  }

  async #runTurn(prompt: string, cwd: string): Promise<Turn> {
    const { taskId, contextId, dispatch } = this;
    const { executor } = this.#host;
    const turn = Symbol(taskId);
    this.#turn = turn;
    let outcome: ExecutorOutcome;
    try {
      this.#execution = executor.start(
        { taskId, contextId, prompt, tokenBudget: this.budget.left, access: dispatch.access },
        {
          cwd,
          signal: this.#abort.signal,
          events: this.#events(turn),
          environment: this.#environment?.server,
        },
      );
      outcome = (await endOf(this.#execution.outcome, this.#abort.signal, this.#host.clock.timer)) ?? this.#stuck();
    } catch (thrown) {
      this.#host.facts.executorFailed();
      const usage: Usage = this.#live ?? { source: 'unknown' };
      outcome = { text: '', ending: 'stopped', exitCode: null, usage, failure: asError(thrown).message };
    } finally {
      this.#execution = undefined;
      this.#turn = undefined;
    }
    outcome = outcomeWithoutToken(outcome, this.#environment?.server);
    const usage = outcome.usage.source === 'unknown' ? (this.#live ?? outcome.usage) : outcome.usage;
    this.#live = undefined;
    this.#usages.push(usage);
    this.budget.spend(this.#tokensSoFar() ?? 0);
    return readTurn(outcome, dispatch);
  }

  #stuck(): ExecutorOutcome {
    const { log, executor } = this.#host;
    log.error('executor did not stop', { task_id: this.taskId, kind: executor.kind });
    const usage: Usage = this.#live ?? { source: 'unknown' };
    return { text: '', ending: 'stopped', exitCode: null, usage, failure: 'the executor did not stop' };
  }

  #events(turn: symbol): ExecutorEvents {
    const over = (): boolean => this.#turn !== turn;
    return {
      progress: (phase, note, percent) => {
        if (over()) return;
        this.#progress.report({
          phase,
          ...(note !== undefined && { note: withoutTokens(note, this.#environment?.server) }),
          ...(percent !== undefined && { percent }),
        });
      },
      usage: (total) => {
        if (over()) return;
        this.#live = total;
        this.budget.spend(this.#tokensSoFar() ?? 0);
      },
      started: (pid) => void this.#remember(pid),
      mcpHealth: (found, whole = true) => {
        if (!over()) this.#mcpFound(found, whole);
      },
      ask: (question) =>
        this.questions.ask(
          withoutTokens(question, this.#environment?.server),
          this.#stopBy - this.#host.clock.monotonic(),
        ),
    };
  }

  async #remember(pid: number): Promise<void> {
    const identity = await identityOf(pid);
    if (identity === undefined || this.#processes.length >= MAX_PROCESSES) return;
    this.#processes.push(identity);
    this.#host.journal.processes(this.taskId, this.attempt, this.#processes);
  }

  /** Agents continue without servers that failed; this task needs them. */
  #mcpFound(found: ReadonlyMap<string, string>, whole: boolean): void {
    const required = this.dispatch.required_mcp;
    const missing = required.filter((name) => (whole || found.has(name)) && found.get(name) !== 'ok');
    // One it leaves out failed: some agents do not name those.
    this.#host.facts.executorReported(new Map([...missing.map((name) => [name, 'error'] as const), ...found]), whole);
    if (missing.length === 0) return;
    const said = missing.map((name) => `${name}=${found.get(name) ?? 'absent'}`).join(', ');
    this.stop({ kind: 'unhealthy_mcp', why: `the executor found ${said}`, missing });
  }

  #mayRepair({ answer }: Turn): boolean {
    if (this.#stop !== undefined || !this.#host.executor.hasConversation(this.contextId)) return false;
    // Asking again cannot help.
    if (answer?.ok === false && answer.hopeless) return false;
    const { left } = this.budget;
    const leftMs = this.#stopBy - this.#host.clock.monotonic();
    return (left === null || left >= REPAIR_TOKENS) && leftMs >= REPAIR_MS;
  }

  async #report(workdir: Workdir, turns: readonly Turn[], changes: TreeChanges | undefined): Promise<Body<TaskResult>> {
    const [first, repaired] = turns as readonly [Turn, Turn?];
    // The turn that was to mend the report counts only where it did.
    const better = repaired !== undefined && hasBlock(repaired.extracted) ? repaired : first;
    const { answer } = better;
    const prose = first.extracted.prose === '' ? better.extracted.prose : first.extracted.prose;
    const extracted = { ...better.extracted, prose };
    const worktree = await closeWorkdir(workdir, changes, this.#host);
    return reportOf({
      dispatch: this.dispatch,
      extracted,
      outcome: first.outcome,
      stop: this.#stop,
      usage: sumUsage(this.#usages),
      countCacheReads: this.#host.countCacheReads,
      changes,
      cwd: workdir.cwd,
      ...(worktree !== undefined && { worktree }),
      worktreeRemoved: workdir.worktree !== undefined && worktree === undefined,
      answer,
    });
  }

  /** Returns the report of a task that ended before the executor was started. */
  #failed(thrown: unknown): Body<TaskResult> {
    const { message } = asError(thrown);
    const spent = this.#usages.length === 0 ? 0 : this.#tokensSoFar();
    const summary = this.#stop === undefined ? message : `${this.#stop.kind}: ${this.#stop.why}`;
    return { task_id: this.taskId, status: 'error', error_summary: summary, next_steps: [], tokens_spent: spent };
  }

  #notice(spent: number, limit: number): void {
    const note = `${Math.floor((spent * 100) / limit)} % of the budget are spent: ${spent} of ${limit} tokens`;
    this.#progress.reportNow({ phase: 'running', note });
    void this.#handIn(wrapUp(limit - spent));
  }

  async #handIn(text: string): Promise<'injected' | 'queued' | 'rejected'> {
    try {
      // An executor may report usage before `start` has returned its execution.
      await null;
      return (await this.#execution?.steer?.(text)) ?? 'rejected';
    } catch {
      return 'rejected';
    }
  }

  #tokensSoFar(): number | null {
    const usages = this.#live === undefined ? this.#usages : [...this.#usages, this.#live];
    let sum: number | null = null;
    for (const usage of usages) {
      const spent = tokensSpent(usage, this.#host.countCacheReads);
      if (spent !== null) sum = (sum ?? 0) + spent;
    }
    return sum;
  }
}
