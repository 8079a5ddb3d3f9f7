/**
 * Processes as tools of a session's model: it starts a program that the host allows, waits for its end or leaves it running
 * behind the turn, reads its output, writes to it and ends it.
 *
 * They are processes of the session's own A2E session (`session-work.ts`) and end with it. A start is put before the approval
 * rules of the session as a call of `shell`, too: rules about commands hold for it. @see docs/models.md#processes
 */
import { basename } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type { AgentSession } from '../../agent/agent.ts';
import { orAborted, within } from '../../base/race.ts';
import {
  type OutputPiece,
  ProcClient,
  type ProcessExit,
  type ProcessInfo,
  type RemoteProcess,
} from '../../capabilities/proc/client.ts';
import type { CallEvent } from '../../connection/call.ts';
import type { SessionWork } from '../../control/contract/session-log.ts';
import type { CapabilityTool } from '../../control/rounds/environment.ts';
import type { ToolOffer } from '../../control/rounds/toolbox.ts';
import type { WorkEnd, WorkFacts, WorkKeeper } from '../../control/rounds/work.ts';
import { asError, fail } from '../../wire/errors.ts';
import {
  flag,
  foundOffer,
  given,
  type Input,
  MAX_WAIT_SECONDS,
  optionalText,
  text,
  textIn,
  texts,
  textsIn,
  waitMsOf,
  whole,
  wholeIn,
} from './tool-parts.ts';

/** Longest wait of a start where the call names none, in seconds. */
const RUN_SECONDS = 30;
/** The same of a look at the output. */
const OUTPUT_SECONDS = 1;
const MAX_SECONDS = 7 * 24 * 3_600;
const MAX_CHARACTERS = Number.MAX_SAFE_INTEGER;
/** Characters of output in one result. */
const MAX_SHOWN = 16 * 1024;
/** Characters of output that are delivered with an end that no call waited for. */
const MAX_DELIVERED = 4 * 1024;
/** Characters of output that are kept of each process. */
const MAX_KEPT = 256 * 1024;
/** Processes that have ended and whose output is kept. */
const MAX_ENDED = 16;
/** Output after which nothing comes for this long is given to a call that waits for output, in milliseconds. */
const QUIET_MS = 150;
/** Time that the end of a process is waited for after its signal, in milliseconds. */
const END_MS = 2_000;
/** The size of a terminal: lines are seldom cut, and a screen fits in one result. */
const TERMINAL = { cols: 120, rows: 40 } as const;
/** Characters of the rules of programs in a description. */
const MAX_RULES_SHOWN = 600;

const PROCESS = { proc_id: text('Id of the process, as proc_run gave it.') };

const waitFor = (what: string, seconds: number) =>
  whole(`Longest wait for ${what}. 0: do not wait. Default ${seconds}.`, 0, MAX_WAIT_SECONDS);

/** Returns the offers of the tools, all found by search. */
const processOffers = (rules: readonly string[] | undefined): readonly ToolOffer[] => [
  foundOffer(
    'process',
    'proc_run',
    'Starts a program as a process (no shell) in the workspace of the host and waits for its end. A program that has not ended by then runs on in the ' +
      'background, beyond your turn: servers, watchers, long builds. Read it with proc_output. An end that comes after your turn is ' +
      `given to you with the next prompt.${programsShown(rules)}`,
    ['exec'],
    {
      argv: { ...texts('Program and arguments.'), minItems: 1 },
      cwd: text('A folder in the workspace. Left out: the workspace.'),
      interactive: flag(
        'True: proc_write can write to it, and the wait ends with its first output. Default false: its input is empty.',
      ),
      pty: flag(
        'True: as interactive, at a terminal, for programs that want one; its output comes without colours and cursor movements. Default false.',
      ),
      wait_seconds: waitFor('its end', RUN_SECONDS),
      timeout_seconds: whole('Ends it after this time. Default: it runs as long as the session.', 1, MAX_SECONDS),
      stop_with_turn: flag('True: it is ended when the user interrupts this turn. Default false: it continues.'),
    },
    ['argv'],
  ),
  foundOffer(
    'process',
    'proc_output',
    'Gives the output of a process that you have not seen yet, and how the process is; waits for output where there is none.',
    ['reads'],
    {
      ...PROCESS,
      from: whole(
        'Where to read, in characters from the start of the output. Left out: what is new.',
        0,
        MAX_CHARACTERS,
      ),
      wait_seconds: waitFor('output', OUTPUT_SECONDS),
    },
    ['proc_id'],
  ),
  foundOffer(
    'process',
    'proc_write',
    'Writes to the standard input of an interactive process and gives what it writes then.',
    ['exec'],
    {
      ...PROCESS,
      text: { type: 'string', description: 'With its line break.' },
      end: flag('True: the input ends behind it. Default false.'),
      wait_seconds: waitFor('output', OUTPUT_SECONDS),
    },
    ['proc_id', 'text'],
  ),
  foundOffer(
    'process',
    'proc_stop',
    'Ends a process and all that it has started, or sends it another signal.',
    ['reads'],
    { ...PROCESS, signal: text('A signal, such as SIGINT. Left out: SIGTERM, and SIGKILL where it does not end.') },
    ['proc_id'],
  ),
  foundOffer(
    'process',
    'proc_list',
    'Lists the programs that may run, and the processes of this session with their states.',
    ['reads'],
    {},
  ),
];

