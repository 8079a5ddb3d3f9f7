/**
 * The part of a host that one MCP client (or all stateless requests of a principal) uses: an agent session, opened when
 * it is first needed and again when it was lost or ended for idleness, with the lists that clients request repeatedly.
 *
 * Every call is a request of an A2E session: its rights, limits, journal and audit hold.
 */
import type { AgentOptions, AgentSession, GrantedCapability } from '../agent/agent.ts';
import { McpClient } from '../capabilities/mcp/client.ts';
import { SkillClient } from '../capabilities/skill/client.ts';
import { ToolsClient } from '../capabilities/tools/client.ts';
import type { ToolDescription } from '../capabilities/tools/messages.ts';
import type { CallOptions } from '../connection/call.ts';
import { ELICITATION_COMPLETE } from '../mcp/asks.ts';
import { fail } from '../wire/errors.ts';
import { type HeaderParam, headerParamsOf } from './header-params.ts';
import { keyOfResource, MemoryCalls } from './memory-tools.ts';
import { memoryOwnTools, type OwnTool, searchTool, skillOwnTools } from './own-tools.ts';
import { type Asker, cannotAnswer, serveQuestions } from './questions.ts';
import { skillsOf } from './skills.ts';
import { Subscriptions } from './subscriptions.ts';
import { type McpTool, toolOf } from './tool-results.ts';

/** Capabilities that clients are offered something of. */
export const CAPABILITIES = ['tools', 'toolkits', 'memory', 'mcp', 'skill'] as const;

/** Opens a session with the host; called again after the end of the one before. */
export type OpenAgent = (
  capabilities: readonly string[],
  options: Pick<AgentOptions, 'onCapabilityChanged' | 'timeoutMs' | 'agentId'>,
) => Promise<AgentSession>;

/** A change of the host's contents. */
export type Change =
  | { readonly kind: 'tools' | 'prompts' | 'resources' }
  | { readonly kind: 'resource'; readonly uri: string }
  | { readonly kind: 'elicited'; readonly id: string }
  | { readonly kind: 'log'; readonly level: string; readonly logger: string; readonly data: unknown };

/** The tools of a host, as they were last listed. */
export interface ToolTable {
  readonly listed: readonly McpTool[];
  readonly byName: ReadonlyMap<string, ToolDescription>;
  /** Tools that are not of the host itself. */
  readonly own: ReadonlyMap<string, OwnTool>;
  /** Arguments that calls over HTTP repeat in headers, of the tools that have them. */
  readonly headerParams: ReadonlyMap<string, readonly HeaderParam[]>;
}

/** An open session with the clients of the granted capabilities. */
export interface OpenHost {
  readonly agent: AgentSession;
  readonly tools: ToolsClient | undefined;
  readonly memory: MemoryCalls | undefined;
  readonly mcp: McpClient | undefined;
  readonly skill: SkillClient | undefined;
}

/** Returns true if a client may use a tool of the memory, or a skill. */
export type OwnToolRule = (tool: { readonly name: string; readonly risks: readonly string[] }) => boolean;

export class HostSession {
  readonly #openAgent: OpenAgent;
  readonly #permits: OwnToolRule;
  /** Answers questions of the host; those that nothing answers are refused. */
  #ask: Asker = (question) => Promise.reject(cannotAnswer(question));
  /** Further sessions of the same client, which end with this one. */
  readonly #others = new Set<HostSession>();
  readonly #listeners = new Set<(change: Change) => void>();
  #open: OpenHost | undefined;
  #opening: Promise<OpenHost> | undefined;
  #table: ToolTable | undefined;
  #listing: Promise<ToolTable> | undefined;
  /** Tools that are left out of lists and that this client has searched for. */
  readonly #found = new Set<string>();
  /** Number of changes of the tools. */
  #changes = 0;
  readonly #subscriptions = new Subscriptions();
  /** Changes of the memory are announced by now; of the agent session that is open. */
  #watching: Promise<void> | undefined;
  #closed = false;
  #onClosed: (() => void) | undefined;

  /** @param permits default: all granted tools can be used */
  constructor(openAgent: OpenAgent, permits: OwnToolRule = () => true) {
    this.#openAgent = openAgent;
    this.#permits = permits;
  }

