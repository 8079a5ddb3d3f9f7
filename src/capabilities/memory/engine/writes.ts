/**
 * Writes versions of entries and their indexes, and deletes them. Every function here runs inside a write of `MemoryDatabase`,
 * so its effect is complete or absent.
 */
import { crc32 } from 'node:zlib';
import { canonical, type MemoryKey } from '../key.ts';
import { NEVER, type Times } from './counters.ts';
import type { MemoryDatabase } from './database.ts';
import type { Embedder } from './embedder.ts';
import { signatureOf } from './signatures.ts';
import { packVector } from './stored-vectors.ts';
import type { NewEntry } from './types.ts';
import { fold, textOf, wordsOf } from './words.ts';

/** Bytes counted for a version in addition to its texts: its vector, its row and its rows in the indexes. */
const ROW_BYTES = 256;

/** A version to store: everything that takes time is done before the transaction. */
export interface PreparedEntry {
  readonly entry: NewEntry;
  readonly key: string;
  readonly content: string;
  readonly text: string;
  /** The words of the text, with repeats. */
  readonly words: readonly string[];
  readonly tags: string;
  readonly metadata: string | null;
  readonly provenance: string | null;
  readonly supersedes: string | null;
  readonly importance: number;
  readonly bytes: number;
  readonly vector: Float32Array | undefined;
  readonly signature: Uint32Array | undefined;
}

export function prepare(entry: NewEntry, embedder: Embedder): PreparedEntry {
  const key = canonical(entry.key);
  const content = JSON.stringify(entry.content);
  const raw = textOf(entry.key, entry.content, entry.tags);
  const text = fold(raw);
  const tags = JSON.stringify(entry.tags);
  const metadata = entry.metadata === undefined ? null : JSON.stringify(entry.metadata);
  const provenance = entry.provenance === undefined ? null : JSON.stringify(entry.provenance);
  const supersedes = entry.supersedes.length === 0 ? null : JSON.stringify(entry.supersedes);
  const importance = entry.metadata?.importance;
  const vector = embedder.embedNow?.(raw);
  return {
    entry,
    key,
    content,
    text,
    words: wordsOf(text),
    tags,
    metadata,
    provenance,
    supersedes,
    importance: typeof importance === 'number' && Number.isFinite(importance) ? importance : 0,
    bytes:
      ROW_BYTES +
      [key, content, tags, metadata ?? '', provenance ?? '', entry.source].reduce(
        (sum, text) => sum + Buffer.byteLength(text),
        0,
      ),
    vector,
    signature: vector && signatureOf(vector),
  };
}

/** Returns the checksum of the contents of a version, so that a read notices a flipped bit. */
export const sumOf = (...texts: readonly (string | null)[]): number =>
  crc32(texts.map((text) => text ?? '').join('\0'));

interface VersionRow {
  readonly id: number;
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  readonly valid_until: number;
  readonly stored_at: number;
  readonly content: string;
  readonly tags: string;
  readonly source: string;
  readonly metadata: string | null;
}

export interface StoreContext {
  readonly database: MemoryDatabase;
  readonly part: number;
  /** Epoch seconds. */
  readonly now: number;
  /** Versions stored beside the newest; 0 for tiers without a history. */
  readonly historyVersions: number;
  /** Number of the embedder of the vectors. */
  readonly embedder: number;
}

