/**
 * The methods that read a session in pages: its messages, its turns, its export. Cursors name a place by what stands there,
 * so pages neither repeat nor skip a row while the session continues. Made by `sessions.ts`.
 */
import type { Journal } from '../../../journal/journal.ts';
import { sessionExport, sessionMessages, sessionTurns } from '../../../protocol/session-rpc.ts';
import type { UiMessage } from '../../../protocol/session-types.ts';
import { type Handled, handles } from '../../contract/handlers.ts';
import { EXPORT_FORMAT, exportLines } from '../history/exports.ts';
import { pageSize, readCursor, writeCursor } from './page-cursor.ts';
import type { HandlerDeps } from './turn-handlers.ts';

const MESSAGES = { usual: 100, most: 1000 };
const TURNS = { usual: 50, most: 500 };
const EXPORTED = { usual: 1000, most: 10_000 };

/** The handlers. */
export function pageHandlers({ sessionFor, journal }: HandlerDeps & { readonly journal: Journal }): readonly Handled[] {
  return [
    handles(sessionMessages, ({ session_id, cursor, limit, order = 'oldest' }, call) => {
      const { messages } = sessionFor(session_id, call).session.record;
      const size = pageSize(limit, MESSAGES.usual, MESSAGES.most);
      const after =
        cursor === undefined ? undefined : readCursor(cursor, ['number'], sessionMessages.name, 'cursor')[0];
      const page = order === 'oldest' ? upward(messages, after, size) : downward(messages, after, size);
      return {
        session_id,
        messages: page.messages,
        next_cursor: page.more ? writeCursor([page.messages.at(-1)!.id]) : null,
        total: messages.length,
      };
    }),

    handles(sessionTurns, ({ session_id, cursor, limit }, call) => {
      const { turns } = sessionFor(session_id, call).session.record;
      const size = pageSize(limit, TURNS.usual, TURNS.most);
      const place = cursor === undefined ? undefined : readCursor(cursor, ['number'], sessionTurns.name, 'cursor')[0];
      // Turns are never taken out and never move: their place is a good name for them.
      const end = Math.min(Math.max(0, place ?? turns.length), turns.length);
      const start = Math.max(0, end - size);
      const rows = turns.slice(start, end).reverse();
      return {
        session_id,
        turns: rows.map(({ turnId, prompt, startedAt, endedAt, stopReason, usage }) => ({
          turn_id: turnId,
          prompt,
          started_at: startedAt,
          ended_at: endedAt,
          stop_reason: stopReason,
          usage,
        })),
        next_cursor: start > 0 ? writeCursor([start]) : null,
      };
    }),

    handles(sessionExport, async ({ session_id, after_seq = 0, limit }, call) => {
      const { session } = sessionFor(session_id, call);
      const after = Math.max(0, Math.floor(after_seq));
      const { lines, next } = await exportLines(
        session,
        journal,
        after,
        pageSize(limit, EXPORTED.usual, EXPORTED.most),
      );
      return { session_id, format: EXPORT_FORMAT, lines, next_after_seq: next };
    }),
  ];
}

interface MessagePage {
  readonly messages: readonly UiMessage[];
  readonly more: boolean;
}

function upward(messages: readonly UiMessage[], after: number | undefined, size: number): MessagePage {
  const start = after === undefined ? 0 : firstAbove(messages, after);
  return { messages: messages.slice(start, start + size), more: start + size < messages.length };
}

function downward(messages: readonly UiMessage[], before: number | undefined, size: number): MessagePage {
  const end = before === undefined ? messages.length : firstAbove(messages, before - 1);
  const start = Math.max(0, end - size);
  return { messages: messages.slice(start, end).reverse(), more: start > 0 };
}

/** Index of the first message with a higher number; numbers grow. */
function firstAbove(messages: readonly UiMessage[], id: number): number {
  let low = 0;
  let high = messages.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (messages[middle]!.id > id) high = middle;
    else low = middle + 1;
  }
  return low;
}
