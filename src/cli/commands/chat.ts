/**
 * `handfast chat`: a conversation in the terminal. Streams answers, shows what tools do, asks before they act, and goes on
 * with the last session of this folder.
 *
 * Without a terminal it reads one prompt a line and answers each. While a turn runs, what is typed is said to that turn.
 */
import { createInterface, type Interface } from 'node:readline';
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlSession, TurnHandle } from '../../control-client/session.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Approval } from '../../protocol/session-types.ts';
import { asError, fail } from '../../wire/errors.ts';
import { findHost } from '../find-host.ts';
import { INTERRUPTED } from '../interrupt.ts';
import { type ControlFlags, openControl } from '../open-control.ts';
import { SessionOutput } from '../session-output.ts';
import type { Terminal } from '../terminal.ts';
import { fullId } from './session.ts';

export interface ChatFlags extends ControlFlags {
  /** Begin a new session. */
  readonly new?: boolean;
  /** Go on with this one. */
  readonly session?: string;
  readonly backend?: string;
  readonly model?: string;
  readonly title?: string;
  readonly config?: string;
  /** What happens where the policy asks. */
  readonly approvals?: 'ask' | 'allow' | 'deny';
}

const PROMPT = '› ';

const LONG_MS = 2 ** 30;

const HELP = `Type a prompt. While the agent works, what you type is said to it.
  /new             begin a new session        /sessions        list them
  /queue           prompts that wait          /retitle TEXT    give this one a title
  /compress        make room in the context   /help            this, and the server's own commands
Ctrl-C stops the turn; twice, or with nothing running, leaves. Ctrl-D leaves.`;

export async function chat(flags: ChatFlags, terminal: Terminal): Promise<number> {
  const server = await serverFor(flags, terminal);
  // A turn may wait for nothing but an answer, whose timers do not keep a process.
  const alive = setInterval(() => {}, LONG_MS);
  try {
    const control = server.control;
    // With a server of our own and nobody at a terminal, there is nobody who could be asked.
    const unattended = server.own && (terminal.json || process.stdin.isTTY !== true);
    const session = await sessionFor(control, unattended ? { approvals: 'deny', ...flags } : flags);
    const conversation = new Conversation(control, session, terminal);
    await conversation.greet(flags.new === true ? 0 : undefined);
    return await conversation.run();
  } finally {
    clearInterval(alive);
    await server.close();
  }
}

interface ChatServer {
  readonly control: ControlClient;
  /** True for one that nobody else can reach. */
  readonly own: boolean;
  close(): Promise<void>;
}

/** The server that runs, or one of our own for as long as the conversation lasts. */
async function serverFor(flags: ChatFlags, terminal: Terminal): Promise<ChatServer> {
  const found = await findHost(flags).catch((error) => {
    if (flags.connect === undefined && asError(error).code === 'unreachable') return undefined;
    throw error;
  });
  if (found !== undefined) {
    const control = await openControl(found.address, {
      token: found.token,
      onStderr: (line) => terminal.note(line),
      onState: (state, error) => {
        if (state === 'lost') terminal.note(`· ${error?.message ?? 'the link is lost'}; trying again`);
      },
    });
    return { control, own: false, close: () => control.close() };
  }
  const { embeddedServer } = await import('../embedded-server.ts');
  const server = await embeddedServer({ config: flags.config, backend: flags.backend });
  const control = await openControl(server as never, {});
  return {
    control,
    own: true,
    async close() {
      await control.close();
      await server.stop();
    },
  };
}

/** The session that is named, else the last one of this folder, else a new one. */
async function sessionFor(control: ControlClient, flags: ChatFlags): Promise<ControlSession> {
  const session = await chosenSession(control, flags);
  if (flags.approvals !== undefined) {
    await control.rpc.sessionConfigure({ session_id: session.id, approvals: flags.approvals });
  }
  return session;
}

async function chosenSession(control: ControlClient, flags: ChatFlags): Promise<ControlSession> {
  if (flags.session !== undefined) return control.open(await fullId(control, flags.session));
  const wanted = flags.backend !== undefined || flags.model !== undefined || flags.title !== undefined;
  if (!flags.new && !wanted) {
    for await (const { session_id } of control.sessions({ cwd: process.cwd() })) return control.open(session_id);
  }
  const { title, backend, model } = flags;
  return control.create({ title, backend, model, cwd: process.cwd(), parallelTools: true });
}

