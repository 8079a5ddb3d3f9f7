/**
 * Runs a command-line agent, one process for each turn: the common part of these executors. The adapter makes the arguments
 * and reads the output. This file has the rest: the environment, the stored conversation, one retry if the conversation was
 * not found, the ending of a turn, and the failure of a turn without output.
 */

import type { Log } from '../../../base/log.ts';
import { type ProgramEnd, programEnvironment, startProgram } from '../../../base/program.ts';
import { orAborted } from '../../../base/race.ts';
import { asError } from '../../../wire/errors.ts';
import type { ProgramConfig } from '../config.ts';
import { ContextMap } from '../context-map.ts';
import type { Execution, Executor, ExecutorContext, ExecutorOutcome, ExecutorTask, Readiness } from '../executor.ts';
import { RunningTurns } from '../running-turns.ts';
import { UNKNOWN_USAGE } from '../usage.ts';
import {
  type Cli,
  type CliReader,
  type CliReply,
  type CliTurn,
  environmentValues,
  readConversation,
  type StoredConversation,
  summaryOfStderr,
} from './cli.ts';
import { filterFlags } from './flags.ts';
import { overheadOf } from './overhead-turn.ts';
import { probeProgram } from './probe.ts';
import { withPrompt } from './prompt-argument.ts';

export interface ProgramExecutorDeps {
  readonly cli: Cli;
  readonly config: ProgramConfig;
  /** File that stores its conversations; undefined: in memory. */
  readonly contextFile: string | undefined;
  /** Folder for prompts that are too long to be an argument. */
  readonly promptFolder: string;
  /** Returns whether the user trusts the settings and MCP servers that a working directory brings. Default: always. */
  readonly trustsFolder?: (cwd: string) => Promise<boolean>;
  readonly log: Log;
}

/** Makes the executor. Warns of arguments that are left out. */
export function programExecutor(parts: ProgramExecutorDeps): Executor {
  return new ProgramExecutor(parts);
}

/** An ended run. */
interface Run {
  readonly reader: CliReader;
  readonly end: ProgramEnd;
}

class ProgramExecutor implements Executor {
  readonly kind: string;
  readonly canSteer = false;
  readonly canAsk = false;
  readonly #cli: Cli;
  readonly #deps: ProgramExecutorDeps;
  readonly #extra: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #contexts: ContextMap<StoredConversation>;
  readonly #turns = new RunningTurns();
  /** The latest exclusive turn; the next one waits for it. */
  #exclusiveTurn: Promise<unknown> = Promise.resolve();

  constructor(parts: ProgramExecutorDeps) {
    const { cli, config, contextFile: file, log } = parts;
    this.kind = cli.kind;
    this.#cli = cli;
    this.#deps = parts;
    this.#env = programEnvironment(config.env);
    const { kept, dropped } = filterFlags(config.args ?? [], cli.owned);
    this.#extra = kept;
    if (dropped.length > 0) log.warn(`ignored arguments that the ${cli.kind} adapter sets itself`, { dropped });
    const damaged = (movedTo: string): void =>
      log.warn(`quarantined the damaged conversations of ${cli.kind}`, { movedTo });
    this.#contexts = new ContextMap({ file, read: readConversation, damaged });
  }

  probe(signal: AbortSignal): Promise<Readiness> {
    return probeProgram(this.#cli, this.#program, this.#env, signal);
  }

  hasConversation(contextId: string): boolean {
    return this.#contexts.has(contextId);
  }

  start(task: ExecutorTask, context: ExecutorContext): Execution {
    return { outcome: this.#turns.add(this.#outcome(task, this.#turns.inside(context))) };
  }

  measureOverhead(context: Pick<ExecutorContext, 'cwd' | 'signal'>): Promise<number | null> {
    return overheadOf(this, context, (contextId) => this.#contexts.delete(contextId));
  }

  stop(): Promise<void> {
    return this.#turns.stop();
  }

  get #program(): string {
    return this.#deps.config.command ?? this.#cli.program;
  }

  async #outcome(task: ExecutorTask, context: ExecutorContext): Promise<ExecutorOutcome> {
    return withPrompt(task.prompt, this.#deps.promptFolder, async (prompt, asFile) => {
      const usesFolder = (await this.#deps.trustsFolder?.(context.cwd)) ?? true;
      const turn = {
        task,
        prompt,
        cwd: context.cwd,
        conversation: this.#contexts.get(task.contextId),
        extra: this.#extra,
        environment: context.environment,
        usesFolder,
      };
      const warnings = asFile ? ['the prompt exceeds the length of an argument and was passed in a file'] : [];
      if (!usesFolder) {
        warnings.push(`settings and MCP servers of the folder were not used: it is not trusted (handfast trust add)`);
      }
      try {
        const exclusive = this.#cli.exclusive?.(turn) === true;
        return await (exclusive
          ? this.#exclusive(context.signal, () => this.#turn(turn, context, warnings))
          : this.#turn(turn, context, warnings));
      } catch (error) {
        if (!context.signal.aborted) throw error;
        return { text: '', ending: 'stopped', exitCode: null, usage: UNKNOWN_USAGE };
      }
    });
  }

  /** Runs it after the other exclusive turns; `signal` aborts the wait. */
  async #exclusive<Result>(signal: AbortSignal, run: () => Promise<Result>): Promise<Result> {
    const before = this.#exclusiveTurn;
    const mine = Promise.withResolvers<void>();
    this.#exclusiveTurn = before.then(() => mine.promise);
    try {
      await orAborted(before, signal);
      return await run();
    } finally {
      mine.resolve();
    }
  }

  async #turn(first: CliTurn, context: ExecutorContext, warnings: string[]): Promise<ExecutorOutcome> {
    const { contextId } = first.task;
    let turn = first;
    let run = await this.#run(turn, context);
    const again = context.signal.aborted ? undefined : run.reader.retry?.(run.end);
    if (again === 'start' && turn.conversation !== undefined) {
      // Remove the invalid id now, even if the second run fails.
      await this.#contexts.delete(contextId);
      warnings.push('the earlier conversation was not found; a new one was started');
      turn = { ...turn, conversation: undefined };
      run = await this.#run(turn, context);
    } else if (again === 'resume' && turn.conversation === undefined) {
      turn = { ...turn, conversation: { session: run.reader.session ?? '' } };
      run = await this.#run(turn, context);
    }
    const reply = await run.reader.finish(run.end, context.signal.aborted || run.end.timedOut);
    await this.#store(contextId, reply, run, warnings);
    return this.#ended(run.end, reply, context.signal.aborted, [...warnings, ...(reply.warnings ?? [])]);
  }

