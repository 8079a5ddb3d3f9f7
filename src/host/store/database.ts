/**
 * The state of plugins in one SQLite database, on disk or in memory: one table of entries, written by group commit.
 *
 * `server/assemble.ts` opens it on disk, a host of a program without one in memory. A write is applied to an overlay at
 * once and to the database with everything else of the same turn; reads look at the overlay first. One process has the
 * file at a time.
 */

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type DatabaseOptions, openDatabase, soleOwner } from '../../base/sqlite/database.ts';
import { GroupCommit } from '../../base/sqlite/group-commit.ts';
import { fail } from '../../wire/errors.ts';
import {
  DEFAULT_STORE_QUOTA_BYTES,
  type PluginStore,
  type Rows,
  type SessionStores,
  type StateDatabase,
  type Store,
  type StorePage,
  type StoreScope,
  type StoreSession,
  type StoreUse,
} from './store.ts';

const WHAT = 'the store of the plugins';
const APPLICATION_ID = 0x48465053;
/** `space` names scope, plugin and owner; `part` is '' for pairs, else the table of a row, or '#' for its last id. */
const MIGRATIONS = [
  `CREATE TABLE entry (
     space TEXT NOT NULL, part TEXT NOT NULL, key ANY NOT NULL, value TEXT NOT NULL,
     PRIMARY KEY (space, part, key)
   ) STRICT, WITHOUT ROWID;`,
];

const PAIRS = '';
const LAST_IDS = '#';
/** Bytes counted for an entry on top of its key and value. */
const ENTRY_BYTES = 32;
const MAX_KEY_CHARS = 512;
const DEFAULT_LIMIT = 100;

type Key = string | number;
/** One write; without a value it deletes. */
interface Change {
  readonly space: string;
  readonly part: string;
  readonly key: Key;
  readonly value: string | undefined;
}

/**
 * Opens the state of plugins. What belonged to sessions is dropped: no session outlives its host.
 *
 * Fails as `openDatabase` does; with `journal_locked` where another process has the file.
 * @param options.file a path, or `:memory:`
 */
export function openStateDatabase(options: Pick<DatabaseOptions, 'file' | 'onCorrupt' | 'now'>): StateDatabase {
  return openDatabase(
    {
      ...options,
      what: WHAT,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'FULL',
      ownCheckpoints: true,
      lock: soleOwner('another host has this store open; give each host its own host_id'),
    },
    (database, release) => new SqliteState(database, release),
  );
}

class SqliteState implements StateDatabase {
  readonly #database: DatabaseSync;
  readonly #release: () => void;
  readonly #commits: GroupCommit;
  readonly #statements: Record<'get' | 'page' | 'put' | 'delete' | 'clear' | 'used', StatementSync>;
  /** Writes that are not known to be in the database, by entry. */
  readonly #overlay = new Map<string, Change>();
  readonly #plugins = new Set<string>();
  /** Bytes used, by space: of those in use since the file was opened. */
  readonly #used = new Map<string, number>();
  /** The writes of {@link atomically}, while it runs. */
  #together: Change[] | undefined;
  #closed = false;

