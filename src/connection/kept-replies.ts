/**
 * The last replies of the side that journals nothing, in case a lost link swallowed them: at a resume the peer sends
 * the number of messages it has read, and gets the later ones again.
 */
import type { Encoded } from '../wire/codec.ts';

export class KeptReplies {
  readonly #limit: number;
  #kept: { readonly out: Encoded; readonly ordinal: number }[] = [];

  /** @param limit replies stored at most: as many as the peer may have requests running here */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a reply. @param ordinal its number among the messages of the session; infinite for one that was not sent */
  add(out: Encoded, ordinal: number): void {
    this.#kept.push({ out, ordinal });
    if (this.#kept.length > this.#limit) this.#kept.shift();
  }

  /** Removes all, and returns those that a peer which has read `received` messages never got. */
  takeLost(received: number): Encoded[] {
    const lost = this.#kept.filter(({ ordinal }) => ordinal > received);
    this.#kept = [];
    return lost.map(({ out }) => out);
  }
}
