/**
 * The reply channel of a worker on NATS: results, acks, progress and questions go to the events stream, announces to its
 * presence. A result on the stream is durable, whichever side is down.
 */
import { createHash } from 'node:crypto';
import type { Feature, FleetMessage, SessionAnnounce, SessionBye, TaskResult } from '../../../protocol/fleet.ts';
import { ORCHESTRATOR_FEATURES } from '../forward.ts';
import type { ReplyChannel } from '../reply-channel.ts';
import type { NatsLink } from './connection.ts';
import { pack } from './payload.ts';
import { subjects, tokenOf } from './subjects.ts';

export interface OutletOptions {
  readonly link: NatsLink;
  readonly name: string;
  readonly agentId: string;
  readonly announced: (message: SessionAnnounce) => void;
  readonly left: (message: SessionBye) => void;
  /** A result is on the stream. */
  readonly delivered: (taskId: string) => void;
}

export class NatsReplyChannel implements ReplyChannel {
  readonly name: string;
  readonly features: ReadonlySet<Feature> = new Set(ORCHESTRATOR_FEATURES);
  readonly durable = true;
  readonly #options: OutletOptions;
  readonly #agent: string;

  constructor(options: OutletOptions) {
    this.#options = options;
    this.name = options.name;
    this.#agent = tokenOf(options.agentId);
  }

  send(message: FleetMessage): void {
    const { link } = this.#options;
    switch (message.type) {
      case 'SESSION_ANNOUNCE':
        return this.#options.announced(message);
      case 'SESSION_BYE':
        return this.#options.left(message);
      // The profile is the heartbeat.
      case 'SESSION_HEARTBEAT':
        return;
      case 'TASK_QUESTION':
        return this.#keep(message.task_id, message, `${message.task_id}?${message.question_id}`);
      case 'TASK_ACK':
      case 'TASK_PROGRESS':
      case 'TASK_RESULT':
        return link.notify(subjects.events(this.#agent, tokenOf(message.task_id)), pack(message));
      default:
        link.log?.warn('a worker does not send this', { type: message.type });
    }
  }

  deliverResult(result: TaskResult): Promise<void> {
    return this.answer(result, result.envelope?.attempt ?? 0);
  }

  /**
   * Sends a result for an attempt. The same result for the same attempt is stored once, however often it is sent; the same one
   * for a later attempt, from the journal, is stored again, because the orchestrator waits for it.
   */
  async answer(result: TaskResult, attempt: number): Promise<void> {
    const { task_id } = result;
    const data = pack(result);
    const digest = createHash('sha256').update(this.#agent).update(data).digest('hex').slice(0, 32);
    const subject = subjects.events(this.#agent, tokenOf(task_id));
    await this.#options.link.publish(subject, data, `${task_id}#${attempt}#${digest}`);
    this.#options.delivered(task_id);
  }

  /** Sends a question until an orchestrator receives it: else it would block its task until it expires. */
  #keep(taskId: string, message: FleetMessage, id: string): void {
    const { link } = this.#options;
    link.publish(subjects.events(this.#agent, tokenOf(taskId)), pack(message), id).catch((error: Error) => {
      link.log?.warn('a question could not be sent', { task_id: taskId, error: error.message });
    });
  }
}
