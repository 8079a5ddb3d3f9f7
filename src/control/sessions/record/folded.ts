/**
 * A session as the fold has it: the record that other parts read, and the state of the running turn for the engine alone.
 *
 * Only `fold.ts` makes and changes it; `open-session.ts` stores it in two parts, the head (small, written whole) and three
 * lists (long, written by chunks).
 */
import { hash } from 'node:crypto';
import {
  type Approval,
  type ImageReference,
  NO_USAGE,
  type StopReason,
  type ToolCall,
  type UiMessage,
  type Usage,
} from '../../../protocol/session-types.ts';
import type { HistoryItem, SessionRecord, TurnRow } from '../../contract/session-log.ts';
import { ChunkedList, type ListChange } from './chunked-list.ts';
import { placeOf } from './stored-image.ts';

/** The lists of a session, by the name they are stored under. */
export const LISTS = ['messages', 'history', 'turns'] as const;
export type ListName = (typeof LISTS)[number];

/**
 * Characters of JSON that a record has of each list: the newest ones. The history is more than any context holds; older items
 * are in the store alone.
 */
export const NEWEST: Readonly<Record<ListName, number>> = {
  messages: 256 * 1024,
  history: 8 * 1024 * 1024,
  turns: 256 * 1024,
};

/** The record while it is being changed. */
export type WritableRecord = {
  -readonly [Member in Exclude<keyof SessionRecord, ListName>]: SessionRecord[Member];
} & Pick<SessionRecord, ListName>;

/** A turn and where its messages end, for a fork that goes through it. */
export interface StoredTurn extends TurnRow {
  /** Digest of a prompt that is longer than its part in the row; see {@link digestOf}. */
  readonly digest?: string;
  /** Newest message of the session when the turn ended; absent until then, 0 = the session had none. */
  readonly lastMessageId?: number;
  /** The idempotency key of its prompt, and whether the reply said queued. */
  readonly sent?: { readonly key: string; readonly queued: boolean };
}

/** Maximum number of characters of the prompt in a row: the messages have all of it. */
export const ROW_PROMPT_CHARACTERS = 1024;

/** Tells a long prompt from others. */
export const digestOf = (prompt: string): string => hash('sha256', prompt, 'base64url');

/** State of the running turn besides the record. */
export interface RunningTurn {
  /** The prompt is in the history. */
  prompted: boolean;
  /** The answer as far as it has come. */
  answer: string;
  /** Number of its characters that the history has. */
  kept: number;
  /** Calls that were started and have no result. */
  calls: readonly { readonly round: number; readonly call: ToolCall }[];
  usage: Usage;
  /** Reason why the turn was stopped; null while it was not. */
  ending: StopReason | null;
}

export interface FoldedSession {
  /** Its lists have the newest items of the members below, read through accessors that are not enumerable. */
  readonly record: WritableRecord;
  readonly messages: ChunkedList<UiMessage>;
  readonly history: ChunkedList<HistoryItem>;
  readonly turns: ChunkedList<StoredTurn>;
  running: RunningTurn | null;
  /** Stored approvals that were not published yet. */
  asked: readonly Approval[];
  /** Number of turns of the saved chat when this session last wrote or read it. */
  chatLength: number;
  /** Characters of the images of its history that are stored apart: the size of the history does not have them. */
  historyImages: number;
}

/** The small part of a session, as it is stored. */
export interface Head {
  readonly record: Omit<SessionRecord, ListName>;
  readonly running: RunningTurn | null;
  /** Absent where nothing was asked. */
  readonly asked?: readonly Approval[];
  readonly chatLength: number;
  /** Absent where it is 0. */
  readonly historyImages?: number;
}

/** A whole session as one JSON value: written to the journal when entries before it were lost. */
export interface WholeSession {
  readonly head: Head;
  readonly messages: readonly UiMessage[];
  readonly history: readonly HistoryItem[];
  readonly turns: readonly StoredTurn[];
}

/** Makes a session of which nothing is known but its id. */
export function emptySession(id: string): FoldedSession {
  const record: Head['record'] = {
    id,
    owner: '',
    parent: null,
    subagent: null,
    createdAt: '',
    updatedAt: '',
    title: '',
    cwd: '/',
    backend: '',
    settings: {},
    phase: 'idle',
    statusLabel: 'ready',
    queue: [],
    turn: null,
    steers: [],
    approvals: [],
    work: [],
    plan: null,
    chatId: null,
    provider: null,
    usage: NO_USAGE,
    context: {
      tokens: 0,
      source: 'history',
      provider: null,
      breakdown: { pinned_tokens: 0, conversation_tokens: 0, tool_schema_tokens: 0, provider_overhead_tokens: 0 },
    },
    seq: 0,
  };
  return fromHead(
    { record, running: null, chatLength: 0 },
    { messages: new ChunkedList(), history: new ChunkedList(), turns: new ChunkedList() },
  );
}

/** Makes a session out of its two stored parts. */
export function fromHead(head: Head, lists: Pick<FoldedSession, ListName>): FoldedSession {
  const { record, running, asked = [], chatLength, historyImages = 0 } = head;
  const { messages, history, turns } = lists;
  // Not plain members: copying a record copies its small part, and a list is parsed when it is read. Snapshots of earlier
  // versions have none of these.
  const { work = [], plan = null, subagent = null } = record as Partial<WritableRecord>;
  const whole = Object.defineProperties({ ...record, work, plan, subagent } as WritableRecord, {
    messages: { get: () => messages.newest(NEWEST.messages) },
    history: { get: () => history.newest(NEWEST.history) },
    turns: { get: () => turns.newest(NEWEST.turns) },
  });
  return { record: whole, messages, history, turns, running, asked, chatLength, historyImages };
}

/** Returns the small part of a session. */
export function headOf({ record, running, asked, chatLength, historyImages }: FoldedSession): Head {
  return {
    record: { ...record },
    running,
    ...(asked.length > 0 && { asked }),
    chatLength,
    ...(historyImages > 0 && { historyImages }),
  };
}

/** Returns the approximate number of characters that it holds in memory: of its conversation, and the prompts that wait. */
export function sizeOf(session: FoldedSession): number {
  const { queue, steers, work } = session.record;
  let size = LISTS.reduce((all, list) => all + session[list].held, session.running?.answer.length ?? 0);
  for (const { text, images } of queue) size += images.reduce((all, image) => all + heldChars(image), text.length);
  for (const { text } of steers) size += text.length;
  for (const { result = '' } of work) size += result.length;
  return size;
}

/** Counts the characters of an image of a prompt that are in memory. */
const heldChars = (image: ImageReference): number => (placeOf(image) === undefined ? (image.data_url ?? '').length : 0);

/** Returns the changes of the lists that have to be stored. */
export function listChanges(session: FoldedSession): { readonly list: ListName; readonly change: ListChange }[] {
  return LISTS.flatMap((list) => {
    const change = session[list].change();
    return change === undefined ? [] : [{ list, change }];
  });
}

/** Returns the approximate number of characters of the JSON of a {@link wholeOf}. */
export const sizeOfWhole = ({ messages, history, turns, historyImages }: FoldedSession): number =>
  messages.size + history.size + turns.size + historyImages;

/** Returns the whole session as a value for JSON. Reads all of it. */
export function wholeOf(session: FoldedSession): WholeSession {
  const { messages, history, turns } = session;
  return { head: headOf(session), messages: messages.items, history: history.items, turns: turns.items };
}
