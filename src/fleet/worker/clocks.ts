/**
 * The clocks of the orchestrators that send dispatches: how far each is ahead of this worker's, and how long a dispatch was
 * under way.
 *
 * Updated with every dispatch.
 * @see docs/fleet.md#failure-semantics
 */
import type { Log } from '../../base/log.ts';
import type { Envelope } from '../../protocol/fleet.ts';
import type { ReplyChannel } from '../bus/reply-channel.ts';
import { ClockSkew } from './clock-skew.ts';

/** Other ends whose clocks are remembered. */
const MAX_SKEWS = 1000;
/** Skew worth a line in the log. */
const SKEW_WARN_MS = 60_000;

export interface Timing {
  /** Milliseconds that the clock of the sender is ahead of this worker's. */
  readonly skewMs: number;
  /** Time that it was under way, beyond the fastest recent one, milliseconds. */
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

  /**
   * Takes a dispatch that came through a reply channel at `receivedAt`, epoch milliseconds. On a durable channel it may have
   * waited without a limit: that it came late proves nothing about clocks, that it came before it was sent does.
   */
  received(
    { sent_at }: Envelope,
    { name: channelName, durable = false }: Pick<ReplyChannel, 'name' | 'durable'>,
    receivedAt: number,
  ): Timing {
    let skew = this.#skews.get(channelName);
    if (sent_at === undefined) return { skewMs: skew?.aheadMs ?? 0, delayMs: 0 };
    if (skew === undefined) {
      if (this.#skews.size >= MAX_SKEWS) this.#skews.clear();
      skew = new ClockSkew();
      this.#skews.set(channelName, skew);
    }
    const sentAt = durable ? Math.max(Date.parse(sent_at), receivedAt) : Date.parse(sent_at);
    skew.received(sentAt, receivedAt, this.#monotonic());
    const { aheadMs } = skew;
    if (Math.abs(aheadMs) > SKEW_WARN_MS && !this.#warned.has(channelName)) {
      this.#warned.add(channelName);
      this.#log.warn('clocks differ by more than a minute', { channelName, ahead_ms: aheadMs });
    }
    return { skewMs: aheadMs, delayMs: skew.delayMs(sentAt, receivedAt) };
  }
}
