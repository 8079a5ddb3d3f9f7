/**
 * The environments of the control edge: the host that serves the tools of each session, opened when a tool is first needed.
 *
 * The server's composition decides how a host is reached: by default one in this process for each working directory and
 * principal, or a host at an address. Unused hosts are stopped above their limit; a session then gets a new one with its next
 * call, because hosts store nothing for it.
 *
 * The A2E session of an idle control session is closed, and no longer counts: the next prompt opens a new one. It stays while
 * something would be lost with it: episodes of environments, subagents, processes, runs, results that no call has read.
 */

import { orAborted, within } from '../../base/race.ts';
import type { Principal } from '../../session/principal.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { PlanEntry, SessionLog } from '../contract/session-log.ts';
import {
  type Borrow,
  type EnvironmentAgent,
  type EnvironmentOptions,
  type EnvironmentToolbox,
  environmentToolbox,
  type LastingHost,
  type OtherCapabilities,
} from './environment.ts';
import { HostQuestions } from './mcp-questions.ts';
import { McpTools, type McpTurn, type OpenMcpServer } from './mcp-tools.ts';
import { tellPlan } from './plan.ts';
import type { Recall } from './recall.ts';
import type { Toolbox } from './toolbox.ts';
import { WorkKeeper } from './work.ts';

/** The place where tools work, and the principal whose rights they have. */
export interface EnvironmentKey {
  /** Absolute path of the working directory: the workspace of an in-process host. */
  readonly cwd: string;
  readonly principal: Principal;
}

/** A host that can be reached. */
export interface Environment {
  /**
   * Opens an A2E session with the tools capability, as the principal of the place.
   * @param session the control session it is for
   * @param questions answer the host's questions to the user of that session
   */
  connect(session?: string, questions?: HostQuestions): Promise<EnvironmentAgent>;
  /** Opens a session for subagents, chains and processes of a control session; absent where the host has none. */
  readonly lasting?: (session: string, keeper: WorkKeeper, questions: HostQuestions) => Promise<LastingHost>;
  /** Ends it, if it is this process's own. Bounded, never rejects. */
  stop(): Promise<void>;
}

export interface EnvironmentsOptions extends EnvironmentOptions {
  /** Finds or starts the host of an environment. Rejects with `unreachable`, `config_invalid`, … */
  readonly open: (place: EnvironmentKey) => Promise<Environment>;
  /** Connects sessions to the MCP servers they name. Default: each is reported as one that cannot be used. */
  readonly openMcpServer?: OpenMcpServer | undefined;
  /** The log of a session, also between its turns; undefined where it is not known yet. Default: never. */
  readonly logOf?: (session: string) => SessionLog | undefined;
  /** Maximum number of hosts at once. Default 64. */
  readonly maxEnvironments?: number;
  /** The A2E session of a control session is closed once it was not used for this long, in milliseconds. Default 45,000. */
  readonly idleMs?: number;
}

const IDLE_MS = 45_000;
/** Idle ones are looked for this often, in milliseconds. */
const SWEEP_MS = 5_000;

/** The host of an environment, and the number of its running uses. */
interface Opened {
  readonly key: string;
  readonly environment: Promise<Environment>;
  busy: number;
  stopped: boolean;
}

/** One control session's A2E session. */
interface LeasedEnvironment {
  readonly session: string;
  readonly place: EnvironmentKey;
  readonly toolbox: EnvironmentToolbox;
  readonly borrow: Borrow;
  readonly keeper: WorkKeeper;
  readonly questions: HostQuestions;
  /** While the plan is followed: resolves when it was read once. */
  planRead?: Promise<void> | undefined;
  /** The session for subagents, chains and processes; opened when the first is needed. */
  lasting?: { readonly opening: Promise<LastingHost>; settled?: LastingHost };
  /** True once its control session was closed: a host opened after that would never be closed. */
  released: boolean;
  /** Running uses. */
  busy: number;
  /** Time of its last use, in milliseconds of a monotonic clock. */
  usedAt: number;
  /** Aborted when the turn that uses the lease has ended. */
  turn?: AbortSignal;
  /** The session that is open or being opened, and where. */
  agent?: { readonly opened: Opened; readonly connecting: Promise<EnvironmentAgent>; settled?: EnvironmentAgent };
}

