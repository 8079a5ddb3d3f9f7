/**
 * The proc capability of an agent: `agent.proc`. Present only when the agent asked for `proc`.
 *
 * @see docs/proc.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import * as messages from './messages.ts';
import { costOf } from './output.ts';
import { PlainProcess } from './plain-process.ts';
import * as replies from './proc.replies.generated.ts';
import type { ProcStatus } from './proc.schema.ts';
import type { OutputOptions, OutputPiece, ProcessExit } from './read-output.ts';

export type { OutputOptions, OutputPiece, ProcessExit } from './read-output.ts';

const calls = {
  spawn: answered(messages.procSpawn, replies.ProcSpawnResp),
  write: answered(messages.procWrite, replies.ProcWriteResp),
  kill: answered(messages.procKill, replies.ProcKillResp),
  status: answered(messages.procStatus, replies.ProcStatusResp),
  read: answered(messages.procRead, replies.ProcReadResp),
  ack: answered(messages.procAck, replies.ProcAckResp),
  resize: answered(messages.procResize, replies.ProcResizeResp),
};

/** The known state of a process. */
export type ProcessInfo = Required<Omit<ProcStatus, 'pty'>> & Pick<ProcStatus, 'pty'>;

/** The size of a terminal in characters. */
export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface SpawnOptions {
  /** A folder in the workspace. Default: the workspace. */
  readonly cwd?: string;
  /** Environment variables beside those that every program gets. */
  readonly env?: Readonly<Record<string, string>>;
  /** `null`: its input is empty. Default `pipe`. */
  readonly stdin?: 'pipe' | 'null';
  /** Timeout of the process, milliseconds. Default: none. */
  readonly timeoutMs?: number;
  /**
   * Behaviour while nothing reads its output and the host's store of it is full: the process waits (`pause`, the default), or
   * the oldest output is dropped (`drop`).
   */
  readonly overflow?: 'drop' | 'pause';
  /** True: output in arriving pieces, not line by line: for prompts without a line break. */
  readonly chunks?: boolean;
  /**
   * Runs it at a terminal of this size, not on pipes. All output is then `stdout`, in arriving pieces; `eof` of a write types
   * Ctrl-D. The host needs the package `@lydell/node-pty`.
   */
  readonly pty?: TerminalSize;
  /** Ends the process when it aborts. */
  readonly signal?: AbortSignal;
}

/** Maximum characters, with 64 for each piece, that are sent before they are acknowledged. */
const WINDOW = 256 * 1024;

/** Maximum number of ended processes that are remembered, of a host with A2E 1.0 alone. */
const MAX_ENDED = 64;
/** Maximum time for a killed process to end, and the interval of requests meanwhile. */
const KILL_MS = 2_000;
const ASK_MS = 25;

/** The words of A2E 1.0 for the state of a process, mapped to states. */
const STATES: Readonly<Record<string, ProcessInfo['state']>> = {
  completed: 'stopped',
  failed: 'crashed',
  killed: 'stopped',
};

/** Returns the reply, or throws the refusal of the host. */
function accepted<
  Reply extends { ok: boolean; error?: string; refusal?: { code: string; message: string; detail?: object } },
>(reply: Reply): Reply {
  if (reply.ok) return reply;
  const { refusal, error = '' } = reply;
  if (refusal === undefined) throw failure('denied', error === '' ? 'the host refused' : error);
  throw new HandfastError(refusal.code, refusal.message, { detail: { ...refusal.detail }, capability: 'proc' });
}

export class ProcClient {
  readonly #agent: AgentSession;
  /** Processes of a host with A2E 1.0 alone that this session has started. */
  readonly #plain = new Map<string, PlainProcess>();

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /**
   * Starts a program; no shell is involved. Rejects with `proc.denied`, `proc.invalid`, `proc.not_started`, `proc_limit`,
   * and for a terminal with `unknown_type` where the host has none.
   * @example const child = await agent.proc.spawn(['python3', '-c', 'print(1)'], { timeoutMs: 10_000 });
   */
  async spawn(cmd: readonly string[], options: SpawnOptions = {}, call: CallOptions = {}): Promise<RemoteProcess> {
    const { cwd, env, stdin = 'pipe', timeoutMs = 0, overflow = 'pause', chunks, pty, signal } = options;
    signal?.throwIfAborted();
    if (pty !== undefined) this.#mustHave('proc/resize/req');
    const body = {
      cmd: [...cmd],
      cwd: cwd ?? '',
      env: { ...env },
      stdin_mode: stdin,
      timeout: timeoutMs / 1000,
      stream: false,
      overflow,
      ...(chunks && { chunks }),
      ...(pty && { pty }),
    };
    const plain = isPlain(this.#agent);
    const started = this.#agent.calls.call(calls.spawn, body, {
      ...call,
      ...(signal && !plain && { signal }),
      ...(plain && { keepStream: true, streaming: true }),
    });
    // Before the reply, because output may arrive with it.
    const events = plain ? started[Symbol.asyncIterator]() : undefined;
    const { proc_id, pid } = accepted(await started);
    if (events !== undefined) this.#know(proc_id, new PlainProcess(cmd, pid, { [Symbol.asyncIterator]: () => events }));
    const child = new RemoteProcess(this.#agent, proc_id, pid, this.#plain.get(proc_id));
    const end = (): void => void child.kill().catch(() => {});
    if (signal?.aborted) end();
    else signal?.addEventListener('abort', end, { once: true });
    return child;
  }

