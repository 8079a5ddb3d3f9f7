/**
 * The processes of all agents of a host: the rights to start them, their number, the rights to find them, and their ends.
 *
 * A process belongs to the session that started it and ends with it, or when the session may no longer use `proc`. Until then
 * it is found by its id, in every session of this agent of this principal, and by administrators.
 */

import { type Child, startChild } from '../../base/child.ts';
import { childEnvironment } from '../../base/child-environment.ts';
import { counted } from '../../base/counted.ts';
import { whyNotStarted } from '../../base/not-started.ts';
import { onceSucceeded } from '../../base/once-succeeded.ts';
import { openTerminal, type PseudoTerminal, type TerminalSize } from '../../base/pseudo-terminal.ts';
import { type LimitsInForce, limitsInForce } from '../../base/system-limits.ts';
import { errnoOf, shown } from '../../base/workspace/file-error.ts';
import { type Covered, covered } from '../../base/workspace/path-cover.ts';
import { holdDirectory } from '../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../host/context.ts';
import type { SessionView } from '../../session/principal.ts';
import { may, variableRights } from '../../session/rights.ts';
import { asError, HandfastError } from '../../wire/errors.ts';
import { type Cgroup, type Cgroups, cgroupsFor } from './cgroups.ts';
import { failure } from './errors.ts';
import type { ProcSpawnReq } from './proc.schema.ts';
import { allEnd, type EndReason, Proc, type ProcOptions } from './process.ts';
import { type Allowed, allowed, type Words } from './programs.ts';

export interface ProcPluginOptions {
  /** Rules of the programs that may run; see `programs.ts`. Default none. */
  readonly programs?: readonly string[] | undefined;
  /** Environment variables of the host that programs get beside the usual ones. */
  readonly passEnv?: readonly string[] | undefined;
  /** Running processes of one principal. Default 16. */
  readonly maxProcesses?: number | undefined;
  /** Ended processes of one agent that can still be read. Default 64. */
  readonly maxEnded?: number | undefined;
  /** Characters of output stored for each process. Default 1 MiB. */
  readonly ringBytes?: number | undefined;
  /** Longest run, seconds. Default none. */
  readonly maxSeconds?: number | undefined;
  /** Bytes of output after which a process is ended. Default none. */
  readonly maxOutputBytes?: number | undefined;
  /** Limits that the system enforces; see `base/system-limits.ts`. Default none. */
  readonly cpuSeconds?: number | undefined;
  readonly memoryBytes?: number | undefined;
  readonly fileBytes?: number | undefined;
  readonly openFiles?: number | undefined;
  /** Limits on a process with all it starts; see `cgroups.ts`. Default none. */
  readonly treeMemoryBytes?: number | undefined;
  readonly treeProcesses?: number | undefined;
  /** Source of passed-on variables. Default: the environment of the host. */
  readonly hostEnvironment?: Readonly<Record<string, string | undefined>>;
  /** Epoch seconds. */
  readonly now?: () => number;
  /** Makes new ids of 32 hex digits. */
  readonly newId?: () => string;
}

/** The grants of a principal within the capability. */
interface ProcGrant {
  /** Rules in place of those of the configuration. */
  readonly programs?: readonly string[];
  readonly max_processes?: number;
}

/** The variable TERM of programs at a terminal. */
const TERMINAL_TYPE = 'xterm-256color';

/** Maximum time that a spawn waits for its share of the processes of the host. */
const SLOT_WAIT_MS = 1_000;

type SpawnFields = Omit<ProcSpawnReq, 'type' | 'id'>;

/** A program to start. */
interface Start {
  readonly words: Words;
  /** The limits of the system to set. */
  readonly inForce: LimitsInForce & Cgroups;
  readonly cwd: string;
  readonly environment: Record<string, string>;
  readonly stdin: string;
  /** The size of its terminal; undefined: it has pipes. */
  readonly size: TerminalSize | undefined;
  /** Called in the turn in which it was started. */
  readonly made: (child: Child, around: Around) => Proc;
}

