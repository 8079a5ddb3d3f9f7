/**
 * The control edge put together: settings, sessions, backends, approvals and the wire side become one server. Each part is
 * made from parts above it in `createControlServer`; none is used before it exists.
 * @see docs/architecture.md#the-control-edge
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Log } from '../base/log.ts';
import type { ShareUsage } from '../base/share-usage.ts';
import type { SkillTrust } from '../base/skills/scan.ts';
import { noteLoss, onNotedLoss } from '../base/sqlite/losses.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { Journal } from '../journal/journal.ts';
import type { SessionSettings } from '../protocol/session-types.ts';
import { type Authenticator, LOCAL_PRINCIPAL } from '../session/auth.ts';
import type { AuthThrottle } from '../session/auth-throttle.ts';
import { Editors } from '../session/editors.ts';
import { may } from '../session/rights.ts';
import type { TrafficShares } from '../session/traffic-shares.ts';
import { fail } from '../wire/errors.ts';
import { ApprovalBroker } from './approvals/broker.ts';
import { CommandReader } from './approvals/commands/command-reader.ts';
import { realPath } from './approvals/commands/real-path.ts';
import type { SecondOpinion } from './approvals/commands/second-opinion.ts';
import { directoryRules } from './approvals/directory-rules.ts';
import { type ApprovalHandlerDeps, approvalHandlers } from './approvals/handlers.ts';
import { type Policy, type PolicyRule, riskPolicy } from './approvals/policy.ts';
import { modelBackend } from './backends/model/model-backend.ts';
import { rehearsalBackend } from './backends/rehearsal/rehearsal-backend.ts';
import { commandHandler } from './commands.ts';
import type { Approver } from './contract/approver.ts';
import type { Backend } from './contract/backend.ts';
import type { Handled } from './contract/handlers.ts';
import type { ProvidersConfig } from './providers/http/endpoints.ts';
import { createSettings, type Settings, type SettingsOptions } from './providers/settings.ts';
import { Environments, type EnvironmentsOptions } from './rounds/environments.ts';
import { readPrompt } from './rounds/prompt.ts';
import { toolsListHandler } from './rounds/tools-list.ts';
import type { ServerAccess } from './rpc/control-parts.ts';
import type { RpcLimits } from './rpc/rpc-limits.ts';
import { createRpcServer, type RpcServer } from './rpc/rpc-server.ts';
import { ServerState } from './server-state.ts';
import { EventHub } from './sessions/log/event-hub.ts';
import { ServerEventLog } from './sessions/log/server-events.ts';
import { editorHandlers } from './sessions/methods/editor-handlers.ts';
import { createSessions, type SessionLimits, type Sessions, type SessionsOptions } from './sessions/sessions.ts';
import { openSessionStore, type SessionStore } from './sessions/store/store.ts';
import { Skills, skillInstructions } from './skills/skills.ts';

export interface ControlServerOptions {
  /** Data directory: settings, credentials, sessions, saved chats. Only one process may use it at a time. */
  readonly home: string;
  /** Stores the events of sessions. Closed by its owner, after `stopped`. */
  readonly journal: Journal;
  /** The database beside the journal, or `:memory:`. Default `sessions.db` in `home`. */
  readonly storeFile?: string;
  /** Finds or starts the host whose tools a session uses. */
  readonly openEnvironment: EnvironmentsOptions['open'];
  /** Connects sessions to the MCP servers they name; see `EnvironmentsOptions`. */
  readonly openMcpServer?: EnvironmentsOptions['openMcpServer'];
  /** Checks answers to questions; see `ApprovalHandlerDeps`. */
  readonly checkContent: ApprovalHandlerDeps['checkContent'];
  /** Further methods of this process over session RPC. */
  readonly handlers?: readonly Handled[];
  /** Backends beside `model` and `rehearsal`; one that uses the tools of sessions is made with them. */
  readonly backends?: readonly (Backend | ((environments: Environments) => Backend))[];
  /** Backend of sessions that choose none. Default: `model` once a provider is configured, until then `rehearsal`. */
  readonly backend?: string;
  readonly providers?: ProvidersConfig;
  /** See `SettingsOptions.model`. */
  readonly defaultModel?: string | undefined;
  /** Longest silence of a model while it answers, in milliseconds. */
  readonly streamIdleMs?: number | undefined;
  readonly approvals?: {
    readonly rules?: readonly PolicyRule[];
    readonly timeoutMs?: number;
    /** See `ApprovalBrokerOptions.attended`. */
    readonly attended?: boolean | undefined;
  };
  /** Entries of the user's memory that a model is given for a prompt at most. Default 0: none. */
  readonly recallEntries?: number;
  /** Added to the system prompt of every model. */
  readonly instructions?: string;
  readonly imageRoots?: readonly string[];
  /** Default settings of sessions. */
  readonly defaults?: SessionSettings;
  /** Working directory of sessions that name none. Absolute. */
  readonly cwd: string;
  /** The editors in which sessions are open. Default: none lends anything. */
  readonly editors?: Editors;
  /** Protected paths: images of principals who are not administrators are not read from them. */
  readonly pathGuard?: PathGuard;
  /** Skills of a folder that this user trusts. Default: none; those of the data directory and of the home need no trust. */
  readonly skillTrust?: SkillTrust;
  /** Refuses folders a principal may not work in. Default: any folder. */
  readonly checkCwd?: SessionsOptions['checkCwd'];
  /** The principal of a name. Default: as `auth` knows it. */
  readonly principalOf?: SessionsOptions['principalOf'];
  readonly serverName?: string;
  readonly auth?: Authenticator;
  /** See `RpcServerOptions.requireHandshake`. */
  readonly requireHandshake?: boolean;
  readonly authThrottle?: AuthThrottle;
  /** See `RpcServerOptions.traffic`. */
  readonly traffic?: TrafficShares;
  readonly rpcLimits?: Partial<RpcLimits>;
  readonly sessionLimits?: Partial<SessionLimits>;
  /** See `SessionsOptions.storage`. */
  readonly storage?: SessionsOptions['storage'];
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly settings?: Pick<SettingsOptions, 'fetch' | 'keyring' | 'wait' | 'signIns'>;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** A running control edge. */
export interface ControlServer {
  readonly rpc: RpcServer;
  readonly sessions: Sessions;
  /** Asks the user before a tool acts. */
  readonly approver: Approver;
  /** The backend new sessions get now. */
  readonly defaultBackend: string;
  /** Usage that principals have of the shares of this server, by share. */
  readonly shares: Readonly<Record<string, ShareUsage>>;
}

