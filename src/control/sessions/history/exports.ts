/**
 * A session as lines of JSON, and a conversation out of such lines. The first line is a header, each further one is an entry
 * of the journal. Where the oldest entries were evicted, the session as it is now replaces them.
 *
 * @see docs/protocol/session-rpc.md#export
 */
import { nextTurn } from '../../../base/next-turn.ts';
import { Turns } from '../../../base/turns.ts';
import type { Journal } from '../../../journal/journal.ts';
import { MAX_TEXT_CHARS } from '../../../protocol/rpc-reader.ts';
import { type Image, NO_USAGE, type StopReason, type UiMessage } from '../../../protocol/session-types.ts';
import { MAX_VALUES, parseBounded } from '../../../wire/depth.ts';
import { fail } from '../../../wire/errors.ts';
import { isObject, membersOf } from '../../../wire/json.ts';
import { mustFitReply } from '../../contract/reply-size.ts';
import { type HistoryItem, LEFT_OUT_PARTS, type LeavesOut } from '../../contract/session-log.ts';
import { type OpenSession, streamOf } from '../log/open-session.ts';
import { cursorOf, isEventCursor, paramsOf, RESERVED, seqAt } from '../log/published.ts';
import { fold } from '../record/fold.ts';
import {
  emptySession,
  type FoldedSession,
  ROW_PROMPT_CHARACTERS,
  type StoredTurn,
  sizeOfWhole,
  wholeOf,
} from '../record/folded.ts';
import { mayRefer, type WithImages } from '../record/stored-image.ts';
import { isLong } from '../store/store-images.ts';
import { type Conversation, entryChars } from './forks.ts';
import { readWhole } from './long-replies.ts';

/** Names the format in its first line. */
export const EXPORT_FORMAT = 'handfast.session/1';

/** Entries read at a time. */
const READ_ENTRIES = 256;
/** Reading a longer line is the work of a turn of the event loop. */
const LONG_CHARACTERS = 1024 * 1024;
/** Characters of an item of an import, its long images left out: the journal writes each in one turn. */
const MAX_ITEM_CHARACTERS = 2 * 1024 * 1024;
/** Longest reason for which a part of a conversation is left out. */
const MAX_REASON_CHARACTERS = 400;
/** A page ends with the event that exceeds this many characters. */
const PAGE_CHARACTERS = 512 * 1024;

/** All exports together take no more of a turn than one. */
const exporting = new Turns();

export interface ExportPage {
  /** Each is a line, once it is JSON. */
  readonly entries: readonly object[];
  /** Start of the next page; null at the end. */
  readonly next: number | null;
}

/**
 * Returns a page of the lines of a session: the events above `after`, at most `limit`, each with the unsent entries behind it.
 */
export async function exportEntries(
  session: OpenSession,
  journal: Journal,
  after: number,
  limit: number,
): Promise<ExportPage> {
  const { record } = session;
  const entries: object[] = [];
  if (after === 0) {
    const { id, title, cwd, createdAt, seq } = record;
    entries.push({ format: EXPORT_FORMAT, session_id: id, title, cwd, created_at: createdAt, seq });
  }
  let cursor = cursorOf(after + 1) - 1;
  let events = 0;
  let characters = 0;
  let seq = after;
  for (;;) {
    while (exporting.over) await exporting.next();
    const page = await journal.read(streamOf(session.id), cursor, READ_ENTRIES, PAGE_CHARACTERS);
    for (const { cursor: at, ts, kind, body } of page.entries) {
      cursor = at;
      if (kind === RESERVED) continue;
      if (isEventCursor(at)) {
        if (events === limit || characters > PAGE_CHARACTERS) return { entries, next: seq };
        // The evicted entries cannot be exported, but their result can.
        if (events === 0 && after === 0 && seqAt(at) > 1) entries.push(await whole(session));
        events += 1;
        seq = seqAt(at);
      }
      const { payload, timestamp } = isEventCursor(at)
        ? paramsOf(body as string, session.images)
        : { payload: session.payloadOf(body as string), timestamp: new Date(ts).toISOString() };
      entries.push({ seq: seqAt(at), kind, timestamp, payload });
      // An entry with long images ends its page.
      characters += (body as string).length + (mayRefer(body as string) ? PAGE_CHARACTERS : 0);
    }
    if (page.entries.length === 0) break;
  }
  if (events === 0 && after === 0) entries.push(await whole(session));
  return { entries, next: null };
}

