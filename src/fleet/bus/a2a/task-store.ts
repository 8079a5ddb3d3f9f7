/**
 * The tasks of an A2A agent on disk, so that a client finds its task, and its result, after a restart of the agent. Also stores
 * the fleet task that each of them stands for.
 *
 * The SDK's store; written directly while no request of the SDK runs. Writes that a power failure loses are recovered from
 * the worker's own journal, which has every result.
 */

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Damage, openDatabase, soleOwner } from '../../../base/sqlite/database.ts';
import { sqliteFailure } from '../../../base/sqlite/failure.ts';
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import { StoreWrites } from '../../../base/sqlite/store-writes.ts';
import type { WriteCount } from '../../../base/sqlite/write-count.ts';
import { SteadyClock } from '../../../base/steady-clock.ts';
import { formatTimestamp, parseTimestamp } from '../../../base/timestamp.ts';
import { fail } from '../../../wire/errors.ts';
import { isEnded, isSettled } from './messages.ts';
import type { A2aServerSdk, Message, ServerCallContext, Task, TaskStore } from './sdk.ts';

/** Marks a file as a store of A2A tasks ("HFA2"), so that another program's database is never opened as one. */
const APPLICATION_ID = 0x48464132;
/** Its name in errors. */
const WHAT = 'the A2A task store';
/** Step n takes a file from `user_version` n to n + 1. Steps are only ever added. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE tasks (
     tenant TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, context_id TEXT NOT NULL, state INTEGER NOT NULL,
     changed TEXT NOT NULL, saved_at INTEGER NOT NULL, task TEXT NOT NULL, PRIMARY KEY (tenant, owner, id)
   ) STRICT;
   CREATE INDEX listed ON tasks (tenant, owner, changed DESC, id DESC);
   CREATE INDEX aged ON tasks (saved_at);
   CREATE TABLE links (
     outlet TEXT NOT NULL, task_id TEXT NOT NULL, attempt INTEGER NOT NULL, tenant TEXT NOT NULL, owner TEXT NOT NULL,
     id TEXT NOT NULL, message_id TEXT NOT NULL, digest TEXT NOT NULL, form TEXT NOT NULL,
     PRIMARY KEY (outlet, task_id, attempt)
   ) STRICT;
   CREATE INDEX messages ON links (outlet, message_id);
   CREATE INDEX linked ON links (tenant, owner, id);`,
];

const DAY_MS = 86_400_000;
/** Bytes of tasks on a page, beyond the first: all of them are read and written in one turn of the event loop. */
const MAX_PAGE_BYTES = 256 * 1024;
/** Saves between two evictions. */
const PRUNE_EVERY = 500;

/** The tasks of one tenant that one principal sent. */
export interface Scope {
  readonly tenant: string;
  readonly owner: string;
}

/** The fleet task that an A2A task stands for. */
export interface TaskLink extends Scope {
  /** Name of the reply channel its result goes to. */
  readonly channel: string;
  readonly taskId: string;
  readonly attempt: number;
  /** The A2A task. */
  readonly id: string;
  /** The message that asked for it, and the SHA-256 of its parts. */
  readonly messageId: string;
  readonly digest: string;
  /** The form of reply its client asked for; see `reply-text.ts`. */
  readonly form: string;
}

export interface A2aTaskStoreOptions {
  /** Path of the database. It is made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  readonly sdk: Pick<A2aServerSdk, 'core' | 'errors'>;
  /** True for messages that are not part of a task's history. */
  readonly passing: (message: Message) => boolean;
  /** With it a damaged file is quarantined, this is called, and the store starts empty. */
  readonly onCorrupt?: (damage: Damage) => void;
  /** Called at opening when the file lost writes. */
  readonly onLoss?: (loss: DatabaseLoss) => void;
  /** Retention of a task that has ended, milliseconds. Default 7 days. */
  readonly retainMs?: number;
  /** Tasks that are stored at most; open ones are never evicted. Default 10,000. */
  readonly maxTasks?: number;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/**
 * Opens or creates the store. Fails with `journal_locked` when another process has it, `journal_corrupt`, `disk_full`, or
 * `runtime_error` when the file is another program's or a newer version's; then it is left untouched.
 */
export function openA2aTaskStore(options: A2aTaskStoreOptions): A2aTaskStore {
  return openDatabase(
    {
      ...options,
      what: WHAT,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'NORMAL',
      lock: soleOwner('another process has the A2A tasks open; stop that process'),
    },
    (database, release, _mark, count) => new A2aTaskStore(database, release, options, count),
  );
}

type ListParams = Parameters<TaskStore['list']>[0];
type ListAnswer = Awaited<ReturnType<TaskStore['list']>>;

export class A2aTaskStore implements TaskStore {
  readonly #db: DatabaseSync;
  readonly #release: () => void;
  readonly #writes: StoreWrites;
  readonly #count: WriteCount | undefined;
  readonly #options: A2aTaskStoreOptions;
  readonly #statements = new Map<string, StatementSync>();
  /** Called when a task is stored as settled. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #clock: SteadyClock;
  /** Time when the newest task of earlier processes was saved, epoch milliseconds. */
  readonly #newestBefore: number;
  #saves = 0;
  #closed = false;

