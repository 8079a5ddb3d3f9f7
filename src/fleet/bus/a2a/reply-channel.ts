/**
 * The outlet of a worker towards the A2A clients of one principal. Those that have named our extension and those that have
 * not are two outlets: what they are told differs.
 *
 * Made by `worker-adapter.ts`.
 */
import type { Log } from '../../../base/log.ts';
import type { Feature, FleetMessage, TaskResult } from '../../../protocol/fleet.ts';
import type { ReplyChannel } from '../reply-channel.ts';
import { type A2aExecutions, progressWords } from './executions.ts';

/** Names of outlets begin so, by whether their clients speak the fleet protocol. */
const PREFIX = { fleet: 'a2a-fleet:', plain: 'a2a:' } as const;

export const channelName = (owner: string, fleet: boolean): string => `${fleet ? PREFIX.fleet : PREFIX.plain}${owner}`;

/** Takes the name of an outlet apart. */
export function outletOwner(name: string): { readonly owner: string; readonly fleet: boolean } {
  const fleet = name.startsWith(PREFIX.fleet);
  return { owner: name.slice((fleet ? PREFIX.fleet : PREFIX.plain).length), fleet };
}

const FLEET_FEATURES: ReadonlySet<Feature> = new Set(['progress', 'questions', 'heartbeat']);
const PLAIN_FEATURES: ReadonlySet<Feature> = new Set(['progress', 'heartbeat']);

export interface AgentOutletDeps {
  readonly runs: A2aExecutions;
  readonly log: Log;
  /** The worker has described itself anew. */
  announced(): void;
  /** The worker says goodbye. */
  left(reason: string): void;
}

export class A2aReplyChannel implements ReplyChannel {
  readonly name: string;
  readonly features: ReadonlySet<Feature>;
  readonly fleet: boolean;
  readonly #deps: AgentOutletDeps;

  constructor(name: string, deps: AgentOutletDeps) {
    this.name = name;
    this.fleet = outletOwner(name).fleet;
    this.features = this.fleet ? FLEET_FEATURES : PLAIN_FEATURES;
    this.#deps = deps;
  }

  send(message: FleetMessage): void {
    const { runs } = this.#deps;
    switch (message.type) {
      case 'TASK_PROGRESS': {
        const words = progressWords(message);
        runs.say(this.name, message.task_id, { text: words, passing: true, ...(this.fleet && { fleet: message }) });
        return;
      }
      case 'TASK_QUESTION':
        runs.say(this.name, message.task_id, { text: message.title, data: [message] });
        return;
      case 'SESSION_ANNOUNCE':
        this.#deps.announced();
        if (this.fleet) runs.sayAnywhere(this.name, { data: [message] });
        return;
      case 'SESSION_BYE':
        this.#deps.left(message.reason);
        return;
      default:
        // Heartbeats: a client looks at the card.
        return;
    }
  }

  /** Resolves when the result is in the store, where its client finds it whenever it asks. */
  async deliverResult(result: TaskResult): Promise<void> {
    if (await this.#deps.runs.settle(this.name, this.fleet, result)) return;
    // Kept too long ago: nobody can ask for it any more, and sending it again would not change that.
    this.#deps.log.warn('a result has no A2A task', { task_id: result.task_id, outlet: this.name });
  }
}
