/**
 * One A2A agent as a peer of the orchestrator. A worker of ours gets messages of the fleet protocol in data parts, any other
 * agent gets hints in the text or the bare brief; what becomes of a task is watched until it has settled, and read by the
 * tables.
 *
 * Made by `peer-bus.ts`, one for each configured agent.
 * @see docs/a2a.md#peers
 */
import type { Log } from '../../../host/context.ts';
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Incoming, Reported } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { taskText } from '../http/task-text.ts';
import { ack } from '../intake.ts';
import { received } from '../orchestrator-side.ts';
import type { DispatchMode, FleetPeer, PeerEvents } from '../peer.ts';
import { pause, RetryDelay, type RetryDelayOptions, within } from '../retry-delay.ts';
import { type Attempt, Attempts, type GivenAttempt } from './attempts.ts';
import { A2aConnection, bytesOf, callFailure } from './connection.ts';
import { follow } from './follow.ts';
import { fleetDataOf, fleetMetadata, isSettled, messageOf, ROLE, STATE, textOf, textPart } from './parts.ts';
import type { Message, SendMessageRequest, StreamResponse, Task } from './sdk.ts';
import type { A2aPeerOptions } from './settings.ts';
import { type ReadReply, resultOfMessage, resultOfTask } from './states.ts';
import { TaskTurns } from './task-turns.ts';

/** What a peer needs of its bus. */
export interface A2aPeerOwner {
  readonly events: PeerEvents;
  readonly log: Log;
  readonly callTimeoutMs: number | undefined;
  readonly pollDelay: RetryDelayOptions | undefined;
  readonly newId: () => string;
  readonly stopping: AbortSignal;
  /** Something happened that the agent should be looked at for. */
  doubt(peer: A2aPeer): void;
}

/** What can be asked of every A2A agent; the bus says it in the words of the fleet. */
const OF_ANY_AGENT: ReadonlySet<Feature> = new Set(['ack', 'progress', 'lease', 'cancel', 'poll']);
/** Messages that come from workers. */
const FROM_WORKERS: ReadonlySet<Incoming['type']> = new Set([
  'SESSION_ANNOUNCE',
  'TASK_ACK',
  'TASK_PROGRESS',
  'TASK_QUESTION',
  'TASK_RESULT',
]);
/** Longest request: what agents of ours take. */
const MAX_REQUEST_BYTES = 1024 * 1024;
/** Subscriptions at a time; the tasks past that are asked for. */
const MAX_STREAMS = 64;
/** How long a dispatch waits for its subscription to stand, milliseconds. */
const LISTEN_MS = 2_000;
/** Messages that wait for their turn at one task. */
const MAX_WAITING = 100;
const NOTHING: ReadonlySet<Feature> = new Set();

export class A2aPeer implements FleetPeer {
  readonly peerId: string;
  readonly binding = 'a2a';
  readonly durable = false;
  readonly connection: A2aConnection;
  reachable = false;
  readonly #owner: A2aPeerOwner;
  readonly #attempts = new Attempts();
  readonly #turns = new TaskTurns();
  #waiting = 0;
  #streams = 0;

  constructor({ id, ...agent }: A2aPeerOptions, owner: A2aPeerOwner) {
    const { log, callTimeoutMs } = owner;
    this.peerId = id;
    this.connection = new A2aConnection({ ...agent, name: id, log, callTimeoutMs });
    this.#owner = owner;
  }

  get address(): string {
    return this.connection.address;
  }

  get structured(): boolean {
    return this.connection.reached?.fleet === true;
  }

  get features(): ReadonlySet<Feature> {
    const { reached } = this.connection;
    if (reached === undefined) return NOTHING;
    return reached.fleet ? reached.features : OF_ANY_AGENT;
  }

  /** Asks the agent to describe itself, where it can. Fails as a call does. */
  async askAnnounce(contextId: string | null = null): Promise<void> {
    if (!this.features.has('announce')) return;
    await this.#tell(fleetMessage('ANNOUNCE_REQUEST', contextId === null ? {} : { context_id: contextId }));
  }

