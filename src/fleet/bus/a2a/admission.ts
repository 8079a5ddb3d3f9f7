/**
 * What is to be done about a message of an A2A client: whether the worker takes it is decided here, before the SDK begins a
 * task, because the SDK makes every failure after that a failed task, and a busy worker has not failed.
 *
 * Used by `request-handler.ts`.
 * @see docs/a2a.md#agent
 */
import { FLEET_EXTENSION, type FleetMessage, type SessionAnnounce } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { isId } from '../../messages/names.ts';
import { busyAnswer } from '../http/messages.ts';
import { type Asked, digestOfParts, readAsked } from '../plain/incoming.ts';
import type { ReplyForm } from '../plain/reply-text.ts';
import { ack, leaseOf } from '../worker-messages.ts';
import type { A2aExecution, A2aExecutions } from './executions.ts';
import { isEnded, messageOf, ROLE, textOf } from './messages.ts';
import { type A2aReplyChannel, channelName } from './reply-channel.ts';
import type { A2aServerSdk, Message, SendMessageRequest, ServerCallContext, Task } from './sdk.ts';
import { type A2aTaskStore, type Scope, scopeOf, type TaskLink } from './task-store.ts';
import type { A2aWorkerAdapter } from './worker-adapter.ts';

/** Under this name the SDK's context of a call holds the answer of a busy worker. */
const BUSY = 'handfast.busy';

/** The JSON-RPC answer of a busy worker, without its id; undefined: it was not busy. */
export function busyIn(context: ServerCallContext): object | undefined {
  return context.state.get(BUSY) as object | undefined;
}

/** What is to be done about a message. */
export type Decided =
  /** The SDK runs it. */
  | { readonly kind: 'run'; readonly run: A2aExecution; readonly message: Message; hear(): void }
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
  readonly outlet: A2aReplyChannel;
}

export interface DecisionsOptions {
  readonly sdk: A2aServerSdk;
  readonly runs: A2aExecutions;
  readonly store: A2aTaskStore;
  readonly end: A2aWorkerAdapter;
  readonly newId: () => string;
}

export class A2aAdmission {
  readonly #options: DecisionsOptions;
  readonly #end: A2aWorkerAdapter;

  constructor(options: DecisionsOptions) {
    this.#options = options;
    this.#end = options.end;
  }

  /** Fails with an error of the SDK, or as a worker that is busy. */
  async decide(params: SendMessageRequest, context: ServerCallContext): Promise<Decided> {
    const { message } = params;
    if (!message?.messageId) return { kind: 'refuse' };
    const fleet = context.requestedExtensions?.includes(FLEET_EXTENSION) === true;
    if (fleet) context.addActivatedExtension(FLEET_EXTENSION);
    const scope = scopeOf(context);
    const call: Call = { message, context, scope, fleet, outlet: this.#end.outlet(channelName(scope.owner, fleet)) };
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
    const { store, newId } = this.#options;
    const { worker } = this.#end;
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
    const { store } = this.#options;
    const { worker } = this.#end;
    const { outlet, fleet, message, context } = call;
    const { task_id: taskId } = dispatch;
    const described = fleet ? this.#end.descriptions.next(call.scope, message.contextId) : undefined;
    const endTurn = await this.#end.turns.acquire(taskId);
    let begins = false;
    try {
      const reception = await worker.receive(dispatch, outlet);
      if (reception.kind === 'busy' || reception.kind === 'taken') {
        const reason = reception.kind === 'taken' ? 'in_flight' : reception.reason;
        const { retryAfterS } = reception;
        context.state.set(BUSY, busyWords(fleet, { retryAfterS, reason }, store.linkOf(outlet.name, taskId)));
        throw fail('over_capacity', 'the worker is busy', { reason });
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
    }: Pick<A2aExecution, 'taskId' | 'attempt' | 'digest' | 'form' | 'what'> & { announce?: SessionAnnounce },
  ): Decided {
    const { promise, resolve } = Promise.withResolvers<void>();
    const contextId = message.contextId || rest.taskId;
    if (announce !== undefined) this.#end.descriptions.told(scope, contextId);
    const opening = announce === undefined ? undefined : { data: [announce] };
    const { messageId } = message;
    const run: A2aExecution = { outlet: outlet.name, fleet, messageId, opening, heard: promise, used: false, ...rest };
    return { kind: 'run', run, message: { ...message, contextId }, hear: resolve };
  }

  /** More words for a task that is worked on. */
  async #steer({ message, outlet }: Call, live: TaskLink, task: Task): Promise<Decided> {
    const { store, sdk } = this.#options;
    const { worker } = this.#end;
    const text = textOf(message.parts);
    if (!worker.features.includes('steer') || text === '') {
      throw new sdk.errors.UnsupportedOperationError({
        message: 'this task takes no more input while it is worked on',
      });
    }
    const steer = fleetMessage('TASK_STEER', { task_id: live.taskId, steer_id: message.messageId, text });
    await this.#end.tell(steer, outlet);
    return { kind: 'task', task: store.find(live, live.id) ?? task };
  }

  /** Something about a task, or about the worker: answered with what the worker says to it. */
  async #other(call: Call, message: Exclude<Incoming, Dispatched>): Promise<Message> {
    const { store } = this.#options;
    const { worker } = this.#end;
    if (message.type === 'ANNOUNCE_REQUEST') {
      const contextId = message.context_id ?? null;
      return this.#answer(call, [await worker.announce(contextId)]);
    }
    if (!ABOUT_TASKS.has(message.type)) throw this.#malformed(`${message.type} is nothing a worker takes`);
    const { task_id: taskId } = message as { readonly task_id: string };
    const endTurn = await this.#end.turns.acquire(taskId);
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
