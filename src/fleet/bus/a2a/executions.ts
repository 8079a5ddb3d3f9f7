/**
 * The running tasks of an A2A agent, from the first event of each to its last, which the SDK streams and stores. This is the
 * agent executor that the SDK calls; `admission.ts` decided before what a message means, and its decision comes in the
 * context of the call.
 *
 * The SDK stores what is published only while one of its requests runs: the end of a task therefore counts as delivered when
 * it is in the store, and is written there directly where no request listens any more.
 */
import { withTimeout } from '../../../base/race.ts';
import type { TaskProgress, TaskResult } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { ReplyForm } from '../plain/reply-text.ts';
import { isEnded, type MessageContent, messageOf, ROLE, STATE } from './messages.ts';
import type { PartialState } from './partial-state.ts';
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

/** Under this name the SDK's context of a call holds the execution to start. */
const EXECUTION = 'handfast.run';
/** How long the SDK may take to store what was published, milliseconds. */
const STORE_TIMEOUT_MS = 5_000;

/** A message of the agent before it has an id. */
export interface AgentMessage extends Omit<MessageContent, 'messageId'> {
  /** The next one replaces it, and it is not part of the task's history. */
  readonly passing?: boolean;
}

const PASSING = 'passing-';
export const isPassing = ({ messageId }: Message): boolean => messageId.startsWith(PASSING);

/** An admitted message: its task starts, or has ended before it started. */
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
  readonly bus: ExecutionEventBus;
  readonly execution: A2aExecution;
  readonly ended: PromiseWithResolvers<void>;
  canceled: boolean;
}

export interface ExecutionsOptions {
  readonly store: A2aTaskStore;
  readonly partialState: PartialState;
  readonly now: () => number;
  readonly newId: () => string;
  /** Asks the worker to stop; the end arrives as a result. True: it does not have the task. */
  cancel(channel: string, taskId: string): Promise<boolean>;
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

  /** The fleet task that an A2A task runs. */
  runningTask({ tenant, owner }: Scope, id: string): TaskLink | undefined {
    return this.#find({ tenant, owner }, id)?.link;
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
    const { channel, taskId, attempt, messageId, digest, form } = execution;
    const scope = { tenant: request.context.tenant ?? '', owner: request.context.user?.userName ?? '' };
    const link: TaskLink = { ...scope, channel, taskId, attempt, id: request.taskId, messageId, digest, form };
    store.link(link);
    const { what } = execution;
    if (what.kind === 'end') {
      bus.publish({ kind: 'task', data: this.#endedAtOnce(request, execution, what.result) });
      return;
    }
    const running: Running = {
      link,
      contextId: request.contextId,
      bus,
      execution,
      ended: Promise.withResolvers(),
      canceled: false,
    };
    this.#running.set(keyOf(channel, taskId), running);
    try {
      bus.publish({ kind: 'task', data: this.#started(request, execution) });
      await execution.listening;
      this.#status(running, STATE.working);
      what.start();
      await running.ended.promise;
    } finally {
      if (this.#running.get(keyOf(channel, taskId)) === running) this.#running.delete(keyOf(channel, taskId));
    }
  };

  readonly cancelTask = async (id: string): Promise<void> => {
    // The SDK names no owner here; ids are random, so there is one at most.
    const running = [...this.#running.values()].find(({ link }) => link.id === id);
    if (running === undefined) return;
    const { channel, taskId } = running.link;
    running.canceled = true;
    if (await this.#options.cancel(channel, taskId)) {
      this.#status(running, STATE.canceled, { text: 'The worker did not have the task any more.' });
      running.ended.resolve();
    }
  };

  // From the worker.

  /** A client cancels a task by a message of the fleet protocol instead of the SDK's call. */
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

  /** Ends a task. Resolves when the end is stored; false: it has no A2A task, or not any more. */
  async settle(channel: string, fleet: boolean, result: TaskResult): Promise<boolean> {
    const { store, partialState } = this.#options;
    const { task_id: taskId, envelope } = result;
    const running = this.#running.get(keyOf(channel, taskId));
    if (running !== undefined && (envelope?.attempt ?? running.link.attempt) === running.link.attempt) {
      const { form } = running.execution;
      await this.#end(running, settled(result, { fleet, form, canceled: running.canceled, partialState }));
      return true;
    }
    const link = store.linkOf(channel, taskId, envelope?.attempt);
    const task = link === undefined ? undefined : store.find(link, link.id);
    if (link === undefined || task === undefined) return false;
    const form = link.form as ReplyForm;
    store.put(link, this.#applied(task, settled(result, { fleet, form, canceled: false, partialState })));
    return true;
  }

  /** Fails a task that no worker runs any more, and that will get no result. */
  fail(scope: Scope, task: Task, reason: string): void {
    const { store } = this.#options;
    store.put(scope, { ...task, status: this.#statusOf(STATE.failed, this.#message(task, { text: reason })) });
  }

  /** Abandons all running tasks; they stay as they are stored. */
  close(): void {
    for (const { ended } of this.#running.values()) ended.resolve();
    this.#running.clear();
  }

  async #end(running: Running, { state, artifact, text, metadata }: Settled): Promise<void> {
    const { link, bus, contextId, ended } = running;
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
      ended.resolve();
    }
  }

  /** A stored task with its end; one that has ended keeps its status, and gets artifact and metadata. */
  #applied(task: Task, { state, artifact, text, metadata }: Settled): Task {
    const others = task.artifacts.filter(({ artifactId }) => artifactId !== artifact.artifactId);
    const more = { artifacts: [...others, artifact], metadata: { ...task.metadata, ...metadata } };
    if (isEnded(task.status?.state)) return { ...task, ...more };
    const message = text === '' ? undefined : this.#message(task, { text });
    const history = message === undefined ? task.history : [...task.history, message];
    return { ...task, ...more, history, status: this.#statusOf(state, message) };
  }

  #started({ taskId: id, contextId, task, userMessage }: RequestContext, { opening }: A2aExecution): Task {
    const message = opening === undefined ? undefined : this.#message({ id, contextId }, opening);
    return {
      id,
      contextId,
      status: this.#statusOf(STATE.submitted, message),
      artifacts: task?.artifacts ?? [],
      history: [...(task?.history ?? [userMessage]), ...(message === undefined ? [] : [message])],
      metadata: task?.metadata,
    };
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
    bus.publish({
      kind: 'statusUpdate',
      data: { taskId: link.id, contextId, status: this.#statusOf(state, message), metadata },
    });
  }

  #message({ id: taskId, contextId }: Pick<Task, 'id' | 'contextId'>, content: AgentMessage): Message {
    const messageId = `${content.passing ? PASSING : ''}${this.#options.newId()}`;
    return messageOf(ROLE.agent, { ...content, messageId, taskId, contextId });
  }

  #statusOf(state: TaskState, message: Message | undefined): NonNullable<Task['status']> {
    return { state, message, timestamp: new Date(this.#options.now()).toISOString() };
  }
}

/** Progress as text, for clients that read nothing else. */
export function progressText({ phase, note, percent }: TaskProgress): string {
  const text = note === undefined ? phase : `${phase}: ${note}`;
  return percent === undefined ? text : `${text} (${percent} %)`;
}