/** Fails with `too_large` for a session that is longer than a reply. */
async function whole({ record, folded }: OpenSession): Promise<object> {
  mustFitReply(
    'the session',
    sizeOfWhole(folded),
    'its oldest entries were removed, so it cannot be exported in pages',
  );
  await readWhole(folded);
  const { seq, updatedAt } = record;
  return { seq, kind: 'record.restored', timestamp: updatedAt, payload: wholeOf(folded) };
}

/** The session that an export describes. */
export interface Imported extends Conversation {
  readonly title: string;
  readonly cwd: string | undefined;
}

/**
 * Reads the lines of an export, a bounded number in each turn of the event loop. Nothing in them is trusted: a part that lacks
 * its required shape is left out. Rejects with `schema_violation` when they are no export, and with `too_large` for a line with
 * more than 131,072 values.
 */
export async function importLines(lines: readonly string[]): Promise<Imported> {
  let head: Record<string, unknown> | undefined;
  const session = emptySession('');
  let from = 0;
  const turns = new Turns();
  for (const [at, line] of lines.entries()) {
    while (turns.over) await turns.next();
    if (line.trim() === '') continue;
    const isLongLine = line.length > LONG_CHARACTERS;
    if (isLongLine) await new Promise<void>(nextTurn);
    const entry = read(line, at + 1);
    if (isLongLine) await new Promise<void>(nextTurn);
    if (head === undefined) {
      head = entry;
      if (head.format !== EXPORT_FORMAT) break;
      continue;
    }
    const { seq, kind, timestamp, payload } = entry;
    if (typeof seq !== 'number' || typeof kind !== 'string' || !isObject(payload))
      throw notAnExport(`line ${at + 1} is not an entry`);
    // A whole session stands for all up to its number.
    if (kind !== 'record.restored' && seq <= from) continue;
    if (kind === 'record.restored') from = seq;
    const taken = kind === 'record.restored' ? conversationIn(payload) : payload;
    fold(session, {
      kind,
      payload: taken,
      timestamp: typeof timestamp === 'string' ? timestamp : '',
      seq,
      size: line.length,
    });
  }
  if (head?.format !== EXPORT_FORMAT) throw notAnExport('the first line does not name the format');
  await new Promise<void>(nextTurn);
  const imported = cleaned(session, head);
  for (const item of [...imported.messages, ...imported.history]) {
    while (turns.over) await turns.next();
    mustFitEntry(item);
  }
  return imported;
}

/** Fails with `too_large` for an item that is too long for an entry. */
function mustFitEntry(item: UiMessage | HistoryItem): void {
  const bounds = { chars: MAX_ITEM_CHARACTERS, depth: MAX_DEPTH };
  if (entryChars(item as WithImages, isLong, bounds) !== 'chars') return;
  throw fail('too_large', `these lines have an item of more than ${MAX_ITEM_CHARACTERS} characters`, {
    limit: MAX_ITEM_CHARACTERS,
    unit: 'characters',
    field: 'lines',
  });
}

/** Returns the parts of a whole session that an import takes. */
function conversationIn({ head, messages, history, turns }: Record<string, unknown>): Record<string, unknown> {
  // A session without a head is left out.
  if (!isObject(head)) return {};
  const { title = '' } = membersOf(head.record);
  return { head: { record: { title }, running: null, chatLength: 0 }, messages, history, turns };
}

function read(line: string, number: number): Record<string, unknown> {
  try {
    const value = parseBounded(line, MAX_DEPTH, MAX_LINE_VALUES);
    if (isObject(value)) return value;
  } catch (thrown) {
    // One that is not JSON is reported below.
    if (!(thrown instanceof SyntaxError)) throw thrown;
  }
  throw notAnExport(`line ${number} is not a JSON object`);
}

/** Levels of a line: the levels of a message, and of the entry around one. */
const MAX_DEPTH = 128;
/** A line may be all of a session. */
const MAX_LINE_VALUES = 2 * MAX_VALUES;

