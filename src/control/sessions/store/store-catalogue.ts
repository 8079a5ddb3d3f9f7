/**
 * The catalogue: a row per session for listing, and its snapshot for opening it without reading its journal from the start.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { folded } from '../../../base/fold-text.ts';
import { textColumns, textOfColumns } from '../../../base/sqlite/packed.ts';
import type { StoreWrites } from '../../../base/sqlite/store-writes.ts';
import { inTransaction } from '../../../base/sqlite/transaction.ts';
import { fail } from '../../../wire/errors.ts';
import { ChunkedList, type ChunkPlace, type ChunkSource, type ListChange } from '../record/chunked-list.ts';
import { type FoldedSession, fromHead, type Head, LISTS, type ListName } from '../record/folded.ts';
import { headWithImages, mayRefer, storedItems, storedJson } from '../record/stored-image.ts';
import { type StoredImages, sessionHolder } from './store-images.ts';

/** A session as it is listed. Times are epoch milliseconds. */
export interface SessionRow {
  readonly id: string;
  readonly owner: string;
  readonly title: string;
  readonly cwd: string;
  readonly backend: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly messageCount: number;
  readonly pending: boolean;
  readonly closed: boolean;
  readonly queueLength: number;
  readonly approvalsPending: number;
  readonly parent: string | null;
  readonly subagent: string | null;
  readonly seq: number;
  /** The journal up to here is in the row. */
  readonly cursor: number;
}

export interface SessionFilter {
  /** Absent = all owners. */
  readonly owner?: string;
  readonly cwd?: string;
  readonly includeClosed?: boolean;
  /** Part of the title, compared as folded text. */
  readonly query?: string;
}

const COLUMNS = `id, owner, title, cwd, backend, created, updated, messages, pending, closed, queued, approvals, parent,
  subagent, seq, cursor`;
/** The filters of a list. Each combination has a separate statement, so that each seeks in an index. */
const CONDITIONS = {
  owner: 'owner = :owner',
  cwd: 'cwd = :cwd',
  query: "(:query = '' OR instr(folded(title), :query) > 0)",
} as const;

/** Gives a connection the function that {@link pageSql} compares titles with. */
export const addSearch = (db: DatabaseSync): void =>
  db.function('folded', { deterministic: true }, (title) => folded(String(title)));

export class Catalogue {
  readonly #db: DatabaseSync;
  readonly #images: StoredImages;
  readonly #writes: StoreWrites;
  readonly #put: StatementSync;
  readonly #key: StatementSync;
  readonly #head: StatementSync;
  readonly #stored: StatementSync;
  readonly #row: StatementSync;
  readonly #snapshot: StatementSync;
  /** Pages and counts of lists, by their SQL. */
  readonly #lists = new Map<string, StatementSync>();
  readonly #count: StatementSync;
  readonly #all: StatementSync;
  readonly #putChunk: StatementSync;
  readonly #cutChunks: StatementSync;
  readonly #lastChunk: StatementSync;
  readonly #placeOfChunk: StatementSync;
  readonly #itemsOfChunk: StatementSync;
  readonly #stalest: StatementSync;
  readonly #markDeleted: StatementSync;
  readonly #remove: StatementSync;
  readonly #removeHead: StatementSync;

