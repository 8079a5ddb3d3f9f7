/**
 * A conversation copied from one session, or from an export, into a new session.
 * Called by `session-handlers.ts`.
 */
import type { UiMessage } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { HistoryItem, SessionRecord, TurnRow } from '../../contract/session-log.ts';
import type { OpenSession } from '../log/open-session.ts';
import type { StoredTurn } from '../record/folded.ts';

/** A conversation that can be continued elsewhere. */
export interface Conversation {
  readonly messages: readonly UiMessage[];
  readonly history: readonly HistoryItem[];
  readonly turns: readonly StoredTurn[];
}

/**
 * The conversation of a session through an ended turn, or all of it. The output of a running turn is
 * not part of it. Fails with `not_found` when there is no such turn, or when it is only in a summary any more.
 */
export function conversationOf(record: SessionRecord, throughTurnId?: string): Conversation {
  const running = record.turn?.id;
  const turns = (record.turns as readonly StoredTurn[]).filter(({ endedAt }) => endedAt !== null);
  if (throughTurnId === undefined) {
    if (running === undefined) return { messages: record.messages, history: record.history, turns };
    const last = turns.findLast(({ lastMessageId }) => lastMessageId !== undefined);
    const history = record.history.filter(({ turn }) => turn !== running);
    return { messages: messagesThrough(record, last?.lastMessageId ?? 0), history, turns };
  }
  const at = turns.findIndex(({ turnId }) => turnId === throughTurnId);
  const turn = turns[at];
  if (turn === undefined) {
    throw fail('not_found', `no ended turn: ${throughTurnId}`, { turn_id: throughTurnId });
  }
  const end = record.history.findLastIndex((item) => item.turn === throughTurnId);
  if (end === -1 && record.history.some(({ turn: of }) => of === '')) {
    throw fail('not_found', `the turn was replaced by a summary: ${throughTurnId}`, { turn_id: throughTurnId });
  }
  return {
    messages: messagesThrough(record, turn.lastMessageId ?? 0),
    history: record.history.slice(0, end + 1),
    turns: turns.slice(0, at + 1),
  };
}

const messagesThrough = ({ messages }: SessionRecord, id: number): UiMessage[] =>
  messages.filter((message) => message.id <= id);

/** Puts a conversation into a new session. Its messages get numbers of their own. */
export function copyConversation(session: OpenSession, from: Conversation, nextMessageId: () => number): void {
  const ids = new Map<number, number>();
  const messages = from.messages.map((message) => {
    const id = nextMessageId();
    ids.set(message.id, id);
    return { ...message, id };
  });
  const last = ({ lastMessageId }: StoredTurn) => (lastMessageId === undefined ? 0 : (ids.get(lastMessageId) ?? 0));
  // What a prompt was called names it in its own session alone.
  const turns: TurnRow[] = from.turns.map(({ sent: _sent, ...turn }) => ({ ...turn, lastMessageId: last(turn) }));
  if (messages.length > 0) session.note('messages.replace', { messages });
  if (from.history.length > 0) session.remember(from.history, 'replace');
  if (turns.length > 0) session.note('turns.replace', { turns });
}
