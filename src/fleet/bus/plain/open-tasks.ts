/**
 * The attempts a plain peer was given: by task, and by context for peers that name no task in their replies. Ended ones stay
 * known for a while, because a reply may come again.
 *
 * One for each peer.
 */

import { evictOldest } from '../../../base/evict-oldest.ts';
import type { ReplySchema } from '../../../protocol/fleet.ts';

/** Facts of an attempt that are known when it is dispatched. */
export interface GivenTask {
  readonly taskId: string;
  readonly attempt: number;
  /** The reply that was asked for. */
  readonly replySchema: ReplySchema;
  /** Absent: the peer's replies name their task. */
  readonly contextId?: string;
  /** True when it was sent as a message of the fleet protocol. */
  readonly structured?: boolean;
  /** The peer's own id of the task; absent or empty: it has none. */
  readonly id?: string;
}

export class OpenTask {
  readonly taskId: string;
  readonly attempt: number;
  readonly replySchema: ReplySchema;
  readonly contextId: string;
  readonly structured: boolean;
  readonly id: string;
  /** The orchestrator knows that the peer works on it. */
  working = false;
  /** Its result was received. */
  ended = false;
  /** Progress messages that were made of the peer's words. */
  progress = 0;
  readonly #received = new Set<string>();

  constructor({ taskId, attempt, replySchema, contextId = '', structured = false, id = '' }: GivenTask) {
    this.taskId = taskId;
    this.attempt = attempt;
    this.replySchema = replySchema;
    this.contextId = contextId;
    this.structured = structured;
    this.id = id;
  }

  /** True the first time it is called with the id of a message. */
  isNew(messageId: string): boolean {
    if (this.#received.has(messageId)) return false;
    this.#received.add(messageId);
    evictOldest(this.#received, MAX_MESSAGES);
    return true;
  }
}

/** Messages of a task that are remembered, so that none is forwarded twice. */
const MAX_MESSAGES = 2_000;
/** Attempts that are remembered at most, ended ones included. */
const MAX_TASKS = 10_000;

const keyOf = (taskId: string, attempt: number): string => `${attempt} ${taskId}`;

export class OpenTasks {
  readonly #byAttempt = new Map<string, OpenTask>();
  /** The latest attempt of each task. */
  readonly #latest = new Map<string, OpenTask>();
  readonly #byContext = new Map<string, OpenTask>();

  add(given: GivenTask): OpenTask {
    const open = new OpenTask(given);
    const key = keyOf(given.taskId, given.attempt);
    this.#byAttempt.delete(key);
    this.#byAttempt.set(key, open);
    this.#latest.set(given.taskId, open);
    if (given.contextId !== undefined) this.#byContext.set(given.contextId, open);
    if (this.#byAttempt.size > MAX_TASKS) this.#evict();
    return open;
  }

  /** Returns the attempt; the latest one where none is named. */
  get(taskId: string, attempt?: number): OpenTask | undefined {
    return attempt === undefined ? this.#latest.get(taskId) : this.#byAttempt.get(keyOf(taskId, attempt));
  }

  inContext(contextId: string): OpenTask | undefined {
    return this.#byContext.get(contextId);
  }

  /** Removes a task that the peer does not have, or that has ended. */
  remove(open: OpenTask): void {
    open.ended = true;
    const key = keyOf(open.taskId, open.attempt);
    if (this.#byAttempt.get(key) === open) this.#byAttempt.delete(key);
    if (this.#latest.get(open.taskId) === open) this.#latest.delete(open.taskId);
    if (this.#byContext.get(open.contextId) === open) this.#byContext.delete(open.contextId);
  }

  /** Removes ended attempts first, the oldest first. */
  #evict(): void {
    evictOldest(this.#byAttempt, MAX_TASKS, (key) => this.#byAttempt.get(key)?.ended === true);
    for (const index of [this.#latest, this.#byContext]) {
      for (const [key, open] of index) {
        if (this.#byAttempt.get(keyOf(open.taskId, open.attempt)) !== open) index.delete(key);
      }
    }
  }
}