/** The surroundings of a started program. */
type Around = Pick<ProcOptions, 'terminal' | 'group' | 'isCovered'>;

export class Processes {
  readonly #options: ProcPluginOptions;
  readonly #all = new Map<string, Proc>();
  /** Starts under way, by principal: they count as running. */
  readonly #starting = new Map<string, number>();
  /** The processes of each session that has any. */
  readonly #sessions = new Map<SessionView, Set<Proc>>();

  #limits: (() => Promise<LimitsInForce & Cgroups>) | undefined;

  constructor(options: ProcPluginOptions) {
    this.#options = options;
  }

  /** Starts a process. Fails with `proc.invalid`, `proc.denied`, `proc_limit`, `proc.not_started`. */
  async spawn(request: SpawnFields, context: CallContext): Promise<Proc> {
    const { cmd = [], cwd = '', env = {}, stdin_mode: stdin = 'pipe', timeout = 0, pty: size } = request;
    const [program = '', ...rest] = cmd;
    if (program === '') throw failure('invalid', 'Empty command', { field: 'cmd' });
    if (cmd.some((word) => word.includes('\0'))) {
      throw failure('invalid', 'an argument must not contain a NUL character', { field: 'cmd' });
    }
    if (size !== undefined && stdin === 'null') {
      throw failure('invalid', 'a process with a terminal reads its input from it', { field: 'stdin_mode' });
    }
    const { session } = context;
    const { hostEnvironment = process.env, maxSeconds = 0 } = this.#options;
    const grant = (context.grant ?? {}) as ProcGrant;
    const rules = this.programs(context);
    const added = size === undefined ? env : { TERM: TERMINAL_TYPE, ...env };
    const path = childEnvironment({}, hostEnvironment).PATH ?? '';
    const ways = allowed([program, ...rest], rules, path, context.workspace);
    if (ways.length === 0) {
      throw failure('denied', 'Command not allowed', { program: shown(program), allowed: [...rules] });
    }
    const { words, environment } = await this.#prepared(ways, added, context);
    this.#count(session.principal.name, grant.max_processes);
    try {
      const seconds = maxSeconds === 0 ? timeout : Math.min(timeout || maxSeconds, maxSeconds);
      const inForce = await this.#system(path);
      const limits = { ...inForce.limits, ...(seconds > 0 && { seconds }) };
      // Its output is read from the start on: output that nothing reads when a program exits is dropped.
      const made = (child: Child, around: Around): Proc =>
        this.#proc(child, around, [program, ...rest], request, limits, session);
      const start = { words, inForce, cwd, environment, stdin, size, made };
      const proc = await this.#start(start, context);
      proc.limit(seconds);
      this.#add(proc, session);
      return proc;
    } finally {
      this.#starting.set(session.principal.name, (this.#starting.get(session.principal.name) ?? 1) - 1);
    }
  }

  /** Returns the rules of the programs that a principal may start. */
  programs({ grant }: Pick<CallContext, 'grant'>): readonly string[] {
    return (grant as ProcGrant | undefined)?.programs ?? this.#options.programs ?? [];
  }

  /** Returns a process that the session reaches. Fails with `unknown_proc`. */
  find(id: string, session: SessionView): Proc {
    const proc = this.#all.get(id);
    if (proc !== undefined && (isOwn(proc, session) || may(session.principal, 'administer'))) return proc;
    const name = id.slice(0, 64);
    const message = `there is no process ${JSON.stringify(name)}: processes end with their session and with their host`;
    throw failure('unknown', message, { proc_id: name });
  }

