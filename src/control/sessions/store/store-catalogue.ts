/**
 * The catalogue: a row per session for listing, and its snapshot for opening it without reading its journal from the
 * start. Called by `control/sessions/log/open-session.ts` (writing), `session-pool.ts` and `recovery.ts` (reading).
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { inTransaction } from '../../../base/sqlite/database.ts';
import { ChunkedList, type ListChange } from '../record/chunked-list.ts';
import { type FoldedSession, fromHead, type Head, LISTS, type ListName } from '../record/folded.ts';

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
  /** Absent = everybody's. */
  readonly owner?: string;
  readonly cwd?: string;
  readonly includeClosed?: boolean;
  /** Part of the title, letters of either case. */
  readonly query?: string;
}

const COLUMNS = `id, owner, title, cwd, backend, created, updated, messages, pending, closed, queued, approvals, parent,
  subagent, seq, cursor`;
const WHERE = `deleted = 0 AND (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR cwd = ?2) AND (?3 OR closed = 0)
  AND (?4 IS NULL OR title LIKE ?4 ESCAPE '\\')`;

export class Catalogue {
  readonly #db: DatabaseSync;
  readonly #put: StatementSync;
  readonly #key: StatementSync;
  readonly #head: StatementSync;
  readonly #row: StatementSync;
  readonly #snapshot: StatementSync;
  readonly #page: StatementSync;
  readonly #count: StatementSync;
  readonly #all: StatementSync;
  readonly #putChunk: StatementSync;
  readonly #cutChunks: StatementSync;
  readonly #chunks: StatementSync;
  readonly #stalest: StatementSync;
  readonly #markDeleted: StatementSync;
  readonly #remove: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#put = db.prepare(
      `INSERT INTO sessions (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)
       ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, title = excluded.title, cwd = excluded.cwd,
         backend = excluded.backend, created = excluded.created, updated = excluded.updated,
         messages = excluded.messages, pending = excluded.pending, closed = excluded.closed, queued = excluded.queued,
         approvals = excluded.approvals, parent = excluded.parent, subagent = excluded.subagent`,
    );
    this.#key = db.prepare('SELECT key FROM sessions WHERE id = ?');
    this.#head = db.prepare('UPDATE sessions SET head = ?, seq = ?, cursor = ? WHERE id = ?');
    this.#row = db.prepare(`SELECT ${COLUMNS} FROM sessions WHERE id = ? AND deleted = 0`);
    this.#snapshot = db.prepare('SELECT key, head, cursor FROM sessions WHERE id = ? AND deleted = 0');
    this.#page = db.prepare(
      `SELECT ${COLUMNS} FROM sessions WHERE ${WHERE}
       AND (?5 IS NULL OR updated < ?5 OR (updated = ?5 AND id < ?6)) ORDER BY updated DESC, id DESC LIMIT ?7`,
    );
    this.#count = db.prepare(`SELECT count(*) AS total FROM sessions WHERE ${WHERE}`);
    this.#all = db.prepare(
      'SELECT id, owner, closed, deleted, pending, queued, subagent, cursor FROM sessions ORDER BY key',
    );
    this.#putChunk = db.prepare(
      `INSERT INTO lists VALUES (?, ?, ?, ?) ON CONFLICT (session, list, number) DO UPDATE SET items = excluded.items`,
    );
    this.#cutChunks = db.prepare('DELETE FROM lists WHERE session = ? AND list = ? AND number >= ?');
    this.#chunks = db.prepare('SELECT list, items FROM lists WHERE session = ? ORDER BY list, number');
    this.#stalest = db.prepare(
      `SELECT id FROM sessions WHERE deleted = 0 AND closed = 0 AND pending = 0 AND queued = 0 AND updated < ?
       ORDER BY updated, id LIMIT 1`,
    );
    this.#remove = db.prepare('DELETE FROM sessions WHERE key = ?');
    this.#markDeleted = db.prepare('UPDATE sessions SET deleted = 1 WHERE id = ?');
  }

  /**
   * Adds a session or brings what is listed of it up to date. Its snapshot, `seq` and `cursor` stay as they are: 0, that is
   * all of it is in the journal, until there is a snapshot.
   */
  put(row: SessionRow): void {
    const { id, owner, title, cwd, backend, createdAt, updatedAt, messageCount, queueLength, approvalsPending } = row;
    this.#put.run(
      ...[id, owner, title, cwd, backend, createdAt, updatedAt, messageCount, Number(row.pending), Number(row.closed)],
      ...[queueLength, approvalsPending, row.parent, row.subagent],
    );
  }

  /**
   * Writes a snapshot: the head whole, of the lists what changed. All of it or nothing. Returns how many characters the
   * head has.
   */
  save(
    row: SessionRow,
    head: Head,
    changes: readonly { readonly list: ListName; readonly change: ListChange }[],
  ): number {
    const text = JSON.stringify(head);
    inTransaction(this.#db, () => {
      this.put(row);
      this.#head.run(text, row.seq, row.cursor, row.id);
      const key = this.#key.get(row.id)?.key as number;
      for (const { list, change } of changes) {
        for (const { number, items } of change.chunks) this.#putChunk.run(key, list, number, JSON.stringify(items));
        this.#cutChunks.run(key, list, change.count);
      }
    });
    return text.length;
  }

  /** What is listed of a session. `seq` is that of its snapshot. */
  row(id: string): SessionRow | undefined {
    const row = this.#row.get(id);
    return row === undefined ? undefined : rowOf(row);
  }

  /** The stored session and how far the journal is in it; undefined when there is no snapshot. */
  load(id: string): { readonly session: FoldedSession; readonly cursor: number } | undefined {
    const row = this.#snapshot.get(id);
    if (row === undefined || row.head === null) return undefined;
    const texts: Record<ListName, string[]> = { messages: [], history: [], turns: [] };
    for (const { list, items } of this.#chunks.all(row.key as number)) texts[list as ListName].push(items as string);
    const session = fromHead(JSON.parse(row.head as string) as Head, {
      messages: ChunkedList.stored(texts.messages),
      history: ChunkedList.stored(texts.history),
      turns: ChunkedList.stored(texts.turns),
    });
    return { session, cursor: row.cursor as number };
  }

  /** Sessions, the latest changed first, from behind `after` on; `total` counts all that fit the filter. */
  list(
    { owner, cwd, includeClosed = false, query }: SessionFilter,
    after: { readonly updatedAt: number; readonly id: string } | undefined,
    limit: number,
  ): { readonly rows: readonly SessionRow[]; readonly total: number } {
    const like = query === undefined ? null : `%${query.replace(/[\\%_]/g, '\\$&')}%`;
    const filter: SQLInputValue[] = [owner ?? null, cwd ?? null, Number(includeClosed), like];
    const rows = this.#page.all(...filter, after?.updatedAt ?? null, after?.id ?? null, limit).map(rowOf);
    return { rows, total: this.#count.get(...filter)?.total as number };
  }

  /** Every session in the order of creation, those too that are only half deleted. */
  all(): readonly {
    readonly id: string;
    readonly owner: string;
    readonly closed: boolean;
    readonly deleted: boolean;
    /** Something ran or waited when it was stored. */
    readonly busy: boolean;
    /** It is of a subagent, which ended with its process. */
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

  /** The session that has not changed for longest, among those that are open, do nothing, and did not change since `before`. */
  stalest(before: number): string | undefined {
    return this.#stalest.get(before)?.id as string | undefined;
  }

  /** From now on the session does not exist, even if the rest of its deletion never comes to happen. */
  markDeleted(id: string): void {
    this.#markDeleted.run(id);
  }

  /** Removes all that is stored of a session. */
  remove(id: string): void {
    const key = this.#key.get(id)?.key;
    if (key === undefined) return;
    inTransaction(this.#db, () => {
      for (const list of LISTS) this.#cutChunks.run(key, list, 0);
      this.#remove.run(key);
    });
  }
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
