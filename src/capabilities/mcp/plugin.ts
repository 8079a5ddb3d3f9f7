/**
 * The mcp capability of a host: lists, adds and watches MCP servers; and the plugin of tools through which agents call theirs.
 *
 * Host builders call `mcpPlugins()`. Servers are programs with the rights of the host: the configuration and the grants of
 * principals decide which may run.
 * @see docs/mcp.md
 */
import { type Log, silentLog } from '../../base/log.ts';
import type { CallContext, SessionView } from '../../host/context.ts';
import { definePlugin, type Handler, handle, type Plugin } from '../../host/plugin.ts';
import { may } from '../../session/rights.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { ToolCallReq } from '../tools/messages.ts';
import { type ToolsPlugin, toolsPlugin } from '../tools/plugin.ts';
import { Asking } from './asking.ts';
import { Contents } from './contents.ts';
import { EraFile } from './eras.ts';
import { failure } from './errors.ts';
import type { ServerInfo } from './mcp.schema.ts';
import * as messages from './messages.ts';
import { mcpOffer } from './offer.ts';
import { PinFile } from './pins.ts';
import { refusable } from './refusable.ts';
import { mayAccept, mayUseServer, registrable } from './rights.ts';
import { type Instance, type ServerSpec, Servers } from './servers.ts';
import { configuredServer, registeredServer, type ServerSettings } from './spec.ts';
import { MAX_TOOL_NAME, toolOfName } from './tool-name.ts';

export interface McpOptions {
  readonly servers?: readonly ServerSettings[];
  /** Command lines and addresses that administrators may add from an agent. Default none. */
  readonly register?: readonly string[];
  /** Maximum number of servers that one session may add. Default 8. */
  readonly maxServers?: number | undefined;
  /** Maximum number of questions of servers to one session. Default 100. */
  readonly maxAsks?: number | undefined;
  /** Maximum tokens that servers may sample of one session, all together. Default 100,000. */
  readonly maxAskTokens?: number | undefined;
  /** Longest wait for the answer of an agent. Default 120. */
  readonly askTimeoutS?: number | undefined;
  /** Environment variables of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Epoch seconds. */
  readonly now?: () => number;
  readonly newId?: () => string;
}

const MAX_SERVERS = 8;
const MAX_ASKS = 100;
const MAX_ASK_TOKENS = 100_000;
const ASK_TIMEOUT_S = 120;
/** Sent to the sessions that subscribed to the resource. */
const UPDATED = 'notifications/resources/updated';
/** Also written to the log. */
const MESSAGE = 'notifications/message';
const MAX_LOGGED = 500;

