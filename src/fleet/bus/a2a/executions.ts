/**
 * The running tasks of an A2A agent, from the first event of each to its last, which the SDK streams and stores. This is the
 * agent executor that the SDK calls; `admission.ts` decided before on the meaning of a message, and its decision comes in the
 * context of the call.
 *
 * A question to a client of plain A2A ends the SDK's request; the task waits without one, and the answer is the next request.
 *
 * The SDK stores published events only while one of its requests runs: the end of a task therefore counts as delivered when it
 * is in the store, and is written there directly where no request listens any more.
 */
import { withTimeout } from '../../../base/race.ts';
import type { Timer } from '../../../base/timer-queue.ts';
import type { TaskProgress, TaskQuestion, TaskResult } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { ReplyForm } from '../plain/reply-text.ts';
import { isEnded, type MessageContent, messageOf, ROLE, STATE } from './messages.ts';
import type { PartialState } from './partial-state.ts';
import { questionAskedIn, questionMessage, type Verdict } from './questions.ts';
import type {
  AgentExecutor,
  ExecutionEventBus,
  Message,
  RequestContext,
  ServerCallContext,
  Task,
  TaskState,
} from './sdk.ts';
import { type Settled, settled } from './states.ts';
import type { A2aTaskStore, Scope, TaskLink } from './task-store.ts';

/** Name under which the SDK's context of a call holds the execution to start. */
const EXECUTION = 'handfast.run';
/** Longest time the SDK may take to store a published event, milliseconds. */
const STORE_TIMEOUT_MS = 5_000;
/** Time that a question waits that names none, milliseconds. */
const QUESTION_MS = 600_000;

/** A message of the agent before it has an id. */
export interface AgentMessage extends Omit<MessageContent, 'messageId'> {
  /** The next one replaces it, and it is not part of the task's history. */
  readonly passing?: boolean;
}

const PASSING = 'passing-';
export const isPassing = ({ messageId }: Message): boolean => messageId.startsWith(PASSING);

/** An admitted message: its task starts, has ended before it started, or gets the answer it waits for. */
export interface A2aExecution {
  readonly channel: string;
  readonly fleet: boolean;
  readonly taskId: string;
  readonly attempt: number;
  readonly messageId: string;
  readonly digest: string;
  readonly form: ReplyForm;
  /** Goes with the first message of the task. */
  readonly opening: AgentMessage | undefined;
  readonly what:
    | { readonly kind: 'start'; start(): void; abandon(): Promise<void> }
    | { readonly kind: 'answer'; readonly verdict: Verdict; release(): void }
    | { readonly kind: 'end'; readonly result: TaskResult };
  /** Resolves when the first event has its listeners. */
  readonly listening: Promise<void>;
  /** The SDK has started it. */
  used: boolean;
}

/** A running task. */
interface Running {
  readonly link: TaskLink;
  readonly contextId: string;
  /** Bus of the SDK's request that runs it; undefined while it waits for its client. */
  bus: ExecutionEventBus | undefined;
  /** Resolves when that request has nothing more to publish. */
  published: PromiseWithResolvers<void>;
  /** Open questions; the client sees the first one. */
  readonly questions: Question[];
  /** Resolves when no request is about to store something. Never rejects. */
  settled: Promise<void>;
  /** An admitted message answers the first question. */
  answered: boolean;
  canceled: boolean;
}

interface Question {
  readonly message: TaskQuestion;
  readonly stopExpiry: () => void;
}

/** A question that waits for its client. */
export interface OpenQuestion {
  readonly question: TaskQuestion;
  readonly link: TaskLink;
  /**
   * Takes the question for the message that answers it. Returns the function that puts it back; undefined: another message has
   * it.
   */
  claim(): (() => void) | undefined;
}

export interface ExecutionsOptions {
  readonly store: A2aTaskStore;
  readonly partialState: PartialState;
  readonly now: () => number;
  readonly newId: () => string;
  /** Asks the worker to stop; the end arrives as a result. True: it does not have the task. */
  cancel(channel: string, taskId: string): Promise<boolean>;
  /** Sends the worker an answer. */
  answer(channel: string, question: TaskQuestion, verdict: Verdict): Promise<void>;
  /** Expiries of questions. */
  readonly timer: Timer;
}

const keyOf = (channel: string, taskId: string): string => JSON.stringify([channel, taskId]);

export class A2aExecutions implements AgentExecutor {
  readonly #options: ExecutionsOptions;
  readonly #running = new Map<string, Running>();

  constructor(options: ExecutionsOptions) {
    this.#options = options;
  }

  /** Passes an execution to the SDK's call that follows. */
  static prepare(context: ServerCallContext, execution: A2aExecution): void {
    context.state.set(EXECUTION, execution);
  }