const notAnExport = (why: string) =>
  fail('schema_violation', `these lines are not an export: ${why}`, { field: 'lines' });

function cleaned({ record }: FoldedSession, head: Readonly<Record<string, unknown>>): Imported {
  const title = typeof record.title === 'string' && record.title !== '' ? record.title : head.title;
  return {
    title: typeof title === 'string' ? title.slice(0, MAX_TEXT_CHARS) : '',
    cwd: typeof head.cwd === 'string' ? head.cwd : undefined,
    messages: record.messages.flatMap(messageOf),
    history: record.history.flatMap(itemOf),
    turns: record.turns.flatMap(turnOf),
  };
}

function messageOf(message: UiMessage): UiMessage[] {
  if (!isObject(message)) return [];
  const { id, kind, text, images, unsent } = message;
  if (!Number.isSafeInteger(id) || typeof text !== 'string' || !['user', 'assistant', 'system'].includes(kind))
    return [];
  return [{ id, kind, text, ...imagesOf(images), ...(unsent === true && { unsent: true }) }];
}

function itemOf(item: HistoryItem): HistoryItem[] {
  if (!isObject(item) || typeof item.turn !== 'string') return [];
  const { turn } = item;
  switch (item.role) {
    case 'user':
      if (typeof item.text !== 'string') return [];
      return [
        {
          role: 'user',
          turn,
          text: item.text,
          ...imagesOf(item.images),
          ...(item.unsent && { unsent: true }),
          ...leavesOutOf(item.leavesOut),
        },
      ];
    case 'assistant': {
      if (typeof item.text !== 'string') return [];
      const isCall = (call: unknown) =>
        isObject(call) && typeof call.callId === 'string' && typeof call.name === 'string' && isObject(call.input);
      const calls = Array.isArray(item.calls) ? item.calls.filter(isCall) : [];
      const reasoning = typeof item.reasoning === 'string' ? { reasoning: item.reasoning } : {};
      // The provider's data of the message was signed for another conversation.
      return [{ role: 'assistant', turn, text: item.text, ...reasoning, ...(calls.length > 0 && { calls }) }];
    }
    case 'tool': {
      const { callId, name, ok, result = null, error } = item;
      if (typeof callId !== 'string' || typeof name !== 'string' || typeof ok !== 'boolean') return [];
      return [{ role: 'tool', turn, callId, name, ok, result, ...(typeof error === 'string' && { error }) }];
    }
    default:
      return [];
  }
}

/** Reads the part that a provider refused: it refuses the part here as well. */
function leavesOutOf(given: unknown): { readonly leavesOut?: LeavesOut } {
  const { part, reason } = membersOf(given);
  const known = LEFT_OUT_PARTS.find((each) => each === part);
  return known === undefined || typeof reason !== 'string'
    ? {}
    : { leavesOut: { part: known, reason: reason.slice(0, MAX_REASON_CHARACTERS).toWellFormed() } };
}

function imagesOf(images: unknown): { readonly images?: readonly Image[] } {
  if (!Array.isArray(images)) return {};
  const isImage = (image: unknown): image is Image =>
    isObject(image) &&
    ['path', 'mimeType', 'dataUrl'].every((member) => typeof image[member] === 'string') &&
    typeof image.byteSize === 'number';
  const kept = images
    .filter(isImage)
    .map(({ path, mimeType, dataUrl, byteSize }) => ({ path, mimeType, dataUrl, byteSize }));
  return kept.length === 0 ? {} : { images: kept };
}

function turnOf(turn: StoredTurn): StoredTurn[] {
  if (!isObject(turn)) return [];
  const { turnId, prompt, startedAt, endedAt, stopReason, lastMessageId } = turn;
  if (typeof turnId !== 'string' || typeof prompt !== 'string' || typeof endedAt !== 'string') return [];
  return [
    {
      turnId,
      prompt: prompt.slice(0, ROW_PROMPT_CHARACTERS),
      startedAt: typeof startedAt === 'string' ? startedAt : null,
      endedAt,
      stopReason: typeof stopReason === 'string' ? (stopReason as StopReason) : null,
      usage: NO_USAGE,
      ...(Number.isSafeInteger(lastMessageId) && { lastMessageId }),
    },
  ];
}
