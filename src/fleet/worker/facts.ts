/**
 * Facts of a worker about itself, always found, never configured: whether its executor could work, the MCP servers that respond
 * and their tools, the state of the repository. Findings are cached, made in parallel, and bounded in time.
 *
 * Decisions and announces rest on them.
 */
import { nameInLine, readableName } from '../../base/git-output.ts';
import type { Log } from '../../base/log.ts';
import type { Clock } from '../../base/timer-queue.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { Executor, Readiness } from '../executors/executor.ts';
import type { Dispatched, RepoState } from '../messages/decoded.ts';
import { canonicalName, isName, MAX_NAMES } from '../messages/names.ts';
import { Cached } from './cached.ts';
import type { McpServerOptions, ProbeFinding, ProbeOptions } from './mcp-servers.ts';
import type { RepositoryReader, TreeState, Unreadable } from './repository/git.ts';

/**
 * Maximum age of a finding for a decision, milliseconds. The tree is read for each that rests on it: its user may have just
 * written.
 */
const MCP_AGE_MS = 30_000;
const EXECUTOR_AGE_MS = 120_000;
/** Maximum age of a finding in a description, milliseconds. */
const TREE_AGE_MS = 1000;
/** A folder that is no repository seldom becomes one. */
const NO_TREE_AGE_MS = 60_000;
/** Findings this old are renewed by the periodic check, so that a decision seldom has to wait for one. */
const MCP_RENEW_MS = 15_000;
const EXECUTOR_RENEW_MS = 60_000;
const PROBE_MS = 3000;
/** Paths that a refusal names, and the longest part of one. */
const MAX_NAMED = 5;
const MAX_NAME = 80;

export interface FactsOptions {
  readonly executor: Executor;
  /** Absolute. */
  readonly cwd: string;
  readonly tools: readonly string[];
  readonly mcpServers: readonly McpServerOptions[];
  /** See `WorkerOptions`. */
  readonly mcpAgeMs?: number | undefined;
  readonly log: Log;
  readonly clock: Clock;
  /** Ends probes under way when the worker stops. */
  readonly signal: AbortSignal;
  /** Longest time that one probe may take, milliseconds. Default 3,000. */
  readonly probeMs?: number;
  readonly repository: Pick<RepositoryReader, 'treeState'>;
  readonly probeServer: (server: McpServerOptions, options: ProbeOptions) => Promise<ProbeFinding>;
}

/** The facts at one moment. Names of servers are canonical. */
export interface FactsNow {
  readonly executor_present: boolean;
  readonly executor_authenticated: boolean | undefined;
  /** The announced names, as their owners spell them. */
  readonly tools: readonly string[];
  readonly mcp_servers: readonly string[];
  readonly mcp_health: ReadonlyMap<string, string>;
  readonly repo_state: RepoState | null;
  /** Some of the paths that differ from the commit, for people; empty: none is known. */
  readonly uncommitted: string;
  readonly head: string | null;
  /** The reason against worktrees for tasks; undefined: git can make them. */
  readonly no_worktree: string | undefined;
  /** Reason why git cannot read the repository. */
  readonly unreadable: Unreadable | undefined;
}

interface Server {
  readonly name: string;
  readonly canonical: string;
  readonly probed: Cached<ProbeFinding>;
}

const UNKNOWN: ProbeFinding = { health: 'unknown', tools: [], detail: 'not probed yet' };

export class Facts {
  readonly #options: FactsOptions;
  readonly #servers: readonly Server[];
  readonly #executor: Cached<Readiness>;
  readonly #tree: Cached<TreeState | null>;
  readonly #ownTools: ReadonlySet<string>;
  /** Servers an executor reported as failing, though they answered a probe: canonical name → its health, and when. */
  readonly #reported = new Map<string, { readonly health: string; readonly at: number }>();
  /** The health that was last logged of a server, by name. */
  readonly #logged = new Map<string, string>();
  #toolsOf: readonly ProbeFinding[] = [];
  #tools: readonly string[] = [];

