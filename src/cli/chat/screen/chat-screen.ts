/**
 * The screen of `handfast chat`: the conversation above, which scrolls away as text of the terminal, and below it, apart from
 * the stream, the text being written, the messages that wait, the input and a row about the session.
 *
 * For a user at a terminal. Rule: SECURITY.md#threat-model, terminals: text of models, tools and servers is escaped here,
 * before any style is added.
 */
import { escapeControls } from '../../../base/escape-controls.ts';
import type { ControlEvent, EventGap } from '../../../control-client/control-event.ts';
import { isTerminal } from '../../../control-client/turn.ts';
import type { Approval, SessionState, ToolDone } from '../../../protocol/session-types.ts';
import { promptFor, questionOf } from '../../output/approval-text.ts';
import type { TerminalOutput } from '../../output/terminal.ts';
import { leadOf } from '../../output/tones.ts';
import { amount, oneLine } from '../../output/tool-summary.ts';
import type { ChatAsker } from '../chat-place.ts';
import { AnswerText, type OpenText, ThoughtText } from './answer-text.ts';
import { changeOf, outputOf } from './call-text.ts';
import { type CommandRow, Completions } from './completions.ts';
import { boundedLines, type FoldedText, FoldedTexts } from './folded-texts.ts';
import { type Frame, LiveArea } from './live-area.ts';
import { ProjectFiles } from './project-files.ts';
import { type ChatPrompt, type Choice, ChoicePrompt, SecretPrompt } from './prompts.ts';
import { SessionFacts } from './session-facts.ts';
import { type Theme, theme, unstyled } from './theme.ts';
import {
  InputEditor,
  isEscape,
  isKeyRelease,
  matchesKey,
  ProcessTerminal,
  truncateToWidth,
  visibleWidth,
  wrapTextWithAnsi,
} from './widgets.ts';

/** Waiting messages that are shown, and rows left for the text that is being written, at least. */
const SHOWN_WAITING = 3;
const MIN_TAIL_ROWS = 3;
/** Narrowest width text is fitted into. */
const NARROWEST = 20;
const SECOND_MS = 1000;
/** Lines of an output, and of a change, that are shown of a longer one. */
const OUTPUT_LINES = 3;
const CHANGE_LINES = 30;
const UNFOLD = 'Ctrl-O shows all';
const PROMPT = '› ';
const MARGIN = '  │ ';

/** Actions of the user. */
export interface ChatHandlers {
  /** Called when a line, or several, were entered. */
  submit(text: string): void;
  /** Called for Esc: stops the running turn, nothing else. */
  stopTurn(): void;
  /** Called for Ctrl-C, with nothing typed that it could clear. */
  interrupt(): void;
  /** Called for Ctrl-D on an empty input, or when the terminal was closed. */
  leave(): void;
}

export class ChatScreen implements TerminalOutput, ChatAsker {
  readonly json = false;
  readonly watched = true;
  readonly facts = new SessionFacts();
  readonly #theme = theme;
  readonly #terminal = new ProcessTerminal();
  readonly #area: LiveArea;
  readonly #editor: InputEditor;
  readonly #completions = new Completions();
  #handlers: ChatHandlers | undefined;
  /** The text that the agent is writing. */
  #open: OpenText | undefined;
  /** The row about the running activity. */
  #activity = '';
  #asked: Approval | undefined;
  #isConnected = true;
  /** Texts that the server has not accepted. */
  readonly #sending = new Set<{ readonly text: string }>();
  #lastNote = '';
  /** The last line that was printed is empty. */
  #spaced = true;
  /** The prompt that has the keys in place of the input. */
  #prompt: ChatPrompt | undefined;
  readonly #folded = new FoldedTexts();
  /** The folder of the session, where this machine has it. */
  #folder: string | undefined;
  /** The typed text when a question came; it returns with the answer. */
  #draft: string | undefined;
  #clock: NodeJS.Timeout | undefined;

  readonly #isLocal: boolean;

