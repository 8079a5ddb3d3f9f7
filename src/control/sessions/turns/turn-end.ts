/**
 * The end of a turn: open calls are closed, the answer and the outcome are appended, the chat is saved, and the one
 * terminal event is sent, then `ready`. Also the end of prompts that never ran.
 *
 * It ends turns of this process and of one that was killed alike: all it needs is in the session.
 * @see docs/protocol/session-rpc.md#turns
 */
import type { TurnEnd } from '../../../protocol/session-events.ts';
import { NO_USAGE, type StopReason } from '../../../protocol/session-types.ts';
import { asError } from '../../../wire/errors.ts';
import { failedCall } from '../../rounds/failed-call.ts';
import { itemsOfTurn } from '../history/chats.ts';
import type { OpenSession } from '../log/open-session.ts';
import type { RunningTurn } from '../record/folded.ts';
import type { TurnResult } from './turn-run.ts';

/** The text that stands for an empty answer. */
const NO_TEXT = '(No response text returned)';

/** The result of a call that has none. */
const OPEN_CALL = 'interrupted; it may or may not have taken effect';

/** The message for a turn that was stopped. */
const ENDINGS: Partial<Record<StopReason, string>> = {
  interrupted: 'response interrupted by user.',
  timeout: 'response interrupted by its time limit.',
  cleared: 'response interrupted: the session was cleared.',
  closed: 'response interrupted: the session was closed.',
  shutdown: 'response interrupted: the server is ending.',
  restart: 'response interrupted by a restart of the server.',
};

export interface TurnEndDeps {
  /** Saves the turn to the session's chat. Throws when that failed. */
  readonly saveChat: (session: OpenSession, turnId: string) => void;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Ends the running turn of a session. */
export function endTurn(session: OpenSession, result: TurnResult, parts: TurnEndDeps): void {
  const { record, folded } = session;
  const { turn } = record;
  const { running } = folded;
  if (turn === null || running === null) return;
  const failedEarly = result.kind === 'failed' && !result.asked;
  if (!running.prompted) appendPrompt(session, turn.id, turn.text, failedEarly);
  closeCalls(session, turn.id, running);
  closeHistory(session, turn.id);
  const hasAnswer = running.answer !== '';
  if (result.kind === 'completed' || hasAnswer) appendAnswer(session, turn.id, running);
  if (result.kind === 'interrupted') {
    const text = ENDINGS[result.stopReason] ?? 'response interrupted.';
    session.appendMessage('system', hasAnswer ? `${text} partial output kept.` : text, turn.id);
  } else if (result.kind === 'failed') {
    const { code, message } = result.error;
    session.appendMessage('system', code === 'not_configured' ? message : `inference error: ${message}`, turn.id);
  }
  if (!failedEarly) saveChat(session, turn.id, parts);
  const end = {
    usage: running.usage,
    duration_ms: Math.max(0, parts.now() - Date.parse(turn.startedAt)),
  };
  emitEnd(session, turn.id, result, end, running);
  const stop_reason = result.kind === 'failed' ? 'error' : result.stopReason;
  session.emit('session.status', {
    pending: false,
    status_label: 'ready',
    // Not as a separate member: this label has no turn id in 1.0.0, and clients may rely on that.
    detail: { turn_id: turn.id, stop_reason },
  });
}

/** Ends a prompt that never ran. */
export function dropPrompt(session: OpenSession, turnId: string, stop_reason: StopReason): void {
  session.emit('session.interrupted', { partial_output: false, stop_reason, usage: NO_USAGE, duration_ms: 0 }, turnId);
}

function emitEnd(
  session: OpenSession,
  turnId: string,
  result: TurnResult,
  end: Pick<TurnEnd, 'usage' | 'duration_ms'>,
  { answer }: RunningTurn,
): void {
  switch (result.kind) {
    case 'completed': {
      const { stopReason: stop_reason } = result;
      session.emit('session.completed', { answer_length: (answer || NO_TEXT).length, stop_reason, ...end }, turnId);
      return;
    }
    case 'interrupted': {
      const { stopReason: stop_reason } = result;
      session.emit('session.interrupted', { partial_output: answer !== '', stop_reason, ...end }, turnId);
      return;
    }
    case 'failed': {
      const { message, code: kind, retryable, detail } = result.error;
      const reason = kind === 'provider_error' && typeof detail.reason === 'string' ? { reason: detail.reason } : {};
      session.emit('session.error', { message, kind, retryable, ...reason, stop_reason: 'error', ...end }, turnId);
    }
  }
}

/** Appends the prompt of a turn that ended before its model was asked. */
function appendPrompt(session: OpenSession, turnId: string, text: string, unsent: boolean): void {
  if (text === '') return;
  session.appendMessage('user', text, turnId, unsent ? { unsent } : {});
  session.remember([{ role: 'user', turn: turnId, text, ...(unsent && { unsent }) }]);
}

/** Completes calls without a result: their backend was abandoned, or its process killed. */
function closeCalls(session: OpenSession, turnId: string, { calls }: RunningTurn): void {
  for (const { round, call } of calls) {
    const executed = failedCall(call, 'interrupted', OPEN_CALL);
    session.emit('session.tool.call.completed', { data: { toolRound: round, executed } }, turnId);
  }
}

/** Appends the answer, and adds to the history the part that the backend has not added. */
function appendAnswer(session: OpenSession, turnId: string, running: RunningTurn): void {
  const text = running.answer || NO_TEXT;
  const rest = running.answer === '' ? NO_TEXT : running.answer.slice(running.kept);
  session.appendMessage('assistant', text, turnId);
  if (rest !== '') session.remember([{ role: 'assistant', turn: turnId, text: rest }]);
}

/** Gives every call of the history a result: providers refuse a conversation in which one is missing. */
function closeHistory(session: OpenSession, turnId: string): void {
  const items = itemsOfTurn(session.folded.history, turnId);
  const done = new Set(items.flatMap((item) => (item.role === 'tool' ? [item.callId] : [])));
  const open = items.flatMap((item) => (item.role === 'assistant' ? (item.calls ?? []) : []));
  const missing = open.filter(({ callId }) => !done.has(callId));
  session.remember(
    missing.map(({ callId, name }) => ({
      role: 'tool',
      turn: turnId,
      callId,
      name,
      ok: false,
      result: null,
      error: OPEN_CALL,
    })),
  );
}

function saveChat(session: OpenSession, turnId: string, { saveChat: save }: TurnEndDeps): void {
  try {
    save(session, turnId);
  } catch (thrown) {
    session.appendMessage('system', `chat history save failed: ${asError(thrown).message}`, turnId);
  }
}
