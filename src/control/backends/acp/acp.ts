/**
 * The `acp` backend: any agent that speaks the Agent Client Protocol, as a child process, one for each session that uses
 * it. Composed by whoever builds the control edge, once per configured agent.
 *
 * A process is kept between the turns of its session, closed when the session is released or was idle for long, and
 * started again when it is needed. The protocol has no way to say something to a running turn, so what is said meanwhile
 * (a steer) is not taken and becomes what late steers become. A turn does not go on after a restart of the server.
 *
 * @see docs/protocol/session-rpc.md#backends
 */
import { loadAcp } from '../../../acp/sdk.ts';
import type { AgentCommand, StartProgram } from '../../../acp/start-program.ts';
import type { Log } from '../../../base/log.ts';
import { fail } from '../../../wire/errors.ts';
import type { Backend, Turn, TurnOutcome } from '../../contract/backend.ts';
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
  /** Most processes at once. Default 16; the longest idle one makes room, and if none is idle the turn fails. */
  readonly maxProcesses?: number;
  /** Most bytes of one message of the agent's. Default 16 MiB: diffs carry whole files. */
  readonly maxMessageBytes?: number;
}

export interface AcpBackendDeps {
  readonly agent: AcpAgent;
  /** `spawnLink` of the subprocess transport. */
  readonly start: StartProgram;
  /** Version of this software, told to the agent. */
  readonly version: string;
  /** Gets what agents write to stderr, at `debug`. */
  readonly log?: Log;
}

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
interface Held {
  readonly agent: AcpSession;
  idle: NodeJS.Timeout | undefined;
}

class AcpBackend implements Backend {
  readonly name: string;
  readonly label: string;
  readonly continues = false;
  readonly #parts: AcpBackendDeps;
  readonly #agent: AcpAgent & typeof DEFAULTS;
  /** By session; the one used longest ago first. */
  readonly #held = new Map<string, Held>();
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
    const held = this.#hold(id);
    try {
      return await held.agent.run(turn);
    } finally {
      this.#rest(id, held);
    }
  }

  modelOf(): null {
    return null;
  }

  release(sessionId: string): void {
    const held = this.#held.get(sessionId);
    if (held !== undefined) void this.#drop(sessionId, held);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#held].map(([id, held]) => this.#drop(id, held)));
  }

  /** The agent of a session, taken out of its idle time. */
  #hold(id: string): Held {
    const known = this.#held.get(id);
    clearTimeout(known?.idle);
    if (known === undefined) this.#makeRoom();
    const { start, version, log } = this.#parts;
    const held = known ?? {
      agent: new AcpSession({
        ...this.#agent,
        start,
        version,
        log: (line) => log?.debug(`the agent ${this.name} says`, { line }),
      }),
      idle: undefined,
    };
    // Last in the order: used now.
    this.#held.delete(id);
    this.#held.set(id, held);
    return held;
  }

  /** Ends the process that has been idle longest when there is no room for another one. */
  #makeRoom(): void {
    const { maxProcesses } = this.#agent;
    if (this.#held.size < maxProcesses) return;
    const idle = [...this.#held].find(([, { agent }]) => !agent.busy);
    if (idle === undefined) {
      throw fail('over_capacity', `${maxProcesses} agents are at work already`, { agent: this.name });
    }
    void this.#drop(...idle);
  }

  #rest(id: string, held: Held): void {
    if (this.#held.get(id) !== held) return;
    // Nothing runs that could be kept; the next turn starts it again.
    if (!held.agent.alive) {
      this.#held.delete(id);
      return;
    }
    held.idle = setTimeout(() => void this.#drop(id, held), this.#agent.idleTimeoutMs).unref();
  }

  async #drop(id: string, held: Held): Promise<void> {
    clearTimeout(held.idle);
    if (this.#held.get(id) === held) this.#held.delete(id);
    await held.agent.close();
  }
}
