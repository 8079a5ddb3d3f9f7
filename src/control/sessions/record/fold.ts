/**
 * The one reducer: applies a journal entry to a session. Live events and stored ones go through the same functions, so a
 * session that was read back equals the one before.
 *
 * It reads no clock. It changes the given session in place, because appending to a long list must not copy it. A fold never
 * throws, for any content of an entry.
 */
import type {
  Approval,
  ContextBreakdown,
  Provider,
  SessionSettings,
  StopReason,
  ToolCall,
  ToolDone,
  UiMessage,
  Usage,
} from '../../../protocol/session-types.ts';
import { NO_USAGE } from '../../../protocol/session-types.ts';
import type { HistoryItem, PlanEntry, QueuedPrompt, SessionWork, Steer } from '../../contract/session-log.ts';
import {
  digestOf,
  type FoldedSession,
  LISTS,
  type ListName,
  ROW_PROMPT_CHARACTERS,
  type StoredTurn,
  type WholeSession,
} from './folded.ts';
import { storedChars } from './stored-image.ts';

/** Entries that are journaled and never sent, with their payloads. */
export interface InternalPayloads {
  'history.append': { readonly items: readonly HistoryItem[] };
  'history.replace': { readonly items: readonly HistoryItem[] };
  'messages.replace': { readonly messages: readonly UiMessage[] };
  /** More messages of a conversation that is copied. */
  'messages.append': { readonly messages: readonly UiMessage[] };
  'turns.append': { readonly turns: FoldedSession['record']['turns'] };
  'turns.replace': { readonly turns: FoldedSession['record']['turns'] };
  'steer.added': { readonly steer: Steer };
  /** The prompt was refused: its idempotency key may be used again. */
  'prompt.refused': { readonly turn_id: string };
  /** An approval, stored before `approval.requested` publishes it. */
  'approval.asked': { readonly approval: Approval };
  /** The saved chat it writes to from now on; `length` in turns. */
  'chat.attached': { readonly chat_id: string | null; readonly length: number };
  'provider.used': { readonly provider: Provider };
  'backend.chosen': { readonly backend: string };
  'session.reopened': Readonly<Record<string, never>>;
  /** Replaces all earlier entries, because some of them could not be written. */
  'record.restored': WholeSession;
}

export type InternalKind = keyof InternalPayloads;

/** A journal entry, read. */
export interface FoldEntry {
  /** Type of the event, or an {@link InternalKind}. */
  readonly kind: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly timestamp: string;
  /** Sequence number of the newest event, this one included. */
  readonly seq: number;
  /** Approximate number of characters of its JSON. */
  readonly size: number;
}

type Step = (session: FoldedSession, payload: never, entry: FoldEntry) => void;

/** Maximum number of remembered answers of earlier turns in a record. */
const KEPT_ANSWERS = 256;

/** Events that change the state of a session's work; others only report its progress. */
const WORK_CHANGES: ReadonlySet<string> = new Set(['started', 'ended', 'delivered']);
/** A turn that changes is one of the newest. */
const NEWEST_TURNS = 4096;
/** Maximum number of pieces of work in a record. */
const KEPT_WORK = 64;

/** Applies an entry to a session. */
export function fold(session: FoldedSession, entry: FoldEntry): void {
  const { record } = session;
  const step = Object.hasOwn(STEPS, entry.kind) ? STEPS[entry.kind] : undefined;
  try {
    step?.(session, entry.payload as never, entry);
  } catch {
    // An entry of a foreign or damaged log: the part of the state that it names stays unchanged.
  }
  if (entry.seq > record.seq) record.seq = entry.seq;
  if (entry.timestamp !== '') record.updatedAt = entry.timestamp;
}

/** True for the status of a queued prompt: it is an event, but not the state of the session. */
export const isQueuedLabel = (label: string): boolean => /^queued \(\d+\)$/.test(label);

