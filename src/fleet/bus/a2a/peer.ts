/**
 * One A2A agent as a peer of the orchestrator. A Handfast worker receives messages of the fleet protocol in data parts, any
 * other agent hints in the text or the bare brief. `inbound.ts` reads its messages.
 *
 * One for each configured agent.
 * @see docs/a2a.md#peers
 */
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import { fleetMessage } from '../../messages/encode.ts';
import type { SendOptions } from '../peer.ts';
import { MAX_BODY_BYTES } from '../plain/http-server.ts';
import type { GivenTask, OpenTask } from '../plain/open-tasks.ts';
import type { PlainPeerOptions } from '../plain/orchestrator-bus.ts';
import type { HealthCheckedPeer } from '../plain/peer-health.ts';
import { DATA_SAYS_ALL, replySchemaOf, taskText } from '../plain/task-text.ts';
import { TaskLocks } from '../task-locks.ts';
import { ack } from '../worker-messages.ts';
import { A2aConnection, bytesOf, callFailure } from './connection.ts';
import { A2aInbound, type A2aPeerOwner, asksForInput } from './inbound.ts';
import { fleetDataOf, isSettled, messageOf, RETURN_AT_ONCE, ROLE, STATE, textPart } from './messages.ts';
import type { Message, SendMessageRequest, Task } from './sdk.ts';

/** Features that every A2A agent supports; the bus translates its messages into messages of the fleet protocol. */
const OF_ANY_AGENT: ReadonlySet<Feature> = new Set(['ack', 'progress', 'lease', 'cancel', 'poll', 'questions']);
/** Messages that wait for the lock of their task. */
const MAX_WAITING = 100;
/** Pages of 100 tasks that are searched for one of an earlier process. */
const MAX_PAGES = 20;
const NOTHING: ReadonlySet<Feature> = new Set();

export class A2aPeer implements HealthCheckedPeer {
  readonly peerId: string;
  readonly binding = 'a2a';
  readonly durable = false;
  readonly #connection: A2aConnection;
  reachable = false;
  readonly #owner: A2aPeerOwner;
  readonly #inbound: A2aInbound;
  readonly #locks = new TaskLocks();
  #waiting = 0;

  constructor(options: PlainPeerOptions, owner: A2aPeerOwner) {
    const { client, log, callTimeoutMs } = owner;
    this.peerId = options.name;
    this.#connection = new A2aConnection({ ...options, client, log, callTimeoutMs });
    this.#owner = owner;
    this.#inbound = new A2aInbound(this, this.#connection, owner);
  }

  get address(): string {
    return this.#connection.address;
  }

  get structured(): boolean {
    return this.#connection.reached?.fleet === true;
  }

  get features(): ReadonlySet<Feature> {
    const { reached } = this.#connection;
    if (reached === undefined) return NOTHING;
    return reached.fleet ? reached.features : OF_ANY_AGENT;
  }

  /** Reads the card; true: it has changed. Fails as `A2aConnection.discover` does. */
  probe(): Promise<boolean> {
    return this.#connection.discover(this.#owner.stopping);
  }

  /** Requests the announce of an agent that has one. Fails as a call does. */
  async askAnnounce(contextId: string | null = null): Promise<void> {
    if (!this.features.has('announce')) return;
    await this.#sendMessage(fleetMessage('ANNOUNCE_REQUEST', contextId === null ? {} : { context_id: contextId }));
  }