/**
 * Opens the data directory and makes the server: sessions of earlier processes are known again, and the turns they left
 * behind are ended or continued. It ends with `rpc.stop`, or when a client asks for it: then `rpc.stopped` resolves.
 *
 * Fails with `journal_locked` when another process has the directory, `config_invalid` for configuration that cannot be used,
 * and as the journal does. Then nothing is left open.
 */
export async function createControlServer(options: ControlServerOptions): Promise<ControlServer> {
  const { home, journal, env = process.env, log, now = Date.now, cwd } = options;
  const userHome = env.HOME ?? homedir();
  // Opened parts end in the opposite order: here when the start fails, else when the server ends.
  await using opened = new AsyncDisposableStack();
  const hub = new EventHub(log);
  const serverEvents = await ServerEventLog.open({ journal, hub, now });
  const { providers: config, defaultModel: model } = options;
  const settings = await createSettings({ home, env, config, model, serverEvents, log, now, ...options.settings });
  opened.defer(() => settings.stop());
  const store = opened.adopt(openStore(options, now), (openStore) => openStore.close());
  let known: Sessions | undefined;
  const environments = new Environments({
    open: options.openEnvironment,
    openMcpServer: options.openMcpServer,
    logOf: (session) => known?.open(session),
  });
  opened.defer(() => environments.stop());
  const skills = new Skills({ cwd, dataDirectory: home, home: userHome }, options.skillTrust ?? noTrust);
  const backends = backendsOf(options, settings, environments, skills);
  opened.defer(() => stopAll(backends.values()));
  const defaultBackend = (): string => defaultBackendOf(options, settings);
  const reader = new CommandReader(openSecondOpinion, realPath);
  const policy = await policyOf(options.approvals?.rules, reader);
  const directories = await directoryRules({ file: join(home, 'approvals.json'), log, now });
  opened.defer(() => directories.flushed().catch(() => {}));
  const { timeoutMs, attended } = options.approvals ?? {};
  const broker = new ApprovalBroker({ policy, reader, directories, timeoutMs, attended, now });
  opened.defer(() => broker.close());
  await skills.scan();
  const sessions = await createSessions({
    store,
    journal,
    hub,
    serverEvents,
    backends,
    defaultBackend,
    approver: broker,
    readPrompt: (prompt, { cwd: folder, roots, principal }) => {
      const guard = may(principal, 'administer') ? undefined : options.pathGuard;
      return readPrompt(prompt, { cwd: folder, roots: [folder, ...roots], home: userHome, guard });
    },
    imageRoots: options.imageRoots,
    skillsFor: (prompt, folder) => skills.skillsFor(prompt, folder),
    defaults: options.defaults,
    defaultCwd: cwd,
    checkCwd: options.checkCwd,
    principalOf: options.principalOf ?? configured(options.auth),
    limits: options.sessionLimits,
    storage: options.storage,
    log,
    now,
  });
  known = sessions;
  opened.defer(() => sessions.stop());
  options.auth?.onChange?.(() => sessions.rightsChanged());
  const state = new ServerState({ settings, sessions, skills, serverEvents });
  opened.defer(onNotedLoss(() => state.changed('data_lost')));
  const running = opened.move();
  const rpc = createRpcServer(
    {
      handlers: [
        state.handler(),
        ...settingsHandlers(settings, sessions, state, { backends: [...backends.values()], defaultBackend }),
        ...sessions.handlers((reason, session) => state.changed(reason, session)),
        ...skills.handlers(),
        toolsListHandler(environments, cwd),
        ...approvalHandlers({
          broker,
          sessions,
          checkContent: options.checkContent,
          rulesStored: () => directories.flushed(),
        }),
        ...editorHandlers({ editors: options.editors ?? new Editors(), sessions }),
        ...(options.handlers ?? []),
      ],
      serverHandlers: (server) => [slashCommands(server, sessions, settings, state)],
      events: sessions.events,
      serverEvents,
      snapshot: () => state.broadcast(),
      async shutdown(reason) {
        // A signal may come from a supervisor that starts the process again; a client that ends the server ends its turns.
        await sessions.stop({ keepWaiting: reason === 'sigint' || reason === 'sigterm' });
        await running.disposeAsync();
      },
      log,
    },
    {
      serverName: options.serverName,
      auth: options.auth,
      requireHandshake: options.requireHandshake,
      authThrottle: options.authThrottle,
      traffic: options.traffic,
      limits: options.rpcLimits,
      now,
    },
  );
  return {
    rpc,
    sessions,
    approver: broker,
    get defaultBackend() {
      return defaultBackend();
    },
    get shares() {
      return {
        control_sessions: sessions.live,
        turns: sessions.turns,
        stored_bytes: sessions.storage,
        memory_bytes: sessions.memory,
        sign_ins: settings.signIns,
      };
    },
  };
}

