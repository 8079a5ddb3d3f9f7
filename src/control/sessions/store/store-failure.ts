/** The errors of the store beside the journal of sessions. */
import { sqliteFailure } from '../../../base/sqlite/failure.ts';
import type { HandfastError } from '../../../wire/errors.ts';

/** Its name in errors. */
export const STORE = 'the session store';

/** Turns an error that the store threw while it was in use into one of the table; the original is its `cause`. */
export const storeFailure = (thrown: unknown): HandfastError => sqliteFailure(thrown, STORE);

/** Does a write. Throws the errors of {@link storeFailure}. */
export function stored(write: () => void): void {
  try {
    write();
  } catch (thrown) {
    throw storeFailure(thrown);
  }
}
