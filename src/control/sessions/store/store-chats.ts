/**
 * Saved chats: conversations that outlive their session's clear, close or delete, tools included. A chat is
 * stored turn by turn, so saving costs the size of the turn and not of the chat.
 *
 * `control/sessions/history/chats.ts` decides which session writes to which chat.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { textColumns, textOfColumns } from '../../../base/sqlite/packed.ts';
import type { StoreWrites } from '../../../base/sqlite/store-writes.ts';
import { inTransaction } from '../../../base/sqlite/transaction.ts';
import type { WriteCount } from '../../../base/sqlite/write-count.ts';
import type { Provider, Thinking } from '../../../protocol/session-types.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import { storedItems, storedJson } from '../record/stored-image.ts';
import { chatHolder, type StoredImages } from './store-images.ts';

/** The facts of a chat, as its last writer left them. */
export interface ChatFacts {
  readonly id: string;
  readonly owner: string;
  readonly title: string;
  /** Null where turns have no model of a provider. */
  readonly provider: Provider | null;
  readonly model: string;
  readonly thinking: Thinking;
  readonly openRouterProvider?: string;
  /** The session that created it. */
  readonly origin: string;
}

/** A saved chat. Times are epoch milliseconds. */
export interface ChatRow extends ChatFacts {
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Grows with every write to any chat: the order of listing. */
  readonly revision: number;
  readonly messageCount: number;
  /** Turns it has. */
  readonly length: number;
}

/** A chat that is written in parts before any client can see it; `length` turns are written. */
export interface StagedChat {
  readonly id: string;
  readonly key: number;
  length: number;
}

/** The beginning of a new chat: the id of the chat whose first turns it has, or the staged chat that it is. */
export type ChatStart = string | StagedChat;

/** A turn of a chat. */
export interface ChatTurn {
  readonly turn: string;
  readonly items: readonly HistoryItem[];
  /** Messages a reader of the chat sees of it. */
  readonly messageCount: number;
}

interface TurnRow extends Pick<ChatTurn, 'turn' | 'messageCount'> {
  readonly bytes: number;
  readonly columns: ReturnType<typeof textColumns>;
}

/** Prefix of the keys in `small_values` whose values are the ids of staged chats. */
const STAGED = 'chat.staged.';
/** Bytes of staged turns that are written, and number of turns that are copied, before other work may run. */
const STAGED_BYTES = 128 * 1024;
const STAGED_TURNS = 4;

const COLUMNS = `id, owner, title, provider, model, thinking, routing, created, updated, revision, messages, length,
  origin`;

export class SavedChats {
  readonly #db: DatabaseSync;
  readonly #images: StoredImages;
  readonly #writes: StoreWrites;
  readonly #count: WriteCount | undefined;
  readonly #statements: Readonly<Record<Statement, StatementSync>>;

