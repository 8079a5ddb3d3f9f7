/**
 * The writes of a database whose owner commits each of them at once. A failure is an error of the table, and is among
 * the failing stores of the process until a write succeeds; after a failure after which no write may be trusted, none
 * is done.
 *
 * For owners that write by `group-commit.ts`, that file does the same.
 */
import type { HandfastError } from '../../wire/errors.ts';
import { storeFailed, storeWorks } from '../failing-stores.ts';
import { isFatal, sqliteFailure } from './failure.ts';
import { mayWrite } from './file.ts';

export class StoreWrites {
  readonly #what: string;
  readonly #file: string | undefined;
  #fatal: HandfastError | undefined;

  /** @param file path of the database, or `:memory:` */
  constructor(what: string, file: string) {
    this.#what = what;
    this.#file = file === ':memory:' ? undefined : file;
  }

  /** Does a write. Throws its failure. */
  do(write: () => void): void {
    if (this.#fatal !== undefined) throw this.#fatal;
    const file = this.#file;
    try {
      write();
    } catch (thrown) {
      const failure = sqliteFailure(thrown, this.#what, file);
      if (isFatal(thrown)) this.#fatal = failure;
      storeFailed(this, this.#what, failure, this.#fatal !== undefined, () => file === undefined || mayWrite(file));
      throw failure;
    }
    storeWorks(this);
  }

  /** Removes the database from the failing stores: it is closed. */
  close(): void {
    storeWorks(this);
  }
}
