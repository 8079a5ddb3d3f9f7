/**
 * Shares the process: work that does not wait, such as the expressions of many nodes, stops after some milliseconds until the
 * others of the process have had their turn. All runs of a host share one, so that many runs take no more of a turn than one.
 *
 * Used by `run.ts` and `steps.ts`, and by `sampled.ts` for the dry run.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Milliseconds of a turn; the evaluation that is running then still ends. */
const TURN_MS = 10;

export class Turns {
  #until = performance.now() + TURN_MS;
  #next: Promise<void> | undefined;

  /** True when others should have their turn. After `while (turns.over) await turns.next()` what follows has time, up to an await. */
  get over(): boolean {
    return performance.now() >= this.#until;
  }

  /** Resolves in the next turn. */
  next(): Promise<void> {
    this.#next ??= nextTurn().then(() => {
      this.#until = performance.now() + TURN_MS;
      this.#next = undefined;
    });
    return this.#next;
  }
}
