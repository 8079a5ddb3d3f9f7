/**
 * The tasks of an A2A agent that are being worked on: from the first event of each to its last, told to whoever listens and
 * kept by the SDK. This is the agent executor the SDK calls; what a message means was decided before, in
 * `admission.ts`, and comes along in the context of the call.
 *
 * The SDK keeps what is published while one of its requests is under way, and only then: the end of a task therefore counts
 * as told when it is in the store, and is written there directly where nobody listens any more.
 */

import { withTimeout } from '../../../base/race.ts';
import type { TaskProgress, TaskResult } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { ReplyForm } from '../plain/reply-text.ts';
import { isEnded, messageOf, ROLE, type Said, STATE } from './messages.ts';
import type {
  AgentExecutor,
  ExecutionEventBus,
  Message,
  RequestContext,
  ServerCallContext,
  Task,
  TaskState,
} from './sdk.ts';
import type { PartialState } from './settings.ts';
import { type Settled, settled } from './states.ts';
import type { A2aTaskStore, Scope, TaskLink } from './task-store.ts';

/** Under this name the SDK's context of a call holds what is to be run. */
const RUN = 'handfast.run';
/** How long the SDK may take to store what was published, milliseconds. */
const STORE_MS = 5_000;

/** A message of the agent before it has an id. */
export interface AgentMessage extends Omit<Said, 'messageId'> {
  /** It is over with the next one, and no part of the history of its task. */
  readonly passing?: boolean;
}

const PASSING = 'passing-';
export const isPassing = ({ messageId }: Message): boolean => messageId.startsWith(PASSING);

/** A message that was decided on: its task begins, or has ended before it began. */
export interface A2aExecution {
  readonly outlet: string;
  readonly fleet: boolean;
  readonly taskId: string;
  readonly attempt: number;
  readonly messageId: string;
  readonly digest: string;
  readonly form: ReplyForm;
  /** Goes with the first message of the task. */
  readonly opening: AgentMessage | undefined;
  readonly what:
    | { readonly kind: 'begin'; begin(): void; abandon(): Promise<void> }
    | { readonly kind: 'end'; readonly result: TaskResult };
  /** Resolves when the first event has its listeners. */
  readonly heard: Promise<void>;
  /** The SDK has begun with it. */
  used: boolean;
}

/** A task that is worked on. */
interface Live {
  readonly link: TaskLink;
  readonly contextId: string;
  readonly bus: ExecutionEventBus;
  readonly run: A2aExecution;
  readonly over: PromiseWithResolvers<void>;
  canceled: boolean;
}

export interface RunsOptions {
  readonly store: A2aTaskStore;
  readonly partialState: PartialState;
  readonly now: () => number;
  readonly newId: () => string;
  /** Tells the worker to stop; what comes of it arrives as a result. True: it does not have the task. */
  cancel(outlet: string, taskId: string): Promise<boolean>;
}

const keyOf = (outlet: string, taskId: string): string => JSON.stringify([outlet, taskId]);

export class A2aExecutions implements AgentExecutor {
  readonly #options: RunsOptions;
  readonly #live = new Map<string, Live>();

  constructor(options: RunsOptions) {
    this.#options = options;
  }

  /** Hands a run to the SDK's call that follows. */
  static prepare(context: ServerCallContext, run: A2aExecution): void {
    context.state.set(RUN, run);
  }

  /** The fleet task an A2A task is working on. */
  liveOf({ tenant, owner }: Scope, id: string): TaskLink | undefined {
    return this.#find({ tenant, owner }, id)?.link;
  }

