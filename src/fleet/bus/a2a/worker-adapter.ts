/**
 * The worker as its A2A side calls it: a reply channel for each client, and messages about a task one after the other.
 *
 * One for each agent.
 */
import type { Log } from '../../../base/log.ts';
import type { TaskAck, TaskQuestion, TaskResult } from '../../../protocol/fleet.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { AnnounceTracker } from '../plain/announce-tracker.ts';
import { ReplyChannels } from '../plain/reply-channels.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { TaskLocks } from '../task-locks.ts';
import type { A2aExecutions } from './executions.ts';
import type { Verdict } from './questions.ts';
import { A2aReplyChannel } from './reply-channel.ts';

export interface WorkerAdapterOptions {
  readonly worker: WorkerPort;
  readonly executions: A2aExecutions;
  readonly log: Log;
  /** Called when the worker shut down in order, or has announced itself since. */
  onBye(reason: string): void;
  onAnnounce(): void;
}

export class A2aWorkerAdapter {
  readonly worker: WorkerPort;
  readonly announced: AnnounceTracker;
  readonly locks = new TaskLocks();
  readonly channels: ReplyChannels<A2aReplyChannel>;
  readonly #executions: A2aExecutions;

  constructor({ worker, executions, log, onBye, onAnnounce }: WorkerAdapterOptions) {
    this.worker = worker;
    this.announced = new AnnounceTracker(worker, log);
    this.#executions = executions;
    const announced = (): void => {
      onAnnounce();
      this.announced.clear();
    };
    this.channels = new ReplyChannels(
      worker,
      (name) => new A2aReplyChannel(name, { executions, log, onBye, onAnnounce: announced }),
    );
  }

  /** Asks the worker to stop a task. True: it does not have it, and no result will come. */
  async cancel(channel: string, taskId: string): Promise<boolean> {
    const reply = await this.#send(fleetMessage('TASK_CANCEL', { task_id: taskId, reason: 'canceled' }), channel);
    if (reply?.type !== 'TASK_RESULT') return reply?.state === 'unknown';
    return !(await this.#executions.settle(channel, this.channels.get(channel).fleet, reply));
  }

  /** Returns the worker's state of a task: its result, or whether the worker has the task at all. */
  poll(channel: string, taskId: string): Promise<TaskAck | TaskResult | undefined> {
    return this.#send(fleetMessage('TASK_POLL', { task_id: taskId }), channel);
  }

  /** Sends the worker more input for a task. */
  async steer(channel: string, taskId: string, steerId: string, text: string): Promise<void> {
    await this.#send(fleetMessage('TASK_STEER', { task_id: taskId, steer_id: steerId, text }), channel);
  }

  /** Sends the worker the answer to its question; one that has expired by then has no effect. */
  async answer(channel: string, { task_id, question_id, envelope }: TaskQuestion, verdict: Verdict): Promise<void> {
    const { attempt } = envelope ?? {};
    const body = { task_id, question_id, ...verdict };
    await this.#send(fleetMessage('TASK_ANSWER', body, attempt === undefined ? {} : { attempt }), channel);
  }

  #send(message: Incoming & { readonly task_id: string }, channel: string): Promise<TaskAck | TaskResult | undefined> {
    return this.locks.run(message.task_id, () => this.worker.handle(message, this.channels.get(channel)));
  }

  /** Detaches from the worker; results wait in its outbox. */
  close(): void {
    this.channels.close();
  }
}
