/**
 * The methods that read a session in pages: its messages, its turns, its export. Cursors name a place by the row at it, so
 * pages neither repeat nor skip a row while the session continues.
 */
import type { Journal } from '../../../journal/journal.ts';
import { sessionExport, sessionMessages, sessionTurns } from '../../../protocol/session-rpc.ts';
import type { UiMessage } from '../../../protocol/session-types.ts';
import { JsonText } from '../../../wire/json.ts';
import { type Handled, handles } from '../../contract/handlers.ts';
import { EXPORT_FORMAT, exportEntries } from '../history/exports.ts';
import { jsonInTurns } from '../history/long-replies.ts';
import { pageSize, readCursor, writeCursor } from '../history/page-cursor.ts';
import { firstOf, messagesAfterSeq, messagesCursor, newestPage } from '../history/views.ts';
import type { ChunkedList } from '../record/chunked-list.ts';
import { replyWithImages, sentJson } from '../record/stored-image.ts';
import type { HandlerDeps } from './turn-handlers.ts';

const MESSAGES = { usual: 100, most: 1000 };
/** A page of messages ends before it has more characters; a single message may. */
const PAGE_CHARACTERS = 256 * 1024;
const TURNS = { usual: 50, most: 500 };
const EXPORTED = { usual: 1000, most: 10_000 };

/** Returns the handlers. */
export function pageHandlers({ sessionFor, journal }: HandlerDeps & { readonly journal: Journal }): readonly Handled[] {
  return [
    handles(sessionMessages, ({ session_id, cursor, limit, order = 'oldest' }, call) => {
      const { messages } = sessionFor(session_id, call).session.folded;
      const size = pageSize(limit, MESSAGES.usual, MESSAGES.most);
      const place =
        cursor === undefined ? undefined : readCursor(cursor, ['number', 'number?'], sessionMessages.name, 'cursor');
      const page = order === 'oldest' ? upward(messages, place, size) : downward(messages, place, size);
      return replyWithImages({ session_id, ...page, total: messages.length });
    }),

    handles(sessionTurns, ({ session_id, cursor, limit }, call) => {
      const { turns } = sessionFor(session_id, call).session.folded;
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
      const { entries, next } = await exportEntries(
        session,
        journal,
        after,
        pageSize(limit, EXPORTED.usual, EXPORTED.most),
      );
      const reply = { session_id, format: EXPORT_FORMAT, lines: entries, next_after_seq: next };
      const text = await jsonInTurns(reply, (entry) => sentJson(() => JSON.stringify(JSON.stringify(entry))));
      return new JsonText(
        () => text,
        () => ({ ...reply, lines: entries.map((entry) => JSON.stringify(entry)) }),
      );
    }),
  ];
}

interface MessagePage {
  readonly messages: readonly UiMessage[];
  readonly next_cursor: string | null;
  readonly after_seq: number;
}

/** A cursor names a message, by its number, and the index that it had. */
type Place = readonly [id: number, index: number | undefined];

function upward(list: ChunkedList<UiMessage>, place: Place | undefined, size: number): MessagePage {
  const start = place === undefined ? 0 : firstAbove(list, place[0], place[1]);
  const messages = firstOf(list.forward(start), { most: size, characters: PAGE_CHARACTERS, least: 1 });
  const end = start + messages.length;
  const last = messages.at(-1);
  const more = end < list.length && last !== undefined;
  return {
    messages,
    next_cursor: more ? writeCursor([last.id, end - 1]) : null,
    after_seq: messagesAfterSeq(list, start),
  };
}

function downward(list: ChunkedList<UiMessage>, place: Place | undefined, size: number): MessagePage {
  const end = place === undefined ? list.length : firstAbove(list, place[0] - 1, place[1]);
  const { items, from } = newestPage(list, end, { most: size, characters: PAGE_CHARACTERS, least: 1 });
  return {
    messages: items.toReversed(),
    next_cursor: from > 0 ? messagesCursor(list, from) : null,
    after_seq: messagesAfterSeq(list, from),
  };
}

/**
 * Returns the index of the first message with a higher number; numbers grow. `hint`: where it, or the one before, may stand.
 */
function firstAbove(list: ChunkedList<UiMessage>, id: number, hint: number | undefined): number {
  const idAt = (index: number): number => list.at(index)?.id ?? Number.POSITIVE_INFINITY;
  for (const index of hint === undefined ? [] : [hint, hint + 1]) {
    if (index >= 0 && index <= list.length && idAt(index) > id && (index === 0 || idAt(index - 1) <= id)) return index;
  }
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (idAt(middle) > id) high = middle;
    else low = middle + 1;
  }
  return low;
}
