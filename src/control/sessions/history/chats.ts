/**
 * The saved chat that each session writes to, and the loading of a chat into a session. A chat that another session has written
 * to in the meantime is never overwritten: the second session continues in a copy of its conversation.
 */
import { inTurns, Turns } from '../../../base/turns.ts';
import type { SessionSettings, Thinking } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { UsedModel } from '../../contract/backend.ts';
import { mustFitReply } from '../../contract/reply-size.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import type { OpenSession } from '../log/open-session.ts';
import type { ChunkedList } from '../record/chunked-list.ts';
import type { ChatFacts, ChatRow, ChatStart, ChatTurn, SavedChats, StagedChat } from '../store/store-chats.ts';
import { takesTurns } from './long-replies.ts';
import { turnsOf } from './views.ts';

export interface ChatDeps {
  readonly chats: SavedChats;
  /** Returns the model that a session's turns use; null for a backend without models. */
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

interface Begun {
  readonly turnId: string;
  readonly chat: StagedChat;
  isWhole: boolean;
}

/** The chats that turns under way will begin. */
const begun = new WeakMap<OpenSession, Begun>();

/**
 * Runs before the model is asked. Writes the earlier turns to the chat that the end of this turn will begin, in as many turns
 * of the event loop as that takes. The end alone saves a short conversation, and a turn that continues a stored chat. An
 * interrupted turn waits until the chat is written, because its end is saved too. Throws the errors of the store.
 */
export async function prepareChat(session: OpenSession, turnId: string, { chats, newId }: ChatDeps): Promise<void> {
  const { record, folded } = session;
  // Removes the rows of a turn whose end was not saved.
  unstage(session, chats);
  const known = record.chatId === null ? undefined : chats.get(record.chatId);
  // The size of a chat is asked last: it reads all rows of the chat.
  if (known !== undefined && isContinued(known, folded.chatLength, turnId, chats)) return;
  if (!takesTurns(known === undefined ? folded.history.size : chats.size(known.id))) return;
  const chat = chats.stage((known === undefined ? record.chatId : null) ?? newId());
  const mine = { turnId, chat, isWhole: false };
  begun.set(session, mine);
  const work =
    known === undefined
      ? chats.addStaged(chat, turnsOf(before(folded.history, turnId)))
      : chats.copyStaged(chat, known.id, Math.min(folded.chatLength, known.length));
  try {
    await inTurns(
      whileIt(work, () => begun.get(session) === mine),
      turns,
    );
    mine.isWhole = true;
  } catch (thrown) {
    unstage(session, chats);
    throw thrown;
  }
}

/** Removes the rows written for a turn. Where that fails, the next start of the server does it. */
function unstage(session: OpenSession, chats: SavedChats): void {
  const staged = begun.get(session);
  begun.delete(session);
  try {
    if (staged !== undefined) chats.unstage(staged.chat);
  } catch {}
}

function* whileIt(work: Iterable<void>, isWanted: () => boolean): Generator<void, void> {
  for (const _ of work) {
    yield;
    if (!isWanted()) return;
  }
}

function* before(history: ChunkedList<HistoryItem>, turnId: string): Generator<HistoryItem> {
  for (const item of history.forward(0)) {
    if (item.turn === turnId) return;
    yield item;
  }
}

/** Saves a turn of the session to its chat. Throws the errors of the store. */
export function saveChat(session: OpenSession, turnId: string, parts: ChatDeps): void {
  const { chats } = parts;
  const { record, folded } = session;
  const write = (
    id: string,
    length: number,
    saved: readonly ChatTurn[],
    more: Partial<ChatFacts>,
    from?: ChatStart,
  ) => {
    chats.write({ ...factsOf(session, id, parts), ...more }, length, saved, parts.now(), from);
    attach(session, id, length + saved.length);
  };
  const ofTurn = (): readonly ChatTurn[] => [...turnsOf(itemsOfTurn(folded.history, turnId))];
  const staged = begun.get(session);
  if (staged?.turnId === turnId && staged.isWhole && chats.get(staged.chat.id) === undefined) {
    const { chat } = staged;
    write(chat.id, chat.length, ofTurn(), {}, chat);
    begun.delete(session);
    return;
  }
  const known = record.chatId === null ? undefined : chats.get(record.chatId);
  if (known === undefined) {
    // All of it: the record has the newest items alone.
    return write(record.chatId ?? parts.newId(), 0, [...turnsOf(folded.history.forward(0))], {});
  }
  if (isContinued(known, folded.chatLength, turnId, chats)) {
    return write(known.id, folded.chatLength, ofTurn(), { origin: known.origin });
  }
  write(parts.newId(), Math.min(folded.chatLength, known.length), ofTurn(), {}, known.id);
}

/** True when the turn is the next one of its chat: no other session has written to it. */
function isContinued(known: ChatRow, length: number, turnId: string, chats: SavedChats): boolean {
  // Saved before a crash and not noted: the turn overwrites itself.
  const isRepeated = known.length === length + 1 && chats.lastTurn(known.id) === turnId;
  return known.length === length || isRepeated;
}

/** Returns the history of a saved chat. Fails with `too_large` for one that is too long for a reply. */
export async function itemsOfChat(chat: ChatRow, chats: SavedChats): Promise<readonly HistoryItem[]> {
  mustFitReply('the saved chat', chats.size(chat.id), 'it is too long to be read whole');
  return inTurns(chats.items(chat.id), turns);
}

/** Puts a saved chat, whose items were read, in the place of the session's conversation; its next turn writes to that chat. */
export function loadChat(
  session: OpenSession,
  chat: ChatRow,
  read: readonly HistoryItem[],
  nextMessageId: () => number,
): void {
  const items = session.adopted(read);
  const messages = [...turnsOf(items)].flatMap(({ items: ofTurn }) => {
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

/**
 * Finds the chat with an id or the beginning of one; undefined = the newest. Fails with `not_found`, in the protocol's words.
 */
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

/** Returns the items of the last turn of a history. */
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
  // The level in force: the model may not have the level that a session asked for, and most sessions ask for none.
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
