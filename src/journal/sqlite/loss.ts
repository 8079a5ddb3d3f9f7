/**
 * The report of a journal whose newest writes are missing: a damaged or deleted log of SQLite, a copy without it, an
 * older copy. The mark beside the file shows the loss when the file is opened.
 */
import type { Marked } from '../../base/sqlite/mark.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { JournalRows } from './rows.ts';

/** Sessions named in the error. */
const MAX_NAMED = 16;

/** Returns the `journal_damaged` error of a file that ends at write `written`, while its mark counts more. */
export function lossOf(rows: JournalRows, marked: Marked, written: number): HandfastError {
  const acknowledged = marked.synced > written;
  const what = acknowledged ? 'entries that were acknowledged' : 'entries that were not synced yet';
  return fail(
    'journal_damaged',
    `the newest entries of the journal are lost, ${what}: it ends at write ${written} of ${marked.written}`,
    {
      acknowledged,
      ends_at: written,
      of: marked.written,
      sessions: rows.count(),
      last_good: lastGood(rows),
      continues_after: marked.cursors,
    },
  );
}

/** Returns the last cursors of the sessions with the newest writes. */
function lastGood(rows: JournalRows): Record<string, number> {
  try {
    return Object.fromEntries(rows.list(MAX_NAMED).map(({ session, last }) => [session, last]));
  } catch {
    // A damaged row: reading its session reports it.
    return {};
  }
}