  constructor(db: DatabaseSync, release: () => void, options: A2aTaskStoreOptions, count: WriteCount | undefined) {
    this.#db = db;
    this.#writes = new StoreWrites(WHAT, options.file);
    this.#count = count;
    this.#release = release;
    this.#options = options;
    this.#clock = new SteadyClock(options.now);
    this.#newestBefore = Number(db.prepare('SELECT max(saved_at) AS at FROM tasks').get()?.at ?? 0);
  }

  // For the SDK.

  async save(task: Task, context: ServerCallContext): Promise<void> {
    this.put(scopeOf(context), task);
  }

  async load(taskId: string, context: ServerCallContext): Promise<Task | undefined> {
    return this.find(scopeOf(context), taskId);
  }

  async list(params: ListParams, context: ServerCallContext): Promise<ListAnswer> {
    const { tenant, owner } = scopeOf(context);
    const { contextId, status, pageSize = 50, pageToken, statusTimestampAfter, includeArtifacts = false } = params;
    const where = ['tenant = ?', 'owner = ?'];
    const values: (string | number)[] = [tenant, owner];
    const only = (condition: string, ...more: (string | number)[]): void => {
      where.push(condition);
      values.push(...more);
    };
    if (contextId !== '') only('context_id = ?', contextId);
    if (status !== undefined && status !== 0) only('state = ?', status);
    const after = statusTimestampAfter ? parseTimestamp(statusTimestampAfter) : undefined;
    if (after !== undefined) only('changed > ?', formatTimestamp(after));
    const count = this.#read(`SELECT count(*) AS n FROM tasks WHERE ${where.join(' AND ')}`, values)[0];
    const totalSize = Number(count?.n ?? 0);
    if (pageToken) {
      const [changed, id] = this.#cursor(pageToken);
      only('(changed, id) < (?, ?)', changed, id);
    }
    const found = `FROM tasks WHERE ${where.join(' AND ')} ORDER BY changed DESC, id DESC LIMIT ?`;
    const sizes = this.#read(`SELECT id, changed, octet_length(task) AS bytes ${found}`, [...values, pageSize + 1]);
    let size = 0;
    for (let bytes = 0; size < Math.min(pageSize, sizes.length); size += 1) {
      bytes += Number(sizes[size]?.bytes);
      if (bytes > MAX_PAGE_BYTES && size > 0) break;
    }
    const last = sizes.length > size ? sizes[size - 1] : undefined;
    const tasks: Task[] = [];
    for (const row of this.#read(`SELECT task ${found}`, [...values, size])) {
      const task = this.#taskOf(row.task);
      tasks.push(includeArtifacts ? task : { ...task, artifacts: [] });
    }
    return {
      tasks,
      nextPageToken:
        last === undefined ? '' : Buffer.from(JSON.stringify([last.changed, last.id])).toString('base64url'),
      pageSize,
      totalSize,
    };
  }

  #cursor(token: string): [string, string] {
    try {
      const [changed, id] = JSON.parse(Buffer.from(token, 'base64url').toString('utf8')) as unknown[];
      if (typeof changed === 'string' && typeof id === 'string') return [changed, id];
    } catch {
      // Refused below.
    }
    throw new this.#options.sdk.errors.RequestMalformedError('the page token is not one of this agent');
  }

  // For the agent.

