/**
 * The stored index: many entries in one row, as columns of numbers that are copied unchanged into the index in memory. A first
 * search reads these rows, and only the newest entries, which are in no pack yet, one by one.
 *
 * Every change of an entry changes its pack in the same transaction: packs are never behind, and a deleted entry is in none.
 * @see docs/decisions/0060-an-index-in-packs.md
 */
import type { StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { type IndexColumns, type IndexedEntry, placeIn, SIGNATURE_BYTES, SIGNATURE_WORDS } from './signatures.ts';

/** Entries of a pack. A change of an old entry writes its whole pack: 14 KB. */
export const PACK_ENTRIES = 128;
/** A pack with at most `SPARSE` entries joins the one before it, where both together have at most `MERGED`. */
const SPARSE = PACK_ENTRIES / 4;
const MERGED = (PACK_ENTRIES * 3) / 4;
/**
 * Maximum number of packs that one write makes: some ten milliseconds of the thread, and more entries than a request can store.
 */
const PACKS_A_WRITE = 16;
/** Part number of a deleted entry, until its pack is written. */
const DELETED = -1;
/** An id, three times, a part, a number of words, an embedder and a signature. */
const ENTRY_BYTES = 8 + 3 * 8 + 3 * 4 + SIGNATURE_BYTES;

/** Ids from `first` to `last`. */
interface Range {
  readonly first: number;
  readonly last: number;
}

/** The entries of a range, ascending by their ids. */
export interface Pack extends Range {
  readonly columns: IndexColumns;
}

/** An entry with the number of the embedder of its signature; 0 without one. */
export type PackedEntry = IndexedEntry & { readonly embedder: number };

interface PackRow extends Range {
  readonly sum: number;
  readonly data: Uint8Array;
}

interface Row {
  readonly id: number;
  readonly part: number;
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  /** The number of words that the full-text index counted, as one of SQLite's numbers of variable length. */
  readonly counted: Uint8Array | null;
  readonly embedder: number | null;
  readonly bits: Uint8Array | null;
}

type Sql = (text: string) => StatementSync;

export class Packs {
  readonly #sql: Sql;
  /** Packs that the write under way has changed, by their first id. */
  readonly #changed = new Map<number, Pack>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  end(id: number, ends: number): void {
    this.#change(id, ({ times }, at) => {
      times[3 * at + 1] = ends;
    });
  }

  expire(id: number, expires: number): void {
    this.#change(id, ({ times }, at) => {
      times[3 * at + 2] = expires;
    });
  }

  sign(id: number, embedder: number, signature: Uint32Array): void {
    this.#change(id, ({ embedders, bits }, at) => {
      embedders[at] = embedder;
      bits.set(signature, at * SIGNATURE_WORDS);
    });
  }

  remove(id: number): void {
    this.#change(id, ({ parts }, at) => {
      parts[at] = DELETED;
    });
  }

  /** Entries above this id are in no pack. */
  get packedTo(): number {
    return this.#lastRange()?.last ?? 0;
  }

  /** The number of the newest change of a pack. */
  get changes(): number {
    return (this.#sql('SELECT coalesce(max(changed), 0) AS changes FROM pack').get() as { changes: number }).changes;
  }

  /** True if a search would read many entries one by one, because an older version wrote them without packs. */
  get isBehind(): boolean {
    return this.#loose() >= 4 * PACK_ENTRIES;
  }

  /** Yields the packs that changed after the change of this number, in the order of their ids. */
  *after(changes: number): Generator<Pack> {
    const rows = this.#sql('SELECT first, last, sum, data FROM pack WHERE changed > ? ORDER BY first').iterate(changes);
    for (const row of rows as Iterable<unknown> as Iterable<PackRow>) yield this.#unpacked(row);
  }

  /** Yields the entries with ids from `first` to `last`, read one by one; at most `most`. */
  *entries(first: number, last: number, most = -1): Generator<PackedEntry> {
    const rows = this.#sql(
      `SELECT entry.id, part, starts, ends, expires, sz AS counted, embedder, bits FROM entry
       LEFT JOIN words_docsize ON words_docsize.id = entry.id
       LEFT JOIN signature ON signature.entry = entry.id
       WHERE entry.id BETWEEN ? AND ? ORDER BY entry.id LIMIT ?`,
    ).iterate(first, last, most) as Iterable<unknown> as Iterable<Row>;
    for (const { bits, counted, embedder, ...entry } of rows) {
      const [words = 0] = counted === null ? [] : readVarints(counted, 1);
      const signature = bits === null ? undefined : signatureIn(bits);
      yield { ...entry, words, signature, embedder: signature === undefined ? 0 : (embedder ?? 0) };
    }
  }

  /**
   * Writes the packs that the write under way has changed, and packs the oldest entries that are in none; the newest stay out,
   * since they change most. Runs inside a transaction. Returns the number of the change; undefined without any.
   */
  write(): number | undefined {
    for (const pack of [...this.#changed.values()].sort((left, right) => right.first - left.first)) this.#merge(pack);
    let change = this.#put();
    for (let packs = 0; packs < PACKS_A_WRITE && this.#loose() >= 2 * PACK_ENTRIES; packs += 1) {
      this.#packOldest();
      change = this.#put();
    }
    return change;
  }

  /** Drops the changes of a write that was undone. */
  undo(): void {
    this.#changed.clear();
  }

  /** Returns an upper bound of the number of entries in no pack. */
  #loose(): number {
    return this.#newest() - this.packedTo;
  }

  #newest(): number {
    return (this.#sql('SELECT coalesce(max(id), 0) AS newest FROM entry').get() as { newest: number }).newest;
  }

  #change(id: number, change: (columns: IndexColumns, at: number) => void): void {
    const pack = this.#packOf(id);
    if (pack === undefined) return;
    const at = placeIn(pack.columns.ids, pack.columns.ids.length, id);
    if (at === -1) return;
    change(pack.columns, at);
    this.#changed.set(pack.first, pack);
  }

  #lastRange(): Range | undefined {
    return this.#sql('SELECT first, last FROM pack ORDER BY first DESC LIMIT 1').get() as Range | undefined;
  }

  /**
   * Returns the pack whose range has this id. Most entries are stored behind the last pack, which need not be read for them.
   */
  #packOf(id: number): Pack | undefined {
    const row = this.#sql('SELECT first, last FROM pack WHERE first <= ? ORDER BY first DESC LIMIT 1').get(id) as
      | Range
      | undefined;
    return row === undefined || row.last < id ? undefined : this.#packFrom(row.first);
  }

  /** Returns the pack with this first id, with the changes of the write under way. */
  #packFrom(first: number): Pack {
    const changed = this.#changed.get(first);
    if (changed !== undefined) return changed;
    const row = this.#sql('SELECT first, last, sum, data FROM pack WHERE first = ?').get(first);
    return this.#unpacked(row as unknown as PackRow);
  }

  #unpacked({ first, last, sum, data }: PackRow): Pack {
    const isWhole = data.byteLength % ENTRY_BYTES === 0 && crc32(data) === sum;
    // A damaged pack is made again from its entries.
    return { first, last, columns: isWhole ? columnsIn(data) : columnsOf([...this.entries(first, last)]) };
  }

  /** Puts a pack that lost most of its entries into the one before it. */
  #merge(pack: Pack): void {
    const left = present(pack);
    if (left.length > SPARSE) return;
    const row = this.#sql('SELECT first FROM pack WHERE first < ? ORDER BY first DESC LIMIT 1').get(pack.first) as
      | { first: number }
      | undefined;
    if (row === undefined) return;
    const before = present(this.#packFrom(row.first));
    if (before.length + left.length > MERGED) return;
    this.#sql('DELETE FROM pack WHERE first = ?').run(pack.first);
    this.#changed.delete(pack.first);
    // The range grows too: an index in memory drops the entries that its pack no longer has.
    this.#changed.set(row.first, { first: row.first, last: pack.last, columns: columnsOf([...before, ...left]) });
  }

  #packOldest(): void {
    const row = this.#lastRange();
    const from = (row?.last ?? 0) + 1;
    const to = this.#newest() - PACK_ENTRIES;
    const entries = [...this.entries(from, to, PACK_ENTRIES)];
    const last = entries.length === PACK_ENTRIES ? (entries.at(-1) as PackedEntry).id : to;
    const before = row === undefined || entries.length > MERGED ? [] : present(this.#packFrom(row.first));
    // Where most ids are deleted, a pack spans many of them.
    const joins = row !== undefined && entries.length <= MERGED && before.length + entries.length <= PACK_ENTRIES;
    const first = joins ? row.first : from;
    this.#changed.set(first, { first, last, columns: columnsOf(joins ? [...before, ...entries] : entries) });
  }

  #put(): number | undefined {
    if (this.#changed.size === 0) return undefined;
    const change = this.changes + 1;
    for (const pack of this.#changed.values()) {
      const data = bytesOf(pack);
      this.#sql(
        `INSERT INTO pack (first, last, changed, sum, data) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (first) DO UPDATE SET last = excluded.last, changed = excluded.changed, sum = excluded.sum, data = excluded.data`,
      ).run(pack.first, pack.last, change, crc32(data), data);
    }
    this.#changed.clear();
    return change;
  }
}

