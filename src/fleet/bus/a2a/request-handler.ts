/**
 * What an A2A client asks of a worker, one step before the SDK: whether the worker takes the task is decided here, because
 * the SDK makes every failure after that a failed task, and a busy worker has not failed.
 *
 * Everything that needs no decision goes to the SDK's own handler. Made by `agent-server.ts`.
 * @see docs/a2a.md#agent
 */
import type { Log } from '../../../host/context.ts';
import {
  FLEET_EXTENSION,
  type FleetMessage,
  type SessionAnnounce,
  type TaskAck,
  type TaskResult,
} from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { isId } from '../../messages/names.ts';
import { busyAnswer } from '../http/dialect.ts';
import type { ReplyForm } from '../http/reply-text.ts';
import { ack, leaseOf } from '../intake.ts';
import type { WorkerPort } from '../outlet.ts';
import { AgentOutlet, outletName } from './agent-outlet.ts';
import { Descriptions } from './descriptions.ts';
import { type Asked, digestOfParts, readAsked } from './incoming.ts';
import { isEnded, messageOf, ROLE, textOf } from './parts.ts';
import { type Run, Runs } from './runs.ts';
import type {
  A2ARequestHandler,
  A2aServerSdk,
  Message,
  SendMessageRequest,
  ServerCallContext,
  StreamResponse,
  Task,
} from './sdk.ts';
import { type A2aTaskStore, type Scope, scopeOf, type TaskLink } from './task-store.ts';
import { TaskTurns } from './task-turns.ts';

/** Under this name the SDK's context of a call holds the answer of a busy worker. */
const BUSY = 'handfast.busy';

/** The JSON-RPC answer of a busy worker, without its id; undefined: it was not busy. */
export function busyIn(context: ServerCallContext): object | undefined {
  return context.state.get(BUSY) as object | undefined;
}

export interface RequestHandlerOptions {
  readonly worker: WorkerPort;
  readonly sdk: A2aServerSdk;
  /** The SDK's own handler, on `runs` and `store`. */
  readonly inner: A2ARequestHandler;
  readonly runs: Runs;
  readonly store: A2aTaskStore;
  readonly log: Log;
  readonly newId: () => string;
  /** The worker says goodbye, or is heard of again. */
  left(reason: string): void;
  came(): void;
}

/** What is to be done about a message. */
type Decided =
  /** The SDK runs it. */
  | { readonly kind: 'run'; readonly run: Run; readonly message: Message; hear(): void }
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'message'; readonly message: Message }
  /** The SDK says what is wrong with it. */
  | { readonly kind: 'refuse' };

/** A call, and whose it is. */
interface Call {
  readonly message: Message;
  readonly context: ServerCallContext;
  readonly scope: Scope;
  readonly fleet: boolean;
  readonly outlet: AgentOutlet;
}

export class FleetRequestHandler implements A2ARequestHandler {
  readonly #options: RequestHandlerOptions;
  readonly #outlets = new Map<string, { readonly outlet: AgentOutlet; readonly detach: () => void }>();
  readonly #turns = new TaskTurns();
  readonly #descriptions: Descriptions;

  constructor(options: RequestHandlerOptions) {
    this.#options = options;
    this.#descriptions = new Descriptions(options.worker, options.log);
  }

  // What the SDK does by itself.

  getAgentCard: A2ARequestHandler['getAgentCard'] = () => this.#options.inner.getAgentCard();
  getAuthenticatedExtendedAgentCard: A2ARequestHandler['getAuthenticatedExtendedAgentCard'] = (...call) =>
    this.#options.inner.getAuthenticatedExtendedAgentCard(...call);
  getTask: A2ARequestHandler['getTask'] = (...call) => this.#options.inner.getTask(...call);
  listTasks: A2ARequestHandler['listTasks'] = (...call) => this.#options.inner.listTasks(...call);
  resubscribe: A2ARequestHandler['resubscribe'] = (...call) => this.#options.inner.resubscribe(...call);
  createTaskPushNotificationConfig: A2ARequestHandler['createTaskPushNotificationConfig'] = (...call) =>
    this.#options.inner.createTaskPushNotificationConfig(...call);
  getTaskPushNotificationConfig: A2ARequestHandler['getTaskPushNotificationConfig'] = (...call) =>
    this.#options.inner.getTaskPushNotificationConfig(...call);
  listTaskPushNotificationConfigs: A2ARequestHandler['listTaskPushNotificationConfigs'] = (...call) =>
    this.#options.inner.listTaskPushNotificationConfigs(...call);
  deleteTaskPushNotificationConfig: A2ARequestHandler['deleteTaskPushNotificationConfig'] = (...call) =>
    this.#options.inner.deleteTaskPushNotificationConfig(...call);

