/**
 * The tables of the SQLite journal and every statement that touches them. `sqlite-store.ts` decides when they run.
 *
 * Each row carries a CRC-32 of all its other columns: `PRAGMA quick_check` finds damaged structure but not a flipped
 * bit inside a body, the checksum finds that when the row is read.
 */
import { crc32 } from 'node:zlib';
import { fail } from '../wire/errors.ts';
import type { JournalEntry, JournalSession } from './journal.ts';

/** The parts of `DatabaseSync` used here, so that `node:sqlite` is named in `sqlite.ts` alone. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
  readonly isTransaction: boolean;
}

export interface Statement {
  run(...values: SqlValue[]): unknown;
  get(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): Row[];
  iterate(...values: SqlValue[]): Iterable<unknown>;
}

type SqlValue = string | number;
type Row = Record<string, unknown>;

/** Marks a file as a Handfast journal ("HFJL"), so that another program's database is never taken for one. */
export const APPLICATION_ID = 0x48464a4c;

/**
 * Step n takes a file from `user_version` n to n + 1. Steps are only ever added.
 *
 * `entries` is clustered by session and cursor; `size` and `crc` stand before the texts so that retention can walk over
 * rows without touching their overflow pages. `sessions.written` orders sessions by their last write; it is a counter
 * and no time, clocks go back. Entries up to `sessions.evicted` are gone, even while their rows are still there.
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE entries (
     session TEXT NOT NULL, cursor INTEGER NOT NULL, ts REAL NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL,
     encoded INTEGER NOT NULL, kind TEXT NOT NULL, request TEXT NOT NULL, body TEXT NOT NULL,
     PRIMARY KEY (session, cursor)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE sessions (
     session TEXT NOT NULL PRIMARY KEY, written INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
     evicted INTEGER NOT NULL, entries INTEGER NOT NULL, bytes INTEGER NOT NULL, crc INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
];

/** Named in every statement, so that a damaged table definition is found when they are prepared, at opening. */
const SESSION_COLUMNS = 'session, written, first, last, evicted, entries, bytes, crc';

/** An entry as it is stored: its body as text, and whether that text stands for an object. */
export interface StoredEntry {
  readonly entry: JournalEntry;
  readonly text: string;
  readonly encoded: 0 | 1;
}

/** What the `sessions` table knows of a session besides its name. */
export interface Counters {
  /** Oldest cursor held; `last + 1` when none is. */
  first: number;
  last: number;
  /** Highest cursor that retention took; 0 when none. */
  evicted: number;
  /** Entries held. */
  entries: number;
  /** Length of their bodies' texts. */
  bytes: number;
}

/** Makes an entry storable. Throws `runtime_error` when a field has the wrong type or the body is not JSON. */
export function encode(entry: JournalEntry): StoredEntry {
  const { ts, kind, request, body } = entry;
  // Checked here and not by SQLite, where one bad entry would fail everybody's commit.
  if (!Number.isFinite(ts) || typeof kind !== 'string' || typeof request !== 'string') {
    throw fail('runtime_error', 'a journal entry needs a finite ts and texts for kind and request');
  }
  if (typeof body === 'string') return { entry, text: body, encoded: 0 };
  let text: string | undefined;
  try {
    text = JSON.stringify(body);
  } catch (thrown) {
    throw fail('runtime_error', 'a journal entry has a body that is not JSON', {}, thrown);
  }
  if (text === undefined || body === null)
    throw fail('runtime_error', 'a journal entry needs a text or an object as body');
  return { entry, text, encoded: 1 };
}

/** The entry as a reader gets it: an object body is a copy made from its text, so later changes to the original do not show. */
export function decode(stored: StoredEntry): JournalEntry {
  return stored.encoded === 0 ? stored.entry : { ...stored.entry, body: JSON.parse(stored.text) as object };
}

const entrySum = (
  session: string,
  cursor: number,
  ts: number,
  encoded: number,
  kind: string,
  request: string,
  text: string,
) => crc32(text, crc32(`${session}\n${cursor}\n${ts}\n${encoded}\n${kind}\n${request}\n`));

const sessionSum = (session: string, written: number, counters: Counters) =>
  crc32(
    `${session}\n${written}\n${counters.first}\n${counters.last}\n${counters.evicted}\n${counters.entries}\n${counters.bytes}`,
  );

const damaged = (what: string) =>
  fail('journal_corrupt', `the journal file is damaged: the checksum of ${what} is wrong`);