/** Returns columns over the bytes of a pack with `count` entries; columns of eight bytes come first. */
function columnsOver({ buffer, byteOffset }: Uint8Array, count: number): IndexColumns {
  let at = byteOffset;
  const after = (bytes: number): number => {
    at += bytes;
    return at - bytes;
  };
  return {
    ids: new Float64Array(buffer, after(8 * count), count),
    times: new Float64Array(buffer, after(24 * count), 3 * count),
    parts: new Int32Array(buffer, after(4 * count), count),
    words: new Uint32Array(buffer, after(4 * count), count),
    embedders: new Int32Array(buffer, after(4 * count), count),
    bits: new Uint32Array(buffer, after(SIGNATURE_BYTES * count), SIGNATURE_WORDS * count),
  };
}

/** Returns the columns in stored bytes. */
const columnsIn = (data: Uint8Array): IndexColumns =>
  columnsOver(data.byteOffset % 8 === 0 ? data : data.slice(), data.byteLength / ENTRY_BYTES);

function columnsOf(entries: readonly PackedEntry[]): IndexColumns {
  const columns = columnsOver(new Uint8Array(entries.length * ENTRY_BYTES), entries.length);
  for (const [at, { id, starts, ends, expires, part, words, embedder, signature }] of entries.entries()) {
    columns.ids[at] = id;
    columns.times.set([starts, ends, expires], 3 * at);
    columns.parts[at] = part;
    columns.words[at] = words;
    columns.embedders[at] = embedder;
    if (signature !== undefined) columns.bits.set(signature, at * SIGNATURE_WORDS);
  }
  return columns;
}

