/**
 * One A2A agent as a peer of the orchestrator. A worker of ours gets messages of the fleet protocol in data parts, any other
 * agent gets hints in the text or the bare brief. What it says to them is read by `inbound.ts`.
 *
 * Made by `orchestrator-bus.ts`, one for each configured agent.
 * @see docs/a2a.md#peers
 */

import type { BackoffOptions } from '../../../base/backoff.ts';
import type { Log } from '../../../base/log.ts';
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import { fleetMessage } from '../../messages/encode.ts';
import type { DispatchMode, PeerEvents } from '../peer.ts';
import type { HealthCheckedPeer } from '../plain/peer-health.ts';
import { taskText } from '../plain/task-text.ts';
import { TaskLocks } from '../task-locks.ts';
import { ack } from '../worker-messages.ts';
import type { Attempt, GivenAttempt } from './attempts.ts';
import { A2aConnection, bytesOf, callFailure } from './connection.ts';
import { A2aInbound } from './inbound.ts';
import { fleetDataOf, isSettled, messageOf, ROLE, STATE, textPart } from './messages.ts';
import type { Message, SendMessageRequest, Task } from './sdk.ts';
import type { A2aPeerOptions } from './settings.ts';

/** What a peer needs of its bus. */
export interface A2aPeerOwner {
  readonly events: PeerEvents;
  readonly log: Log;
  readonly callTimeoutMs: number | undefined;
  readonly pollDelay: BackoffOptions | undefined;
  readonly newId: () => string;
  readonly stopping: AbortSignal;
  /** Something happened that the agent should be looked at for. */
  doubt(peer: A2aPeer): void;
}

/** What can be asked of every A2A agent; the bus says it in the words of the fleet. */
const OF_ANY_AGENT: ReadonlySet<Feature> = new Set(['ack', 'progress', 'lease', 'cancel', 'poll']);
/** Longest request: what agents of ours take. */
const MAX_REQUEST_BYTES = 1024 * 1024;
/** Messages that wait for their turn at one task. */
const MAX_WAITING = 100;
const NOTHING: ReadonlySet<Feature> = new Set();

export class A2aPeer implements HealthCheckedPeer {
  readonly peerId: string;
  readonly binding = 'a2a';
  readonly durable = false;
  readonly connection: A2aConnection;
  reachable = false;
  readonly #owner: A2aPeerOwner;
  readonly #hearing: A2aInbound;
  readonly #turns = new TaskLocks();
  #waiting = 0;

  constructor({ id, ...agent }: A2aPeerOptions, owner: A2aPeerOwner) {
    const { log, callTimeoutMs } = owner;
    this.peerId = id;
    this.connection = new A2aConnection({ ...agent, name: id, log, callTimeoutMs });
    this.#owner = owner;
    this.#hearing = new A2aInbound(this, owner);
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

  /** Reads the card; true: it is another one than before. Fails as `A2aConnection.discover` does. */
  probe(): Promise<boolean> {
    return this.connection.discover(this.#owner.stopping);
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
    await this.#hearing.answered(about, said);
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
      if (typeof id === 'string') this.#hearing.watch({ ...about, id });
      return fail('over_capacity', error.message, detail, error);
    }
    if (error.code === 'not_found') return fail('invalid_message', error.message, error.detail, error);
    if (error.code !== 'invalid_message') this.#owner.doubt(this);
    return error;
  }

  async #say(message: FleetMessage): Promise<void> {
    if (this.structured) return this.#tell(message);
    const { task_id: taskId } = message as { readonly task_id?: string };
    const attempt = message.envelope?.attempt;
    if (taskId === undefined) return;
    if (message.type !== 'TASK_POLL' && message.type !== 'TASK_CANCEL') return;
    const known = this.#hearing.known(taskId, attempt) ?? (await this.#search(taskId, attempt));
    // Not to be found is not the same as not to be there: the lease decides then.
    if (known === undefined) return;
    const { reached } = this.connection;
    const options = this.connection.call(false, this.#owner.stopping);
    const cancel = message.type === 'TASK_CANCEL';
    const task = cancel
      ? await reached?.client.cancelTask({ tenant: '', id: known.id, metadata: undefined }, options)
      : await reached?.client.getTask({ tenant: '', id: known.id }, options);
    if (task === undefined) return;
    if (isSettled(task.status?.state)) return this.#hearing.settle(known, task);
    const state = task.status?.state === STATE.working ? 'running' : 'accepted';
    this.#hearing.hear(ack(taskId, { accepted: true, state }, { attempt: known.attempt }));
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
    this.#hearing.hearData(said.parts);
    const [id] = said.referenceTaskIds;
    if (id === undefined || taskId === undefined) return;
    const running = fleetDataOf(said.parts)
      .map((one) => decodeValue(one))
      .find((one) => one.valid && one.message.type === 'TASK_ACK' && one.message.accepted);
    if (running === undefined) return;
    // Of an earlier process of this orchestrator: it is only now known where its end will be.
    const attempt = (running.valid && running.message.envelope?.attempt) || (message.envelope?.attempt ?? 1);
    this.#hearing.watch({ taskId, attempt, replySchema: 'structured', structured: true, id });
  }

  #unsaid(message: FleetMessage, thrown: unknown): void {
    const { log, stopping } = this.#owner;
    if (stopping.aborted) return;
    const failure = callFailure(thrown, this.peerId, { newTask: this.structured });
    log.debug('a message did not arrive', { peer: this.peerId, type: message.type, error: failure.message });
    if (failure.code === 'not_found') this.#hearing.lost(message);
    else this.#owner.doubt(this);
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
    this.#hearing.watch({ taskId, attempt, replySchema: 'structured', structured: false, id: found.id });
    return this.#hearing.known(taskId, attempt);
  }

  // Small things.

  async #inTurn<T>(taskId: string, work: () => Promise<T>): Promise<T> {
    if (taskId === '') return work();
    const end = await this.#turns.acquire(taskId);
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
