/**
 * The files and terminals an agent may use during a turn: requests of the protocol (`fs/*`, `terminal/*`) become calls of the
 * session's own tools `read_file`, `write_file` and `shell`. One for each turn.
 *
 * So the folder, rights, protected paths, limits, approvals and the audit are those of these tools; nothing is decided here. A
 * terminal is a running call of `shell`. A terminal that still runs when the turn ends is ended with it.
 */
import type { AgentLoan, LoanMethod, LoanOffer, LoanParams } from '../../../acp/loan.ts';
import type { FileDiff } from '../../../acp/tool-facts.ts';
import type { ToolDone } from '../../../protocol/session-types.ts';
import { errorTable, fail, HandfastError } from '../../../wire/errors.ts';
import type { Turn } from '../../contract/backend.ts';
import type { Toolbox } from '../../rounds/toolbox.ts';
import { withApprovals } from '../../rounds/with-approvals.ts';

/** The tool behind each part of a loan. */
const TOOLS = { reads: 'read_file', writes: 'write_file', terminals: 'shell' } as const;

/** Maximum number of bytes of a file that is read whole: it is one message. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;
/** Maximum number of bytes and lines of one call of `read_file`. */
const PAGE_BYTES = 512 * 1024;
const PAGE_LINES = 100_000;
/** Maximum number of terminals of a turn that were not released. */
const MAX_TERMINALS = 32;
/** Maximum number of characters of output a terminal holds; the oldest go first. */
const MAX_OUTPUT_CHARACTERS = 1024 * 1024;
/** Longest time of a program in seconds: this file sets no limit beside that of every call. */
const SHELL_SECONDS = 3600;
/** Exit codes of shells for a program that is not there, and for one that could not be run. */
const NOT_FOUND = 127;
const NOT_RUN = 126;

/** The end of a program, in the words of the protocol. */
interface TerminalExit {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

interface Terminal {
  readonly limit: number;
  output: string;
  truncated: boolean;
  exit: TerminalExit | undefined;
  readonly stop: AbortController;
  readonly ended: Promise<TerminalExit>;
}

/** Changes that are remembered until they are made. */
const MAX_SEEN = 64;

/** The part of a turn that a call of this class may use. */
type ToolTurn = Pick<Turn, 'ask' | 'signal'>;

/** Returns the parts that the tools of a session can lend: those whose tool its owner has. Rejects as `Toolbox.list`. */
export async function loanOffer(toolbox: Toolbox): Promise<LoanOffer> {
  await toolbox.list();
  const has = (part: keyof LoanOffer): boolean => toolbox.find(TOOLS[part]) !== undefined;
  return { reads: has('reads'), writes: has('writes'), terminals: has('terminals') };
}

export class TurnTools {
  readonly #turn: ToolTurn;
  readonly #toolbox: Toolbox;
  /** Receives the output of a terminal. */
  readonly #printed: (terminalId: string, text: string) => void;
  readonly #terminals = new Map<string, Terminal>();
  readonly #end = new AbortController();
  /** The oldest first. */
  #seen: FileDiff[] = [];
  #listed: Promise<unknown> | undefined;
  #made = 0;

  constructor(turn: ToolTurn, toolbox: Toolbox, printed: (terminalId: string, text: string) => void) {
    this.#turn = turn;
    this.#toolbox = toolbox;
    this.#printed = printed;
  }

  /**
   * Answers a request. Fails with the errors of the tools, `schema_violation` for a terminal that is not there, and
   * `over_capacity` with too many of them.
   */
  request(...[method, params]: Parameters<AgentLoan['request']>): Promise<object> {
    return this.#methods[method](params);
  }

