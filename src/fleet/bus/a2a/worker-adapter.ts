/**
 * The worker, as its A2A side calls it: an outlet for each client, and what is said about a task in turn.
 *
 * Made by `worker-server.ts`, one for each agent.
 */
import type { Log } from '../../../base/log.ts';
import type { TaskAck, TaskResult } from '../../../protocol/fleet.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { AnnounceTracker } from '../plain/announce-tracker.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { TaskLocks } from '../task-locks.ts';
import type { A2aExecutions } from './executions.ts';
import { A2aReplyChannel } from './reply-channel.ts';

export interface WorkerEndOptions {
  readonly worker: WorkerPort;
  readonly runs: A2aExecutions;
  readonly log: Log;
  /** The worker says goodbye, or is heard of again. */
  left(reason: string): void;
  came(): void;
}

export class A2aWorkerAdapter {
  readonly worker: WorkerPort;
  readonly descriptions: AnnounceTracker;
  readonly turns = new TaskLocks();
  readonly #options: WorkerEndOptions;
  readonly #outlets = new Map<string, { readonly outlet: A2aReplyChannel; readonly detach: () => void }>();

  constructor(options: WorkerEndOptions) {
    this.#options = options;
    this.worker = options.worker;
    this.descriptions = new AnnounceTracker(options.worker, options.log);
  }

  /** The worker's end of this name, made and attached when it is first needed. */
  outlet(name: string): A2aReplyChannel {
    let found = this.#outlets.get(name);
    if (found === undefined) {
      const { worker, runs, log, left, came } = this.#options;
      const announced = (): void => {
        came();
        this.descriptions.outdated();
      };
      const outlet = new A2aReplyChannel(name, { runs, log, left, announced });
      found = { outlet, detach: worker.attach(outlet) };
      this.#outlets.set(name, found);
    }
    return found.outlet;
  }

  /** Tells the worker to stop a task. True: it does not have it, and no result will come. */
  async cancel(outlet: string, taskId: string): Promise<boolean> {
    const answer = await this.tell(
      fleetMessage('TASK_CANCEL', { task_id: taskId, reason: 'canceled' }),
      this.outlet(outlet),
    );
    if (answer?.type === 'TASK_RESULT')
      return !(await this.#options.runs.settle(outlet, this.outlet(outlet).fleet, answer));
    return answer?.state === 'unknown';
  }

  /** What the worker knows of a task: its result, or whether it has it at all. */
  poll(outlet: string, taskId: string): Promise<TaskAck | TaskResult | undefined> {
    return this.tell(fleetMessage('TASK_POLL', { task_id: taskId }), this.outlet(outlet));
  }

  /** Says something about a task when it is its turn. */
  async tell(message: Incoming, outlet: A2aReplyChannel): Promise<TaskAck | TaskResult | undefined> {
    const { task_id } = message as { readonly task_id: string };
    const endTurn = await this.turns.acquire(task_id);
    try {
      return await this.worker.handle(message, outlet);
    } finally {
      endTurn();
    }
  }

  /** Detaches from the worker; results wait in its outbox. */
  close(): void {
    for (const { detach } of this.#outlets.values()) detach();
    this.#outlets.clear();
  }
}