  /** Writes count in `count`. */
  constructor(db: DatabaseSync, images: StoredImages, writes: StoreWrites, count?: WriteCount) {
    this.#writes = writes;
    this.#db = db;
    this.#images = images;
    this.#count = count;
    const prepared = Object.entries(SQL).map(([name, sql]) => [name, db.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared) as Record<Statement, StatementSync>;
    // Removes the staged chats of a process that was killed.
    for (const { key, value } of this.#statements.allStaged.all())
      this.unstage({ id: value as string, key: Number((key as string).slice(STAGED.length)) });
  }

  /** Returns the chat with this very id. */
  get(id: string): ChatRow | undefined {
    return this.#one('get', id);
  }

  /**
   * Finds the chat with this id, or the only one whose id begins with it; letters of either case. `owner` null = all owners.
   */
  find(owner: string | null, idOrPrefix: string): ChatRow | undefined {
    const wanted = idOrPrefix.toLowerCase();
    const rows = this.#statements.find.all(owner, wanted, `${wanted}\u{10ffff}`).map(chatOf);
    return rows.find(({ id }) => id === wanted) ?? (rows.length === 1 ? rows[0] : undefined);
  }

  newest(owner: string | null): ChatRow | undefined {
    return this.list(owner, { before: null, skip: 0 }, 1)[0];
  }

  /** Returns chats, the latest written first: chats below revision `before`, without the first `skip`. */
  list(
    owner: string | null,
    { before, skip }: { readonly before: number | null; readonly skip: number },
    limit: number,
  ): readonly ChatRow[] {
    const { listAll, listOwned } = this.#statements;
    const from = before ?? Number.MAX_SAFE_INTEGER;
    const rows = owner === null ? listAll.all(from, limit, skip) : listOwned.all(from, limit, skip, owner);
    return rows.map(chatOf);
  }

  count(owner: string | null): number {
    return (this.#statements.count.get(owner ?? '')?.chats as number | undefined) ?? 0;
  }

  /** Returns bytes of JSON of the history of a chat, uncompressed, without reading it. */
  size(id: string): number {
    return this.#statements.size.get(id)?.total as number;
  }

  /** Reads the history of a chat: yields between its turns. */
  *items(id: string): Generator<void, readonly HistoryItem[]> {
    const shelf = this.#images.shelf(chatHolder(id));
    const all: HistoryItem[] = [];
    // A turn that is written in between is not part of the result.
    for (const { items, packed } of this.#statements.items.all(id)) {
      for (const item of storedItems<HistoryItem>(textOfColumns(items, packed), shelf)) all.push(item);
      yield;
    }
    return all;
  }

  /** Returns turn id of the last turn of a chat. */
  lastTurn(id: string): string | undefined {
    return this.#statements.lastTurn.get(id)?.turn as string | undefined;
  }

  /** Begins a chat that {@link write} shows; {@link unstage} removes it. */
  stage(id: string): StagedChat {
    const { stagedKey, putStaged } = this.#statements;
    const key = stagedKey.get()?.key as number;
    this.#transaction(() => putStaged.run(`${STAGED}${key}`, id));
    return { id, key, length: 0 };
  }

  /** Adds turns to a staged chat: yields between its writes. */
  *addStaged(chat: StagedChat, turns: Iterable<ChatTurn>): Generator<void, void> {
    let rows: TurnRow[] = [];
    let bytes = 0;
    const put = (): void => {
      this.#transaction(() => this.#putRows(chat.key, chat.length, rows));
      chat.length += rows.length;
      rows = [];
      bytes = 0;
    };
    for (const turn of turns) {
      const row = this.#rowOf(chat.id, turn);
      rows.push(row);
      bytes += row.bytes;
      if (bytes < STAGED_BYTES) continue;
      put();
      yield;
    }
    put();
  }

  /** Adds the first turns of another chat to a staged one: yields between its writes. */
  *copyStaged(chat: StagedChat, from: string, turns: number): Generator<void, void> {
    this.#images.copy(chatHolder(from), chatHolder(chat.id));
    for (; chat.length < turns; yield) {
      const end = Math.min(turns, chat.length + STAGED_TURNS);
      this.#transaction(() => this.#statements.copy.run(chat.key, from, end, chat.length));
      chat.length = end;
    }
  }

  /** Removes a staged chat. */
  unstage({ id, key }: Pick<StagedChat, 'id' | 'key'>): void {
    this.#images.drop(chatHolder(id));
    this.#transaction(() => {
      this.#statements.cut.run(key, 0);
      this.#statements.dropStaged.run(`${STAGED}${key}`);
    });
  }

  /**
   * Writes turns to a chat from `position` on, which is made when it does not exist; turns from there on are replaced. With
   * `from`, a new chat begins with the first `position` turns of another chat, or is a staged chat.
   */
  write(facts: ChatFacts, position: number, turns: readonly ChatTurn[], now: number, from?: ChatStart): void {
    const { id, owner, title, provider, model, thinking, openRouterProvider = null, origin } = facts;
    const statements = this.#statements;
    const staged = typeof from === 'object' ? from.key : null;
    this.#transaction(() => {
      statements.put.run(id, owner, title, provider, model, thinking, openRouterProvider, now, origin, staged);
      const key = statements.key.get(id)?.key as number;
      if (staged !== null) statements.dropStaged.run(`${STAGED}${staged}`);
      else if (typeof from === 'string') {
        this.#images.copy(chatHolder(from), chatHolder(id));
        statements.copy.run(key, from, position, 0);
      }
      // A chat that exists counts the turns that stay; a new one counts the copied turns.
      const sumFrom = (at: number) => statements.sum.get(key, at)?.total as number;
      const before = from === undefined ? -sumFrom(position) : sumFrom(0);
      statements.cut.run(key, position);
      const rows = turns.map((turn) => this.#rowOf(id, turn));
      statements.counted.run(before + this.#putRows(key, position, rows), position + turns.length, key);
    });
  }

  /** Returns a turn as a chat has it. `bytes`: of its JSON, images included. */
  #rowOf(chat: string, { turn, items, messageCount }: ChatTurn): TurnRow {
    const holder = chatHolder(chat);
    const { text, omitted } = storedJson(this.#images.adopted(holder, items).items, holder);
    return { turn, messageCount, bytes: Buffer.byteLength(text) + omitted, columns: textColumns(text) };
  }

  /** Stores rows, and returns the number of their messages. */
  #putRows(key: number, position: number, rows: readonly TurnRow[]): number {
    for (const [at, { turn, messageCount, bytes, columns }] of rows.entries())
      this.#statements.putTurn.run(key, position + at, turn, messageCount, bytes, ...columns);
    return rows.reduce((all, { messageCount }) => all + messageCount, 0);
  }