  async send(message: FleetMessage, how: SendOptions): Promise<void> {
    if (this.#owner.stopping.aborted) throw this.#unreachable();
    if (message.type === 'TASK_DISPATCH') {
      return this.#locks.run(message.task.task_id, () => this.#dispatch(message, how));
    }
    if (!this.reachable) throw this.#unreachable();
    if (this.#waiting >= MAX_WAITING) throw fail('over_capacity', `the send queue of ${this.peerId} is full`);
    const taskId = (message as { readonly task_id?: string }).task_id ?? '';
    // Resolves at once: a message about a task waits behind its dispatch, and its reply comes as a message.
    this.#waiting += 1;
    this.#locks
      .run(taskId, () => this.#translate(message))
      .catch((thrown: unknown) => this.#notSent(message, thrown))
      .finally(() => {
        this.#waiting -= 1;
      });
  }

  // To the agent.

  async #dispatch(dispatch: TaskDispatch, { mode, signal }: SendOptions): Promise<void> {
    const { reached } = this.#connection;
    if (reached === undefined || !this.reachable) throw this.#unreachable();
    const { task, envelope } = dispatch;
    const structured = mode === 'structured' && reached.fleet;
    const given: GivenTask = {
      taskId: task.task_id,
      attempt: envelope?.attempt ?? 1,
      replySchema: replySchemaOf(dispatch, mode),
      structured,
    };
    let response: Message | Task;
    try {
      const { stopping } = this.#owner;
      const either = signal === undefined ? stopping : AbortSignal.any([signal, stopping]);
      const request = this.#request(dispatch, taskText(dispatch, mode), structured);
      response = await reached.client.sendMessage(request, this.#connection.call(structured, either));
    } catch (thrown) {
      throw this.#failed(callFailure(thrown, this.peerId, { newTask: true }), given);
    }
    await this.#inbound.dispatched(given, response);
  }

  #request(dispatch: TaskDispatch, text: string, structured: boolean): SendMessageRequest {
    const { task, envelope, protocol_version } = dispatch;
    const { task_id } = task;
    const message = messageOf(ROLE.user, {
      messageId: `${task_id}#${envelope?.attempt ?? 1}`,
      contextId: envelope?.context_id ?? '',
      text,
      ...(structured && { data: [dispatch], fleet: { task_id, protocol_version } }),
    });
    const request: SendMessageRequest = { tenant: '', message, configuration: RETURN_AT_ONCE, metadata: undefined };
    if (!structured || bytesOf(request) <= MAX_BODY_BYTES) return request;
    const [, ...data] = message.parts;
    return { ...request, message: { ...message, parts: [textPart(DATA_SAYS_ALL), ...data] } };
  }

  /**
   * Returns the failure of a dispatch for the orchestrator. An agent that runs the task already names it, and it is followed.
   */
  #failed(error: HandfastError, given: GivenTask): HandfastError {
    if (error.code === 'over_capacity') {
      const { a2a_task: id, ...detail } = error.detail;
      if (typeof id === 'string') this.#inbound.follow({ ...given, id });
      return fail('over_capacity', error.message, detail, error);
    }
    if (error.code === 'not_found') return fail('invalid_message', error.message, error.detail, error);
    if (error.code !== 'invalid_message') this.#owner.probeNow(this);
    return error;
  }

  /** Sends a message as it is, or as the call of A2A that means the same. */
  async #translate(message: FleetMessage): Promise<void> {
    if (this.structured) return this.#sendMessage(message);
    const { task_id: taskId } = message as { readonly task_id?: string };
    if (taskId === undefined) return;
    if (message.type === 'TASK_ANSWER') return this.#inbound.answer(message);
    if (message.type !== 'TASK_POLL' && message.type !== 'TASK_CANCEL') return;
    const attempt = message.envelope?.attempt;
    const open = this.#inbound.tasks.get(taskId, attempt) ?? (await this.#search(taskId, attempt));
    // A task that is not found may still exist: the lease decides then.
    if (open === undefined) return;
    const { reached } = this.#connection;
    const options = this.#connection.call(false, this.#owner.stopping);
    const task =
      message.type === 'TASK_CANCEL'
        ? await reached?.client.cancelTask({ tenant: '', id: open.id, metadata: undefined }, options)
        : await reached?.client.getTask({ tenant: '', id: open.id }, options);
    if (task === undefined) return;
    // An agent that asks has its question follow its task, and continues when that is answered.
    if (isSettled(task.status?.state) && !asksForInput(task, open)) return this.#inbound.settle(open, task);
    const state = task.status?.state === STATE.submitted ? 'accepted' : 'running';
    this.#inbound.forwardInBackground(ack(taskId, { accepted: true, state }, { attempt: open.attempt }));
  }

  /** Sends a message of the fleet protocol that is not a dispatch, and reads the response. */
  async #sendMessage(message: FleetMessage): Promise<void> {
    const { newId, stopping } = this.#owner;
    const { task_id: taskId } = message as { readonly task_id?: string };
    const { reached } = this.#connection;
    if (reached === undefined) throw this.#unreachable();
    const sent = messageOf(ROLE.user, { messageId: newId(), text: message.type, data: [message] });
    const response = await reached.client.sendMessage(
      { tenant: '', message: sent, configuration: RETURN_AT_ONCE, metadata: undefined },
      this.#connection.call(true, stopping),
    );
    if ('status' in response) return;
    this.#inbound.readData(response.parts);
    const [id] = response.referenceTaskIds;
    if (id === undefined || taskId === undefined) return;
    const running = fleetDataOf(response.parts)
      .map((one) => decodeValue(one))
      .find((one) => one.valid && one.message.type === 'TASK_ACK' && one.message.accepted);
    if (running === undefined) return;
    // The task of an earlier process of this orchestrator, which did not know its A2A id.
    const attempt = (running.valid && running.message.envelope?.attempt) || (message.envelope?.attempt ?? 1);
    this.#inbound.follow({ taskId, attempt, replySchema: 'structured', structured: true, id });
  }

  #notSent(message: FleetMessage, thrown: unknown): void {
    const { log, stopping } = this.#owner;
    if (stopping.aborted) return;
    const { code, message: error } = callFailure(thrown, this.peerId, { newTask: this.structured });
    log.debug('message was not sent', { peer: this.peerId, type: message.type, code, error });
    if (code === 'not_found') this.#inbound.lost(message);
    else this.#owner.probeNow(this);
  }

  /** Finds the attempt that an earlier process dispatched: among the latest tasks of the agent, by the id of its message. */
  async #search(taskId: string, attempt = 1): Promise<OpenTask | undefined> {
    const messageId = `${taskId}#${attempt}`;
    let pageToken = '';
    for (let page = 0; page < MAX_PAGES; page++) {
      const listed = await this.#connection.reached?.client.listTasks(
        { tenant: '', contextId: '', status: 0, pageSize: 100, pageToken, statusTimestampAfter: undefined },
        this.#connection.call(false, this.#owner.stopping),
      );
      const found = listed?.tasks.find(({ history }) => history.some((one) => one.messageId === messageId));
      if (found !== undefined) {
        this.#inbound.follow({ taskId, attempt, replySchema: 'structured', id: found.id });
        return this.#inbound.tasks.get(taskId, attempt);
      }
      pageToken = listed?.nextPageToken ?? '';
      if (pageToken === '') break;
    }
    return undefined;
  }

  #unreachable(): HandfastError {
    return fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
  }
}