  constructor(options: FactsOptions) {
    const { executor, cwd, mcpServers, signal, probeMs = PROBE_MS } = options;
    const { monotonic } = options.clock;
    this.#options = options;
    this.#ownTools = new Set(options.tools.map(canonicalName));
    this.#servers = mcpServers.map((server) => ({
      name: server.name,
      canonical: canonicalName(server.name),
      probed: new Cached(() => this.#probeServer(server, { cwd, signal, timeoutMs: probeMs }), UNKNOWN, monotonic),
    }));
    const unprobed: Readiness = { present: false, detail: 'not probed yet' };
    this.#executor = new Cached(() => this.#probeExecutor(executor), unprobed, monotonic);
    this.#tree = new Cached(() => this.#readTree(), null, monotonic);
  }

  /** Renews everything that is too old for a decision. Bounded by the probes. */
  async refresh(): Promise<void> {
    await Promise.all([
      ...this.#servers.map(({ probed }) => renewed(probed, MCP_AGE_MS)),
      renewed(this.#executor, EXECUTOR_AGE_MS),
      renewed(this.#tree, this.#treeAgeMs()),
    ]);
  }

  /** Renews facts for the periodic check, ahead of time. */
  async refreshAhead(): Promise<void> {
    await Promise.all([
      ...this.#servers.map(({ probed }) => renewed(probed, MCP_RENEW_MS)),
      renewed(this.#executor, EXECUTOR_RENEW_MS),
      renewed(this.#tree, this.#treeAgeMs()),
    ]);
  }

  /**
   * Waits for the facts that a decision on this dispatch rests on: undefined when all of them are fresh. Resolves within
   * `boundMs`; a fact that was not found by then counts as it was last found.
   */
  awaited(dispatch: Dispatched, boundMs: number): Promise<void> | undefined {
    const waits: Promise<unknown>[] = [];
    const need = (cached: Cached<unknown>, maxAgeMs: number): void => {
      if (cached.ageMs >= maxAgeMs) waits.push(cached.renew());
    };
    need(this.#executor, EXECUTOR_AGE_MS);
    if (this.#servers.length > 0) {
      const foreign = dispatch.required_capabilities.some((name) => !this.#ownTools.has(name));
      const wanted = new Set(dispatch.required_mcp);
      const { mcpAgeMs = MCP_AGE_MS } = this.#options;
      for (const { canonical, probed } of this.#servers) {
        if (foreign || wanted.has(canonical)) need(probed, mcpAgeMs);
      }
    }
    if (dispatch.access === 'write') {
      if (dispatch.worktree) need(this.#tree, this.#treeAgeMs());
      else if (!this.noRepository) waits.push(this.#tree.refresh());
    }
    if (waits.length === 0) return undefined;
    return new Promise((resolve) => {
      const cancel = this.#options.clock.timer(resolve, boundMs);
      void Promise.all(waits).then(() => {
        cancel();
        resolve();
      });
    });
  }

  now(): FactsNow {
    const { present, authenticated } = this.#executor.value;
    const tree = this.#tree.value;
    return {
      executor_present: present,
      executor_authenticated: authenticated,
      tools: this.#allTools(),
      mcp_servers: this.#servers.map(({ name }) => name),
      mcp_health: new Map(this.#servers.map((server) => [server.canonical, this.#healthOf(server)])),
      repo_state: tree === null || tree.unreadable !== undefined ? null : { branch: tree.branch, clean: tree.clean },
      uncommitted: inWords(tree?.dirty ?? []),
      head: tree?.head ?? null,
      no_worktree: noWorktree(tree),
      unreadable: tree?.unreadable,
    };
  }

  /** Returns the tree as it is, by a check that starts after this call; null: no repository. */
  tree(): Promise<TreeState | null> {
    return this.#tree.refresh();
  }

  /** True when the folder was found to be no repository a while ago at most. */
  get noRepository(): boolean {
    return this.#tree.value === null && this.#tree.ageMs < NO_TREE_AGE_MS;
  }

  /** Notes that the content of the folder may have changed. */
  treeChanged(): void {
    if (!this.noRepository) this.#tree.expire();
  }

  /** Notes that the executor could not be run: it is probed again before the next decision. */
  executorFailed(): void {
    this.#executor.expire();
  }

  /**
   * Takes an executor's report about its MCP servers. The report counts against a probe, never for one; `whole`: it names all.
   */
  executorReported(found: ReadonlyMap<string, string>, whole: boolean): void {
    const at = this.#options.clock.monotonic();
    for (const { canonical } of this.#servers) {
      if (!whole && !found.has(canonical)) continue;
      const health = found.get(canonical);
      if (health === undefined || health === 'ok') this.#reported.delete(canonical);
      else this.#reported.set(canonical, { health, at });
    }
  }

  get executorVersion(): string {
    return this.#executor.value.version ?? '';
  }

  #healthOf({ canonical, probed }: Server): string {
    const report = this.#reported.get(canonical);
    if (report !== undefined && this.#options.clock.monotonic() - report.at < MCP_AGE_MS) return report.health;
    const { health } = probed.value;
    // It worked, but that is too long ago, and it has not responded since.
    return health === 'ok' && probed.ageMs >= 2 * MCP_AGE_MS ? 'timeout' : health;
  }

  /** Returns own tools, then those of servers: by their plain names, and as agents name them, `mcp__server__tool`. */
  #allTools(): readonly string[] {
    const found = this.#servers.map(({ probed }) => probed.value);
    if (found.length === this.#toolsOf.length && found.every((one, index) => one === this.#toolsOf[index])) {
      if (found.length > 0 || this.#tools.length > 0) return this.#tools;
    }
    const names = new Map<string, string>();
    const add = (name: string): void => {
      if (isName(name) && !names.has(canonicalName(name))) names.set(canonicalName(name), name);
    };
    for (const tool of this.#options.tools) add(tool);
    for (const { tools } of found) for (const tool of tools) add(tool);
    for (const [index, { tools }] of found.entries()) {
      for (const tool of tools) add(`mcp__${this.#servers[index]?.canonical}__${tool}`);
    }
    this.#toolsOf = found;
    this.#tools = [...names.values()].slice(0, MAX_NAMES);
    if (names.size > MAX_NAMES) {
      this.#options.log.warn('more tools than an announce may list; the rest is not announced', {
        found: names.size,
        announced: MAX_NAMES,
      });
    }
    return this.#tools;
  }

  #treeAgeMs(): number {
    return this.#tree.value === null ? NO_TREE_AGE_MS : TREE_AGE_MS;
  }

  /** Probes a server; logs the reason why it does not work, once, and when it does again. */
  async #probeServer(server: McpServerOptions, options: ProbeOptions): Promise<ProbeFinding> {
    const finding = await this.#options.probeServer(server, options);
    const { health, detail } = finding;
    const before = this.#logged.get(server.name) ?? 'ok';
    if (health === before || options.signal?.aborted) return finding;
    this.#logged.set(server.name, health);
    const about = { server: server.name, health };
    if (health === 'ok') this.#options.log.info('MCP server works again', about);
    else if (health !== 'disabled') this.#options.log.warn('MCP server does not work', { ...about, reason: detail });
    return finding;
  }

  async #probeExecutor(executor: Executor): Promise<Readiness> {
    const { signal, clock, probeMs = PROBE_MS } = this.#options;
    const late = new AbortController();
    const cancel = clock.timer(() => late.abort(fail('timeout', `no answer within ${probeMs} ms`)), probeMs);
    try {
      return await executor.probe(AbortSignal.any([signal, late.signal]));
    } catch (thrown) {
      return { present: false, detail: asError(thrown).message };
    } finally {
      cancel();
    }
  }

  async #readTree(): Promise<TreeState | null> {
    try {
      return await this.#options.repository.treeState(this.#options.cwd);
    } catch (thrown) {
      const { message: reason, detail } = asError(thrown);
      if (this.#tree.value?.unreadable?.reason !== reason) {
        this.#options.log.warn('state of the repository could not be read', { error: reason });
      }
      // The tree may be dirty, so no task that writes is accepted.
      return {
        branch: null,
        head: null,
        clean: false,
        dirty: [],
        unreadable: { reason, timedOut: detail.timed_out === true },
      };
    }
  }
}

const renewed = <T>(cached: Cached<T>, maxAgeMs: number): Promise<T> | undefined =>
  cached.ageMs >= maxAgeMs ? cached.renew() : undefined;

function inWords(paths: readonly string[]): string {
  const some = paths
    .slice(0, MAX_NAMED)
    .map((path) => nameInLine(readableName(path)).slice(0, MAX_NAME).toWellFormed());
  const more = paths.length > MAX_NAMED ? ` and ${paths.length - MAX_NAMED} more` : '';
  return `${some.join(', ')}${more}`;
}

function noWorktree(tree: TreeState | null): string | undefined {
  if (tree === null) return 'the folder of the worker is not a git repository';
  if (tree.unreadable !== undefined) return tree.unreadable.reason;
  return tree.head === null ? 'the repository has no commit yet: make the first one' : undefined;
}
