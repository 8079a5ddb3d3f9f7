/**
 * Decides when a worker announces itself: at its start, on every change, for the first task of a context, when
 * asked. Liveness is the matter of heartbeats.
 *
 * @see docs/fleet.md#when-to-announce
 */
import { evictOldest } from '../../base/evict-oldest.ts';
import type { Timer } from '../../base/timer-queue.ts';
import type { SessionAnnounce } from '../../protocol/fleet.ts';

/** Time that a change must last before it is announced, milliseconds, so that a burst of changes is one announce. */
const DEBOUNCE_MS = 2000;
/** Contexts that are remembered as served. */
const MAX_CONTEXTS = 10_000;

export interface AnnouncerOptions {
  /**
   * Describes the worker from the facts known now, without probing and without a number. null: for no context that is served.
   */
  readonly describe: (contextId: string | null) => SessionAnnounce;
  /** Numbers a description and sends it to all reply channels. */
  readonly send: (announce: SessionAnnounce) => void;
  readonly debounceMs?: number;
  readonly timer: Timer;
}

export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #served = new Set<string>();
  #reported = '';
  #cancelTimer: (() => void) | undefined;
  #ended = false;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  /** Announces to every reply channel, now. */
  announce(contextId: string | null = null): void {
    if (this.#ended) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const announce = this.#options.describe(contextId);
    this.#reported = essence(this.#options.describe(null));
    this.#options.send(announce);
  }

  /** Checks for a change: announces if it exists, and still does a while later. */
  check(): void {
    if (this.#ended || this.#cancelTimer !== undefined || !this.#changed()) return;
    this.#cancelTimer = this.#options.timer(() => {
      this.#cancelTimer = undefined;
      if (this.#changed()) this.announce();
    }, this.#options.debounceMs ?? DEBOUNCE_MS);
  }

  /** Notes that a task of this context starts. The first one is announced. */
  serve(contextId: string): void {
    if (this.#served.has(contextId)) return;
    evictOldest(this.#served.add(contextId), MAX_CONTEXTS);
    this.announce(contextId);
  }

  end(): void {
    this.#ended = true;
    this.#cancelTimer?.();
  }

  #changed(): boolean {
    return essence(this.#options.describe(null)) !== this.#reported;
  }
}

/** Returns the part of a description whose change is worth an announce. Numbers that change with every task are left out. */
function essence({ worker, capabilities, mcp_health, session }: SessionAnnounce): string {
  const clean = session?.repo_state?.clean ?? null;
  const branch = session?.repo_state?.branch ?? null;
  const { context_id, draining, not_ready } = session ?? {};
  return JSON.stringify([worker, capabilities, mcp_health, clean, branch, context_id, draining, not_ready]);
}
