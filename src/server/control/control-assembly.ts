/**
 * The server of sessions out of a configuration: its data directory, its journal, the agents and hosts it can use.
 *
 * `handfast up` has such a server, and so have the commands that serve sessions by themselves: `rpc`, `chat`, `acp`.
 */
import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { StartProgram } from '../../acp/start-program.ts';
import type { Log } from '../../base/log.ts';
import type { PathGuard } from '../../base/workspace/protected-paths.ts';
import type { HostConfig } from '../../config/config.ts';
import type { Backend } from '../../control/contract/backend.ts';
import type { Handled } from '../../control/contract/handlers.ts';
import { type ControlServer, type ControlServerOptions, createControlServer } from '../../control/control-server.ts';
import type { OpenMcpServer } from '../../control/rounds/mcp-tools.ts';
import { SERVER_STREAM } from '../../control/sessions/log/server-events.ts';
import type { AuditSink } from '../../host/host.ts';
import { type HostSlots, hostSlots } from '../../host/host-limits.ts';
import { sqliteJournal } from '../../journal/sqlite/sqlite.ts';
import { type Authenticator, createAuthenticator, LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { AuthThrottle } from '../../session/auth-throttle.ts';
import { Editors } from '../../session/editors.ts';
import type { Principal } from '../../session/principal.ts';
import { may, must } from '../../session/rights.ts';
import type { StorageShares } from '../../session/storage-shares.ts';
import type { TrafficShares } from '../../session/traffic-shares.ts';
import type { TrustStore } from '../../trust/store.ts';
import { fail } from '../../wire/errors.ts';
import { auditOf } from '../deferred-audit.ts';
import { reportDamage, reportReplaced } from '../journal-damage.ts';
import { pathGuard } from '../protected-paths.ts';
import { checkApprovalRules } from './approval-rules.ts';
import type { WorkspaceHost } from './own-host.ts';
import type { SubagentLinks } from './subagent-links.ts';

export interface ControlAssemblyOptions {
  readonly log: Log;
  /** Version of this software, sent to agents; called only when some are configured. */
  readonly version: () => string;
  /** The authenticator. Default: accepts every peer, as on the pipes of this process. */
  readonly auth?: Authenticator;
  readonly authThrottle?: AuthThrottle;
  /** The shares of links and requests. Default: none, as on the pipes of this process. */
  readonly traffic?: TrafficShares;
  /** See `ControlServerOptions.handlers`. */
  readonly handlers?: readonly Handled[];
  /** Backends beside those of the configuration. */
  readonly backends?: readonly Backend[] | undefined;
  /** Overrides the configuration. */
  readonly backend?: string;
  readonly serverName?: string;
  /** Folder of sessions that name none. Default: the workspace of the configuration. */
  readonly cwd?: string;
  /** See `ApprovalBrokerOptions.attended`. */
  readonly attended?: boolean | undefined;
  /** See `session-environments.ts`. */
  readonly workspaceHost?: () => Promise<WorkspaceHost>;
  /** The editors in which sessions are open; pass the host's. Default: those of this server. */
  readonly editors?: Editors;
  /** Subagents of the host that are sessions here. Default: none are. */
  readonly links?: SubagentLinks;
  /** Protected paths, which the tools, images and folders of restricted principals do not touch. */
  readonly guard?: PathGuard;
  /** See `SessionsOptions.storage`. */
  readonly storage?: StorageShares;
  /** Threads and processes of sessions; shared with the host of the workspace. Default: those of the limits. */
  readonly slots?: HostSlots;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Bounds of one session's events: a conversation is stored whole, and only its deletion removes entries. */
const RETENTION = { maxEntries: 100_000_000, maxBytes: 64 * 1024 ** 3 };
/** Bounds of the events of the server, which no client deletes: enough for one that comes back after a busy day. */
const SERVER_RETENTION = { maxEntries: 16_384, maxBytes: 16 * 1024 ** 2 };

/**
 * Opens the data directory and starts the server. Its stores are closed when it has ended.
 *
 * Fails with `journal_locked` when another process has the directory (`detail.pid`), `config_invalid`, `disk_full`.
 */
export async function assembleControl(config: HostConfig, options: ControlAssemblyOptions): Promise<ControlServer> {
  const { control, providers } = config;
  const {
    log,
    version,
    auth,
    authThrottle,
    traffic,
    guard = pathGuard(config),
    slots = hostSlots(config.limits),
    editors = new Editors(),
  } = options;
  const owners = auth ?? createAuthenticator(config.auth.grants);
  await checkApprovalRules(config);
  const home = control.dataDir ?? config.home;
  // A server with a workspace host uses that host's audit.
  const audit = options.workspaceHost === undefined ? auditOf(config, log) : undefined;
  const file = join(home, 'sessions.journal.db');
  const journal = await sqliteJournal({
    sparing: true,
    file,
    retention: RETENTION,
    retentionOf: { [SERVER_STREAM]: SERVER_RETENTION },
    // The list of sessions, in a separate file, may still know one that the journal lost.
    namesReturn: true,
    onDamaged: reportDamage(log, file, 'the journal of sessions'),
    onCorrupt: reportReplaced(log, file, 'the journal of sessions'),
  });
  try {
    const server = await createControlServer({
      home,
      journal,
      openEnvironment: openEnvironment(config, { ...options, guard, slots, editors }, audit),
      editors,
      openMcpServer: mcpConnector(config, slots, guard),
      handlers: options.handlers,
      checkContent,
      backends: [
        ...(await acpBackends(config, { version, log, processes: slots.processes })),
        ...(options.backends ?? []),
      ],
      backend: options.backend ?? control.backend,
      providers,
      defaultModel: control.model,
      streamIdleMs: control.streamIdleMs,
      approvals: { ...control.approvals, attended: options.attended },
      recallEntries: control.recallEntries,
      instructions: control.instructions,
      imageRoots: control.imageRoots,
      defaults: { maxRounds: control.maxRounds },
      skillTrust: skillTrust(config.home, log),
      cwd: options.cwd === undefined ? config.workspace : resolve(options.cwd),
      checkCwd: (cwd, principal) => checkFolder(cwd, principal, config.workspace, guard),
      pathGuard: guard,
      // One that is no longer configured may do nothing.
      principalOf: (name) => (name === LOCAL_PRINCIPAL.name ? LOCAL_PRINCIPAL : (owners.current?.(name) ?? { name })),
      serverName: options.serverName ?? control.serverName,
      auth,
      authThrottle,
      traffic,
      requireHandshake: control.requireHandshake,
      rpcLimits: {
        maxMessageBytes: control.maxMessageBytes,
        maxPlainMessageBytes: Math.min(config.limits.maxMessageBytes, control.maxMessageBytes),
        maxValues: config.limits.maxValues,
        livenessTimeoutMs: config.limits.livenessTimeoutMs,
        // Links are shared out: a bound without shares would let one principal keep the others out.
        ...(traffic !== undefined && { maxConnections: Number.POSITIVE_INFINITY }),
      },
      sessionLimits: {
        sessions: control.maxSessions,
        perPrincipal: config.limits.maxSessionsPerPrincipal,
        queueLength: control.maxQueue,
        turns: control.maxTurns,
        turnsPerPrincipal: control.maxTurnsPerPrincipal,
        turnTimeoutMs: control.turnTimeoutMs,
        interruptGraceMs: control.interruptGraceMs,
        storedBytes: config.limits.storedBytes,
        totalStoredBytes: config.limits.totalStoredBytes,
        memoryBytes: config.limits.memoryBytes,
        totalMemoryBytes: config.limits.totalMemoryBytes,
      },
      settings: { signIns: { total: config.limits.maxSignIns, perOwner: config.limits.maxSignInsPerPrincipal } },
      storage: options.storage,
      env: options.env,
      log,
    });
    void server.rpc.stopped.then(() => Promise.all([journal.close(), audit?.close()]));
    return server;
  } catch (error) {
    await journal.close();
    throw error;
  }
}

/** Opens the host of a session's tools. Its code is loaded when the first tool is needed, not before the first handshake. */
function openEnvironment(
  config: HostConfig,
  { log, workspaceHost, slots, guard, auth, editors, links }: ControlAssemblyOptions,
  audit: AuditSink | undefined,
): ControlServerOptions['openEnvironment'] {
  let open: ControlServerOptions['openEnvironment'] | undefined;
  return async (key) => {
    await config.trust?.confirm();
    const { sessionEnvironments } = await import('./session-environments.ts');
    open ??= sessionEnvironments({ config, log, workspaceHost, slots, guard, auth, editors, links, audit });
    return open(key);
  };
}

/** Connects to MCP servers. The code is loaded with the first session that names one. */
function mcpConnector({ trust }: HostConfig, { processes }: HostSlots, guard: PathGuard): OpenMcpServer {
  let connect: OpenMcpServer | undefined;
  return async (server, place) => {
    const { mcpPeers } = await import('./mcp-peers.ts');
    connect ??= mcpPeers({ processes, trust, guard });
    return connect(server, place);
  };
}

/** Returns the check of trust in skills of folders; looked up in the store at every scan. */
function skillTrust(home: string, log: Log): ControlServerOptions['skillTrust'] {
  let store: TrustStore | undefined;
  return async (path, bytes) => {
    const [{ TrustStore }, { isTrustedSkill }] = await Promise.all([
      import('../../trust/store.ts'),
      import('../../trust/check.ts'),
    ]);
    store ??= new TrustStore({ home, log });
    return isTrustedSkill(path, bytes, store);
  };
}

/** Checks answers to questions against their schema, which an agent or a server may have sent. */
const checkContent: ControlServerOptions['checkContent'] = async (schema, content) => {
  const { foreignSchemas } = await import('../../base/foreign-schemas.ts');
  return foreignSchemas.check(schema, content, { what: 'answer' });
};

/** Makes a backend for each configured agent; most installations have none, and load none of this. */
async function acpBackends(
  { control: { agents, host }, trust }: HostConfig,
  { version, log, processes }: Pick<ControlAssemblyOptions, 'version' | 'log'> & Pick<HostSlots, 'processes'>,
): Promise<NonNullable<ControlServerOptions['backends']>> {
  if (agents.length === 0) return [];
  const [{ acpBackend }, { spawnLink }] = await Promise.all([
    import('../../control/backends/acp/acp.ts'),
    import('../../transport/subprocess.ts'),
  ]);
  const start: StartProgram = async (options) => {
    await trust?.confirm();
    return spawnLink(options);
  };
  return agents.map((agent) => {
    const env = Object.fromEntries(Object.entries(agent.env).map(([name, value]) => [name, String(value)]));
    const parts = { agent: { ...agent, env }, start, processes, version: version(), log };
    // The tools of a host at an address do not see the files that the agent, a process of this machine, sees.
    if (host !== undefined) return acpBackend(parts);
    return (environments) => acpBackend({ ...parts, environments });
  });
}

/** Fails with `unauthorized` for a folder outside the grants of the principal, and for one that holds protected files. */
function checkFolder(cwd: string, principal: Principal, workspace: string, guard: PathGuard): void {
  const folder = realOrAsItIs(cwd);
  must(principal, 'folder', { path: folder, workspace });
  if (may(principal, 'administer')) return;
  guard.refresh();
  if (guard.above(folder) === 'all') {
    throw fail('unauthorized', 'sessions of this principal do not work in a protected folder', {
      reason: 'protected_path',
    });
  }
}

/** Returns the real path of a folder; of one that was removed since its session was made, the path as it is. */
function realOrAsItIs(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