const noTrust: SkillTrust = async () => false;

function openStore(options: ControlServerOptions, now: () => number): SessionStore {
  const { home, storeFile: file = join(home, 'sessions.db'), log } = options;
  return openSessionStore({
    file,
    now,
    onCorrupt: ({ reason, movedTo }) =>
      log.error('quarantined a damaged list of sessions; rebuilding it from the journal', { file, reason, movedTo }),
    onLoss: (loss) => noteLoss(log, loss),
    onLostImage: (lost) => log.error('an image of a conversation cannot be read', { ...lost }),
  });
}

/** Loads the second parser, with the first command that has to be decided. */
async function openSecondOpinion(): Promise<SecondOpinion | undefined> {
  return (await import('./approvals/commands/second-opinion.ts')).openSecondOpinion();
}

/** Makes the policy. The compiler of rules is loaded only where a configuration has rules. */
async function policyOf(rules: readonly PolicyRule[] = [], reader: CommandReader): Promise<Policy> {
  if (rules.length === 0) return riskPolicy;
  return (await import('./approvals/policy-rules.ts')).compilePolicy(rules, { reader });
}

const defaultBackendOf = ({ backend }: ControlServerOptions, settings: Settings): string =>
  backend ?? (settings.configured ? 'model' : 'rehearsal');

