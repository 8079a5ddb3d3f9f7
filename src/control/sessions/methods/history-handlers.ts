/**
 * The methods about saved chats: `history.list`, `history.get`, `history.clear_session`.
 * @see docs/protocol/session-rpc.md#saved-chats
 */
import { type HistoryListResult, historyClear, historyGet, historyList } from '../../../protocol/session-rpc.ts';
import type { SavedChatRecord } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { EVERY_OWNER, may } from '../../../session/rights.ts';
import { fail } from '../../../wire/errors.ts';
import { type Handled, handles, type RpcCall } from '../../contract/handlers.ts';
import { findChat, itemsOfChat } from '../history/chats.ts';
import { longReply } from '../history/long-replies.ts';
import { pageSize, readCursor, writeCursor } from '../history/page-cursor.ts';
import { chatMessages, chatOfPath, savedChat } from '../history/views.ts';
import type { ChatRow, SavedChats } from '../store/store-chats.ts';

export interface HistoryDeps {
  readonly chats: SavedChats;
  /** Empties a session the caller may use, queue included. Fails with `session_not_found`. */
  readonly clear: (sessionId: string, call: RpcCall) => Promise<void>;
}

const LISTED = { usual: 100, most: 1000 };

/** Returns the owner whose chats a principal sees; null = all owners. */
export const ownerSeenBy = (principal: Principal): string | null =>
  may(principal, 'read', EVERY_OWNER) ? null : principal.name;

/** Returns the handlers. */
export function historyHandlers({ chats, clear }: HistoryDeps): readonly Handled[] {
  return [
    handles(historyList, ({ limit: asked, cursor: offset = 0, page_cursor }, { caller }): HistoryListResult => {
      const owner = ownerSeenBy(caller.principal);
      const limit = pageSize(asked, LISTED.usual, LISTED.most);
      const total = chats.count(owner);
      const [before, cursor] =
        page_cursor === undefined
          ? [null, Math.max(0, Math.floor(offset))]
          : readCursor(page_cursor, ['number', 'number'], historyList.name, 'page_cursor');
      const skip = before === null ? cursor : 0;
      // One more than asked for, to know whether that is all.
      const rows = chats.list(owner, { before, skip }, Math.min(limit, total) + 1);
      const page = rows.slice(0, limit);
      const isLast = rows.length <= limit;
      const next = cursor + page.length;
      return {
        total,
        cursor,
        limit,
        sessions: page.map(savedChat),
        next_cursor: isLast ? null : next,
        next_page_cursor: isLast ? null : writeCursor([page.at(-1)!.revision, next]),
      };
    }),

    handles(historyGet, async ({ id, last = false, rollout_path }, { caller }) => {
      const chat = chosen(chats, ownerSeenBy(caller.principal), { id, last, path: rollout_path });
      const messages = chatMessages(await itemsOfChat(chat, chats));
      return longReply<SavedChatRecord>({ ...savedChat(chat), messages }, chats.size(chat.id));
    }),

    handles(historyClear, async ({ session_id }, call) => {
      await clear(session_id, call);
      return { session_id, cleared: true as const };
    }),
  ];
}

function chosen(
  chats: SavedChats,
  owner: string | null,
  { id, last, path }: { readonly id?: string; readonly last: boolean; readonly path?: string },
): ChatRow {
  if (last) return findChat(chats, owner, undefined);
  if (path !== undefined) {
    // Only references made by this server name a chat. No file is read, so the reply does not show which files exist.
    const named = chatOfPath(path);
    const chat = named === undefined ? undefined : chats.get(named);
    if (chat !== undefined && (owner === null || chat.owner === owner)) return chat;
    throw fail('not_found', `failed to load chat: ${path}`, { rollout_path: path });
  }
  if (id === undefined) throw fail('not_found', 'history.get requires one of: id, last, rollout_path');
  return findChat(chats, owner, id);
}
