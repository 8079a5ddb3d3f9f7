/**
 * The one thing of the store that nothing else has a copy of: the counter of message ids. On disk before an id is given
 * out.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { StoreWrites } from '../../../base/sqlite/store-writes.ts';
import type { WriteCount } from '../../../base/sqlite/write-count.ts';

/** Ids taken from the file at a time. A crash skips the rest of them; it never gives one out twice. */
const IDS_AT_A_TIME = 1024;
const COUNTER = 'sessions.next_message_id';

/** Runs a write that is synced to disk when it returns, though the store's other writes are not. */
function synced(db: DatabaseSync, write: () => void): void {
  db.exec('PRAGMA synchronous=FULL');
  try {
    write();
  } finally {
    db.exec('PRAGMA synchronous=NORMAL');
  }
}

/** The counter behind `UiMessage.id`: from 1, unique over all sessions. */
export class MessageIds {
  readonly #db: DatabaseSync;
  readonly #writes: StoreWrites;
  readonly #count: WriteCount | undefined;
  readonly #get: StatementSync;
  readonly #set: StatementSync;
  #next: number;
  /** Numbers below this one may be given out here. */
  #reserved: number;

  /** Writes count in `count`. */
  constructor(db: DatabaseSync, writes: StoreWrites, count?: WriteCount) {
    this.#db = db;
    this.#writes = writes;
    this.#count = count;
    this.#get = db.prepare('SELECT value FROM small_values WHERE key = ?');
    this.#set = db.prepare('INSERT INTO small_values VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value');
    this.#next = Number(this.#get.get(COUNTER)?.value ?? 1);
    this.#reserved = this.#next;
  }

  /** Returns a new number. */
  next(): number {
    if (this.#next >= this.#reserved) {
      try {
        this.#reserve(this.#next + IDS_AT_A_TIME);
      } catch {
        // The disk is full. A turn must be able to end all the same, and `seen` finds the journaled ids again.
      }
    }
    this.#next += 1;
    return this.#next - 1;
  }

  /** Notes that a message with this number was found in a journal: later ones are above it. */
  seen(id: number): void {
    if (id >= this.#next) this.#next = id + 1;
  }

  /** Gives back the unused ids. */
  close(): void {
    try {
      this.#reserve(this.#next);
    } catch {
      // Then a thousand numbers are skipped.
    }
  }

  #reserve(next: number): void {
    const write = (): void => void this.#set.run(COUNTER, String(next));
    const count = this.#count;
    this.#writes.do(() => synced(this.#db, () => (count === undefined ? write() : count.transaction(write))));
    this.#count?.synced(this.#count.written);
    this.#reserved = next;
  }
}
