/**
 * The reply channel of a worker towards the A2A clients of one principal. Clients that name the fleet extension and those that
 * do not have two channels, because they receive different messages.
 */
import type { Log } from '../../../base/log.ts';
import type { Feature, FleetMessage, TaskResult } from '../../../protocol/fleet.ts';
import type { ReplyChannel } from '../reply-channel.ts';
import { type A2aExecutions, progressText } from './executions.ts';

/** Names of channels start so, by whether their clients speak the fleet protocol. */
const PREFIX = { fleet: 'a2a-fleet:', plain: 'a2a:' } as const;

export const channelName = (owner: string, fleet: boolean): string => `${fleet ? PREFIX.fleet : PREFIX.plain}${owner}`;

/** True for the channel of clients that speak the fleet protocol. */
export const speaksFleet = (channel: string): boolean => channel.startsWith(PREFIX.fleet);

const FEATURES: ReadonlySet<Feature> = new Set(['progress', 'questions', 'heartbeat']);

export interface A2aReplyChannelDeps {
  readonly executions: A2aExecutions;
  readonly log: Log;
  onAnnounce(): void;
  /** Called when the worker shut down in order. */
  onBye(reason: string): void;
}

export class A2aReplyChannel implements ReplyChannel {
  readonly name: string;
  readonly features = FEATURES;
  readonly fleet: boolean;
  readonly #deps: A2aReplyChannelDeps;

  constructor(name: string, deps: A2aReplyChannelDeps) {
    this.name = name;
    this.fleet = speaksFleet(name);
    this.#deps = deps;
  }

  send(message: FleetMessage): void {
    const { executions } = this.#deps;
    switch (message.type) {
      case 'TASK_PROGRESS': {
        const text = progressText(message);
        executions.emit(this.name, message.task_id, { text, passing: true, ...(this.fleet && { fleet: message }) });
        return;
      }
      case 'TASK_QUESTION':
        if (this.fleet) executions.emit(this.name, message.task_id, { text: message.title, data: [message] });
        else executions.ask(this.name, message);
        return;
      case 'SESSION_ANNOUNCE':
        this.#deps.onAnnounce();
        if (this.fleet) executions.emitOnAnyTask(this.name, { data: [message] });
        return;
      case 'SESSION_BYE':
        this.#deps.onBye(message.reason);
        return;
      default:
        // Heartbeats: a client probes the card.
        return;
    }
  }

  /** Resolves when the result is in the store, where its client finds it. */
  async deliverResult(result: TaskResult): Promise<void> {
    if (await this.#deps.executions.settle(this.name, this.fleet, result)) return;
    // Evicted from the store: no client can ask for it any more, and sending it again would not change that.
    this.#deps.log.warn('result has no A2A task', { task_id: result.task_id, channel: this.name });
  }
}
