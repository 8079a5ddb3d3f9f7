/**
 * Watches the reader at the other end of one link from the moment it is behind: it may not stay far behind for long, nor
 * stand still. What is done about it is always the same, the link is dropped, so that the session can be resumed over
 * another one and nobody works for a peer that takes nothing.
 *
 * Made by `connection.ts` when a link first has more waiting than {@link HIGH_WATER_BYTES}, or than its outbox may hold.
 * @see docs/architecture.md#backpressure
 */
import type { Link } from '../transport/link.ts';

/** Unsent bytes from which a reader counts as behind: `emit` asks its caller to wait. */
export const HIGH_WATER_BYTES = 256 * 1024;
/** Behind no more. */
export const LOW_WATER_BYTES = HIGH_WATER_BYTES / 2;

export interface SlowReaderLimits {
  /** Unsent bytes past which a reader counts as too slow. */
  readonly sendBufferBytes: number;
  /** How long a reader may stay that slow before its link is dropped, in milliseconds. */
  readonly slowConsumerMs: number;
  /** How long a reader that is behind may take nothing at all before its link is dropped, in milliseconds. 0 = for ever. */
  readonly writeStallMs: number;
}

/** How often progress is looked for within `writeStallMs`: a link is dropped at most a quarter of it too late. */
const LOOKS = 4;

export class SlowConsumerGuard {
  readonly #link: Link;
  readonly #limits: SlowReaderLimits;
  readonly #pause: (paused: boolean) => void;
  /** Set while it is too far behind. */
  #grace: NodeJS.Timeout | undefined;
  /** Set while it is behind. */
  #looking: NodeJS.Timeout | undefined;
  #stopped = false;

  /** @param pause stops (true) or continues (false) reading from the peer */
  constructor(link: Link, limits: SlowReaderLimits, pause: (paused: boolean) => void) {
    this.#link = link;
    this.#limits = limits;
    this.#pause = pause;
  }

  /** So many bytes wait for the reader now. Called for each message while it is behind. */
  onBuffered(bytes: number): void {
    const { sendBufferBytes, writeStallMs } = this.#limits;
    if (this.#looking === undefined && writeStallMs > 0) this.#look();
    if (this.#grace === undefined && bytes > sendBufferBytes) this.#holdBack();
  }

  /** The link is somebody else's business from now on. */
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

  /** Reads no more from a peer that does not read, and drops its link when that lasts. */
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