  /** Gives a chat a title; it stays where it is in the list. */
  rename(id: string, title: string): void {
    this.#transaction(() => this.#statements.rename.run(title, id));
  }

  remove(id: string): void {
    this.#images.drop(chatHolder(id));
    const key = this.#statements.key.get(id)?.key;
    if (key === undefined) return;
    this.#transaction(() => {
      this.#statements.cut.run(key as number, 0);
      this.#statements.remove.run(key as number);
    });
  }

  #transaction(work: () => void): void {
    const count = this.#count;
    this.#writes.do(() => (count === undefined ? inTransaction(this.#db, work) : count.transaction(work)));
  }

  #one(name: 'get', ...values: string[]): ChatRow | undefined {
    const row = this.#statements[name].get(...values);
    return row === undefined ? undefined : chatOf(row);
  }
}

/** Exported for a test that looks at their plans. */
export const SQL = {
  get: `SELECT ${COLUMNS} FROM chats WHERE id = ?`,
  key: 'SELECT key FROM chats WHERE id = ?',
  find: `SELECT ${COLUMNS} FROM chats WHERE id >= ?2 AND id < ?3 AND (?1 IS NULL OR owner = ?1) ORDER BY id LIMIT 2`,
  listAll: `SELECT ${COLUMNS} FROM chats WHERE revision < ?1 ORDER BY revision DESC LIMIT ?2 OFFSET ?3`,
  listOwned: `SELECT ${COLUMNS} FROM chats WHERE owner = ?4 AND revision < ?1
    ORDER BY revision DESC LIMIT ?2 OFFSET ?3`,
  count: 'SELECT chats FROM chat_counts WHERE owner = ?',
  items: `SELECT items, packed FROM chat_turns WHERE chat = (SELECT key FROM chats WHERE id = ?) ORDER BY position`,
  size: 'SELECT coalesce(sum(bytes), 0) AS total FROM chat_turns WHERE chat = (SELECT key FROM chats WHERE id = ?)',
  lastTurn: `SELECT turn FROM chat_turns WHERE chat = (SELECT key FROM chats WHERE id = ?) ORDER BY position DESC LIMIT 1`,
  // Keys of staged chats are below 0, and stay.
  stagedKey: `SELECT min(0, (SELECT coalesce(min(key), 0) FROM chats), (SELECT coalesce(min(chat), 0) FROM chat_turns)) - 1
    AS key`,
  allStaged: `SELECT key, value FROM small_values WHERE key >= '${STAGED}' AND key < '${STAGED}:'`,
  putStaged: 'INSERT INTO small_values (key, value) VALUES (?, ?)',
  dropStaged: 'DELETE FROM small_values WHERE key = ?',
  put: `INSERT INTO chats (key, id, owner, title, provider, model, thinking, routing, created, updated, revision, messages,
      length, origin)
    VALUES (coalesce(?10, (SELECT max(coalesce(max(key), 0), 0) + 1 FROM chats)), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, (SELECT coalesce(max(revision), 0) + 1 FROM chats), 0, 0, ?9)
    ON CONFLICT (id) DO UPDATE SET title = excluded.title, provider = excluded.provider, model = excluded.model,
      thinking = excluded.thinking, routing = excluded.routing, updated = excluded.updated,
      revision = excluded.revision`,
  copy: `INSERT INTO chat_turns (chat, position, turn, messages, bytes, items, packed)
    SELECT ?1, position, turn, messages, bytes, items, packed FROM chat_turns
    WHERE chat = (SELECT key FROM chats WHERE id = ?2) AND position >= ?4 AND position < ?3`,
  cut: 'DELETE FROM chat_turns WHERE chat = ? AND position >= ?',
  putTurn: 'INSERT INTO chat_turns (chat, position, turn, messages, bytes, items, packed) VALUES (?, ?, ?, ?, ?, ?, ?)',
  sum: 'SELECT coalesce(sum(messages), 0) AS total FROM chat_turns WHERE chat = ? AND position >= ?',
  counted: 'UPDATE chats SET messages = messages + ?, length = ? WHERE key = ?',
  rename: 'UPDATE chats SET title = ? WHERE id = ?',
  remove: 'DELETE FROM chats WHERE key = ?',
} as const;
type Statement = keyof typeof SQL;

function chatOf(row: Readonly<Record<string, unknown>>): ChatRow {
  return {
    id: row.id as string,
    owner: row.owner as string,
    title: row.title as string,
    provider: row.provider as Provider | null,
    model: row.model as string,
    thinking: row.thinking as Thinking,
    ...(row.routing !== null && { openRouterProvider: row.routing as string }),
    origin: row.origin as string,
    createdAt: row.created as number,
    updatedAt: row.updated as number,
    revision: row.revision as number,
    messageCount: row.messages as number,
    length: row.length as number,
  };
}
