/**
 * The messages of one A2A agent, read and forwarded to the orchestrator: progress and questions of its tasks, and their ends,
 * by the tables. Each task is followed until it has settled.
 *
 * One for each agent.
 * @see docs/a2a.md#peers
 */
import { Backoff, type BackoffOptions } from '../../../base/backoff.ts';
import { evictOldest } from '../../../base/evict-oldest.ts';
import { withTimeout } from '../../../base/race.ts';
import { sleep } from '../../../base/sleep.ts';
import type { FleetMessage, TaskAnswer } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { PlainInbound } from '../plain/inbound.ts';
import type { GivenTask, OpenTask } from '../plain/open-tasks.ts';
import type { PlainPeerOwner } from '../plain/orchestrator-bus.ts';
import type { HealthCheckedPeer } from '../plain/peer-health.ts';
import { ack } from '../worker-messages.ts';
import type { A2aConnection, Reached } from './connection.ts';
import { follow } from './follow.ts';
import {
  fleetDataOf,
  fleetMetadata,
  isSettled,
  messageOf,
  RETURN_AT_ONCE,
  ROLE,
  STATE,
  TEXT_ANSWER,
  textAnswer,
  textOf,
} from './messages.ts';
import type { Message, StreamResponse, Task } from './sdk.ts';
import { type ReadReply, resultOfMessage, resultOfTask } from './states.ts';

/** The members of the bus that its peers use. */
export interface A2aPeerOwner extends PlainPeerOwner {
  /** Time between two polls of a task that is not streamed. */
  readonly pollDelay: BackoffOptions | undefined;
}

/** Subscriptions at a time; the tasks past that are polled. */
const MAX_STREAMS = 64;
/** Longest time that a dispatch waits for its subscription, milliseconds. */
const SUBSCRIBE_TIMEOUT_MS = 2_000;

/** Answers that came before their questions were found again. */
const MAX_EARLY = 100;
/** Questions of an agent in one task. */
const MAX_QUESTIONS = 20;
/** Longest time that a question of an agent waits for an answer, seconds; then the task is blocked. */
const QUESTION_EXPIRES_S = 3_600;

/** True for a task whose agent waits for words of its user. Handfast workers send their questions as messages. */
export const asksForInput = ({ status }: Task, { structured }: Pick<OpenTask, 'structured'>): boolean =>
  status?.state === STATE.inputRequired && !structured;

export class A2aInbound extends PlainInbound {
  readonly #connection: A2aConnection;
  readonly #pollDelay: BackoffOptions | undefined;
  #streams = 0;
  readonly #early = new Map<string, string | undefined>();
  /** Questions of the agent that wait for an answer. */
  readonly #questions = new Map<
    string,
    { readonly open: OpenTask; readonly settle: (answer: string | undefined) => void }
  >();

  constructor(peer: HealthCheckedPeer, connection: A2aConnection, owner: A2aPeerOwner) {
    super(peer, owner, ['SESSION_ANNOUNCE', 'TASK_ACK', 'TASK_PROGRESS', 'TASK_QUESTION', 'TASK_RESULT']);
    this.#connection = connection;
    this.#pollDelay = owner.pollDelay;
  }

  /** Follows the A2A task of an attempt from now on, unless it is followed already. */
  follow(given: GivenTask): void {
    const known = this.tasks.get(given.taskId, given.attempt);
    if (known?.id !== given.id) void this.#follow(this.tasks.add(given));
  }

