/**
 * The events of a run on their way to those who follow it: in order, none before its entry is on disk, and bounded. A follower that
 * reads slowly slows the run.
 */
import type { ChainError } from '../chains.schema.ts';

/** What happened to a node, or with an empty `node_id` to the run. */
export interface RunEvent {
  readonly node_id: string;
  readonly phase: string;
  readonly output?: unknown;
  readonly error?: string;
  readonly data?: {
    readonly attempt?: number;
    readonly index?: number;
    readonly delay_ms?: number;
    readonly code?: string;
    readonly waits_for?: unknown;
    readonly error?: ChainError;
    readonly message?: string | undefined;
    readonly pct?: number | undefined;
    readonly tokens?: number | undefined;
    readonly usd?: number | undefined;
  };
}

/** Gets one event; what it returns is waited for. */
export type Follower = (event: RunEvent) => Promise<void> | undefined;

/** Events that wait, past which no node starts. */
const MAX_WAITING = 1_000;

export class OutgoingEvents {
  readonly #followers = new Set<Follower>();
  #queue: { readonly event: RunEvent; readonly stored: Promise<void> | undefined }[] = [];
  #sending: Promise<void> | undefined;

  follow(follower: Follower): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** True when nothing may start until {@link sent} resolves. */
  get full(): boolean {
    return this.#queue.length >= MAX_WAITING;
  }

  /** Resolves when all events so far were sent; undefined: they were. Never rejects. */
  get sent(): Promise<void> | undefined {
    return this.#sending;
  }

  /** @param stored resolves when the entry of the event is on disk */
  add(event: RunEvent, stored: Promise<void> | undefined): void {
    if (this.#followers.size === 0) return;
    this.#queue.push({ event, stored });
    this.#sending ??= this.#send();
  }

  async #send(): Promise<void> {
    // Behind the caller, whose next events come along.
    await undefined;
    while (this.#queue.length > 0) {
      const events = this.#queue;
      this.#queue = [];
      for (const { event, stored } of events) {
        if (stored !== undefined) await stored;
        for (const follower of this.#followers) {
          try {
            const read = follower(event);
            if (read !== undefined) await read;
          } catch {
            // Its request has ended.
            this.#followers.delete(follower);
          }
        }
      }
    }
    this.#sending = undefined;
  }
}
