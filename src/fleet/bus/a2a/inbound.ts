/**
 * What one A2A agent says, read and handed to the orchestrator: what its tasks tell while they are worked on, and their ends,
 * by the tables. Each task is watched until it has settled.
 *
 * Made by `peer.ts`, one for each agent.
 * @see docs/a2a.md#peers
 */

import { Backoff } from '../../../base/backoff.ts';
import { withTimeout } from '../../../base/race.ts';
import { sleep } from '../../../base/sleep.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Incoming, Reported } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { forwardToOrchestrator } from '../forward.ts';
import { ack } from '../worker-messages.ts';
import { type Attempt, Attempts, type GivenAttempt } from './attempts.ts';
import { follow } from './follow.ts';
import { fleetDataOf, fleetMetadata, isSettled, ROLE, textOf } from './messages.ts';
import type { A2aPeer, A2aPeerOwner } from './peer.ts';
import type { Message, StreamResponse, Task } from './sdk.ts';
import { type ReadReply, resultOfMessage, resultOfTask } from './states.ts';

/** Messages that come from workers. */
const FROM_WORKERS: ReadonlySet<Incoming['type']> = new Set([
  'SESSION_ANNOUNCE',
  'TASK_ACK',
  'TASK_PROGRESS',
  'TASK_QUESTION',
  'TASK_RESULT',
]);
/** Subscriptions at a time; the tasks past that are asked for. */
const MAX_STREAMS = 64;
/** How long a dispatch waits for its subscription to stand, milliseconds. */
const LISTEN_MS = 2_000;

export class A2aInbound {
  readonly #peer: A2aPeer;
  readonly #owner: A2aPeerOwner;
  readonly #attempts = new Attempts();
  #streams = 0;

  constructor(peer: A2aPeer, owner: A2aPeerOwner) {
    this.#peer = peer;
    this.#owner = owner;
  }

  /** An attempt that is watched: this one, or the latest where none is named. */
  known(taskId: string, attempt?: number): Attempt | undefined {
    return this.#attempts.get(taskId, attempt);
  }

  /** Watches the A2A task of an attempt from now on, unless it is watched already. */
  watch(about: GivenAttempt): void {
    const known = this.#attempts.get(about.taskId, about.attempt);
    if (known?.id !== about.id) void this.#follow(this.#attempts.begin(about));
  }

  /** What an agent answered to a dispatch. Resolves when nothing of what comes now will be missed. */
  async answered(about: Omit<GivenAttempt, 'id'>, said: Message | Task): Promise<void> {
    if (!('status' in said))
      return this.#settled(this.#attempts.begin({ ...about, id: '' }), resultOfMessage(said, about));
    const attempt = this.#attempts.begin({ ...about, id: said.id });
    this.#hearTask(attempt, said);
    if (isSettled(said.status?.state)) return this.settle(attempt, said);
    this.hear(ack(about.taskId, { accepted: true, state: 'accepted' }, { attempt: about.attempt }));
    await this.#listened(attempt);
  }

  /** The agent does not know the task any more. */
  lost(message: FleetMessage): void {
    const { task_id: taskId } = message as { readonly task_id?: string };
    if (taskId === undefined) return;
    const attempt = message.envelope?.attempt;
    this.hear(ack(taskId, { accepted: false, state: 'unknown' }, attempt === undefined ? undefined : { attempt }));
  }

  async #listened(attempt: Attempt): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    void this.#follow(attempt, resolve);
    // What was told before this stands is not lost, only what is over by then: progress.
    await withTimeout(promise, LISTEN_MS, () => fail('timeout', 'the subscription does not stand yet')).catch(() => {});
  }

  /** Watches until the task has settled and the orchestrator has its result. Never rejects. */
  async #follow(attempt: Attempt, listening?: () => void): Promise<void> {
    const { stopping, pollDelay, log } = this.#owner;
    const { id, structured, taskId } = attempt;
    let streams = 0;
    try {
      const task = await follow({
        connection: this.#peer.connection,
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
      this.settle(attempt, task);
    } catch (thrown) {
      if (stopping.aborted) return;
      const error = asError(thrown);
      log.warn('a task is not watched any more', { peer: this.#peer.peerId, task_id: taskId, error: error.message });
      if (error.code === 'not_found')
        this.lost(fleetMessage('TASK_POLL', { task_id: taskId }, { attempt: attempt.attempt }));
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
    if (attempt.structured) return this.hearData(message.parts, attempt);
    const note = textOf(message.parts).slice(0, 500);
    if (note === '') return;
    attempt.progress += 1;
    const { taskId: task_id, attempt: number, progress: seq } = attempt;
    this.hear(fleetMessage('TASK_PROGRESS', { task_id, seq, phase: 'working', note }, { attempt: number }));
  }

  hearData(parts: Message['parts'], attempt?: Attempt): void {
    for (const value of fleetDataOf(parts)) this.#hearValue(value, attempt);
  }

  #hearValue(value: object, attempt: Attempt | undefined): void {
    const decoded = decodeValue(value);
    if (!decoded.valid) {
      this.#owner.events.unreadable(
        this.#peer,
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
    this.hear(own ? message : ({ ...message, envelope: { ...envelope, attempt: attempt.attempt } } as Incoming));
  }

  settle(attempt: Attempt, task: Task): void {
    const reply = resultOfTask(task, attempt);
    if (reply !== undefined) this.#settled(attempt, reply);
  }

  #settled(attempt: Attempt, { result, announce }: ReadReply): void {
    if (attempt.over) return;
    if (announce !== null) this.hear(announce);
    attempt.over = true;
    this.#attempts.forget(attempt);
    // The agent keeps its task; whoever sent the dispatch does not wait for what the orchestrator does with its end.
    void this.#keep(result);
  }

  /** Tells a result until the orchestrator has kept it. Never rejects. */
  async #keep(result: Reported): Promise<void> {
    const { events, stopping, log } = this.#owner;
    const delay = new Backoff(this.#owner.pollDelay);
    while (!stopping.aborted) {
      try {
        return await forwardToOrchestrator(events, this.#peer, result);
      } catch (thrown) {
        const { code, message } = asError(thrown);
        log.warn('a result was not kept', { peer: this.#peer.peerId, task_id: result.task_id, code, error: message });
      }
      await sleep(delay.next(), stopping);
    }
  }

  hear(message: Incoming): void {
    const { events, stopping, log } = this.#owner;
    if (stopping.aborted) return;
    forwardToOrchestrator(events, this.#peer, message).catch((thrown: unknown) => {
      log.warn('a message was not kept', {
        peer: this.#peer.peerId,
        type: message.type,
        error: asError(thrown).message,
      });
    });
  }
}
