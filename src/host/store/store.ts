/**
 * The durable state of plugins: key–value pairs and rows, for a principal, an agent, a session, or shared by all.
 *
 * Plugins get it as `context.store`; `database.ts` stores it in SQLite. Reads see every write made before them in this
 * process. A write resolves when it is on disk; without a disk, when it is in memory.
 * @see docs/capabilities.md#state
 */
import type { SessionView } from '../../session/principal.ts';

/** The owner of the state. `agent`: one agent name of one principal, since a name alone is no identity. */
export type StoreScope = 'principal' | 'agent' | 'session' | 'shared';

export interface StorePage {
  /** Only keys that start with it. */
  readonly prefix?: string;
  /** Only keys above it. */
  readonly after?: string;
  /** Default 100. */
  readonly limit?: number;
}

/**
 * The state of one plugin in one scope. Values are JSON; reads return copies.
 *
 * Writes fail with `quota_exceeded` (`detail.used_bytes`, `detail.quota_bytes`), `over_capacity` when the principal has
 * used up its share of all stored data (`limits.stored_bytes`), `schema_violation` for a value that is not JSON or a
 * key that is not a text of 1 to 512 characters, `disk_full`, or `interrupted` after the host closed it.
 */
export interface Store {
  get<T = unknown>(key: string): T | undefined;
  /** Pairs in the order of their keys (by code point). */
  list<T = unknown>(page?: StorePage): readonly { readonly key: string; readonly value: T }[];
  set(key: string, value: unknown): Promise<void>;
  /** Deletes a key. Deleting a key that does not exist is no error. */
  delete(key: string): Promise<void>;
  /**
   * Replaces the value by the result of `change`, with no other write between; undefined deletes. Resolves with the new
   * value.
   */
  update<T>(key: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined>;
  /** Returns the rows of a table: letters, digits, `_`, `-`. A table exists once it has rows. */
  rows<Row extends object>(table: string): Rows<Row>;
  /** Runs `work`, which must not wait, and makes all its writes durable together or not at all. */
  atomically<Result>(work: () => Result): Promise<Result>;
  /** Deletes everything in this scope. */
  clear(): Promise<void>;
  readonly usage: { readonly bytes: number; readonly quotaBytes: number };
}

/** JSON objects under integer ids, which grow from 1 and are never reused. */
export interface Rows<Row extends object> {
  /** Resolves with the id. */
  insert(row: Row): Promise<number>;
  get(id: number): Row | undefined;
  /** Rows with `id > after`, in the order of their ids, at most `limit` (default 100). */
  list(page?: {
    readonly after?: number;
    readonly limit?: number;
  }): readonly { readonly id: number; readonly row: Row }[];
  replace(id: number, row: Row): Promise<void>;
  delete(id: number): Promise<void>;
}

/** The stores of one plugin for one session. */
export type SessionStores = Readonly<Record<StoreScope, Store>>;

/** Members of a session that a store uses. */
export type StoreSession = Pick<SessionView, 'id' | 'agentId' | 'principal'>;

/** All stores of one plugin. */
export interface PluginStore {
  readonly shared: Store;
  of(session: StoreSession): SessionStores;
}

/** A plugin's settings for its store. */
export interface StoreUse {
  /** Most bytes of keys and values in one scope of one owner. Default 64 MiB. */
  readonly quotaBytes?: number;
  /**
   * `start` (the default): before the plugin's own `start`. `first-request`: later, so that a host that never gets a
   * request for the capability touches no file; until then `PluginContext.store` throws `usage`. A failure to open
   * fails that request.
   */
  readonly opened?: 'start' | 'first-request';
}

export const DEFAULT_STORE_QUOTA_BYTES = 64 * 1024 * 1024;

/** The store of a host for the state of its plugins. */
export interface StateDatabase {
  plugin(name: string, use: StoreUse): PluginStore;
  /** Deletes the state of a session that ended. Does not reject. */
  dropSession(session: string): Promise<void>;
  /** Makes everything durable and closes. Idempotent. */
  close(): void;
}
