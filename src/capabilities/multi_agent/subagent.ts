/**
 * One subagent: its settings, its tasks one after another, its budget, its end. It is open from its start until it is ended;
 * the end of a task does not end it.
 */
import type { Budget } from '../../base/budget.ts';
import { fitsPage } from '../../base/page.ts';
import { withGrace } from '../../base/race.ts';
import { processTimer } from '../../base/timer-queue.ts';
import type { SessionView } from '../../host/context.ts';
import type { Principal } from '../../session/principal.ts';
import type { Link } from '../../transport/link.ts';
import { asciiLength } from '../../wire/ascii.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import type {
  RunningSubagent,
  SubagentBackend,
  SubagentProgress,
  SubagentResult,
  SubagentSpending,
  SubagentWork,
} from './backend.ts';
import { failure } from './errors.ts';
import { messagePush, saidPush } from './messages.ts';
import type { ChannelMessage, SubagentMessage, SubagentUsage } from './multi_agent.schema.ts';
import { checkedResult } from './result-check.ts';
import { type Narrowed, subagentPrincipal } from './rights.ts';
import { asTaskError, type StoredTask, storedForm, Task, type TaskEnd, type TaskSpec } from './task.ts';

export type SubagentStatus = 'READY' | 'RUNNING' | 'WAITING' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TERMINATED';

/** The settings of a subagent; equal for both forms of the request. */
export interface SubagentSettings extends Narrowed {
  readonly name: string;
  readonly role: string;
  readonly model: string;
  readonly systemPrompt: string;
  readonly kind: string;
  readonly maxSteps: number;
  /** Longest time of a task, milliseconds. */
  readonly timeoutMs: number;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** The reports of a task so far. */
export interface SubagentReport {
  readonly taskId: string;
  /** The last message and percentage. */
  readonly progress: SubagentProgress;
  /** The amounts it has spent so far. */
  readonly usage: SubagentUsage;
}

/** Tokens and cost; trees of the same form as the subagents. */
export interface Budgets {
  readonly tokens: Budget;
  readonly cost: Budget;
}

/** The functions that a subagent needs from its host. */
export interface SubagentDeps {
  /** Announces an event to the agents above. */
  announce(subagent: Subagent, event: string, content: Readonly<Record<string, unknown>>): void;
  /** Stores the state of the subagent. Rejects with `disk_full` and the like; then nothing of it may count as stored. */
  store(subagent: Subagent): Promise<void>;
  /** Reports that the subagent has ended, and its end could not be stored. */
  notStored(subagent: Subagent, error: unknown): void;
  /** Serves a link as its session; `counted`: its requests are steps. */
  accept(subagent: Subagent, link: Link, counted: boolean): void;
  /** Returns a new id of a task. */
  newId(): string;
  /** Returns the next number in the order of the events of all subagents. */
  order(): number;
  /** Maximum characters of a result as JSON. */
  readonly maxResultChars: number;
}

/** Time for a backend to stop a task, milliseconds. */
const STOP_MS = 2_000;
/** Maximum number of announced progress reports of one task. */
const MAX_PROGRESS = 1_000;
/** Maximum number of messages that wait for a session. */
const MAX_UNREAD = 100;
/** Number of ended tasks whose results stay. */
const MAX_TASKS = 16;

/** A message that waits for a session. */
interface Unread {
  readonly inChannel: boolean;
  push(session: SessionView): boolean;
}

/** Ended subagents share these; nothing is added to them. */
const NONE: Set<never> = new Set();
const SETTLED = Promise.resolve();
const ENDED = AbortSignal.abort(failure('ended', 'the subagent has ended'));

export class Subagent {
  readonly id: string;
  readonly settings: SubagentSettings;
  readonly parent: Subagent | undefined;
  readonly backend: string;
  readonly createdAt: number;
  /** Its number in the order of all subagents. */
  readonly order: number;
  readonly depth: number;
  /** The session of session RPC that runs it; empty: none. */
  controlSession = '';
  readonly children = new Set<Subagent>();
  readonly #deps: SubagentDeps;
  #budgets: Budgets | undefined;
  #controller: AbortController | undefined = new AbortController();
  #running: RunningSubagent | undefined;
  #current: Task | undefined;
  #cancelTimer: (() => void) | undefined;
  #stopping: Promise<unknown> = Promise.resolve();
  /** The last task that has ended. */
  #lastEnded: Task | undefined;
  readonly #tasks: StoredTask[];
  #unread: Unread[] = [];
  #status: SubagentStatus;
  #closing: Promise<void> | undefined;
  #links: Set<Link> = new Set();
  /** Epoch milliseconds; 0 while it is open. */
  endedAt: number;
  session: SessionView | undefined;

