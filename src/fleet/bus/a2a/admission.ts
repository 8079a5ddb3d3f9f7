/**
 * Decides on each message of an A2A client before the SDK starts a task, because the SDK turns every later failure into a
 * failed task, and a busy worker has not failed.
 *
 * @see docs/a2a.md#agent
 */
import { hash } from 'node:crypto';
import { FLEET_EXTENSION, type FleetMessage, type SessionAnnounce } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import { isId } from '../../messages/names.ts';
import { type ClientMessage, readStructured, readText } from '../plain/incoming.ts';
import type { ReplyForm } from '../plain/reply-text.ts';
import { busyError } from '../plain/rpc.ts';
import { ack, leaseOf } from '../worker-messages.ts';
import type { A2aExecution, A2aExecutions, OpenQuestion } from './executions.ts';
import { dataOf, fleetDataOf, fleetMetadata, isEnded, messageOf, ROLE, textOf } from './messages.ts';
import { readAnswer } from './questions.ts';
import { type A2aReplyChannel, channelName } from './reply-channel.ts';
import type { A2aServerSdk, Message, SendMessageRequest, ServerCallContext, Task } from './sdk.ts';
import { type A2aTaskStore, type Scope, scopeOf, type TaskLink } from './task-store.ts';
import type { A2aWorkerAdapter } from './worker-adapter.ts';

/** Name under which the SDK's context of a call holds the error of a busy worker. */
const BUSY = 'handfast.busy';
/** Longest wait for the worker's announce before a reply goes without it, milliseconds. */
const ANNOUNCE_TIMEOUT_MS = 1_500;

/** Returns the JSON-RPC error of a busy worker; undefined: it was not busy. */
export function busyIn(context: ServerCallContext): object | undefined {
  return context.state.get(BUSY) as object | undefined;
}

/** The decision on a message. */
export type Admitted =
  /** The SDK starts it; `listening` is called when its client listens. */
  | { readonly kind: 'start'; readonly execution: A2aExecution; readonly message: Message; listening(): void }
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'message'; readonly message: Message }
  /** The SDK responds with the error in it. */
  | { readonly kind: 'refuse' };

/** A call, its client and the channel of its replies. */
interface Call {
  readonly message: Message;
  readonly context: ServerCallContext;
  readonly scope: Scope;
  /** The client names the fleet extension. */
  readonly fleet: boolean;
  readonly channel: A2aReplyChannel;
}

export interface A2aAdmissionOptions {
  readonly sdk: A2aServerSdk;
  readonly executions: A2aExecutions;
  readonly store: A2aTaskStore;
  readonly adapter: A2aWorkerAdapter;
  readonly newId: () => string;
}

export class A2aAdmission {
  readonly #options: A2aAdmissionOptions;
  readonly #adapter: A2aWorkerAdapter;

  constructor(options: A2aAdmissionOptions) {
    this.#options = options;
    this.#adapter = options.adapter;
  }

  /** Fails with an error of the SDK, or with `over_capacity` when the worker is busy. */
  async admit(params: SendMessageRequest, context: ServerCallContext): Promise<Admitted> {
    const { message } = params;
    if (!message?.messageId) return { kind: 'refuse' };
    const fleet = context.requestedExtensions?.includes(FLEET_EXTENSION) === true;
    if (fleet) context.addActivatedExtension(FLEET_EXTENSION);
    const scope = scopeOf(context);
    const channel = this.#adapter.channels.get(channelName(scope.owner, fleet));
    const call: Call = { message, context, scope, fleet, channel };
    if (message.contextId !== '' && !isId(message.contextId)) throw this.#malformed('contextId is not usable as an id');
    const read = this.#read(call);
    if (read.kind === 'message') return { kind: 'message', message: await this.#other(call, read.message) };
    if (message.taskId === '') return this.#task(call, read);
    const { store, executions } = this.#options;
    const task = store.find(scope, message.taskId);
    // A client that retries because it did not receive the response.
    if (task?.history.some(({ role, messageId }) => role === ROLE.user && messageId === message.messageId))
      return { kind: 'task', task };
    if (task === undefined || isEnded(task.status?.state)) return { kind: 'refuse' };
    const inTask: Call = { ...call, message: { ...message, contextId: message.contextId || task.contextId } };
    const open = await executions.openQuestion(scope, task.id);
    if (open !== undefined) return this.#answer(inTask, open);
    const running = executions.runningTask(scope, task.id);
    if (running !== undefined) return this.#steer(call, running, task);
    return this.#task(inTask, read);
  }

  /** Reads the answer to the question that a task waits for. */
  async #answer({ message }: Call, { question, link, claim }: OpenQuestion): Promise<Admitted> {
    const read = await readAnswer(question, message);
    if (!read.ok) throw this.#malformed(read.problem);
    const release = claim();
    if (release === undefined)
      throw new this.#options.sdk.errors.UnsupportedOperationError({ message: 'the question has been answered' });
    const { promise: listening, resolve } = Promise.withResolvers<void>();
    const what = { kind: 'answer', verdict: read.verdict, release } as const;
    const form = link.form as ReplyForm;
    const execution: A2aExecution = { ...link, form, fleet: false, opening: undefined, listening, used: false, what };
    return { kind: 'start', execution, message, listening: resolve };
  }

