/**
 * The MCP servers of one host: those of the configuration, shared or one for each session, and those that agents added to their
 * sessions. Starts them when they are needed, and offers their accepted tools through the tools capability.
 */
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import { orAborted } from '../../base/race.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import type { CallContext, SessionView } from '../../host/context.ts';
import type { McpAnswerer } from '../../mcp/asks.ts';
import type { McpAuthorization } from '../../mcp/authorization.ts';
import type { McpCallOptions } from '../../mcp/connection.ts';
import type { McpAddress, McpLogLevel } from '../../mcp/definition.ts';
import type { EraStore } from '../../mcp/era.ts';
import { McpServer } from '../../mcp/server.ts';
import type { PinStore } from '../../mcp/tool-pins.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import type { ToolsPlugin } from '../tools/plugin.ts';
import type { AnyTool } from '../tools/tool.ts';
import { failure } from './errors.ts';
import { mayUseServer } from './rights.ts';
import { toolOfName } from './tool-name.ts';
import { type CallTool, callError, toolsOf } from './tools.ts';

/** The kinds of questions that a server may ask. */
export type Question = 'sampling' | 'elicitation' | 'roots';

/** A server, as the configuration or an agent describes it. */
export interface ServerSpec {
  /** Its id at this host, a part of the names of its tools. */
  readonly id: string;
  /** A name for people. */
  readonly name: string;
  readonly address: McpAddress;
  /** The sign-in to the server. */
  readonly authorization?: McpAuthorization | undefined;
  readonly cwd: string;
  /** Its tools by their own names; undefined = all. */
  readonly tools?: ((name: string) => boolean) | undefined;
  /** Its resources, by address and name; undefined = all. */
  readonly resources?: ((uri: string, name: string) => boolean) | undefined;
  readonly required: boolean;
  readonly isDisabled: boolean;
  /** True: all sessions share one instance. */
  readonly isShared: boolean;
  /** True: an agent added it to its session. */
  readonly isRegistered: boolean;
  readonly keepRunning: boolean;
  readonly startTimeoutMs?: number | undefined;
  readonly timeoutMs: number;
  /** The least level of its messages. Default: the server decides. */
  readonly logLevel?: McpLogLevel | undefined;
  /** Questions that it may ask the agent whose call runs. */
  readonly mayAsk: readonly Question[];
  /** The folder that it is shown as its root, if it may ask for it. */
  readonly root: string;
  readonly pins: PinStore;
  readonly era: EraStore;
}

/** A server that runs or may run, and its known state. */
export interface Instance {
  readonly spec: ServerSpec;
  readonly server: McpServer;
  /** The session of the instance; undefined: it serves all sessions. */
  readonly session: SessionView | undefined;
  /** Epoch seconds; 0: not connected. */
  connectedAt: number;
  /** Duration of the last reply, milliseconds. */
  lastReplyMs: number;
  /** Numbers of its resources and prompts, as last listed. */
  resources: number;
  prompts: number;
  /** True: it was started once, or failed to start. */
  isSettled: boolean;
}

export interface ServersDeps {
  readonly configured: readonly ServerSpec[];
  readonly tools: ToolsPlugin;
  /** Gets the notifications of servers. */
  readonly onNotification: (instance: Instance, method: string, params: Readonly<Record<string, unknown>>) => void;
  /** Answers questions of a server for a session. */
  readonly answererOf: (session: SessionView, server: string) => McpAnswerer;
  readonly now: () => number;
}

/** Maximum time that a list of tools waits for servers that start for the first time. */
const LIST_WAIT_MS = 10_000;
/** Maximum number of notifications of one server that are passed on per second. */
const NOTIFICATIONS_PER_SECOND = 20;

export class Servers {
  readonly #deps: ServersDeps;
  /** Shared servers of the configuration, by name. */
  readonly #shared = new Map<string, Instance>();
  /** Servers of one session, by its id and their names. */
  readonly #own = new Map<string, Map<string, Instance>>();
  readonly #serverOf = new WeakMap<AnyTool, string>();
  readonly #ending = new Set<Promise<void>>();
  #isStopped = false;

  constructor(deps: ServersDeps) {
    this.#deps = deps;
  }

  /** Returns the server of a tool that all sessions have. */
  serverOf(tool: AnyTool): string | undefined {
    return this.#serverOf.get(tool);
  }

