/**
 * Events of a session as people read them: the answer as text on stdout, what the agent does meanwhile as short lines on
 * stderr. With `--json` each event is one line of stdout, as it came.
 *
 * Used by `chat`, `session send` and `session tail`.
 */
import type { EventGap } from '../control-client/feed.ts';
import type { SessionEvent } from '../protocol/session-events.ts';
import type { Approval, ToolCall, ToolDone, UiMessage } from '../protocol/session-types.ts';
import type { Terminal } from './terminal.ts';

/** Longest input or result shown on one line, in characters. */
const LONGEST = 160;

export class SessionOutput {
  readonly #terminal: Terminal;
  /** True while the last thing written to stdout does not end its line. */
  #midLine = false;
  #thinking = false;
  /** True when what a user said is shown too: for those who did not say it. */
  readonly #conversation: boolean;

  constructor(terminal: Terminal, options: { readonly conversation: boolean }) {
    this.#terminal = terminal;
    this.#conversation = options.conversation;
  }

  /** Ends a line that was begun. */
  settle(): void {
    if (!this.#midLine) return;
    this.#midLine = false;
    this.#terminal.raw('\n');
  }

  show(event: SessionEvent | EventGap): void {
    if (this.#terminal.json) return this.#terminal.document(event);
    if (event.type === 'gap') {
      const { from_seq, to_seq } = event as EventGap;
      return this.#note(`events ${from_seq}–${to_seq} are no longer kept`);
    }
    const { type, payload } = event as SessionEvent;
    const handler = Object.hasOwn(handlers, type) ? handlers[type] : undefined;
    handler?.(payload as never, {
      note: (text) => this.#note(text),
      answer: (text) => this.#answer(text),
      think: (text) => this.#think(text),
      said: (text) => this.#conversation && this.#note(`you: ${text}`),
      settle: () => this.settle(),
    });
  }

  #note(text: string): void {
    this.settle();
    this.#thinking = false;
    this.#terminal.note(text);
  }

  #answer(text: string): void {
    if (text === '') return;
    if (this.#thinking) this.#note('');
    this.#terminal.raw(text);
    this.#midLine = !text.endsWith('\n');
  }

  /** Reasoning is about the answer, so it goes to stderr, and only where somebody watches. */
  #think(text: string): void {
    if (text === '' || !this.#terminal.watched) return;
    this.settle();
    this.#thinking = true;
    this.#terminal.rawError(text);
  }
}

interface Shown {
  note(text: string): void;
  answer(text: string): void;
  think(text: string): void;
  said(text: string): unknown;
  settle(): void;
}

const one = (value: unknown): string => {
  const text = (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).replaceAll(/\s+/g, ' ');
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
};

/** `path=README.md limit=10`, short. */
function argumentsOf(input: Readonly<Record<string, unknown>>): string {
  return one(
    Object.entries(input)
      .map(([name, value]) => `${name}=${one(value)}`)
      .join(' '),
  );
}

/** What each event says to people. Types that are not here say nothing. */
const handlers: Readonly<Record<string, (payload: never, shown: Shown) => void>> = {
  'session.stream.chunk': (
    { chunk }: { chunk: { answerText: string; segments?: readonly { kind: string; text: string }[] } },
    { answer, think },
  ) => {
    for (const { kind, text } of chunk.segments ?? [{ kind: 'answer', text: chunk.answerText }]) {
      if (kind === 'answer') answer(text);
      else think(text);
    }
  },
  'session.message.appended': ({ message }: { message: UiMessage }, { note, said }) => {
    if (message.kind === 'system') note(`· ${message.text}`);
    if (message.kind === 'user') said(message.text);
  },
  'session.tool.call.started': ({ data }: { data: { call: ToolCall } }, { note }) =>
    note(`▸ ${data.call.name} ${argumentsOf(data.call.input)}`),
  'session.tool.call.completed': ({ data }: { data: { executed: ToolDone } }, { note }) => {
    const { name, ok, error, result } = data.executed;
    note(ok ? `✓ ${name} ${one(summaryOf(result))}` : `✗ ${name}: ${one(error ?? summaryOf(result))}`);
  },
  'session.status': (
    { status_label, detail }: { status_label: string; detail?: Readonly<Record<string, unknown>> },
    { note },
  ) => {
    // What passes by itself is not worth a line; waiting for a provider is.
    if (detail?.retry !== undefined || status_label.startsWith('queued')) note(`· ${status_label}`);
  },
  'session.plan': ({ entries }: { entries: readonly { content: string; status: string }[] }, { note }) => {
    for (const { content, status } of entries) note(`${status === 'completed' ? '[x]' : '[ ]'} ${content}`);
  },
  'approval.requested': ({ approval }: { approval: Approval }, { note }) =>
    note(`? ${approval.title} (${approval.risks.join(', ') || approval.kind}; id ${approval.id})`),
  'approval.resolved': ({ approval }: { approval: Approval }, { note }) =>
    note(
      `· ${approval.title}: ${approval.state}${approval.answered_by === undefined ? '' : ` by ${approval.answered_by}`}`,
    ),
  'session.completed': (_: never, { settle }) => settle(),
  'session.interrupted': (_: never, { settle }) => settle(),
  'session.error': (_: never, { settle }) => settle(),
  'session.steer.returned': ({ steers }: { steers: readonly { text: string }[] }, { note }) => {
    for (const { text } of steers) note(`· not applied: ${one(text)}`);
  },
};

/** What is worth showing of a tool's result. */
function summaryOf(result: unknown): unknown {
  if (typeof result !== 'object' || result === null) return result;
  const { summary, text, output, content } = result as Record<string, unknown>;
  return summary ?? text ?? output ?? content ?? result;
}
