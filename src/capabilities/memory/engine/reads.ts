/**
 * What is read: entries by key and tag, lists, histories, and the page of a search. Every version is checked against its
 * checksum before it leaves.
 *
 * Used by `service.ts`.
 */
import { fail } from '../../../wire/errors.ts';
import { canonical, type MemoryKey } from '../key.ts';
import { type MemoryDatabase, NEVER } from './database.ts';
import type { SearchHit } from './search.ts';
import { sumOf } from './writes.ts';

/** A part of a database with what its entries are called in replies. */
export interface PartView {
  readonly part: number;
  readonly tier: string;
  /** The shared space; undefined for own entries. */
  readonly space?: string | undefined;
}

/** What a reply is read from: a database and its parts that this asker may read. */
export interface Source {
  readonly database: MemoryDatabase;
  readonly parts: readonly PartView[];
}

/** Which entries. */
export interface Filter {
  /** Canonical keys; empty: any. */
  readonly keys: readonly string[];
  /** Any of them; empty: any. */
  readonly tags: readonly string[];
  /** Valid at this time; undefined: every version. */
  readonly at: number | undefined;
  /** Not expired at this time. */
  readonly now: number;
  /** Stored with this score or more. */
  readonly minScore: number;
  /** The clock stands before the newest writes, and `at` is the present: see {@link isBehind}. */
  readonly behind: boolean;
}

export interface EntryRow {
  readonly id: number;
  readonly part: number;
  readonly key: string;
  readonly content: string;
  readonly tags: string;
  readonly source: string;
  readonly score: number;
  readonly ttl: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly valid_until: number;
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  readonly metadata: string | null;
  readonly provenance: string | null;
  readonly supersedes: string | null;
  readonly sum: number;
}

const COLUMNS =
  'id, part, key, content, tags, source, score, ttl, created_at, updated_at, valid_until, starts, ends, expires, metadata, provenance, supersedes, sum';

export const filterOf = (
  keys: readonly MemoryKey[],
  tags: readonly string[],
  at: number | undefined,
  now: number,
  behind = false,
): Filter => ({
  keys: keys.map(canonical),
  tags,
  at,
  now,
  behind,
  minScore: Number.NEGATIVE_INFINITY,
});

/**
 * True when the clock was set back behind something that was stored: it then says nothing about which of these entries hold. A
 * request for the present gets those that held when they were stored, and none that had been replaced by then.
 */
export function isBehind({ database, parts }: Source, now: number): boolean {
  const newer = database.sql('SELECT 1 FROM entry WHERE part = ? AND stored_at > ? LIMIT 1');
  return parts.some(({ part }) => newer.get(part, now) !== undefined);
}

/** An entry whose end is the start of one that held when it was stored: of its key, or of one that superseded it. */
const REPLACED = `ends < ${NEVER} AND (EXISTS (
    SELECT 1 FROM entry AS later WHERE later.part = entry.part AND later.key = entry.key AND later.id <> entry.id
      AND later.starts = entry.ends AND later.starts <= later.stored_at
  ) OR EXISTS (
    SELECT 1 FROM successor JOIN entry AS later ON later.part = successor.part AND later.key = successor.by
    WHERE successor.part = entry.part AND successor.key = entry.key
      AND later.starts = entry.ends AND later.starts <= later.stored_at
  ))`;

/** The condition of a filter as SQL with its values. Lists travel as JSON, so that there are few statements. */
function conditionOf(
  { parts }: Source,
  { keys, tags, at, now, minScore, behind }: Filter,
): { sql: string; values: (string | number)[] } {
  const list = 'IN (SELECT value FROM json_each(?))';
  const partList = JSON.stringify(parts.map(({ part }) => part));
  let sql = `part ${list} AND expires > ?`;
  const values: (string | number)[] = [partList, now];
  if (at !== undefined) {
    sql += behind
      ? ` AND (starts <= ? OR starts <= stored_at) AND ends > ? AND NOT (${REPLACED})`
      : ' AND starts <= ? AND ends > ?';
    values.push(at, at);
  }
  if (Number.isFinite(minScore)) {
    sql += ' AND score >= ?';
    values.push(minScore);
  }
  if (keys.length > 0) {
    sql += ` AND key ${list}`;
    values.push(JSON.stringify(keys));
  }
  if (tags.length > 0) {
    sql += ` AND id IN (SELECT entry FROM tag WHERE part ${list} AND tag ${list})`;
    values.push(partList, JSON.stringify(tags));
  }
  return { sql, values };
}

/** How many entries a filter selects. */
export function countEntries(source: Source, filter: Filter): number {
  const { sql, values } = conditionOf(source, filter);
  return (source.database.sql(`SELECT count(*) AS count FROM entry WHERE ${sql}`).get(...values) as { count: number })
    .count;
}