  /** Returns the fleet task that an A2A task runs. */
  runningTask(scope: Scope, id: string): TaskLink | undefined {
    return this.#find(scope, id)?.link;
  }

  /** True while a request of the SDK runs a task, which publishes its end. */
  publishes(scope: Scope, id: string): boolean {
    return this.#find(scope, id)?.bus !== undefined;
  }

  /** Returns the question that a task puts to its client, once it is stored; undefined: none. */
  async openQuestion(scope: Scope, id: string): Promise<OpenQuestion | undefined> {
    const running = this.#find(scope, id);
    if (running === undefined) return undefined;
    await running.settled;
    const [first] = running.questions;
    if (first === undefined || running.answered || running.bus !== undefined) return undefined;
    const claim = (): (() => void) | undefined => {
      if (running.questions[0] !== first || running.answered) return undefined;
      const { promise, resolve } = Promise.withResolvers<void>();
      running.answered = true;
      running.settled = promise;
      return () => {
        running.answered = false;
        resolve();
      };
    };
    return { question: first.message, link: running.link, claim };
  }

  #find({ tenant, owner }: Scope, id: string): Running | undefined {
    return [...this.#running.values()].find(
      ({ link }) => link.id === id && link.tenant === tenant && link.owner === owner,
    );
  }

  // For the SDK.

  readonly execute = async (request: RequestContext, bus: ExecutionEventBus): Promise<void> => {
    const execution = request.context.state.get(EXECUTION) as A2aExecution | undefined;
    if (execution === undefined) throw fail('runtime_error', 'this message was not admitted');
    execution.used = true;
    const { store } = this.#options;
    const { channel, taskId, attempt, messageId, digest, form, what } = execution;
    if (what.kind === 'answer') return this.#answer(request, bus, execution, what);
    const scope = { tenant: request.context.tenant ?? '', owner: request.context.user?.userName ?? '' };
    const link: TaskLink = { ...scope, channel, taskId, attempt, id: request.taskId, messageId, digest, form };
    store.link(link);
    if (what.kind === 'end') {
      bus.publish({ kind: 'task', data: this.#endedAtOnce(request, execution, what.result) });
      return;
    }
    const running = runningOf(link, request.contextId, bus);
    this.#running.set(keyOf(channel, taskId), running);
    await this.#publishing(running, async () => {
      bus.publish({ kind: 'task', data: this.#started(request, execution) });
      await execution.listening;
      this.#status(running, STATE.working);
      what.start();
    });
  };

  /** Continues the task with the answer of its client. */
  async #answer(
    request: RequestContext,
    bus: ExecutionEventBus,
    { channel, taskId, listening }: A2aExecution,
    { verdict, release }: Extract<A2aExecution['what'], { kind: 'answer' }>,
  ): Promise<void> {
    const running = this.#running.get(keyOf(channel, taskId));
    const answered = running?.questions.shift();
    // Its end waits for the answer that was admitted, so only a closing agent has removed it.
    if (running === undefined || answered === undefined) throw fail('interrupted', 'the agent stops');
    answered.stopExpiry();
    running.bus = bus;
    running.published = Promise.withResolvers();
    release();
    await this.#publishing(running, async () => {
      const history = request.task?.history ?? [];
      bus.publish({ kind: 'task', data: { ...this.#taskOf(request, history), status: this.#statusOf(STATE.working) } });
      await listening;
      await this.#options.answer(channel, answered.message, verdict);
      if (running.questions.length > 0 && running.bus === bus) this.#ask(running);
    });
  }

  /** Runs one request of the SDK to its end, or to a question. */
  async #publishing(running: Running, work: () => Promise<void>): Promise<void> {
    const { bus, link, published } = running;
    const key = keyOf(link.channel, link.taskId);
    try {
      await work();
      await published.promise;
    } finally {
      if (this.#running.get(key) === running && running.bus === bus) this.#remove(running);
    }
  }

  readonly cancelTask = async (id: string): Promise<void> => {
    // The SDK names no owner here; ids are random, so at most one task matches.
    const running = [...this.#running.values()].find(({ link }) => link.id === id);
    if (running === undefined) return;
    const { channel, taskId } = running.link;
    running.canceled = true;
    if (await this.#options.cancel(channel, taskId)) {
      this.#status(running, STATE.canceled, { text: 'The worker did not have the task any more.' });
      running.published.resolve();
    }
  };

  // From the worker.

  /** Notes that a client cancels a task by a message of the fleet protocol instead of the SDK's call. */
  canceling(channel: string, taskId: string): void {
    const running = this.#running.get(keyOf(channel, taskId));
    if (running !== undefined) running.canceled = true;
  }

  /** Publishes a message of a running task. */
  emit(channel: string, taskId: string, message: AgentMessage): void {
    const running = this.#running.get(keyOf(channel, taskId));
    if (running !== undefined) this.#status(running, STATE.working, message);
  }

  /** Publishes a message on any running task of a channel. */
  emitOnAnyTask(channel: string, message: AgentMessage): void {
    const running = [...this.#running.values()].find(({ link }) => link.channel === channel);
    if (running !== undefined) this.#status(running, STATE.working, message);
  }

  /** Puts a question to a client of plain A2A. The worker repeats open questions when its channel is attached again. */
  ask(channel: string, message: TaskQuestion): void {
    const running = this.#running.get(keyOf(channel, message.task_id)) ?? this.#recovered(channel, message);
    if (running?.questions.some((known) => known.message.question_id === message.question_id) !== false) return;
    const { expires_s } = message;
    const stopExpiry = this.#options.timer(
      () => this.#expire(running, message),
      expires_s === undefined ? QUESTION_MS : expires_s * 1000,
    );
    running.questions.push({ message, stopExpiry });
    if (running.questions.length === 1) this.#ask(running);
  }

  /** Returns the task of an earlier agent of this worker, which asks. */
  #recovered(channel: string, { task_id, envelope }: TaskQuestion): Running | undefined {
    const { store } = this.#options;
    const link = store.linkOf(channel, task_id, envelope?.attempt);
    const task = link === undefined ? undefined : store.find(link, link.id);
    if (link === undefined || task === undefined || isEnded(task.status?.state)) return undefined;
    const running = runningOf(link, task.contextId, undefined);
    this.#running.set(keyOf(channel, task_id), running);
    return running;
  }

  /** Puts the first question to the client, which ends the request of the SDK. */
  #ask(running: Running): void {
    const { link, bus, questions } = running;
    const [first] = questions;
    if (first === undefined) return;
    const content = questionMessage(first.message);
    if (bus === undefined) {
      const task = this.#options.store.find(link, link.id);
      if (task !== undefined && questionAskedIn(task) !== first.message.question_id)
        this.#put(link, task, STATE.inputRequired, content);
      return;
    }
    const { stored, abandon } = this.#options.store.whenSettled(link, link.id);
    // A question that was not stored within the timeout is asked all the same.
    running.settled = withTimeout(stored, STORE_TIMEOUT_MS, () => fail('timeout', 'the question was not stored'))
      .catch(() => {})
      .finally(abandon);
    this.#status(running, STATE.inputRequired, content);
    running.bus = undefined;
    running.published.resolve();
  }

  /** Ends a question without an answer: the worker continues. */
  async #expire(running: Running, message: TaskQuestion): Promise<void> {
    const { link, questions } = running;
    await running.settled;
    const index = questions.findIndex((known) => known.message === message);
    if (index < 0) return;
    questions.splice(index, 1);
    if (index > 0 || running.bus !== undefined) return;
    if (questions.length > 0) return this.#ask(running);
    const task = this.#options.store.find(link, link.id);
    if (task !== undefined && !isEnded(task.status?.state)) this.#put(link, task, STATE.working, { text: EXPIRED });
  }

  /** Ends a task. Resolves when the end is stored; false: it has no A2A task, or not any more. */
  async settle(channel: string, fleet: boolean, result: TaskResult): Promise<boolean> {
    const { store, partialState } = this.#options;
    const { task_id: taskId, envelope } = result;
    const running = this.#running.get(keyOf(channel, taskId));
    await running?.settled;
    const own = running !== undefined && (envelope?.attempt ?? running.link.attempt) === running.link.attempt;
    const link = own ? running.link : store.linkOf(channel, taskId, envelope?.attempt);
    if (link === undefined) return false;
    const form = link.form as ReplyForm;
    const end = settled(result, { fleet, form, canceled: own && running.canceled, partialState });
    if (own && running.bus !== undefined) {
      await this.#end(running, running.bus, end);
      return true;
    }
    if (own) this.#remove(running);
    const task = store.find(link, link.id);
    if (task === undefined) return false;
    store.put(link, this.#applied(task, end));
    return true;
  }

  /** Fails a task that no worker runs any more, and that will get no result. */
  fail(scope: Scope, task: Task, reason: string): void {
    this.#put(scope, task, STATE.failed, { text: reason });
  }

  /** Abandons all running tasks; they stay as they are stored. */
  close(): void {
    for (const running of this.#running.values()) {
      this.#remove(running);
      running.published.resolve();
    }
  }

  #remove(running: Running): void {
    const { link, questions } = running;
    for (const { stopExpiry } of questions.splice(0)) stopExpiry();
    const key = keyOf(link.channel, link.taskId);
    if (this.#running.get(key) === running) this.#running.delete(key);
  }

  async #end(running: Running, bus: ExecutionEventBus, { state, artifact, text, metadata }: Settled): Promise<void> {
    const { link, contextId, published } = running;
    const { stored, abandon } = this.#options.store.whenSettled(link, link.id);
    try {
      bus.publish({
        kind: 'artifactUpdate',
        data: { taskId: link.id, contextId, artifact, append: false, lastChunk: true, metadata: undefined },
      });
      this.#status(running, state, text === '' ? undefined : { text }, metadata);
      await withTimeout(stored, STORE_TIMEOUT_MS, () =>
        fail('timeout', `the end of the task was not stored within ${STORE_TIMEOUT_MS} ms`),
      );
    } finally {
      abandon();
      published.resolve();
    }
  }

  /** Stores a task with a new status, where no request of the SDK does. */
  #put(scope: Scope, task: Task, state: TaskState, content: AgentMessage): void {
    const message = this.#message(task, content);
    const history = [...task.history, message];
    this.#options.store.put(scope, { ...task, history, status: this.#statusOf(state, message) });
  }

  /** Returns a stored task with its end; one that has ended keeps its status, and gets artifact and metadata. */
  #applied(task: Task, { state, artifact, text, metadata }: Settled): Task {
    const others = task.artifacts.filter(({ artifactId }) => artifactId !== artifact.artifactId);
    const more = { artifacts: [...others, artifact], metadata: { ...task.metadata, ...metadata } };
    if (isEnded(task.status?.state)) return { ...task, ...more };
    const message = text === '' ? undefined : this.#message(task, { text });
    const history = message === undefined ? task.history : [...task.history, message];
    return { ...task, ...more, history, status: this.#statusOf(state, message) };
  }

  #started(request: RequestContext, { opening }: A2aExecution): Task {
    const { taskId: id, contextId, task, userMessage } = request;
    const message = opening === undefined ? undefined : this.#message({ id, contextId }, opening);
    const history = [...(task?.history ?? [userMessage]), ...(message === undefined ? [] : [message])];
    return { ...this.#taskOf(request, history), status: this.#statusOf(STATE.submitted, message) };
  }

  #taskOf({ taskId: id, contextId, task }: RequestContext, history: Task['history']): Omit<Task, 'status'> {
    return { id, contextId, artifacts: task?.artifacts ?? [], history, metadata: task?.metadata };
  }

  #endedAtOnce(request: RequestContext, execution: A2aExecution, result: TaskResult): Task {
    const { fleet, form, opening } = execution;
    const { partialState } = this.#options;
    const { state, artifact, text, metadata } = settled(result, { fleet, form, canceled: false, partialState });
    const { taskId: id, contextId } = request;
    const content = { ...opening, ...(text !== '' && { text }) };
    const message = Object.keys(content).length === 0 ? undefined : this.#message({ id, contextId }, content);
    return {
      ...this.#started(request, { ...execution, opening: undefined }),
      status: this.#statusOf(state, message),
      artifacts: [artifact],
      metadata,
    };
  }

  #status(running: Running, state: TaskState, content?: AgentMessage, metadata?: Settled['metadata']): void {
    const { link, contextId, bus } = running;
    const message = content === undefined ? undefined : this.#message({ id: link.id, contextId }, content);
    bus?.publish({
      kind: 'statusUpdate',
      data: { taskId: link.id, contextId, status: this.#statusOf(state, message), metadata },
    });
  }

  #message({ id: taskId, contextId }: Pick<Task, 'id' | 'contextId'>, content: AgentMessage): Message {
    const messageId = `${content.passing ? PASSING : ''}${this.#options.newId()}`;
    return messageOf(ROLE.agent, { ...content, messageId, taskId, contextId });
  }

  #statusOf(state: TaskState, message?: Message): NonNullable<Task['status']> {
    return { state, message, timestamp: new Date(this.#options.now()).toISOString() };
  }
}

const EXPIRED = 'No answer came in time. The work continues without one.';

const runningOf = (link: TaskLink, contextId: string, bus: ExecutionEventBus | undefined): Running => ({
  link,
  contextId,
  bus,
  published: Promise.withResolvers(),
  questions: [],
  settled: Promise.resolve(),
  answered: false,
  canceled: false,
});

/** Progress as text, for clients that read nothing else. */
export function progressText({ phase, note, percent }: TaskProgress): string {
  const text = note === undefined ? phase : `${phase}: ${note}`;
  return percent === undefined ? text : `${text} (${percent} %)`;
}