  readonly #methods: { readonly [Method in LoanMethod]: (params: LoanParams) => Promise<object> } = {
    'fs/read_text_file': (params) => this.#read(params),
    'fs/write_text_file': ({ path, content }) => this.#write({ path, content, create_dirs: true }),
    'terminal/create': (params) => this.#create(params),
    'terminal/output': async (params) => {
      const { output, truncated, exit } = this.#terminal(params);
      return { output, truncated, ...(exit !== undefined && { exitStatus: exit }) };
    },
    'terminal/wait_for_exit': async (params) => ({ ...(await this.#terminal(params).ended) }),
    'terminal/kill': async (params) => this.#kill(this.#terminal(params)),
    'terminal/release': async (params) => {
      const terminal = this.#terminal(params);
      this.#terminals.delete(params.terminalId as string);
      return this.#kill(terminal);
    },
  };

  /** Notes that the user has allowed these changes: to make one of them is not asked for again. */
  allowed(changes: readonly FileDiff[]): void {
    this.#seen = [...this.#seen, ...changes].slice(-MAX_SEEN);
  }

  /** Ends running calls with the turn. */
  end(): void {
    this.#end.abort(fail('cancelled', 'the turn has ended'));
  }

  async #read({ path, line, limit }: LoanParams): Promise<object> {
    const byLines = line != null || limit != null;
    const wanted = limit ?? Number.POSITIVE_INFINITY;
    const pieces: string[] = [];
    let bytes = 0;
    let offset = Math.max(1, line ?? 1);
    let byteOffset = 0;
    for (let lines = 0; lines < wanted; ) {
      const page = byLines
        ? { offset, limit: Math.min(PAGE_LINES, wanted - lines) }
        : { byte_offset: byteOffset, byte_limit: PAGE_BYTES };
      const read = await this.#call('read_file', { path, ...page, max_bytes: PAGE_BYTES });
      const part = succeeded(read) as Partial<ReadPart>;
      // A file that is not text would change when it is written back.
      if (part.lossy === true) throw fail('tool_error', `${path} is not UTF-8`, { reason: 'binary_file', path });
      const { content = '' } = part;
      bytes += Buffer.byteLength(content);
      if (bytes > MAX_FILE_BYTES) {
        const message = `${path} has more than ${MAX_FILE_BYTES} bytes; read it in parts, with line and limit`;
        throw fail('tool_error', message, { reason: 'too_large', path });
      }
      pieces.push(part.bom === true ? `\uFEFF${content}` : content);
      const next = byLines ? part.next_offset : part.next_byte_offset;
      if (next == null) break;
      if (byLines && !content.endsWith('\n')) {
        throw fail('tool_error', `a line of ${path} has more than ${PAGE_BYTES} bytes`, { reason: 'too_large', path });
      }
      if (byLines) {
        lines += next - offset;
        offset = next;
      } else byteOffset = next;
    }
    return { content: pieces.join('') };
  }

  async #write(input: Readonly<Record<string, unknown>>): Promise<object> {
    const confirmed = await this.#confirmed(input);
    succeeded(await this.#call('write_file', input, { confirmed }));
    return {};
  }

  /** True for a content the user has allowed: the whole file, or the present one with the one place replaced. */
  async #confirmed({ path, content }: Readonly<Record<string, unknown>>): Promise<boolean> {
    const seen = this.#seen.filter((change) => change.path === path);
    let made = seen.find((change) => change.new_text === content);
    if (made === undefined && seen.some((change) => change.old_text)) {
      const read = this.#read({ sessionId: '', path: String(path) });
      const present = await read.then(
        (file) => String((file as { content?: unknown }).content),
        () => undefined,
      );
      made = seen.find(({ old_text: oldText, new_text: newText }) => {
        if (present === undefined || !oldText) return false;
        const parts = present.split(oldText);
        return parts.length === 2 && parts.join(newText) === content;
      });
    }
    this.#seen = this.#seen.filter((change) => change !== made);
    return made !== undefined;
  }