  #find({ tenant, owner }: Scope, id: string): Live | undefined {
    return [...this.#live.values()].find(
      ({ link }) => link.id === id && link.tenant === tenant && link.owner === owner,
    );
  }

  // For the SDK.

  readonly execute = async (request: RequestContext, bus: ExecutionEventBus): Promise<void> => {
    const run = request.context.state.get(RUN) as A2aExecution | undefined;
    if (run === undefined) throw fail('runtime_error', 'nothing was decided about this message');
    run.used = true;
    const { store } = this.#options;
    const { outlet, taskId, attempt, messageId, digest, form } = run;
    const scope = { tenant: request.context.tenant ?? '', owner: request.context.user?.userName ?? '' };
    const link: TaskLink = { ...scope, outlet, taskId, attempt, id: request.taskId, messageId, digest, form };
    store.link(link);
    const { what } = run;
    if (what.kind === 'end') {
      bus.publish({ kind: 'task', data: this.#endedAtOnce(request, run, what.result) });
      return;
    }
    const live: Live = {
      link,
      contextId: request.contextId,
      bus,
      run,
      over: Promise.withResolvers(),
      canceled: false,
    };
    this.#live.set(keyOf(outlet, taskId), live);
    try {
      bus.publish({ kind: 'task', data: this.#begun(request, run) });
      await run.heard;
      this.#status(live, STATE.working);
      what.begin();
      await live.over.promise;
    } finally {
      if (this.#live.get(keyOf(outlet, taskId)) === live) this.#live.delete(keyOf(outlet, taskId));
    }
  };

  readonly cancelTask = async (id: string): Promise<void> => {
    // The SDK names no owner here; ids are random, so there is one at most.
    const live = [...this.#live.values()].find(({ link }) => link.id === id);
    if (live === undefined) return;
    const { outlet, taskId } = live.link;
    live.canceled = true;
    if (await this.#options.cancel(outlet, taskId)) {
      this.#status(live, STATE.canceled, { text: 'The worker did not have the task any more.' });
      live.over.resolve();
    }
  };

  // From the worker.

  /** Somebody has asked for the end of a task in another way than the SDK's. */
  canceling(outlet: string, taskId: string): void {
    const live = this.#live.get(keyOf(outlet, taskId));
    if (live !== undefined) live.canceled = true;
  }

  /** Something is said about a task; nobody may be there to hear it. */
  say(outlet: string, taskId: string, said: AgentMessage): void {
    const live = this.#live.get(keyOf(outlet, taskId));
    if (live !== undefined) this.#status(live, STATE.working, said);
  }

  /** Says something over any task of an outlet. */
  sayAnywhere(outlet: string, said: AgentMessage): void {
    const live = [...this.#live.values()].find(({ link }) => link.outlet === outlet);
    if (live !== undefined) this.#status(live, STATE.working, said);
  }

  /** The end of a task. Resolves when it is stored; false: there is no A2A task for it, or not any more. */
  async settle(outlet: string, fleet: boolean, result: TaskResult): Promise<boolean> {
    const { store, partialState } = this.#options;
    const { task_id: taskId, envelope } = result;
    const live = this.#live.get(keyOf(outlet, taskId));
    if (live !== undefined && (envelope?.attempt ?? live.link.attempt) === live.link.attempt) {
      const { form } = live.run;
      await this.#end(live, settled(result, { fleet, form, canceled: live.canceled, partialState }));
      return true;
    }
    const link = store.linkOf(outlet, taskId, envelope?.attempt);
    const task = link === undefined ? undefined : store.find(link, link.id);
    if (link === undefined || task === undefined) return false;
    const form = link.form as ReplyForm;
    store.put(link, this.#applied(task, settled(result, { fleet, form, canceled: false, partialState })));
    return true;
  }

  /** A task that nobody works on any more, and of which no result will come. */
  giveUp(scope: Scope, task: Task, why: string): void {
    const { store } = this.#options;
    store.put(scope, { ...task, status: this.#statusOf(STATE.failed, this.#message(task, { text: why })) });
  }

  /** Lets go of all tasks; they stay as they are stored. */
  close(): void {
    for (const { over } of this.#live.values()) over.resolve();
    this.#live.clear();
  }

  async #end(live: Live, { state, artifact, words, metadata }: Settled): Promise<void> {
    const { link, bus, contextId, over } = live;
    const { stored, giveUp } = this.#options.store.whenSettled(link, link.id);
    try {
      bus.publish({
        kind: 'artifactUpdate',
        data: { taskId: link.id, contextId, artifact, append: false, lastChunk: true, metadata: undefined },
      });
      this.#status(live, state, words === '' ? undefined : { text: words }, metadata);
      // Not before the turn in which the SDK takes up what was published.
      await withTimeout(stored, STORE_MS, () => fail('timeout', 'the end of the task was not stored in time'));
    } finally {
      giveUp();
      over.resolve();
    }
  }

  /** A stored task with its end; one that has ended already keeps that, and gets what was done beside it. */
  #applied(task: Task, { state, artifact, words, metadata }: Settled): Task {
    const others = task.artifacts.filter(({ artifactId }) => artifactId !== artifact.artifactId);
    const more = { artifacts: [...others, artifact], metadata: { ...task.metadata, ...metadata } };
    if (isEnded(task.status?.state)) return { ...task, ...more };
    const message = words === '' ? undefined : this.#message(task, { text: words });
    const history = message === undefined ? task.history : [...task.history, message];
    return { ...task, ...more, history, status: this.#statusOf(state, message) };
  }

  #begun({ taskId: id, contextId, task, userMessage }: RequestContext, { opening }: A2aExecution): Task {
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

  #endedAtOnce(request: RequestContext, run: A2aExecution, result: TaskResult): Task {
    const { fleet, form, opening } = run;
    const { partialState } = this.#options;
    const { state, artifact, words, metadata } = settled(result, { fleet, form, canceled: false, partialState });
    const { taskId: id, contextId } = request;
    const said = { ...opening, ...(words !== '' && { text: words }) };
    const message = Object.keys(said).length === 0 ? undefined : this.#message({ id, contextId }, said);
    return {
      ...this.#begun(request, { ...run, opening: undefined }),
      status: this.#statusOf(state, message),
      artifacts: [artifact],
      metadata,
    };
  }

  #status(live: Live, state: TaskState, said?: AgentMessage, metadata?: Settled['metadata']): void {
    const { link, contextId, bus } = live;
    const message = said === undefined ? undefined : this.#message({ id: link.id, contextId }, said);
    bus.publish({
      kind: 'statusUpdate',
      data: { taskId: link.id, contextId, status: this.#statusOf(state, message), metadata },
    });
  }

  #message({ id: taskId, contextId }: Pick<Task, 'id' | 'contextId'>, said: AgentMessage): Message {
    const messageId = `${said.passing ? PASSING : ''}${this.#options.newId()}`;
    return messageOf(ROLE.agent, { ...said, messageId, taskId, contextId });
  }

  #statusOf(state: TaskState, message: Message | undefined): NonNullable<Task['status']> {
    return { state, message, timestamp: new Date(this.#options.now()).toISOString() };
  }
}

/** Progress in words, for clients that read nothing else. */
export function progressWords({ phase, note, percent }: TaskProgress): string {
  const words = note === undefined ? phase : `${phase}: ${note}`;
  return percent === undefined ? words : `${words} (${percent} %)`;
}