  /** Handles the response to a dispatch. Resolves when no later message will be missed. */
  async dispatched(given: GivenTask, response: Message | Task): Promise<void> {
    if (!('status' in response)) return this.#settled(this.tasks.add(given), resultOfMessage(response, given));
    const { taskId, attempt } = given;
    const open = this.tasks.add({ ...given, id: response.id });
    if (isSettled(response.status?.state) && !asksForInput(response, open)) {
      this.#readTask(open, response);
      return this.settle(open, response);
    }
    this.forwardInBackground(ack(taskId, { accepted: true, state: 'accepted' }, { attempt }));
    this.#readTask(open, response);
    const { promise, resolve } = Promise.withResolvers<void>();
    void this.#follow(open, resolve);
    // Messages from before the subscription are not lost, except progress, which the next one replaces.
    const late = (): Error => fail('timeout', `no subscription within ${SUBSCRIBE_TIMEOUT_MS} ms`);
    await withTimeout(promise, SUBSCRIBE_TIMEOUT_MS, late).catch(() => {});
  }

  /** Handles an agent that does not know the task of a message any more. */
  lost(message: FleetMessage): void {
    const { task_id: taskId } = message as { readonly task_id?: string };
    if (taskId === undefined) return;
    const attempt = message.envelope?.attempt;
    const unknown = { accepted: false, state: 'unknown' } as const;
    this.forwardInBackground(ack(taskId, unknown, attempt === undefined ? undefined : { attempt }));
  }

  /** Follows until the task has settled and the orchestrator has its result. Never rejects. */
  async #follow(open: OpenTask, listening?: () => void): Promise<void> {
    const { stopping, log } = this.owner;
    const { id, structured, taskId, attempt } = open;
    let streams = 0;
    const settled = (): Promise<Task> =>
      follow({
        connection: this.#connection,
        fleet: structured,
        id,
        signal: stopping,
        delay: this.#pollDelay,
        mayStream: () => {
          if (streams === 0 && this.#streams >= MAX_STREAMS) return false;
          this.#streams += 1 - streams;
          streams = 1;
          return true;
        },
        onEvent: (event) => this.#event(open, event),
        onListening: listening,
      });
    try {
      let task = await settled();
      for (let asked = 0; asksForInput(task, open) && asked < MAX_QUESTIONS; asked += 1) {
        const answer = await this.#ask(open, task);
        if (answer === undefined || open.ended) break;
        await this.#continue(task, answer);
        task = await settled();
      }
      this.settle(open, task);
    } catch (thrown) {
      if (stopping.aborted) return;
      const { code, message: error } = asError(thrown);
      log.warn('stopped following a task', { peer: this.peer.peerId, task_id: taskId, code, error });
      if (code === 'not_found') this.lost(fleetMessage('TASK_POLL', { task_id: taskId }, { attempt }));
    } finally {
      this.#streams -= streams;
      listening?.();
      this.tasks.remove(open);
    }
  }

  /** Puts the question of an agent to the orchestrator's user. The answer; undefined: denied, expired, or the task has ended. */
  async #ask(open: OpenTask, { id, status }: Task): Promise<string | undefined> {
    const { taskId, attempt } = open;
    const { stopping } = this.owner;
    const question_id = `${id}/${status?.message?.messageId ?? ''}`;
    const early = this.#early.get(question_id);
    if (this.#early.delete(question_id)) return early;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    const answered = new AbortController();
    this.#questions.set(question_id, { open, settle: resolve });
    const question = fleetMessage(
      'TASK_QUESTION',
      {
        task_id: taskId,
        question_id,
        kind: 'question',
        title: textOf(status?.message?.parts) || 'The agent asks for more input.',
        schema: TEXT_ANSWER,
        expires_s: QUESTION_EXPIRES_S,
      },
      { attempt },
    );
    this.forwardInBackground(question as Incoming);
    void sleep(QUESTION_EXPIRES_S * 1000, AbortSignal.any([stopping, answered.signal])).then(() => resolve(undefined));
    try {
      return await promise;
    } finally {
      answered.abort();
      this.#questions.delete(question_id);
      stopping.throwIfAborted();
    }
  }

