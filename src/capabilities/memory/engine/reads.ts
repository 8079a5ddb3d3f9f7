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
): Filter => ({
  keys: keys.map(canonical),
  tags,
  at,
  now,
  minScore: Number.NEGATIVE_INFINITY,
});

/** The condition of a filter as SQL with its values. Lists travel as JSON, so that there are few statements. */
function conditionOf(
  { parts }: Source,
  { keys, tags, at, now, minScore }: Filter,
): { sql: string; values: (string | number)[] } {
  const list = 'IN (SELECT value FROM json_each(?))';
  const partList = JSON.stringify(parts.map(({ part }) => part));
  let sql = `part ${list} AND expires > ?`;
  const values: (string | number)[] = [partList, now];
  if (at !== undefined) {
    sql += ' AND starts <= ? AND ends > ?';
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

/** An entry by its id, if it is still there and holds. */
export function readEntry({ database }: Source, id: number, at: number, now: number): EntryRow | undefined {
  const row = database.sql(`SELECT ${COLUMNS} FROM entry WHERE id = ?`).get(id) as unknown as EntryRow | undefined;
  // The index may be behind what another process has written.
  return row !== undefined && row.starts <= at && row.ends > at && row.expires > now ? row : undefined;
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
    current: row.starts <= now && row.ends > now,
    ...(row.metadata !== null && { metadata: JSON.parse(row.metadata) }),
    ...(row.supersedes !== null && { supersedes: JSON.parse(row.supersedes) }),
    ...(row.provenance !== null && { provenance: JSON.parse(row.provenance) }),
    ...(space !== undefined && { space }),
    ...(hit && { parts: { lexical: hit.lexical, vector: hit.vector, literal: hit.literal, rank: hit.rank } }),
  };
}
