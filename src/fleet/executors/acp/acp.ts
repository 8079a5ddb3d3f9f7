/**
 * The `acp` executor: any agent of the Agent Client Protocol, with one process for each conversation. Prefer it where an agent
 * supports the protocol: it reports progress, asks for permission, and can be cancelled.
 *
 * An idle process lives for a few minutes after a turn, because starting one takes seconds.
 * @see docs/fleet-executors.md
 */
import type { StartProgram } from '../../../acp/start-program.ts';
import type { Log } from '../../../base/log.ts';
import { programEnvironment } from '../../../base/program.ts';
import type { AcpConfig } from '../config.ts';
import { ContextMap } from '../context-map.ts';
import type { Execution, Executor, ExecutorContext, ExecutorOutcome, ExecutorTask, Readiness } from '../executor.ts';
import { overheadOf } from '../programs/overhead-turn.ts';
import { findProgram } from '../programs/probe.ts';
import { RunningTurns } from '../running-turns.ts';
import { AcpConversation, type AcpSettings } from './acp-conversation.ts';
import { AcpTurn } from './acp-turn.ts';

export interface AcpExecutorDeps {
  readonly config: AcpConfig;
  /** `spawnLink` of the subprocess transport. */
  readonly start: StartProgram;
  /** Version of this software, sent to the agent. */
  readonly version: string;
  /** File that stores the agent's sessions; undefined: in memory. */
  readonly contextFile: string | undefined;
  readonly log: Log;
}

const DEFAULTS = {
  permissions: 'ask',
  startTimeoutMs: 60_000,
  cancelTimeoutMs: 5000,
} as const;

/** Maximum number of idle processes, and the idle time after which one is stopped. */
const MAX_IDLE = 4;
const IDLE_MS = 5 * 60_000;

/** Makes the executor. Starts nothing. */
export function acpExecutor(parts: AcpExecutorDeps): Executor {
  return new AcpExecutor(parts);
}

interface OpenConversation {
  readonly conversation: AcpConversation;
  idle: NodeJS.Timeout | undefined;
}

class AcpExecutor implements Executor {
  readonly kind = 'acp';
  readonly canSteer = true;
  readonly canAsk = true;
  readonly #parts: AcpExecutorDeps;
  readonly #settings: AcpSettings;
  readonly #contexts: ContextMap<{ readonly session: string }>;
  /** Conversations by context; least recently used first. */
  readonly #open = new Map<string, OpenConversation>();
  readonly #turns = new RunningTurns();
  /** Processes that are being stopped. */
  readonly #closing = new Set<Promise<void>>();

  constructor(parts: AcpExecutorDeps) {
    const { config, contextFile: file, log } = parts;
    this.#parts = parts;
    const given = Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
    this.#settings = { ...DEFAULTS, name: config.command, ...(given as unknown as AcpConfig) };
    this.#contexts = new ContextMap({
      file,
      read: ({ session }) => (typeof session === 'string' && session !== '' ? { session } : undefined),
      damaged: (movedTo) => log.warn('quarantined the damaged conversations of an agent', { movedTo }),
    });
  }

  async probe(): Promise<Readiness> {
    const { command, env } = this.#settings;
    const file = findProgram(command, programEnvironment(env).PATH ?? '');
    return file === undefined
      ? { present: false, detail: `${command} was not found in PATH; install it or set "command" to its path` }
      : { present: true, detail: file };
  }

  hasConversation(contextId: string): boolean {
    return this.#contexts.has(contextId);
  }

  start(task: ExecutorTask, context: ExecutorContext): Execution {
    const inside = this.#turns.inside(context);
    const turn = new AcpTurn(task, inside, this.#settings.permissions);
    const outcome = this.#turns.add(this.#run(task, inside, turn));
    return { outcome, steer: async (text) => turn.steer(text) };
  }

  measureOverhead(context: Pick<ExecutorContext, 'cwd' | 'signal'>): Promise<number | null> {
    return overheadOf(this, context, async (contextId) => {
      await this.#drop(contextId);
      await this.#contexts.delete(contextId);
    });
  }

  async stop(): Promise<void> {
    await this.#turns.stop();
    for (const contextId of [...this.#open.keys()]) void this.#drop(contextId);
    await Promise.all(this.#closing);
  }

  async #run(task: ExecutorTask, context: ExecutorContext, turn: AcpTurn): Promise<ExecutorOutcome> {
    const { contextId } = task;
    const open = this.#acquire(contextId);
    const stored = {
      session: this.#contexts.get(contextId)?.session,
      store: (session: string) => this.#contexts.set(contextId, { session }),
    };
    try {
      return await open.conversation.run(task, context, stored, turn);
    } finally {
      this.#release(contextId, open);
    }
  }

  /** Returns the conversation of a context; stops its idle timer. */
  #acquire(contextId: string): OpenConversation {
    const known = this.#open.get(contextId);
    clearTimeout(known?.idle);
    const { start, version, log } = this.#parts;
    const { name } = this.#settings;
    const open = known ?? {
      conversation: new AcpConversation({
        settings: this.#settings,
        start,
        version,
        log: (line) => log.debug(`stderr of the agent ${name}`, { line }),
      }),
      idle: undefined,
    };
    // Move it to the end of the order: used now.
    this.#open.delete(contextId);
    this.#open.set(contextId, open);
    return open;
  }

  /** Starts the idle timer of a conversation, or drops it when its process has ended. */
  #release(contextId: string, open: OpenConversation): void {
    if (!open.conversation.alive || this.#turns.stopped) {
      void this.#drop(contextId);
      return;
    }
    open.idle = setTimeout(() => void this.#drop(contextId), IDLE_MS).unref();
    const idle = [...this.#open].filter(([, { conversation }]) => !conversation.busy);
    for (const [oldest] of idle.slice(0, Math.max(0, idle.length - MAX_IDLE))) void this.#drop(oldest);
  }

  async #drop(contextId: string): Promise<void> {
    const open = this.#open.get(contextId);
    if (open === undefined) return;
    clearTimeout(open.idle);
    this.#open.delete(contextId);
    const closed = open.conversation.close();
    this.#closing.add(closed);
    await closed;
    this.#closing.delete(closed);
  }
}
