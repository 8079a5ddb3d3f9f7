/** Brings the index in memory up to the state of the database: at the first search, and when another process has written. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { entriesOf, type PackedEntry, type Packs } from './packs.ts';
import { type IndexedEntry, SignatureIndex } from './signatures.ts';

/** A database and its index: a `MemoryDatabase`. */
export interface IndexedDatabase {
  readonly db: DatabaseSync;
  readonly packs: Packs;
  index: SignatureIndex | undefined;
  /** Number of the embedder whose signatures the index has. */
  embedder: number;
  /** Number of commits of other connections that the index has seen. */
  version: number;
  /** Number of the newest change of a pack that the index has. */
  changes: number;
  sql(text: string): StatementSync;
  usage(): { readonly entries: number };
}

/** Share of removed entries above which the index is built again. */
const MAX_REMOVED = 0.5;

/** Returns the index with all committed entries, for signatures of this embedder. */
export function loadedIndex(database: IndexedDatabase, embedder: number): SignatureIndex {
  const { entries } = database.usage();
  const { index } = database;
  const stale = index !== undefined && (database.embedder !== embedder || index.size * MAX_REMOVED > entries + 1024);
  if (index === undefined || stale) {
    database.embedder = embedder;
    startIndex(database);
  }
  refreshIndex(database);
  return database.index as SignatureIndex;
}

function startIndex(database: IndexedDatabase): void {
  database.index = new SignatureIndex(database.usage().entries);
  database.version = -1;
}

/** Takes over the commits of other connections: new entries, and changed and deleted ones. */
export function refreshIndex(database: IndexedDatabase): void {
  const { db } = database;
  if (database.index === undefined) return;
  const { data_version: version } = database.sql('PRAGMA data_version').get() as { data_version: number };
  if (version === database.version) return;
  // Packs, and the entries outside of packs, are read as of one commit.
  const begins = !db.isTransaction;
  if (begins) db.exec('BEGIN');
  try {
    if (!takeOver(database)) {
      startIndex(database);
      takeOver(database);
    }
  } finally {
    if (begins) db.exec('COMMIT');
  }
  database.version = version;
}

/** Returns false if the index lacks an entry that is older than its newest. */
function takeOver(database: IndexedDatabase): boolean {
  const { packs, embedder } = database;
  const index = database.index as SignatureIndex;
  // The words of the new entries are not read here.
  index.postings.clear();
  if (index.size === 0) {
    for (const { columns } of packs.after(-1)) index.addColumns(columns, embedder);
  } else {
    for (const pack of packs.after(database.changes)) {
      if (!index.replace(pack.first, pack.last, signedBy(embedder, entriesOf(pack)))) return false;
    }
  }
  database.changes = packs.changes;
  const from = packs.packedTo + 1;
  return index.replace(from, Number.MAX_SAFE_INTEGER, signedBy(embedder, packs.entries(from, Number.MAX_SAFE_INTEGER)));
}

/** Yields entries without the signatures of other embedders. */
function* signedBy(wanted: number, entries: Iterable<PackedEntry>): Generator<IndexedEntry> {
  for (const { embedder, ...entry } of entries) yield embedder === wanted ? entry : { ...entry, signature: undefined };
}
