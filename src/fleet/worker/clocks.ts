/**
 * The clocks of those who send dispatches: how far each is ahead of ours, and how long a dispatch was under way.
 *
 * Called by `worker.ts` for every dispatch.
 * @see docs/fleet.md#failure-semantics
 */
import type { Log } from '../../base/log.ts';
import type { Envelope } from '../../protocol/fleet.ts';
import { ClockSkew } from './clock-skew.ts';

/** Other ends whose clocks are remembered. */
const MAX_SKEWS = 1000;
/** Skew worth a line in the log. */
const SKEW_WARN_MS = 60_000;

export interface Timing {
  /** How far the clock of the sender is ahead of ours, milliseconds. */
  readonly skewMs: number;
  /** How long it was under way, beyond the fastest of late, milliseconds. */
  readonly delayMs: number;
}

export class Clocks {
  readonly #monotonic: () => number;
  readonly #log: Log;
  readonly #skews = new Map<string, ClockSkew>();
  readonly #warned = new Set<string>();

  /** `monotonic`: milliseconds. */
  constructor(monotonic: () => number, log: Log) {
    this.#monotonic = monotonic;
    this.#log = log;
  }

  /** A dispatch came through the outlet of this name at `receivedAt`, epoch milliseconds. */
  heard({ sent_at }: Envelope, outlet: string, receivedAt: number): Timing {
    let skew = this.#skews.get(outlet);
    if (sent_at === undefined) return { skewMs: skew?.aheadMs ?? 0, delayMs: 0 };
    if (skew === undefined) {
      if (this.#skews.size >= MAX_SKEWS) this.#skews.clear();
      skew = new ClockSkew();
      this.#skews.set(outlet, skew);
    }
    const sentAt = Date.parse(sent_at);
    skew.heard(sentAt, receivedAt, this.#monotonic());
    const { aheadMs } = skew;
    if (Math.abs(aheadMs) > SKEW_WARN_MS && !this.#warned.has(outlet)) {
      this.#warned.add(outlet);
      this.#log.warn('the clocks differ by more than a minute', { outlet, ahead_ms: aheadMs });
    }
    return { skewMs: aheadMs, delayMs: skew.delayMs(sentAt, receivedAt) };
  }
}
