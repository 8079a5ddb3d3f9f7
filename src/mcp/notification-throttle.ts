/**
 * Limits the notifications of a server that sends too many: reading each costs time that other servers and agents need.
 * Those past a rate are dropped before they are read; of those that announce a change, the last of each kind is
 * delivered later.
 */
import { processTimer } from '../base/timer-queue.ts';
import { TokenBucket } from '../base/token-bucket.ts';

/** Notifications that are read in a second. */
const PER_SECOND = 500;
/** After so long the last ones are delivered, milliseconds. */
const LATER_MS = 1_000;
/** Kinds of changes that wait, e.g. one for each resource. */
const MAX_WAITING = 256;

interface Notification {
  readonly method: string;
  readonly params?: { readonly uri?: unknown } | undefined;
}

export class NotificationThrottle {
  readonly #bucket = new TokenBucket(() => PER_SECOND);
  readonly #waiting = new Map<string, () => void>();
  #isEnded = false;

  /** Delivers a message now, later, or never: a message that is no notification always now. */
  pass(message: object, deliver: () => void): void {
    const { method, params } = message as Partial<Notification>;
    // The end of a question is one of a few.
    const isNotification = method !== undefined && !('id' in message) && method !== 'notifications/cancelled';
    if (!isNotification || this.#bucket.take()) return deliver();
    if (!/^notifications\/(?:\w+\/list_changed|resources\/updated)$/.test(String(method))) return;
    if (this.#waiting.size === 0) processTimer(() => this.#deliver(), LATER_MS);
    const kind = `${method} ${String(params?.uri ?? '').slice(0, 512)}`;
    if (this.#waiting.has(kind) || this.#waiting.size < MAX_WAITING) this.#waiting.set(kind, deliver);
  }

  /** Delivers no further message. */
  end(): void {
    this.#isEnded = true;
  }

  #deliver(): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    if (!this.#isEnded) for (const deliver of waiting) deliver();
  }
}