  constructor(database: DatabaseSync, release: () => void) {
    this.#database = database;
    this.#release = release;
    const bytes = `sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB)) + ${ENTRY_BYTES})`;
    this.#statements = {
      get: database.prepare('SELECT value FROM entry WHERE space = ? AND part = ? AND key = ?'),
      page: database.prepare(
        'SELECT key, value FROM entry WHERE space = ? AND part = ? AND key >= ? AND key > ? ORDER BY key LIMIT ?',
      ),
      put: database.prepare('INSERT OR REPLACE INTO entry (space, part, key, value) VALUES (?, ?, ?, ?)'),
      delete: database.prepare('DELETE FROM entry WHERE space = ? AND part = ? AND key = ?'),
      clear: database.prepare('DELETE FROM entry WHERE space = ?'),
      used: database.prepare(`SELECT ${bytes} AS bytes FROM entry WHERE space = ?`),
    };
    database.exec(`DELETE FROM entry WHERE space >= 'session ' AND space < 'session!'`);
    this.#commits = new GroupCommit({ db: database, what: WHAT });
  }

  plugin(name: string, { quotaBytes = DEFAULT_STORE_QUOTA_BYTES }: StoreUse): PluginStore {
    this.#plugins.add(name);
    const store = (scope: StoreScope, ...owner: string[]): Store =>
      new ScopedStore(this, spaceOf(scope, name, owner), quotaBytes);
    const shared = store('shared');
    const bySession = new WeakMap<StoreSession, SessionStores>();
    return {
      shared,
      of(session) {
        let stores = bySession.get(session);
        if (stores === undefined) {
          const { id, agentId, principal } = session;
          stores = {
            shared,
            principal: store('principal', principal.name),
            agent: store('agent', principal.name, agentId),
            session: store('session', id),
          };
          bySession.set(session, stores);
        }
        return stores;
      },
    };
  }

  async dropSession(session: string): Promise<void> {
    for (const plugin of this.#plugins) {
      const space = spaceOf('session', plugin, [session]);
      // What cannot be deleted now is deleted when the file is opened next.
      if (!this.#closed && this.#used.has(space)) await this.clear(space).catch(() => {});
      this.#used.delete(space);
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#commits.close();
    this.#database.close();
    this.#release();
  }

  /** True while {@link atomically} collects writes. */
  get collecting(): boolean {
    return this.#together !== undefined;
  }

  read(space: string, part: string, key: Key): string | undefined {
    this.#usable();
    const change = this.#overlay.get(entryOf(space, part, key));
    if (change !== undefined) return change.value;
    return (this.#statements.get.get(space, part, key) as { value: string } | undefined)?.value;
  }

  page(space: string, part: string, from: Key, after: Key, limit: number): { key: Key; value: string }[] {
    this.#usable();
    if (this.#together !== undefined) throw fail('usage', 'lists cannot be read inside atomically');
    if (this.#overlay.size > 0) this.#commits.flush();
    return this.#statements.page.all(space, part, from, after, limit) as { key: Key; value: string }[];
  }

  used(space: string): number {
    let used = this.#used.get(space);
    if (used === undefined) {
      this.#commits.flush();
      used = Number((this.#statements.used.get(space) as { bytes: number | null }).bytes ?? 0);
      this.#used.set(space, used);
    }
    return used;
  }

  /** Applies changes of one space together. Throws `quota_exceeded`, and then none is applied. */
  write(changes: readonly Change[], quotaBytes: number): Promise<void> {
    this.#usable();
    const [{ space }] = changes as [Change];
    let grown = 0;
    for (const { part, key, value } of changes) {
      grown += bytesOf(key, value) - bytesOf(key, this.read(space, part, key));
    }
    const used = this.used(space);
    if (grown > 0 && used + grown > quotaBytes) {
      throw fail('quota_exceeded', `the store holds ${used} of at most ${quotaBytes} bytes`, {
        used_bytes: used,
        quota_bytes: quotaBytes,
      });
    }
    this.#used.set(space, used + grown);
    for (const change of changes) this.#overlay.set(entryOf(space, change.part, change.key), change);
    if (this.#together === undefined) return this.#commit(changes);
    this.#together.push(...changes);
    return Promise.resolve();
  }

  async atomically<Result>(work: () => Result): Promise<Result> {
    this.#usable();
    if (this.#together !== undefined) throw fail('usage', 'atomically cannot be nested');
    const changes: Change[] = [];
    this.#together = changes;
    let result: Result;
    try {
      result = work();
      if (typeof (result as { then?: unknown } | undefined)?.then === 'function') {
        throw fail('usage', 'the work of atomically must not be asynchronous');
      }
    } catch (thrown) {
      this.#forget(changes);
      throw thrown;
    } finally {
      this.#together = undefined;
    }
    if (changes.length > 0) await this.#commit(changes);
    return result;
  }

  async clear(space: string): Promise<void> {
    this.#usable();
    if (this.#together !== undefined) throw fail('usage', 'clear cannot be part of atomically');
    this.#commits.flush();
    for (const [entry, change] of this.#overlay) if (change.space === space) this.#overlay.delete(entry);
    this.#used.set(space, 0);
    const written = this.#commits.write(() => {
      this.#statements.clear.run(space);
      return 0;
    });
    // Reads find the entries gone from here on.
    this.#commits.flush();
    await written.catch((error) => {
      this.#used.delete(space);
      throw error;
    });
  }

  async #commit(changes: readonly Change[]): Promise<void> {
    try {
      await this.#commits.write(() => {
        let bytes = 0;
        for (const { space, part, key, value } of changes) {
          if (value === undefined) this.#statements.delete.run(space, part, key);
          else this.#statements.put.run(space, part, key, value);
          bytes += bytesOf(key, value);
        }
        return bytes;
      });
      this.#settle(changes);
    } catch (error) {
      this.#forget(changes);
      throw error;
    }
  }

  /** Removes changes from the overlay, where no later one replaced them. */
  #settle(changes: readonly Change[]): void {
    for (const change of changes) {
      const entry = entryOf(change.space, change.part, change.key);
      if (this.#overlay.get(entry) === change) this.#overlay.delete(entry);
    }
  }

  /** Changes that did not happen: what is used is counted again. */
  #forget(changes: readonly Change[]): void {
    this.#settle(changes);
    for (const { space } of changes) this.#used.delete(space);
  }

  #usable(): void {
    if (this.#closed) throw fail('interrupted', `${WHAT} is closed`);
  }
}

const spaceOf = (scope: StoreScope, plugin: string, owner: readonly string[]): string =>
  `${scope} ${JSON.stringify(plugin)} ${JSON.stringify(owner)}`;

const entryOf = (space: string, part: string, key: Key): string => `${space}\n${part}\n${key}`;

const bytesOf = (key: Key, value: string | undefined): number =>
  value === undefined ? 0 : Buffer.byteLength(String(key)) + Buffer.byteLength(value) + ENTRY_BYTES;

class ScopedStore implements Store {
  readonly #state: SqliteState;
  readonly #space: string;
  readonly #quotaBytes: number;

  constructor(state: SqliteState, space: string, quotaBytes: number) {
    this.#state = state;
    this.#space = space;
    this.#quotaBytes = quotaBytes;
  }

  get usage(): { bytes: number; quotaBytes: number } {
    return { bytes: this.#state.used(this.#space), quotaBytes: this.#quotaBytes };
  }

  get<T>(key: string): T | undefined {
    return this.#value<T>(PAIRS, checkedKey(key));
  }

  list<T>({ prefix = '', after = '', limit = DEFAULT_LIMIT }: StorePage = {}): readonly { key: string; value: T }[] {
    const found = this.#state.page(this.#space, PAIRS, prefix, after, limit) as { key: string; value: string }[];
    return found
      .filter(({ key }) => key.startsWith(prefix))
      .map(({ key, value }) => ({ key, value: JSON.parse(value) }));
  }

  set(key: string, value: unknown): Promise<void> {
    return this.#write(() => [{ part: PAIRS, key: checkedKey(key), value: jsonOf(value) }]);
  }

  delete(key: string): Promise<void> {
    return this.#write(() => [{ part: PAIRS, key: checkedKey(key), value: undefined }]);
  }

  update<T>(key: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined> {
    let value: T | undefined;
    const written = this.#write(() => {
      value = change(this.get<T>(key));
      return [{ part: PAIRS, key, value: value === undefined ? undefined : jsonOf(value) }];
    });
    return written.then(() => value);
  }

  rows<Row extends object>(table: string): Rows<Row> {
    if (!/^[\w-]{1,64}$/.test(table))
      throw fail('schema_violation', 'a table name has 1 to 64 letters, digits, _ or -');
    const put = (id: number, row: Row | undefined): Promise<void> =>
      this.#write(() => [{ part: table, key: id, value: row === undefined ? undefined : jsonOf(row) }]);
    return {
      insert: (row) => {
        let id = 0;
        const written = this.#write(() => {
          id = (this.#value<number>(LAST_IDS, table) ?? 0) + 1;
          return [
            { part: table, key: id, value: jsonOf(row) },
            { part: LAST_IDS, key: table, value: String(id) },
          ];
        });
        return written.then(() => id);
      },
      get: (id) => this.#value<Row>(table, id),
      list: ({ after = 0, limit = DEFAULT_LIMIT } = {}) =>
        this.#state.page(this.#space, table, after, after, limit).map(({ key, value }) => ({
          id: key as number,
          row: JSON.parse(value) as Row,
        })),
      replace: put,
      delete: (id) => put(id, undefined),
    };
  }

  atomically<Result>(work: () => Result): Promise<Result> {
    return this.#state.atomically(work);
  }

  clear(): Promise<void> {
    return this.#state.clear(this.#space);
  }

  #value<T>(part: string, key: Key): T | undefined {
    const text = this.#state.read(this.#space, part, key);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  }

  /** Rejects when the changes cannot be made; inside `atomically` it throws, so that the whole of it is undone. */
  #write(make: () => readonly Omit<Change, 'space'>[]): Promise<void> {
    try {
      const changes = make().map((change) => ({ ...change, space: this.#space }));
      return this.#state.write(changes, this.#quotaBytes);
    } catch (thrown) {
      if (this.#state.collecting) throw thrown;
      return Promise.reject(thrown);
    }
  }
}

function checkedKey(key: string): string {
  if (typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS && key.isWellFormed()) return key;
  throw fail('schema_violation', `a key is a text of 1 to ${MAX_KEY_CHARS} characters`);
}

function jsonOf(value: unknown): string {
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined) throw fail('schema_violation', 'this value is not JSON');
  return json;
}