/** The ids a filter selects, the newest first. */
export function idsOf(source: Source, filter: Filter): number[] {
  const { sql, values } = conditionOf(source, filter);
  const rows = source.database.sql(`SELECT id FROM entry WHERE ${sql}`).all(...values) as { id: number }[];
  return rows.map(({ id }) => id);
}

/** The entries a filter selects with an id below `before`, the newest first, at most `limit`. */
export function listEntries(source: Source, filter: Filter, before: number, limit: number): EntryRow[] {
  const { sql, values } = conditionOf(source, filter);
  return source.database
    .sql(`SELECT ${COLUMNS} FROM entry WHERE ${sql} AND id < ? ORDER BY id DESC LIMIT ?`)
    .all(...values, before, limit) as unknown as EntryRow[];
}

/** An entry by its id, if it is still there, and holds at a time; undefined: at any. */
export function readEntry({ database }: Source, id: number, at: number | undefined, now: number): EntryRow | undefined {
  const row = database.sql(`SELECT ${COLUMNS} FROM entry WHERE id = ?`).get(id) as unknown as EntryRow | undefined;
  // The index may be behind what another process has written.
  if (row === undefined || row.expires <= now) return undefined;
  return at === undefined || (row.starts <= at && row.ends > at) ? row : undefined;
}

/** Keys that superseded each other, from one of them on. */
function chainOf(database: MemoryDatabase, part: number, key: string): string[] {
  const rows = database
    .sql(
      `WITH RECURSIVE chain (key) AS (
         SELECT ? UNION SELECT iif(successor.key = chain.key, successor.by, successor.key) FROM chain
         JOIN successor ON successor.part = ? AND (successor.key = chain.key OR successor.by = chain.key)
       ) SELECT key FROM chain LIMIT 1000`,
    )
    .all(key, part) as { key: string }[];
  return rows.map((row) => row.key);
}

/** All versions of a key and of what it superseded, the newest fact first. */
export function historyOf({ database, parts }: Source, key: string, now: number): EntryRow[] {
  return parts.flatMap(({ part }) => {
    const keys = JSON.stringify(chainOf(database, part, key));
    return database
      .sql(
        `SELECT ${COLUMNS} FROM entry WHERE part = ? AND key IN (SELECT value FROM json_each(?)) AND expires > ?
         ORDER BY starts DESC, id DESC`,
      )
      .all(part, keys, now) as unknown as EntryRow[];
  });
}

/** Fails where the row is not what was once written. */
export function checkSum(row: EntryRow): void {
  const { key, content, tags, source, metadata, provenance } = row;
  if (sumOf(key, content, tags, source, metadata, provenance) === row.sum) return;
  throw fail('journal_corrupt', 'an entry of the memory is damaged');
}

/** The entry as it stands in a reply. Throws `journal_corrupt` for one whose bytes have changed. */
export function entryOf(
  { parts }: Source,
  row: EntryRow,
  now: number,
  hit?: SearchHit & { readonly rank: number },
  current = row.starts <= now && row.ends > now,
): Record<string, unknown> {
  checkSum(row);
  const { tier = '', space } = parts.find(({ part }) => part === row.part) ?? {};
  return {
    key: JSON.parse(row.key),
    content: JSON.parse(row.content),
    tier,
    tags: JSON.parse(row.tags),
    source: row.source,
    score: hit?.score ?? row.score,
    ttl: row.ttl,
    created_at: row.created_at,
    updated_at: row.updated_at,
    valid_from: row.starts,
    valid_until: row.ends === NEVER ? null : row.ends,
    current,
    ...(row.metadata !== null && { metadata: JSON.parse(row.metadata) }),
    ...(row.supersedes !== null && { supersedes: JSON.parse(row.supersedes) }),
    ...(row.provenance !== null && { provenance: JSON.parse(row.provenance) }),
    ...(space !== undefined && { space }),
    ...(hit && { parts: { lexical: hit.lexical, vector: hit.vector, literal: hit.literal, rank: hit.rank } }),
  };
}

/** An entry that is stored, as one to store. */
export function storedEntry(source: Source, row: EntryRow, now: number) {
  const entry = entryOf(source, row, now) as {
    key: MemoryKey;
    content: unknown;
    tags: string[];
    metadata?: Record<string, unknown>;
    provenance?: Record<string, unknown>;
    valid_until: number | null;
  };
  return {
    ...entry,
    tier: 'semantic' as const,
    source: row.source,
    score: row.score,
    ttl: row.ttl === 0 ? 0 : Math.max(1, Math.ceil(row.expires - now)),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    validFrom: row.starts,
    validUntil: entry.valid_until ?? undefined,
    supersedes: [],
    metadata: entry.metadata,
    provenance: entry.provenance,
  };
}
