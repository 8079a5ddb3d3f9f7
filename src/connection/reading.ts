/**
 * Decides whether a connection reads from its link: several reasons not to read may exist at once, and a peer is read
 * no faster than its input can be refused.
 *
 * `wire/frame.ts` decides the amount that is read from a link in one turn. This file spreads the messages of one long
 * piece over several turns.
 */
import { nextTurn } from '../base/next-turn.ts';
import type { Link } from '../transport/link.ts';

/** Reasons why a connection does not read, as bits. */
export const PAUSED_BY = { inbox: 1, slowConsumer: 2, lines: 4, refusals: 8, share: 16, preparing: 32 } as const;

/** A message of more characters is read in a later turn than the one in which it arrived. */
export const LONG_CHARS = 1024 * 1024;
/** Lines of one message that are read in one turn. */
const MAX_LINES_A_TURN = 64;
/** Refusals of input that became no request that are sent at once; beyond it, the same number a second. */
const MAX_REFUSALS = 1000;
/**
 * Time for which a peer that had too many refusals is not read from, and the interval of the checks for waiting lines,
 * milliseconds.
 */
const REST_MS = 50;

export class Reading {
  readonly #link: () => Link | undefined;
  #reasons = 0;
  /** Called when the last of the lines was read: the peer has ended its side. */
  #ended: (() => void) | undefined;
  /** Refusals lately: one is dropped for each that may be sent a second. */
  #refusals = 0;
  #refusedAt = 0;

  /** @param link returns the present link of the connection */
  constructor(link: () => Link | undefined) {
    this.#link = link;
  }

  /** False while the link is not read from. */
  get open(): boolean {
    return this.#reasons === 0;
  }

  /** Resets the state when the connection has detached its link. */
  release(): void {
    this.#reasons = 0;
    this.#ended = undefined;
  }

  /** Reads from the link while no reason not to exists. */
  pause(reason: number, paused: boolean): void {
    const { open } = this;
    this.#reasons = paused ? this.#reasons | reason : this.#reasons & ~reason;
    if (open !== this.open) this.#link()?.pause(paused);
  }

  /** Counts a refusal of input that became no request. */
  refused(): void {
    if (++this.#refusals <= MAX_REFUSALS) return;
    const now = performance.now();
    this.#refusals = Math.max(0, this.#refusals - ((now - this.#refusedAt) * MAX_REFUSALS) / 1000);
    this.#refusedAt = now;
    if (this.#refusals <= MAX_REFUSALS || (this.#reasons & PAUSED_BY.refusals) !== 0) return;
    this.pause(PAUSED_BY.refusals, true);
    this.#later(() => this.pause(PAUSED_BY.refusals, false), REST_MS);
  }

  /**
   * Reads lines of one message, some of them in each turn in which no other reason prevents it. A long message is read
   * in the next turn: receiving it was the work of this one.
   */
  lines(text: string, separator: string, read: (line: string) => void): void {
    if (text.length <= LONG_CHARS) return this.#linesFrom(0, text, separator, read);
    this.pause(PAUSED_BY.lines, true);
    this.#later(() => this.#linesFrom(0, text, separator, read), 0);
  }

  #linesFrom(from: number, text: string, separator: string, read: (line: string) => void): void {
    const waits = (this.#reasons & ~PAUSED_BY.lines) !== 0;
    let next = from;
    for (let left = waits ? 0 : MAX_LINES_A_TURN; left > 0 && next <= text.length; left--) {
      const found = text.indexOf(separator, next);
      const end = found === -1 ? text.length : found;
      if (end > next) read(text.slice(next, end));
      next = end + separator.length;
    }
    const more = next <= text.length;
    this.pause(PAUSED_BY.lines, more);
    if (more) this.#later(() => this.#linesFrom(next, text, separator, read), waits ? REST_MS : 0);
    else this.#ended?.();
  }

  /** Calls `ended` once every line was read. */
  end(ended: () => void): void {
    if ((this.#reasons & PAUSED_BY.lines) === 0) ended();
    else this.#ended = ended;
  }

  /** Runs a function not before another turn, and only while the connection has this link. */
  #later(run: () => void, ms: number): void {
    const link = this.#link();
    if (link === undefined) return;
    const due = (): void => {
      if (this.#link() === link) run();
    };
    if (ms === 0) nextTurn(due);
    // A browser's timer is a number.
    else setTimeout(due, ms).unref?.();
  }
}
