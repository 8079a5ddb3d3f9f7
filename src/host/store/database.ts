/**
 * The state of plugins in one SQLite database, on disk or in memory: one table of entries, written by group commit.
 *
 * A server opens it on disk, a host of a program without a file in memory. A write is applied to an overlay at once and
 * to the database with the other writes of its turn; reads check the overlay first. One process has the file at a time.
 */

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { acquireNamedLock } from '../../base/file-lock.ts';
import { type DatabaseOptions, openDatabase } from '../../base/sqlite/database.ts';
import { GroupCommit } from '../../base/sqlite/group-commit.ts';
import type { WriteCount } from '../../base/sqlite/write-count.ts';
import type { Principal } from '../../session/principal.ts';
import type { StorageShares } from '../../session/storage-shares.ts';
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

export { noteLoss } from '../../base/sqlite/losses.ts';

const WHAT = 'the store of the plugins';
const APPLICATION_ID = 0x48465053;
/** Bytes counted for an entry on top of its key and value. */
const ENTRY_BYTES = 32;
const ALL_BYTES = `sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB)) + ${ENTRY_BYTES})`;
/** `space` names scope, plugin and owner; `part` is '' for pairs, else the table of a row, or '#' for its last id. */
const MIGRATIONS = [
  `CREATE TABLE entry (
     space TEXT NOT NULL, part TEXT NOT NULL, key ANY NOT NULL, value TEXT NOT NULL,
     PRIMARY KEY (space, part, key)
   ) STRICT, WITHOUT ROWID;`,
  // The stored bytes of each owner, except of sessions, so that they are known without reading the entries.
  `CREATE TABLE usage (owner TEXT NOT NULL PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
   INSERT INTO usage
     SELECT json_extract(owners, '$[0]') AS owner, sum(bytes)
     FROM (SELECT substr(space, instr(space, ' [') + 1) AS owners, ${ALL_BYTES} AS bytes
           FROM entry WHERE space < 'session ' OR space > 'session!' GROUP BY space)
     WHERE json_valid(owners) AND json_extract(owners, '$[0]') IS NOT NULL GROUP BY 1;`,
];

const PAIRS = '';
const LAST_IDS = '#';
const MAX_KEY_CHARS = 512;
const DEFAULT_LIMIT = 100;

type Key = string | number;
/** One write; without a value it deletes. */
interface Write {
  readonly part: string;
  readonly key: Key;
  readonly value: string | undefined;
}

/** A write that is applied, and not known to be in the database. */
interface Change extends Write {
  readonly space: string;
  /** The principal in whose share the change counts; `''` = in none. */
  readonly owner: string;
  /** Bytes by which the change alters the stored amount. */
  readonly grown: number;
}

/**
 * Opens the state of plugins. State of sessions is dropped, except that of the `sessions` that the host restores.
 *
 * Fails as `openDatabase` does; with `journal_locked` if another process has the file.
 * @param options.file a path, or `:memory:`
 * @param options.sessions the owners of sessions whose state stays, by session
 */
export function openStateDatabase(
  options: Pick<DatabaseOptions, 'file' | 'onCorrupt' | 'onLoss' | 'now'> & {
    /** Name in messages. Default: the store of the plugins. */
    readonly what?: string;
    readonly storage?: StorageShares | undefined;
    readonly sessions?: ReadonlyMap<string, string>;
  },
): StateDatabase {
  const { what = WHAT } = options;
  return openDatabase(
    {
      ...options,
      what,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'FULL',
      ownCheckpoints: true,
      lock: soleHost,
    },
    (database, release, _mark, count) => new SqliteState(database, release, { ...options, what, count }),
  );
}

/** Acquires the lock of the file; the error of the second host names the holder. */
function soleHost(file: string): () => void {
  const { release, holder } = acquireNamedLock(`${file}.lock`, `${file}.pid`);
  if (release !== undefined) return release;
  const who = holder === undefined ? 'another host of this user' : `the host of process ${holder}`;
  throw fail(
    'journal_locked',
    `${who} has the state of this host_id open and cannot be asked; connect to that one, stop it, or set host_id in handfast.yaml`,
    { ...(holder !== undefined && { pid: holder }) },
  );
}

