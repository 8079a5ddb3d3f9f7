/**
 * The running turn as its backend sees it: turns the backend's output into events of the session. After the end of the turn
 * it ignores the output of an abandoned backend.
 *
 * @see docs/protocol/session-rpc.md#events
 */

import { orAborted } from '../../../base/race.ts';
import type { SessionEventPayloads, SessionEventType } from '../../../protocol/session-events.ts';
import type {
  Approval,
  Image,
  SessionSettings,
  ToolCall,
  ToolDone,
  UiMessage,
  Usage,
} from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ApprovalRequest, Approver } from '../../contract/approver.ts';
import type { Turn } from '../../contract/backend.ts';
import type { HistoryItem, SessionLog, SessionRecord } from '../../contract/session-log.ts';
import type { OpenSession } from '../log/open-session.ts';
import { addUsage } from '../record/usage.ts';
import { ThoughtTitle } from './thought-title.ts';

export const DRAFTING = 'drafting response...';
export const STEER_APPLIED = 'steer applied; continuing...';

export interface LiveTurnFacts {
  readonly id: string;
  readonly session: OpenSession;
  readonly principal: Principal;
  readonly settings: SessionSettings;
  readonly approver: Approver;
  /** True when a client wants debug steps. */
  readonly isDebugging: () => boolean;
}

export class LiveTurn implements Turn {
  readonly id: string;
  readonly log: SessionLog;
  /** The owner of the session, with its present rights. */
  principal: Principal;
  readonly settings: SessionSettings;
  readonly cwd: string;
  /** Set before the backend is run. */
  prompt: { readonly text: string; readonly images: readonly Image[] } = { text: '', images: [] };
  history: readonly HistoryItem[] = [];
  continued = false;
  readonly #session: OpenSession;
  readonly #approver: Approver;
  readonly #isDebugging: () => boolean;
  readonly #controller = new AbortController();
  #ended = false;
  /** The title of the current run of thoughts; undefined outside of one. */
  #thinking: ThoughtTitle | undefined;
  /** Gives the turn's slot to others while the user is asked. */
  whileAsking: (answer: Promise<Approval>) => Promise<Approval> = (answer) => answer;

  constructor({ id, session, principal, settings, approver, isDebugging }: LiveTurnFacts) {
    this.id = id;
    this.#session = session;
    this.principal = principal;
    this.settings = settings;
    this.cwd = session.record.cwd;
    this.#approver = approver;
    this.#isDebugging = isDebugging;
    this.log = new TurnLog(session, () => this.#ended);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Asks the backend to stop. */
  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Ignores further output of the backend and aborts the calls it waits for. */
  end(): void {
    this.abort(fail('cancelled', 'the turn has ended'));
    this.#ended = true;
  }

  /** Suspends the turn when the process ends: output from here on is ignored. */
  suspend(reason: Error): void {
    this.#ended = true;
    this.abort(reason);
  }

  thought(text: string): void {
    if (this.#ended || text === '') return;
    this.#thinking ??= new ThoughtTitle();
    const title = this.#thinking.add(text);
    if (title !== undefined) this.#label(`thinking: ${title}`);
    this.#emit('session.stream.chunk', {
      chunk: { thoughts: [text], answerText: '', segments: [{ kind: 'thought', text }] },
    });
  }

  answer(text: string): void {
    if (this.#ended || text === '') return;
    this.#thinking = undefined;
    this.#label(DRAFTING);
    this.#emit('session.stream.chunk', {
      chunk: { thoughts: [], answerText: text, segments: [{ kind: 'answer', text }] },
    });
  }