  async send(
    message: FleetMessage,
    how: { readonly mode: DispatchMode; readonly signal?: AbortSignal },
  ): Promise<void> {
    if (this.#owner.stopping.aborted) this.#gone();
    if (message.type === 'TASK_DISPATCH') return this.#inTurn(message.task.task_id, () => this.#dispatch(message, how));
    if (!this.reachable) this.#gone();
    if (this.#waiting >= MAX_WAITING) throw fail('over_capacity', `too much waits to be said to ${this.peerId}`);
    const taskId = (message as { readonly task_id?: string }).task_id ?? '';
    // On its way: what is said about a task waits behind its dispatch, and its answer comes as a message.
    this.#waiting += 1;
    this.#inTurn(taskId, () => this.#say(message))
      .catch((thrown: unknown) => this.#unsaid(message, thrown))
      .finally(() => {
        this.#waiting -= 1;
      });
  }

  /** Watches the A2A task of an attempt from now on, unless it is watched already. */
  watch(about: GivenAttempt): void {
    const known = this.#attempts.get(about.taskId, about.attempt);
    if (known?.id !== about.id) void this.#follow(this.#attempts.begin(about));
  }

  // To the agent.

  async #dispatch(
    dispatch: TaskDispatch,
    { mode, signal }: { readonly mode: DispatchMode; readonly signal?: AbortSignal },
  ) {
    const { reached } = this.connection;
    if (reached === undefined || !this.reachable) return this.#gone();
    const { task, envelope } = dispatch;
    const structured = mode === 'structured' && reached.fleet;
    const about = {
      taskId: task.task_id,
      attempt: envelope?.attempt ?? 1,
      // One that was sent the bare brief was asked for nothing but words.
      replySchema: mode === 'plain' ? 'prose' : (task.reply_schema ?? 'structured'),
      structured,
    } as const;
    let said: Message | Task;
    try {
      const { stopping } = this.#owner;
      const options = this.connection.call(
        structured,
        signal === undefined ? stopping : AbortSignal.any([signal, stopping]),
      );
      said = await reached.client.sendMessage(this.#request(dispatch, mode, structured), options);
    } catch (thrown) {
      throw this.#failed(callFailure(thrown, this.peerId, { newTask: true }), about);
    }
    if (!('status' in said))
      return this.#settled(this.#attempts.begin({ ...about, id: '' }), resultOfMessage(said, about));
    const attempt = this.#attempts.begin({ ...about, id: said.id });
    this.#hearTask(attempt, said);
    if (isSettled(said.status?.state)) return this.#settle(attempt, said);
    this.#hear(ack(about.taskId, { accepted: true, state: 'accepted' }, { attempt: about.attempt }));
    await this.#listened(attempt);
  }

  #request(dispatch: TaskDispatch, mode: DispatchMode, structured: boolean): SendMessageRequest {
    const { task, envelope } = dispatch;
    const { task_id } = task;
    const request: SendMessageRequest = {
      tenant: '',
      message: messageOf(ROLE.user, {
        messageId: `${task_id}#${envelope?.attempt ?? 1}`,
        contextId: envelope?.context_id ?? '',
        text: taskText(dispatch, mode),
        ...(structured && {
          data: [dispatch],
          fleet: { task_id, protocol_version: dispatch.protocol_version },
        }),
      }),
      configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true },
      metadata: undefined,
    };
    if (!structured || bytesOf(request) <= MAX_REQUEST_BYTES) return request;
    // The data says all of it; the text is for those who do not read data.
    const [, ...data] = request.message?.parts ?? [];
    const parts = [textPart('The task is in the data of this message.'), ...data];
    return { ...request, message: { ...(request.message as Message), parts } };
  }

  /** What a failed dispatch is to the orchestrator. An agent that runs the task already names it, and it is watched. */
  #failed(error: HandfastError, about: Omit<GivenAttempt, 'id'>): HandfastError {
    if (error.code === 'over_capacity') {
      const { a2a_task: id, ...detail } = error.detail;
      if (typeof id === 'string') this.watch({ ...about, id });
      return fail('over_capacity', error.message, detail, error);
    }
    if (error.code === 'not_found') return fail('invalid_message', error.message, error.detail, error);
    if (error.code !== 'invalid_message') this.#owner.doubt(this);
    return error;
  }

