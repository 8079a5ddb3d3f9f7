/**
 * Sessions and chats as they go over the wire: pure functions from records to results.
 * @see docs/protocol/session-rpc.md#types
 */
import type {
  ChatMessage,
  QueueItem,
  SavedChat,
  SessionState,
  SessionSummary,
  UiMessage,
} from '../../../protocol/session-types.ts';
import { mustFitReply } from '../../contract/reply-size.ts';
import type { HistoryItem, QueuedPrompt, SessionRecord } from '../../contract/session-log.ts';
import { isPending } from '../log/open-session.ts';
import type { ChunkedList } from '../record/chunked-list.ts';
import type { FoldedSession } from '../record/folded.ts';
import { mayRefer, sentJson } from '../record/stored-image.ts';
import type { SessionRow } from '../store/store-catalogue.ts';
import type { ChatRow, ChatTurn } from '../store/store-chats.ts';
import { writeCursor } from './page-cursor.ts';

/**
 * Returns the state of a session, as 1.0.0 has it; with `newest`, at most that number of messages and no history. A copy: later
 * changes do not show in it. Fails with `too_large` for a whole state that no client reads.
 */
export function stateOf(session: FoldedSession, newest?: number): SessionState {
  const { record, messages } = session;
  if (newest !== undefined) return newestState(session, newest);
  mustFit(session);
  return { ...beforeMessages(record), messages: messages.items.filter(wasSent), ...afterMessages(session) };
}

/**
 * Returns the JSON of a whole {@link stateOf}. Messages that were not parsed since the session was loaded are sent as they are
 * stored.
 */
export function stateJson(session: FoldedSession): string {
  mustFit(session);
  const { record, messages } = session;
  const { texts } = messages;
  const list = texts?.some((text) => text.includes(UNSENT) || mayRefer(text)) === false ? joined(texts) : undefined;
  return sentJson(() => {
    const sent = list ?? JSON.stringify(messages.items.filter(wasSent));
    const [before, after] = [JSON.stringify(beforeMessages(record)), JSON.stringify(afterMessages(session))];
    return `${before.slice(0, -1)},"messages":${sent},${after.slice(1)}`;
  });
}

/** Characters that the messages of a bounded state have at most, and the prompts that wait. */
const STATE_CHARACTERS = 128 * 1024;
const QUEUE_CHARACTERS = 32 * 1024;

const ADVICE = 'ask for it with messages, such as 100, and for older ones with session.messages';

const mustFit = ({ messages, history, historyImages }: FoldedSession): void =>
  mustFitReply('the state of the session', messages.size + history.size + historyImages, ADVICE);

function newestState(session: FoldedSession, newest: number): SessionState {
  const { record, messages } = session;
  const most = Math.max(0, Math.floor(newest));
  const { items, from } = newestPage(messages, messages.length, { most, characters: STATE_CHARACTERS, least: 0 });
  const queue: QueueItem[] = [];
  let left = QUEUE_CHARACTERS;
  for (const prompt of record.queue) {
    left -= JSON.stringify(prompt).length;
    if (left < 0) break;
    queue.push(queueItem(prompt));
  }
  return {
    ...beforeMessages(record),
    messages: items.filter(wasSent),
    ...withoutHistory(record),
    queue,
    message_count: messages.length,
    messages_cursor: from > 0 ? messagesCursor(messages, from) : null,
    messages_after_seq: messagesAfterSeq(messages, from),
  };
}

/** Maximum length of a page of messages. */
export interface PageLimits {
  readonly most: number;
  readonly characters: number;
  /** At least this number of messages, even if they have more characters. */
  readonly least: 0 | 1;
}

/** Returns the last messages before `end`, oldest first, as far as they fit. `from`: index of the first. */
export function newestPage(
  messages: ChunkedList<UiMessage>,
  end: number,
  limits: PageLimits,
): { readonly items: readonly UiMessage[]; readonly from: number } {
  const items = firstOf(messages.backward(end), limits);
  return { items: items.reverse(), from: Math.min(end, messages.length) - items.length };
}

/** Returns the first messages, as far as they fit. */
export function firstOf(messages: Iterable<UiMessage>, { most, characters, least }: PageLimits): UiMessage[] {
  const items: UiMessage[] = [];
  if (most === 0) return items;
  let left = characters;
  for (const message of messages) {
    left -= charactersOf(message);
    if (left < 0 && items.length >= least) break;
    items.push(message);
    if (items.length === most) break;
  }
  return items;
}

/** Returns the approximate number of characters of a message's JSON. */
const charactersOf = ({ text, images = [] }: UiMessage): number =>
  images.reduce((all, { byteSize }) => all + byteSize * (4 / 3), text.length) + 100;

/** Returns the start of the messages before an index, for `session.messages` with the order `newest`. */
export const messagesCursor = (messages: ChunkedList<UiMessage>, from: number): string =>
  writeCursor([messages.at(from)?.id ?? Number.MAX_SAFE_INTEGER, from]);

