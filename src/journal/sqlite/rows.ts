/**
 * The tables of the SQLite journal and every statement that touches them. `store.ts` decides when they run.
 *
 * Each row carries a CRC-32 of all its other columns, and each block names the one before it: `PRAGMA quick_check` finds
 * damaged structure, the checksum a flipped bit inside a row, the chain a row that an index no longer finds.
 */
import { crc32 } from 'node:zlib';
import { packedText, unpackedText } from '../../base/sqlite/packed.ts';
import { fail } from '../../wire/errors.ts';
import type { JournalSession, RecordedSession } from '../journal.ts';
import type { Amount } from '../shares.ts';
import { type Block, blockSum, type PageBuilder } from './block.ts';
import type { WrittenSession } from './expiry.ts';

/** The parts of `DatabaseSync` used here, so that a test can replace it. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
  /** Path of its file; null in memory. */
  location?(): string | null;
  readonly isTransaction: boolean;
}

export interface Statement {
  run(...values: SqlValue[]): unknown;
  get(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): Row[];
  iterate(...values: SqlValue[]): Iterable<unknown>;
}

type SqlValue = string | number | Uint8Array | null;
type Row = Record<string, unknown>;

/** Marks a file as a Handfast journal ("HFJL"), so that another program's database is never opened as one. */
export const APPLICATION_ID = 0x48464a4c;

/**
 * Step n migrates a file from `user_version` n to n + 1. Steps are only ever added.
 *
 * `blocks` is clustered by the time of writing, not by session: then entries that are written together lie together,
 * and a commit for a hundred sessions touches a few pages instead of a few hundred. `size` and `entries` precede the
 * texts so that retention can walk over rows without touching their overflow pages. Entries up to `sessions.evicted`
 * are removed, even while their rows are still there. A row of `ages` means that all appends up to `written` were made
 * when the journal had been in use for at most `progress` milliseconds. `sessions.written` orders sessions by their
 * last write; it is a counter and no time, because clocks go back. `usage` sums up the sessions of each owner that is
 * not `''`. `sessions.reserved` is 0, or the highest cursor that may have been used without being in the file yet.
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE blocks (
     id INTEGER PRIMARY KEY, session TEXT NOT NULL, last INTEGER NOT NULL, after INTEGER NOT NULL,
     first INTEGER NOT NULL, entries INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL,
     heads TEXT NOT NULL, bodies TEXT NOT NULL
   ) STRICT;
   CREATE UNIQUE INDEX blocks_in_order ON blocks (session, last);
   CREATE TABLE sessions (
     session TEXT NOT NULL PRIMARY KEY, written INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
     evicted INTEGER NOT NULL, entries INTEGER NOT NULL, bytes INTEGER NOT NULL, reserved INTEGER NOT NULL,
     crc INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  `CREATE TABLE facts (
     name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL, crc INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  'CREATE TABLE ages (written INTEGER PRIMARY KEY, progress INTEGER NOT NULL) STRICT;',
  `ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
   CREATE TABLE usage (
     owner TEXT NOT NULL PRIMARY KEY, bytes INTEGER NOT NULL, entries INTEGER NOT NULL, crc INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  // No operation of the journal reads every session: not an opening, a list, a sweep, or an eviction for a share.
  `CREATE INDEX sessions_by_write ON sessions (written);
   CREATE INDEX sessions_by_owner ON sessions (owner, written);
   CREATE INDEX reserved_sessions ON sessions (session) WHERE reserved > 0;`,
  `ALTER TABLE sessions ADD COLUMN record TEXT NOT NULL DEFAULT '';
   CREATE INDEX recorded_sessions ON sessions (session) WHERE record <> '';`,
  // A session of no owner is in no list of an owner; the texts of a block are in their columns, or compressed in one.
  `DROP INDEX sessions_by_owner;
   CREATE INDEX sessions_of_owners ON sessions (owner, written) WHERE owner <> '';
   ALTER TABLE blocks ADD COLUMN packed BLOB;`,
];

/**
 * Numbers of the whole journal. `written`: the newest write that left no session behind, such as a deletion. `lost_to`:
 * cursors up to here may have been used by sessions that a damage took whole; 0 without a damage. `progress` and
 * `seen_at`: see `progress.ts`.
 */