  put({ tenant, owner }: Scope, task: Task): void {
    const { passing, sdk, now = Date.now } = this.#options;
    const stored = { ...task, history: (task.history ?? []).filter((message) => !passing(message)) };
    const state = task.status?.state ?? 0;
    const at = now();
    const changed = task.status?.timestamp ?? new Date(at).toISOString();
    this.#run(
      `INSERT INTO tasks (tenant, owner, id, context_id, state, changed, saved_at, task) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET context_id = excluded.context_id, state = excluded.state, changed = excluded.changed,
         saved_at = excluded.saved_at, task = excluded.task`,
      [tenant, owner, task.id, task.contextId, state, changed, at, JSON.stringify(sdk.core.Task.toJSON(stored))],
    );
    if (isSettled(state)) for (const done of this.#waiting.get(keyOf(tenant, owner, task.id)) ?? []) done();
    if (this.#saves++ % PRUNE_EVERY === 0) this.#prune(at);
  }

  find({ tenant, owner }: Scope, id: string): Task | undefined {
    const sql = 'SELECT task FROM tasks WHERE tenant = ? AND owner = ? AND id = ?';
    const row = this.#read(sql, [tenant, owner, id])[0];
    return row === undefined ? undefined : this.#taskOf(row.task);
  }

  /** Returns the tasks that have not ended, also those that wait for their client, with the fleet tasks they stand for. */
  open(): { readonly task: Task; readonly link: TaskLink | undefined; readonly scope: Scope }[] {
    const rows = this.#read('SELECT tenant, owner, task FROM tasks WHERE state IN (0, 1, 2, 6)', []);
    return rows.map(({ tenant, owner, task: text }) => {
      const task = this.#taskOf(text);
      const scope = { tenant: String(tenant), owner: String(owner) };
      return { task, scope, link: this.linkOfTask(scope, task.id) };
    });
  }

  /** Returns the fleet task an A2A task stands for: the latest one, where it had several. */
  linkOfTask({ tenant, owner }: Scope, id: string): TaskLink | undefined {
    const sql = 'SELECT * FROM links WHERE tenant = ? AND owner = ? AND id = ? ORDER BY rowid DESC LIMIT 1';
    return linkIn(this.#read(sql, [tenant, owner, id])[0]);
  }

  link({ channel, taskId, attempt, tenant, owner, id, messageId, digest, form }: TaskLink): void {
    this.#run(
      `INSERT OR REPLACE INTO links (outlet, task_id, attempt, tenant, owner, id, message_id, digest, form)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [channel, taskId, attempt, tenant, owner, id, messageId, digest, form],
    );
  }

  /** Returns the A2A task of an attempt; of the latest attempt where that one is unknown, or none is named. */
  linkOf(channel: string, taskId: string, attempt = -1): TaskLink | undefined {
    const sql = `SELECT * FROM links WHERE outlet = ? AND task_id = ? ORDER BY attempt = ? DESC, attempt DESC LIMIT 1`;
    return linkIn(this.#read(sql, [channel, taskId, attempt])[0]);
  }

  /** Returns the task that was made for a message of these parts. */
  linkOfMessage(channel: string, messageId: string, digest: string): TaskLink | undefined {
    const sql = 'SELECT * FROM links WHERE outlet = ? AND message_id = ? AND digest = ? ORDER BY attempt DESC LIMIT 1';
    return linkIn(this.#read(sql, [channel, messageId, digest])[0]);
  }

  /** Returns names of the reply channels that have tasks here. */
  channels(): string[] {
    return this.#read('SELECT DISTINCT outlet FROM links', []).map(({ outlet }) => String(outlet));
  }

  /** `stored` resolves when the task is stored as settled; `abandon` stops the wait. */
  whenSettled({ tenant, owner }: Scope, id: string): { readonly stored: Promise<void>; readonly abandon: () => void } {
    const key = keyOf(tenant, owner, id);
    const waiting = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, waiting);
    const { promise, resolve } = Promise.withResolvers<void>();
    const abandon = (): void => {
      waiting.delete(done);
      if (waiting.size === 0) this.#waiting.delete(key);
    };
    const done = (): void => {
      abandon();
      resolve();
    };
    waiting.add(done);
    return { stored: promise, abandon };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#writes.close();
    try {
      this.#db.close();
    } finally {
      this.#release();
    }
  }

  #taskOf(text: unknown): Task {
    return this.#options.sdk.core.Task.fromJSON(JSON.parse(String(text)));
  }

  /** Evicts ended tasks that are too old or too many, and links without a task. */
  #prune(at: number): void {
    const { retainMs = 7 * DAY_MS, maxTasks = 10_000 } = this.#options;
    const ended = [0, 1, 2, 3, 4, 5, 6, 7, 8].filter((state) => isEnded(state)).join(', ');
    if (this.#clock.trusts(this.#newestBefore)) {
      this.#run(`DELETE FROM tasks WHERE state IN (${ended}) AND saved_at < ?`, [at - retainMs]);
    }
    this.#run(
      `DELETE FROM tasks WHERE state IN (${ended}) AND rowid IN
         (SELECT rowid FROM tasks ORDER BY saved_at DESC LIMIT -1 OFFSET ?)`,
      [maxTasks],
    );
    this.#run(
      `DELETE FROM links WHERE NOT EXISTS (SELECT 1 FROM tasks
         WHERE tasks.tenant = links.tenant AND tasks.owner = links.owner AND tasks.id = links.id)`,
      [],
    );
  }

  #statement(sql: string): StatementSync {
    if (this.#closed) throw fail('interrupted', 'the A2A tasks are closed');
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #read(sql: string, values: readonly (string | number)[]): Record<string, unknown>[] {
    try {
      return this.#statement(sql).all(...values);
    } catch (thrown) {
      throw sqliteFailure(thrown, WHAT);
    }
  }

  #run(sql: string, values: readonly (string | number)[]): void {
    const statement = this.#statement(sql);
    this.#writes.do(() => {
      if (this.#count === undefined) statement.run(...values);
      else this.#count.transaction(() => void statement.run(...values));
    });
  }
}

/** Returns the tenant and the principal of a call. */
export function scopeOf(context: Pick<ServerCallContext, 'tenant' | 'user'>): Scope {
  return { tenant: context.tenant ?? '', owner: context.user?.userName ?? '' };
}

const keyOf = (tenant: string, owner: string, id: string): string => JSON.stringify([tenant, owner, id]);

function linkIn(row: Record<string, unknown> | undefined): TaskLink | undefined {
  if (row === undefined) return undefined;
  return {
    channel: String(row.outlet),
    taskId: String(row.task_id),
    attempt: Number(row.attempt),
    tenant: String(row.tenant),
    owner: String(row.owner),
    id: String(row.id),
    messageId: String(row.message_id),
    digest: String(row.digest),
    form: String(row.form),
  };
}