/** Returns the number of the event behind which the messages from an index on were sent. */
export function messagesAfterSeq(messages: ChunkedList<UiMessage>, from: number): number {
  if (from === 0) return 0;
  // One that is not stored yet: the next events.
  return Math.max(0, messages.markAt(Math.min(from, messages.length - 1)) - 1);
}

/** True for a message that was sent, as 1.0.0 has it; `session.messages` has the prompts that no model was asked about, too. */
const wasSent = ({ unsent }: UiMessage): boolean => unsent !== true;

/** The stored mark of a message that was not sent. Inside of a text, quotes are escaped. */
const UNSENT = '"unsent":true';

/** Arrays as text, as one array. */
const joined = (arrays: readonly string[]): string => `[${arrays.map((array) => array.slice(1, -1)).join(',')}]`;

function beforeMessages(record: SessionRecord) {
  const { id, createdAt, updatedAt, statusLabel } = record;
  return { id, createdAt, updatedAt, pending: isPending(record), statusLabel };
}

const afterMessages = ({ record, history }: FoldedSession) => ({
  ...withoutHistory(record),
  history: chatMessages(history.items),
});

function withoutHistory(record: SessionRecord) {
  const { context } = record;
  return {
    history: [] as ChatMessage[],
    queue: record.queue.map(queueItem),
    pendingSteerCount: record.steers.length,
    conversationProvider: record.provider,
    activeSessionId: record.chatId,
    contextTokenEstimate: context.tokens,
    contextTokenSource: context.source,
    contextTokenProvider: context.provider,
    contextTokenBreakdown: context.breakdown,
    title: record.title,
    cwd: record.cwd,
    backend: record.backend,
    turnId: record.turn?.id ?? null,
    seq: record.seq,
    closed: record.phase === 'closed',
    settings: record.settings,
    usage: record.usage,
    approvals: record.approvals.filter(({ state, turn_id }) => state === 'pending' || turn_id === record.turn?.id),
  };
}

export function queueItem({ turnId, text, images, enqueuedAt }: QueuedPrompt): QueueItem {
  return { id: turnId, text, images, enqueuedAt };
}

/** Returns a history without its tools: of each turn the user's text, then the whole answer as one message, as 1.0.0 has it. */
export function chatMessages(history: readonly HistoryItem[]): ChatMessage[] {
  return [...turnsOf(history)].flatMap(({ items }) => messagesOfTurn(items));
}

/** Yields a history by its turns, in order, with the number of messages each has. */
export function* turnsOf(history: Iterable<HistoryItem>): Generator<ChatTurn> {
  let turn: { readonly turn: string; readonly items: HistoryItem[] } | undefined;
  const counted = (of: NonNullable<typeof turn>): ChatTurn => ({
    ...of,
    messageCount: messagesOfTurn(of.items).length,
  });
  for (const item of history) {
    // An item without a turn (a summary) stands alone.
    if (turn !== undefined && turn.turn === item.turn && item.turn !== '') turn.items.push(item);
    else {
      if (turn !== undefined) yield counted(turn);
      turn = { turn: item.turn, items: [item] };
    }
  }
  if (turn !== undefined) yield counted(turn);
}

function messagesOfTurn(items: readonly HistoryItem[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let answer: string | undefined;
  for (const item of items) {
    if (item.role === 'user' && item.unsent !== true) {
      const { text, images } = item;
      messages.push({ role: 'user', text, ...(images !== undefined && { images }) });
    } else if (item.role === 'assistant') answer = (answer ?? '') + item.text;
  }
  return answer === undefined || answer === '' ? messages : [...messages, { role: 'assistant', text: answer }];
}

/** Returns a row of `session.list`. */
export function summaryOf(row: SessionRow): SessionSummary {
  return {
    session_id: row.id,
    title: row.title,
    owner: row.owner,
    cwd: row.cwd,
    backend: row.backend,
    created_at: iso(row.createdAt),
    updated_at: iso(row.updatedAt),
    message_count: row.messageCount,
    pending: row.pending,
    closed: row.closed,
    queue_length: row.queueLength,
    approvals_pending: row.approvalsPending,
    parent_session_id: row.parent,
    ...(row.subagent !== null && { subagent_id: row.subagent }),
    seq: row.seq,
  };
}

const PATH_HEAD = 'chats/';

/** Returns the reference of a saved chat. It looks like a path, as in 1.0.0, and names no file. */
export const rolloutPathOf = (chatId: string): string => `${PATH_HEAD}${chatId}.jsonl`;

/** Returns the chat a path names that {@link rolloutPathOf} made; undefined for every other path. */
export function chatOfPath(path: string): string | undefined {
  return new RegExp(`^${PATH_HEAD}([\\w-]+)\\.jsonl$`).exec(path)?.[1];
}

/** Returns a saved chat as it is listed. */
export function savedChat(row: ChatRow): SavedChat {
  return {
    id: row.id,
    title: row.title,
    // The protocol has no value for an agent that does not name its model.
    provider: row.provider ?? 'compatible',
    model: row.model,
    thinkingLevel: row.thinking,
    ...(row.openRouterProvider !== undefined && { openRouterProvider: row.openRouterProvider }),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
    messageCount: row.messageCount,
    rolloutPath: rolloutPathOf(row.id),
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();
