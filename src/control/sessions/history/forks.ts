/** A conversation copied from one session, or from an export, into a new session. */
import { type BeyondBound, type JsonBounds, jsonChars } from '../../../base/json-size.ts';
import type { UiMessage } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import { mustFitReply } from '../../contract/reply-size.ts';
import type { HistoryItem, TurnRow } from '../../contract/session-log.ts';
import type { OpenSession } from '../log/open-session.ts';
import { type FoldedSession, type StoredTurn, sizeOfWhole, wholeOf } from '../record/folded.ts';
import { type AnyImage, placeOf, type WithImages } from '../record/stored-image.ts';

/** A conversation that can be continued elsewhere. */
export interface Conversation {
  readonly messages: readonly UiMessage[];
  readonly history: readonly HistoryItem[];
  readonly turns: readonly StoredTurn[];
}

/**
 * Returns the conversation of a session through an ended turn, or all of it. The output of a running turn is not part of it.
 * Fails with `not_found` when the session has no such turn, or has it only in a summary.
 */
export function conversationOf(session: FoldedSession, throughTurnId?: string): Conversation {
  mustFitReply(
    'the conversation',
    sizeOfWhole(session),
    'it is too long to be copied; /compress shortens what its model is given',
  );
  const { messages, history, turns: all } = wholeOf(session);
  const running = session.record.turn?.id;
  const turns = all.filter(({ endedAt }) => endedAt !== null);
  const messagesThrough = (id: number): UiMessage[] => messages.filter((message) => message.id <= id);
  if (throughTurnId === undefined) {
    if (running === undefined) return { messages, history, turns };
    const last = turns.findLast(({ lastMessageId }) => lastMessageId !== undefined);
    return {
      messages: messagesThrough(last?.lastMessageId ?? 0),
      history: history.filter(({ turn }) => turn !== running),
      turns,
    };
  }
  const at = turns.findIndex(({ turnId }) => turnId === throughTurnId);
  const turn = turns[at];
  if (turn === undefined) {
    throw fail('not_found', `no ended turn: ${throughTurnId}`, { turn_id: throughTurnId });
  }
  const end = history.findLastIndex((item) => item.turn === throughTurnId);
  if (end === -1 && history.some(({ turn: of }) => of === '')) {
    throw fail('not_found', `the turn was replaced by a summary: ${throughTurnId}`, { turn_id: throughTurnId });
  }
  return {
    messages: messagesThrough(turn.lastMessageId ?? 0),
    history: history.slice(0, end + 1),
    turns: turns.slice(0, at + 1),
  };
}

/** A piece of a copied conversation has about this many characters of JSON. */
const PIECE_CHARACTERS = 256 * 1024;
/** Values inside each other, at most, of an item that is measured. */
const MAX_DEPTH = 256;

/**
 * Puts a conversation, whose long images are stored already, into a new session, a piece for each `next`. Its messages get new
 * numbers.
 */
export function* copyConversation(
  session: OpenSession,
  from: Conversation,
  nextMessageId: () => number,
): Iterator<void, void> {
  const ids = new Map<number, number>();
  for (const { part, isFirst } of pieces(from.messages)) {
    const messages = session.adopted(part).map((message) => {
      const id = nextMessageId();
      ids.set(message.id, id);
      return { ...message, id };
    });
    session.note(isFirst ? 'messages.replace' : 'messages.append', { messages });
    yield;
  }
  for (const { part, isFirst } of pieces(from.history)) {
    session.remember(session.adopted(part), isFirst ? 'replace' : 'append');
    yield;
  }
  const last = ({ lastMessageId }: StoredTurn) => (lastMessageId === undefined ? 0 : (ids.get(lastMessageId) ?? 0));
  for (const { part, isFirst } of pieces(from.turns)) {
    // An idempotency key names a prompt in its own session alone.
    const turns: TurnRow[] = part.map(({ sent: _sent, ...turn }) => ({ ...turn, lastMessageId: last(turn) }));
    session.note(isFirst ? 'turns.replace' : 'turns.append', { turns });
    yield;
  }
}

function* pieces<Item extends object>(
  items: readonly Item[],
): Generator<{ readonly part: readonly Item[]; readonly isFirst: boolean }> {
  let start = 0;
  let left = PIECE_CHARACTERS;
  for (const [at, item] of items.entries()) {
    left -= charactersOf(item);
    if (left >= 0 || at === start) continue;
    yield { part: items.slice(start, at), isFirst: start === 0 };
    start = at;
    left = PIECE_CHARACTERS - charactersOf(item);
  }
  if (start < items.length) yield { part: items.slice(start), isFirst: start === 0 };
}

/** Returns the approximate number of characters of an item's entry, at most {@link PIECE_CHARACTERS}. */
function charactersOf(item: WithImages): number {
  const isApart = (image: AnyImage): boolean => placeOf(image) !== undefined;
  const chars = entryChars(item, isApart, { chars: PIECE_CHARACTERS, depth: MAX_DEPTH });
  return typeof chars === 'number' ? chars : PIECE_CHARACTERS;
}

/** Counts the characters of an item without its images that are stored apart; or the bound that it is beyond. */
export function entryChars(
  { images = [], ...item }: WithImages,
  isApart: (image: AnyImage) => boolean,
  bounds: JsonBounds,
): number | BeyondBound {
  return jsonChars([item, ...images.filter((image) => !isApart(image))], bounds);
}
