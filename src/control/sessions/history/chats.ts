/**
 * Which session writes to which saved chat, and how a session loads one. A chat that another session has written to in the
 * meantime is never overwritten: the second session continues in a copy of what it had.
 *
 * Called at the end of turns (`control/sessions/turns/turn-end.ts`) and by `history-handlers.ts`.
 */
import { inTurns, Turns } from '../../../base/turns.ts';
import type { SessionSettings, Thinking } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { UsedModel } from '../../contract/backend.ts';
import { mustFitReply } from '../../contract/reply-size.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import type { OpenSession } from '../log/open-session.ts';
import type { ChunkedList } from '../record/chunked-list.ts';
import type { ChatFacts, ChatRow, SavedChats } from '../store/store-chats.ts';
import { turnsOf } from './views.ts';

export interface ChatDeps {
  readonly chats: SavedChats;
  /** What a session's turns use; null where that means nothing. */
  readonly modelOf: (session: OpenSession) => UsedModel | null;
  /** The settings of a session, with the server's defaults. */
  readonly settingsOf: (session: OpenSession) => SessionSettings;
  readonly newId: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** All that read chats take no more of a turn than one. */
const turns = new Turns();

const DEFAULT_THINKING: Thinking = 'HIGH';

/** Saves a turn of the session to its chat. Throws what the store throws. */
export function saveChat(session: OpenSession, turnId: string, parts: ChatDeps): void {
  const { chats, now } = parts;
  const { record, folded } = session;
  const known = record.chatId === null ? undefined : chats.get(record.chatId);
  if (known === undefined) {
    // All of it: the record has the newest items alone.
    const all = turnsOf(folded.history.slice(0, folded.history.length));
    const id = record.chatId ?? parts.newId();
    chats.write(factsOf(session, id, parts), 0, all, now());
    attach(session, id, all.length);
    return;
  }
  const ofTurn = turnsOf(itemsOfTurn(folded.history, turnId));
  // Saved before a crash and not noted: the turn overwrites itself.
  const isRepeated = known.length === folded.chatLength + 1 && chats.lastTurn(known.id) === turnId;
  if (known.length === folded.chatLength || isRepeated) {
    chats.write({ ...factsOf(session, known.id, parts), origin: known.origin }, folded.chatLength, ofTurn, now());
    attach(session, known.id, folded.chatLength + ofTurn.length);
    return;
  }
  const id = parts.newId();
  const kept = Math.min(folded.chatLength, known.length);
  chats.write(factsOf(session, id, parts), kept, ofTurn, now(), known.id);
  attach(session, id, kept + ofTurn.length);
}

/** The history of a saved chat. Fails with `too_large` for one that is too long for a reply. */
export async function itemsOfChat(chat: ChatRow, chats: SavedChats): Promise<readonly HistoryItem[]> {
  mustFitReply('the saved chat', chats.size(chat.id), 'it is too long to be read whole');
  return inTurns(chats.items(chat.id), turns);
}

/** Puts a saved chat, whose items were read, in the place of what the session holds; its next turn writes to that chat. */
export function loadChat(
  session: OpenSession,
  chat: ChatRow,
  read: readonly HistoryItem[],
  nextMessageId: () => number,
): void {
  const items = session.adopted(read);
  const messages = turnsOf(items).flatMap(({ items: ofTurn }) => {
    const prompts = ofTurn.flatMap((item) =>
      item.role === 'user' && item.unsent !== true
        ? [{ id: nextMessageId(), kind: 'user' as const, text: item.text, ...(item.images && { images: item.images }) }]
        : [],
    );
    const answer = ofTurn.map((item) => (item.role === 'assistant' ? item.text : '')).join('');
    return answer === '' ? prompts : [...prompts, { id: nextMessageId(), kind: 'assistant' as const, text: answer }];
  });
  session.emit('session.cleared', { reason: 'resumed', chat_id: chat.id });
  session.note('messages.replace', { messages });
  session.remember(items, 'replace');
  if (chat.provider !== null) session.note('provider.used', { provider: chat.provider });
  attach(session, chat.id, chat.length);
  if (session.record.title !== chat.title) session.emit('session.renamed', { title: chat.title });
}

/** The chat with an id or the beginning of one; undefined = the newest. Fails with `not_found`, in the protocol's words. */
export function findChat(chats: SavedChats, owner: string | null, which: string | undefined): ChatRow {
  if (which !== undefined) {
    const found = chats.find(owner, which);
    if (found === undefined) throw fail('not_found', `no saved chat matched id: ${which}`, { id: which });
    return found;
  }
  const newest = chats.newest(owner);
  if (newest === undefined) throw fail('not_found', 'no saved chat history yet');
  return newest;
}

/** The items of the last turn of a history. */
export function itemsOfTurn(history: ChunkedList<HistoryItem>, turnId: string): readonly HistoryItem[] {
  return history.slice(history.findLastIndex(({ turn }) => turn !== turnId) + 1, history.length);
}

function attach(session: OpenSession, chat_id: string, length: number): void {
  session.note('chat.attached', { chat_id, length });
}

function factsOf(session: OpenSession, id: string, { modelOf, settingsOf }: ChatDeps): ChatFacts {
  const { record } = session;
  const used = modelOf(session);
  const { model, provider } = used ?? { model: record.backend, provider: null };
  // The level in force: what a session asked for may not be what its model has, and most sessions ask for none.
  const settings = settingsOf(session);
  const thinking = used?.thinking ?? settings.thinking ?? DEFAULT_THINKING;
  const openRouterProvider = used?.openRouterProvider ?? settings.openRouterProvider;
  return {
    id,
    owner: record.owner,
    title: record.title,
    provider,
    model,
    thinking,
    ...(provider === 'openrouter' && openRouterProvider !== undefined && { openRouterProvider }),
    origin: session.id,
  };
}
