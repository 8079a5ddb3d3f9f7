/**
 * The hosts whose tools sessions use. In the workspace of the configuration it is the host that serves that workspace, with all
 * its plugins, or one that is started for it; in any other folder one of this process with the built-in plugins; or one host at
 * an address, for all of them. Each session has the rights of its owner there.
 *
 * `control/rounds/environments.ts` decides when each is closed.
 */
import { addressOf } from '../../agent/addresses.ts';
import { AgentSession, type Dial } from '../../agent/agent.ts';
import type { Log } from '../../base/log.ts';
import type { PathGuard } from '../../base/workspace/protected-paths.ts';
import { type ElicitationAnswer, McpClient } from '../../capabilities/mcp/client.ts';
import { ToolsClient } from '../../capabilities/tools/client.ts';
import type { HostConfig } from '../../config/config.ts';
import type { EnvironmentAgent, OtherCapabilities } from '../../control/rounds/environment.ts';
import type { Environment, EnvironmentKey } from '../../control/rounds/environments.ts';
import type { HostQuestions } from '../../control/rounds/mcp-questions.ts';
import { type AuditSink, createHost, type Host } from '../../host/host.ts';
import { type HostSlots, hostSlots } from '../../host/host-limits.ts';
import type { Plugin } from '../../host/plugin.ts';
import { ELICITATION_COMPLETE } from '../../mcp/asks.ts';
import { type Authenticator, LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { Editors } from '../../session/editors.ts';
import type { Principal } from '../../session/principal.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../../transport/link.ts';
import { memoryPair } from '../../transport/memory.ts';
import { fail } from '../../wire/errors.ts';
import { builtinPlugins } from '../builtin-plugins.ts';
import { OwnHost, type OwnHostOptions, type WorkspaceHost } from './own-host.ts';
import { OTHER_CAPABILITIES, otherCapabilities } from './session-capabilities.ts';
import { lastingHost, workAgentId } from './session-work.ts';
import type { SubagentLinks } from './subagent-links.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/** The capabilities with tools that work in a folder. */
const TOOLS = ['tools', 'toolkits'];
/** Capabilities of a host whose state outlives the session. */
const EVERYTHING = [...TOOLS, 'mcp', ...OTHER_CAPABILITIES];

export interface SessionEnvironmentsOptions {
  readonly config: HostConfig;
  /**
   * The host that serves the workspace of the configuration, when it is up; asked when a session needs it. Default: one is
   * started.
   */
  readonly workspaceHost?: () => Promise<WorkspaceHost>;
  /** Knows the rights of principals as they change. Default: they never do. */
  readonly auth?: Authenticator | undefined;
  /** For a host at an address: this process's token for it. */
  readonly token?: string;
  readonly log: Log;
  /** The audit that records requests where no host runs already. */
  readonly audit?: AuditSink | undefined;
  /** The editors in which sessions are open. Default: none. */
  readonly editors?: Editors;
  /** Subagents whose sessions these are. Default: none. */
  readonly links?: SubagentLinks | undefined;
  /** Protected paths, which the tools of restricted principals do not touch. */
  readonly guard?: PathGuard | undefined;
  /** Threads and processes of the tools; shared with the host of the workspace. Default: the limits of the configuration. */
  readonly slots?: HostSlots;
}

/** Finds or starts the host of a folder. Rejects with `unreachable`, `auth_failed`, `no_caps`. */
export function sessionEnvironments(
  options: SessionEnvironmentsOptions,
): (key: EnvironmentKey) => Promise<Environment> {
  const { config, log } = options;
  // Hosts of several folders are still one process.
  const slots = options.slots ?? hostSlots(config.limits);
  // Hosts come and go; the authenticator of the server outlives them.
  const changed = new Set<() => void>();
  options.auth?.onChange?.(() => {
    for (const listener of [...changed]) listener();
  });
  const { host: address } = config.control;
  const ownHost = options.workspaceHost === undefined ? new OwnHost(config, ownHostOptions(options, slots)) : undefined;
  // The host of the workspace is stopped here only where this file started it.
  const leave = async (): Promise<void> => ownHost?.leave();
  return async ({ cwd, principal }) => {
    // A subagent has its tools from the host that made it, as itself.
    if (principal.subagent !== undefined) return ofSubagent(principal.subagent, options);
    if (address !== undefined) return remote(address, options);
    const running = await (options.workspaceHost?.() ?? (ownHost as OwnHost).use());
    const lasting = lastingOf(running, principal, options.editors);
    if (cwd === config.workspace) {
      const { host } = running;
      const token = running.tokenFor(principal);
      const connect: Environment['connect'] = (session, questions) => {
        const opened = bound(options.editors, session);
        return agentOf(inProcess(host), EVERYTHING, { token, resume: false }, { opened, questions });
      };
      return { connect, lasting, stop: leave };
    }
    try {
      const { host, ended } = await folderHost(cwd, principal, running);
      // Memory and plans belong to the user and not to a folder: the host of the workspace has them.
      const others = () => openOthers(running, principal);
      const connect: Environment['connect'] = (session, questions) => {
        const opened = bound(options.editors, session);
        return agentOf(inProcess(host), TOOLS, { resume: false }, { opened, others, questions });
      };
      const stop = async (): Promise<void> => {
        await host.close(0);
        ended();
        await leave();
      };
      return { connect, lasting, stop };
    } catch (error) {
      await leave();
      throw error;
    }
  };

  /**
   * Makes a host of the tools of a folder other than the configuration's, and the function that ends the parts it does not end
   * by itself.
   */
  async function folderHost(cwd: string, principal: Principal, running: WorkspaceHost) {
    // This user itself is in no list.
    const isListed = principal !== LOCAL_PRINCIPAL && options.auth?.current !== undefined;
    const current = () => (isListed ? options.auth?.current?.(principal.name) : principal);
    const listeners: (() => void)[] = [];
    const host = createHost({
      hostId: config.hostId,
      plugins: await pluginsAnywhere(config),
      limits: { ...config.limits, maxParallel: 64 },
      workspace: cwd,
      auth: {
        hasTokens: false,
        authenticate: current,
        current,
        onChange(listener) {
          changed.add(listener);
          listeners.push(listener);
        },
      },
      slots,
      pathGuard: options.guard,
      editors: options.editors,
      audit: running.audit ?? options.audit,
      log,
    });
    await host.start();
    const ended = (): void => {
      for (const listener of listeners) changed.delete(listener);
    };
    return { host, ended };
  }
}

const ownHostOptions = (
  { log, auth, guard, editors, audit }: SessionEnvironmentsOptions,
  slots: HostSlots,
): OwnHostOptions => ({
  log,
  auth,
  slots,
  ...(guard !== undefined && { guard }),
  ...(editors !== undefined && { editors }),
  ...(audit !== undefined && { audit }),
});

/** Returns the plugins of a host for a folder other than the configuration's: those that come with Handfast. */
async function pluginsAnywhere({ plugins }: HostConfig): Promise<Plugin[]> {
  return (await Promise.all(plugins.filter(({ builtin }) => builtin).map((one) => builtinPlugins(one)))).flat();
}

function ofSubagent(subagent: string, { links, editors }: SessionEnvironmentsOptions): Environment {
  const dial: Dial = async () => {
    if (links === undefined) throw fail('session_closed', 'the subagent of this session has ended');
    const [ours, theirs] = memoryPair();
    links.accept(subagent, theirs);
    return ours;
  };
  return {
    // Its own capability is granted to every subagent, also to one without tools.
    connect: (session, questions) => {
      const opened = bound(editors, session);
      return agentOf(dial, [...new Set([...EVERYTHING, 'multi_agent'])], { resume: false }, { opened, questions });
    },
    lasting: openLasting(dial, { resume: false }, { editors }),
    stop: async () => {},
  };
}

function remote(address: string, { token = '' }: SessionEnvironmentsOptions): Environment {
  const { dial, reconnects } = addressOf(address, {
    timeoutMs: CONNECT_TIMEOUT_MS,
    maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
  });
  return {
    connect: (_session, questions) =>
      agentOf(dial, EVERYTHING, { token, ...(!reconnects && { resume: false }) }, { questions }),
    lasting: openLasting(dial, { token, ...(!reconnects && { resume: false }) }),
    // It is not stopped from here.
    stop: async () => {},
  };
}

/** Lets the calls of a session with a host of this process use the editor of its session here. */
function bound(editors: Editors | undefined, session: string | undefined): (hostSession: string) => () => void {
  return (hostSession) => (session === undefined ? undefined : editors?.bind(hostSession, session)) ?? (() => {});
}

interface OpenOptions {
  readonly token?: string;
  readonly resume?: boolean;
  readonly agentId?: string;
}

/** Opens a session for the subagents, chains and processes of a control session, at the host of the workspace. */
const lastingOf = (
  running: WorkspaceHost,
  principal: Principal,
  editors: Editors | undefined,
): Environment['lasting'] & {} =>
  openLasting(inProcess(running.host), { resume: false }, { token: () => running.tokenFor(principal), editors });

const openLasting =
  (
    dial: Dial,
    options: OpenOptions,
    { token, editors }: { readonly token?: () => string; readonly editors?: Editors | undefined } = {},
  ): Environment['lasting'] & {} =>
  async (session, keeper, questions) => {
    const more = { ...options, ...(token !== undefined && { token: token() }), agentId: workAgentId(session) };
    const agent = await openAgent(dial, EVERYTHING, more);
    serveQuestions(agent, questions);
    // Subagents that are sessions are below the one whose agent this is.
    void agent.closed.then(bound(editors, session)(agent.sessionId));
    return lastingHost(agent, keeper);
  };

const openAgent = (dial: Dial, capabilities: readonly string[], options: OpenOptions) =>
  AgentSession.open(dial, [...capabilities], {
    agentId: 'handfast-sessions',
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    // The turn sets the timeout of a call.
    timeoutMs: 0,
    ...options,
  });

/** Opens the other capabilities of the host of the workspace, with the function that ends their session. */
async function openOthers(running: WorkspaceHost, principal: Principal): Promise<Others> {
  const token = running.tokenFor(principal);
  const agent = await openAgent(inProcess(running.host), OTHER_CAPABILITIES, { token, resume: false });
  return { agent, close: () => agent.close() };
}

interface Others {
  readonly agent: AgentSession;
  close(): Promise<void>;
}

/** Puts questions of the MCP servers and tools of a host to the user of a session. Samplings are refused: no model is lent. */
function serveQuestions(agent: AgentSession, questions: HostQuestions): void {
  const client = new McpClient(agent);
  client.onElicitation(async (request, { signal }) => {
    const { server_id, mcp_request_id: id = '', mode, message, requested_schema, url, elicitation_id } = request;
    const params = { mode, message, requestedSchema: requested_schema, url, elicitationId: elicitation_id };
    const answer = await questions.answer(server_id, { method: 'elicitation/create', params, id, signal });
    return answer as unknown as ElicitationAnswer;
  });
  client.onNotification(({ server_id, method, params }) => {
    if (method === ELICITATION_COMPLETE) questions.completed(server_id, String(params.elicitationId));
  });
}

async function agentOf(
  dial: Dial,
  capabilities: readonly string[],
  options: { token?: string; resume?: boolean },
  parts: {
    readonly opened?: (hostSession: string) => () => void;
    /** Opens a session with the host that has the other capabilities. Default: this session has them. */
    readonly others?: (() => Promise<Others>) | undefined;
    /** Answers of the user to the host's questions. Default: questions are refused. */
    readonly questions?: HostQuestions | undefined;
  } = {},
): Promise<EnvironmentAgent> {
  const agent = await openAgent(dial, capabilities, options);
  const closed = parts.opened?.(agent.sessionId);
  if (parts.questions !== undefined) serveQuestions(agent, parts.questions);
  let elsewhere: Promise<Others> | undefined;
  let others: Promise<OtherCapabilities | undefined> | undefined;
  let found: OtherCapabilities | undefined;
  const find = async (): Promise<OtherCapabilities | undefined> => {
    if (parts.others !== undefined) elsewhere = parts.others();
    found = otherCapabilities(elsewhere === undefined ? agent : (await elsewhere).agent);
    return found;
  };
  return {
    get state() {
      return agent.state;
    },
    tools: agent.capabilities.get('tools')?.enabled === false ? NO_TOOLS : new ToolsClient(agent),
    others() {
      others ??= find();
      // A host that could not be reached is tried again.
      others.catch(() => {
        others = undefined;
      });
      return others;
    },
    holds: () => found?.holds() ?? false,
    async close() {
      closed?.();
      const other = await elsewhere?.catch(() => undefined);
      await Promise.all([agent.close(), other?.close()]);
    },
  };
}

/** Tools of a subagent that has none. */
const NO_TOOLS: EnvironmentAgent['tools'] = {
  list: async () => [],
  call: async (name) => {
    throw fail('unknown_tool', `unknown tool: ${name}`);
  },
};

function inProcess(host: Host): Dial {
  return async () => {
    const [ours, theirs] = memoryPair();
    host.accept(theirs);
    return ours;
  };
}
