/**
 * Reads entries by key and tag, lists, histories, and the page of a search. Every version is checked against its checksum
 * before a reply contains it.
 */
import { fail } from '../../../wire/errors.ts';
import { canonical, type MemoryKey } from '../key.ts';
import { NEVER } from './counters.ts';
import type { MemoryDatabase } from './database.ts';
import type { SearchHit } from './search.ts';
import { sumOf } from './writes.ts';

/** A part of a database with the names of its entries in replies. */
export interface PartView {
  readonly part: number;
  readonly tier: string;
  /** The shared space; undefined for own entries. */
  readonly space?: string | undefined;
}

/** The source of a reply: a database and its parts that the requester may read. */
export interface Source {
  readonly database: MemoryDatabase;
  readonly parts: readonly PartView[];
}

/** The entries that a request selects. */
export interface Filter {
  /** Canonical keys; empty: any. */
  readonly keys: readonly string[];
  /** Tags of which an entry has any; empty: any. */
  readonly tags: readonly string[];
  /** Entries valid at this time; undefined: every version. */
  readonly at: number | undefined;
  /** Entries not expired at this time. */
  readonly now: number;
  /** Entries stored with at least this score. */
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

/** The columns name the table, since a query may join others. */
const COLUMNS =
  'id, part, key, content, tags, source, score, ttl, created_at, updated_at, valid_until, starts, ends, expires, metadata, provenance, supersedes, sum'.replaceAll(
    /\w+/g,
    'entry.$&',
  );

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
 * Returns true when the clock was set back behind a stored entry: it then does not tell which of these entries hold. A request
 * for the present gets the entries that held when they were stored, and none that had been replaced by then.
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

/** A query of entries without its columns, and its values: `FROM …`, and behind it `WHERE …`. */
interface Selected {
  readonly from: string;
  readonly where: string;
  readonly id: string;
  readonly values: readonly (string | number)[];
}

/** Returns the condition on the times and scores of the versions that a filter selects. */
function timesOf({ at, now, minScore, behind }: Filter): { sql: string; values: number[] } {
  let sql = 'expires > ?';
  const values = [now];
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
  return { sql, values };
}

/** Returns the query of a filter. Lists travel as JSON, so that the number of statements is small. */
function selected({ parts }: Source, filter: Filter): Selected {
  const { keys, tags } = filter;
  const list = 'IN (SELECT value FROM json_each(?))';
  const partList = JSON.stringify(parts.map(({ part }) => part));
  const times = timesOf(filter);
  let where = `entry.part ${list} AND ${times.sql}`;
  const values: (string | number)[] = [partList, ...times.values];
  if (keys.length > 0) {
    where += ` AND key ${list}`;
    values.push(JSON.stringify(keys));
  }
  if (tags.length > 0) {
    where += ` AND id IN (SELECT entry FROM tag WHERE part ${list} AND tag ${list})`;
    values.push(partList, JSON.stringify(tags));
  }
  return { from: 'entry', where, id: 'entry.id', values };
}

/** With more tags and parts, a list is sorted instead. */
const MAX_WALKS = 16;

/** Splits a selection into pieces that an index has in the order of ids: a page begins anywhere in a piece without a sort. */
function walks(source: Source, filter: Filter): Selected[] {
  const { keys, tags } = filter;
  const { parts } = source;
  if (keys.length > 0 || parts.length * Math.max(1, tags.length) > MAX_WALKS) return [selected(source, filter)];
  const { sql, values } = timesOf(filter);
  return parts.flatMap(({ part }): Selected[] =>
    tags.length === 0
      ? [{ from: 'entry INDEXED BY entry_part', where: `part = ? AND ${sql}`, id: 'id', values: [part, ...values] }]
      : [...new Set(tags)].map((tag) => ({
          from: 'tag CROSS JOIN entry ON entry.id = tag.entry',
          where: `tag.part = ? AND tag.tag = ? AND ${sql}`,
          id: 'tag.entry',
          values: [part, tag, ...values],
        })),
  );
}

/** Counting by a filter without a counter stops at this number of matches. */
const MAX_COUNTED = 10_000;

/** Returns the number of entries that a filter selects, at most {@link MAX_COUNTED}. */
export function countEntries(source: Source, filter: Filter): number {
  const pieces = walks(source, filter);
  const ids = new Set<number>();
  for (const { from, where, id, values } of pieces) {
    const inner = `FROM ${from} WHERE ${where} LIMIT ${MAX_COUNTED}`;
    if (pieces.length === 1) {
      const row = source.database.sql(`SELECT count(*) AS count FROM (SELECT 1 ${inner})`).get(...values);
      return (row as { count: number }).count;
    }
    const rows = source.database.sql(`SELECT ${id} AS id ${inner}`).all(...values) as { id: number }[];
    for (const row of rows) ids.add(row.id);
    if (ids.size >= MAX_COUNTED) return MAX_COUNTED;
  }
  return ids.size;
}

/** A counter is written again when more entries than this began or ended since its time. */
const MANY_PASSED = 256;

/** Counts all entries of parts, or all that hold now, by the counters of the parts; undefined for other filters. */
export function countedEntries({ database, parts }: Source, filter: Filter): number | undefined {
  const { keys, tags, at, now, minScore, behind } = filter;
  if (keys.length > 0 || tags.length > 0 || behind || minScore > 0 || (at !== undefined && at !== now))
    return undefined;
  const below = database.sql(
    'SELECT 1 FROM entry INDEXED BY entry_below WHERE part = ? AND score < 0 AND score < ? LIMIT 1',
  );
  let total = 0;
  for (const { part } of parts) {
    if (Number.isFinite(minScore) && below.get(part, minScore) !== undefined) return undefined;
    if (at === undefined) {
      total += everyVersion(database, part, now);
      continue;
    }
    const held = database.counters.holding(part, at);
    if (held === undefined) return undefined;
    total += held.count;
    if (held.passed > MANY_PASSED) database.write(() => database.counters.advance(part, at)).catch(() => {});
  }
  return total;
}

/** Counts all versions of a part, without those that have expired and are not deleted yet. */
function everyVersion(database: MemoryDatabase, part: number, now: number): number {
  const { entries } = database.sql('SELECT entries FROM part WHERE part = ?').get(part) as { entries: number };
  const { expired } = database
    .sql(
      `SELECT count(*) AS expired FROM entry INDEXED BY entry_expires WHERE expires < ${NEVER} AND expires <= ? AND part = ?`,
    )
    .get(now, part) as { expired: number };
  return entries - expired;
}

/** Returns the ids that a filter selects. */
export function idsOf(source: Source, filter: Filter): number[] {
  const { from, where, values } = selected(source, filter);
  const rows = source.database.sql(`SELECT id FROM ${from} WHERE ${where}`).all(...values) as { id: number }[];
  return rows.map(({ id }) => id);
}

/** Returns the entries that a filter selects with an id below `before`, the newest first, at most `limit`. */
export function listEntries(source: Source, filter: Filter, before: number, limit: number): EntryRow[] {
  const rows = new Map<number, EntryRow>();
  for (const { from, where, id, values } of walks(source, filter)) {
    const found = source.database
      .sql(`SELECT ${COLUMNS} FROM ${from} WHERE ${where} AND ${id} < ? ORDER BY ${id} DESC LIMIT ?`)
      .all(...values, before, limit) as unknown as EntryRow[];
    for (const row of found) rows.set(row.id, row);
  }
  return [...rows.values()].sort((left, right) => right.id - left.id).slice(0, limit);
}

/** Returns an entry by its id, if it exists and holds at a time; undefined: at any. */
export function readEntry({ database }: Source, id: number, at: number | undefined, now: number): EntryRow | undefined {
  const row = database.sql(`SELECT ${COLUMNS} FROM entry WHERE id = ?`).get(id) as unknown as EntryRow | undefined;
  // The index may be behind the writes of another process.
  if (row === undefined || row.expires <= now) return undefined;
  return at === undefined || (row.starts <= at && row.ends > at) ? row : undefined;
}

/** Returns the keys that superseded each other, from one of them on. */
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

/**
 * Returns all versions of a key and of those that it superseded, the newest fact first: their number, their keys and the first
 * of them.
 */
export function historyOf(
  { database, parts }: Source,
  key: string,
  now: number,
  limit: number,
): { total: number; keys: string[]; rows: EntryRow[] } {
  const versions = parts.flatMap(
    ({ part }) =>
      database
        .sql(
          `SELECT id, key FROM entry WHERE part = ? AND key IN (SELECT value FROM json_each(?)) AND expires > ?
           ORDER BY starts DESC, id DESC`,
        )
        .all(part, JSON.stringify(chainOf(database, part, key)), now) as { id: number; key: string }[],
  );
  const rows = versions.slice(0, limit).flatMap(({ id }) => readEntry({ database, parts }, id, undefined, now) ?? []);
  return { total: versions.length, keys: [...new Set(versions.map((version) => version.key))], rows };
}

/** Fails if the row differs from the one that was written. */
export function checkSum(row: EntryRow): void {
  const { key, content, tags, source, metadata, provenance } = row;
  if (sumOf(key, content, tags, source, metadata, provenance) === row.sum) return;
  throw fail('journal_corrupt', 'an entry of the memory is damaged');
}

/** Returns the entry in the form of a reply. Throws `journal_corrupt` for one whose bytes have changed. */
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

/** Converts a stored entry to one to store. */
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
    ttl: row.ttl,
    expiresAt: row.ttl === 0 ? undefined : row.expires,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    validFrom: row.starts,
    validUntil: entry.valid_until ?? undefined,
    supersedes: [],
    metadata: entry.metadata,
    provenance: entry.provenance,
  };
}
