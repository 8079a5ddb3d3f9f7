/**
 * Watches a slow reader at the other end of one link: it must not exceed the send buffer for long, nor stop reading. In
 * both cases the link is dropped. The session can then be resumed over another link, and no work is done for a peer
 * that does not read.
 *
 * It exists from the time when the unsent bytes of a link first exceed {@link HIGH_WATER_BYTES} or its send buffer.
 * @see docs/architecture.md#backpressure
 */
import type { Link } from '../transport/link.ts';

/** High-water mark: above these unsent bytes `emit` makes its caller wait. */
export const HIGH_WATER_BYTES = 256 * 1024;
/** Low-water mark: below these unsent bytes producers continue. */
export const LOW_WATER_BYTES = HIGH_WATER_BYTES / 2;

export interface SlowReaderLimits {
  /** Unsent bytes past which a reader counts as too slow. */
  readonly sendBufferBytes: number;
  /** Time for which a reader may stay above `sendBufferBytes` until its link is dropped, in milliseconds. */
  readonly slowConsumerMs: number;
  /** Time for which a slow reader may read nothing at all until its link is dropped, in milliseconds. 0 = no limit. */
  readonly writeStallMs: number;
}

/** Number of checks for progress within `writeStallMs`: a link is dropped at most a quarter of it too late. */
const LOOKS = 4;

export class SlowConsumerGuard {
  readonly #link: Link;
  readonly #limits: SlowReaderLimits;
  readonly #pause: (paused: boolean) => void;
  /** Set while it is above the send buffer. */
  #grace: NodeJS.Timeout | undefined;
  /** Set while it is above the high-water mark. */
  #looking: NodeJS.Timeout | undefined;
  #stopped = false;

  /** @param pause stops (true) or continues (false) reading from the peer */
  constructor(link: Link, limits: SlowReaderLimits, pause: (paused: boolean) => void) {
    this.#link = link;
    this.#limits = limits;
    this.#pause = pause;
  }

  /** Handles the current number of unsent bytes. Called for each message while the reader is slow. */
  onBuffered(bytes: number): void {
    const { sendBufferBytes, writeStallMs } = this.#limits;
    if (this.#looking === undefined && writeStallMs > 0) this.#look();
    if (this.#grace === undefined && bytes > sendBufferBytes) this.#holdBack();
  }

  /** Stops watching the link. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#grace);
    clearInterval(this.#looking);
  }

  /** Drops the link when nothing leaves it for `writeStallMs`. A reader that is slow and steady is waited for. */
  #look(): void {
    const link = this.#link;
    let { progress } = link;
    let still = 0;
    this.#looking = setInterval(() => {
      const now = link.progress;
      still = now === undefined || now !== progress ? 0 : still + 1;
      progress = now;
      if (still === LOOKS) link.destroy('slow_consumer');
    }, this.#limits.writeStallMs / LOOKS);
    this.#looking.unref?.(); // A browser's timer is a number.
    void link.drained(LOW_WATER_BYTES).then(() => {
      clearInterval(this.#looking);
      this.#looking = undefined;
    });
  }

  /** Stops reading from a peer that does not read, and drops its link after `slowConsumerMs`. */
  #holdBack(): void {
    const link = this.#link;
    this.#pause(true);
    this.#grace = setTimeout(() => link.destroy('slow_consumer'), this.#limits.slowConsumerMs);
    void link.drained(this.#limits.sendBufferBytes / 2).then(() => {
      if (this.#stopped) return;
      clearTimeout(this.#grace);
      this.#grace = undefined;
      this.#pause(false);
    });
  }
}
