/**
 * Detects silent links: a network that drops everything, a machine without power, a suspended process. A link that
 * neither carries traffic nor replies to a ping within its bound is destroyed; its owner then handles an ordinary lost
 * link.
 *
 * Time is counted in ticks of one timer, not in milliseconds: after this process was suspended, only one tick has
 * passed, and messages that arrived meanwhile are read before the next one.
 * @see docs/architecture.md#liveness
 */
import type { Link } from '../transport/link.ts';

export const DEFAULT_LIVENESS_TIMEOUT_MS = 15_000;

/** A link is lost after four silent ticks. The fifth part of the bound is the time between traffic and the next tick. */
const TICKS = 5;
const PING_AT = 2;
const LOST_AT = TICKS - 1;

/** Calls `tick` every `ms` milliseconds until the returned function is called. Does not keep the process alive. */
export type Every = (ms: number, tick: () => void) => () => void;

const processTimer: Every = (ms, tick) => {
  const timer = setInterval(tick, ms) as NodeJS.Timeout | number;
  // In a browser a timer is a number, and does not keep a process alive.
  if (typeof timer === 'object') timer.unref();
  return () => clearInterval(timer);
};

export interface LivenessOptions {
  /** Time for which a link may be silent, milliseconds; it is lost after 80 to 100 % of it. 0 = no limit. Default 15,000. */
  readonly livenessTimeoutMs?: number;
  readonly every?: Every;
}

/**
 * Sends a ping that the peer must reply to. `false`: no reply can be expected now, so its silence does not count.
 */
export type Ping = () => unknown;

interface Watched {
  readonly link: Link;
  readonly ping: Ping;
  received: number | undefined;
  /** The progress the link reported; undefined while nothing was waiting to be sent. */
  progress: number | undefined;
  silentTicks: number;
}

/** Watches any number of links with one timer, which runs only while links exist. */
export class Liveness {
  readonly #livenessTimeoutMs: number;
  readonly #every: Every;
  readonly #watched = new Set<Watched>();
  #stop: (() => void) | undefined;

  constructor({ livenessTimeoutMs = DEFAULT_LIVENESS_TIMEOUT_MS, every = processTimer }: LivenessOptions = {}) {
    this.#livenessTimeoutMs = livenessTimeoutMs;
    this.#every = every;
  }

  /**
   * Watches a link until it has ended, or the returned function is called.
   *
   * @param ping sends a ping that the peer must reply to; used where the transport itself has none. A link that has neither
   *   is not watched, because its peer may be silent legitimately.
   */
  watch(link: Link, ping?: Ping): () => void {
    const ask = link.probe === undefined ? ping : () => link.probe?.();
    if (this.#livenessTimeoutMs <= 0 || ask === undefined || link.transport === 'memory') return () => {};
    const watched = { link, ping: ask, received: link.received, progress: waiting(link), silentTicks: 0 };
    this.#watched.add(watched);
    this.#stop ??= this.#every(this.#livenessTimeoutMs / TICKS, this.#tick);
    return () => this.#forget(watched);
  }

  #forget(watched: Watched): void {
    this.#watched.delete(watched);
    if (this.#watched.size > 0) return;
    this.#stop?.();
    this.#stop = undefined;
  }

  readonly #tick = (): void => {
    for (const watched of [...this.#watched]) this.#check(watched);
  };

  #check(watched: Watched): void {
    const { link, received, progress } = watched;
    if (link.isClosed) return this.#forget(watched);
    watched.received = link.received;
    watched.progress = waiting(link);
    // While this side does not read, silence does not count. While the peer accepts this side's unsent bytes it is
    // alive, and the ping waits.
    const alive =
      watched.received === undefined ||
      watched.received !== received ||
      (progress !== undefined && watched.progress !== undefined && watched.progress !== progress);
    watched.silentTicks = alive ? 0 : watched.silentTicks + 1;
    // The peer of a link that this side does not read gets no replies, so a ping shows it that this side is alive.
    if (watched.received === undefined) watched.ping();
    if (watched.silentTicks === PING_AT && watched.ping() === false) watched.silentTicks = 0;
    if (watched.silentTicks < LOST_AT) return;
    this.#forget(watched);
    link.destroy(`the peer was silent for ${Math.round(this.#livenessTimeoutMs)} ms`);
  }
}

function waiting(link: Link): number | undefined {
  return link.buffered > 0 ? link.progress : undefined;
}