const STEPS: Readonly<Record<string, Step>> = {
  'session.created'({ record }, payload: Record<string, never>, { timestamp }) {
    const {
      owner = '',
      cwd = '/',
      backend = '',
      title = '',
      settings = {},
      parent_session_id: parent = null,
      subagent_id: subagent = null,
    } = payload;
    Object.assign(record, { owner, cwd, backend, title, settings, parent, subagent, createdAt: timestamp });
  },

  'session.status'(session, { pending, status_label }: { pending: boolean; status_label: string }, { payload }) {
    const { record, running } = session;
    if (record.phase === 'closed' || isQueuedLabel(status_label)) return;
    record.statusLabel = status_label;
    if (!pending) record.phase = 'idle';
    else if (record.phase === 'idle') record.phase = 'running';
    const { stop_reason: ending } = (payload.detail ?? {}) as { stop_reason?: StopReason };
    if (ending === undefined || !pending || record.phase !== 'running') return;
    record.phase = 'interrupting';
    if (running !== null) running.ending = ending;
  },

  'session.turn.queued'(session, payload: QueuedPayload) {
    const { record, turns } = session;
    const prompt: QueuedPrompt = {
      turnId: payload.turn_id,
      text: payload.text,
      images: payload.images,
      enqueuedAt: payload.enqueued_at,
    };
    const at = payload.position ?? record.queue.length;
    record.queue = record.queue.toSpliced(at, 0, prompt);
    // A late steer becomes a prompt.
    record.steers = record.steers.filter(({ id }) => id !== prompt.turnId);
    const { turnId, text } = prompt;
    const row = { turnId, ...promptOf(text), startedAt: null, endedAt: null, stopReason: null, usage: NO_USAGE };
    turns.push({ ...row, ...sentAs(payload.idempotency_key, true) }, row.prompt.length + 300);
  },

  'session.turn.started'(session, { turn_id: id, text, started_at, idempotency_key: key }: StartedPayload) {
    const { record, turns } = session;
    const at = record.queue.some(({ turnId }) => turnId === id) ? rowOf(session, id) : -1;
    record.queue = record.queue.filter(({ turnId }) => turnId !== id);
    record.turn = { id, text, startedAt: started_at };
    record.phase = 'running';
    session.running = { prompted: false, answer: '', kept: 0, calls: [], usage: NO_USAGE, ending: null };
    if (at !== -1) turns.set(at, { ...turns.at(at)!, startedAt: started_at });
    else {
      const times = { startedAt: started_at, endedAt: null, stopReason: null };
      const row = { turnId: id, ...promptOf(text), ...times, usage: NO_USAGE };
      turns.push({ ...row, ...sentAs(key, false) }, row.prompt.length + 300);
    }
  },

  'session.message.appended'({ messages }, { message }: { message: UiMessage }, { size, seq }) {
    messages.push(message, size, seq);
  },

  'session.stream.chunk'({ running }, { chunk }: { chunk: { answerText: string } }) {
    if (running !== null) running.answer += chunk.answerText;
  },

  'session.tool.call.started'({ running }, { data }: { data: { toolRound: number; call: ToolCall } }) {
    if (running !== null) running.calls = [...running.calls, { round: data.toolRound, call: data.call }];
  },

  'session.tool.call.completed'({ running }, { data: { executed } }: { data: { executed: ToolDone } }) {
    if (running === null) return;
    const { callId, name } = executed;
    const at = running.calls.findIndex(({ call }) =>
      callId === undefined ? call.name === name : call.callId === callId,
    );
    if (at !== -1) running.calls = running.calls.toSpliced(at, 1);
  },

  'session.completed': endTurn,
  'session.interrupted': endTurn,
  'session.error': endTurn,

  'session.context.estimate'({ record }, payload: EstimatePayload) {
    const { provider, source, total_tokens_estimate: tokens, breakdown } = payload;
    record.context = { tokens, source, provider, breakdown };
  },

  'session.usage'({ record, running }, payload: { usage: Usage; session_usage: Usage }) {
    record.usage = payload.session_usage;
    if (running !== null) running.usage = payload.usage;
  },

  'session.steer.injected'({ record }, { steer_ids: ids }: { steer_ids: readonly string[] }) {
    record.steers = record.steers.filter(({ id }) => !ids.includes(id));
  },

  'session.steer.returned'({ record }, { steers }: { steers: readonly { id: string }[] }) {
    record.steers = record.steers.filter(({ id }) => !steers.some((returned) => returned.id === id));
  },

  'session.plan'({ record }, { entries, elsewhere = false }: { entries: readonly PlanEntry[]; elsewhere?: boolean }) {
    record.plan = { entries, elsewhere };
  },

  'session.work'({ record }, { work, event, delivered }: { work: SessionWork; event: string; delivered?: boolean }) {
    if (!WORK_CHANGES.has(event)) return;
    const others = record.work.filter(({ id }) => id !== work.id);
    const isOver = event === 'delivered' || delivered === true;
    record.work = isOver ? others : [...others, work].slice(-KEPT_WORK);
  },

  'session.renamed'({ record }, { title }: { title: string }) {
    record.title = title;
  },

  'session.configured'({ record }, { settings }: { settings: SessionSettings }) {
    record.settings = settings;
  },

  'session.cleared'(session) {
    const { record } = session;
    replace(session, 'messages', [], 0);
    replace(session, 'history', [], 0);
    session.historyImages = 0;
    Object.assign(record, { chatId: null, provider: null, steers: [], work: [], plan: null });
    session.chatLength = 0;
    record.context = {
      ...record.context,
      tokens: record.context.breakdown.pinned_tokens,
      source: 'history',
      breakdown: { ...record.context.breakdown, conversation_tokens: 0 },
    };
  },

  'session.closed'(session) {
    Object.assign(session.record, { phase: 'closed', statusLabel: 'closed', turn: null, work: [] });
    session.running = null;
  },

  'approval.asked'(session, { approval }: InternalPayloads['approval.asked']) {
    session.asked = [...session.asked.filter(({ id }) => id !== approval.id), approval];
  },

  'approval.requested'(session, { approval }: { approval: Approval }) {
    const { record } = session;
    session.asked = session.asked.filter(({ id }) => id !== approval.id);
    record.approvals = [...record.approvals.filter(({ id }) => id !== approval.id), approval];
  },

  'approval.resolved'(session, { approval }: { approval: Approval }) {
    const { record } = session;
    session.asked = session.asked.filter(({ id }) => id !== approval.id);
    const known = record.approvals.some(({ id }) => id === approval.id);
    record.approvals = known
      ? record.approvals.map((one) => (one.id === approval.id ? approval : one))
      : [...record.approvals, approval];
    dropAnswers(record, record.turn?.id);
  },

  'history.append'(session, { items }: InternalPayloads['history.append'], { size }) {
    const { record, running, history } = session;
    session.historyImages += imagesIn(items);
    for (const item of items) {
      history.push(item, size / items.length);
      if (running === null || item.turn !== record.turn?.id) continue;
      if (item.role === 'user') running.prompted = true;
      // A backend streams first and remembers then: it remembers the whole answer that has come so far.
      if (item.role === 'assistant') running.kept = running.answer.length;
    }
  },

  'history.replace'(session, { items }: InternalPayloads['history.replace'], { size }) {
    replace(session, 'history', items, size);
    session.historyImages = imagesIn(items);
  },

  'messages.replace'(session, { messages }: InternalPayloads['messages.replace'], { size }) {
    replace(session, 'messages', messages, size);
  },

  'messages.append'({ messages }, { messages: more }: InternalPayloads['messages.append'], { size, seq }) {
    for (const message of more) messages.push(message, size / more.length + storedChars(message.images), seq);
  },

  'turns.append'({ turns }, { turns: more }: InternalPayloads['turns.append'], { size }) {
    for (const turn of more) turns.push(turn, size / more.length);
  },

  'turns.replace'(session, { turns }: InternalPayloads['turns.replace'], { size }) {
    replace(session, 'turns', turns, size);
  },

  'steer.added'({ record }, { steer }: InternalPayloads['steer.added']) {
    record.steers = [...record.steers, steer];
  },

  'prompt.refused'(session, { turn_id: id }: InternalPayloads['prompt.refused']) {
    const at = rowOf(session, id);
    if (at === -1) return;
    const { sent: _sent, ...row } = session.turns.at(at)!;
    session.turns.set(at, row);
  },

  'chat.attached'(session, { chat_id, length }: InternalPayloads['chat.attached']) {
    session.record.chatId = chat_id;
    session.chatLength = length;
  },

  'provider.used'({ record }, { provider }: InternalPayloads['provider.used']) {
    record.provider = provider;
  },

  'backend.chosen'({ record }, { backend }: InternalPayloads['backend.chosen']) {
    record.backend = backend;
  },

  'session.reopened'({ record }) {
    if (record.phase === 'closed') Object.assign(record, { phase: 'idle', statusLabel: 'ready' });
  },

  'record.restored'(session, whole: WholeSession, { size }) {
    const { id } = session.record;
    const { record, running, asked = [], chatLength, historyImages = 0 } = whole.head;
    // The lists of the session are changed in place, the parts of its head are not.
    Object.assign(session.record, record, { id });
    Object.assign(session, { running: running && { ...running }, asked, chatLength, historyImages });
    const items = LISTS.reduce((all, list) => all + whole[list].length, 0);
    for (const list of LISTS) replace(session, list, whole[list], (size * whole[list].length) / Math.max(1, items));
  },
};