/** One conversation on this terminal. */
class Conversation {
  readonly #control: ControlClient;
  readonly #terminal: Terminal;
  readonly #output: SessionOutput;
  #session: ControlSession;
  #lines: Interface | undefined;
  #turn: TurnHandle | undefined;
  /** Asked right now; the next line is its answer. */
  #asked: Approval | undefined;
  readonly #waiting: Approval[] = [];
  #interrupted = false;
  #exit = 0;
  readonly #watching = new AbortController();

  constructor(control: ControlClient, session: ControlSession, terminal: Terminal) {
    this.#control = control;
    this.#session = session;
    this.#terminal = terminal;
    this.#output = new SessionOutput(terminal, { conversation: false });
  }

  /** Says where one is. */
  async greet(shown = 4): Promise<void> {
    if (this.#terminal.json || !process.stdin.isTTY) return;
    const state = await this.#session.state();
    const { server_name } = this.#control.server;
    this.#terminal.note(`${server_name} · ${state.title || 'new session'} · ${state.backend} · ${state.cwd}`);
    if (state.backend === 'rehearsal') {
      this.#terminal.note(
        'No model provider is configured: this is the rehearsal backend. It follows simple directives',
      );
      this.#terminal.note('with real tools, e.g. "read README.md and count its lines". /help says more.');
    }
    for (const { kind, text } of state.messages.slice(-shown)) this.#terminal.note(`${kind}: ${text}`);
    for (const approval of state.approvals) if (approval.state === 'pending') this.#waiting.push(approval);
  }

