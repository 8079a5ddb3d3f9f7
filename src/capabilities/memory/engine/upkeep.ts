/**
 * Background work: deletes expired entries from the files, clears sessions that never ended in order, and gives entries the
 * vectors of the embedder. Each call does a bounded step, so that requests come in between.
 */
import { NEVER } from './counters.ts';
import { type MemoryDatabase, seconds } from './database.ts';
import type { Embedder } from './embedder.ts';
import { signatureOf } from './signatures.ts';
import { fold, textOf } from './words.ts';
import { deleteSome, deleteVersion, replaceText, replaceVector } from './writes.ts';

/** Rows that one query reads. */
const SWEEP_ROWS = 200;
/** Texts per request to an embedder. */
const BATCH = 64;
const DAY_S = 86_400;
/** Timeout of a background request to the embedder. */
const EMBED_TIMEOUT_MS = 60_000;

/** Deletes expired versions; resolves with their number. */
export async function deleteExpired(database: MemoryDatabase): Promise<number> {
  let deleted = 0;
  for (;;) {
    const rows = database
      .sql(`SELECT id FROM entry WHERE expires <= ? AND expires < ${NEVER} LIMIT ?`)
      .all(seconds(), SWEEP_ROWS) as { id: number }[];
    if (rows.length === 0) break;
    await deleteVersions(database, rows);
    deleted += rows.length;
  }
  if (deleted > 0) database.erase();
  return deleted;
}

/** Approximate bytes that a write of one version puts into the log, and a deletion of {@link deleteSome}. */
const ROW_LOG_BYTES = 16_384;
const SLICE_LOG_BYTES = 50 * ROW_LOG_BYTES;

/** Deletes versions in as many transactions as they need. */
async function deleteVersions(database: MemoryDatabase, rows: readonly { readonly id: number }[]): Promise<void> {
  const deleteOne = ({ id }: { readonly id: number }): number => {
    deleteVersion(database, id);
    return 1;
  };
  for (let at = 0; at < rows.length; ) {
    const from = at;
    at = await database.write(() => deleteSome(database, rows, from, deleteOne), SLICE_LOG_BYTES);
  }
}

/**
 * Deletes working tiers that were idle for `days`: their sessions have ended with a host that was killed. Those of living
 * sessions stay.
 */
export async function deleteOrphans(
  database: MemoryDatabase,
  days: number,
  living: ReadonlySet<string>,
): Promise<void> {
  const rows = database
    .sql(`SELECT name FROM part WHERE name LIKE 'w %' AND used_at < ?`)
    .all(seconds() - days * DAY_S) as { name: string }[];
  for (const { name } of rows) {
    if (!living.has(name.split(' ', 2)[1] ?? '')) await deletePart(database, name);
  }
}

/** Deletes the parts whose name starts with `prefix`, with all their entries. */
export async function deletePart(database: MemoryDatabase, prefix: string): Promise<void> {
  const parts = database
    .sql('SELECT part FROM part WHERE name >= ? AND name < ?')
    .all(prefix, `${prefix}\u{10ffff}`) as { part: number }[];
  let any = false;
  for (const { part } of parts) {
    for (;;) {
      const rows = database.sql('SELECT id FROM entry WHERE part = ? LIMIT ?').all(part, SWEEP_ROWS) as {
        id: number;
      }[];
      if (rows.length === 0) break;
      any = true;
      await deleteVersions(database, rows);
    }
    await database.write(() => {
      database.sql('DELETE FROM successor WHERE part = ?').run(part);
      database.sql('DELETE FROM part WHERE part = ? AND entries <= 0').run(part);
    });
  }
  if (any) database.erase();
}

/**
 * Packs the entries that an older version or a recovery wrote, a bounded write at a time. Never rejects: if the disk is full, a
 * search reads them one by one.
 */
export async function packAll(database: MemoryDatabase): Promise<void> {
  try {
    while (database.packs.isBehind) await database.write(() => {});
  } catch {
    // The next search tries again.
  }
}

/** Entries whose text is folded again in one transaction. */
const REFOLDED = 64;

/** Gives entries of an older version the text that searches use, a bounded write at a time. Never rejects. */
export async function refoldAll(database: MemoryDatabase): Promise<void> {
  try {
    while (await refoldSome(database)) {
      // Requests come in between.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch {
    // The next sweep tries again.
  }
}

/** Folds some texts again. Resolves with false when none is left. */
async function refoldSome(database: MemoryDatabase): Promise<boolean> {
  const { upto } = database.sql('SELECT upto FROM unfolded').get() as { upto: number };
  if (upto === 0) return false;
  const rows = database
    .sql('SELECT id, key, content, tags, text FROM entry WHERE id <= ? ORDER BY id DESC LIMIT ?')
    .all(upto, REFOLDED) as unknown as (StoredText & { id: number })[];
  const texts = rows.map((row) => textOfRow(row));
  await database.write(() => {
    for (const [at, { id, text }] of rows.entries()) replaceText(database, id, text, texts[at] as string);
    database.sql('UPDATE unfolded SET upto = ?').run(rows.length < REFOLDED ? 0 : (rows.at(-1)?.id ?? 1) - 1);
  }, rows.length * ROW_LOG_BYTES);
  return true;
}

interface StoredText {
  readonly key: string;
  readonly content: string;
  readonly tags: string;
  readonly text: string;
}

/** Returns the folded text of an entry; of a damaged entry its former text. */
function textOfRow({ key, content, tags, text }: StoredText): string {
  try {
    return fold(textOf(JSON.parse(key), JSON.parse(content), JSON.parse(tags) as string[]));
  } catch {
    return text;
  }
}

/** Returns the number of entries without a vector of this embedder. */
export function pendingVectors(database: MemoryDatabase, embedder: number): number {
  const row = database.sql('SELECT vectors FROM embedder WHERE id = ?').get(embedder) as
    | { vectors: number }
    | undefined;
  return Math.max(0, database.usage().entries - (row?.vectors ?? 0));
}

/**
 * Gives one batch of entries their vectors, the newest first. Resolves with their number; 0: all have one. Finished vectors are
 * in the file, so a new process continues where the last one ended.
 */
export async function embedBatch(database: MemoryDatabase, embedder: Embedder, id: number): Promise<number> {
  const { newest } = database.sql('SELECT coalesce(max(id), 0) AS newest FROM entry').get() as { newest: number };
  if (newest <= database.embeddedTo) return 0;
  const rows = database
    .sql(
      `SELECT entry.id, text FROM entry LEFT JOIN vector ON vector.entry = entry.id AND vector.embedder = ?
       WHERE entry.id > ? AND vector.entry IS NULL ORDER BY entry.id DESC LIMIT ?`,
    )
    .all(id, database.embeddedTo, BATCH) as { id: number; text: string }[];
  if (rows.length === 0) {
    // Later searches for work begin here, and not at the first entry.
    database.embeddedTo = newest;
    return 0;
  }
  const vectors = await embedder.embed(
    rows.map(({ text }) => text),
    EMBED_TIMEOUT_MS,
  );
  const signatures = vectors.map(signatureOf);
  await database.write(() => {
    const exists = database.sql('SELECT 1 FROM entry WHERE id = ?');
    for (const [at, row] of rows.entries()) {
      // The entry may have been deleted while the embedder worked.
      if (exists.get(row.id) === undefined) continue;
      replaceVector({ database, embedder: id }, row.id, vectors[at] as Float32Array, signatures[at] as Uint32Array);
    }
  }, rows.length * ROW_LOG_BYTES);
  return rows.length;
}