  /** Resolves when the call was allowed; one that was not, or that fails before, rejects. */
  async #create({ command = '', args = [], env = [], cwd, outputByteLimit }: LoanParams): Promise<object> {
    if (this.#terminals.size >= MAX_TERMINALS) {
      throw fail('over_capacity', `${MAX_TERMINALS} terminals are open; release one`, { limit: MAX_TERMINALS });
    }
    const id = `lent_${this.#made + 1}`;
    const stop = new AbortController();
    const began = Promise.withResolvers<undefined>();
    const ended = Promise.withResolvers<TerminalExit>();
    const limit = Math.min(outputByteLimit ?? MAX_OUTPUT_CHARACTERS, MAX_OUTPUT_CHARACTERS);
    const terminal: Terminal = { limit, output: '', truncated: false, exit: undefined, stop, ended: ended.promise };
    this.#terminals.set(id, terminal);
    // Some agents send a whole command line as the command, which is for a shell.
    const program = args.length === 0 && /\s/.test(command) ? { command } : { argv: [command, ...args] };
    const input = {
      ...program,
      ...(cwd != null && { cwd }),
      ...(env.length > 0 && { env: Object.fromEntries(env.map(({ name, value }) => [name, value])) }),
      timeout_seconds: SHELL_SECONDS,
    };
    const print = (text: string): void => {
      if (text === '') return;
      this.#print(terminal, text);
      this.#printed(id, text);
    };
    let live = false;
    let allowed = false;
    const running = this.#call('shell', input, {
      signal: stop.signal,
      began() {
        allowed = true;
        began.resolve(undefined);
      },
      output(_stream, text) {
        live = true;
        print(text);
      },
    });
    const finished = running.then((done) => {
      // In a terminal of an editor the output comes with the result.
      if (!live) print(outputOf(done));
      terminal.exit = exitOf(done, stop.signal.aborted || this.#end.signal.aborted);
      ended.resolve(terminal.exit);
      return done;
    });
    try {
      const done = await Promise.race([began.promise, finished]);
      if (done !== undefined && !allowed) succeeded(done);
      return { terminalId: id };
    } catch (error) {
      this.#terminals.delete(id);
      throw error;
    }
  }

  #kill({ stop }: Terminal): object {
    stop.abort(fail('cancelled', 'the agent ended it'));
    return {};
  }

  #print(terminal: Terminal, text: string): void {
    const output = terminal.output + text;
    let cut = Math.max(0, output.length - terminal.limit);
    // Not between the halves of a character.
    if (cut > 0 && /[\uDC00-\uDFFF]/.test(output[cut] ?? '')) cut += 1;
    terminal.output = output.slice(cut);
    terminal.truncated ||= cut > 0;
  }

  /** @throws schema_violation for one that is not there, or was released */
  #terminal({ terminalId = '' }: LoanParams): Terminal {
    const terminal = this.#terminals.get(terminalId);
    if (terminal === undefined) {
      throw fail('schema_violation', `there is no terminal ${terminalId}`, { path: 'terminalId' });
    }
    return terminal;
  }

  /** Calls a tool, once it was allowed. Rejects only where the tools cannot be listed. */
  async #call(
    name: string,
    input: Readonly<Record<string, unknown>>,
    { signal, began, confirmed = false, output = () => {} }: CallOptions = {},
  ): Promise<ToolDone> {
    this.#made += 1;
    const call = { name, input, providerToolName: name, callId: `lent_${this.#made}` };
    const signals = [this.#turn.signal, this.#end.signal, ...(signal === undefined ? [] : [signal])];
    this.#listed ??= this.#toolbox.list();
    await this.#listed;
    const begins: Toolbox = {
      list: () => this.#toolbox.list(),
      find: (wanted) => this.#toolbox.find(wanted),
      call: (...parts) => {
        began?.();
        return this.#toolbox.call(...parts);
      },
    };
    const ask: Turn['ask'] = (request, withdrawn) => this.#turn.ask({ ...request, confirmed }, withdrawn);
    return withApprovals(begins, { ask }).call(call, AbortSignal.any(signals), output);
  }
}

interface CallOptions {
  readonly signal?: AbortSignal;
  /** Called when the call was allowed and is made. */
  readonly began?: () => void;
  /** The user has allowed this very call. */
  readonly confirmed?: boolean;
  readonly output?: (stream: string, text: string) => void;
}

/** The members of a result of `read_file` that are used here. */
interface ReadPart {
  readonly content: string;
  readonly next_offset: number | null;
  readonly next_byte_offset: number | null;
  readonly bom: boolean;
  readonly lossy: boolean;
}

/** Codes of calls that failed before their tool. */
const CODES: Readonly<Record<string, string>> = {
  not_found: 'unknown_tool',
  denied: 'tool_denied',
  expired: 'tool_denied',
  cancelled: 'cancelled',
};

/** Returns the result of a call. @throws the call's failure */
function succeeded({ ok, result, error = 'the call failed' }: ToolDone): object {
  if (ok) return (result ?? {}) as object;
  const { code, status = '', detail } = (result ?? {}) as { code?: string; status?: string; detail?: object };
  const known = code !== undefined && Object.hasOwn(errorTable, code) ? code : (CODES[status] ?? 'tool_error');
  throw new HandfastError(known, error, { detail: { ...detail } });
}

/** Returns the output of a finished call of `shell`, or the reason why it did not run. */
function outputOf({ ok, result, error = '' }: ToolDone): string {
  const { stdout, stderr } = (result ?? {}) as { stdout?: string; stderr?: string };
  if (stdout !== undefined) return stdout + (stderr ?? '');
  return ok ? '' : error;
}

function exitOf({ ok, result }: ToolDone, killed: boolean): TerminalExit {
  const {
    exit_code: code,
    signal,
    detail,
  } = (result ?? {}) as {
    exit_code?: number;
    signal?: string | null;
    detail?: { reason?: string };
  };
  if (typeof signal === 'string') return { exitCode: null, signal };
  if (code !== undefined) return { exitCode: code, signal: null };
  if (killed) return { exitCode: null, signal: 'SIGKILL' };
  if (ok) return { exitCode: 0, signal: null };
  return { exitCode: detail?.reason === 'command_not_found' ? NOT_FOUND : NOT_RUN, signal: null };
}