  /** Returns the processes of the agent, oldest first; with `all` those that the principal reaches. */
  list(session: SessionView, all: boolean): Proc[] {
    const reaches = all && may(session.principal, 'administer');
    return [...this.#all.values()].filter((proc) => reaches || isOwn(proc, session));
  }

  /** Ends all processes when the host stops. */
  async stop(): Promise<void> {
    await this.#end([...this.#all.values()], 'host_stopped');
  }

  /** Returns the first of the ways that also allows the variables. Fails with `proc.denied` and `proc.invalid`. */
  async #prepared(ways: readonly Allowed[], added: Readonly<Record<string, string>>, { session }: CallContext) {
    const { hostEnvironment: host = process.env, passEnv = [] } = this.#options;
    const passed = passEnv.flatMap((name) => (host[name] === undefined ? [] : [[name, host[name]]]));
    return refusing('env', () => {
      let refused: unknown;
      for (const { words, rule } of ways) {
        const how = (name: string) => `a rule allows it: ${JSON.stringify([`${name}=*`, ...rule.words].join(' '))}`;
        try {
          const own = childEnvironment(added, host, variableRights(session.principal, rule.sets, how));
          return { words, environment: { ...Object.fromEntries(passed), ...own } as Record<string, string> };
        } catch (error) {
          refused ??= error;
        }
      }
      throw refused;
    });
  }

