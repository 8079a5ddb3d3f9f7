/**
 * The refusals that every journal makes in the same words: a cursor that does not grow, and calls after `close`.
 */
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Durability } from './journal.ts';

/** Returns true when an entry with `cursor` may come after one with `last`. Cursors may jump, but always grow. */
export function follows(cursor: number, last: number): boolean {
  return cursor > last && Number.isSafeInteger(cursor);
}

/** Returns the `runtime_error` for a cursor that does not grow. */
export function outOfOrder(cursor: unknown, last: number): HandfastError {
  return fail('runtime_error', `journal cursors must be integers that grow: ${String(cursor)} after ${last}`);
}

/** Returns the `runtime_error` of every call after `close`. */
export function journalClosed(): HandfastError {
  return fail('runtime_error', 'the journal is closed');
}

/** Returns the promise of an append that is refused at once; see `Journal.append`. */
export function refuse(error: HandfastError, durability: Durability | undefined): Promise<void> {
  const refused = Promise.reject(error);
  // A caller may await the rejection of a volatile append, but need not.
  if (durability === 'volatile') refused.catch(() => {});
  return refused;
}
