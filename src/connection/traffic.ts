/**
 * The interface between a connection and the shares of its principal, which all links of the principal have in common.
 *
 * `session/traffic-shares.ts` implements it.
 */
import type { Link } from '../transport/link.ts';
import type { HandfastError } from '../wire/errors.ts';

/** Starts and stops reading from its link. */
export interface Throttled {
  throttle(paused: boolean): void;
}

export interface Traffic {
  /** Counts an attached link until {@link leave}, and the bytes it receives. */
  join(reader: Throttled, link: Link): void;
  /** Called when its link is detached or lost. */
  leave(reader: Throttled): void;
  /**
   * Counts a request that has arrived: returns the reason to refuse it, or undefined, and then it counts until
   * {@link ended}.
   *
   * @param exempt it ends other work or only reads state: counted, and not refused; past the share the links are read
   * later
   */
  admit(exempt: boolean): HandfastError | undefined;
  /** Counts a message that is never refused, such as a ping. Past the share the links are read later. */
  arrived(): void;
  /** Counts the start of handling a message that is never refused. False: the share is used up; read no more for now. */
  started(): boolean;
  /** Counts a request that has its reply, or the end of handling a message. */
  ended(): void;
}
