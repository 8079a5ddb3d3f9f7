/**
 * Sends the events of a run to its followers: in order, none before its entry is on disk, and bounded. The request that runs
 * the run slows it when it reads slowly. Other followers have separate queues and are dropped when their queue is full, so a
 * reader of another principal's run cannot hold it.
 */
import type { ChainError } from '../chains.schema.ts';

/** An event of a node, or with an empty `node_id` of the run. */
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

/** Receives one event; the run awaits the returned promise. */
export type Follower = (event: RunEvent) => Promise<void> | undefined;

/** Number of waiting events at which no further node starts. */
const MAX_WAITING = 1_000;
/**
 * Limit of events that wait for a follower that the run does not wait for: more than the events of nodes that start and end at
 * once.
 */
const MAX_BEHIND = 16 * MAX_WAITING;

/** The handle of a follower for the code that added it. */
export interface Following {
  /** Resolves when all events so far were sent to it; undefined: they were. Never rejects. */
  readonly sent: Promise<void> | undefined;
  /** Stops sending events to it. */
  stop(): void;
}

/** The queue of one follower. */
class Outlet implements Following {
  readonly #follower: Follower;
  #queue: { readonly event: RunEvent; readonly stored: Promise<void> | undefined }[] = [];
  #sending: Promise<void> | undefined;
  /** Called when the follower is too far behind; undefined: the run waits for the follower. */
  readonly behind: (() => void) | undefined;
  stopped = false;

  constructor(follower: Follower, behind: (() => void) | undefined) {
    this.#follower = follower;
    this.behind = behind;
  }

  get sent(): Promise<void> | undefined {
    return this.#sending;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  stop(): void {
    this.stopped = true;
    this.#queue = [];
  }

  add(event: RunEvent, stored: Promise<void> | undefined): void {
    this.#queue.push({ event, stored });
    this.#sending ??= this.#send();
  }

  async #send(): Promise<void> {
    // Runs after the caller, so that its next events join this batch.
    await undefined;
    while (this.#queue.length > 0) {
      const events = this.#queue;
      this.#queue = [];
      for (const { event, stored } of events) {
        if (stored !== undefined) await stored;
        if (this.stopped) break;
        try {
          const read = this.#follower(event);
          if (read !== undefined) await read;
        } catch {
          // The request of the follower has ended.
          this.stop();
        }
      }
    }
    this.#sending = undefined;
  }
}

export class OutgoingEvents {
  readonly #outlets = new Set<Outlet>();

  /**
   * Adds a follower of the events from now on.
   * @param behind called when the follower is too far behind and gets no further event. Undefined: the run waits for it
   */
  follow(follower: Follower, behind?: () => void): Following {
    const outlet = new Outlet(follower, behind);
    this.#outlets.add(outlet);
    return outlet;
  }

  /** True when nothing may start until {@link sent} resolves. */
  get full(): boolean {
    for (const { behind, waiting } of this.#outlets) if (behind === undefined && waiting >= MAX_WAITING) return true;
    return false;
  }

  /** Resolves when all events so far were sent to the followers that the run waits for; undefined: they were. Never rejects. */
  get sent(): Promise<void> | undefined {
    for (const { behind, sent } of this.#outlets) if (behind === undefined && sent !== undefined) return sent;
    return undefined;
  }

  /** Sends no further event, also none that waits for its entry: the entry was lost. */
  stop(): void {
    for (const outlet of this.#outlets) outlet.stop();
  }

  /** @param stored resolves when the entry of the event is on disk; {@link stop} comes before it where the entry is lost */
  add(event: RunEvent, stored: Promise<void> | undefined): void {
    for (const outlet of this.#outlets) {
      if (outlet.behind !== undefined && outlet.waiting >= MAX_BEHIND) {
        outlet.stop();
        outlet.behind();
      }
      if (outlet.stopped) this.#outlets.delete(outlet);
      else outlet.add(event, stored);
    }
  }
}