  status(label: string, detail?: Readonly<Record<string, unknown>>): void {
    if (this.#ended) return;
    if (detail === undefined) this.#label(label);
    else {
      // In the detail: this label has no member for a turn id in 1.0.0. Followers of the turn get it by this id.
      const ofTurn = { ...detail, turn_id: this.id };
      this.#session.emit('session.status', { pending: true, status_label: label, detail: ofTurn });
    }
  }

  toolStarted(round: number, call: ToolCall, facts: { toolKind?: string; risks?: readonly string[] } = {}): void {
    this.#thinking = undefined;
    const { toolKind: tool_kind, risks } = facts;
    this.#emit('session.tool.call.started', { data: { toolRound: round, call }, tool_kind, risks });
  }

  toolOutput(callId: string, stream: string, text: string): void {
    this.#emit('session.tool.output', { call_id: callId, stream, text });
  }

  toolDone(round: number, done: ToolDone, durationMs?: number): void {
    this.#emit('session.tool.call.completed', { data: { toolRound: round, executed: done }, duration_ms: durationMs });
  }

  toolResults(round: number, done: readonly ToolDone[]): void {
    this.#emit('session.tool.results', { data: { toolRound: round, executed: done } });
  }

  usage(used: Usage): void {
    if (this.#ended) return;
    const { running, record } = this.#session.folded;
    this.#emit('session.usage', {
      usage: running === null ? used : addUsage(running.usage, used),
      session_usage: addUsage(record.usage, used),
    });
  }

  takeSteers(): readonly string[] {
    if (this.#ended) return [];
    const { steers } = this.#session.record;
    if (steers.length === 0) return [];
    this.#emit('session.steer.injected', { steer_ids: steers.map(({ id }) => id) });
    for (const { text } of steers) {
      this.#session.appendMessage('user', text, this.id);
      this.#session.remember([{ role: 'user', turn: this.id, text }]);
    }
    this.#label(STEER_APPLIED);
    return steers.map(({ text }) => text);
  }

  async ask(request: ApprovalRequest, withdrawn?: AbortSignal): Promise<Approval> {
    try {
      const isOwn = withdrawn === undefined || withdrawn === this.signal;
      const signal = isOwn ? this.signal : AbortSignal.any([this.signal, withdrawn]);
      // The session itself, not the turn's log: the approver's state of a session outlives the turn.
      const approval = await this.whileAsking(this.#approver.ask(this.#session, this.id, request, signal));
      // Nothing acts on an answer that a crash could take back.
      if (approval.state === 'allowed') await orAborted(this.#session.flushed(), signal);
      return approval;
    } catch (thrown) {
      const { message } = asError(thrown);
      if (!this.#ended)
        this.#session.appendMessage(
          'system',
          `the question "${request.title}" could not be asked: ${message}`,
          this.id,
        );
      throw thrown;
    }
  }

  debug(stage: string, data: unknown): void {
    if (this.#isDebugging()) this.#emit('session.debug', { stage, data });
  }

  /** Shows a status. One that is shown already is not sent again. */
  #label(label: string): void {
    if (this.#session.record.statusLabel === label) return;
    this.#session.emit('session.status', { pending: true, status_label: label });
  }

  #emit<Type extends SessionEventType>(type: Type, payload: SessionEventPayloads[Type]): void {
    if (!this.#ended) this.#session.emit(type, payload, this.id);
  }
}

/** The session's log while a turn, or other work, lasts; afterwards it ignores writes. */
export class TurnLog implements SessionLog {
  readonly #session: OpenSession;
  readonly #hasEnded: () => boolean;

  constructor(session: OpenSession, hasEnded: () => boolean) {
    this.#session = session;
    this.#hasEnded = hasEnded;
  }

  get record(): SessionRecord {
    return this.#session.record;
  }

  emit<Type extends SessionEventType>(type: Type, payload: SessionEventPayloads[Type], turnId?: string): void {
    if (!this.#hasEnded()) this.#session.emit(type, payload, turnId);
  }

  remember(items: readonly HistoryItem[], mode?: 'append' | 'replace'): void {
    if (!this.#hasEnded()) this.#session.remember(items, mode);
  }

  appendMessage(kind: UiMessage['kind'], text: string, turnId?: string): UiMessage {
    return this.#hasEnded() ? { id: 0, kind, text } : this.#session.appendMessage(kind, text, turnId);
  }

  persistApproval(approval: Approval): Promise<void> | undefined {
    return this.#hasEnded() ? undefined : this.#session.persistApproval(approval);
  }

  flushed(): Promise<void> {
    return this.#session.flushed();
  }
}