  /** @param isLocal true when the server has the files of this machine */
  constructor(isLocal: boolean) {
    this.#isLocal = isLocal;
    // False with `NO_COLOR` too.
    const isColoured = process.stdout.hasColors?.() ?? false;
    this.#area = new LiveArea({
      write: (text) => this.#terminal.write(isColoured ? text : unstyled(text)),
      columns: () => this.#columns,
      draw: (columns) => this.#draw(columns),
    });
    const rows = () => this.#terminal.rows;
    this.#editor = new InputEditor(
      this.#theme,
      {
        get rows() {
          return rows();
        },
      },
      () => this.#area.request(),
    );
    this.#editor.onSubmit = (text) => this.#submit(text);
    this.#editor.setAutocompleteProvider(this.#completions);
  }

  /** Takes the terminal until {@link stop}. */
  start(handlers: ChatHandlers): void {
    this.#handlers = handlers;
    process.on('exit', this.stop);
    process.stdin.once('end', () => handlers.leave());
    this.#terminal.start(
      (key) => this.#key(key),
      () => this.#area.render(),
    );
    this.#clock = setInterval(() => {
      if (this.facts.runningS !== undefined) this.#area.request();
    }, SECOND_MS);
    this.#area.open();
  }

  /** Gives the terminal back. Doing so twice is fine. */
  readonly stop = (): void => {
    if (this.#handlers === undefined) return;
    this.#handlers = undefined;
    process.removeListener('exit', this.stop);
    clearInterval(this.#clock);
    this.#endText();
    this.#area.close();
    this.#terminal.stop();
  };

  /** Shows another session. */
  enter(state: SessionState): void {
    this.#endText();
    this.#activity = '';
    this.facts.enter(state);
    this.#folder = this.#isLocal ? state.cwd : undefined;
    this.#completions.files = this.#folder === undefined ? undefined : new ProjectFiles(this.#folder);
    for (const { kind, text } of state.messages) if (kind === 'user') this.#editor.addToHistory(text);
    this.#area.request();
  }

  /** Sets the commands that can be completed. */
  offer(commands: readonly CommandRow[]): void {
    this.#completions.commands = commands;
  }

  /** Receives an event, before its text is shown. */
  receive(event: ControlEvent | EventGap): void {
    this.facts.receive(event);
    if (event.type === 'session.message.appended' && event.payload.message.kind === 'user') {
      this.#said(event.payload.message.text);
    }
    if (event.type === 'session.tool.output') this.#lastOutput(event.payload.text);
    this.#area.request();
  }

  /** Receives the same event, when its text has been shown. */
  shown(event: ControlEvent | EventGap): void {
    if (event.type === 'session.tool.call.completed') this.#output(event.payload.data.executed);
    if (event.type !== 'gap' && isTerminal(event)) this.#turnEnded();
  }

  /** Notes that the connection to the server is open, or is lost and dialled again. */
  connection(isOpen: boolean): void {
    this.#isConnected = isOpen;
    this.#area.request();
  }

  /** Shows a text as being sent. Call the returned function when the server has accepted it. */
  sending(text: string): () => void {
    const sending = { text };
    this.#sending.add(sending);
    this.#area.request();
    return () => {
      this.#sending.delete(sending);
      this.#area.request();
    };
  }

  /** The texts that the server has not accepted, and the typed text. */
  get unsent(): string[] {
    const typed = this.#draft ?? this.#editor.getExpandedText();
    return [...[...this.#sending].map(({ text }) => text), ...(typed.trim() === '' ? [] : [typed])];
  }

  /** Notes that a message was accepted for the running turn. */
  steered({ id, text }: { readonly id: string; readonly text: string }): void {
    this.facts.steered(id, text);
    this.#area.request();
  }

  /**
   * Asks a question, whose answer the next line is; undefined: none. The change that a call would make is shown first, and
   * with it the question, when `isAsked` still says so.
   */
  async ask(approval: Approval | undefined, isAsked: () => boolean = () => true): Promise<void> {
    const { tool } = approval ?? {};
    const change = tool && (await changeOf(tool.input, this.#folder).catch(() => undefined));
    if (!isAsked()) return;
    if (approval !== undefined) this.note(`? ${questionOf(approval, change?.others)}`);
    if (change !== undefined) this.#fold({ title: change.path, lines: boundedLines(change.diff) }, CHANGE_LINES);
    this.#await(approval);
  }

  choose(title: string, choices: readonly Choice[]): Promise<string | undefined> {
    return this.#prompted((done) => new ChoicePrompt(title, choices, this.#theme, done));
  }

  secret(title: string): Promise<string | undefined> {
    return this.#prompted((done) => new SecretPrompt(title, this.#theme, done));
  }

  edit(text: string): void {
    this.#editor.setText(text);
    this.#area.request();
  }

  #prompted(make: (done: (value: string | undefined) => void) => ChatPrompt): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#prompt = make((value) => {
      this.#prompt = undefined;
      resolve(value);
    });
    this.#area.request();
    return promise;
  }

  #await(approval: Approval | undefined): void {
    if (approval?.id === this.#asked?.id) return;
    if (this.#asked === undefined) this.#draft = this.#editor.getExpandedText();
    this.#asked = approval;
    this.#completions.active = approval === undefined;
    this.#editor.setText(approval === undefined ? (this.#draft ?? '') : '');
    if (approval === undefined) this.#draft = undefined;
    this.#area.request();
  }

  // Text, as other commands print it.

  raw(text: string): void {
    this.#write(text, AnswerText);
  }

  rawError(text: string): void {
    this.#write(text, ThoughtText);
  }

  line(text = ''): void {
    this.#print(this.#wrapped(text));
  }

  note(text: string): void {
    this.#lastNote = text;
    const [lead, tone] = leadOf(text) ?? ['', undefined];
    const style = tone === undefined ? this.#theme.plain : this.#theme[tone];
    const [first = '', ...rest] = this.#wrapped(text);
    this.#activity = '';
    if (tone === 'dim') this.#print([first, ...rest].map(style));
    else this.#print([`${style(lead)}${first.slice(lead.length)}`, ...rest]);
  }

  passing(text: string): void {
    this.#activity = text;
    this.#area.request();
  }

  document(value: unknown): void {
    this.line(JSON.stringify(value));
  }

  settle(): void {
    this.#endText();
  }

  #turnEnded(): void {
    this.#endText();
    this.#activity = '';
    this.#area.request();
  }

  /** Returns the last lines of a tool's output; a change of a file from its start. */
  #output({ result }: ToolDone): void {
    const text = outputOf(result);
    if (text === undefined) return;
    const lines = boundedLines(text);
    if (lines.length === 1) return;
    const { diff, stdout, stderr } = result as Readonly<Record<string, unknown>>;
    const title = this.#lastNote;
    if (typeof diff === 'string') this.#fold({ title, lines }, CHANGE_LINES);
    else if ([stdout, stderr].some((part) => typeof part === 'string')) this.#fold({ title, lines }, -OUTPUT_LINES);
    else this.#folded.add({ title, lines });
  }

  /** Shows the first lines of a text, or the last ones for a negative number. */
  #fold(text: FoldedText, most: number): void {
    const { lines } = text;
    const more = lines.length - Math.abs(most);
    if (more <= 0) return this.#print(this.#framed(lines));
    this.#folded.add(text);
    const hint = this.#theme.dim(`  … ${amount(more, 'more line')}: ${UNFOLD}`);
    if (most < 0) this.#print([hint, ...this.#framed(lines.slice(most))]);
    else this.#print([...this.#framed(lines.slice(0, most)), hint]);
  }

  /** Returns lines with a margin. Lines of a diff have colours. */
  #framed(lines: readonly string[]): string[] {
    const { green, red, dim, plain } = this.#theme;
    const styles: Readonly<Record<string, (text: string) => string>> = { '+': green, '-': red, '@': dim };
    return lines.flatMap((line) => {
      const style = styles[line.slice(0, 1)] ?? plain;
      return this.#wrapped(line, MARGIN.length).map((row) => `${dim(MARGIN)}${style(row)}`);
    });
  }

  /** Handles Ctrl-O: shows the newest text that was shown in part. */
  #unfold(): void {
    const text = this.#folded.unfold();
    if (text === undefined) return this.note('· nothing more to show');
    this.#print([...this.#wrapped(text.title).map(this.#theme.dim), ...this.#framed(text.lines)]);
  }

  /** Replaces the row about a running tool by its output. */
  #lastOutput(text: string): void {
    const line = text.trimEnd().split('\n').at(-1)?.trim() ?? '';
    if (line !== '') this.#activity = `▸ ${line}`;
  }

  #said(text: string): void {
    const { bold, cyan } = this.#theme;
    const lines = this.#wrapped(text.trimEnd(), PROMPT.length);
    this.#print(['', ...lines.map((line, row) => `${row === 0 ? cyan(PROMPT) : '  '}${bold(line)}`), '']);
  }

  #write(text: string, kind: new (theme: Theme) => OpenText): void {
    if (!(this.#open instanceof kind)) {
      // A line break that only ended the text before is none of this text.
      if (text.trim() === '') return;
      this.#endText();
      this.#open = new kind(this.#theme);
      if (!this.#spaced) this.#area.print(['']);
    }
    this.#area.print(this.#open.push(escapeControls(text), this.#columns));
  }

  #endText(): void {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    this.#area.print(open.end(this.#columns));
    this.#spaced = false;
  }

  #print(lines: readonly string[]): void {
    this.#endText();
    this.#area.print(lines);
    this.#spaced = lines.at(-1) === '';
  }

  #wrapped(text: string, indent = 0): string[] {
    return wrapTextWithAnsi(escapeControls(text).replaceAll('\t', '    '), this.#columns - indent);
  }

  // Keys.

  #key(key: string): void {
    if (isKeyRelease(key)) return;
    if (this.#prompt !== undefined) this.#prompt.key(key);
    else if (matchesKey(key, 'ctrl+c')) this.#interrupted();
    // Esc closes an open list of completions first.
    else if (isEscape(key) && !this.#editor.isShowingAutocomplete()) this.#handlers?.stopTurn();
    else if (matchesKey(key, 'ctrl+d') && this.#editor.getText() === '') this.#handlers?.leave();
    else if (matchesKey(key, 'ctrl+o')) this.#unfold();
    else this.#editor.handleInput(key);
    this.#area.request();
  }

  /** Handles Ctrl-C: clears the typed text, unless a turn runs, which it stops. */
  #interrupted(): void {
    const typed = this.#editor.getText() !== '';
    if (typed && this.facts.runningS === undefined) this.#editor.setText('');
    else this.#handlers?.interrupt();
  }

  #submit(text: string): void {
    if (text === '') return;
    if (this.#asked === undefined) this.#editor.addToHistory(text);
    this.#handlers?.submit(text);
  }

  // The live part.

  get #columns(): number {
    return Math.max(NARROWEST, this.#terminal.columns);
  }

  #draw(columns: number): Frame {
    const { dim, yellow, cyan } = this.#theme;
    if (this.#prompt !== undefined) return this.#drawPrompt(this.#prompt, columns);
    const input = this.#editor.picture(columns - PROMPT.length);
    const asked = this.#asked;
    const mark = asked === undefined ? cyan(PROMPT) : yellow(PROMPT);
    const question = asked === undefined ? [] : wrapTextWithAnsi(promptFor(asked).trim(), columns).map(yellow);
    const below = [...input.below, this.#status(columns)];
    const above = [
      ...this.#activityRows(columns),
      ...this.#waitingRows(columns),
      dim('─'.repeat(columns)),
      ...question,
    ];
    const typed = input.lines.map((line, row) => `${row === 0 ? mark : '  '}${line}`);
    const free = this.#terminal.rows - 1 - above.length - typed.length - below.length;
    const tail = this.#open?.tail(columns).slice(-Math.max(MIN_TAIL_ROWS, free)) ?? [];
    const first = tail.length + above.length;
    const { cursor } = input;
    return {
      lines: [...tail, ...above, ...typed, ...below],
      cursor: cursor && { row: first + cursor.row, column: PROMPT.length + cursor.column },
    };
  }

  #drawPrompt(prompt: ChatPrompt, columns: number): Frame {
    const below = [this.#theme.dim('─'.repeat(columns)), ...prompt.lines(columns)];
    const free = this.#terminal.rows - 1 - below.length;
    const tail = this.#open?.tail(columns).slice(-Math.max(MIN_TAIL_ROWS, free)) ?? [];
    return { lines: [...tail, ...below], cursor: undefined };
  }

  #activityRows(columns: number): string[] {
    if (this.#activity === '') return [];
    return [this.#theme.dim(truncateToWidth(escapeControls(oneLine(this.#activity)), columns, '…'))];
  }

  #waitingRows(columns: number): string[] {
    // Sending takes a moment; without a connection it takes as long as that is lost.
    const unsent = this.#isConnected ? [] : [...this.#sending].map(({ text }) => `unsent: ${oneLine(text)}`);
    const accepted = this.facts.waiting.map(
      ({ kind, text }) => `${kind === 'steer' ? 'soon' : 'next'}: ${oneLine(text)}`,
    );
    const all = [...accepted, ...unsent];
    const more = all.length - SHOWN_WAITING;
    const rows = all.slice(0, SHOWN_WAITING).map((row) => escapeControls(row));
    return [...rows, ...(more > 0 ? [`… ${more} more wait`] : [])].map((row) =>
      this.#theme.dim(truncateToWidth(row, columns, '…')),
    );
  }

  #status(columns: number): string {
    const running = this.facts.runningS;
    const working = running === undefined ? [] : [`working ${running} s`];
    const hint = running === undefined ? '/help' : 'Esc stops';
    const words = [
      ...(this.#isConnected ? working : ['reconnecting']),
      ...this.facts.status().map((word) => escapeControls(word)),
      this.#isConnected ? hint : 'Ctrl-D leaves',
    ];
    while (words.length > 1 && visibleWidth(words.join(' · ')) > columns) words.pop();
    return this.#theme.dim(truncateToWidth(words.join(' · '), columns, '…'));
  }
}