function programsShown(rules: readonly string[] | undefined): string {
  if (rules === undefined) return '';
  const shown = rules.join(', ');
  return ` Programs: ${shown.length > MAX_RULES_SHOWN ? `${shown.slice(0, MAX_RULES_SHOWN)}…, all by proc_list` : shown}.`;
}

/**
 * Returns the tools for processes of the granted `proc`.
 * @param rules which programs may run; undefined: the host does not say
 */
export function processTools(rules: readonly string[] | undefined): CapabilityTool[] {
  if (rules?.length === 0) return [];
  return processOffers(rules).map((offer) => ({
    offer,
    run: async (input, call) => (await call.lasting()).call(offer.name, input, call),
    ...(offer.risks.includes('exec') && {
      foresee: async ({ interactive, pty, ...input }) => ({
        // Rules about commands do not know the members, so a call that has them without need would be asked for.
        input: { ...input, ...(interactive === true && { interactive }), ...(pty === true && { pty }) },
        risks: offer.risks,
        includes: [programCall(offer.name, input)],
      }),
    }),
  }));
}

/** Returns the program that a call runs, as a call of the tool that runs programs: rules about commands cover these too. */
function programCall(name: string, { argv, cwd }: Input) {
  const call = { name: 'shell', kind: 'proc', risks: ['exec'] };
  if (name === 'proc_run') return { ...call, input: given({ argv, cwd }) };
  // The effect of a text on a program is not known: a shell runs it.
  return { ...call, input: {}, computed: true };
}

/** Returns the end of a process that the host does not know any more. */
const lostProcess = (id: string): WorkEnd => ({
  state: 'interrupted',
  result: { proc_id: id, note: 'it ended with its session at the host' },
});

/** The processes of one session. */
export class SessionProcesses {
  readonly #client: ProcClient;
  readonly #keeper: WorkKeeper;
  /** Processes by id, oldest first. */
  readonly #kept = new Map<string, KeptProcess>();

  constructor(agent: AgentSession, keeper: WorkKeeper) {
    this.#client = new ProcClient(agent);
    this.#keeper = keeper;
  }

  readonly calls: Readonly<
    Record<string, (input: Input, signal: AbortSignal, onEvent: (event: CallEvent) => void) => Promise<unknown>>
  > = {
    proc_run: (input, signal, onEvent) => this.#run(input, signal, onEvent),
    proc_output: ({ proc_id, from, wait_seconds }, signal) => {
      const kept = this.#find(proc_id);
      const at = wholeIn(from, 'from', 0, MAX_CHARACTERS);
      return this.#output(kept, waitMsOf(wait_seconds, OUTPUT_SECONDS), signal, at);
    },
    proc_write: async ({ proc_id, text: written = '', end = false, wait_seconds }, signal) => {
      const kept = this.#find(proc_id);
      const waitMs = waitMsOf(wait_seconds, OUTPUT_SECONDS);
      if (typeof written !== 'string') throw fail('schema_violation', '/text must be a text');
      await kept.child.write(written, { eof: end === true, signal });
      return this.#output(kept, waitMs, signal);
    },
    proc_stop: async ({ proc_id, signal: wanted }, signal) => {
      const kept = this.#find(proc_id);
      const named = optionalText(wanted, 'signal');
      const state = await kept.child.kill(named ?? 'SIGTERM', { signal });
      if (state === 'running' && named === undefined) await kept.child.kill('SIGKILL', { signal });
      if (state === 'running' && named !== undefined) return this.#output(kept, 0, signal);
      await this.#keeper.wait(kept.child.id, END_MS, signal);
      return this.#output(kept, 0, signal);
    },
    proc_list: (_input, signal) => this.#list(signal),
  };

