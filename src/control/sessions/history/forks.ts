/**
 * A conversation copied from one session, or from an export, into a new session.
 * Called by `session-handlers.ts`.
 */
import type { UiMessage } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import { mustFitReply } from '../../contract/reply-size.ts';
import type { HistoryItem, TurnRow } from '../../contract/session-log.ts';
import type { OpenSession } from '../log/open-session.ts';
import { type FoldedSession, type StoredTurn, wholeOf } from '../record/folded.ts';

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
export function conversationOf(session: FoldedSession, throughTurnId?: string): Conversation {
  const size = session.messages.size + session.history.size + session.turns.size;
  mustFitReply('the conversation', size, 'it is too long to be copied; /compress shortens what its model is given');
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
