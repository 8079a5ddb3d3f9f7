/**
 * `handfast/journal`: the logs of sessions, and the contract for other implementations.
 */

import './base/node-version.ts';

export {
  DEFAULT_RETENTION,
  type Durability,
  type Gap,
  type Journal,
  type JournalEntry,
  type JournalSession,
  type NewEntry,
  type Page,
  type RecordedSession,
  type Retention,
  type SessionRecords,
} from './journal/journal.ts';
export { memoryJournal } from './journal/memory.ts';
export {
  type Damage,
  type SessionExpiry,
  type SqliteJournal,
  type SqliteJournalOptions,
  sqliteJournal,
} from './journal/sqlite/sqlite.ts';
