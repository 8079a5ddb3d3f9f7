/**
 * The `acp` backend: any agent that speaks the Agent Client Protocol, as a child process, one for each session that uses it.
 * One backend per configured agent.
 *
 * A process lives between the turns of its session, is closed when the session is released or was idle for long, and is
 * started again when it is needed. The protocol cannot steer a running turn, so every steer is a late one. A turn does not
 * continue after a restart of the server.
 *
 * @see docs/protocol/session-rpc.md#backends
 */
import { loadAcp } from '../../../acp/sdk.ts';
import type { AgentCommand, StartProgram } from '../../../acp/start-program.ts';
import type { Log } from '../../../base/log.ts';
import type { ReleaseSlot, SharedSlots } from '../../../base/shared-slots.ts';
import { fail } from '../../../wire/errors.ts';
import type { Backend, Turn, TurnOutcome } from '../../contract/backend.ts';
import type { Environments } from '../../rounds/environments.ts';
import { AcpSession } from './acp-session.ts';

/** A configured agent. */
export interface AcpAgent extends AgentCommand {
  /** The name of the backend, and of the agent in messages. */
  readonly name: string;
  /** A line for people; default: the name. */
  readonly label?: string;
  /** Time to start, and to open a session, in milliseconds. Default 60,000: some agents are fetched when first run. */
  readonly startTimeoutMs?: number;
  /** Time to end a cancelled turn before the process is killed, in milliseconds. Default 5,000. */
  readonly cancelTimeoutMs?: number;
  /** Idle time after which a process is closed, in milliseconds. Default 15 minutes. */
  readonly idleTimeoutMs?: number;
  /** Maximum number of processes at once. Default 16; the longest idle one makes room, and if none is idle the turn fails. */
  readonly maxProcesses?: number;
  /** Maximum number of bytes of one message of the agent's. Default 16 MiB: diffs carry whole files. */
  readonly maxMessageBytes?: number;
}

export interface AcpBackendDeps {
  readonly agent: AcpAgent;
  /** `spawnLink` of the subprocess transport. */
  readonly start: StartProgram;
  /**
   * The processes of this process's principals. An agent holds a slot, and one for each MCP server it starts. Default: no
   * bound.
   */
  readonly processes?: SharedSlots;
  /** The tools of sessions, which serve the agent's requests for files and terminals. Default: it gets neither. */
  readonly environments?: Pick<Environments, 'for' | 'release'> | undefined;
  /** Version of this software, sent to the agent. */
  readonly version: string;
  /** Gets the agents' output on stderr, at `debug`. */
  readonly log?: Log;
}

/** Retry delay in a refusal, milliseconds. */
const RETRY_AFTER_MS = 1_000;

const DEFAULTS = {
  startTimeoutMs: 60_000,
  cancelTimeoutMs: 5000,
  idleTimeoutMs: 15 * 60 * 1000,
  maxProcesses: 16,
  maxMessageBytes: 16 * 1024 * 1024,
};

/** Makes the backend of one agent. Nothing is started before its first turn. */
export function acpBackend(parts: AcpBackendDeps): Backend {
  return new AcpBackend(parts);
}

/** A session's agent, and the timer of its idle time. */
interface AgentEntry {
  /** The principal whose turns it runs. */
  readonly owner: string;
  readonly agent: AcpSession;
  idle: NodeJS.Timeout | undefined;
}

class AcpBackend implements Backend {
  readonly name: string;
  readonly label: string;
  readonly continues = false;
  readonly #parts: AcpBackendDeps;
  readonly #agent: AcpAgent & typeof DEFAULTS;
  /** Agents by session; the one used longest ago first. */
  readonly #agents = new Map<string, AgentEntry>();
  #stopped = false;

  constructor(parts: AcpBackendDeps) {
    const given = Object.entries(parts.agent).filter(([, value]) => value !== undefined);
    this.#agent = { ...DEFAULTS, ...(Object.fromEntries(given) as unknown as AcpAgent) };
    this.#parts = parts;
    this.name = parts.agent.name;
    this.label = parts.agent.label ?? parts.agent.name;
  }

  async preflight(): Promise<void> {
    await loadAcp();
  }

  async run(turn: Turn): Promise<TurnOutcome> {
    if (this.#stopped) throw fail('interrupted', 'the server is stopping');
    const { id } = turn.log.record;
    const entry = this.#hold(id, turn);
    try {
      return await entry.agent.run(turn);
    } finally {
      this.#rest(id, entry);
    }
  }

  modelOf(): null {
    return null;
  }

  release(sessionId: string): void {
    const entry = this.#agents.get(sessionId);
    if (entry !== undefined) void this.#drop(sessionId, entry);
    this.#parts.environments?.release(sessionId);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#agents].map(([id, entry]) => this.#drop(id, entry)));
  }

  /** Returns the agent of a session; stops its idle timer. */
  #hold(id: string, { principal }: Turn): AgentEntry {
    const known = this.#agents.get(id);
    clearTimeout(known?.idle);
    if (known === undefined) this.#makeRoom();
    const { start, version, log, environments } = this.#parts;
    const owner = principal.name;
    const entry = known ?? {
      owner,
      agent: new AcpSession({
        ...this.#agent,
        start,
        version,
        toolboxOf: environments && ((turn) => environments.for(id, { cwd: turn.cwd, principal: turn.principal })),
        acquire: (count, signal) => this.#acquire(owner, count, signal),
        log: (line) => log?.debug(`the agent ${this.name} says`, { line }),
      }),
      idle: undefined,
    };
    // Last in the order: used now.
    this.#agents.delete(id);
    this.#agents.set(id, entry);
    return entry;
  }

  /** Ends the process that has been idle longest when as many run as may. */
  #makeRoom(): void {
    const { maxProcesses } = this.#agent;
    if (this.#agents.size < maxProcesses) return;
    if (this.#dropIdle()) return;
    throw fail('over_capacity', `${maxProcesses} agents are running already; retry when one is idle`, {
      agent: this.name,
      retry_after_ms: RETRY_AFTER_MS,
    });
  }

  /** Waits for the share of a principal, in which its idle agents make room; where all together use too much, any idle one. */
  async #acquire(owner: string, count: number, signal: AbortSignal): Promise<ReleaseSlot> {
    const { processes } = this.#parts;
    if (processes === undefined) return () => {};
    const usedUp = processes.usedUp(owner, count);
    if (usedUp === 'own') this.#dropIdle(owner);
    else if (usedUp === 'all') this.#dropIdle();
    return processes.acquire(owner, signal, { count, waitMs: this.#agent.startTimeoutMs });
  }

  /** Ends the process that has been idle longest, of one principal or of all. False when none is idle. */
  #dropIdle(owner?: string): boolean {
    const idle = [...this.#agents].find(
      ([, entry]) => !entry.agent.busy && (owner === undefined || entry.owner === owner),
    );
    if (idle !== undefined) void this.#drop(...idle);
    return idle !== undefined;
  }

  #rest(id: string, entry: AgentEntry): void {
    if (this.#agents.get(id) !== entry) return;
    // The process has ended; the next turn starts it again.
    if (!entry.agent.alive) {
      this.#agents.delete(id);
      return;
    }
    entry.idle = setTimeout(() => void this.#drop(id, entry), this.#agent.idleTimeoutMs).unref();
  }

  async #drop(id: string, entry: AgentEntry): Promise<void> {
    clearTimeout(entry.idle);
    if (this.#agents.get(id) === entry) this.#agents.delete(id);
    await entry.agent.close();
  }
}
