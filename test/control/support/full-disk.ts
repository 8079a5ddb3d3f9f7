/** A journal whose disk is full for as long as a test says so. */
import type { Journal, NewEntry } from '../../../src/journal/journal.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { fail } from '../../../src/wire/errors.ts';

export interface Disk {
  readonly journal: Journal;
  /** True: durable writes are refused. */
  isFull: boolean;
}

/** Makes a disk in memory, with room for everything a test writes. */
export function diskThatFills(): Disk {
  const inner = memoryJournal({ retention: { maxEntries: 1e6, maxBytes: 1e9 } });
  const journal: Journal = Object.assign(Object.create(inner), {
    volatileFailures: 0,
    append: (session: string, entries: readonly NewEntry[], durability?: 'durable' | 'volatile') =>
      disk.isFull && durability !== 'volatile'
        ? Promise.reject(fail('disk_full', 'the journal could not be written: the disk is full'))
        : inner.append(session, entries, durability),
    read: inner.read.bind(inner),
    sessions: inner.sessions.bind(inner),
    close: inner.close.bind(inner),
  });
  const disk: Disk = { journal, isFull: false };
  return disk;
}