/** Every statement of the journal, prepared once. All methods throw what SQLite throws. */
export class JournalRows {
  readonly #insert: Statement;
  readonly #page: Statement;
  readonly #oldest: Statement;
  readonly #trim: Statement;
  readonly #find: Statement;
  readonly #put: Statement;
  readonly #list: Statement;
  readonly #removeEntries: Statement;
  readonly #removeSession: Statement;
  readonly #highest: Statement;

  constructor(db: Database) {
    this.#insert = db.prepare(
      `INSERT INTO entries (session, cursor, ts, size, crc, encoded, kind, request, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#page = db.prepare(
      `SELECT cursor, ts, crc, encoded, kind, request, body FROM entries
       WHERE session = ? AND cursor > ? ORDER BY cursor LIMIT ?`,
    );
    this.#oldest = db.prepare(
      'SELECT cursor, size FROM entries WHERE session = ? AND cursor > ? ORDER BY cursor LIMIT ?',
    );
    this.#trim = db.prepare('DELETE FROM entries WHERE session = ? AND cursor <= ?');
    this.#find = db.prepare(`SELECT ${SESSION_COLUMNS} FROM sessions WHERE session = ?`);
    this.#put = db.prepare(`INSERT OR REPLACE INTO sessions (${SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#list = db.prepare(`SELECT ${SESSION_COLUMNS} FROM sessions ORDER BY written DESC LIMIT ?`);
    this.#removeEntries = db.prepare('DELETE FROM entries WHERE session = ?');
    this.#removeSession = db.prepare('DELETE FROM sessions WHERE session = ?');
    this.#highest = db.prepare('SELECT max(written) AS written FROM sessions');
  }

  insert(session: string, stored: StoredEntry): void {
    const { entry, text, encoded } = stored;
    const sum = entrySum(session, entry.cursor, entry.ts, encoded, entry.kind, entry.request, text);
    this.#insert.run(session, entry.cursor, entry.ts, text.length, sum, encoded, entry.kind, entry.request, text);
  }

  /**
   * Entries with `cursor > after`, at most `limit`, and no further ones once their bodies passed `maxBytes`.
   * Throws `journal_corrupt` when one does not match its checksum.
   */
  page(session: string, after: number, limit: number, maxBytes: number): JournalEntry[] {
    const entries: JournalEntry[] = [];
    let bytes = 0;
    for (const row of this.#page.iterate(session, after, limit)) {
      const { cursor, ts, crc, encoded, kind, request, body } = row as Record<
        'cursor' | 'ts' | 'crc' | 'encoded',
        number
      > &
        Record<'kind' | 'request' | 'body', string>;
      if (entrySum(session, cursor, ts, encoded, kind, request, body) !== crc) throw damaged(`entry ${cursor}`);
      entries.push({ cursor, ts, kind, request, body: encoded === 0 ? body : (JSON.parse(body) as object) });
      bytes += body.length;
      if (bytes >= maxBytes) break;
    }
    return entries;
  }

  /** Cursor and body length of the oldest entries with `cursor > after`. */
  oldest(session: string, after: number, limit: number): { cursor: number; size: number }[] {
    return this.#oldest.all(session, after, limit) as { cursor: number; size: number }[];
  }

  /** Removes the rows of entries up to and with `cursor`. */
  trim(session: string, cursor: number): void {
    this.#trim.run(session, cursor);
  }

  /** Throws `journal_corrupt` when the row does not match its checksum. */
  find(session: string): Counters | undefined {
    const row = this.#find.get(session);
    return row === undefined ? undefined : checked(row);
  }

  put(session: string, written: number, counters: Counters): void {
    const { first, last, evicted, entries, bytes } = counters;
    this.#put.run(session, written, first, last, evicted, entries, bytes, sessionSum(session, written, counters));
  }

  remove(session: string): void {
    this.#removeEntries.run(session);
    this.#removeSession.run(session);
  }

  list(limit: number): JournalSession[] {
    return this.#list.all(limit).map((row) => {
      const { first, last, bytes } = checked(row);
      return { session: row.session as string, first, last, bytes };
    });
  }

  /** The highest `written` in use; 0 in an empty journal. */
  highestWritten(): number {
    return (this.#highest.get()?.written as number | null | undefined) ?? 0;
  }
}

function checked(row: Row): Counters {
  const { session, written, crc, first, last, evicted, entries, bytes } = row as Record<keyof Counters, number> & {
    session: string;
    written: number;
    crc: number;
  };
  const counters = { first, last, evicted, entries, bytes };
  if (sessionSum(session, written, counters) !== crc) throw damaged(`session ${JSON.stringify(session)}`);
  return counters;
}
