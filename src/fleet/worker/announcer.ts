/**
 * When a worker describes itself: at its start, when something about it changes, for the first task of a context, when
 * asked. Liveness is another thing, and none of its business.
 *
 * Called by `worker.ts`.
 * @see docs/fleet.md#when-to-announce
 */
import type { Timer } from '../../base/timer-queue.ts';
import type { SessionAnnounce } from '../../protocol/fleet.ts';

/** So long something must have changed before it is told, so that a burst of changes is one announce. */
const DEBOUNCE_MS = 2000;
/** Contexts that are remembered as served. */
const MAX_CONTEXTS = 10_000;

export interface AnnouncerOptions {
  /** Describes the worker as it is known to be now, without looking anew and without a number. */
  readonly describe: (contextId: string | null) => SessionAnnounce;
  /** Numbers a description and sends it to everybody. */
  readonly tell: (announce: SessionAnnounce) => void;
  readonly debounceMs?: number;
  readonly timer: Timer;
}

export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #served = new Set<string>();
  #told = '';
  #cancelTimer: (() => void) | undefined;
  #over = false;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  /** Tells everybody, now. */
  announce(contextId: string | null = null): void {
    if (this.#over) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const announce = this.#options.describe(contextId);
    this.#told = essence(announce);
    this.#options.tell(announce);
  }

  /** Something may have changed: it is told if it has, and still has a while later. */
  look(): void {
    if (this.#over || this.#cancelTimer !== undefined || !this.#changed()) return;
    this.#cancelTimer = this.#options.timer(() => {
      this.#cancelTimer = undefined;
      if (this.#changed()) this.announce();
    }, this.#options.debounceMs ?? DEBOUNCE_MS);
  }

  /** A task of this context begins. The first one is told with a description. */
  serve(contextId: string): void {
    if (this.#served.has(contextId)) return;
    if (this.#served.size >= MAX_CONTEXTS) this.#served.delete(this.#served.values().next().value as string);
    this.#served.add(contextId);
    this.announce(contextId);
  }

  end(): void {
    this.#over = true;
    this.#cancelTimer?.();
  }

  #changed(): boolean {
    return essence(this.#options.describe(null)) !== this.#told;
  }
}

/** What makes two descriptions different enough to be told. Numbers that change with every task are left out. */
function essence({ worker, capabilities, mcp_health, session }: SessionAnnounce): string {
  const clean = session?.repo_state?.clean ?? null;
  const branch = session?.repo_state?.branch ?? null;
  return JSON.stringify([worker, capabilities, mcp_health, clean, branch, session?.draining, session?.not_ready]);
}