interface QueuedPayload {
  readonly turn_id: string;
  readonly text: string;
  readonly images: QueuedPrompt['images'];
  readonly enqueued_at: string;
  readonly position?: number;
  readonly idempotency_key?: string;
}

interface StartedPayload {
  readonly turn_id: string;
  readonly text: string;
  readonly started_at: string;
  readonly idempotency_key?: string;
}

interface EstimatePayload {
  readonly provider: Provider | null;
  readonly source: 'compaction' | 'history' | 'provider';
  readonly total_tokens_estimate: number;
  readonly breakdown: ContextBreakdown;
}

/** Returns the way a turn's prompt was sent, for its row. */
function sentAs(key: string | undefined, queued: boolean): Pick<StoredTurn, 'sent'> {
  return key === undefined ? {} : { sent: { key, queued } };
}

/** Applies a terminal event: of the running turn, or of a prompt that never ran. */
function endTurn(
  session: FoldedSession,
  { turn_id: id, stop_reason: stopReason, usage }: { turn_id: string; stop_reason: StopReason; usage: Usage },
  { timestamp }: FoldEntry,
): void {
  const { record, turns, messages } = session;
  if (record.turn?.id === id) {
    record.turn = null;
    session.running = null;
    if (record.phase !== 'closed') record.phase = 'idle';
    dropAnswers(record, undefined);
  } else record.queue = record.queue.filter(({ turnId }) => turnId !== id);
  const at = rowOf(session, id);
  if (at === -1) return;
  const lastMessageId = messages.last?.id ?? 0;
  turns.set(at, { ...turns.at(at)!, endedAt: timestamp, stopReason, usage, lastMessageId });
}