  /** True while a process runs, or has output that the model has not read. */
  get holds(): boolean {
    return this.#kept.values().some((kept) => kept.isWanted);
  }

  /** Waits for the end of a process that an earlier process of the server, or an earlier session with the host, began. */
  async follow({ id }: SessionWork): Promise<WorkEnd> {
    try {
      return await this.#keep(await this.#client.find(id)).ended;
    } catch (error) {
      if (asError(error).code !== 'unknown_proc') throw error;
      return lostProcess(id);
    }
  }

  async #run(input: Input, signal: AbortSignal, onEvent: (event: CallEvent) => void): Promise<unknown> {
    const argv = textsIn(input.argv, 'argv');
    const waitMs = waitMsOf(input.wait_seconds, RUN_SECONDS);
    const seconds = wholeIn(input.timeout_seconds, 'timeout_seconds', 1, MAX_SECONDS) ?? 0;
    const atTerminal = input.pty === true;
    const interactive = atTerminal || input.interactive === true;
    const cwd = optionalText(input.cwd, 'cwd');
    const options = {
      ...given({ cwd }),
      stdin: interactive ? 'pipe' : 'null',
      timeoutMs: seconds * 1000,
      ...(atTerminal && { pty: TERMINAL }),
    } as const;
    const kept = this.#keep(await this.#client.spawn(argv, { ...options, chunks: true }, { signal }), atTerminal);
    const { id } = kept.child;
    const about = argv.join(' ').slice(0, 160);
    const facts: WorkFacts = { id, kind: 'process', name: basename(argv[0] ?? ''), about };
    this.#keeper.begin(facts, kept.ended);
    const shown = kept.onPiece(({ stream, text: message }, seq) =>
      onEvent({ kind: 'log', data: { level: stream, message }, seq }),
    );
    try {
      if (interactive) return await this.#output(kept, waitMs, signal);
      await this.#keeper.wait(id, waitMs, signal);
      return await this.#output(kept, 0, signal);
    } catch (error) {
      if (input.stop_with_turn === true) await kept.child.kill().catch(() => {});
      throw error;
    } finally {
      shown();
    }
  }

  /** Returns the new output of a process, or its output from a position on. */
  async #output(kept: KeptProcess, waitMs: number, signal: AbortSignal, from?: number): Promise<unknown> {
    await kept.quiet(from, waitMs, signal);
    // This result has its end, which is not delivered again.
    if (kept.end !== undefined) await this.#keeper.wait(kept.child.id, 0, signal);
    return { proc_id: kept.child.id, ...(kept.end ?? { state: kept.isLost ? 'lost' : 'running' }), ...kept.read(from) };
  }

  async #list(signal: AbortSignal): Promise<unknown> {
    const [programs, processes] = await Promise.all([
      this.#client.programs({ signal }),
      this.#client.list({}, { signal }),
    ]);
    return {
      ...given({ programs }),
      processes: processes.map((info) => ({
        proc_id: info.proc_id,
        argv: info.argv,
        state: info.state === 'running' ? 'running' : stateOf(exitOf(info)),
        ...(info.exit_code !== null && { exit_code: info.exit_code }),
      })),
    };
  }

  #find(id: unknown): KeptProcess {
    const known = this.#kept.get(textIn(id, 'proc_id'));
    if (known === undefined)
      throw fail('not_found', 'this session keeps no such process; proc_list has those there are');
    return known;
  }

  /** Follows a process to its end. The oldest of those that have ended are no longer kept. */
  #keep(child: RemoteProcess, atTerminal = false): KeptProcess {
    const ended = [...this.#kept].filter(([, { end }]) => end !== undefined);
    for (const [id] of ended.slice(0, Math.max(0, ended.length + 1 - MAX_ENDED))) this.#kept.delete(id);
    const kept = new KeptProcess(child, atTerminal);
    this.#kept.set(child.id, kept);
    return kept;
  }
}

/** The end of a process, as its model gets it. */
type ShownEnd = {
  readonly state: string;
  readonly exit_code: number;
  readonly signal?: string;
  readonly reason?: string;
};

/** A process with the newest of its output. It is read as it comes, so that the process never waits for its reader. */
class KeptProcess {
  readonly child: RemoteProcess;
  /** Rejects when the session with the host ends before it is known how the process did. */
  readonly ended: Promise<WorkEnd>;
  end: ShownEnd | undefined;
  #text = '';
  /** Characters before those that are kept. */
  #start = 0;
  /** Characters up to which the model has the output. */
  #seen = 0;
  /** Nothing more comes. */
  #isOver = false;
  #changed = Promise.withResolvers<void>();
  readonly #listeners = new Set<(piece: OutputPiece, seq: number) => void>();
  readonly #atTerminal: boolean;

