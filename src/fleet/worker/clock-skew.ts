/**
 * Skew between the clock of an orchestrator and this worker's, so that a deadline means the same moment on both sides.
 *
 * A message says when it was sent; the difference to when it came is the skew of the clocks less the time it was under
 * way. So the largest of several differences is the one nearest to the skew.
 * @see docs/fleet.md#failure-semantics
 */

/** Differences up to this are delay and rounding, not skew. */
const IGNORED_MS = 5000;
/** Older samples are removed: clocks are put right now and then. */
const WINDOW_MS = 10 * 60_000;
const MAX_SAMPLES = 32;

interface Sample {
  readonly at: number;
  readonly ahead: number;
}

export class ClockSkew {
  #samples: readonly Sample[] = [];

  /**
   * Takes a sample: a message sent at `sentAt` by their clock came at `receivedAt` by this worker's, epoch milliseconds; `at`
   * is monotonic.
   */
  received(sentAt: number, receivedAt: number, at: number): void {
    const ahead = sentAt - receivedAt;
    // Only samples that may still become the largest are stored.
    const kept = this.#samples.filter((one) => one.ahead > ahead && at - one.at < WINDOW_MS);
    this.#samples = [...kept.slice(-(MAX_SAMPLES - 1)), { at, ahead }];
  }

  /**
   * Returns the time by which a message was longer under way than the fastest recent one, milliseconds; arguments as in
   * `received`.
   */
  delayMs(sentAt: number, receivedAt: number): number {
    return Math.max(0, (this.#samples[0]?.ahead ?? 0) - (sentAt - receivedAt));
  }

  /** Milliseconds that their clock is ahead of this worker's; 0 when the difference may as well be delay. */
  get aheadMs(): number {
    const ahead = this.#samples[0]?.ahead ?? 0;
    return Math.abs(ahead) > IGNORED_MS ? ahead : 0;
  }
}