class SqliteState implements StateDatabase {
  readonly #database: DatabaseSync;
  readonly #release: () => void;
  readonly #what: string;
  readonly #storage: StorageShares | undefined;
  readonly #commits: GroupCommit;
  readonly #statements: Record<'get' | 'page' | 'put' | 'delete' | 'clear' | 'used' | 'use', StatementSync>;
  /** Writes that are not known to be in the database, by entry. */
  readonly #overlay = new Map<string, Change>();
  readonly #plugins = new Set<string>();
  /** Bytes used, by space: of those in use since the file was opened. */
  readonly #used = new Map<string, number>();
  /** The writes of {@link atomically}, while it runs. */
  #together: Change[] | undefined;
  #closed = false;

  constructor(
    database: DatabaseSync,
    release: () => void,
    {
      what,
      count,
      storage,
      sessions = new Map(),
    }: {
      readonly what: string;
      readonly count: WriteCount | undefined;
      readonly storage?: StorageShares | undefined;
      readonly sessions?: ReadonlyMap<string, string>;
    },
  ) {
    this.#database = database;
    this.#release = release;
    this.#what = what;
    this.#storage = storage;
    this.#statements = {
      get: database.prepare('SELECT value FROM entry WHERE space = ? AND part = ? AND key = ?'),
      page: database.prepare(
        'SELECT key, value FROM entry WHERE space = ? AND part = ? AND key >= ? AND key > ? ORDER BY key LIMIT ?',
      ),
      put: database.prepare('INSERT OR REPLACE INTO entry (space, part, key, value) VALUES (?, ?, ?, ?)'),
      delete: database.prepare('DELETE FROM entry WHERE space = ? AND part = ? AND key = ?'),
      clear: database.prepare('DELETE FROM entry WHERE space = ?'),
      used: database.prepare(`SELECT ${ALL_BYTES} AS bytes FROM entry WHERE space = ?`),
      use: database.prepare(
        'INSERT INTO usage (owner, bytes) VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes',
      ),
    };
    this.#dropSessionsBut(sessions);
    for (const row of database.prepare('SELECT owner, bytes FROM usage').all()) {
      const { owner, bytes } = row as { owner: string; bytes: number };
      storage?.add(stateOf(owner), owner, bytes);
    }
    this.#commits = new GroupCommit({ db: database, what, count });
  }

  #dropSessionsBut(sessions: ReadonlyMap<string, string>): void {
    const { clear, used } = this.#statements;
    for (const { space } of this.#database
      .prepare(`SELECT DISTINCT space FROM entry WHERE space >= 'session ' AND space < 'session!'`)
      .all() as { space: string }[]) {
      const owner = sessions.get(sessionOf(space));
      if (owner === undefined) clear.run(space);
      else this.#storage?.add(space, owner, (used.get(space) as { bytes: number }).bytes);
    }
  }

  plugin(name: string, { quotaBytes = DEFAULT_STORE_QUOTA_BYTES }: StoreUse): PluginStore {
    this.#plugins.add(name);
    const store = (scope: StoreScope, owner: readonly string[], session?: StoreSession): Store =>
      new ScopedStore(this, spaceOf(scope, name, owner), quotaBytes, session);
    const shared = store('shared', []);
    const bySession = new WeakMap<StoreSession, SessionStores>();
    return {
      shared,
      of(session) {
        let stores = bySession.get(session);
        if (stores === undefined) {
          const { id, agentId, principal } = session;
          stores = {
            shared,
            principal: store('principal', [principal.name], session),
            agent: store('agent', [principal.name, agentId], session),
            session: store('session', [id], session),
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
      // Entries that cannot be deleted now are deleted when the file is opened next.
      if (!this.#closed && this.#used.has(space)) await this.clear(space, '').catch(() => {});
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

  /** Applies writes of one space together. Throws `quota_exceeded` or `over_capacity`, and then none is applied. */
  write(space: string, writes: readonly Write[], quotaBytes: number, principal: Principal | undefined): Promise<void> {
    this.#usable();
    const owner = principal?.name ?? '';
    const changes = writes.map((write): Change => {
      const { part, key, value } = write;
      return { ...write, space, owner, grown: bytesOf(key, value) - bytesOf(key, this.read(space, part, key)) };
    });
    const grown = sumOf(changes);
    if (grown > 0 && principal !== undefined) this.#storage?.mustHaveRoom(principal);
    const used = this.used(space);
    if (grown > 0 && used + grown > quotaBytes) {
      throw fail('quota_exceeded', `the store holds ${used} of at most ${quotaBytes} bytes`, {
        used_bytes: used,
        quota_bytes: quotaBytes,
      });
    }
    this.#used.set(space, used + grown);
    this.#count(space, owner, grown);
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

  async clear(space: string, owner: string): Promise<void> {
    this.#usable();
    if (this.#together !== undefined) throw fail('usage', 'clear cannot be part of atomically');
    this.#commits.flush();
    for (const [entry, change] of this.#overlay) if (change.space === space) this.#overlay.delete(entry);
    const bytes = this.used(space);
    this.#used.set(space, 0);
    if (isOfSession(space)) this.#storage?.delete(space);
    else this.#count(space, owner, -bytes);
    const written = this.#commits.write(() => {
      this.#statements.clear.run(space);
      if (isDurable({ space, owner })) this.#statements.use.run(owner, -bytes);
      return 0;
    });
    // Reads no longer find the entries from now on.
    this.#commits.flush();
    await written.catch((error) => {
      this.#used.delete(space);
      if (!isOfSession(space)) this.#count(space, owner, bytes);
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
        for (const [owner, of] of Map.groupBy(changes.filter(isDurable), (change) => change.owner)) {
          this.#statements.use.run(owner, sumOf(of));
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

  /** Counts bytes in the share of an owner; those of a session by its space, because they end with it. */
  #count(space: string, owner: string, bytes: number): void {
    if (owner !== '') this.#storage?.add(isOfSession(space) ? space : stateOf(owner), owner, bytes);
  }

  /** Drops changes that did not happen: the usage is counted again. */
  #forget(changes: readonly Change[]): void {
    this.#settle(changes);
    for (const { space, owner, grown } of changes) {
      this.#used.delete(space);
      this.#count(space, owner, -grown);
    }
  }

  #usable(): void {
    if (this.#closed) throw fail('interrupted', `${this.#what} is closed`);
  }
}

const spaceOf = (scope: StoreScope, plugin: string, owner: readonly string[]): string =>
  `${scope} ${JSON.stringify(plugin)} ${JSON.stringify(owner)}`;

const entryOf = (space: string, part: string, key: Key): string => `${space}\n${part}\n${key}`;

/** Returns the name under which all durable state of an owner is counted. */
const stateOf = (owner: string): string => `state/${owner}`;

/** Returns the session of a space that `isOfSession`: the last of the two JSON texts in it is a list of its id. */
const sessionOf = (space: string): string => {
  const [, id = ''] = /\["([^"]*)"\]$/.exec(space) ?? [];
  return id;
};

const isOfSession = (space: string): boolean => space.startsWith('session ');

/** Counts in the share of an owner, also after a restart. */
const isDurable = ({ space, owner }: Pick<Change, 'space' | 'owner'>): boolean => owner !== '' && !isOfSession(space);

const sumOf = (changes: readonly Change[]): number => changes.reduce((sum, { grown }) => sum + grown, 0);

const bytesOf = (key: Key, value: string | undefined): number =>
  value === undefined ? 0 : Buffer.byteLength(String(key)) + Buffer.byteLength(value) + ENTRY_BYTES;

class ScopedStore implements Store {
  readonly #state: SqliteState;
  readonly #space: string;
  readonly #quotaBytes: number;
  /** The session in whose share it counts; undefined for state that all share. */
  readonly #session: StoreSession | undefined;

  constructor(state: SqliteState, space: string, quotaBytes: number, session: StoreSession | undefined) {
    this.#state = state;
    this.#space = space;
    this.#quotaBytes = quotaBytes;
    this.#session = session;
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
    return this.#state.clear(this.#space, this.#session?.principal.name ?? '');
  }

  #value<T>(part: string, key: Key): T | undefined {
    const text = this.#state.read(this.#space, part, key);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  }

  /** Rejects when the changes cannot be made; inside `atomically` it throws, so that the whole of it is undone. */
  #write(make: () => readonly Write[]): Promise<void> {
    try {
      return this.#state.write(this.#space, make(), this.#quotaBytes, this.#session?.principal);
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
