/**
 * The attempts an A2A agent was given and has not ended, with what was heard of each.
 *
 * Used by `inbound.ts`, one for each peer.
 */
import type { ReplySchema } from '../../../protocol/fleet.ts';
import { evictOldest } from '../evict-oldest.ts';

/** What is known of an attempt when it is given. */
export interface GivenAttempt {
  readonly taskId: string;
  readonly attempt: number;
  /** What the reply was asked to be. */
  readonly replySchema: ReplySchema;
  /** It was sent as a message of the fleet protocol. */
  readonly structured: boolean;
  /** The A2A task; empty: the agent answered without one. */
  readonly id: string;
}

export interface Attempt extends GivenAttempt {
  /** Messages of progress that were made of an agent's words. */
  progress: number;
  /** Its result was told. */
  over: boolean;
  /** True the first time it is called with the id of a message. */
  isNews(messageId: string): boolean;
}

/** Messages of a task that are remembered, so that none is told twice. */
const MAX_HEARD = 2_000;

const keyOf = (taskId: string, attempt: number): string => `${attempt} ${taskId}`;

export class Attempts {
  readonly #open = new Map<string, Attempt>();

  begin(given: GivenAttempt): Attempt {
    const heard = new Set<string>();
    const attempt: Attempt = {
      ...given,
      progress: 0,
      over: false,
      isNews(messageId) {
        if (heard.has(messageId)) return false;
        heard.add(messageId);
        evictOldest(heard, MAX_HEARD);
        return true;
      },
    };
    this.#open.set(keyOf(given.taskId, given.attempt), attempt);
    return attempt;
  }

  /** The latest one of the task where none is named. */
  get(taskId: string, attempt?: number): Attempt | undefined {
    if (attempt !== undefined) return this.#open.get(keyOf(taskId, attempt));
    return [...this.#open.values()].findLast((one) => one.taskId === taskId);
  }

  forget(attempt: Attempt): void {
    const key = keyOf(attempt.taskId, attempt.attempt);
    if (this.#open.get(key) === attempt) this.#open.delete(key);
  }
}