/** Returns index of a turn; they end near the end of the list. */
function rowOf({ turns }: FoldedSession, id: string): number {
  return turns.findLastIndex(({ turnId }) => turnId === id, NEWEST_TURNS);
}

/** Returns the prompt of a row: its beginning, and of a long one the digest. */
function promptOf(text: string): Pick<StoredTurn, 'prompt' | 'digest'> {
  if (text.length <= ROW_PROMPT_CHARACTERS) return { prompt: text };
  return { prompt: text.slice(0, ROW_PROMPT_CHARACTERS).toWellFormed(), digest: digestOf(text) };
}

/** Drops approvals of other turns, except remembered answers. */
function dropAnswers(record: FoldedSession['record'], turn: string | undefined): void {
  const isHere = ({ state, turn_id }: Approval) => state === 'pending' || turn_id === turn;
  const lasting = record.approvals.filter(
    (one) => !isHere(one) && one.answer !== undefined && one.answer.remember !== 'once',
  );
  record.approvals = [...lasting.slice(-KEPT_ANSWERS), ...record.approvals.filter(isHere)];
}

/** Counts the characters of the stored images of items of a history. */
const imagesIn = (items: readonly (HistoryItem | UiMessage)[]): number =>
  items.reduce((all, item) => all + ('images' in item ? storedChars(item.images) : 0), 0);

/** Sizes of messages have their stored images, which clients get with them. */
function replace(session: FoldedSession, list: ListName, items: readonly unknown[], size: number): void {
  const images = list === 'messages' ? imagesIn(items as readonly UiMessage[]) : 0;
  session[list].replace(items as never, size + images, session.record.seq);
}