/** Returns the plugin of `mcp`, and that of the tools of its servers. Throws `config_invalid`. */
export function mcpPlugins(options: McpOptions = {}): readonly [mcp: Plugin, tools: Plugin] {
  const { servers: settings = [], register = [], maxServers = MAX_SERVERS, env = process.env } = options;
  const { maxAsks = MAX_ASKS, maxAskTokens = MAX_ASK_TOKENS, askTimeoutS = ASK_TIMEOUT_S } = options;
  const { now = () => Date.now() / 1000, newId = () => crypto.randomUUID().slice(0, 8) } = options;
  const twice = settings.find(({ name }, at) => settings.findIndex((other) => other.name === name) !== at);
  if (twice !== undefined) throw fail('config_invalid', `two MCP servers are named ${twice.name}; rename one`);

  const sessions = new Set<SessionView>();
  let servers: Servers | undefined;
  const tools: ToolsPlugin = toolsPlugin({
    name: 'mcp-tools',
    priority: mcpOffer.tools.priority,
    tools: [],
    compile: 'first-call',
    maxName: MAX_TOOL_NAME,
    allows: (principal, tool) => {
      const server = servers?.serverOf(tool);
      return server === undefined || mayUseServer(principal, server);
    },
  });
  const running = (): Servers => servers as Servers;

  const contents = new Contents(running);
  let log: Log = silentLog;
  const notify = (instance: Instance, method: string, params: Readonly<Record<string, unknown>>): void => {
    const { spec, session } = instance;
    if (method === MESSAGE) logMessage(log, spec.id, params);
    const content = { server_id: spec.id, method, params };
    if (method === UPDATED) {
      for (const each of contents.subscribers(instance, String(params.uri))) each.push(messages.serverPush, content);
      return;
    }
    for (const each of session === undefined ? sessions : [session]) {
      if (mayUseServer(each.principal, spec.id) || session !== undefined) each.push(messages.serverPush, content);
    }
  };

  const mcp = definePlugin({
    name: 'mcp',
    type: 'mcp',
    grant: mcpOffer.grant,
    metadata: mcpOffer.metadata,
    async start(context) {
      ({ log } = context);
      const folder = () => context.dataFolder();
      const files = { pins: new PinFile(folder), eras: new EraFile(folder) };
      const configured = settings.map((each) => configuredServer(each, context.workspace, files, env));
      const asking = new Asking({ maxAsks, maxAskTokens, askTimeoutMs: askTimeoutS * 1_000 });
      const answererOf = asking.answererOf.bind(asking);
      servers = new Servers({ configured, tools, onNotification: notify, answererOf, now });
      try {
        await servers.startRequired();
      } catch (error) {
        await servers.stop();
        throw fail('config_invalid', `a required server: ${asError(error).message}`, {}, error);
      }
    },
    async stop() {
      await servers?.stop();
    },
    opened(session) {
      sessions.add(session);
    },
    closed(session) {
      sessions.delete(session);
      contents.endSession(session);
      servers?.endSession(session);
    },
    methods: [
      handle(messages.serverList, ({ status_filter = '' }, { session }) => ({
        servers: running()
          .visible(session)
          .map((spec) => infoOf(spec, running().known(spec, session), session))
          .filter(({ status }) => status_filter === '' || status === status_filter),
      })),
      handle(messages.serverRegister, ({ config = {} }, context) =>
        refusable(context, { ok: false, server: {} }, async () => {
          if (running().registered(context.session) >= maxServers) {
            throw failure('full', `a session may add ${maxServers} MCP servers`, { limit: maxServers });
          }
          const { principal } = context.session;
          const patterns = registrable(principal, register);
          const { workspace, pathGuard: guard } = context;
          const made = { principal, workspace, guard, env, newId };
          const spec = await registeredServer(config, patterns, made);
          const instance = await running().register(spec, context);
          return { ok: true, server: infoOf(spec, instance, context.session), error: '' };
        }),
      ),
      handle(messages.serverUnregister, ({ server_id }, context) =>
        refusable(context, { ok: false, server_id }, async () => {
          if (await running().unregister(server_id, context.session)) return { ok: true, server_id };
          throw failure(
            'server_not_found',
            `this session added no MCP server ${JSON.stringify(server_id.slice(0, 64))}`,
          );
        }),
      ),
      handle(messages.serverAccept, async ({ server_id, tools: names }, context) => {
        const { session } = context;
        const instance = running().find(server_id, context);
        if (!instance.spec.isRegistered && !mayAccept(session.principal)) {
          throw failure('not_allowed', 'this principal may not accept changed tools; its grant mcp.accept is missing');
        }
        await running().started(instance, context.signal);
        const wanted = names === undefined || names.length === 0 ? undefined : names;
        const changed = changedOf(instance).filter((name) => wanted?.includes(name) !== false);
        await instance.server.accept(changed);
        return { server: infoOf(instance.spec, instance, session), accepted: changed };
      }),
      ...contents.methods,
    ],
  });
  const withTools = { ...withServers(tools, running), loadedWith: 'mcp' };
  return [mcp, { ...withTools, stop: undefined, closed: (session) => servers?.endSession(session) }];
}