  constructor(
    facts: Pick<Subagent, 'id' | 'settings' | 'parent' | 'backend' | 'createdAt' | 'order' | 'depth'>,
    deps: SubagentDeps,
    rest: { readonly budgets: Budgets } | { readonly ended: number; status: SubagentStatus; tasks: StoredTask[] },
  ) {
    this.id = facts.id;
    this.settings = facts.settings;
    this.parent = facts.parent;
    this.backend = facts.backend;
    this.createdAt = facts.createdAt;
    this.order = facts.order;
    this.depth = facts.depth;
    this.#deps = deps;
    const isOpen = 'budgets' in rest;
    this.#budgets = isOpen ? rest.budgets : undefined;
    this.#status = isOpen ? 'READY' : rest.status;
    this.#tasks = isOpen ? [] : rest.tasks;
    this.endedAt = isOpen ? 0 : rest.ended;
    facts.parent?.children.add(this);
    if (!isOpen) this.#release();
  }

  get isOpen(): boolean {
    return this.endedAt === 0;
  }

  get status(): SubagentStatus {
    return this.#status;
  }

  get budgets(): Budgets | undefined {
    return this.#budgets;
  }

  get running(): RunningSubagent | undefined {
    return this.#running;
  }

  /** Its running task. */
  get task(): Task | undefined {
    return this.#current?.end === undefined ? this.#current : undefined;
  }

  /** Aborts when the subagent ends. */
  get signal(): AbortSignal {
    return this.#controller?.signal ?? ENDED;
  }

  /** Returns the task of this id, or the last one, in its stored form. */
  stored(taskId: string | undefined): StoredTask | undefined {
    const tasks = this.tasks;
    return taskId === undefined || taskId === '' ? tasks.at(-1) : tasks.find(({ task_id }) => task_id === taskId);
  }

  /** Its tasks, oldest first, with the running one. */
  get tasks(): readonly StoredTask[] {
    const { task } = this;
    return task === undefined ? this.#tasks : [...this.#tasks, storedForm(task)];
  }

  /** Returns its rights, within those that its parent delegates. */
  rights(within: Principal): Principal {
    return subagentPrincipal(within, this.id, this.settings);
  }