  constructor(child: RemoteProcess, atTerminal: boolean) {
    this.child = child;
    this.#atTerminal = atTerminal;
    this.ended = this.#follow();
    // The keeper of the work waits for it, and a call may.
    this.ended.catch(() => {});
  }

  /** True while it runs, or while the model has not read all of its output. */
  get isWanted(): boolean {
    return !this.#isOver || this.#seen < this.#start + this.#text.length;
  }

  /** The session with the host ended before the end of the process was known. */
  get isLost(): boolean {
    return this.#isOver && this.end === undefined;
  }

  /** Calls back with each piece as it comes, until the function that it gives is called. */
  onPiece(listener: (piece: OutputPiece, seq: number) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves when it has output behind a position and no more comes for a moment, at the end, and when the time is over. */
  async quiet(from: number | undefined, ms: number, signal: AbortSignal): Promise<void> {
    const at = from ?? this.#seen;
    const until = performance.now() + ms;
    while (!this.#isOver) {
      const leftMs = until - performance.now();
      if (leftMs <= 0) return;
      const hasNew = this.#start + this.#text.length > at;
      const change = this.#changed.promise.then(() => true);
      const changed = await orAborted(within(change, hasNew ? Math.min(QUIET_MS, leftMs) : leftMs), signal);
      if (hasNew && changed === undefined) return;
    }
  }

  /** Returns output; without a position the newest part that the model has not seen, which is then marked as seen. */
  read(from?: number) {
    const end = this.#start + this.#text.length;
    const wanted = from ?? this.#seen;
    const first = from === undefined ? Math.max(wanted, end - MAX_SHOWN) : wanted;
    const start = Math.min(Math.max(first, this.#start), end);
    const next = Math.min(start + MAX_SHOWN, end);
    this.#seen = Math.max(this.#seen, next);
    const output = this.#shown(this.#text.slice(start - this.#start, next - this.#start));
    return {
      output,
      from: start,
      next,
      ...(start > wanted && { omitted: start - wanted }),
      ...(next < end && { more: true }),
    };
  }

  async #follow(): Promise<WorkEnd> {
    try {
      const exit = await this.#read();
      // Its session ended it, and the host says no more of it.
      if (exit === undefined) throw fail('session_expired', 'the process ended with its session');
      const { code, signal, reason } = exit;
      this.end = {
        state: stateOf(exit),
        exit_code: code,
        ...(signal !== '' && { signal }),
        ...(reason !== 'exited' && reason !== 'signal' && { reason }),
      };
      const last = this.#text.slice(Math.max(this.#seen - this.#start, this.#text.length - MAX_DELIVERED, 0));
      const { state, ...how } = this.end;
      return { state, result: { proc_id: this.child.id, ...how, output: this.#shown(last) } };
    } finally {
      this.#isOver = true;
      this.#changed.resolve();
    }
  }

  /**
   * Returns output as the model gets it: of a terminal only the text. Positions in the output count the characters that the
   * program wrote.
   */
  #shown(text: string): string {
    const plain = this.#atTerminal ? stripVTControlCharacters(text).replaceAll('\r\n', '\n') : text;
    return plain.toWellFormed();
  }

  async #read(): Promise<ProcessExit | undefined> {
    const pieces = this.child.output();
    for (let seq = 0; ; seq++) {
      const { done, value } = await pieces.next();
      if (done) return value;
      this.#text += value.text;
      // Cut seldom: each cut copies.
      if (this.#text.length > 2 * MAX_KEPT) {
        this.#start += this.#text.length - MAX_KEPT;
        this.#text = this.#text.slice(-MAX_KEPT);
      }
      for (const listener of this.#listeners) listener(value, seq);
      this.#changed.resolve();
      this.#changed = Promise.withResolvers<void>();
    }
  }
}

/** States of ends that came from outside; any other end is one of the program itself. */
const STATES: Readonly<Record<string, string>> = {
  killed: 'cancelled',
  session_ended: 'interrupted',
  host_stopped: 'interrupted',
};

const stateOf = ({ code, reason }: Pick<ProcessExit, 'code' | 'reason'>): string =>
  STATES[reason] ?? (code === 0 ? 'completed' : 'failed');

const exitOf = ({ exit_code, reason }: ProcessInfo) => ({ code: exit_code ?? 0, reason });
