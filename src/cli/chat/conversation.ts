/**
 * Runs `handfast chat`: shows every event of the session, sends typed lines, asks before tools act.
 *
 * At a terminal, on a separate screen (`screen/chat-screen.ts`), a line typed while the agent works steers the running turn.
 * Without one, each line is a prompt, sent when the turn before it has ended.
 */
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { StateChange } from '../../connection/reconnect.ts';
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlEvent } from '../../control-client/control-event.ts';
import type { ControlSession } from '../../control-client/session.ts';
import { isTerminal } from '../../control-client/turn.ts';
import type { Approval } from '../../protocol/session-types.ts';
import { asError, exitCodeOf, fail, type HandfastError } from '../../wire/errors.ts';
import { INTERRUPTED } from '../interrupt.ts';
import { SessionOutput } from '../output/session-output.ts';
import type { TerminalOutput } from '../output/terminal.ts';
import { shortId } from '../short-id.ts';
import { chatCommand, commandRows } from './chat-commands.ts';
import type { ChatAsker, ChatPlace } from './chat-place.ts';
import type { ChatScreen } from './screen/chat-screen.ts';

/** Messages of an earlier conversation that are shown, and lines of each. */
const SHOWN_MESSAGES = 4;
/** Messages that are asked for when a session is entered: its prompts can be taken up again. */
const ENTERED_MESSAGES = 200;
const SHOWN_LINES = 8;
/** Exit code when a turn failed. */
const TURN_FAILED = 5;
const FOREVER_MS = 2 ** 30;

export interface ConversationDeps {
  readonly control: ControlClient;
  readonly session: ControlSession;
  readonly terminal: TerminalOutput;
  /** The screen of a user at a terminal; undefined: prompts come from a pipe or a file. */
  readonly screen: ChatScreen | undefined;
  /** True when the server continues to run after this conversation. */
  readonly isShared: boolean;
}

export class Conversation implements ChatPlace {
  readonly control: ControlClient;
  readonly terminal: TerminalOutput;
  session: ControlSession;
  /** Prompts from a pipe. Created when input is first read: nothing that is read from the input may be lost. */
  #lines: Interface | undefined;
  readonly #screen: ChatScreen | undefined;
  readonly #leaving = new AbortController();
  readonly #isShared: boolean;
  readonly #output: SessionOutput;
  /** The turn that runs in the session; any client may have started it. */
  #running: string | undefined;
  /** Turns whose end is waited for, or will be. */
  readonly #turns = new Map<string, PromiseWithResolvers<void>>();
  /** Prompts that are being sent: the end of a turn may arrive before its id. */
  #sending = 0;
  /** The question that is asked right now; the next line is its answer. */
  #asked: Approval | undefined;
  #waiting: Approval[] = [];
  #interrupted = false;
  #left = false;
  #exit = 0;
  #watching = new AbortController();

  constructor({ control, session, terminal, screen, isShared }: ConversationDeps) {
    this.control = control;
    this.session = session;
    this.terminal = screen ?? terminal;
    this.#screen = screen;
    this.#isShared = isShared;
    this.#output = new SessionOutput(this.terminal, { asking: this.#attended });
  }

  get asker(): ChatAsker | undefined {
    return this.#screen;
  }

  get ended(): AbortSignal {
    return this.#leaving.signal;
  }