  constructor(db: DatabaseSync, images: StoredImages, writes: StoreWrites) {
    this.#writes = writes;
    this.#db = db;
    this.#images = images;
    addSearch(db);
    this.#put = db.prepare(
      `INSERT INTO sessions (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)
       ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, title = excluded.title, cwd = excluded.cwd,
         backend = excluded.backend, created = excluded.created, updated = excluded.updated,
         messages = excluded.messages, pending = excluded.pending, closed = excluded.closed, queued = excluded.queued,
         approvals = excluded.approvals, parent = excluded.parent, subagent = excluded.subagent`,
    );
    this.#key = db.prepare('SELECT key FROM sessions WHERE id = ?');
    this.#head = db.prepare('INSERT INTO heads VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET head = excluded.head');
    this.#stored = db.prepare('UPDATE sessions SET seq = ?, cursor = ? WHERE key = ?');
    this.#row = db.prepare(`SELECT ${COLUMNS} FROM sessions WHERE id = ? AND deleted = 0`);
    this.#snapshot = db.prepare(
      'SELECT key, head, cursor FROM sessions JOIN heads ON session = key WHERE id = ? AND deleted = 0',
    );
    this.#count = db.prepare(
      'SELECT coalesce(sum(sessions), 0) AS total FROM session_counts WHERE owner = ? AND cwd = ? AND closed <= ?',
    );
    this.#all = db.prepare(
      'SELECT id, owner, closed, deleted, pending, queued, subagent, cursor FROM sessions ORDER BY key',
    );
    this.#putChunk = db.prepare(
      `INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, list, number) DO UPDATE SET
         first = excluded.first, count = excluded.count, before = excluded.before, size = excluded.size,
         mark = excluded.mark, items = excluded.items, packed = excluded.packed`,
    );
    this.#cutChunks = db.prepare('DELETE FROM chunks WHERE session = ? AND list = ? AND number >= ?');
    this.#lastChunk = db.prepare('SELECT max(number) AS number FROM chunks WHERE session = ? AND list = ?');
    this.#placeOfChunk = db.prepare(
      'SELECT first, count, before, size, mark FROM chunks WHERE session = ? AND list = ? AND number = ?',
    );
    this.#itemsOfChunk = db.prepare('SELECT items, packed FROM chunks WHERE session = ? AND list = ? AND number = ?');
    this.#stalest = db.prepare(
      `SELECT id FROM sessions WHERE deleted = 0 AND closed = 0 AND pending = 0 AND queued = 0 AND updated < ?
       ORDER BY updated, id LIMIT 1`,
    );
    this.#remove = db.prepare('DELETE FROM sessions WHERE key = ?');
    this.#removeHead = db.prepare('DELETE FROM heads WHERE session = ?');
    this.#markDeleted = db.prepare('UPDATE sessions SET deleted = 1 WHERE id = ?');
  }

  /**
   * Adds a session or updates its row in the list. Its snapshot, `seq` and `cursor` stay as they are: 0, that is all of it is
   * in the journal, until it has a snapshot.
   */
  put(row: SessionRow): void {
    const { id, owner, title, cwd, backend, createdAt, updatedAt, messageCount, queueLength, approvalsPending } = row;
    const put = (): unknown =>
      this.#put.run(
        ...[
          id,
          owner,
          title,
          cwd,
          backend,
          createdAt,
          updatedAt,
          messageCount,
          Number(row.pending),
          Number(row.closed),
        ],
        ...[queueLength, approvalsPending, row.parent, row.subagent],
      );
    // In a transaction, a failure here fails the whole.
    if (this.#db.isTransaction) put();
    else this.#writes.do(put);
  }

  /**
   * Writes a snapshot: the head whole, the changes of the lists. All of it or nothing. Returns the number of characters of the
   * head.
   */
  save(
    row: SessionRow,
    head: Head,
    changes: readonly { readonly list: ListName; readonly change: ListChange }[],
  ): number {
    const holder = sessionHolder(row.id);
    const { text } = storedJson(head, holder);
    this.together(() => {
      this.put(row);
      const key = this.#key.get(row.id)?.key as number;
      this.#head.run(key, text);
      this.#stored.run(row.seq, row.cursor, key);
      for (const { list, change } of changes) {
        for (const { number, first, count, before, size, mark, items } of change.chunks) {
          const columns = textColumns(storedJson(items, holder).text);
          this.#putChunk.run(key, list, number, first, count, before, size, mark, ...columns);
        }
        this.#cutChunks.run(key, list, change.count);
      }
    });
    return text.length;
  }

  /** Returns the row of a session. `seq` is that of its snapshot. */
  row(id: string): SessionRow | undefined {
    const row = this.#row.get(id);
    return row === undefined ? undefined : rowOf(row);
  }

  /** Returns the stored session and the journal position that it has reached; undefined when it has no snapshot. */
  load(id: string): { readonly session: FoldedSession; readonly cursor: number } | undefined {
    const row = this.#snapshot.get(id);
    if (row === undefined) return undefined;
    const key = row.key as number;
    const text = row.head as string;
    const head = JSON.parse(text) as Head;
    const whole = mayRefer(text) ? headWithImages(head, this.#images.shelf(sessionHolder(id))) : head;
    const session = fromHead(whole, {
      messages: ChunkedList.stored(this.#chunks(id, key, 'messages')),
      history: ChunkedList.stored(this.#chunks(id, key, 'history')),
      turns: ChunkedList.stored(this.#chunks(id, key, 'turns')),
    });
    return { session, cursor: row.cursor as number };
  }

  /** Returns the stored chunks of a list of a session that has a snapshot. */
  chunks(id: string, list: ListName): ChunkSource {
    return this.#chunks(id, this.#key.get(id)?.key as number, list);
  }

  #chunks(id: string, key: number, list: ListName): ChunkSource {
    const of = (statement: StatementSync, number: number): Record<string, unknown> => {
      const row = statement.get(key, list, number);
      if (row === undefined) throw fail('runtime_error', 'a part of a session is missing in the session store');
      return row;
    };
    return {
      count: ((this.#lastChunk.get(key, list)?.number as number | null | undefined) ?? -1) + 1,
      place: (number) => of(this.#placeOfChunk, number) as unknown as ChunkPlace,
      read: (number) => {
        const { items, packed } = of(this.#itemsOfChunk, number);
        return textOfColumns(items, packed);
      },
      parse: (text) => storedItems(text, this.#images.shelf(sessionHolder(id))),
    };
  }

  /** Does several writes in one transaction. */
  together(work: () => void): void {
    this.#writes.do(() => inTransaction(this.#db, work));
  }

  /**
   * Returns sessions, the latest changed first, from behind `after` on. Seeks to the page; only a query reads the rows between
   * its hits.
   */
  page(filter: SessionFilter, after: SessionPlace | undefined, limit: number): readonly SessionRow[] {
    const values = valuesOf(filter);
    values.limit = limit;
    if (after !== undefined) Object.assign(values, { updated: after.updatedAt, id: after.id });
    const rows = this.#list(pageSql(filter, after !== undefined), values);
    return rows.map(rowOf);
  }

  /** Returns the number of sessions that fit a filter. It is counted as sessions come and go; only a query reads the titles. */
  count(filter: SessionFilter): number {
    const { owner = '', cwd = '', includeClosed = false, query } = filter;
    if (query === undefined) return this.#count.get(owner, cwd, Number(includeClosed))?.total as number;
    const [row] = this.#list(countSql(filter), valuesOf(filter));
    return row?.total as number;
  }

  #list(sql: string, values: Readonly<Record<string, SQLInputValue>>): Record<string, unknown>[] {
    let statement = this.#lists.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#lists.set(sql, statement);
    }
    return statement.all(values);
  }

  /** Returns every session in the order of creation, those too that are only half deleted. */
  all(): readonly {
    readonly id: string;
    readonly owner: string;
    readonly closed: boolean;
    readonly deleted: boolean;
    /** Something ran or waited when it was stored. */
    readonly busy: boolean;
    /** True for the session of a subagent, which ended with its process. */
    readonly ofSubagent: boolean;
    readonly cursor: number;
  }[] {
    return this.#all.all().map((row) => ({
      id: row.id as string,
      owner: row.owner as string,
      closed: row.closed === 1,
      deleted: row.deleted === 1,
      busy: row.pending === 1 || row.queued !== 0,
      ofSubagent: row.subagent !== null,
      cursor: row.cursor as number,
    }));
  }

  /**
   * Returns the session that has not changed for longest, among those that are open, do nothing, and did not change since
   * `before`.
   */
  stalest(before: number): string | undefined {
    return this.#stalest.get(before)?.id as string | undefined;
  }

  /** Marks a session as deleted: from now on it does not exist, even if the rest of its deletion never comes to happen. */
  markDeleted(id: string): void {
    this.#writes.do(() => void this.#markDeleted.run(id));
  }

  /** Removes all that is stored of a session. */
  remove(id: string): void {
    this.#images.drop(sessionHolder(id));
    const key = this.#key.get(id)?.key;
    if (key === undefined) return;
    this.together(() => {
      for (const list of LISTS) this.#cutChunks.run(key, list, 0);
      this.#removeHead.run(key);
      this.#remove.run(key);
    });
  }
}

/** Start of a page of a list: behind this session. */
export interface SessionPlace {
  readonly updatedAt: number;
  readonly id: string;
}

function valuesOf({ owner, cwd, query }: SessionFilter): Record<string, SQLInputValue> {
  const values: Record<string, SQLInputValue> = {};
  if (owner !== undefined) values.owner = owner;
  if (cwd !== undefined) values.cwd = cwd;
  if (query !== undefined) values.query = folded(query);
  return values;
}

const conditionsOf = (filter: SessionFilter): string[] =>
  (['owner', 'cwd', 'query'] as const).filter((name) => filter[name] !== undefined).map((name) => CONDITIONS[name]);

/** Returns the SQL of a page. Open and closed sessions are two walks in order that SQLite merges. */
export function pageSql(filter: SessionFilter, hasPlace: boolean): string {
  const place = hasPlace ? ['(updated, id) < (:updated, :id)'] : [];
  const walk = (closed: 0 | 1): string => {
    const where = ['deleted = 0', `closed = ${closed}`, ...conditionsOf(filter), ...place];
    return `SELECT ${COLUMNS} FROM sessions WHERE ${where.join(' AND ')}`;
  };
  const walks = filter.includeClosed === true ? [walk(0), walk(1)] : [walk(0)];
  return `${walks.join(' UNION ALL ')} ORDER BY updated DESC, id DESC LIMIT :limit`;
}

function countSql(filter: SessionFilter): string {
  const where = ['deleted = 0', `closed <= ${Number(filter.includeClosed === true)}`, ...conditionsOf(filter)];
  return `SELECT count(*) AS total FROM sessions WHERE ${where.join(' AND ')}`;
}

function rowOf(row: Readonly<Record<string, unknown>>): SessionRow {
  return {
    id: row.id as string,
    owner: row.owner as string,
    title: row.title as string,
    cwd: row.cwd as string,
    backend: row.backend as string,
    createdAt: row.created as number,
    updatedAt: row.updated as number,
    messageCount: row.messages as number,
    pending: row.pending === 1,
    closed: row.closed === 1,
    queueLength: row.queued as number,
    approvalsPending: row.approvals as number,
    parent: row.parent as string | null,
    subagent: row.subagent as string | null,
    seq: row.seq as number,
    cursor: row.cursor as number,
  };
}
