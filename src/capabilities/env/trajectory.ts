/**
 * The newest transitions of one episode in memory, bounded by number and bytes, for `env/exp/list`.
 *
 * Values are stored by reference: an environment does not change values that it has returned.
 */
/** One step of an episode. */
export interface Transition {
  /** Counts the steps of this episode id from 1, through autoresets. */
  readonly index: number;
  /** The step of its episode, from 1. */
  readonly step: number;
  readonly state: Readonly<Record<string, unknown>>;
  readonly action: unknown;
  readonly reward: number;
  readonly next_state: Readonly<Record<string, unknown>>;
  readonly done: boolean;
  readonly terminated: boolean;
  readonly truncated: boolean;
  readonly info: Readonly<Record<string, unknown>>;
}

/** One step in its stored and sent form: a reward that JSON has no form for is `"Infinity"`, `"-Infinity"` or `"NaN"`. */
export interface StoredTransition extends Omit<Transition, 'reward'> {
  readonly reward: number | string;
}

export interface TrajectoryLimits {
  /** Transitions stored for one episode. */
  readonly storedSteps: number;
  /** Their size, estimated, in bytes. */
  readonly storedBytes: number;
}

interface Stored {
  readonly transition: StoredTransition;
  readonly bytes: number;
}

export class Trajectory {
  readonly #limits: TrajectoryLimits;
  #stored: Stored[] = [];
  #head = 0;
  #bytes = 0;

  constructor(limits: TrajectoryLimits) {
    this.#limits = limits;
  }

  /** The number of stored transitions. */
  get size(): number {
    return this.#stored.length - this.#head;
  }

  add(transition: StoredTransition): void {
    const bytes = sizeOf(transition.next_state) + sizeOf(transition.action) + TRANSITION_BYTES;
    this.#stored.push({ transition, bytes });
    this.#bytes += bytes;
    const { storedSteps, storedBytes } = this.#limits;
    while (this.size > 0 && (this.size > storedSteps || this.#bytes > storedBytes)) {
      this.#bytes -= (this.#stored[this.#head++] as Stored).bytes;
    }
    if (this.#head > 64 && this.#head * 2 > this.#stored.length) {
      this.#stored = this.#stored.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Returns the newest transitions, at most `limit`, in order. */
  newest(limit: number): StoredTransition[] {
    const from = Math.max(this.#head, this.#stored.length - limit);
    return this.#stored.slice(from).map(({ transition }) => transition);
  }

  /** Returns the transitions after an index, at most `limit`, the oldest first. */
  after(index: number, limit: number): StoredTransition[] {
    const first = this.#stored[this.#head]?.transition.index ?? 0;
    const from = this.#head + Math.max(0, index + 1 - first);
    return this.#stored.slice(from, from + limit).map(({ transition }) => transition);
  }
}

/** Bytes of a transition beside its state and action. */
const TRANSITION_BYTES = 160;
const NUMBER_BYTES = 16;

/** Returns the approximate bytes of a value as JSON, without writing it. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return NUMBER_BYTES;
  let bytes = 2;
  if (Array.isArray(value)) {
    for (const item of value) bytes += sizeOf(item);
    return bytes;
  }
  // `for … in` makes no list: this runs for every step.
  for (const name in value) bytes += name.length + 4 + sizeOf((value as Record<string, unknown>)[name]);
  return bytes;
}
