/**
 * Bounds the work for one source of input in a turn of the event loop, so that one peer that sends without end does not
 * make the others wait. A peer that has a few dozen requests in flight never reaches it.
 *
 * It bounds the messages of every transport, and HTTP requests.
 */

/** Units a turn: a message counts one, and one more for each KiB. */
const MAX_UNITS = 256;
/** Time in a turn. The cost of a message depends on its request. Messages are not interrupted, so it may take longer. */
const MAX_MS = 10;

/** Returns the number of the turn of the event loop that runs now. */
export const currentTurn = (): number => performance.nodeTiming.uvMetricsInfo.loopCount;

export class TurnShare {
  readonly #maxUnits: number;
  readonly #maxMs: number;
  #turn = -1;
  #units = 0;
  #startedAt = 0;

  constructor(maxUnits = MAX_UNITS, maxMs = MAX_MS) {
    this.#maxUnits = maxUnits;
    this.#maxMs = maxMs;
  }

  /** Counts work. True: leave the rest for a later turn. Costs a tenth of a microsecond. */
  spend(units: number): boolean {
    const turn = currentTurn();
    if (turn !== this.#turn) this.#start(turn);
    this.#units += units;
    return this.#units >= this.#maxUnits || performance.now() - this.#startedAt >= this.#maxMs;
  }

  /** Starts a new share, also within a turn. For a callback of `setImmediate`, which runs before the turn's number changes. */
  renew(): void {
    this.#start(currentTurn());
  }

  #start(turn: number): void {
    this.#turn = turn;
    this.#units = 0;
    this.#startedAt = performance.now();
  }
}

/** Time that all sources of input together have in one phase of a turn, in milliseconds. */
const ALL_MS = 10;
let turn = -1;
let startedAt = 0;

/**
 * Returns true when all sources of input have had their time in this turn. Another source waits: many peers hold a turn
 * no longer than one.
 */
export function turnIsFull(): boolean {
  const now = currentTurn();
  if (now === turn) return performance.now() - startedAt >= ALL_MS;
  turn = now;
  startedAt = performance.now();
  return false;
}

/** A source of input with messages that wait. */
interface WaitingReader {
  /** Delivers messages until its share of the turn is spent. */
  continue(): void;
}

/** Sources of input that wait for a later turn of the event loop, in their order: at least one continues in every second turn. */
export class ReadersInLine {
  #readers: WaitingReader[] = [];
  #scheduled = false;
  #skipped = false;

  add(reader: WaitingReader): void {
    this.#readers.push(reader);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#readers.length === 0) return;
    this.#scheduled = true;
    setImmediate(this.#serve);
  }

  readonly #serve = (): void => {
    // Sources whose input has just arrived had this turn; the next one is for the waiting ones.
    if (turnIsFull() && !this.#skipped) {
      this.#skipped = true;
      setImmediate(this.#serve);
      return;
    }
    this.#skipped = false;
    const until = performance.now() + ALL_MS;
    const readers = this.#readers;
    this.#readers = [];
    let served = 0;
    do readers[served++]?.continue();
    while (served < readers.length && performance.now() < until);
    // Unfinished readers queue after those that waited already.
    this.#readers = [...readers.slice(served), ...this.#readers];
    this.#scheduled = false;
    this.#schedule();
  };
}
