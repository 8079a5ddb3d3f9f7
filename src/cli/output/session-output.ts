/**
 * Events of a session as people read them: the answer as text on stdout, the agent's activity meanwhile as short lines on
 * stderr. With `--json` each event is one line of stdout, as it came.
 */
import { UnsplitText } from '../../base/escape-controls.ts';
import type { ControlEvent, EventGap } from '../../control-client/control-event.ts';
import type { SessionEventPayloads } from '../../protocol/session-events.ts';
import type { Approval, ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { shortId } from '../short-id.ts';
import { questionOf } from './approval-text.ts';
import type { TerminalOutput } from './terminal.ts';
import { failureOf, oneLine, subjectOf, summaryOf } from './tool-summary.ts';

/** Duration in milliseconds above which a tool's time is shown. */
const LONG_MS = 1000;

/** Reasons of turns that ended early. */
const endings: Readonly<Record<string, string>> = {
  max_tokens: 'the reply was truncated: it reached the output token limit of the model',
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
  /** Prompts of users are shown too, for clients that did not send them. */
  readonly conversation?: boolean;
  /** The caller shows approvals and questions itself, so they are left out here. */
  readonly asking?: boolean;
}

/** The protocol fixes the words of the error, which do not say how a user of the command line selects one. */
const CHOOSE_A_MODEL =
  '· handfast model ls lists the models, handfast model use ID chooses one; handfast auth login PROVIDER stores a key';

export class SessionOutput {
  readonly #terminal: TerminalOutput;
  readonly #options: SessionOutputOptions;
  /** State of the last line on stdout: it has not ended, or it was ended here. */
  #line: 'ended' | 'open' | 'broken' = 'ended';
  #thinking = false;
  readonly #answerPieces = new UnsplitText();
  readonly #thoughtPieces = new UnsplitText();
  /** The server has explained the end of this turn in its own words. */
  #explained = false;
  /** Subject of each running call. */
  readonly #calls = new Map<string, string>();
  readonly #asked = new Set<string>();

  constructor(terminal: TerminalOutput, options: SessionOutputOptions = {}) {
    this.#terminal = terminal;
    this.#options = options;
  }

  /** Ends a line that was started. */
  settle(): void {
    this.#print(this.#answerPieces.end());
    if (this.#line !== 'open') return;
    this.#line = 'broken';
    this.#terminal.raw('\n');
  }

  /** Prints a line about an event. */
  note(text: string): void {
    this.settle();
    this.#endThought();
    this.#terminal.note(text);
  }

  show(event: ControlEvent | EventGap): void {
    if (this.#terminal.json) return this.#terminal.document(event);
    switch (event.type) {
      case 'gap':
        return this.note(`· ${gapText(event.from)}`);
      case 'session.stream.chunk': {
        const { answerText, segments } = event.payload.chunk;
        for (const { kind, text } of segments ?? [{ kind: 'answer', text: answerText }]) {
          if (kind === 'answer') this.#print(this.#answerPieces.push(text));
          else this.#think(text);
        }
        return;
      }
      case 'session.message.appended': {
        const { kind, text } = event.payload.message;
        // The end of the turn reports a failure.
        if (kind === 'system' && !text.startsWith('inference error: ')) {
          this.#explained = true;
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
        // A status that passes by itself is not worth a line; waiting for a provider, or for another turn, is.
        if (event.payload.detail?.retry !== undefined || event.payload.status_label.startsWith('queued')) {
          // An answer may continue behind it: on a pipe it stays one text.
          if (this.#terminal.watched) this.note(`· ${event.payload.status_label}`);
          else this.#terminal.note(`· ${event.payload.status_label}`);
        }
        return;
      case 'session.plan':
        for (const { content, status } of event.payload.entries) {
          this.note(`${status === 'completed' ? '[x]' : '[ ]'} ${content}`);
        }
        return;
      case 'session.work':
        return this.#worked(event.payload);
      case 'approval.requested':
        return this.#asks(event.payload.approval);
      case 'approval.resolved':
        return this.#resolved(event.payload.approval);
      case 'session.steer.returned':
        for (const { text } of event.payload.steers) this.note(`· not applied: ${oneLine(text)}`);
        return;
      case 'session.completed':
      case 'session.interrupted':
        if (event.payload.stop_reason !== 'end_turn' && !this.#explained) {
          this.note(`· ${endings[event.payload.stop_reason] ?? event.payload.stop_reason}`);
        }
        return this.#ended();
      case 'session.error':
        this.note(`✗ the turn failed: ${event.payload.message} [${event.payload.kind}]`);
        if (event.payload.kind === 'not_configured' && /\b(?:model|provider)\b/.test(event.payload.message))
          this.note(CHOOSE_A_MODEL);
        return this.#ended();
      default:
    }
  }

  /** Prints text of the answer. */
  #print(text: string): void {
    // A line that was ended for a note in between is not ended twice.
    const rest = this.#line === 'broken' ? text.replace(/^\n/, '') : text;
    if (text !== '') this.#line = 'ended';
    if (rest === '') return;
    this.#endThought();
    this.#terminal.raw(rest);
    this.#line = rest.endsWith('\n') ? 'ended' : 'open';
  }

  /** Prints reasoning: it is not the reply, so it goes to stderr, and only to a terminal. */
  #think(piece: string): void {
    if (piece === '' || !this.#terminal.watched) return;
    this.settle();
    const text = this.#thoughtPieces.push(piece);
    if (text === '') return;
    this.#thinking = !text.endsWith('\n');
    this.#terminal.rawError(text);
  }

  #endThought(): void {
    const rest = this.#thoughtPieces.end();
    if (rest !== '') this.#terminal.rawError(rest);
    if (!this.#thinking && rest === '') return;
    this.#thinking = false;
    this.#terminal.rawError('\n');
  }

  /** Shows a running tool as a temporary line; its result replaces it. */
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

  /**
   * Prints an event of a subagent or a chain of the session. Its progress is shown only to a user who watches; an end that a
   * call reports is in the line of the call.
   */
  #worked({ work, event, text = '', delivered }: SessionEventPayloads['session.work']): void {
    if (delivered === true || event === 'delivered') return;
    if (event !== 'ended' && !this.#terminal.watched) return;
    this.note(`· ${work.kind} ${work.name}: ${[event === 'ended' ? '' : event, oneLine(text)].join(' ').trim()}`);
  }

  #asks(approval: Approval): void {
    this.#asked.add(approval.id);
    if (this.#options.asking) return;
    this.note(`? ${questionOf(approval)}; answer: handfast approve yes|no ${shortId(approval.id)}`);
  }

  /** Prints the decision of an approval. A call decided without asking has only its tool's line, which shows the decision. */
  #resolved({ id, title, state, answered_by: by }: Approval): void {
    if (!this.#asked.delete(id) || this.#options.asking) return;
    this.note(`· ${title}: ${state}${by === undefined ? '' : ` by ${by}`}`);
  }

  #ended(): void {
    this.settle();
    this.#endThought();
    this.#line = 'ended';
    this.#explained = false;
    this.#calls.clear();
    this.#asked.clear();
  }
}

/** Returns the text of a gap for people. Its end is not named: after a crash it lies above every number that was used. */
const gapText = (from: number): string =>
  from === 1 ? 'the oldest events are no longer stored' : `events that may have followed #${from - 1} are not stored`;
