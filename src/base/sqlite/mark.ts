/**
 * The mark of a database: a small file beside it that states its newest write, and whether it was closed in order.
 *
 * SQLite drops every frame of its log after a damaged one, and treats a missing log as an empty one; it reports neither
 * as an error. So the newest writes can vanish unnoticed. `database.ts` opens the mark and compares: a file that did
 * not change since it was closed needs no check. The journal, and for all other databases `write-count.ts`, compares
 * the writes it finds with those that the mark states.
 *
 * Two slots are written in turn, so that a torn write leaves the other one. A write is not synced, except one that
 * promises something ahead: after a kill the mark is exact; after a loss of power it may be behind, and then states
 * less.
 */
import { closeSync, fdatasyncSync, statSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { openRegularSync, readRegularSync } from '../regular-file.ts';
import { createPrivate } from './file.ts';

/** Content of a mark. A database that does not count its writes leaves the numbers at 0. */
export interface Marked {
  /** The newest write that a commit contains: its owner's own count. */
  readonly written: number;
  /** The newest one that is synced to disk. */
  readonly synced: number;
  /** Cursors up to here may have been given out. */
  readonly cursors: number;
  /** State of the file when it was closed; `''` while it is open, and after a process that did not close it. */
  readonly closed: string;
}

const NOTHING: Marked = Object.freeze({ written: 0, synced: 0, cursors: 0, closed: '' });

/** A slot fills one sector. */
const SLOT_BYTES = 512;

export class Mark {
  /** Content of the mark when it was opened; undefined without one. */
  readonly found: Marked | undefined;
  /** True when its database was damaged and quarantined in this opening, and the mark is of the previous one. */
  replaced = false;
  readonly #file: string;
  readonly #slot = Buffer.alloc(SLOT_BYTES);
  #descriptor: number | undefined;
  #marked: Marked;
  /** Counts writes of the mark; of slots with equal contents, the one with the higher number is valid. */
  #generation: number;

  /** Reads the mark in `file`, if it exists. Throws errors of the file system. */
  constructor(file: string) {
    this.#file = file;
    // Processes that share a database number their slots apart: the one with more writes is the newer.
    const [newest] = readSlots(file).sort((a, b) => b.marked.written - a.marked.written || b.generation - a.generation);
    this.found = newest?.marked;
    this.#marked = this.found ?? NOTHING;
    this.#generation = newest?.generation ?? 0;
  }

  /** Records that the database is open and may change. Throws errors of the file system. */
  start(): void {
    if (this.#descriptor === undefined) {
      createPrivate(this.#file);
      this.#descriptor = openRegularSync(this.#file, 'r+');
    }
    this.#marked = { ...this.#marked, closed: '' };
    // Both slots exist from here on, so that later writes need no new space.
    this.#write();
    this.#write();
  }

  /**
   * Changes the mark. `sync` makes it wait for the disk. Never throws: a mark that is behind only states less, and a
   * disk that cannot be written to fails the database itself too.
   */
  update(change: Partial<Marked>, sync = false): void {
    this.#marked = { ...this.#marked, ...change };
    try {
      this.#write();
      if (sync) fdatasyncSync(this.#descriptor as number);
    } catch {
      // See above.
    }
  }

  /** Records the state of the closed database `file`, which {@link sameAsClosed} recognises later. */
  close(file: string): void {
    this.update({ closed: stateOf(file) });
    this.abandon();
  }

  /** Closes the mark's file; its content stays. */
  abandon(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #write(): void {
    if (this.#descriptor === undefined) return;
    const { written, synced, cursors, closed } = this.#marked;
    this.#generation += 1;
    const text = `handfast ${this.#generation} ${written} ${synced} ${cursors} ${closed || '-'} `;
    const bytes = this.#slot.write(`${text}${crc32(text)}\n`, 'latin1');
    // An earlier text may have been longer.
    this.#slot.fill(' ', bytes);
    writeSync(this.#descriptor, this.#slot, 0, SLOT_BYTES, (this.#generation % 2) * SLOT_BYTES);
  }
}

/** Returns true when `file` is unchanged since `mark` recorded that it was closed, and no log lies beside it. */
export function sameAsClosed({ found }: Mark, file: string): boolean {
  return found !== undefined && found.closed !== '' && found.closed === stateOf(file);
}

/** Returns true when the process that had the database did not close it. */
export const wasOpen = ({ found }: Mark): boolean => found?.closed === '';

/** Returns the size, inode and time of change of a file without a log; `''` when a log exists, or no file. */
function stateOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  return found === undefined || (log?.size ?? 0) > 0 ? '' : `${found.size}:${found.ino}:${found.ctimeNs}`;
}

interface Slot {
  readonly generation: number;
  readonly marked: Marked;
}

function readSlots(file: string): Slot[] {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) return [];
  const bytes = readRegularSync(file);
  return [0, SLOT_BYTES].flatMap((at) => readSlot(bytes.toString('latin1', at, at + SLOT_BYTES)) ?? []);
}

function readSlot(text: string): Slot | undefined {
  const [whole, said = '', generation, written, synced, cursors, closed = '', sum] =
    /^(handfast (\d+) (\d+) (\d+) (\d+) (\S+) )(\d+)\n/.exec(text) ?? [];
  if (whole === undefined || crc32(said) !== Number(sum)) return undefined;
  return {
    generation: Number(generation),
    marked: {
      written: Number(written),
      synced: Number(synced),
      cursors: Number(cursors),
      closed: closed === '-' ? '' : closed,
    },
  };
}
