/**
 * What a connection asks of the shares of its principal, which all links of the principal have in common.
 *
 * `session/traffic-shares.ts` implements it; `connection.ts` asks it for every request.
 */
import type { Link } from '../transport/link.ts';
import type { HandfastError } from '../wire/errors.ts';

/** Starts and stops reading from its link. */
export interface Throttled {
  throttle(paused: boolean): void;
}

export interface Traffic {
  /** A link is attached; it is counted until {@link leave}, and so are the bytes it receives. */
  join(reader: Throttled, link: Link): void;
  /** Its link is detached or lost. */
  leave(reader: Throttled): void;
  /**
   * A request has arrived: the reason to refuse it, or undefined, and then it counts until {@link ended}.
   *
   * @param exempt it ends other work or only looks: counted, and not refused; past the share the links are read later
   */
  admit(exempt: boolean): HandfastError | undefined;
  /** Something that nothing refuses has arrived, such as a ping. Past the share the links are read later. */
  arrived(): void;
  /** The handling of a message starts that nothing refuses. False: the share is used up; read no more for now. */
  started(): boolean;
  /** A request has its reply, or the handling of a message has ended. */
  ended(): void;
}
