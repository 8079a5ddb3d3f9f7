/**
 * Brings the index in memory up to what the database has: at the first search, and when another process has written.
 *
 * Used by `search.ts` and `service.ts`.
 */
import type { StatementSync } from 'node:sqlite';
import { SIGNATURE_BYTES, SIGNATURE_WORDS, SignatureIndex } from './signatures.ts';

/** What an index is loaded from, with the index: a `MemoryDatabase`. */
export interface IndexedDatabase {
  index: SignatureIndex | undefined;
  /** Number of the embedder whose signatures the index has. */
  embedder: number;
  /** Commits of other connections that the index has seen. */
  version: number;
  sql(text: string): StatementSync;
  usage(): { readonly entries: number };
}

interface Row {
  readonly id: number;
  readonly part: number;
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  /** How many words the full-text index counted, as one of SQLite's numbers of variable length. */
  readonly counted: Uint8Array | null;
  readonly bits: Uint8Array | null;
}

/** Past this share of removed entries the index is made again. */
const MAX_REMOVED = 0.5;

/** The index with all that is committed, for signatures of this embedder. */
export function loadedIndex(database: IndexedDatabase, embedder: number): SignatureIndex {
  const { entries } = database.usage();
  const { index } = database;
  const stale = index !== undefined && (database.embedder !== embedder || index.size * MAX_REMOVED > entries + 1024);
  if (index === undefined || stale) {
    database.index = new SignatureIndex();
    database.embedder = embedder;
    database.version = -1;
  }
  refreshIndex(database);
  return database.index as SignatureIndex;
}

/**
 * Adds what other connections have committed. What they ended or deleted is noticed when the entry is read; only new ones
 * would be missed.
 */
export function refreshIndex(database: IndexedDatabase): void {
  const { index, embedder } = database;
  if (index === undefined) return;
  const { data_version: version } = database.sql('PRAGMA data_version').get() as { data_version: number };
  if (version === database.version) return;
  database.version = version;
  // Which words the new entries have is not read here.
  index.postings.clear();
  const rows = database
    .sql(
      `SELECT entry.id, part, starts, ends, expires, sz AS counted, bits FROM entry INDEXED BY entry_part
       LEFT JOIN words_docsize ON words_docsize.id = entry.id
       LEFT JOIN signature ON signature.entry = entry.id AND signature.embedder = ?
       WHERE entry.id > ? ORDER BY entry.id`,
    )
    .iterate(embedder, index.lastId) as IterableIterator<unknown> as IterableIterator<Row>;
  for (const { bits, counted, ...entry } of rows) {
    const [words = 0] = counted === null ? [] : readVarints(counted, 1);
    index.add({ ...entry, words, signature: bits === null ? undefined : signatureIn(bits) });
  }
}

/** The first numbers of a block of the full-text index: seven bits a byte, the high one says that more follow. */
export function readVarints(block: Uint8Array, count: number): number[] {
  let at = 0;
  return Array.from({ length: count }, () => {
    let value = 0;
    for (;;) {
      const byte = block[at++] ?? 0;
      value = value * 128 + (byte & 0x7f);
      if (byte < 0x80) return value;
    }
  });
}

/** A stored signature; undefined where the bytes are not one. */
function signatureIn(bits: Uint8Array): Uint32Array | undefined {
  if (bits.byteLength !== SIGNATURE_BYTES) return undefined;
  const words = new Uint32Array(SIGNATURE_WORDS);
  new Uint8Array(words.buffer).set(bits);
  return words;
}