  #system(path: string): Promise<LimitsInForce & Cgroups> {
    const { cpuSeconds, memoryBytes, fileBytes, openFiles, treeMemoryBytes, treeProcesses } = this.#options;
    const wanted = { cpu_seconds: cpuSeconds, memory_bytes: memoryBytes, file_bytes: fileBytes, open_files: openFiles };
    const ofTree = { tree_memory_bytes: treeMemoryBytes, tree_processes: treeProcesses };
    this.#limits ??= onceSucceeded(async () => {
      const [own, tree] = await Promise.all([limitsInForce(wanted, path), cgroupsFor(ofTree, path)]);
      return { prefix: own.prefix, make: tree.make, limits: { ...own.limits, ...tree.limits } };
    });
    return this.#limits();
  }

  /** Counts a start. Fails with `proc_limit`. */
  #count(principal: string, granted: number | undefined): void {
    const max = granted ?? this.#options.maxProcesses ?? 16;
    const running = this.#all.values().filter((proc) => proc.running && proc.owner.principal === principal);
    const starting = this.#starting.get(principal) ?? 0;
    if ([...running].length + starting >= max) {
      throw failure(
        'limit',
        `${counted(max, 'process of this principal runs', 'processes of this principal run')} already`,
        { limit: 'processes', max },
      );
    }
    this.#starting.set(principal, starting + 1);
  }

  async #start({ words, inForce, cwd, environment, stdin, size, made }: Start, context: CallContext): Promise<Proc> {
    // A missing program is not started through another program.
    const isThere = words[0].startsWith('/');
    const { directory } = await refusing('cwd', () =>
      holdDirectory(context.workspace, cwd === '' ? '.' : cwd, { guard: context.pathGuard }),
    );
    let release: (() => void) | undefined;
    let terminal: PseudoTerminal | undefined;
    let group: Cgroup | undefined;
    let cover: Covered | undefined;
    try {
      release = await context.acquireProcess(context.signal, SLOT_WAIT_MS).catch((thrown: unknown) => {
        context.signal.throwIfAborted();
        const { message } = asError(thrown);
        throw failure('limit', message, { limit: 'processes of the host' }, thrown);
      });
      context.signal.throwIfAborted();
      const { pathGuard: guard, workspace, signal } = context;
      cover = isThere ? await covered(words, { guard, workspace, signal }) : undefined;
      const run = cover?.words ?? words;
      if (size !== undefined && isThere) terminal = opened(size);
      if (isThere) group = inForce.make();
      const argv = isThere ? ([...(group?.prefix ?? []), ...inForce.prefix, ...run] as unknown as Words) : run;
      // The program enters the checked directory before this copy of the descriptor is closed.
      const child = startChild({
        argv,
        cwd: directory.at('.'),
        env: environment,
        stdin: stdin === 'null' ? 'ignore' : 'pipe',
        terminal,
      });
      const proc = made(child, { terminal, group, isCovered: run !== words });
      await child.started;
      const endWatch = cover?.watch(() => {
        context.log.warn('a program was ended: a protected file was replaced while it ran', { program: words[0] });
        void proc.kill('SIGKILL');
      });
      void child.exited.then(endWatch);
      void child.exited.then(release);
      return proc;
    } catch (error) {
      release?.();
      cover?.end();
      terminal?.destroy();
      void group?.end();
      context.signal.throwIfAborted();
      if (error instanceof HandfastError) throw error;
      const reason = errnoOf(error);
      if (reason === undefined) throw error;
      const why =
        reason === 'ENOENT'
          ? 'was not found'
          : reason === 'EACCES'
            ? 'may not be run'
            : `could not be started: ${whyNotStarted(error)}`;
      throw failure('not_started', `"${shown(words[0])}" ${why}`, { reason, program: shown(words[0]) }, error);
    } finally {
      await directory.close();
    }
  }

  #proc(
    child: Child,
    around: Around,
    argv: Words,
    request: SpawnFields,
    limits: Readonly<Record<string, number>>,
    session: SessionView,
  ): Proc {
    const { ringBytes = 1024 * 1024, maxOutputBytes = 0, now = () => Date.now() / 1000 } = this.#options;
    const { newId = () => crypto.randomUUID().replaceAll('-', '') } = this.#options;
    return new Proc(child, {
      id: newId(),
      owner: { principal: session.principal.name, agent: session.agentId },
      argv,
      ringBytes,
      maxOutputBytes,
      limits: { ...limits, ...(maxOutputBytes > 0 && { output_bytes: maxOutputBytes }) },
      pausing: request.overflow === 'pause',
      // Output to a terminal does not consist of lines.
      chunks: request.chunks === true || around.terminal !== undefined,
      ...around,
      size: request.pty,
      now,
    });
  }

  #add(proc: Proc, session: SessionView): void {
    this.#all.set(proc.id, proc);
    let own = this.#sessions.get(session);
    if (own === undefined) {
      own = new Set();
      this.#sessions.set(session, own);
      session.signalOf('proc').addEventListener('abort', () => this.#sessionEnded(session), { once: true });
    }
    own.add(proc);
    void proc.complete.then(() => this.#trim(proc));
    if (session.signalOf('proc').aborted) this.#sessionEnded(session);
  }

  #sessionEnded(session: SessionView): void {
    const own = this.#sessions.get(session) ?? [];
    this.#sessions.delete(session);
    void this.#end([...own], 'session_ended');
  }

  async #end(procs: readonly Proc[], reason: EndReason): Promise<void> {
    for (const proc of procs) proc.abandon();
    await allEnd(procs, reason);
    for (const { id } of procs) this.#all.delete(id);
  }

  /** Deletes the oldest of the ended processes of an agent, and ends processes that they left. */
  #trim({ owner }: Proc): void {
    const ended = [...this.#all.values()].filter(
      (proc) => !proc.running && proc.owner.agent === owner.agent && proc.owner.principal === owner.principal,
    );
    for (const proc of ended.slice(0, Math.max(0, ended.length - (this.#options.maxEnded ?? 64)))) {
      this.#all.delete(proc.id);
      proc.abandon();
      void proc.terminate('killed');
      for (const own of this.#sessions.values()) own.delete(proc);
    }
  }
}

const isOwn = ({ owner }: Proc, { principal, agentId }: SessionView): boolean =>
  owner.principal === principal.name && owner.agent === agentId;

/** Opens a terminal. Fails with `proc.not_started`, whose message names the missing part. */
function opened(size: TerminalSize): PseudoTerminal {
  try {
    return openTerminal(size);
  } catch (thrown) {
    const { message } = thrown as Error;
    const isMissing = thrown instanceof HandfastError;
    const reason = isMissing ? 'not_configured' : 'no_terminal';
    throw failure('not_started', isMissing ? message : `no terminal could be opened: ${message}`, { reason }, thrown);
  }
}

/** Gives an error of the workspace or the environment the code of this capability. */
async function refusing<T>(field: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const { code, message, detail } = asError(thrown);
    if (code !== 'tool_denied' && code !== 'tool_error') throw thrown;
    const { reason, name } = detail;
    const more = { field, reason, ...(name !== undefined && { name }) };
    throw failure(code === 'tool_denied' ? 'denied' : 'invalid', message, more, thrown);
  }
}