  /** Starts the required servers. Rejects with the error of the first of them that cannot be used. */
  async startRequired(): Promise<void> {
    const required = this.#deps.configured.filter(({ required, isDisabled }) => required && !isDisabled);
    await Promise.all(required.map((spec) => this.#start(this.#instanceOf(spec, undefined))));
  }

  /** Returns the servers that a session may use, running or not, by name. */
  visible(session: SessionView): readonly ServerSpec[] {
    const configured = this.#deps.configured.filter(({ id }) => mayUseServer(session.principal, id));
    const added = [...(this.#own.get(session.id)?.values() ?? [])].filter(({ spec }) => spec.isRegistered);
    return [...configured, ...added.map(({ spec }) => spec)].sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  /** Returns the instance that a session uses, if it exists. */
  known(spec: ServerSpec, session: SessionView): Instance | undefined {
    return spec.isShared ? this.#shared.get(spec.id) : this.#own.get(session.id)?.get(spec.id);
  }

  /**
   * Returns the instance of a server that a session may use, and makes it if necessary. Fails with `mcp_server_not_found`,
   * `mcp_server_unavailable`.
   */
  find(id: string, context: CallContext): Instance {
    const spec = this.visible(context.session).find((each) => each.id === id);
    if (spec === undefined)
      throw failure('server_not_found', `there is no MCP server ${JSON.stringify(id.slice(0, 64))}`);
    return this.#instanceOf(spec, context);
  }

  /** Returns the server in the name of a tool. */
  byToolName(name: string, session: SessionView): ServerSpec | undefined {
    const server = toolOfName(name)?.server;
    return this.visible(session).find(({ id, isDisabled }) => !isDisabled && id === server);
  }

  /**
   * Returns the servers that the session may use. Starts those that were never started, and waits for them, for a bounded time.
   * Rejects only at the end of the host.
   */
  async startAll(context: CallContext): Promise<readonly Instance[]> {
    const usable = this.visible(context.session).filter(({ isDisabled }) => !isDisabled);
    const all = usable.map((spec) => this.#instanceOf(spec, context));
    const starting = all.filter(({ isSettled }) => !isSettled);
    if (starting.length === 0) return all;
    const bound = AbortSignal.any([context.signal, AbortSignal.timeout(LIST_WAIT_MS)]);
    await orAborted(Promise.allSettled(starting.map((instance) => this.#start(instance))), bound).catch(() => {});
    return all;
  }

  /** Starts an instance. Rejects with `mcp_server_unavailable`. */
  async started(instance: Instance, signal?: AbortSignal): Promise<Instance> {
    await this.#start(instance, signal);
    return instance;
  }

  /** Adds a server to a session and starts it. Rejects with `mcp.invalid`, `mcp_server_unavailable`; then it is not added. */
  async register(spec: ServerSpec, context: CallContext): Promise<Instance> {
    const { session } = context;
    if (this.visible(session).some(({ id }) => id === spec.id)) {
      throw failure('invalid', `there is a server ${JSON.stringify(spec.id)} already`, { field: 'server_id' });
    }
    const instance = this.#instanceOf(spec, context);
    try {
      return await this.started(instance, context.signal);
    } catch (error) {
      await this.unregister(spec.id, session);
      throw error;
    }
  }

  /** Removes a server that this session added; resolves with false when it added none of this name. */
  async unregister(id: string, session: SessionView): Promise<boolean> {
    const instance = this.#own.get(session.id)?.get(id);
    if (instance?.spec.isRegistered !== true) return false;
    this.#own.get(session.id)?.delete(id);
    this.#deps.tools.remove(this.#published.get(instance)?.names ?? [], session);
    await instance.server.close();
    return true;
  }

  registered(session: SessionView): number {
    return [...(this.#own.get(session.id)?.values() ?? [])].filter(({ spec }) => spec.isRegistered).length;
  }

  /** Ends the own servers of a session that has ended. */
  endSession(session: SessionView): void {
    const own = this.#own.get(session.id);
    this.#own.delete(session.id);
    for (const { server } of own?.values() ?? []) this.#end(server);
  }

  /** Ends all servers. Bounded by the servers, never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { server } of this.#shared.values()) this.#end(server);
    for (const own of this.#own.values()) for (const { server } of own.values()) this.#end(server);
    await Promise.all(this.#ending);
  }

  #end(server: McpServer): void {
    const ending = server.close().then(() => void this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  /** @param context undefined: for a shared server that the host starts */
  #instanceOf(spec: ServerSpec, context: CallContext | undefined): Instance {
    if (spec.isDisabled)
      throw failure('server_unavailable', `the MCP server ${spec.id} is switched off`, { server: spec.id });
    if (this.#isStopped) throw failure('server_unavailable', 'the host is stopping', { server: spec.id });
    const session = spec.isShared ? undefined : (context as CallContext).session;
    let all = this.#shared;
    if (session !== undefined) {
      all = this.#own.get(session.id) ?? new Map<string, Instance>();
      this.#own.set(session.id, all);
    }
    let instance = all.get(spec.id);
    if (instance === undefined) {
      instance = this.#made(spec, session, context);
      all.set(spec.id, instance);
    }
    return instance;
  }

  #made(spec: ServerSpec, session: SessionView | undefined, context: CallContext | undefined): Instance {
    const bucket = new TokenBucket(() => NOTIFICATIONS_PER_SECOND);
    const server = new McpServer({
      address: spec.address,
      authorization: spec.authorization,
      cwd: spec.cwd,
      startTimeoutMs: spec.startTimeoutMs,
      keepRunning: spec.keepRunning,
      pins: spec.pins,
      era: spec.era,
      logLevel: spec.logLevel,
      allowed: {
        sampling: spec.mayAsk.includes('sampling'),
        elicitation: spec.mayAsk.includes('elicitation'),
        ...(spec.mayAsk.includes('roots') && {
          roots: [{ uri: pathToFileURL(spec.root).href, name: basename(spec.root) }],
        }),
        ...(session !== undefined && { answerer: this.#answererOf(spec, session) }),
      },
      // A program of one session counts as one of its principal.
      ...(session !== undefined &&
        spec.address.stdio && { acquire: (signal: AbortSignal) => (context as CallContext).acquireProcess(signal) }),
      onChange: () => this.#changed(instance),
      onNotification: (method, params) => {
        if (bucket.take()) this.#deps.onNotification(instance, method, params);
      },
    });
    const instance: Instance = {
      spec,
      server,
      session,
      connectedAt: 0,
      lastReplyMs: 0,
      resources: 0,
      prompts: 0,
      isSettled: false,
    };
    return instance;
  }

  /** Returns the answerer of a server; undefined for a server that may ask no agent. */
  #answererOf({ id, mayAsk }: ServerSpec, session: SessionView): McpAnswerer | undefined {
    const asks = mayAsk.some((what) => what !== 'roots');
    return asks ? this.#deps.answererOf(session, id) : undefined;
  }

  async #start(instance: Instance, signal?: AbortSignal): Promise<void> {
    try {
      await instance.server.start(signal);
      await this.#published.get(instance)?.publishing;
    } catch (thrown) {
      if (signal?.aborted === true) throw thrown;
      throw unavailable(thrown, instance);
    } finally {
      instance.isSettled = true;
    }
  }

  /** The offered tools of each instance. */
  readonly #published = new WeakMap<
    Instance,
    { names: readonly string[]; digests: string; publishing: Promise<void> }
  >();

  #changed(instance: Instance): void {
    const { spec, server, session } = instance;
    const isReady = server.health.state === 'ready';
    if (!isReady) instance.connectedAt = 0;
    else if (instance.connectedAt === 0) instance.connectedAt = this.#deps.now();
    if (!isReady) return;
    const offered = server.tools.filter(({ name, pin }) => pin === 'accepted' && spec.tools?.(name) !== false);
    const digests = offered.map(({ digest }) => digest).join();
    const before = this.#published.get(instance) ?? { names: [], digests: '', publishing: Promise.resolve() };
    if (before.digests === digests) return;
    const tools = toolsOf(spec, offered, (tool, args, context, onProgress) =>
      this.#call(instance, tool, args, context, onProgress),
    );
    for (const tool of tools) this.#serverOf.set(tool, spec.id);
    const names = tools.map(({ name }) => name);
    const publishing = before.publishing.then(async () => {
      if (before.names.length > 0) this.#deps.tools.remove(before.names, session);
      await this.#deps.tools.add(tools, session);
    });
    // Names of this plugin's tools are unique, so adding fails only when the host stops.
    this.#published.set(instance, { names, digests, publishing: publishing.catch(() => {}) });
  }

  #call(
    instance: Instance,
    tool: string,
    args: Readonly<Record<string, unknown>>,
    context: CallContext,
    onProgress: Parameters<CallTool>[3],
  ): ReturnType<CallTool> {
    return this.request(instance, context, (server, options) => server.call(tool, args, { ...options, onProgress }));
  }

  /** Makes a request to a server, and starts it if necessary. Rejects with the codes of this capability. */
  async request<Result>(
    instance: Instance,
    context: CallContext,
    work: (server: McpServer, options: McpCallOptions) => Promise<Result>,
  ): Promise<Result> {
    const { server, spec } = instance;
    const startedAt = performance.now();
    const { signal, session } = context;
    const answerer = this.#answererOf(spec, session);
    try {
      return await work(server, { signal, timeoutMs: spec.timeoutMs, answerer });
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      if (server.health.state !== 'ready' && asError(thrown).detail.may_have_run !== true)
        throw unavailable(thrown, instance);
      throw callError(thrown, spec.id, context.idempotent === true);
    } finally {
      instance.lastReplyMs = performance.now() - startedAt;
    }
  }
}

function unavailable(thrown: unknown, { spec, server }: Instance): HandfastError {
  const { message } = asError(thrown);
  const { state, retryInMs, failures } = server.health;
  const detail = { server: spec.id, health: state, failures, retry_after_ms: Math.ceil(retryInMs) };
  return failure('server_unavailable', `the MCP server ${spec.id} cannot be used: ${message}`, detail, thrown);
}
