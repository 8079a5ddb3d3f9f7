/**
 * The form of entries in the SQLite journal: rows of one or many entries, called blocks. A volatile entry shares its
 * block with its neighbours, which makes it several times cheaper to write; a durable one has its own block, so that no
 * damage to another's bytes can cost it, unless the journal is a sparing one.
 *
 * `session.ts` packs them, `rows.ts` stores and checks them, a {@link PageBuilder} unpacks them.
 */
import { crc32 } from 'node:zlib';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { Gap, JournalEntry } from '../journal.ts';

/** Most entries in a block, all of which a reader of one entry has to unpack. */
export const BLOCK_ENTRIES = 256;
/** Bytes at which a block is closed before it would grow over them. A longer entry has its own block. */
const BLOCK_BYTES = 64 * 1024;

/** Entries of one session that follow each other, or, with `entries` 0, cursors whose entries were lost. */
export interface Block {
  /** The session's last cursor before this block. So the blocks of a session are a chain, and a missing link shows. */
  readonly after: number;
  readonly first: number;
  readonly last: number;
  readonly entries: number;
  /** All but the bodies, as a JSON list: cursor, ts, encoded, kind, request, length of the body; then the next entry. */
  readonly heads: string;
  /** The bodies' texts, one behind the other. */
  readonly bodies: string;
}

/** Items of a head. */
const HEAD_ITEMS = 6;

/** Returns the checksum of a block. `PRAGMA quick_check` finds damaged structure but not a flipped bit inside a text. */
export function blockSum(session: string, { after, first, last, entries, heads, bodies }: Block): number {
  return crc32(bodies, crc32(`${session}\n${after}\n${first}\n${last}\n${entries}\n${bodies.length}\n${heads}\n`));
}

/**
 * Returns the reason why an entry cannot be stored, or undefined. Checked before it waits with others, all of which it
 * would fail.
 */
export function unfit({ ts, kind, request, body }: JournalEntry): HandfastError | undefined {
  if (!Number.isFinite(ts) || typeof kind !== 'string' || typeof request !== 'string') {
    return fail('runtime_error', 'a journal entry needs a finite ts and texts for kind and request');
  }
  if (typeof body === 'string' || (typeof body === 'object' && body !== null)) return undefined;
  return fail('runtime_error', 'a journal entry needs a text or an object as body');
}

/** Returns the text of an object body. Throws `runtime_error` when it is not JSON. */
export function textOf(body: object): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(body);
  } catch (thrown) {
    throw fail('runtime_error', 'a journal entry has a body that is not JSON', {}, thrown);
  }
  if (text === undefined) throw fail('runtime_error', 'a journal entry has a body that is not JSON');
  return text;
}

/** Makes blocks of the entries of one session. `write` gets each as soon as it is full; the caller closes the last. */
export class BlockPacker {
  readonly #write: (block: Block) => void;
  #after: number;
  #first = 0;
  #last = 0;
  #entries = 0;
  #heads: (number | string)[] = [];
  #bodies = '';

  /** @param after the session's last cursor before the first block */
  constructor(after: number, write: (block: Block) => void) {
    this.#after = after;
    this.#write = write;
  }

  /** Adds an entry; `encoded` 1 when `text` encodes an object. */
  add({ cursor, ts, kind, request }: JournalEntry, text: string, encoded: 0 | 1): void {
    const full = this.#entries === BLOCK_ENTRIES || this.#bodies.length + text.length > BLOCK_BYTES;
    if (full && this.#entries > 0) this.close();
    if (this.#entries === 0) this.#first = cursor;
    this.#last = cursor;
    this.#entries += 1;
    this.#heads.push(cursor, ts, encoded, kind, request, text.length);
    this.#bodies += text;
  }

  /** Records that the entries up to and including `to` are lost. */
  lost(to: number): void {
    this.close();
    this.#write({ after: this.#after, first: this.#after + 1, last: to, entries: 0, heads: '', bodies: '' });
    this.#after = to;
  }

  /** Writes the added entries; the next one starts a new block. */
  close(): void {
    if (this.#entries === 0) return;
    this.#write({
      after: this.#after,
      first: this.#first,
      last: this.#last,
      entries: this.#entries,
      heads: JSON.stringify(this.#heads),
      bodies: this.#bodies,
    });
    this.#after = this.#last;
    this.#entries = 0;
    this.#heads = [];
    this.#bodies = '';
  }
}

/** Cursor and body length of an entry. */
export interface Sized {
  readonly cursor: number;
  readonly size: number;
}

/** Returns the counts in the heads of a block for its entries with `cursor > after`; undefined when they are damaged. */
export function sizesIn(heads: string, after: number): Sized[] | undefined {
  try {
    const list = JSON.parse(heads) as number[];
    const sizes: Sized[] = [];
    for (let at = 0; at < list.length; at += HEAD_ITEMS) {
      const cursor = list[at] as number;
      if (cursor > after) sizes.push({ cursor, size: list[at + 5] as number });
    }
    return sizes.every(({ cursor, size }) => Number.isSafeInteger(cursor) && size >= 0) ? sizes : undefined;
  } catch {
    return undefined;
  }
}

/** Builds a page: accepts entries and lost ranges in order until it is full. */
export class PageBuilder {
  readonly entries: JournalEntry[] = [];
  readonly #after: number;
  readonly #limit: number;
  readonly #maxBytes: number;
  #bytes = 0;
  #lostTo = 0;
  #ended = false;

  /** Ends at `limit` entries, or once their bodies passed `maxBytes`. */
  constructor(after: number, limit: number, maxBytes: number) {
    this.#after = after;
    this.#limit = limit;
    this.#maxBytes = maxBytes;
  }

  /** The cursor up to which every entry is in the page, or known to be lost. */
  get at(): number {
    return this.entries.at(-1)?.cursor ?? Math.max(this.#after, this.#lostTo);
  }

  /** True when it accepts no more entries. */
  get full(): boolean {
    return this.#ended || this.entries.length >= this.#limit || this.#bytes >= this.#maxBytes;
  }

  get gap(): Gap | undefined {
    return this.#lostTo > this.#after ? { kind: 'gap', from: this.#after + 1, to: this.#lostTo } : undefined;
  }

  /** Records missing entries up to `to`: they come first on a page; after entries they end the page. */
  lost(to: number): void {
    if (this.entries.length > 0) this.#ended = true;
    else this.#lostTo = Math.max(this.#lostTo, to);
  }

  add(entry: JournalEntry, size: number): void {
    this.entries.push(entry);
    this.#bytes += size;
  }

  /** Takes the next entries of a block. */
  addBlock({ last, entries, heads, bodies }: Block): void {
    if (entries === 0) return this.lost(last);
    const list = JSON.parse(heads) as (number | string)[];
    const { at } = this;
    let offset = 0;
    for (let index = 0; index < list.length && !this.full; index += HEAD_ITEMS) {
      const [cursor, ts, encoded, kind, request, size] = list.slice(index, index + HEAD_ITEMS) as [
        number,
        number,
        number,
        string,
        string,
        number,
      ];
      const text = bodies.slice(offset, offset + size);
      offset += size;
      if (cursor <= at) continue;
      this.add({ cursor, ts, kind, request, body: encoded === 0 ? text : (JSON.parse(text) as object) }, size);
    }
  }
}
