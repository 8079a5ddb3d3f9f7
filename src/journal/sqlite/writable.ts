/**
 * Decides whether a durable entry could be stored now, as far as earlier writes show it; see `Journal.unwritable`.
 * Reports failures to the list of failing stores.
 */
import { storeFailed, storeWorks } from '../../base/failing-stores.ts';
import { mayGrow, mayWrite } from '../../base/sqlite/file.ts';
import type { HandfastError } from '../../wire/errors.ts';

export class Writable {
  readonly #what: string;
  readonly #file: string | null | undefined;
  /** Reason why the newest durable write failed, as long as none has succeeded since. */
  #refused: HandfastError | undefined;
  /** True when the disk was tried in this turn of the event loop. */
  #tried = false;

  /** @param what name of the store in errors */
  constructor(what: string, file: string | null | undefined) {
    this.#what = what;
    this.#file = file;
  }

  /** Records a failed write; after one that is `fatal` only a restart helps. */
  failed(error: HandfastError, synced: boolean, fatal: boolean): void {
    if (synced) this.#refused = error;
    storeFailed(this, this.#what, error, fatal, () => mayWrite(this.#file));
  }

  /** Records a successful write. */
  works(synced: boolean): void {
    if (synced) this.#refused = undefined;
    storeWorks(this);
  }

  /** Stops reporting failures. */
  close(): void {
    storeWorks(this);
  }

  /**
   * Returns the reason why no durable entry can be stored, or undefined.
   *
   * @param behind the reason why volatile entries wait
   * @param attempt writes a little, synced, and returns the reason of a failure
   */
  why(behind: HandfastError | undefined, attempt: () => HandfastError | undefined): HandfastError | undefined {
    const known = this.#refused ?? behind;
    if (known === undefined || this.#tried) return known;
    this.#tried = true;
    setImmediate(() => {
      this.#tried = false;
    });
    if (this.#file && !mayGrow(this.#file)) return known;
    const failure = attempt();
    if (failure !== undefined) this.failed(failure, true, false);
    else {
      this.works(true);
      this.#tried = false;
    }
    return failure;
  }
}