  // Tasks.

  sendMessage: A2ARequestHandler['sendMessage'] = async (params, context) => {
    const decided = await this.#decide(params, context);
    switch (decided.kind) {
      case 'message':
        return decided.message;
      case 'task':
        return trimmed(decided.task, params);
      case 'refuse':
        return this.#options.inner.sendMessage(params, context);
      case 'run':
        decided.hear();
        return this.#begin(decided, params, context);
    }
  };

  sendMessageStream: A2ARequestHandler['sendMessageStream'] = (params, context) => this.#stream(params, context);

  /**
   * The SDK stores what it streams only while its client listens, so the task is begun as one that nobody waits for, and the
   * stream is a subscription to it. Nothing is worked on before that stands.
   */
  async *#stream(
    params: SendMessageRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const decided = await this.#decide(params, context);
    const { inner } = this.#options;
    if (decided.kind === 'message') return yield { payload: { $case: 'message', value: decided.message } };
    if (decided.kind === 'refuse') return yield* inner.sendMessageStream(params, context);
    let task: Task;
    if (decided.kind === 'task') task = decided.task;
    else {
      const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, ...params.configuration };
      const now = { ...params, configuration: { ...configuration, returnImmediately: true } };
      task = (await this.#begin(decided, now, context)) as Task;
    }
    try {
      if (isEnded(task.status?.state)) return yield { payload: { $case: 'task', value: trimmed(task, params) } };
      const events = inner.resubscribe({ tenant: params.tenant, id: task.id }, context);
      for await (const event of events) {
        if (decided.kind === 'run') decided.hear();
        yield event;
      }
    } finally {
      if (decided.kind === 'run') decided.hear();
    }
  }

  cancelTask: A2ARequestHandler['cancelTask'] = async (params, context) => {
    const { store, runs } = this.#options;
    const scope = scopeOf(context);
    const task = params.id === '' ? undefined : store.find(scope, params.id);
    // Of an earlier process: the SDK would only write it down, and the worker would go on.
    if (task !== undefined && !isEnded(task.status?.state) && runs.liveOf(scope, params.id) === undefined) {
      const link = store.linkOfTask(scope, params.id);
      if (link !== undefined) await this.cancel(link.outlet, link.taskId);
    }
    return this.#options.inner.cancelTask(params, context);
  };

  /** Tells the worker to stop a task. True: it does not have it, and no result will come. */
  async cancel(outlet: string, taskId: string): Promise<boolean> {
    const answer = await this.#tell(
      fleetMessage('TASK_CANCEL', { task_id: taskId, reason: 'canceled' }),
      this.outlet(outlet),
    );
    if (answer?.type === 'TASK_RESULT')
      return !(await this.#options.runs.settle(outlet, this.outlet(outlet).fleet, answer));
    return answer?.state === 'unknown';
  }

  /** The worker's end of this name, made and attached when it is first needed. */
  outlet(name: string): AgentOutlet {
    let found = this.#outlets.get(name);
    if (found === undefined) {
      const { worker, runs, log, left, came } = this.#options;
      const announced = (): void => {
        came();
        this.#descriptions.outdated();
      };
      const outlet = new AgentOutlet(name, { runs, log, left, announced });
      found = { outlet, detach: worker.attach(outlet) };
      this.#outlets.set(name, found);
    }
    return found.outlet;
  }

  /** What the worker knows of a task: its result, or whether it has it at all. */
  poll(outlet: string, taskId: string): Promise<TaskAck | TaskResult | undefined> {
    return this.#tell(fleetMessage('TASK_POLL', { task_id: taskId }), this.outlet(outlet));
  }

  /** Detaches from the worker; results wait in its outbox. */
  close(): void {
    for (const { detach } of this.#outlets.values()) detach();
    this.#outlets.clear();
  }

  async #begin(
    { run, message }: Extract<Decided, { kind: 'run' }>,
    params: SendMessageRequest,
    context: ServerCallContext,
  ): Promise<Message | Task> {
    Runs.prepare(context, run);
    try {
      return await this.#options.inner.sendMessage({ ...params, message }, context);
    } finally {
      // The SDK found something wrong with the request itself.
      if (!run.used && run.what.kind === 'begin') await run.what.abandon();
    }
  }

  async #decide(params: SendMessageRequest, context: ServerCallContext): Promise<Decided> {
    const { message } = params;
    if (!message?.messageId) return { kind: 'refuse' };
    const fleet = context.requestedExtensions?.includes(FLEET_EXTENSION) === true;
    if (fleet) context.addActivatedExtension(FLEET_EXTENSION);
    const scope = scopeOf(context);
    const call: Call = { message, context, scope, fleet, outlet: this.outlet(outletName(scope.owner, fleet)) };
    if (message.contextId !== '' && !isId(message.contextId)) throw this.#malformed('contextId is not usable as an id');
    const asked = readAsked(message, {
      fleet,
      contextId: message.contextId === '' ? null : message.contextId,
      newId: this.#options.newId,
    });
    if (asked.kind === 'message') return { kind: 'message', message: await this.#other(call, asked.message) };
    if (message.taskId === '') return this.#task(call, asked);
    const task = this.#options.store.find(scope, message.taskId);
    if (task === undefined || isEnded(task.status?.state)) return { kind: 'refuse' };
    const live = this.#options.runs.liveOf(scope, task.id);
    if (live !== undefined) return this.#steer(call, live, task);
    return this.#task({ ...call, message: { ...message, contextId: message.contextId || task.contextId } }, asked);
  }

  async #task(call: Call, asked: Exclude<Asked, { kind: 'message' }>): Promise<Decided> {
    const { worker, store, newId } = this.#options;
    const { message, outlet } = call;
    const digest = digestOfParts(message);
    if (asked.kind === 'unreadable') {
      const { taskId, errors, form } = asked;
      const result = worker.refuse(taskId, errors);
      if (result === undefined) throw this.#malformed(errors.map(({ code, path }) => `${code} ${path}`).join(', '));
      return this.#run(call, { taskId: result.task_id, attempt: 1, digest, form, what: { kind: 'end', result } });
    }
    const { dispatch, form, by } = asked;
    if (by === 'words') {
      // A client that tries again because it did not see the answer.
      const known = store.linkOfMessage(outlet.name, message.messageId, digest);
      const task = known && store.find(known, known.id);
      if (task !== undefined) return { kind: 'task', task };
    }
    const { context_id } = dispatch.envelope;
    const contextId = message.contextId || context_id || (by === 'data' ? dispatch.task_id : newId());
    // One who writes to people gets a context from here, and may go on in it.
    const envelope = by === 'data' ? dispatch.envelope : { ...dispatch.envelope, context_id: contextId };
    return this.#receive({ ...call, message: { ...message, contextId } }, { ...dispatch, envelope }, form, digest);
  }

  async #receive(call: Call, dispatch: Dispatched, form: ReplyForm, digest: string): Promise<Decided> {
    const { worker, store } = this.#options;
    const { outlet, fleet, message, context } = call;
    const { task_id: taskId } = dispatch;
    const described = fleet ? this.#descriptions.next(call.scope, message.contextId) : undefined;
    const endTurn = await this.#turns.next(taskId);
    let begins = false;
    try {
      const reception = await worker.receive(dispatch, outlet);
      if (reception.kind === 'busy') {
        context.state.set(BUSY, busyWords(fleet, reception, store.linkOf(outlet.name, taskId)));
        throw fail('over_capacity', 'the worker is busy', { reason: reception.reason });
      }
      if (reception.kind === 'replay') {
        const link = store.linkOf(outlet.name, taskId, reception.result.envelope?.attempt);
        const task = link && store.find(link, link.id);
        if (task !== undefined && isEnded(task.status?.state)) return { kind: 'task', task };
      }
      const about = { taskId, attempt: dispatch.envelope.attempt ?? 1, digest, form, announce: await described };
      if (reception.kind !== 'accepted')
        return this.#run(call, { ...about, what: { kind: 'end', result: reception.result } });
      begins = true;
      const begin = (): void => {
        reception.begin(leaseOf(dispatch));
        endTurn();
      };
      const abandon = async (): Promise<void> => {
        endTurn();
        await reception.abandon();
      };
      return this.#run(call, { ...about, what: { kind: 'begin', begin, abandon } });
    } finally {
      if (!begins) endTurn();
    }
  }

  #run(
    { message, fleet, outlet, scope }: Call,
    {
      announce,
      ...rest
    }: Pick<Run, 'taskId' | 'attempt' | 'digest' | 'form' | 'what'> & { announce?: SessionAnnounce },
  ): Decided {
    const { promise, resolve } = Promise.withResolvers<void>();
    const contextId = message.contextId || rest.taskId;
    if (announce !== undefined) this.#descriptions.told(scope, contextId);
    const opening = announce === undefined ? undefined : { data: [announce] };
    const { messageId } = message;
    const run: Run = { outlet: outlet.name, fleet, messageId, opening, heard: promise, used: false, ...rest };
    return { kind: 'run', run, message: { ...message, contextId }, hear: resolve };
  }

  /** More words for a task that is worked on. */
  async #steer({ message, outlet }: Call, live: TaskLink, task: Task): Promise<Decided> {
    const { worker, store, sdk } = this.#options;
    const text = textOf(message.parts);
    if (!worker.features.includes('steer') || text === '') {
      throw new sdk.errors.UnsupportedOperationError({
        message: 'this task takes no more input while it is worked on',
      });
    }
    const steer = fleetMessage('TASK_STEER', { task_id: live.taskId, steer_id: message.messageId, text });
    await this.#tell(steer, outlet);
    return { kind: 'task', task: store.find(live, live.id) ?? task };
  }

  /** Something about a task, or about the worker: answered with what the worker says to it. */
  async #other(call: Call, message: Exclude<Incoming, Dispatched>): Promise<Message> {
    const { worker, store } = this.#options;
    if (message.type === 'ANNOUNCE_REQUEST') {
      const contextId = message.context_id ?? null;
      return this.#answer(call, [await worker.announce(contextId)]);
    }
    if (!ABOUT_TASKS.has(message.type)) throw this.#malformed(`${message.type} is nothing a worker takes`);
    const { task_id: taskId } = message as { readonly task_id: string };
    const endTurn = await this.#turns.next(taskId);
    try {
      const link = store.linkOf(call.outlet.name, taskId, message.envelope?.attempt);
      // Tasks of others are none of this client's business.
      if (link === undefined) return this.#answer(call, [ack(taskId, { accepted: false, state: 'unknown' })]);
      if (message.type === 'TASK_CANCEL') this.#options.runs.canceling(call.outlet.name, taskId);
      const answer = await worker.handle(message, call.outlet);
      return this.#answer(call, answer === undefined ? [] : [answer], link);
    } finally {
      endTurn();
    }
  }

  #answer({ message }: Call, data: readonly FleetMessage[], link?: TaskLink): Message {
    const { newId, store } = this.#options;
    const task = link && store.find(link, link.id);
    return messageOf(ROLE.agent, {
      messageId: newId(),
      text: data.length === 0 ? 'Taken.' : '',
      data,
      contextId: task?.contextId ?? message.contextId,
      ...(link !== undefined && { referenceTaskIds: [link.id] }),
    });
  }

  async #tell(message: Incoming, outlet: AgentOutlet): Promise<TaskAck | TaskResult | undefined> {
    const { task_id } = message as { readonly task_id: string };
    const endTurn = await this.#turns.next(task_id);
    try {
      return await this.#options.worker.handle(message, outlet);
    } finally {
      endTurn();
    }
  }

  #malformed(message: string): Error {
    return new this.#options.sdk.errors.RequestMalformedError({ message });
  }
}

/** What may be said about a task. */
const ABOUT_TASKS: ReadonlySet<Incoming['type']> = new Set([
  'TASK_CANCEL',
  'TASK_STEER',
  'TASK_POLL',
  'TASK_ANSWER',
  'TASK_ACK',
]);

/** The error of a busy worker; with our extension it names the A2A task that runs already. */
function busyWords(
  fleet: boolean,
  { retryAfterS, reason }: { readonly retryAfterS: number; readonly reason: 'in_flight' | 'context' },
  running: TaskLink | undefined,
): object {
  const { error } = busyAnswer(null, fleet, retryAfterS, reason) as { error: { data?: { metadata: object }[] } };
  const [info] = error.data ?? [];
  if (info === undefined || running === undefined || reason !== 'in_flight') return error;
  return { ...error, data: [{ ...info, metadata: { ...info.metadata, task_id: running.id } }] };
}

/** No more history than was asked for. */
function trimmed(task: Task, { configuration }: SendMessageRequest): Task {
  const most = configuration?.historyLength;
  return most === undefined ? task : { ...task, history: most <= 0 ? [] : task.history.slice(-most) };
}