  /** Starts the subagent. Rejects with `multi_agent.not_started`, or `interrupted` while its server ends; then it has ended. */
  async start(
    backend: SubagentBackend,
    host: {
      workspace: string;
      principal: string;
      madeIn: string;
      rights(principal: Principal): Principal | undefined;
      log: Parameters<SubagentBackend['open']>[1]['log'];
      acquireProcess(): Promise<() => void>;
    },
  ): Promise<void> {
    const { name, kind, role, model, systemPrompt, metadata, toolScope } = this.settings;
    const { principal } = host;
    const facts = {
      id: this.id,
      ...{ name, kind, role, model, systemPrompt, metadata, toolScope },
      principal,
      madeIn: host.madeIn,
    };
    try {
      this.#running = await backend.open(facts, {
        workspace: host.workspace,
        log: host.log,
        signal: this.signal,
        acquireProcess: host.acquireProcess,
        accept: (link, counted) => this.accept(link, counted),
        rights: host.rights,
        lost: (reason) => void this.end('TERMINATED', failure('lost', `the subagent was lost: ${reason}`), true),
      });
    } catch (thrown) {
      const { code, message } = asError(thrown);
      const name = code === 'interrupted' ? 'interrupted' : 'not_started';
      const error = failure(name, `the subagent could not be started: ${message}`, {}, thrown);
      await this.end('TERMINATED', error);
      throw error;
    }
    this.controlSession = this.#running.controlSession ?? '';
    if (!this.isOpen) await this.#running.close();
  }

  /** Serves a link as its session, until the link ends. */
  accept(link: Link, counted = true): void {
    if (!this.isOpen) return link.destroy('the subagent has ended');
    this.#links.add(link);
    this.#deps.accept(this, link, counted);
  }

  /**
   * Gives it a task. Fails with `multi_agent.ended`, `multi_agent.busy` and `multi_agent.budget_spent`, and with `disk_full`
   * and the like if the task could not be stored: then it has no task.
   */
  async delegate(spec: TaskSpec): Promise<Task> {
    if (!this.isOpen) throw failure('ended', 'the subagent has ended; spawn another', { subagent_id: this.id });
    if (this.task !== undefined) {
      throw failure('busy', 'the subagent has a task; await or cancel it', {
        subagent_id: this.id,
        task_id: this.task.id,
      });
    }
    // A budget reports its end once, to the task that spent it; a later task would have no limit.
    for (const unit of ['tokens', 'cost'] as const) {
      if (this.#budgets?.[unit].isSpent) throw failure('budget_spent', `all ${unit} that it has are spent`, { unit });
    }
    const above = this.parent?.task?.leftMs ?? Number.POSITIVE_INFINITY;
    const timeoutMs = Math.min(spec.timeoutMs, this.settings.timeoutMs, above);
    const before = { task: this.#current, status: this.#status };
    let isRefused = false;
    const task: Task = new Task(this.#deps.newId(), { ...spec, timeoutMs }, (end) => {
      if (!isRefused) this.#ended(task, end);
    });
    if (this.#running?.fetched !== undefined && !fitsPage(this.#workOf(task))) {
      throw failure('limit', 'the task, with the instructions of its subagent, is longer than a message to it may be', {
        limit: 'task',
      });
    }
    this.#cancelTimer = processTimer(() => {
      task.fail(failure('timeout', `the task took longer than ${Math.round(timeoutMs)} ms`));
    }, timeoutMs);
    this.#current = task;
    this.#status = 'RUNNING';
    try {
      await this.#deps.store(this);
    } catch (error) {
      // If the task ended meanwhile, its end may be known to others and stays.
      if (task.end === undefined) {
        isRefused = true;
        this.#cancelTimer?.();
        this.#current = before.task;
        this.#status = before.status;
        task.fail(asError(error));
      }
      throw error;
    }
    this.#announce('started', { task_id: task.id, task: spec.name });
    void this.#run(task);
    return task;
  }

  async #run(task: Task): Promise<void> {
    // The previous task may still be stopping.
    await this.#stopping;
    const running = this.#running;
    if (running === undefined || task.end !== undefined) return;
    const work = running.run(this.#workOf(task), {
      signal: task.signal,
      progress: (progress) => this.#progress(task, progress),
      spent: (spending) => this.spent(task, spending),
      waiting: (reason) => this.#waiting(task, reason),
    });
    const stuck = Symbol('stuck');
    const settled = withGrace<SubagentResult | typeof stuck>(work, task.signal, STOP_MS, () => stuck);
    this.#stopping = settled.catch(() => {});
    try {
      const outcome = await settled;
      if (outcome === stuck) await this.end('TERMINATED', failure('lost', 'the subagent did not stop in time'), true);
      else await this.#complete(task, outcome);
    } catch (thrown) {
      task.fail(asTaskError(thrown));
    }
  }

  async #complete(task: Task, { result, score, verified: claimed }: SubagentResult): Promise<void> {
    const { resultSchema } = task.spec;
    if (task.end !== undefined) return;
    const form = objectOf(resultSchema === undefined ? result : await checkedResult(result, resultSchema));
    let written: string;
    try {
      written = JSON.stringify(form);
    } catch {
      return void task.fail(failure('failed', 'the result cannot be written as JSON'));
    }
    const { maxResultChars: limit } = this.#deps;
    if (written.length > limit) {
      return void task.fail(failure('limit', `the result has ${written.length} characters`, { limit }));
    }
    // A result that no message may hold could never be awaited.
    if (!fitsPage(form)) {
      return void task.fail(failure('limit', `the result takes ${asciiLength(written)} bytes of a message`, { limit }));
    }
    const verified = claimed ?? (resultSchema === undefined ? undefined : 'yes');
    task.complete(form, {
      ...(score !== undefined && Number.isFinite(score) && { score }),
      ...(verified !== undefined && { verified }),
    });
  }

  #workOf(task: Task): SubagentWork {
    const { role, model, systemPrompt, maxSteps } = this.settings;
    const { name, instruction, criteria, metadata, resultSchema } = task.spec;
    return {
      task_id: task.id,
      name,
      instruction,
      success_criteria: [...criteria],
      ...(resultSchema !== undefined && { result_schema: resultSchema }),
      metadata,
      role,
      model,
      system_prompt: systemPrompt,
      max_steps: maxSteps,
      seconds_left: Number.isFinite(task.leftMs) ? task.leftMs / 1000 : null,
      tokens_left: this.#budgets?.tokens.left ?? null,
    };
  }

  #progressed = 0;
  #followers: Set<(report: SubagentReport) => void> = new Set();

  #lastReport: SubagentReport | undefined;

  /** Calls `follower` with the last report of its tasks, and each one after it, until the returned function is called. */
  follow(follower: (report: SubagentReport) => void): () => void {
    if (!this.isOpen) return () => {};
    if (this.#lastReport !== undefined) follower(this.#lastReport);
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  #report(task: Task, progress: SubagentProgress): void {
    const last = this.#lastReport?.taskId === task.id ? this.#lastReport.progress : {};
    this.#lastReport = { taskId: task.id, progress: { ...last, ...progress }, usage: task.usage };
    for (const follower of this.#followers) follower(this.#lastReport);
  }

  #progress(task: Task, { message, percent }: SubagentProgress): void {
    if (task.end !== undefined || ++this.#progressed > MAX_PROGRESS) return;
    this.#report(task, {
      ...(message !== undefined && { message: message.slice(0, 4_096) }),
      ...(percent !== undefined && { percent }),
    });
    this.#announce('progress', {
      task_id: task.id,
      ...(message !== undefined && { message: message.slice(0, 4_096) }),
      ...(percent !== undefined && { pct: percent }),
    });
  }

  #waiting(task: Task, reason: string | undefined): void {
    if (task.end !== undefined) return;
    const status = reason === undefined ? 'RUNNING' : 'WAITING';
    if (status === 'RUNNING' && this.#status !== 'WAITING') return;
    this.#status = status;
    const event = status === 'WAITING' ? 'waiting' : 'resumed';
    this.#announce(event, { task_id: task.id, ...(reason !== undefined && { reason: reason.slice(0, 1_024) }) });
  }

  /** Records the amounts that a task has spent so far, as its backend reports them. */
  spent(task: Task, { tokens, costUsd, steps }: SubagentSpending): void {
    if (task.end !== undefined) return;
    const before = { tokens: task.tokens, cost: task.costUsd };
    task.tokens = Math.max(task.tokens, tokens ?? 0);
    task.costUsd = Math.max(task.costUsd, costUsd ?? 0);
    // Reports before spending the budgets: a follower may exhaust its own budget by the report, which is then the reason.
    if (task.tokens > before.tokens || task.costUsd > before.cost) this.#report(task, {});
    if (task.tokens > before.tokens) this.#budgets?.tokens.spend(this.#spentBefore.tokens + task.tokens);
    if (task.costUsd > before.cost) this.#budgets?.cost.spend(this.#spentBefore.cost + task.costUsd);
    if (steps !== undefined && steps > task.reportedSteps) {
      task.reportedSteps = Math.floor(steps);
      this.#checkSteps(task);
    }
  }

  /** Amounts spent by tasks that have ended. */
  readonly #spentBefore = { tokens: 0, cost: 0 };

  /** Counts a request of its session. Returns the error that refuses the request once the limit is reached. */
  requested(): HandfastError | undefined {
    const { task } = this;
    if (task === undefined) return undefined;
    task.requests += 1;
    return this.#checkSteps(task);
  }

  #checkSteps(task: Task): HandfastError | undefined {
    const { maxSteps } = this.settings;
    if (task.steps <= maxSteps) return undefined;
    const error = failure('budget_spent', `the task has made its ${maxSteps} steps`, { unit: 'steps' });
    task.fail(error);
    return error;
  }

  /** Fails the task when a budget is spent: its own, or that of an agent above. */
  exhausted(unit: 'tokens' | 'cost', spent: number, limit: number): void {
    this.task?.fail(failure('budget_spent', `${spent} of ${limit} are spent`, { unit, spent, limit }));
  }

  #ended(task: Task, end: TaskEnd): void {
    this.#cancelTimer?.();
    this.#progressed = 0;
    const stored = { ...storedForm(task), order: this.#deps.order() };
    this.#tasks.push(stored);
    this.#spentBefore.tokens += task.tokens;
    this.#spentBefore.cost += task.costUsd;
    while (this.#tasks.length > MAX_TASKS) this.#tasks.shift();
    if (this.isOpen) this.#status = end.state;
    this.#lastEnded = task;
    // A caller that waits for the end gets the error.
    this.#storeEnd(task).catch(() => {});
  }

  /** Stores the end of a task. A failed write is retried when the end is requested. */
  #storeEnd(task: Task): Promise<void> {
    const { end, usage } = task;
    if (end === undefined) return Promise.resolve();
    // An announced end can be awaited, and an end that can be awaited is stored.
    task.stored ??= this.#deps.store(this).then(
      () => {
        const { state, ...rest } = end;
        this.#announce(state.toLowerCase(), { task_id: task.id, task: task.spec.name, ...rest, usage });
      },
      (error: unknown) => {
        task.stored = undefined;
        throw error;
      },
    );
    return task.stored;
  }

  /** Cancels its task; the subagent then accepts another. Resolves with false if it had none. */
  async cancel(): Promise<boolean> {
    const { task } = this;
    if (task?.fail(failure('cancelled', 'the task was cancelled by the agent above'), 'CANCELLED') !== true)
      return false;
    await this.settled(task);
    return true;
  }

  /** Resolves when a task has ended, and its end is stored. Rejects with `disk_full` and the like if that fails. */
  async settled(task: Task): Promise<void> {
    await task.ended;
    await this.#storeEnd(task);
  }

  /**
   * Resolves with the task of this id, or the last one, once it has ended and its end is stored: a delivered end is still the
   * end after a kill. Undefined: no such task.
   */
  async ended(taskId?: string | undefined): Promise<StoredTask | undefined> {
    const last = this.#current;
    if (last !== undefined && (!taskId || taskId === last.id)) await this.settled(last);
    else if (this.#lastEnded !== undefined) await this.#storeEnd(this.#lastEnded);
    // Another task may have been given meanwhile.
    return this.stored(taskId || last?.id);
  }

  /** Sets the session that its handshake opened. */
  opened(session: SessionView): void {
    // Its connection gets the link after this call; before that, nothing can be sent.
    queueMicrotask(() => {
      if (!this.isOpen) return;
      this.session = session;
      for (const unread of this.#unread.splice(0)) unread.push(session);
    });
  }

  /**
   * Delivers a message; a message before its session exists waits for it. Returns false if the subagent has ended, or too many
   * messages wait.
   */
  deliver(from: string, message: SubagentMessage): boolean {
    if (!this.isOpen) return false;
    const taken = this.#running?.deliver?.(from, message) ?? false;
    if (this.session?.push(messagePush, { from, message }) === true || taken) return true;
    // A backend that accepts messages itself has no session for which refused ones could wait.
    if (this.#running?.deliver !== undefined || this.#unread.length >= MAX_UNREAD) return false;
    this.#unread.push({ inChannel: false, push: (session) => session.push(messagePush, { from, message }) });
    return true;
  }

  /**
   * Delivers a message of a channel that it is in; messages before its session exists wait for it, the oldest left out. A
   * session also gets its own messages, for their numbers.
   */
  said(channel: string, said: ChannelMessage): void {
    if (!this.isOpen) return;
    const push = (session: SessionView) => session.push(saidPush, { channel, said });
    const isPushed = this.session !== undefined && push(this.session);
    if (this.#running?.said !== undefined) {
      if (said.from !== this.id) this.#running.said(channel, said);
      return;
    }
    if (isPushed) return;
    if (this.#unread.length >= MAX_UNREAD) {
      const oldest = this.#unread.findIndex(({ inChannel }) => inChannel);
      // The history has the message.
      if (oldest === -1) return;
      this.#unread.splice(oldest, 1);
    }
    this.#unread.push({ inChannel: true, push });
  }

  /**
   * Ends the subagent and all below it: its task, its program, its session. Resolves when nothing runs any more and the end is
   * stored, or could not be. Never rejects.
   * @param failed true: its task fails; else it is terminated
   */
  end(status: SubagentStatus, error: HandfastError, failed = false): Promise<void> {
    this.#closing ??= this.#end(status, error, failed);
    return this.#closing;
  }

  async #end(status: SubagentStatus, error: HandfastError, failed: boolean): Promise<void> {
    this.endedAt = Date.now();
    const { task } = this;
    task?.fail(error, failed ? 'FAILED' : 'TERMINATED');
    this.#status = failed && task !== undefined ? 'FAILED' : status;
    this.#controller?.abort(error);
    await Promise.all([...this.children].map((child) => child.end('TERMINATED', error, failed)));
    for (const link of this.#links) void link.close('the subagent has ended');
    await this.#running?.close();
    this.#budgets?.tokens.end();
    this.#budgets?.cost.end();
    // The end of the task is announced before that of the subagent.
    if (task !== undefined) await this.settled(task).catch(() => {});
    await this.#deps.store(this).catch((error: unknown) => this.#deps.notStored(this, error));
    this.#announce('terminated', { reason: error.message, code: error.code });
    this.#release();
  }

  /** Drops everything that only an open subagent needs: hundreds of ended ones stay for their results. */
  #release(): void {
    this.#controller = undefined;
    this.#running = undefined;
    this.#budgets = undefined;
    this.session = undefined;
    this.#unread = [];
    this.#lastReport = undefined;
    this.#links = NONE;
    this.#followers = NONE;
    this.#cancelTimer = undefined;
    this.#stopping = SETTLED;
    // A task whose end is not stored is stored when its end is requested.
    if (this.#lastEnded?.stored !== undefined) this.#lastEnded = undefined;
    if (this.#current?.stored !== undefined) this.#current = undefined;
  }

  #announce(event: string, content: Readonly<Record<string, unknown>>): void {
    this.#deps.announce(this, event, content);
  }
}

/** Converts a result to an object, which the wire requires. */
export function objectOf(result: unknown): Readonly<Record<string, unknown>> {
  if (isObject(result)) return result as Readonly<Record<string, unknown>>;
  return typeof result === 'string' ? { summary: result } : { value: result ?? null };
}