export type Fact = 'written' | 'lost_to' | 'progress' | 'seen_at' | 'tried';

/** Named in every statement, so that a damaged table definition is found when they are prepared, at opening. */
const SESSION_COLUMNS = 'session, written, first, last, evicted, entries, bytes, reserved, owner, record, crc';

/** Columns of the `sessions` table besides the name. */
export interface Counters {
  /** Number of its last append in the whole journal. */
  written: number;
  /** Oldest stored cursor; `last + 1` when none is. */
  first: number;
  last: number;
  /** Highest cursor that retention evicted; 0 when none. */
  evicted: number;
  /** Number of stored entries. */
  entries: number;
  /** Length of their bodies' texts. */
  bytes: number;
  /** Cursors up to here may be in use without being in the file; 0 when none are. */
  reserved: number;
  /** The owner in whose share it counts; `''` = in none. */
  owner: string;
  /** The record that its writer stored beside the entries; `''` = none. */
  record: string;
}

/** The stored amounts of an owner. */
export interface OwnerUsage extends Amount {
  readonly owner: string;
}

/** A session in the share of an owner. */
export interface OwnedSession extends Amount {
  readonly session: string;
  /** Number of its last append in the whole journal. */
  readonly written: number;
}

/** A block without its texts. */
export interface BlockSummary {
  readonly after: number;
  readonly first: number;
  readonly last: number;
  readonly entries: number;
  readonly size: number;
}

const sessionSum = (session: string, counters: Counters) => {
  const { written, first, last, evicted, entries, bytes, reserved, owner, record } = counters;
  const sum = crc32(`${session}\n${written}\n${first}\n${last}\n${evicted}\n${entries}\n${bytes}\n${reserved}`);
  // Rows of earlier versions have no owner and no record.
  const owned = owner === '' ? sum : crc32(owner, sum);
  return record === '' ? owned : crc32(`\n${record}`, owned);
};

/** Heads and bodies of a block, out of their compressed form. Unreadable bytes become texts that do not match the checksum. */
function unpacked(packed: Uint8Array): Pick<Block, 'heads' | 'bodies'> {
  try {
    const text = unpackedText(packed);
    // The heads are JSON on one line.
    const end = text.indexOf('\n');
    return { heads: text.slice(0, end), bodies: text.slice(end + 1) };
  } catch {
    return { heads: '', bodies: '' };
  }
}

const damaged = (what: string) => fail('journal_corrupt', `the journal file is damaged: ${what}`);

const usageSum = (owner: string, { bytes, entries }: Amount): number => crc32(`${owner}\n${bytes}\n${entries}`);

const factSum = (name: string, value: number): number => crc32(`${name}\n${value}`);

/** Bytes that any change dirties in the file at least. */
const PAGE_BYTES = 4096;

/** Every statement of the journal, prepared once. All methods throw errors of SQLite. */
export class JournalRows {
  /** Approximate bytes written to the log through these statements. Reset by the caller that truncates the log. */
  logged = 0;
  readonly #insert: Statement;
  readonly #page: Statement;
  readonly #summaries: Statement;
  readonly #heads: Statement;
  readonly #trim: Statement;
  readonly #find: Statement;
  readonly #put: Statement;
  readonly #recount: Statement;
  readonly #recorded: Statement;
  readonly #list: Statement;
  readonly #listOwned: Statement;
  readonly #names: Statement;
  readonly #count: Statement;
  readonly #reserved: Statement;
  readonly #removeBlocks: Statement;
  readonly #removeSession: Statement;
  readonly #highest: Statement;
  readonly #highestCursor: Statement;
  readonly #putAge: Statement;
  readonly #writtenBefore: Statement;
  readonly #trimAges: Statement;
  readonly #fact: Statement;
  readonly #putFact: Statement;
  readonly #owned: Statement;
  readonly #share: Statement;
  readonly #usage: Statement;
  readonly #countUsage: Statement;
  readonly #putUsage: Statement;
  readonly #removeUsage: Statement;