  /** Runs until the input ends or the user leaves; resolves with the exit code. */
  async run(): Promise<number> {
    const interactive = process.stdin.isTTY === true && !this.#terminal.json;
    const lines = createInterface({
      input: process.stdin,
      output: interactive ? process.stderr : undefined,
      prompt: PROMPT,
    });
    this.#lines = lines;
    lines.on('SIGINT', () => this.#stop());
    const stop = (): void => this.#stop();
    process.on('SIGINT', stop);
    try {
      if (interactive) await this.#converse(lines);
      else for await (const line of lines) await this.#prompt(line);
      return this.#exit;
    } finally {
      process.removeListener('SIGINT', stop);
      this.#watching.abort();
      lines.close();
    }
  }

  async #converse(lines: Interface): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    lines.on('line', (line) => {
      this.#typed(line).catch((error) => this.#failed(error));
      this.#ready();
    });
    lines.on('close', resolve);
    this.#control.call('system.ping', {}).catch(reject);
    this.#askNext();
    this.#ready();
    await promise;
  }

  /** Shows the prompt when there is something to type. */
  #ready(): void {
    if (this.#turn !== undefined && this.#asked === undefined) return;
    this.#lines?.setPrompt(
      this.#asked === undefined ? PROMPT : 'allow? [y]es, for this [s]ession, [a]lways here, [n]o: ',
    );
    this.#lines?.prompt();
  }

  async #typed(line: string): Promise<void> {
    if (this.#asked !== undefined) return this.#answer(line);
    const text = line.trim();
    if (text === '') return;
    if (this.#turn !== undefined && !text.startsWith('/')) {
      const { outcome } = await this.#session.steer(text, { expectedTurnId: this.#turn.turnId, whenLate: 'queue' });
      return this.#terminal.note(`· ${outcome}`);
    }
    await this.#prompt(line);
    this.#ready();
  }

  /** Sends a prompt and shows its turn; or runs a command. */
  async #prompt(line: string): Promise<void> {
    const text = line.trim();
    if (text === '') return;
    try {
      if (text.startsWith('/')) return await this.#command(text);
      const turn = await this.#session.prompt(text);
      this.#turn = turn;
      for await (const event of turn) {
        this.#output.show(event);
        if (event.type.startsWith('approval.')) this.#approval(event as SessionEvent);
      }
      this.#output.settle();
      const { stopReason, error } = await turn.result();
      if (error !== undefined) this.#exit = 5;
      if (!this.#terminal.json && stopReason !== 'end_turn' && stopReason !== 'interrupted' && error === undefined) {
        this.#terminal.note(`· ended: ${stopReason}`);
      }
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#turn = undefined;
      this.#interrupted = false;
    }
  }

  #failed(thrown: unknown): void {
    const error = asError(thrown);
    this.#output.settle();
    this.#exit = 5;
    this.#terminal.note(`${error.code}: ${error.message}`);
    if (this.#control.state === 'closed') this.#lines?.close();
  }

  /** Keeps the questions of the running turn in order; one is asked at a time. */
  #approval({ type, payload }: SessionEvent): void {
    const approval = payload.approval as Approval;
    if (type === 'approval.requested') this.#waiting.push(approval);
    else {
      const at = this.#waiting.findIndex(({ id }) => id === approval.id);
      if (at >= 0) this.#waiting.splice(at, 1);
      // Somebody else was faster, or the time was over.
      if (this.#asked?.id === approval.id) this.#asked = undefined;
    }
    this.#askNext();
  }

  #askNext(): void {
    if (this.#asked !== undefined || !process.stdin.isTTY || this.#terminal.json) return;
    this.#asked = this.#waiting.shift();
    if (this.#asked === undefined) return;
    const { tool, title } = this.#asked;
    this.#terminal.note(`? ${title}${tool === undefined ? '' : `\n  ${JSON.stringify(tool.input)}`}`);
    this.#ready();
  }

  async #answer(line: string): Promise<void> {
    const approval = this.#asked as Approval;
    const given = answerOf(line, approval);
    if (given === undefined) return this.#ready();
    this.#asked = undefined;
    const { accepted, approval: now } = await this.#control.rpc.approvalAnswer({ approval_id: approval.id, ...given });
    if (!accepted) this.#terminal.note(`· too late: ${now.state}`);
    this.#askNext();
  }

  async #command(text: string): Promise<void> {
    const [command = '', ...rest] = text.split(/\s+/);
    switch (command) {
      case '/quit':
      case '/exit':
        // The server may have other clients; leaving is ours alone.
        this.#lines?.close();
        return;
      case '/new':
        this.#session = await this.#control.create({ cwd: process.cwd(), parallelTools: true });
        return this.#terminal.note(`· new session ${this.#session.id}`);
      case '/sessions':
        for await (const { session_id, title } of this.#control.sessions({ cwd: process.cwd() })) {
          this.#terminal.note(`${session_id}  ${title}`);
        }
        return;
      case '/retitle':
        if (rest.length === 0) throw fail('usage', '/retitle needs a title');
        await this.#control.rpc.sessionRename({ session_id: this.#session.id, title: rest.join(' ') });
        return;
      case '/queue':
        for (const { id, text: queued } of await this.#session.queue()) this.#terminal.note(`${id}  ${queued}`);
        return;
      default: {
        if (command === '/help') this.#terminal.note(HELP);
        const call = { session_id: this.#session.id, raw_command: text };
        // Making room asks the model, which may take its time.
        const { output } = await this.#control.rpc.commandExecute(call, { timeoutMs: 0 });
        if (this.#terminal.json) this.#terminal.document(output ?? null);
        else this.#terminal.line(JSON.stringify(output, null, 2));
      }
    }
  }

  /** Ctrl-C: first the turn, then the conversation. */
  #stop(): void {
    const turn = this.#turn;
    if (turn === undefined || this.#interrupted) {
      this.#exit = turn === undefined ? 0 : INTERRUPTED;
      this.#lines?.close();
      return;
    }
    this.#interrupted = true;
    this.#asked = undefined;
    this.#waiting.length = 0;
    this.#session.interrupt(turn.turnId).catch((error) => this.#failed(error));
  }
}

/** What a line means as an answer; undefined = ask again. */
function answerOf(line: string, approval: Approval) {
  const word = line.trim().toLowerCase();
  if (approval.kind === 'question' && word !== '') {
    const name = Object.keys((approval.schema?.properties as object) ?? { answer: {} })[0] ?? 'answer';
    return { decision: 'allow' as const, content: { [name]: line.trim() } };
  }
  if (['y', 'yes'].includes(word)) return { decision: 'allow' as const, remember: 'once' as const };
  if (['s', 'session'].includes(word)) return { decision: 'allow' as const, remember: 'session' as const };
  if (['a', 'always'].includes(word)) return { decision: 'allow' as const, remember: 'directory' as const };
  if (['n', 'no'].includes(word)) return { decision: 'deny' as const, remember: 'once' as const };
  return undefined;
}