/** Returns the entries of a pack that were not deleted. */
function present(pack: Pack): PackedEntry[] {
  return [...entriesOf(pack)].filter(({ part }) => part !== DELETED);
}

/** Yields the entries of a pack one by one. */
export function* entriesOf({ columns }: Pack): Generator<PackedEntry> {
  const { ids, times, parts, words, embedders, bits } = columns;
  for (let at = 0; at < ids.length; at += 1) {
    const embedder = embedders[at] as number;
    yield {
      id: ids[at] as number,
      part: parts[at] as number,
      starts: times[3 * at] as number,
      ends: times[3 * at + 1] as number,
      expires: times[3 * at + 2] as number,
      words: words[at] as number,
      embedder,
      signature: embedder === 0 ? undefined : bits.subarray(at * SIGNATURE_WORDS, (at + 1) * SIGNATURE_WORDS),
    };
  }
}

function bytesOf(pack: Pack): Uint8Array {
  const { columns } = pack.columns.parts.includes(DELETED) ? { columns: columnsOf(present(pack)) } : pack;
  // The columns lie one behind the other in one buffer.
  return new Uint8Array(columns.ids.buffer, columns.ids.byteOffset, columns.ids.length * ENTRY_BYTES);
}

/** Reads the first numbers of a block of the full-text index: seven bits a byte, the high bit says that more follow. */
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

/** Reads a stored signature; undefined where the bytes are not one. */
function signatureIn(bits: Uint8Array): Uint32Array | undefined {
  if (bits.byteLength !== SIGNATURE_BYTES) return undefined;
  const words = new Uint32Array(SIGNATURE_WORDS);
  new Uint8Array(words.buffer).set(bits);
  return words;
}
