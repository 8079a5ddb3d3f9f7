/**
 * The two things of the store that nothing else has a copy of: the counter of message ids, and small values of other parts
 * (settings, remembered answers). Both are on disk before a call returns. Called by `store.ts`.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** Ids taken from the file at a time. A crash skips what is left of them; it never gives one out twice. */
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

/** Values by key, as JSON. */
export class SmallValues {
  readonly #db: DatabaseSync;
  readonly #get: StatementSync;
  readonly #set: StatementSync;
  readonly #delete: StatementSync;
  readonly #below: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#get = db.prepare('SELECT value FROM small_values WHERE key = ?');
    this.#set = db.prepare('INSERT INTO small_values VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value');
    this.#delete = db.prepare('DELETE FROM small_values WHERE key = ?');
    this.#below = db.prepare('SELECT key, value FROM small_values WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key');
  }

  /** A value; undefined = there is none. */
  get(key: string): unknown {
    const row = this.#get.get(key);
    return row === undefined ? undefined : JSON.parse(row.value as string);
  }

  /** Keeps a value that is plain JSON. */
  set(key: string, value: unknown): void {
    const text = JSON.stringify(value);
    synced(this.#db, () => this.#set.run(key, text));
  }

  delete(key: string): void {
    synced(this.#db, () => this.#delete.run(key));
  }

  /** Every value whose key begins with `prefix`, by key. */
  below(prefix: string): readonly { readonly key: string; readonly value: unknown }[] {
    return this.#below
      .all(prefix)
      .map(({ key, value }) => ({ key: key as string, value: JSON.parse(value as string) }));
  }
}

/** The counter behind `UiMessage.id`: from 1, over all sessions, no number twice. */
export class MessageIds {
  readonly #db: DatabaseSync;
  readonly #get: StatementSync;
  readonly #set: StatementSync;
  #next: number;
  /** Numbers below this one are ours to give out. */
  #reserved: number;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#get = db.prepare('SELECT value FROM small_values WHERE key = ?');
    this.#set = db.prepare('INSERT INTO small_values VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value');
    this.#next = Number(this.#get.get(COUNTER)?.value ?? 1);
    this.#reserved = this.#next;
  }

  /** A number nobody had before. */
  next(): number {
    if (this.#next >= this.#reserved) {
      try {
        this.#reserve(this.#next + IDS_AT_A_TIME);
      } catch {
        // The disk is full. A turn must be able to end all the same, and what is journaled is found again by `seen`.
      }
    }
    this.#next += 1;
    return this.#next - 1;
  }

  /** A message with this number was found in a journal: later ones are above it. */
  seen(id: number): void {
    if (id >= this.#next) this.#next = id + 1;
  }

  /** Gives back what was not used. */
  close(): void {
    try {
      this.#reserve(this.#next);
    } catch {
      // Then a thousand numbers are skipped.
    }
  }

  #reserve(next: number): void {
    synced(this.#db, () => this.#set.run(COUNTER, String(next)));
    this.#reserved = next;
  }
}