  async #run(turn: CliTurn, { events, signal }: ExecutorContext): Promise<Run> {
    const { contextId } = turn.task;
    const reader = await this.#cli.read(turn, events);
    const onLine = (line: string): void => {
      const before = reader.session;
      reader.line(line);
      // Store the id at once, so that the conversation survives a crash.
      if (reader.session !== undefined && reader.session !== before && reader.session !== turn.conversation?.session) {
        void this.#contexts.set(contextId, { session: reader.session, unfinished: true }).catch(() => {});
      }
    };
    const program = await startProgram({
      argv: [this.#program, ...this.#cli.argv(turn)],
      cwd: turn.cwd,
      env: {
        ...this.#env,
        ...(turn.environment && environmentValues(turn.environment)),
        ...this.#cli.env?.(turn, this.#env),
      },
      signal,
      timeoutMs: this.#cli.killMs,
      keepsEnd: this.#cli.keepsEnd,
      onLine,
    });
    events.started(program.pid);
    events.progress('running', `${this.kind} started`);
    return { reader, end: await program.ended };
  }

  async #store(contextId: string, reply: CliReply, { reader }: Run, warnings: string[]): Promise<void> {
    const conversation =
      reply.conversation ?? (reader.session === undefined ? undefined : { session: reader.session, unfinished: true });
    if (conversation === undefined) return;
    try {
      await this.#contexts.set(contextId, conversation);
    } catch (error) {
      warnings.push(`the conversation could not be stored: ${asError(error).message}`);
    }
  }

  #ended(end: ProgramEnd, reply: CliReply, stopped: boolean, warnings: readonly string[]): ExecutorOutcome {
    const outcome = {
      text: reply.text,
      exitCode: end.code,
      usage: reply.usage,
      ...(reply.facts !== undefined && { facts: reply.facts }),
    };
    const part = this.#cli.keepsEnd ? 'beginning' : 'end';
    const cut = end.truncated ? [`its output exceeds the stored limit; the ${part} is left out`] : [];
    const all = [...warnings, ...cut];
    const withWarnings = (more: readonly string[]): { warnings?: readonly string[] } => {
      const list = [...all, ...more];
      return list.length === 0 ? {} : { warnings: list };
    };
    if (stopped) return { ...outcome, ending: 'stopped', ...withWarnings([]) };
    if (end.timedOut) {
      const late = `${this.kind} was stopped at its timeout of ${Math.round((this.#cli.killMs ?? 0) / 1000)} s`;
      const failure = reply.text.trim() === '' ? { failure: late } : {};
      return { ...outcome, ending: 'limit', ...failure, ...withWarnings([late]) };
    }
    const failure = reply.failure ?? this.#emptyOutput(end, reply);
    return {
      ...outcome,
      ending: reply.ending ?? 'completed',
      ...(failure !== undefined && { failure }),
      ...withWarnings([]),
    };
  }

  /** Returns the failure of a turn without output; undefined when it had some. */
  #emptyOutput({ code, stderr, killedBy }: ProgramEnd, { text }: CliReply): string | undefined {
    if (text.trim() !== '') return undefined;
    const summary = summaryOfStderr(stderr);
    const reason = summary === '' ? '' : `: ${summary}`;
    if (killedBy !== null) return `${this.kind} was ended by ${killedBy}${reason}`;
    if (code !== 0) return `${this.kind} ended with exit code ${code}${reason}`;
    const { signIn } = this.#cli;
    return `empty output: ${this.kind} ended without a reply${signIn === undefined ? '' : `; is it signed in? (${signIn})`}${reason}`;
  }
}