  /** Returns the processes of this agent, oldest first; with `all`, those of every agent that its principal reaches. */
  async list({ all = false }: { readonly all?: boolean } = {}, call: CallOptions = {}): Promise<ProcessInfo[]> {
    if (isPlain(this.#agent)) {
      return Promise.all(
        [...this.#plain].map(([id, plain]) => new RemoteProcess(this.#agent, id, plain.pid, plain).info(call)),
      );
    }
    const body = { proc_id: '', ...(all && { all }) };
    const { procs = [] } = await this.#agent.calls.call(calls.status, body, call);
    return procs as ProcessInfo[];
  }

  /** Returns the rules of the programs that this agent may start; undefined: the host does not say. */
  async programs(call: CallOptions = {}): Promise<readonly string[] | undefined> {
    if (isPlain(this.#agent)) return undefined;
    return (await this.#agent.calls.call(calls.status, { proc_id: '' }, call)).programs;
  }

  /** Returns a process that was started before, by this session or another one of the agent. Rejects with `unknown_proc`. */
  async find(id: string, call: CallOptions = {}): Promise<RemoteProcess> {
    const plain = this.#plain.get(id);
    const child = new RemoteProcess(this.#agent, id, plain?.pid ?? 0, plain);
    const { pid } = await child.info(call);
    return new RemoteProcess(this.#agent, id, pid, plain);
  }

  #know(id: string, plain: PlainProcess): void {
    this.#plain.set(id, plain);
    const ended = [...this.#plain].filter(([, { exit }]) => exit !== undefined);
    for (const [old] of ended.slice(0, Math.max(0, ended.length - MAX_ENDED))) this.#plain.delete(old);
  }

  /** Throws unless the host offers a message: another host would ignore an unknown field. */
  #mustHave(message: string): void {
    const granted = this.#agent.capabilities.get('proc');
    const offered = granted?.metadata.messages;
    if (granted?.enabled !== true || (Array.isArray(offered) && offered.includes(message))) return;
    throw fail('unknown_type', 'this host has no terminals for processes');
  }
}

/** A process of the host. It outlives lost links and ends with the session that started it. */
export class RemoteProcess implements AsyncDisposable {
  readonly id: string;
  /** Its process id on the machine of the host. */
  readonly pid: number;
  readonly #agent: AgentSession;
  readonly #plain: PlainProcess | undefined;

  /** @internal */
  constructor(agent: AgentSession, id: string, pid: number, plain?: PlainProcess) {
    this.#agent = agent;
    this.id = id;
    this.pid = pid;
    this.#plain = plain;
  }

  /**
   * Yields its output, earlier output included, until it has ended and everything was read. Several readers are possible; the
   * process waits for the slowest. Leaving the loop ends the reading, not the process.
   */
  async *output(options: OutputOptions = {}): AsyncGenerator<OutputPiece, ProcessExit | undefined> {
    if (this.#plain !== undefined) return yield* this.#plain.output(options);
    const { from = 0, follow = true, signal } = options;
    const reader = crypto.randomUUID();
    const body = { proc_id: this.id, from, follow, reader, window: WINDOW };
    const call = this.#agent.calls.call(calls.read, body, {
      keepStream: true,
      streaming: true,
      timeoutMs: 0,
      ...(signal && { signal }),
    });
    let exit: ProcessExit | undefined;
    let missed = 0;
    let unread = 0;
    for await (const { kind, data, fields } of call) {
      const { text, seq, code } = data as { text?: string; seq?: number; code?: number };
      if (kind === 'gap') missed = (data as { to: number }).to + 1 - (data as { from: number }).from;
      else if (code !== undefined) {
        const { signal: by = '', reason = 'exited' } = data as { signal?: string; reason?: string };
        exit = { code, signal: by, reason };
      } else if (text !== undefined && seq !== undefined) {
        yield {
          stream: fields?.stream_type === 'stderr' ? 'stderr' : 'stdout',
          text,
          seq,
          ...(missed > 0 && { missed }),
        };
        missed = 0;
        unread += costOf({ text });
        // Acknowledged once its reader asks for more.
        if (unread < WINDOW / 2) continue;
        unread = 0;
        void this.#agent.calls.call(calls.ack, { reader, seq }).catch(() => {});
      }
    }
    return exit;
  }

  /**
   * Waits for its end, and reads output that nothing else reads, so that it can end. Rejects with `unknown_proc`, `cancelled`.
   */
  async wait({ signal }: { readonly signal?: AbortSignal } = {}): Promise<ProcessExit> {
    const reading = this.output(signal ? { signal } : {});
    for (;;) {
      const { done, value } = await reading.next();
      if (!done) continue;
      if (value !== undefined) return value;
      throw failure('dead', 'the process was ended with its session', { proc_id: this.id });
    }
  }

  /** Writes to its input; resolves when the system has the text. Rejects with `proc_dead`, `proc_limit`, `unknown_proc`. */
  async write(data: string, { eof = false, ...call }: CallOptions & { readonly eof?: boolean } = {}): Promise<void> {
    const reply = await this.#agent.calls.call(calls.write, { proc_id: this.id, data, eof }, call);
    if (this.#isSilent(reply)) await this.info(call);
    else accepted(reply);
  }

  /** Closes its input. */
  eof(call: CallOptions = {}): Promise<void> {
    return this.write('', { ...call, eof: true });
  }

  /**
   * Sends a signal to it and all it has started; resolves with its state, two seconds later at the latest. Rejects with
   * `unknown_proc`, and `proc.invalid` for an unknown signal.
   */
  async kill(signal = 'SIGTERM', call: CallOptions = {}): Promise<ProcessInfo['state']> {
    const reply = await this.#agent.calls.call(calls.kill, { proc_id: this.id, signal }, call);
    if (!this.#isSilent(reply)) return accepted(reply).state;
    const until = Date.now() + KILL_MS;
    let { state } = await this.info(call);
    while (state === 'running' && Date.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
      ({ state } = await this.info(call));
    }
    if (state !== 'running') this.#plain?.killed(signal);
    return state;
  }

  /**
   * Returns true for a refusal without a text, which the Python SDK's host sends for everything, even for completed requests:
   * then the state of the process decides.
   */
  #isSilent({ ok, error = '', refusal }: { ok: boolean; error?: string; refusal?: object }): boolean {
    return !ok && error === '' && refusal === undefined && isPlain(this.#agent);
  }

  /**
   * Changes the size of its terminal. Rejects with `unknown_proc`, `proc_dead`, and `proc.invalid` for one without a terminal.
   */
  async resize({ cols, rows }: TerminalSize, call: CallOptions = {}): Promise<void> {
    await this.#agent.calls.call(calls.resize, { proc_id: this.id, cols, rows }, call);
  }

  /** Returns its present state. Rejects with `unknown_proc`. */
  async info(call: CallOptions = {}): Promise<ProcessInfo> {
    const { procs, status, error } = await this.#agent.calls.call(calls.status, { proc_id: this.id }, call);
    const [info] = procs ?? [];
    if (info === undefined && status !== 'not_found' && isPlain(this.#agent)) return this.#plainInfo(status, error);
    // The code comes first in the text of A2E 1.0.
    if (info === undefined) throw failure('unknown', error.replace(/^unknown_proc: /, ''), { proc_id: this.id });
    return info as ProcessInfo;
  }

  /** Combines the state that A2E 1.0 reports with the state known here. */
  #plainInfo(status: string, error: string): ProcessInfo {
    const known = this.#plain;
    const exit = known?.exit;
    const isLate = status === 'killed' && /^time(d out|out)$/.test(error);
    return {
      proc_id: this.id,
      cmd: known?.argv.join(' ') ?? '',
      argv: [...(known?.argv ?? [])],
      state: isLate ? 'timedout' : (STATES[status] ?? status),
      pid: this.pid,
      exit_code: exit?.code ?? null,
      started_at: known?.startedAt ?? 0,
      ended_at: 0,
      agent_id: '',
      principal: '',
      signal: exit?.signal ?? '',
      reason: exit?.reason ?? '',
      limits: {},
      output: known?.stored ?? { first: 0, next: 0, bytes: 0, paused: false },
    };
  }

  /** Kills it with SIGKILL. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill('SIGKILL').catch(() => {});
  }
}

/** Returns true for a host with A2E 1.0 alone, which has no request for output. */
function isPlain(agent: AgentSession): boolean {
  const messages = agent.capabilities.get('proc')?.metadata.messages;
  return !Array.isArray(messages) || !messages.includes('proc/read/req');
}
