/**
 * A disk on virtual time: writes of one moment are one commit, which takes a moment. A process that dies meanwhile never
 * learns of its commit, which may have reached the disk all the same.
 */
import { NEVER, type SimProcess } from './process.ts';
import type { Random } from './random.ts';

/** Duration of a commit, milliseconds. */
const COMMIT_MS = 2;

interface Write {
  readonly apply: () => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** The writes of one process to one disk. */
export class DiskWriter {
  readonly #process: SimProcess;
  readonly #random: Random;
  #batch: Write[] = [];

  constructor(process: SimProcess, random: Random) {
    this.#process = process;
    this.#random = random;
  }

  /** Resolves with the result of `apply` once it was committed; rejects with its error. */
  write<T>(apply: () => T): Promise<T> {
    if (!this.#process.alive) return NEVER;
    if (this.#batch.length === 0) this.#process.after(COMMIT_MS, () => this.#commit());
    return new Promise((resolve, reject) => this.#batch.push({ apply, resolve: resolve as never, reject }));
  }

  /**
   * Handles the death of the process: half of the time the batch that is being written reaches the disk. Call it before
   * `kill`.
   */
  crash(): void {
    const batch = this.#batch;
    this.#batch = [];
    if (batch.length > 0 && this.#random.chance(0.5)) {
      // A refusal of the store reaches no caller: the process that asked is dead.
      for (const { apply } of batch) void (async () => apply())().catch(() => {});
    }
  }

  #commit(): void {
    const batch = this.#batch;
    this.#batch = [];
    for (const { apply, resolve, reject } of batch) {
      try {
        resolve(apply() as never);
      } catch (thrown) {
        reject(thrown);
      }
    }
  }
}