  /** Puts the questions of the host to the client from now on. */
  answerBy(ask: Asker): void {
    this.#ask = ask;
  }

  /** Opens a further session with the host in the same way. */
  another(ask: Asker): HostSession {
    const other = new HostSession(this.#openAgent, this.#permits);
    other.answerBy(ask);
    other.#onClosed = () => void this.#others.delete(other);
    this.#others.add(other);
    return other;
  }

  /** Calls `listener` for each change. Returns the function that ends it. */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    if (this.#open !== undefined) void this.#watch(this.#open);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Subscribes a holder to changes of a resource: the client of a session, which is this, or a request that listens.
   * Rejects with `quota_exceeded`, and as the host does for a resource that no server has.
   */
  async subscribe(holder: object, uri: string, signal: AbortSignal): Promise<void> {
    await this.#subscriptions.add(holder, uri, await this.ready(), signal);
  }

  unsubscribe(holder: object, uri: string): void {
    this.#subscriptions.remove(holder, uri, this.#open);
  }

  /** Ends all subscriptions of a holder. */
  unsubscribeAll(holder: object): void {
    this.#subscriptions.release(holder, this.#open);
  }

  isSubscribed(holder: object, uri: string): boolean {
    return this.#subscriptions.has(holder, uri);
  }

  /** Resolves when changes of the memory are announced, where they can be. */
  async watched(): Promise<void> {
    await this.#watch(await this.ready());
  }

  /** Returns the open session, else a promise of it: it rejects as connecting to the host does. */
  ready(): OpenHost | Promise<OpenHost> {
    if (this.#open !== undefined && this.#open.agent.state !== 'closed') return this.#open;
    this.#opening ??= this.#start().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** True until it is closed. */
  get isOpen(): boolean {
    return !this.#closed;
  }

  async #start(): Promise<OpenHost> {
    if (this.#closed) throw fail('connection_lost', 'the session has ended');
    const again = this.#open !== undefined;
    this.#open = undefined;
    this.#watching = undefined;
    this.#forgetTools();
    const agent = await this.#openAgent(CAPABILITIES, {
      agentId: 'mcp',
      // The client decides how long it waits; the host has its own limit.
      timeoutMs: 0,
      onCapabilityChanged: (capability, granted) => {
        this.#reportLosses(granted);
        this.#capabilityChanged(capability);
      },
    });
    if (this.#closed) {
      await agent.close();
      throw fail('connection_lost', 'the session has ended');
    }
    serveQuestions(agent, (question, signal) => this.#ask(question, signal));
    const has = (capability: string): boolean => agent.capabilities.get(capability)?.enabled === true;
    this.#open = {
      agent,
      tools: has('tools') ? new ToolsClient(agent) : undefined,
      memory: has('memory') ? new MemoryCalls(agent) : undefined,
      mcp: has('mcp') ? new McpClient(agent) : undefined,
      skill: has('skill') ? new SkillClient(agent) : undefined,
    };
    this.#open.mcp?.onNotification(({ method, params }) => this.#serverNotified(method, params));
    for (const granted of agent.capabilities.values()) this.#reportLosses(granted);
    if (this.#listeners.size > 0) void this.#watch(this.#open);
    // Contents of the former session may differ from those of this one.
    if (again) {
      this.#capabilityChanged('tools');
      void this.#subscriptions.renew(this.#open);
    }
    return this.#open;
  }

  /** Returns the tools: from the last list, which is renewed after a change. */
  async toolTable(): Promise<ToolTable> {
    const host = await this.ready();
    if (this.#table !== undefined) return this.#table;
    if (this.#listing === undefined) {
      const listing = this.#list(host).finally(() => {
        if (this.#listing === listing) this.#listing = undefined;
      });
      this.#listing = listing;
    }
    return this.#listing;
  }

  /** The last list, if no change occurred since. */
  get knownTools(): ToolTable | undefined {
    return this.#table;
  }

  async #list({ tools, memory, skill }: OpenHost): Promise<ToolTable> {
    const changes = this.#changes;
    const [all, skills] = await Promise.all([tools?.list({ includeDeferred: true }) ?? [], skillsOf(skill)]);
    const byName = new Map(all.map((tool) => [tool.name, tool]));
    const deferred = all.filter(({ name, defer_loading }) => defer_loading === true && !this.#found.has(name));
    const hidden = new Set(deferred);
    const listed = all.filter((tool) => !hidden.has(tool));
    const own = [
      ...(memory === undefined ? [] : memoryOwnTools(memory)),
      ...(skill === undefined ? [] : skillOwnTools(skill, skills)),
    ];
    const others = [
      ...own.filter(({ tool, risks }) => this.#permits({ name: tool.name, risks })),
      ...(tools === undefined || deferred.length === 0
        ? []
        : [searchTool(tools, deferred, (names) => this.#foundTools(names))]),
    ].filter(({ tool }) => !byName.has(tool.name));
    const headerParams = all
      .map(({ name, input_schema }) => [name, headerParamsOf(input_schema)] as const)
      .filter(([, params]) => params.length > 0);
    const table = {
      listed: [...listed.map(toolOf), ...others.map(({ tool }) => tool)],
      byName,
      own: new Map(others.map((each) => [each.tool.name, each])),
      headerParams: new Map(headerParams),
    };
    // A change while it was made may not be in it.
    if (changes === this.#changes) this.#table = table;
    return table;
  }

  close(): void {
    this.#closed = true;
    this.#onClosed?.();
    for (const other of [...this.#others]) other.close();
    this.#listeners.clear();
    void this.#open?.agent.close();
  }

  /** Lists tools that a search found from now on. */
  #foundTools(names: readonly string[]): void {
    for (const name of names) this.#found.add(name);
    this.#capabilityChanged('tools');
  }

  #forgetTools(): void {
    this.#changes += 1;
    this.#table = undefined;
    this.#listing = undefined;
  }

  #capabilityChanged(capability: string): void {
    if (capability === 'skill') this.#notify({ kind: 'prompts' });
    if (capability === 'tools' || capability === 'memory' || capability === 'skill') {
      this.#forgetTools();
      this.#notify({ kind: 'tools' });
    }
    if (capability === 'mcp') {
      this.#notify({ kind: 'prompts' });
      this.#notify({ kind: 'resources' });
    }
  }

  /** Reports databases of the host that lost writes, as log messages. */
  #reportLosses({ metadata: { losses } }: GrantedCapability): void {
    if (!Array.isArray(losses)) return;
    for (const data of losses) this.#notify({ kind: 'log', level: 'error', logger: 'handfast', data });
  }

  /** Watches the memory once a holder subscribes to it. Never rejects: older hosts do not announce its changes. */
  #watch({ memory }: OpenHost): Promise<void> {
    this.#watching ??= Promise.resolve(memory?.watch((names, more) => this.#memoryChanged(names, more))).catch(
      () => {},
    );
    return this.#watching;
  }

  #memoryChanged(names: readonly unknown[], more: boolean): void {
    this.#notify({ kind: 'resources' });
    for (const uri of this.#subscriptions.remembered) {
      if (more || names.includes(keyOfResource(uri))) this.#notify({ kind: 'resource', uri });
    }
  }

  /** Handles a notification of a server behind the host. Its tools arrive as a change of the capability `tools`. */
  #serverNotified(method: string, params: Readonly<Record<string, unknown>>): void {
    if (method === 'notifications/prompts/list_changed') this.#notify({ kind: 'prompts' });
    else if (method === 'notifications/resources/list_changed') this.#notify({ kind: 'resources' });
    else if (method === 'notifications/resources/updated' && typeof params.uri === 'string')
      this.#notify({ kind: 'resource', uri: params.uri });
    else if (method === ELICITATION_COMPLETE && typeof params.elicitationId === 'string')
      this.#notify({ kind: 'elicited', id: params.elicitationId });
    else if (method === 'notifications/message') {
      const { level, logger, data } = params;
      this.#notify({ kind: 'log', level: String(level), logger: String(logger ?? 'mcp'), data });
    }
  }

  #notify(change: Change): void {
    for (const listener of [...this.#listeners]) listener(change);
  }
}

/** Options of a call that ends with its request. */
export const until = (signal: AbortSignal) => ({ signal, timeoutMs: 0 }) satisfies CallOptions;
