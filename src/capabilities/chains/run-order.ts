/**
 * The order in which runs are listed, and the start of a page: behind a run by its position, so that the page is found even
 * when that run was started again or deleted meanwhile.
 */
import { failure } from './errors.ts';
import type { StoredRun } from './stored.ts';

export type Place = Pick<StoredRun, 'started_at' | 'chain_id'>;

/** Compares runs by one total order, so that pages neither repeat nor leave out any. */
export const newestFirst = (left: Place, right: Place): number =>
  right.started_at - left.started_at || (left.chain_id < right.chain_id ? -1 : left.chain_id > right.chain_id ? 1 : 0);

/** Returns the cursor of the page behind a run. */
export const cursorOf = ({ started_at, chain_id }: Place): string => `${started_at} ${chain_id}`;

/** Returns the position that a cursor names. Throws `chains.invalid` for an invalid cursor. */
export function placeOf(cursor: string): Place {
  const at = cursor.indexOf(' ');
  const started_at = Number(cursor.slice(0, at));
  if (at > 0 && !Number.isNaN(started_at)) return { started_at, chain_id: cursor.slice(at + 1) };
  throw failure('invalid', 'after: expected next of the page before', { field: 'after' });
}