  async #listened(attempt: Attempt): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    void this.#follow(attempt, resolve);
    // What was told before this stands is not lost, only what is over by then: progress.
    await within(promise, LISTEN_MS, () => fail('timeout', 'the subscription does not stand yet')).catch(() => {});
  }

  async #say(message: FleetMessage): Promise<void> {
    if (this.structured) return this.#tell(message);
    const { task_id: taskId } = message as { readonly task_id?: string };
    const attempt = message.envelope?.attempt;
    if (taskId === undefined) return;
    if (message.type !== 'TASK_POLL' && message.type !== 'TASK_CANCEL') return;
    const known = this.#attempts.get(taskId, attempt) ?? (await this.#search(taskId, attempt));
    // Not to be found is not the same as not to be there: the lease decides then.
    if (known === undefined) return;
    const { reached } = this.connection;
    const options = this.connection.call(false, this.#owner.stopping);
    const cancel = message.type === 'TASK_CANCEL';
    const task = cancel
      ? await reached?.client.cancelTask({ tenant: '', id: known.id, metadata: undefined }, options)
      : await reached?.client.getTask({ tenant: '', id: known.id }, options);
    if (task === undefined) return;
    if (isSettled(task.status?.state)) return this.#settle(known, task);
    const state = task.status?.state === STATE.working ? 'running' : 'accepted';
    this.#hear(ack(taskId, { accepted: true, state }, { attempt: known.attempt }));
  }

  /** Sends a message of the fleet protocol about something; hears the answer. */
  async #tell(message: FleetMessage): Promise<void> {
    const { newId, stopping } = this.#owner;
    const { task_id: taskId } = message as { readonly task_id?: string };
    const { reached } = this.connection;
    if (reached === undefined) return this.#gone();
    const said = await reached.client.sendMessage(
      {
        tenant: '',
        message: messageOf(ROLE.user, { messageId: newId(), text: message.type, data: [message] }),
        configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true },
        metadata: undefined,
      },
      this.connection.call(true, stopping),
    );
    if ('status' in said) return;
    this.#hearData(said.parts);
    const [id] = said.referenceTaskIds;
    if (id === undefined || taskId === undefined) return;
    const running = fleetDataOf(said.parts)
      .map((one) => decodeValue(one))
      .find((one) => one.valid && one.message.type === 'TASK_ACK' && one.message.accepted);
    if (running === undefined) return;
    // Of an earlier process of this orchestrator: it is only now known where its end will be.
    const attempt = (running.valid && running.message.envelope?.attempt) || (message.envelope?.attempt ?? 1);
    this.watch({ taskId, attempt, replySchema: 'structured', structured: true, id });
  }

  #unsaid(message: FleetMessage, thrown: unknown): void {
    const { log, stopping } = this.#owner;
    if (stopping.aborted) return;
    const failure = callFailure(thrown, this.peerId, { newTask: this.structured });
    log.debug('a message did not arrive', { peer: this.peerId, type: message.type, error: failure.message });
    if (failure.code === 'not_found') this.#lost(message);
    else this.#owner.doubt(this);
  }

  /** The agent does not know the task any more. */
  #lost(message: FleetMessage): void {
    const { task_id: taskId } = message as { readonly task_id?: string };
    if (taskId === undefined) return;
    const attempt = message.envelope?.attempt;
    this.#hear(ack(taskId, { accepted: false, state: 'unknown' }, attempt === undefined ? undefined : { attempt }));
  }

  /** The A2A task of an attempt that an earlier process had sent: among the latest of the agent, by the id of its message. */
  async #search(taskId: string, attempt = 1): Promise<Attempt | undefined> {
    const options = this.connection.call(false, this.#owner.stopping);
    const listed = await this.connection.reached?.client.listTasks(
      { tenant: '', contextId: '', status: 0, pageSize: 100, pageToken: '', statusTimestampAfter: undefined },
      options,
    );
    const messageId = `${taskId}#${attempt}`;
    const found = listed?.tasks.find(({ history }) => history.some((one) => one.messageId === messageId));
    if (found === undefined) return undefined;
    this.watch({ taskId, attempt, replySchema: 'structured', structured: false, id: found.id });
    return this.#attempts.get(taskId, attempt);
  }

  // From the agent.

  /** Watches until the task has settled and the orchestrator has its result. Never rejects. */
  async #follow(attempt: Attempt, listening?: () => void): Promise<void> {
    const { stopping, pollDelay, log } = this.#owner;
    const { id, structured, taskId } = attempt;
    let streams = 0;
    try {
      const task = await follow({
        connection: this.connection,
        fleet: structured,
        id,
        signal: stopping,
        delay: pollDelay,
        mayStream: () => {
          if (streams === 0 && this.#streams >= MAX_STREAMS) return false;
          this.#streams += 1 - streams;
          streams = 1;
          return true;
        },
        heard: (event) => this.#event(attempt, event),
        listening,
      });
      this.#settle(attempt, task);
    } catch (thrown) {
      if (stopping.aborted) return;
      const error = asError(thrown);
      log.warn('a task is not watched any more', { peer: this.peerId, task_id: taskId, error: error.message });
      if (error.code === 'not_found')
        this.#lost(fleetMessage('TASK_POLL', { task_id: taskId }, { attempt: attempt.attempt }));
    } finally {
      this.#streams -= streams;
      listening?.();
      this.#attempts.forget(attempt);
    }
  }

  #event(attempt: Attempt, event: NonNullable<StreamResponse['payload']>): void {
    if (event.$case === 'task') this.#hearTask(attempt, event.value);
    else if (event.$case === 'statusUpdate') this.#hearMessage(attempt, event.value.status?.message);
  }

  /** What a task tells beside its end. */
  #hearTask(attempt: Attempt, { history, status }: Task): void {
    for (const message of history) this.#hearMessage(attempt, message);
    this.#hearMessage(attempt, status?.message);
  }

  /** Each message once, in the order they are heard. */
  #hearMessage(attempt: Attempt, message: Message | undefined): void {
    if (message === undefined || message.role === ROLE.user || !attempt.isNews(message.messageId)) return;
    const progress = attempt.structured ? fleetMetadata(message.metadata) : {};
    if (progress.type === 'TASK_PROGRESS') return this.#hearValue(progress, attempt);
    if (attempt.structured) return this.#hearData(message.parts, attempt);
    const note = textOf(message.parts).slice(0, 500);
    if (note === '') return;
    attempt.progress += 1;
    const { taskId: task_id, attempt: number, progress: seq } = attempt;
    this.#hear(fleetMessage('TASK_PROGRESS', { task_id, seq, phase: 'working', note }, { attempt: number }));
  }

  #hearData(parts: Message['parts'], attempt?: Attempt): void {
    for (const value of fleetDataOf(parts)) this.#hearValue(value, attempt);
  }

  #hearValue(value: object, attempt: Attempt | undefined): void {
    const decoded = decodeValue(value);
    if (!decoded.valid) {
      this.#owner.events.unreadable(
        this,
        decoded.errors.map(({ code }) => code),
      );
      return;
    }
    const { message } = decoded;
    if (!FROM_WORKERS.has(message.type)) return;
    if (message.type === 'TASK_RESULT') {
      void this.#keep(message);
      return;
    }
    const { envelope } = message;
    const own = attempt === undefined || envelope?.attempt !== undefined || message.type === 'SESSION_ANNOUNCE';
    this.#hear(own ? message : ({ ...message, envelope: { ...envelope, attempt: attempt.attempt } } as Incoming));
  }

  #settle(attempt: Attempt, task: Task): void {
    const reply = resultOfTask(task, attempt);
    if (reply !== undefined) this.#settled(attempt, reply);
  }

  #settled(attempt: Attempt, { result, announce }: ReadReply): void {
    if (attempt.over) return;
    if (announce !== null) this.#hear(announce);
    attempt.over = true;
    this.#attempts.forget(attempt);
    // The agent keeps its task; whoever sent the dispatch does not wait for what the orchestrator does with its end.
    void this.#keep(result);
  }

  /** Tells a result until the orchestrator has kept it. Never rejects. */
  async #keep(result: Reported): Promise<void> {
    const { events, stopping, log } = this.#owner;
    const delay = new RetryDelay(this.#owner.pollDelay);
    while (!stopping.aborted) {
      try {
        return await received(events, this, result);
      } catch (thrown) {
        const { code, message } = asError(thrown);
        log.warn('a result was not kept', { peer: this.peerId, task_id: result.task_id, code, error: message });
      }
      await pause(delay.next(), stopping);
    }
  }

  #hear(message: Incoming): void {
    const { events, stopping, log } = this.#owner;
    if (stopping.aborted) return;
    received(events, this, message).catch((thrown: unknown) => {
      log.warn('a message was not kept', { peer: this.peerId, type: message.type, error: asError(thrown).message });
    });
  }

  // Small things.

  async #inTurn<T>(taskId: string, work: () => Promise<T>): Promise<T> {
    if (taskId === '') return work();
    const end = await this.#turns.next(taskId);
    try {
      return await work();
    } finally {
      end();
    }
  }

  #gone(): never {
    throw fail('unreachable', `${this.peerId} is not there`, { peer: this.peerId });
  }
}