export class Environments {
  readonly #options: EnvironmentsOptions;
  readonly #maxEnvironments: number;
  /** Hosts by place, the longest unused first. */
  readonly #opened = new Map<string, Opened>();
  /** A2E sessions by control session. */
  readonly #leased = new Map<string, LeasedEnvironment>();
  readonly #mcp: McpTools;
  readonly #stopping = new Set<Promise<void>>();
  readonly #idleMs: number;
  #sweeper: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: EnvironmentsOptions) {
    this.#options = options;
    this.#idleMs = options.idleMs ?? IDLE_MS;
    this.#mcp = new McpTools(options.openMcpServer ?? noMcp);
    this.#maxEnvironments = options.maxEnvironments ?? 64;
  }

  /**
   * The toolbox of a control session. Nothing is opened before it is used.
   * @param turn with it: the tools of the session's MCP servers too
   */
  for(session: string, place: EnvironmentKey, turn?: McpTurn): Toolbox {
    const leased = this.#leasedOf(session, place);
    const own = leased.toolbox;
    if (turn !== undefined) {
      begins(turn, leased);
      own.renew();
    }
    return turn?.settings.mcpServers?.length ? this.#mcp.join(own, turn) : own;
  }

  /** Returns the memory of the host of a control session, as a search for entries to recall. */
  recallOf(session: string, place: EnvironmentKey): Recall {
    const { borrow } = this.#leasedOf(session, place);
    return (text, options) => withOthers(borrow, async (others) => others?.recall?.(text, options));
  }

  /** Stores the plan of a control session with its host; does nothing where that has no planning. */
  async putPlan(
    session: string,
    place: EnvironmentKey,
    entries: readonly PlanEntry[],
    signal: AbortSignal,
  ): Promise<void> {
    const leased = this.#leasedOf(session, place);
    await withOthers(leased.borrow, async (others) =>
      others?.plan?.(session).put(entries, { signal, timeoutMs: PLAN_TIMEOUT_MS }),
    );
    void this.#followPlan(leased);
  }

  /**
   * Gives the model of a turn the news since its last one: results of its subagents, chains and processes, changes of its task
   * list by others. Never rejects.
   */
  async deliver(turn: McpTurn): Promise<void> {
    const { log, cwd, principal } = turn;
    const { id, work, plan } = log.record;
    if (work.length === 0 && plan === null) return;
    const leased = this.#leasedOf(id, { cwd, principal });
    begins(turn, leased);
    if (plan !== null) {
      await orAborted(within(this.#followPlan(leased), PLAN_WAIT_MS), turn.signal).catch(() => {});
      tellPlan(turn);
    }
    if (work.length > 0)
      await leased.keeper.deliver(turn, async (work) => (await this.#lastingOf(leased)).follow(work));
  }

  /** Takes over changes by others in the plan of a session. Resolves when it was read once, or cannot be; never rejects. */
  #followPlan(leased: LeasedEnvironment): Promise<void> {
    leased.planRead ??= new Promise((read) => {
      const follow = async (): Promise<void> => {
        const others = await leased.borrow(async (agent) => agent.others?.());
        const log = () => this.#options.logOf?.(leased.session);
        const changes = others?.plan?.(leased.session).follow(() => log()?.record.plan?.entries ?? NO_ENTRIES) ?? [];
        for await (const entries of changes) {
          if (leased.released) return;
          if (entries !== undefined) log()?.emit('session.plan', { entries, elsewhere: true });
          read();
        }
      };
      // The session with the host has ended: the next turn, or the next list of the model, begins again.
      void follow()
        .catch(() => {})
        .then(() => {
          leased.planRead = undefined;
          read();
        });
    });
    return leased.planRead;
  }

  #leasedOf(session: string, place: EnvironmentKey): LeasedEnvironment {
    const leased = this.#leased.get(session);
    if (leased !== undefined && keyOf(leased.place) === keyOf(place)) {
      leased.usedAt = performance.now();
      return leased;
    }
    if (leased !== undefined) this.release(session);
    const borrow: Borrow = (work) => this.#borrow(this.#current(fresh), work);
    const hold = (): (() => void) => {
      const leased = this.#current(fresh);
      leased.busy += 1;
      return () => {
        leased.busy -= 1;
        leased.usedAt = performance.now();
      };
    };
    const lasting = (): Promise<LastingHost> => this.#lastingOf(this.#current(fresh));
    const toolbox = environmentToolbox(borrow, { ...this.#options, lasting, hold });
    const keeper = new WorkKeeper(() => this.#options.logOf?.(session));
    const fresh: LeasedEnvironment = {
      session,
      place,
      toolbox,
      borrow,
      keeper,
      questions: new HostQuestions(),
      released: false,
      busy: 0,
      usedAt: performance.now(),
    };
    this.#hold(fresh);
    return fresh;
  }

  #hold(leased: LeasedEnvironment): void {
    this.#leased.set(leased.session, leased);
    this.#sweeper ??= setInterval(() => this.#sweep(), Math.min(SWEEP_MS, this.#idleMs)).unref();
  }

  /** Returns the environment for a toolbox that was made before its session became idle. */
  #current(leased: LeasedEnvironment): LeasedEnvironment {
    if (leased.released || this.#closed) return leased;
    const known = this.#leased.get(leased.session);
    if (known !== undefined && keyOf(known.place) === keyOf(leased.place)) return known;
    if (known === undefined) this.#hold(leased);
    return leased;
  }

  /** Closes the A2E sessions of control sessions that are idle. */
  #sweep(): void {
    const now = performance.now();
    for (const leased of this.#leased.values()) {
      if (isUsed(leased)) leased.usedAt = now;
      else if (now - leased.usedAt >= this.#idleMs) this.#rest(leased);
    }
    if (this.#leased.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  /** Closes the A2E session of a control session; its next use opens it again. */
  #rest(leased: LeasedEnvironment): void {
    this.#leased.delete(leased.session);
    const { lasting, agent } = leased;
    leased.lasting = undefined;
    leased.agent = undefined;
    if (lasting !== undefined) this.#end(closeAgent(lasting.opening));
    if (agent !== undefined) this.#end(closeAgent(agent.connecting));
  }

  /** Closes idle sessions when the host has no place for a further one. False when none is idle. */
  async #makeRoom(): Promise<boolean> {
    const idle = [...this.#leased.values()].filter((leased) => leased.agent !== undefined && !isUsed(leased));
    const oldest = idle.sort((one, other) => one.usedAt - other.usedAt).slice(0, ROOM);
    for (const leased of oldest) this.#rest(leased);
    await Promise.all(this.#stopping);
    return oldest.length > 0;
  }

  /** Ends the A2E session of a control session that was closed. */
  release(session: string): void {
    this.#end(this.#mcp.release(session));
    const leased = this.#leased.get(session);
    if (leased === undefined) return;
    this.#leased.delete(session);
    leased.released = true;
    leased.keeper.close();
    if (leased.lasting !== undefined) this.#end(closeAgent(leased.lasting.opening));
    if (leased.agent !== undefined) this.#end(closeAgent(leased.agent.connecting));
  }

  /** Ends every session and every host. Bounded by them, never rejects; later uses fail with `interrupted`. */
  async stop(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    for (const session of [...this.#leased.keys()]) this.release(session);
    for (const opened of [...this.#opened.values()]) this.#drop(opened);
    this.#end(this.#mcp.stop());
    await Promise.all(this.#stopping);
  }

  async #borrow<Result>(
    leased: LeasedEnvironment,
    work: (agent: EnvironmentAgent) => PromiseLike<Result>,
  ): Promise<Result> {
    if (this.#closed) throw fail('interrupted', 'the server is stopping');
    if (leased.released) throw fail('session_closed', 'the session was closed');
    const opened = this.#open(leased.place);
    opened.busy += 1;
    leased.busy += 1;
    try {
      return await work(await this.#connected(leased, opened));
    } finally {
      opened.busy -= 1;
      leased.busy -= 1;
      leased.usedAt = performance.now();
    }
  }

  /** Returns the session for subagents, chains and processes: the open one, or a new one when that was closed. */
  async #lastingOf(leased: LeasedEnvironment): Promise<LastingHost> {
    if (this.#closed) throw fail('interrupted', 'the server is stopping');
    if (leased.released) throw fail('session_closed', 'the session was closed');
    if (leased.lasting?.settled?.state === 'closed') leased.lasting = undefined;
    if (leased.lasting === undefined) {
      const opening = this.#open(leased.place).environment.then(({ lasting }) => {
        if (lasting === undefined) throw fail('capability_missing', 'the host has no subagents, chains and processes');
        return this.#withRoom(() => lasting(leased.session, leased.keeper, leased.questions));
      });
      const opened: LeasedEnvironment['lasting'] = { opening };
      leased.lasting = opened;
      opening.then(
        (host) => {
          opened.settled = host;
        },
        () => {
          if (leased.lasting === opened) leased.lasting = undefined;
        },
      );
    }
    return leased.lasting.opening;
  }

  /** Returns the host of an environment, marked as most recently used. */
  #open(place: EnvironmentKey): Opened {
    const key = keyOf(place);
    let opened = this.#opened.get(key);
    if (opened === undefined) {
      this.#evictIdle();
      const environment = this.#options.open(place);
      opened = { key, environment, busy: 0, stopped: false };
      const failing = opened;
      // A failed one is removed: the next use tries again.
      environment.catch(() => this.#drop(failing));
    }
    this.#opened.delete(key);
    this.#opened.set(key, opened);
    return opened;
  }

  #evictIdle(): void {
    if (this.#opened.size < this.#maxEnvironments) return;
    const idle = [...this.#opened.values()].find(({ busy }) => busy === 0);
    if (idle === undefined) {
      throw fail('over_capacity', `tools are running in ${this.#opened.size} working directories at once`);
    }
    this.#drop(idle);
  }

  /** Returns the control session's A2E session with this host: the open one, or a new one when that was closed. */
  async #connected(leased: LeasedEnvironment, opened: Opened): Promise<EnvironmentAgent> {
    const { agent } = leased;
    const usable = agent?.opened === opened && !opened.stopped && agent.settled?.state !== 'closed';
    if (agent !== undefined && usable) return agent.connecting;
    if (agent !== undefined) this.#end(closeAgent(agent.connecting));
    const connecting = opened.environment.then((environment) =>
      this.#withRoom(() => environment.connect(leased.session, leased.questions)),
    );
    const current: LeasedEnvironment['agent'] = { opened, connecting };
    leased.agent = current;
    try {
      current.settled = await connecting;
    } catch (error) {
      if (leased.agent === current) leased.agent = undefined;
      throw error;
    }
    return current.settled;
  }

  /** Opens an A2E session; where the host has no place for it, after idle ones have made room. */
  async #withRoom<Opened>(open: () => Promise<Opened>): Promise<Opened> {
    try {
      return await open();
    } catch (error) {
      // The host names the limit that it has reached.
      if (asError(error).detail.session_limit === undefined || !(await this.#makeRoom())) throw error;
      return open();
    }
  }

  #drop(opened: Opened): void {
    if (opened.stopped) return;
    opened.stopped = true;
    if (this.#opened.get(opened.key) === opened) this.#opened.delete(opened.key);
    this.#end(
      opened.environment.then(
        (environment) => environment.stop(),
        () => {},
      ),
    );
  }

  /** Notes work that only `stop` waits for. */
  #end(work: Promise<void>): void {
    const ended = work.then(
      () => {},
      () => {},
    );
    this.#stopping.add(ended);
    void ended.then(() => this.#stopping.delete(ended));
  }
}

/** Begins a turn: from here on the user can be asked in it. */
function begins(turn: McpTurn, leased: LeasedEnvironment): void {
  leased.keeper.during(turn);
  leased.questions.during(turn);
  leased.turn = turn.signal;
}

/** True while a turn runs, a call runs, or something would be lost with the session at the host. */
function isUsed({ place, busy, turn, keeper, agent, lasting }: LeasedEnvironment): boolean {
  if (busy > 0 || turn?.aborted === false || keeper.watches) return true;
  // The host that made a subagent ends its sessions.
  if (place.principal.subagent !== undefined) return true;
  const isOpening = (agent !== undefined && agent.settled === undefined) || (lasting && lasting.settled === undefined);
  return isOpening === true || agent?.settled?.holds?.() === true || lasting?.settled?.holds() === true;
}

/** Idle sessions that are closed at once where a host is full. */
const ROOM = 16;

const NO_ENTRIES: readonly PlanEntry[] = [];
/** A plan that cannot be read costs a turn no more than this, in milliseconds. */
const PLAN_WAIT_MS = 2_000;
/** Longest time to store a plan, in milliseconds. */
const PLAN_TIMEOUT_MS = 10_000;

/** Does work with the other capabilities of a host; undefined stands for none. */
const withOthers = <Result>(
  borrow: Borrow,
  work: (others: OtherCapabilities | undefined) => Promise<Result>,
): Promise<Result> => borrow(async (agent) => work(await agent.others?.()));

const noMcp: OpenMcpServer = async () => {
  throw fail('not_configured', 'this server connects to no MCP servers');
};

async function closeAgent(connecting: Promise<{ close(): Promise<void> }>): Promise<void> {
  const agent = await connecting.catch(() => undefined);
  await agent?.close();
}

/** Returns a key that is equal for places that may share a host. Rights are part of it, not only the name they go by. */
const keyOf = ({ cwd, principal }: EnvironmentKey): string => JSON.stringify([cwd, principal]);
