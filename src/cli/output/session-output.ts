/**
 * Events of a session as people read them: the answer as text on stdout, what the agent does meanwhile as short lines on
 * stderr. With `--json` each event is one line of stdout, as it came.
 *
 * Used by `chat`, `session send` and `session tail`.
 */
import type { ControlEvent, EventGap } from '../../control-client/control-event.ts';
import type { Approval, ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { questionOf, shortId } from './approval-text.ts';
import type { Terminal } from './terminal.ts';
import { failureOf, oneLine, subjectOf, summaryOf } from './tool-summary.ts';

/** A tool that took longer has its time shown, in milliseconds. */
const LONG_MS = 1000;

/** Why a turn ended that did not come to its end by itself. */
const endings: Readonly<Record<string, string>> = {
  max_tokens: 'the answer was cut: it reached the most tokens the model may say',
  max_rounds: 'stopped: round limit reached',
  refusal: 'the model refused',
  timeout: 'stopped: the time of the turn was over',
  interrupted: 'interrupted',
  cleared: 'dropped before it ran',
  closed: 'the session was closed',
  shutdown: 'the server stopped',
  restart: 'interrupted: the server was restarted',
};

export interface SessionOutputOptions {
  /** What users said is shown too: for those who did not say it. */
  readonly conversation?: boolean;
  /** Questions are asked by whoever shows this, so they are not told here. */
  readonly asking?: boolean;
}

export class SessionOutput {
  readonly #terminal: Terminal;
  readonly #options: SessionOutputOptions;
  /** What the last thing on stdout was: a line that has not ended, or one that was ended here. */
  #line: 'ended' | 'open' | 'broken' = 'ended';
  #thinking = false;
  /** The server has said in its own words what becomes of this turn. */
  #told = false;
  /** What each running call is about. */
  readonly #calls = new Map<string, string>();
  readonly #asked = new Set<string>();

  constructor(terminal: Terminal, options: SessionOutputOptions = {}) {
    this.#terminal = terminal;
    this.#options = options;
  }

  /** Ends a line that was begun. */
  settle(): void {
    if (this.#line !== 'open') return;
    this.#line = 'broken';
    this.#terminal.raw('\n');
  }

  /** A line about what happens. */
  note(text: string): void {
    this.settle();
    this.#endThought();
    this.#terminal.note(text);
  }

  show(event: ControlEvent | EventGap): void {
    if (this.#terminal.json) return this.#terminal.document(event);
    switch (event.type) {
      case 'gap':
        return this.note(`· events ${event.from} to ${event.to} are no longer stored`);
      case 'session.stream.chunk': {
        const { answerText, segments } = event.payload.chunk;
        for (const { kind, text } of segments ?? [{ kind: 'answer', text: answerText }]) {
          if (kind === 'answer') this.#answer(text);
          else this.#think(text);
        }
        return;
      }
      case 'session.message.appended': {
        const { kind, text } = event.payload.message;
        // A failure is told by the end of its turn.
        if (kind === 'system' && !text.startsWith('inference error: ')) {
          this.#told = true;
          this.note(`· ${text}`);
        }
        if (kind === 'user' && this.#options.conversation) this.note(`you: ${text}`);
        return;
      }
      case 'session.tool.call.started':
        return this.#called(event.payload.data.call);
      case 'session.tool.call.completed':
        return this.#done(event.payload.data.executed, event.payload.duration_ms);
      case 'session.status':
        // What passes by itself is not worth a line; waiting for a provider, or for another turn, is.
        if (event.payload.detail?.retry !== undefined || event.payload.status_label.startsWith('queued')) {
          this.note(`· ${event.payload.status_label}`);
        }
        return;
      case 'session.plan':
        for (const { content, status } of event.payload.entries) {
          this.note(`${status === 'completed' ? '[x]' : '[ ]'} ${content}`);
        }
        return;
      case 'approval.requested':
        return this.#asks(event.payload.approval);
      case 'approval.resolved':
        return this.#resolved(event.payload.approval);
      case 'session.steer.returned':
        for (const { text } of event.payload.steers) this.note(`· not applied: ${oneLine(text)}`);
        return;
      case 'session.completed':
      case 'session.interrupted':
        if (event.payload.stop_reason !== 'end_turn' && !this.#told) {
          this.note(`· ${endings[event.payload.stop_reason] ?? event.payload.stop_reason}`);
        }
        return this.#ended();
      case 'session.error':
        this.note(`✗ the turn failed: ${event.payload.message} [${event.payload.kind}]`);
        return this.#ended();
      default:
    }
  }

  #answer(text: string): void {
    // A line that was ended for a note in between is not ended twice.
    const rest = this.#line === 'broken' ? text.replace(/^\n/, '') : text;
    if (text !== '') this.#line = 'ended';
    if (rest === '') return;
    this.#endThought();
    this.#terminal.raw(rest);
    this.#line = rest.endsWith('\n') ? 'ended' : 'open';
  }

  /** Reasoning is about the answer, so it goes to stderr, and only where somebody watches. */
  #think(text: string): void {
    if (text === '' || !this.#terminal.watched) return;
    this.settle();
    this.#thinking = !text.endsWith('\n');
    this.#terminal.rawError(text);
  }

  #endThought(): void {
    if (!this.#thinking) return;
    this.#thinking = false;
    this.#terminal.rawError('\n');
  }

  /** A running tool is a line that passes; what came of it takes its place. */
  #called({ callId, name, input }: ToolCall): void {
    const subject = `${name} ${subjectOf(input)}`.trim();
    this.#calls.set(callId, subject);
    if (!this.#terminal.watched) return;
    this.settle();
    this.#endThought();
    this.#terminal.passing(`▸ ${subject}`);
  }

  #done({ callId = '', name, ok, input = {}, error, result }: ToolDone, durationMs = 0): void {
    const subject = this.#calls.get(callId) ?? `${name} ${subjectOf(input)}`.trim();
    this.#calls.delete(callId);
    const what = ok ? summaryOf(result) : failureOf(error, result);
    const time = durationMs >= LONG_MS ? ` (${(durationMs / 1000).toFixed(1)} s)` : '';
    this.note(`${ok ? '✓' : '✗'} ${subject}${what === '' ? '' : `: ${what}`}${time}`);
  }

  #asks(approval: Approval): void {
    this.#asked.add(approval.id);
    if (this.#options.asking) return;
    this.note(`? ${questionOf(approval)}; answer: handfast approve yes|no ${shortId(approval.id)}`);
  }

  /** What was never asked has its tool's line, which says as much. */
  #resolved({ id, title, state, answered_by: by }: Approval): void {
    if (!this.#asked.delete(id) || this.#options.asking) return;
    this.note(`· ${title}: ${state}${by === undefined ? '' : ` by ${by}`}`);
  }

  #ended(): void {
    this.settle();
    this.#endThought();
    this.#line = 'ended';
    this.#told = false;
    this.#calls.clear();
    this.#asked.clear();
  }
}
