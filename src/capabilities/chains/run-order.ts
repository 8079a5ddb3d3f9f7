/**
 * The order in which runs are listed, and where a page of them starts: behind a run by its place, so that it is found when that
 * run was started again or deleted meanwhile.
 */
import { failure } from './errors.ts';
import type { StoredRun } from './stored.ts';

export type Place = Pick<StoredRun, 'started_at' | 'chain_id'>;

/** One order of all runs, so that pages of them neither repeat nor leave out any. */
export const newestFirst = (left: Place, right: Place): number =>
  right.started_at - left.started_at || (left.chain_id < right.chain_id ? -1 : left.chain_id > right.chain_id ? 1 : 0);

/** The cursor of the page behind a run. */
export const cursorOf = ({ started_at, chain_id }: Place): string => `${started_at} ${chain_id}`;

/** What cursors name. Throws `chains.invalid` for a text that is none. */
export function placeOf(cursor: string): Place {
  const at = cursor.indexOf(' ');
  const started_at = Number(cursor.slice(0, at));
  if (at > 0 && !Number.isNaN(started_at)) return { started_at, chain_id: cursor.slice(at + 1) };
  throw failure('invalid', 'after: expected next of the page before', { field: 'after' });
}