  /** Blocks are few and compressed: durable entries of one commit share them. */
  readonly sparing: boolean;

  /** @param sparing see {@link JournalRows.sparing}; blocks of both kinds are read */
  constructor(db: Database, sparing = false) {
    this.sparing = sparing;
    this.#insert = db.prepare(
      `INSERT INTO blocks (session, last, after, first, entries, size, crc, heads, bodies, packed)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#page = db.prepare(
      `SELECT last, after, first, entries, crc, heads, bodies, packed FROM blocks
       WHERE session = ? AND last > ? ORDER BY last`,
    );
    this.#summaries = db.prepare(
      `SELECT last, after, first, entries, size FROM blocks
       WHERE session = ? AND last > ? ORDER BY last LIMIT ?`,
    );
    this.#heads = db.prepare('SELECT heads, packed FROM blocks WHERE session = ? AND last = ?');
    this.#trim = db.prepare('DELETE FROM blocks WHERE session = ? AND last <= ?');
    this.#find = db.prepare(`SELECT ${SESSION_COLUMNS} FROM sessions WHERE session = ?`);
    this.#put = db.prepare(
      `INSERT OR REPLACE INTO sessions (${SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#recount = db.prepare(
      `UPDATE sessions SET written = ?, first = ?, last = ?, evicted = ?, entries = ?, bytes = ?, crc = ? WHERE session = ?`,
    );
    this.#recorded = db.prepare(`SELECT ${SESSION_COLUMNS} FROM sessions WHERE record <> ''`);
    this.#list = db.prepare(`SELECT ${SESSION_COLUMNS} FROM sessions ORDER BY written DESC LIMIT ?`);
    this.#listOwned = db.prepare(
      `SELECT ${SESSION_COLUMNS} FROM sessions WHERE owner = ? AND owner <> '' ORDER BY written DESC LIMIT ?`,
    );
    this.#names = db.prepare(
      `SELECT session, written, owner FROM sessions
       WHERE (written, session) > (?, ?) ORDER BY written, session LIMIT ?`,
    );
    this.#count = db.prepare('SELECT count(*) AS count FROM sessions');
    this.#reserved = db.prepare('SELECT session FROM sessions WHERE reserved > 0');
    this.#removeBlocks = db.prepare('DELETE FROM blocks WHERE session = ?');
    this.#removeSession = db.prepare('DELETE FROM sessions WHERE session = ?');
    this.#highest = db.prepare('SELECT max(written) AS written FROM sessions');
    this.#highestCursor = db.prepare('SELECT max(max(last, reserved)) AS cursor FROM sessions');
    this.#putAge = db.prepare('INSERT OR IGNORE INTO ages (written, progress) VALUES (?, ?)');
    this.#writtenBefore = db.prepare('SELECT max(written) AS written FROM ages WHERE progress <= ?');
    this.#trimAges = db.prepare('DELETE FROM ages WHERE written < ?');
    this.#fact = db.prepare('SELECT value, crc FROM facts WHERE name = ?');
    this.#putFact = db.prepare('INSERT OR REPLACE INTO facts (name, value, crc) VALUES (?, ?, ?)');
    this.#owned = db.prepare(
      "SELECT session, written, bytes, entries FROM sessions WHERE owner = ? AND owner <> '' ORDER BY written",
    );
    this.#share = db.prepare('SELECT owner, bytes, entries FROM sessions WHERE session = ?');
    this.#usage = db.prepare('SELECT owner, bytes, entries, crc FROM usage');
    this.#countUsage = db.prepare(
      `SELECT owner, sum(bytes) AS bytes, sum(entries) AS entries FROM sessions WHERE owner <> '' GROUP BY owner`,
    );
    this.#putUsage = db.prepare('INSERT OR REPLACE INTO usage (owner, bytes, entries, crc) VALUES (?, ?, ?, ?)');
    this.#removeUsage = db.prepare('DELETE FROM usage WHERE owner = ?');
  }

  insert(session: string, block: Block): void {
    const { last, after, first, entries, heads, bodies } = block;
    const sum = blockSum(session, block);
    const packed = this.sparing && entries > 0 ? packedText(`${heads}\n${bodies}`) : null;
    this.logged += (packed?.length ?? heads.length + bodies.length) + PAGE_BYTES;
    const [plainHeads, plainBodies] = packed === null ? [heads, bodies] : ['', ''];
    this.#insert.run(session, last, after, first, entries, bodies.length, sum, plainHeads, plainBodies, packed);
  }

  /**
   * Fills `page` from the blocks of a session that ends at `last`. Throws `journal_corrupt` when one does not match its
   * checksum or is missing.
   */
  fill(page: PageBuilder, session: string, last: number): void {
    for (const row of this.#page.iterate(session, page.at)) {
      const { crc, packed, ...stored } = row as Block & { crc: number; packed: Uint8Array | null };
      const block = packed === null ? stored : { ...stored, ...unpacked(packed) };
      const which = block.first === block.last ? `entry ${block.last}` : `entries ${block.first} to ${block.last}`;
      if (blockSum(session, block) !== crc) throw damaged(`the checksum of ${which} is wrong`);
      if (block.after > page.at) throw damaged(`what comes before ${which} is missing`);
      page.addBlock(block);
      if (page.full) return;
    }
    if (page.at !== last) throw damaged(`what comes after entry ${page.at} is missing`);
  }

  /** Returns the oldest blocks that end above `after`. */
  summaries(session: string, after: number, limit: number): BlockSummary[] {
    return this.#summaries.all(session, after, limit) as unknown as BlockSummary[];
  }

  /** Returns the heads of the block that ends at `last`, unchecked. */
  heads(session: string, last: number): string {
    const { heads = '', packed = null } = this.#heads.get(session, last) ?? {};
    return packed === null ? (heads as string) : unpacked(packed as Uint8Array).heads;
  }

  /** Removes the blocks that end at or before `cursor`. */
  trim(session: string, cursor: number): void {
    this.logged += PAGE_BYTES;
    this.#trim.run(session, cursor);
  }

  /** Throws `journal_corrupt` when the row does not match its checksum. */
  find(session: string): Counters | undefined {
    const row = this.#find.get(session);
    return row === undefined ? undefined : checked(row);
  }

  /**
   * Stores the counters of a session.
   *
   * @param before the stored counters: an update of the counts alone changes fewer indexes
   */
  put(session: string, counters: Counters, before?: Counters): void {
    const { written, first, last, evicted, entries, bytes, reserved, owner, record } = counters;
    const sum = sessionSum(session, counters);
    this.logged += PAGE_BYTES;
    const isStored = before !== undefined && before.written > 0;
    if (isStored && before.reserved === reserved && before.owner === owner && before.record === record) {
      const { changes } = this.#recount.run(written, first, last, evicted, entries, bytes, sum, session) as {
        changes: number | bigint;
      };
      if (Number(changes) > 0) return;
    }
    this.#put.run(session, written, first, last, evicted, entries, bytes, reserved, owner, record, sum);
  }

  remove(session: string): void {
    this.logged += PAGE_BYTES;
    this.#removeBlocks.run(session);
    this.#removeSession.run(session);
  }

  /** Returns the sessions with the newest last writes, of all owners or of one. */
  list(limit: number, owner?: string): JournalSession[] {
    const rows = owner === undefined ? this.#list.all(limit) : this.#listOwned.all(owner, limit);
    return rows.map((row) => {
      const { first, last, bytes, owner: name } = checked(row);
      return { session: row.session as string, first, last, bytes, ...(name !== '' && { owner: name }) };
    });
  }

  /** Returns the sessions with a record, except those whose row does not match its checksum. */
  recorded(): RecordedSession[] {
    return this.#recorded.all().flatMap((row) => {
      try {
        const { last, owner, record } = checked(row);
        return [{ session: row.session as string, last, owner, record }];
      } catch {
        return [];
      }
    });
  }

  /** Sessions after this one, or the first ones, in the order of their last write; the one written to longest ago first. */
  names(limit: number, after?: Pick<WrittenSession, 'session' | 'written'>): WrittenSession[] {
    return this.#names.all(after?.written ?? -1, after?.session ?? '', limit) as unknown as WrittenSession[];
  }

  /** Returns the number of sessions. Reads an index of all of them. */
  count(): number {
    return this.#count.get()?.count as number;
  }

  /** Returns the sessions of an owner, the one with the oldest last write first; read as far as they are iterated. */
  ownedBy(owner: string): Iterable<OwnedSession> {
    return this.#owned.iterate(owner) as Iterable<OwnedSession>;
  }

  /** Returns the amounts that a session counts for, unchecked; undefined for one that is not in the file. */
  shareOf(session: string): OwnerUsage | undefined {
    return this.#share.get(session) as OwnerUsage | undefined;
  }

  /** Returns the amounts of each owner. Counted again when a row does not match its checksum. */
  usage(): OwnerUsage[] {
    const rows = this.#usage.all() as unknown as (OwnerUsage & { readonly crc: number })[];
    return rows.every((row) => usageSum(row.owner, row) === row.crc)
      ? rows
      : (this.#countUsage.all() as unknown as OwnerUsage[]);
  }

  putUsage(owner: string, amount: Amount): void {
    this.logged += PAGE_BYTES;
    if (amount.entries === 0) this.#removeUsage.run(owner);
    else this.#putUsage.run(owner, amount.bytes, amount.entries, usageSum(owner, amount));
  }

  /** Stores that all appends up to `written` were made by now. */
  putAge(written: number, progress: number): void {
    this.logged += PAGE_BYTES;
    this.#putAge.run(written, progress);
  }

  /** Returns the newest append made before the journal had been in use for `progress` milliseconds; 0 when none is known. */
  writtenBefore(progress: number): number {
    return (this.#writtenBefore.get(progress)?.written as number | null | undefined) ?? 0;
  }

  /** Forgets the ages of appends before `written`. */
  trimAges(written: number): void {
    this.#trimAges.run(written);
  }

  /** Returns the sessions with reserved cursors. */
  reserved(): string[] {
    return this.#reserved.all().map(({ session }) => session as string);
  }

  /**
   * Ends a session's reservation; with `lost`, the cursors it covered, and all up to `upTo`, count as used and their entries
   * as lost.
   */
  unreserve(session: string, lost: boolean, upTo = 0): void {
    let counters: Counters | undefined;
    try {
      counters = this.find(session);
    } catch {
      // Damaged: a read of it reports the damage; it must not prevent the others from being opened.
    }
    if (counters === undefined) return;
    const { last, entries } = counters;
    const reserved = Math.max(counters.reserved, upTo);
    if (lost && reserved > last) {
      const block = { after: last, first: last + 1, last: reserved, entries: 0, heads: '', bodies: '' };
      if (entries > 0) this.insert(session, block);
      else Object.assign(counters, { first: reserved + 1, evicted: reserved });
      counters.last = reserved;
    }
    this.put(session, { ...counters, reserved: 0 });
  }

  /** Returns the highest `written` in use; 0 in an empty journal. */
  highestWritten(): number {
    return Math.max((this.#highest.get()?.written as number | null | undefined) ?? 0, this.fact('written'));
  }

  /** Returns the highest cursor that any session has used or reserved. Reads every session. */
  highestCursor(): number {
    return (this.#highestCursor.get()?.cursor as number | null | undefined) ?? 0;
  }

  /** Returns a fact; 0 when it was never set. Throws `journal_corrupt` when the row does not match its checksum. */
  fact(name: Fact): number {
    const row = this.#fact.get(name) as { value: number; crc: number } | undefined;
    if (row === undefined) return 0;
    if (factSum(name, row.value) !== row.crc) throw damaged(`the checksum of ${name} is wrong`);
    return row.value;
  }

  putFact(name: Fact, value: number): void {
    this.logged += PAGE_BYTES;
    this.#putFact.run(name, value, factSum(name, value));
  }
}

function checked(row: Row): Counters {
  const { session, crc, ...counters } = row as unknown as Counters & { session: string; crc: number };
  if (sessionSum(session, counters) !== crc)
    throw damaged(`the checksum of session ${JSON.stringify(session)} is wrong`);
  return counters;
}