/** Returns the backends by name. Fails with `config_invalid` for a name used twice, and for a default backend without one. */
function backendsOf(
  options: ControlServerOptions,
  settings: Settings,
  environments: Environments,
  skills: Skills,
): ReadonlyMap<string, Backend> {
  const model = modelBackend({
    providers: settings,
    environments,
    recallEntries: options.recallEntries,
    ...(options.streamIdleMs !== undefined && { limits: { idleTimeoutMs: options.streamIdleMs } }),
    instructionsFor: async ({ prompt, cwd }) =>
      [options.instructions ?? '', skillInstructions(await skills.skillsFor(prompt.text, cwd))]
        .filter((part) => part !== '')
        .join('\n\n'),
  });
  const backends = new Map<string, Backend>();
  for (const given of [model, rehearsalBackend(environments), ...(options.backends ?? [])]) {
    const backend = typeof given === 'function' ? given(environments) : given;
    if (backends.has(backend.name)) throw fail('config_invalid', `two backends are named ${backend.name}; rename one`);
    backends.set(backend.name, backend);
  }
  const chosen = defaultBackendOf(options, settings);
  if (!backends.has(chosen)) {
    throw fail('config_invalid', `there is no backend ${chosen}; known: ${[...backends.keys()].join(', ')}`);
  }
  return backends;
}

/** Principals as the authenticator knows them now; undefined where it does not say. */
function configured(auth: Authenticator | undefined): SessionsOptions['principalOf'] {
  if (auth?.current === undefined) return undefined;
  return (name) => (name === LOCAL_PRINCIPAL.name ? LOCAL_PRINCIPAL : (auth.current?.(name) ?? { name }));
}

async function stopAll(backends: Iterable<Backend>): Promise<void> {
  await Promise.all([...backends].map((backend) => backend.stop?.()));
}

function settingsHandlers(
  settings: Settings,
  sessions: Sessions,
  state: ServerState,
  { backends, defaultBackend }: { readonly backends: readonly Backend[]; readonly defaultBackend: () => string },
): readonly Handled[] {
  return settings.handlers({
    checkSession: (id, { caller }) => void sessions.openFor(caller.principal, id, 'drive'),
    compress: (id, { model, provider, thinking, openRouterProvider }, { signal }) =>
      sessions.compress(id, { model, provider, thinking, openRouterProvider }, signal),
    stateChanged: (reason) => state.changed(reason),
    backends,
    backendOf(id, { caller }) {
      if (id === undefined) return { name: defaultBackend(), settings: {} };
      const { backend, settings } = sessions.openFor(caller.principal, id, 'read').record;
      return { name: backend, settings };
    },
    configure: (id, { model, provider, thinking, openRouterProvider }, { caller }) => {
      const session = sessions.openFor(caller.principal, id, 'drive');
      const { settings } = session.record;
      session.emit('session.configured', { settings: { ...settings, model, provider, thinking, openRouterProvider } });
    },
  });
}

function slashCommands(server: ServerAccess, sessions: Sessions, settings: Settings, state: ServerState): Handled {
  return commandHandler({
    callMethod: (method, params, call) => server.callMethod(method, params, call),
    checkSession: (id, { caller }) => void sessions.openFor(caller.principal, id, 'drive'),
    clear: (id) => sessions.clear(id),
    compress: (id, { signal }) => sessions.compress(id, {}, signal),
    async resumeChat(id, which, { caller }) {
      const chatId = await sessions.resumeChat(id, which, caller.principal);
      state.changed('session_resumed');
      return chatId;
    },
    forgetEverything: () => settings.forgetEverything(),
    notice: (id, text) => sessions.open(id).appendMessage('system', text),
    settled: (id) => sessions.events.settled(id),
    stateChanged: (reason) => state.changed(reason),
    shutdown: (reason, call) => server.stopBehind(call, reason),
  });
}