/** Stores a version of an entry; cuts the versions around it to the times they hold. */
export function storeVersion(context: StoreContext, prepared: PreparedEntry): void {
  const { database, part, now, historyVersions } = context;
  const { entry, key } = prepared;
  const validUntil = entry.validUntil ?? NEVER;
  const expires = entry.expiresAt ?? (entry.ttl === 0 ? NEVER : now + entry.ttl);
  const { content, tags, metadata, provenance, supersedes } = prepared;
  const sum = sumOf(key, content, tags, entry.source, metadata, provenance);
  const versions = database
    .sql(
      'SELECT id, starts, ends, expires, valid_until, stored_at, content, tags, source, metadata FROM entry WHERE part = ? AND key = ? ORDER BY starts, id',
    )
    .all(part, key) as unknown as VersionRow[];
  // A version that already held when it was stored, and begins after now, means that the clock was set back. The version stored
  // later wins.
  const ahead = versions.findLast((version) => version.starts > now && version.starts <= version.stored_at);
  const starts = entry.validFrom ?? ahead?.starts ?? now;
  // A version holds from the time it is stored, even if the clock was set back.
  const storedAt = entry.validFrom === undefined ? Math.max(now, starts) : now;
  const before = versions.findLast((version) => version.starts <= starts);
  const after = versions.find((version) => version.starts > starts);
  // The provenance is not part of the fact.
  const same =
    before !== undefined &&
    before.ends > starts &&
    entry.validFrom === undefined &&
    [before.content, before.tags, before.source, before.metadata].join('\0') ===
      [content, tags, entry.source, metadata].join('\0');
  if (same && before.valid_until === validUntil && entry.supersedes.length === 0) {
    // An import does not shorten the life of a stored entry.
    if (entry.expiresAt !== undefined && before.expires >= expires) return;
    // A repeat of a fact makes no new version, but its time and its expiry count from now.
    const seenAt = Math.max(now, before.stored_at);
    database
      .sql('UPDATE entry SET updated_at = ?, stored_at = ?, ttl = ?, expires = ?, score = ? WHERE id = ?')
      .run(entry.updatedAt, seenAt, entry.ttl, expires, entry.score, before.id);
    database.counters.move(part, before, { ...before, stored_at: seenAt, expires });
    database.expire(before.id, expires);
    return;
  }
  if (historyVersions === 0) for (const { id } of versions) deleteVersion(database, id);
  else if (before !== undefined && before.ends > starts) database.end(before.id, starts);
  const ends = Math.min(validUntil, historyVersions === 0 ? NEVER : (after?.starts ?? NEVER));
  const { lastInsertRowid } = database
    .sql(
      `INSERT INTO entry (part, key, content, text, tags, source, score, ttl, created_at, updated_at, stored_at, valid_until,
         starts, ends, expires, importance, metadata, provenance, supersedes, bytes, sum)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      part,
      key,
      content,
      prepared.text,
      tags,
      entry.source,
      entry.score,
      entry.ttl,
      entry.createdAt,
      entry.updatedAt,
      storedAt,
      validUntil,
      starts,
      ends,
      expires,
      prepared.importance,
      metadata,
      provenance,
      supersedes,
      prepared.bytes,
      sum,
    );
  const id = Number(lastInsertRowid);
  for (const tag of new Set(entry.tags)) {
    database.sql('INSERT INTO tag (part, tag, entry) VALUES (?, ?, ?)').run(part, tag, id);
  }
  indexText(database, id, prepared.text, prepared.words);
  if (prepared.vector !== undefined) storeVector(context, id, prepared.vector, prepared.signature as Uint32Array);
  database.counters.count(part, { starts, ends, expires, stored_at: storedAt, bytes: prepared.bytes });
  const { words, signature } = prepared;
  database.index?.add({ id, part, starts, ends, expires, words: words.length, signature }, words);
  for (const old of entry.supersedes) supersede(database, part, old, key, starts);
  // Deletes the oldest versions above the maximum; the newest is never among them.
  const most = historyVersions + 1;
  if (historyVersions > 0 && versions.length + 1 > most) {
    for (const { id: oldest } of versions.slice(0, versions.length + 1 - most)) deleteVersion(database, oldest);
  }
}

/** Stores the vector of an already stored version, in place of its former vector. */
export function replaceVector(
  context: Pick<StoreContext, 'database' | 'embedder'>,
  id: number,
  vector: Float32Array,
  signature: Uint32Array,
): void {
  const { database, embedder } = context;
  const known = database.sql('SELECT embedder FROM vector WHERE entry = ?').get(id);
  if (known !== undefined) database.counters.vectors(known.embedder as number, -1);
  storeVector(context, id, vector, signature);
  database.sign(id, embedder, signature);
}

/** Replaces the text of a stored version in the full-text indexes, unless the version is deleted or has another text by now. */
export function replaceText(database: MemoryDatabase, id: number, before: string, text: string): void {
  if (before === text) return;
  if (database.sql('SELECT 1 FROM entry WHERE id = ? AND text = ?').get(id, before) === undefined) return;
  unindexText(database, id, before);
  database.sql('UPDATE entry SET text = ? WHERE id = ?').run(text, id);
  indexText(database, id, text);
  // The index in memory knows the former words.
  database.index = undefined;
}

/** Adds a text to the full-text indexes. */
export function indexText(
  database: MemoryDatabase,
  id: number,
  text: string,
  words: readonly string[] = wordsOf(text),
): void {
  database.sql('INSERT INTO words (rowid, text) VALUES (?, ?)').run(id, words.join(' '));
  database.sql('INSERT INTO grams (rowid, text) VALUES (?, ?)').run(id, text);
}

function unindexText(database: MemoryDatabase, id: number, text: string): void {
  database.sql(`INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)`).run(id, wordsOf(text).join(' '));
  database.sql(`INSERT INTO grams (grams, rowid, text) VALUES ('delete', ?, ?)`).run(id, text);
}

function storeVector(
  { database, embedder }: Pick<StoreContext, 'database' | 'embedder'>,
  id: number,
  vector: Float32Array,
  signature: Uint32Array,
): void {
  database.counters.vectors(embedder, 1);
  database
    .sql('INSERT OR REPLACE INTO vector (entry, embedder, numbers) VALUES (?, ?, ?)')
    .run(id, embedder, packVector(vector));
  database
    .sql('INSERT OR REPLACE INTO signature (entry, embedder, bits) VALUES (?, ?, ?)')
    .run(id, embedder, new Uint8Array(signature.buffer));
}

/** Ends the facts of another key at the start of this one. */
function supersede(database: MemoryDatabase, part: number, old: MemoryKey, by: string, starts: number): void {
  const key = canonical(old);
  if (key === by) return;
  const rows = database
    .sql('SELECT id FROM entry WHERE part = ? AND key = ? AND starts <= ? AND ends > ?')
    .all(part, key, starts, starts) as { id: number }[];
  for (const { id } of rows) database.end(id, starts);
  database.sql('INSERT OR IGNORE INTO successor (part, key, by) VALUES (?, ?, ?)').run(part, key, by);
}

/** Deletes one version with all data derived from it. */
export function deleteVersion(database: MemoryDatabase, id: number): void {
  const row = database
    .sql('SELECT part, text, tags, bytes, starts, ends, expires, stored_at FROM entry WHERE id = ?')
    .get(id) as unknown as (Times & { part: number; text: string; tags: string; bytes: number }) | undefined;
  if (row === undefined) return;
  unindexText(database, id, row.text);
  for (const tag of new Set(JSON.parse(row.tags) as string[])) {
    database.sql('DELETE FROM tag WHERE part = ? AND tag = ? AND entry = ?').run(row.part, tag, id);
  }
  const vector = database.sql('SELECT embedder FROM vector WHERE entry = ?').get(id);
  if (vector !== undefined) database.counters.vectors(vector.embedder as number, -1);
  database.sql('DELETE FROM vector WHERE entry = ?').run(id);
  database.sql('DELETE FROM signature WHERE entry = ?').run(id);
  database.sql('DELETE FROM entry WHERE id = ?').run(id);
  database.counters.count(row.part, row, -1);
  database.remove(id);
}

/**
 * Maximum time of deletions in one transaction, and number of versions. The full-text index takes up to milliseconds for each.
 */
const DELETES_MS = 20;
const MAX_DELETED = 200;

/**
 * Calls `step`, which deletes and returns the number of deleted versions, for items from a position on, until the transaction
 * has taken long enough. Returns the position to continue at.
 */
export function deleteSome<Item>(
  database: MemoryDatabase,
  items: readonly Item[],
  from: number,
  step: (item: Item) => number,
): number {
  const until = performance.now() + DELETES_MS;
  let deleted = 0;
  let at = from;
  do {
    const versions = step(items[at++] as Item);
    if (versions > 0) database.settle();
    deleted += versions;
  } while (at < items.length && deleted < MAX_DELETED && performance.now() < until);
  return at;
}

/** Deletes a key with all its versions. Returns their number. */
export function deleteKey(database: MemoryDatabase, part: number, key: string): number {
  const rows = database.sql('SELECT id FROM entry WHERE part = ? AND key = ?').all(part, key) as { id: number }[];
  for (const { id } of rows) deleteVersion(database, id);
  database.sql('DELETE FROM successor WHERE part = ? AND (key = ? OR by = ?)').run(part, key, key);
  return rows.length;
}