/** Returns the plugin of tools, which starts servers when a list or a call needs them. */
function withServers(tools: ToolsPlugin, servers: () => Servers): ToolsPlugin {
  const [list, call] = tools.methods as [Handler, Handler];
  const declines = call.declines as NonNullable<Handler['declines']>;
  const wrapped: Handler[] = [
    {
      ...list,
      async run(request: never, context: CallContext) {
        await servers().startAll(context);
        return list.run(request, context);
      },
    },
    {
      ...call,
      declines(request: never, session: SessionView) {
        const declined = declines(request, session);
        return declined && servers().byToolName(nameOf(request), session) ? undefined : declined;
      },
      run(request: never, context: CallContext) {
        const declined = declines(request, context.session);
        return declined === undefined ? call.run(request, context) : startedFirst(request, context, declined);
      },
    },
  ];

  /** Starts the server of an unknown tool, if that is known, and then makes the call. */
  async function startedFirst(request: never, context: CallContext, declined: HandfastError): Promise<object> {
    const name = nameOf(request);
    const { id } = servers().byToolName(name, context.session) as ServerSpec;
    const instance = await servers().started(servers().find(id, context), context.signal);
    if (declines(request, context.session) === undefined) return call.run(request, context);
    const own = toolOfName(name)?.tool ?? '';
    if (!changedOf(instance).includes(own)) {
      throw failure(
        'tool_not_found',
        `the MCP server ${id} has no tool ${JSON.stringify(own.slice(0, 64))}`,
        {},
        declined,
      );
    }
    const message = `the definition of ${JSON.stringify(name)} is not the accepted one; handfast mcp accept ${id} accepts it`;
    throw failure('tool_changed', message, { server: id, tool: name });
  }

  return { ...tools, methods: wrapped };
}

/** Writes a message of a server to the log of the host, at the nearest level of the log. */
function logMessage(log: Log, server: string, { level, logger, data }: Readonly<Record<string, unknown>>): void {
  const known: Readonly<Record<string, keyof Log>> = { debug: 'debug', info: 'info', notice: 'info', warning: 'warn' };
  const text = typeof data === 'string' ? data : (JSON.stringify(data) ?? '');
  const fields = { server, ...(typeof logger === 'string' && { logger: logger.slice(0, 64) }) };
  log[known[String(level)] ?? 'error'](`message of an MCP server: ${text.slice(0, MAX_LOGGED)}`, fields);
}

const nameOf = ({ tool_name = '' }: Partial<ToolCallReq>): string => tool_name;

/** Returns the tools whose definition is not the accepted one. */
const changedOf = ({ server, spec }: Instance): string[] =>
  server.tools.filter(({ name, pin }) => pin !== 'accepted' && spec.tools?.(name) !== false).map(({ name }) => name);

const STATUS = {
  idle: 'disconnected',
  starting: 'connecting',
  ready: 'ready',
  failed: 'error',
  needs_auth: 'error',
  timeout: 'error',
  closed: 'disconnected',
} as const;

function infoOf(spec: ServerSpec, instance: Instance | undefined, { principal }: SessionView): ServerInfo {
  const { id, name, address, required, isShared, isRegistered, isDisabled } = spec;
  const health = instance?.server.health;
  const info = instance?.server.info;
  const maySeeOutput = may(principal, 'administer') || isRegistered;
  const offered = instance?.server.tools.filter((tool) => tool.pin === 'accepted' && spec.tools?.(tool.name) !== false);
  return {
    server_id: id,
    name,
    transport: address.stdio === undefined ? 'sse' : 'stdio',
    status: STATUS[health?.state ?? 'idle'],
    mcp_version: info?.protocol ?? '',
    server_name: info?.name ?? '',
    server_version: info?.version ?? '',
    tools_count: offered?.length ?? 0,
    resources_count: instance?.resources ?? 0,
    prompts_count: instance?.prompts ?? 0,
    last_ping_ms: instance?.lastReplyMs ?? 0,
    error: isDisabled ? 'switched off in the configuration' : (health?.detail ?? ''),
    connected_at: instance?.connectedAt ?? 0,
    health: isDisabled ? 'disabled' : (health?.state ?? 'idle'),
    ...(maySeeOutput && { stderr: [...(health?.stderr ?? [])] }),
    failures: health?.failures ?? 0,
    retry_after_ms: Math.ceil(health?.retryInMs ?? 0),
    required,
    shared: isShared,
    registered: isRegistered,
    tools_changed: instance === undefined ? [] : changedOf(instance),
  };
}