  /** Takes the user's answer to a question: one that waits, or one of an earlier process whose task is still being found. */
  answer({ question_id, allowed, content }: TaskAnswer): void {
    const answer = textAnswer(allowed, content);
    const question = this.#questions.get(question_id);
    if (question !== undefined) return question.settle(answer);
    this.#early.set(question_id, answer);
    evictOldest(this.#early, MAX_EARLY);
  }

  /** Sends an answer, and resolves when the agent no longer waits for it. */
  async #continue({ id, contextId, status }: Task, text: string): Promise<void> {
    const { stopping, newId } = this.owner;
    const { client } = this.#connection.reached as Reached;
    const message = messageOf(ROLE.user, { messageId: newId(), contextId, taskId: id, text });
    const request = { tenant: '', message, configuration: RETURN_AT_ONCE, metadata: undefined };
    await client.sendMessage(request, this.#connection.call(false, stopping));
    const delay = new Backoff(this.#pollDelay);
    const asked = status?.message?.messageId;
    for (;;) {
      const { status: now } = await client.getTask({ tenant: '', id }, this.#connection.call(false, stopping));
      if (now?.state !== STATE.inputRequired || now.message?.messageId !== asked) return;
      await sleep(delay.next(), stopping);
      stopping.throwIfAborted();
    }
  }

  #event(open: OpenTask, event: NonNullable<StreamResponse['payload']>): void {
    if (event.$case === 'task') this.#readTask(open, event.value);
    else if (event.$case === 'statusUpdate') this.#readStatus(open, event.value.status);
  }

  /** Reads the messages of a task. */
  #readTask(open: OpenTask, { history, status }: Task): void {
    for (const message of history) this.#readMessage(open, message);
    this.#readStatus(open, status);
  }

  /** Reads a status: an agent may start to work without a message. */
  #readStatus(open: OpenTask, status: Task['status']): void {
    this.#readMessage(open, status?.message);
    if (status?.state !== STATE.working || open.working || open.structured) return;
    open.working = true;
    const { taskId, attempt } = open;
    this.forwardInBackground(ack(taskId, { accepted: true, state: 'running' }, { attempt }));
  }

  /** Reads each message once, in the order they arrive. */
  #readMessage(open: OpenTask, message: Message | undefined): void {
    if (message === undefined || message.role === ROLE.user || !open.isNew(message.messageId)) return;
    const progress = open.structured ? fleetMetadata(message.metadata) : {};
    if (progress.type === 'TASK_PROGRESS') return this.#readValue(progress, open);
    if (open.structured) return this.readData(message.parts, open);
    const note = textOf(message.parts).slice(0, 500);
    if (note === '') return;
    open.progress += 1;
    const { taskId: task_id, attempt, progress: seq } = open;
    this.forwardInBackground(fleetMessage('TASK_PROGRESS', { task_id, seq, phase: 'working', note }, { attempt }));
  }

  readData(parts: Message['parts'], open?: OpenTask): void {
    for (const value of fleetDataOf(parts)) this.#readValue(value, open);
  }

  #readValue(value: object, open: OpenTask | undefined): void {
    const message = this.read(value);
    if (message === undefined) return;
    const { envelope } = message;
    const complete = open === undefined || envelope?.attempt !== undefined || message.type === 'SESSION_ANNOUNCE';
    // The attempt that was dispatched to this agent, and no other.
    const stamped = complete ? message : ({ ...message, envelope: { ...envelope, attempt: open.attempt } } as Incoming);
    if (stamped.type === 'TASK_RESULT') void this.forwardUntilStored(stamped, this.#pollDelay);
    else this.forwardInBackground(stamped);
  }

  settle(open: OpenTask, task: Task): void {
    const reply = resultOfTask(task, open);
    if (reply !== undefined) this.#settled(open, reply);
  }

  #settled(open: OpenTask, { result, announce }: ReadReply): void {
    if (open.ended) return;
    for (const question of this.#questions.values()) if (question.open === open) question.settle(undefined);
    if (announce !== null) this.forwardInBackground(announce);
    this.tasks.remove(open);
    // The agent stores its task, so the dispatch does not wait until the orchestrator has stored the result.
    void this.forwardUntilStored(result, this.#pollDelay);
  }
}