  /** Reads a message. Without the fleet extension, data is only data. */
  #read({ message, fleet }: Call): ClientMessage {
    const contextId = message.contextId === '' ? null : message.contextId;
    const [structured] = fleet ? fleetDataOf(message.parts) : [];
    if (structured !== undefined) return readStructured(structured, contextId);
    const taskId = fleet ? fleetMetadata(message.metadata).task_id : undefined;
    return readText(textOf(message.parts) || dataText(message), {
      contextId,
      messageId: isId(message.messageId) ? message.messageId : undefined,
      ...(typeof taskId === 'string' && isId(taskId) && { taskId }),
      newId: this.#options.newId,
    });
  }

  async #task(call: Call, read: Exclude<ClientMessage, { kind: 'message' }>): Promise<Admitted> {
    const { store, newId } = this.#options;
    const { worker } = this.#adapter;
    const { message, channel } = call;
    const digest = digestOfParts(message);
    if (read.kind === 'malformed') {
      const { taskId, errors, form } = read;
      const result = worker.refuse(taskId, errors);
      if (result === undefined) throw this.#malformed(errors.map(({ code, path }) => `${code} ${path}`).join(', '));
      return this.#start(call, { taskId: result.task_id, attempt: 1, digest, form, what: { kind: 'end', result } });
    }
    const { dispatch, form, by } = read;
    if (by === 'text') {
      // A client that retries because it did not receive the response.
      const known = store.linkOfMessage(channel.name, message.messageId, digest);
      const task = known && store.find(known, known.id);
      if (task !== undefined) return { kind: 'task', task };
    }
    const { context_id } = dispatch.envelope;
    const contextId = message.contextId || context_id || (by === 'data' ? dispatch.task_id : newId());
    // A client that sends text gets a context from here, and may continue in it.
    const envelope = by === 'data' ? dispatch.envelope : { ...dispatch.envelope, context_id: contextId };
    return this.#receive({ ...call, message: { ...message, contextId } }, { ...dispatch, envelope }, form, digest);
  }

  async #receive(call: Call, dispatch: Dispatched, form: ReplyForm, digest: string): Promise<Admitted> {
    const { store } = this.#options;
    const { worker } = this.#adapter;
    const { channel, fleet, message, context } = call;
    const { task_id: taskId } = dispatch;
    const announced = fleet ? this.#announce(call.scope, message.contextId) : undefined;
    const release = await this.#adapter.locks.acquire(taskId);
    let starts = false;
    try {
      const outcome = await worker.receive(dispatch, channel);
      if (outcome.kind === 'busy' || outcome.kind === 'taken') {
        const reason = outcome.kind === 'taken' ? 'in_flight' : outcome.reason;
        const { retryAfterS } = outcome;
        // With the fleet extension the error names the A2A task that runs already.
        const running = store.linkOf(channel.name, taskId)?.id;
        // -32001 for a message in a task would mean that the task does not exist.
        const own = fleet || message.taskId !== '';
        context.state.set(BUSY, busyError(own, { retryAfterS, reason }, running));
        throw fail('over_capacity', 'the worker is busy', { reason });
      }
      if (outcome.kind === 'replay') {
        const link = store.linkOf(channel.name, taskId, outcome.result.envelope?.attempt);
        const task = link && store.find(link, link.id);
        if (task !== undefined && isEnded(task.status?.state)) return { kind: 'task', task };
      }
      const { attempt = 1 } = dispatch.envelope;
      const about = { taskId, attempt, digest, form, announce: await announced };
      if (outcome.kind !== 'accepted')
        return this.#start(call, { ...about, what: { kind: 'end', result: outcome.result } });
      starts = true;
      const start = (): void => {
        outcome.start(leaseOf(dispatch));
        release();
      };
      const abandon = async (): Promise<void> => {
        release();
        await outcome.abandon();
      };
      return this.#start(call, { ...about, what: { kind: 'start', start, abandon } });
    } finally {
      if (!starts) release();
    }
  }

  /** Returns the worker's announce, where this client has not received it in this context. */
  async #announce(scope: Scope, contextId: string): Promise<SessionAnnounce | undefined> {
    const { announced } = this.#adapter;
    return announced.has(announceKey(scope, contextId))
      ? undefined
      : announced.describe(contextId, ANNOUNCE_TIMEOUT_MS);
  }

  #start(
    { message, fleet, channel, scope }: Call,
    {
      announce,
      ...rest
    }: Pick<A2aExecution, 'taskId' | 'attempt' | 'digest' | 'form' | 'what'> & { announce?: SessionAnnounce },
  ): Admitted {
    const { promise: listening, resolve } = Promise.withResolvers<void>();
    const contextId = message.contextId || rest.taskId;
    if (announce !== undefined) this.#adapter.announced.add(announceKey(scope, contextId));
    const opening = announce === undefined ? undefined : { data: [announce] };
    const { messageId } = message;
    const execution: A2aExecution = {
      channel: channel.name,
      fleet,
      messageId,
      opening,
      listening,
      used: false,
      ...rest,
    };
    return { kind: 'start', execution, message: { ...message, contextId }, listening: resolve };
  }

  /** Takes more input for a running task. */
  async #steer({ message, channel }: Call, running: TaskLink, task: Task): Promise<Admitted> {
    const { store, sdk } = this.#options;
    const text = textOf(message.parts);
    if (!this.#adapter.worker.features.includes('steer') || text === '') {
      throw new sdk.errors.UnsupportedOperationError({
        message: 'this task takes no more input while it is worked on',
      });
    }
    await this.#adapter.steer(channel.name, running.taskId, message.messageId, text);
    return { kind: 'task', task: store.find(running, running.id) ?? task };
  }

  /** Handles a message about a task, or about the worker: the response is the worker's reply. */
  async #other(call: Call, message: Exclude<Incoming, Dispatched>): Promise<Message> {
    const { store } = this.#options;
    const { worker } = this.#adapter;
    if (message.type === 'ANNOUNCE_REQUEST') {
      return this.#reply(call, [await worker.announce(message.context_id ?? null)]);
    }
    if (!ABOUT_TASKS.has(message.type)) throw this.#malformed(`${message.type} is nothing a worker takes`);
    const { task_id: taskId } = message as { readonly task_id: string };
    return this.#adapter.locks.run(taskId, async () => {
      const link = store.linkOf(call.channel.name, taskId, message.envelope?.attempt);
      // A client sees only its own tasks.
      if (link === undefined) return this.#reply(call, [ack(taskId, { accepted: false, state: 'unknown' })]);
      if (message.type === 'TASK_CANCEL') this.#options.executions.canceling(call.channel.name, taskId);
      const reply = await worker.handle(message, call.channel);
      return this.#reply(call, reply === undefined ? [] : [reply], link);
    });
  }

  #reply({ message }: Call, data: readonly FleetMessage[], link?: TaskLink): Message {
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

/** Messages about a task. */
const ABOUT_TASKS: ReadonlySet<Incoming['type']> = new Set([
  'TASK_CANCEL',
  'TASK_STEER',
  'TASK_POLL',
  'TASK_ANSWER',
  'TASK_ACK',
]);

const announceKey = ({ tenant, owner }: Scope, contextId: string): string => JSON.stringify([tenant, owner, contextId]);

/** Returns the data of a message as text, for clients that send nothing else. */
const dataText = ({ parts }: Message): string =>
  dataOf(parts)
    .map((one) => JSON.stringify(one))
    .join('\n\n');

/**
 * Returns SHA-256 (hex) of a message's content, which distinguishes a message that was sent again from another with the same
 * id.
 */
export const digestOfParts = ({ parts, taskId }: Message): string =>
  hash('sha256', JSON.stringify([taskId, parts.map(({ content }) => content)]));