  get #attended(): boolean {
    return this.#screen !== undefined;
  }

  /** Runs until the input ends or the user leaves; resolves with the exit code. */
  async run(): Promise<number> {
    const stop = (): void => this.#stop();
    const leave = (): void => this.#leave(INTERRUPTED);
    // A turn in this process does not hold the event loop open; this timer does.
    const alive = setInterval(() => {}, FOREVER_MS);
    process.on('SIGINT', stop).on('SIGTERM', leave).on('SIGHUP', leave);
    try {
      await this.#enter();
      if (this.#left) return this.#exit;
      if (this.#screen !== undefined) await this.#converse(this.#screen);
      else await this.#recite();
      return this.#exit;
    } finally {
      clearInterval(alive);
      process.removeListener('SIGINT', stop).removeListener('SIGTERM', leave).removeListener('SIGHUP', leave);
      this.#watching.abort();
      this.#lines?.close();
      this.#output.settle();
      this.#screen?.stop();
    }
  }

  /** True when a turn continues on the server after the conversation. */
  get turnContinues(): boolean {
    const isConnected = this.control.state !== 'closed';
    return this.#running !== undefined && this.#isShared && this.#attended && isConnected;
  }

  /** Shows a change of the connection's state. */
  connection(change: StateChange): void {
    this.#screen?.connection(change.state !== 'lost');
    if (change.state === 'lost') {
      if (change.attempt === 1) this.#output.note(`· connection lost (${change.reason.message}); reconnecting`);
    } else if (change.state === 'resumed') this.#output.note('· connected again');
    else if (change.state === 'closed' && change.error !== undefined) this.#lost(change.error);
  }

  /** Continues in another session. */
  async enter(session: ControlSession): Promise<void> {
    this.session = session;
    await this.#enter();
  }

  leave(): void {
    this.#leave(0);
  }

  // Showing.

  /** Shows the session's name and last messages, then its events from here on. */
  async #enter(): Promise<void> {
    this.#watching.abort();
    this.#watching = new AbortController();
    const state = await this.session.state({ messages: ENTERED_MESSAGES });
    const { signal } = this.#watching;
    const events = this.session.events({ afterSeq: state.seq, signal });
    this.#running = state.turnId ?? undefined;
    this.#asked = undefined;
    this.#waiting = state.approvals.filter((approval) => approval.state === 'pending');
    if (this.#screen !== undefined) {
      const screen = this.#screen;
      screen.enter(state);
      // A server that lists none has none to complete.
      commandRows(this).then(
        (rows) => screen.offer(rows),
        () => {},
      );
      const { server_name } = this.control.server;
      this.terminal.note(`${server_name} · ${state.title || 'new session'} · ${state.backend} · ${state.cwd}`);
      if (state.backend === 'rehearsal' && state.messages.length === 0) {
        this.terminal.note(
          'No model is configured, so this is the rehearsal backend: it follows simple directives with ' +
            'real tools, e.g. "read README.md and count its lines". /help lists commands.',
        );
      }
      for (const { kind, text } of state.messages.slice(-SHOWN_MESSAGES)) {
        const lines = text.trim().split('\n');
        const more = lines.length > SHOWN_LINES ? `\n  … (${lines.length - SHOWN_LINES} more lines)` : '';
        this.terminal.note(`${kind === 'user' ? 'you' : kind}: ${lines.slice(0, SHOWN_LINES).join('\n')}${more}`);
      }
      if (this.#running !== undefined) this.terminal.note('· a turn is running; what you type steers it');
    }
    void this.#watch(events);
  }

  /** Shows events until another session is entered. Never rejects. */
  async #watch(events: AsyncIterable<Parameters<SessionOutput['show']>[0]>): Promise<void> {
    try {
      for await (const event of events) {
        if (event.type === 'session.turn.started') this.#running = event.payload.turn_id;
        this.#screen?.receive(event);
        this.#output.show(event);
        this.#screen?.shown(event);
        if (event.type !== 'gap') this.#after(event);
      }
    } catch (thrown) {
      this.#lost(asError(thrown));
    }
  }

  #after(event: ControlEvent): void {
    if (event.type === 'approval.requested') this.#requested(event.payload.approval);
    if (event.type === 'approval.resolved') this.#resolved(event.payload.approval);
    if (!isTerminal(event)) return;
    const turn = (event.payload as { turn_id?: string }).turn_id ?? '';
    if (event.type === 'session.error' && !this.#attended) this.#exit = TURN_FAILED;
    if (!this.#attended && (this.#sending > 0 || this.#turns.has(turn))) this.#turnOf(turn).resolve();
    if (turn !== this.#running) return;
    this.#running = undefined;
    this.#interrupted = false;
  }

  #turnOf(id: string): PromiseWithResolvers<void> {
    const known = this.#turns.get(id);
    if (known !== undefined) return known;
    const turn = Promise.withResolvers<void>();
    // The user may leave before any caller awaits it.
    turn.promise.catch(() => {});
    this.#turns.set(id, turn);
    return turn;
  }

  // Typing.

  /** Runs the conversation at a terminal. */
  async #converse(screen: ChatScreen): Promise<void> {
    screen.start({
      submit: (text) => this.#typed(text).catch((error) => this.#failed(asError(error))),
      stopTurn: () => this.#interruptTurn(),
      interrupt: () => this.#stop(),
      leave: () => this.#leave(0),
    });
    this.#askNext();
    if (!this.ended.aborted) await once(this.ended, 'abort');
  }

  /** Runs the conversation without a terminal: a prompt a line. */
  async #recite(): Promise<void> {
    this.#lines = createInterface({ input: process.stdin });
    for await (const line of this.#lines) {
      if (this.#left) return;
      try {
        const turn = await this.#spoken(line);
        if (turn !== undefined) await this.#turnOf(turn).promise.finally(() => this.#turns.delete(turn));
      } catch (error) {
        this.#failed(asError(error));
      }
      if (this.#left) return;
    }
  }

  async #typed(line: string): Promise<void> {
    if (this.#asked !== undefined) return this.#answer(this.#asked, line);
    const text = line.trim();
    if (this.#running === undefined || text === '' || text.startsWith('/')) return void (await this.#spoken(line));
    const { outcome, steer_id: id } = await this.#sent(text, () => this.session.steer(text, { whenLate: 'queue' }));
    if (outcome === 'injected' && id !== undefined) this.#screen?.steered({ id, text });
  }

  /** Sends a prompt, or runs a command. Gives the turn that a prompt starts. */
  async #spoken(line: string): Promise<string | undefined> {
    const text = line.trim();
    if (text === '') return undefined;
    if (text.startsWith('/')) return void (await chatCommand(this, text));
    this.#sending++;
    try {
      const prompt = { session_id: this.session.id, text, enqueue: true };
      const { turn_id } = await this.#sent(text, () => this.control.send(prompt));
      return turn_id;
    } finally {
      this.#sending--;
    }
  }

  /** Sends a text, which the screen shows as unsent while the connection is lost. */
  async #sent<Reply>(text: string, send: () => Promise<Reply>): Promise<Reply> {
    const accepted = this.#screen?.sending(text);
    try {
      const reply = await send();
      accepted?.();
      return reply;
    } catch (error) {
      // At the end of the connection it is printed with everything else that was not sent.
      if (this.control.state !== 'closed') accepted?.();
      throw error;
    }
  }

  // Questions.

  #requested(approval: Approval): void {
    // A server that was killed requests its stored approvals again.
    if ([this.#asked, ...this.#waiting].some((known) => known?.id === approval.id)) return;
    this.#waiting.push(approval);
    this.#askNext();
  }

  #resolved({ id, state, answered_by: by }: Approval): void {
    this.#waiting = this.#waiting.filter((each) => each.id !== id);
    if (this.#asked?.id !== id) return;
    // Another client answered first, or the approval timed out.
    this.#asked = undefined;
    this.#output.note(`· ${state}${by === undefined ? '' : ` by ${by}`}`);
    this.#askNext();
  }

  #askNext(): void {
    if (this.#asked !== undefined || this.#screen === undefined) return;
    const next = this.#waiting.shift();
    this.#asked = next;
    void this.#screen.ask(next, () => this.#asked === next);
  }

  async #answer(approval: Approval, line: string): Promise<void> {
    const given = answerOf(line, approval);
    if (given === undefined) return;
    this.#asked = undefined;
    const { accepted, approval: now } = await this.control.rpc.approvalAnswer({ approval_id: approval.id, ...given });
    if (!accepted) this.#output.note(`· too late: ${now.state}${now.answered_by ? ` by ${now.answered_by}` : ''}`);
    this.#askNext();
  }

  // Ending.

  /**
   * Handles Ctrl-C: first the turn is stopped, then the conversation. Without a terminal the conversation ends with its turn.
   */
  #stop(): void {
    if (this.#running === undefined || this.#interrupted) {
      return this.#leave(this.#interrupted || !this.#attended ? INTERRUPTED : 0);
    }
    this.#interruptTurn();
  }

  #interruptTurn(): void {
    if (this.#running === undefined || this.#interrupted) return;
    this.#interrupted = true;
    this.#asked = undefined;
    this.#waiting = [];
    void this.#screen?.ask(undefined);
    if (!this.#attended) {
      this.#left = true;
      this.#exit = INTERRUPTED;
    }
    if (!this.terminal.json) this.#output.note('· stopping the turn; Ctrl-C again: exit');
    this.session.interrupt(this.#running).catch((error) => this.#failed(asError(error)));
  }

  #leave(code: number): void {
    this.#left = true;
    this.#exit = code;
    const left = fail('cancelled', 'the chat was closed');
    for (const turn of this.#turns.values()) turn.reject(left);
    this.#lines?.close();
    this.#leaving.abort();
  }

  /** Reports a failed call; the conversation continues. */
  #failed(error: HandfastError): void {
    if (this.#left) return;
    if (!this.#attended) this.#exit = exitCodeOf(error.code, error.detail);
    this.#output.note(`✗ ${error.message} [${error.code}]`);
  }

  /** Handles the end of the events. */
  #lost(error: HandfastError): void {
    if (this.#left) return;
    const isClosed = this.control.state === 'closed';
    const what = isClosed ? 'the connection could not be restored: ' : '';
    this.#output.note(`✗ ${what}${error.message} [${error.code}]`);
    for (const text of this.#screen?.unsent ?? []) this.#output.note(`· not sent: ${text}`);
    if (isClosed) {
      this.#output.note(`· continue when the server runs again: handfast chat --session ${shortId(this.session.id)}`);
    }
    this.#leave(exitCodeOf(error.code, error.detail));
  }
}

/** Returns the answer that a line means; undefined = ask again. */
function answerOf(line: string, approval: Approval) {
  const word = line.trim().toLowerCase();
  if (approval.kind === 'question' && word !== '') {
    const name = Object.keys((approval.schema?.properties as object) ?? { answer: {} })[0] ?? 'answer';
    return { decision: 'allow' as const, content: { [name]: line.trim() } };
  }
  if (['y', 'yes'].includes(word)) return { decision: 'allow' as const, remember: 'once' as const };
  if (['s', 'session'].includes(word)) return { decision: 'allow' as const, remember: 'session' as const };
  if (['a', 'always'].includes(word)) return { decision: 'allow' as const, remember: 'directory' as const };
  const [, reason] = /^no?(?:[\s,:]+(\S.*))?$/is.exec(line.trim()) ?? [];
  if (reason !== undefined || ['n', 'no'].includes(word)) {
    return { decision: 'deny' as const, remember: 'once' as const, ...(reason !== undefined && { reason }) };
  }
  return undefined;
}
