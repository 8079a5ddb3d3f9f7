/**
 * The control edge put together: settings, sessions, backends, approvals and the wire side become one server.
 *
 * Made by `server/control/control-assembly.ts` out of a configuration; programs and tests may make their own.
 * @see docs/architecture.md#the-control-edge
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Log } from '../base/log.ts';
import type { Journal } from '../journal/journal.ts';
import { stateGet } from '../protocol/session-rpc.ts';
import type { SessionSettings, Snapshot } from '../protocol/session-types.ts';
import type { Authenticator } from '../session/auth.ts';
import type { AuthThrottle } from '../session/auth-throttle.ts';
import { fail } from '../wire/errors.ts';
import { ApprovalBroker } from './approvals/broker.ts';
import { directoryRules } from './approvals/directory-rules.ts';
import { type ApprovalHandlerDeps, approvalHandlers } from './approvals/handlers.ts';
import { type Policy, type PolicyRule, riskPolicy } from './approvals/policy.ts';
import { modelBackend } from './backends/model/model-backend.ts';
import { rehearsalBackend } from './backends/rehearsal/rehearsal-backend.ts';
import { commandHandler } from './commands.ts';
import type { Approver } from './contract/approver.ts';
import type { Backend } from './contract/backend.ts';
import type { ServerEvents } from './contract/events.ts';
import { type Handled, handles, type RpcCall } from './contract/handlers.ts';
import type { ProvidersConfig } from './providers/http/endpoints.ts';
import { createSettings, type SettingsOptions } from './providers/settings.ts';
import { Environments, type EnvironmentsOptions } from './rounds/environments.ts';
import { readPrompt } from './rounds/prompt.ts';
import { toolsListHandler } from './rounds/tools-list.ts';
import type { RpcLimits } from './rpc/rpc-limits.ts';
import { createRpcServer, type RpcServer } from './rpc/rpc-server.ts';
import { createSessions, type SessionLimits, type Sessions, type SessionsOptions } from './sessions/sessions.ts';
import { openSessionStore } from './sessions/store/store.ts';
import { Skills, skillInstructions } from './skills/skills.ts';

export interface ControlServerOptions {
  /** Data directory: settings, credentials, saved chats. This process's alone while the server runs. */
  readonly home: string;
  /** Keeps the events of sessions. Closed by its owner, after `stopped`. */
  readonly journal: Journal;
  /** File of what is kept beside the journal, or `:memory:`. Default `sessions.db` in `home`. */
  readonly storeFile?: string;
  /** Finds or starts the host whose tools a session uses. */
  readonly openEnvironment: EnvironmentsOptions['open'];
  /** Checks answers to questions; see `ApprovalHandlerParts`. */
  readonly checkContent: ApprovalHandlerDeps['checkContent'];
  /** Methods beside those of sessions: what else this process can be asked over session RPC. */
  readonly handlers?: readonly Handled[];
  /** Backends beside `model` and `rehearsal`. */
  readonly backends?: readonly Backend[];
  /** Backend of sessions that choose none. Default: `model` once a provider is configured, until then `rehearsal`. */
  readonly backend?: string;
  readonly providers?: ProvidersConfig;
  readonly approvals?: { readonly rules?: readonly PolicyRule[]; readonly timeoutMs?: number };
  /** Added to what every model is told. */
  readonly instructions?: string;
  readonly imageRoots?: readonly string[];
  /** What sessions follow where they decide nothing. */
  readonly defaults?: SessionSettings;
  /** Where sessions work that name no folder. Absolute. */
  readonly cwd: string;
  /** Refuses folders a principal may not work in. Default: any folder. */
  readonly checkCwd?: SessionsOptions['checkCwd'];
  /** The principal of a name, for turns whose owner has not called since the start. */
  readonly principalOf?: SessionsOptions['principalOf'];
  readonly serverName?: string;
  readonly auth?: Authenticator;
  /** See `RpcServerOptions.requireHandshake`. */
  readonly requireHandshake?: boolean;
  readonly backoff?: AuthThrottle;
  readonly rpcLimits?: Partial<RpcLimits>;
  readonly sessionLimits?: Partial<SessionLimits>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly settings?: Pick<SettingsOptions, 'fetch' | 'keyring' | 'wait'>;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** A running control edge. */
export interface ControlServer {
  readonly rpc: RpcServer;
  readonly sessions: Sessions;
  /** Where questions to the user wait. */
  readonly desk: Approver;
  /** The backend new sessions get now. */
  readonly defaultBackend: string;
}

/**
 * Opens the data directory and makes the server; sessions of earlier processes are there, and the turns they left behind
 * are ended or gone on with. It ends with `rpc.stop`, or when a client says so: `rpc.stopped` tells.
 *
 * Fails with `journal_locked` when another process has the directory, `config_invalid` for what cannot be used in the
 * configuration, and as the journal does. Then nothing is left open.
 */
export async function createControlServer(options: ControlServerOptions): Promise<ControlServer> {
  const { home, journal, env = process.env, log, now = Date.now, cwd } = options;
  // What each part needs of those that come after it is asked for when it is used.
  const late: { sessions?: Sessions; rpc?: RpcServer } = {};
  const sessions = (): Sessions => late.sessions ?? tooEarly();
  const rpc = (): RpcServer => late.rpc ?? tooEarly();
  const serverEvents: ServerEvents = {
    emit: (type, payload, owner) => sessions().serverEvents.emit(type, payload, owner),
  };
  const checkSession = (id: string, { caller }: RpcCall): void => void sessions().openFor(caller.principal, id);

  const policy = await policyOf(options.approvals?.rules);
  const skills = new Skills({ cwd, dataDirectory: home, home: env.HOME ?? homedir() });
  const settings = await createSettings({
    home,
    env,
    config: options.providers,
    serverEvents,
    snapshotExtras: () => ({ sessions: countOf(sessions().liveIds()), skills: skills.summary }),
    checkSession,
    compress: (id, { model, provider, thinking, openRouterProvider }, { signal }) =>
      sessions().compress(id, { model, provider, thinking, openRouterProvider }, signal),
    log,
    now,
    ...options.settings,
  });
  const environments = new Environments({ open: options.openEnvironment });
  const backends = new Map<string, Backend>();
  const store = openStore(options, now);
  const stopParts = async (): Promise<void> => {
    await Promise.all([...backends.values()].map((backend) => backend.stop?.()));
    await environments.stop();
    await settings.stop();
    store.close();
  };
  try {
    const defaultBackend = (): string => options.backend ?? (settings.configured ? 'model' : 'rehearsal');
    const model = modelBackend({
      providers: settings,
      environments,
      instructionsFor: async ({ prompt, cwd: folder }) =>
        [options.instructions ?? '', skillInstructions(await skills.skillsFor(prompt.text, folder))]
          .filter((part) => part !== '')
          .join('\n\n'),
    });
    for (const backend of [model, rehearsalBackend(environments), ...(options.backends ?? [])]) {
      if (backends.has(backend.name)) throw fail('config_invalid', `two backends are named ${backend.name}`);
      backends.set(backend.name, backend);
    }
    if (!backends.has(defaultBackend())) {
      throw fail(
        'config_invalid',
        `there is no backend ${defaultBackend()}; known: ${[...backends.keys()].join(', ')}`,
      );
    }
    const directories = await directoryRules({ file: join(home, 'approvals.json'), log, now });
    const desk = new ApprovalBroker({ policy, directories, timeoutMs: options.approvals?.timeoutMs, now });
    await skills.scan();
    const snapshot = (): Snapshot => ({
      ...settings.snapshotParts(),
      sessions: countOf(sessions().liveIds()),
      skills: skills.summary,
    });

    const stateChanged = (reason: string): void => serverEvents.emit('state.changed', { reason, snapshot: snapshot() });

    late.sessions = await createSessions({
      store,
      journal,
      backends,
      defaultBackend,
      desk,
      readPrompt: (prompt, { cwd: folder, roots }) =>
        readPrompt(prompt, { cwd: folder, roots: [folder, ...roots], home: env.HOME ?? homedir() }),
      imageRoots: options.imageRoots,
      skillsFor: (prompt, folder) => skills.skillsFor(prompt, folder),
      defaults: () => options.defaults ?? {},
      defaultCwd: cwd,
      checkCwd: options.checkCwd,
      principalOf: options.principalOf,
      snapshot,
      isDebugging: () => late.rpc?.debugging ?? false,
      limits: options.sessionLimits,
      log,
      now,
    });
    const served = late.sessions;
    const handlers = [
      handles(stateGet, (_params, { caller: { principal } }) => ({
        ...settings.snapshotParts(principal),
        sessions: countOf(served.liveIds(principal.admin ? undefined : principal.name)),
        skills: skills.summary,
      })),
      ...settings.handlers(),
      ...served.handlers(),
      ...skills.handlers(),
      toolsListHandler(environments, cwd),
      ...(options.handlers ?? []),
      ...approvalHandlers({
        desk,
        session: (id) => openOrUndefined(served, id),
        sessions: () => served.opened(),
        checkContent: options.checkContent,
      }),
      commandHandler({
        callMethod: (method, params, call) => rpc().callMethod(method, params, call),
        checkSession,
        clear: (id) => served.clear(id),
        compress: (id, { signal }) => served.compress(id, {}, signal),
        resumeChat: (id, which, call) => resumeChat(served, id, which, call, () => stateChanged('session_resumed')),
        forgetEverything: () => settings.forgetEverything(),
        notice: (id, text) => served.open(id).say('system', text),
        stateChanged,
        shutdown: (reason, call) => rpc().stopBehind(call, reason),
      }),
    ];
    late.rpc = createRpcServer(
      {
        handlers,
        events: served.events,
        serverEvents,
        snapshot,
        async shutdown(reason) {
          // Whoever ends the process may start it again; a client that ends the server wants its turns ended.
          await served.stop({ keepWaiting: reason === 'sigint' || reason === 'sigterm' });
          desk.close();
          await directories.flushed();
          await stopParts();
        },
        log,
      },
      {
        serverName: options.serverName,
        auth: options.auth,
        requireHandshake: options.requireHandshake,
        backoff: options.backoff,
        limits: options.rpcLimits,
        now,
      },
    );
    return {
      rpc: late.rpc,
      sessions: served,
      desk,
      get defaultBackend() {
        return defaultBackend();
      },
    };
  } catch (error) {
    await late.sessions?.stop();
    await stopParts();
    throw error;
  }
}

/** The expression language is loaded only where a configuration uses it. */
async function policyOf(rules: readonly PolicyRule[] = []): Promise<Policy> {
  if (rules.length === 0) return riskPolicy;
  return (await import('./approvals/policy-rules.ts')).compilePolicy(rules);
}

function openStore({ home, storeFile, log }: ControlServerOptions, now: () => number) {
  const file = storeFile ?? join(home, 'sessions.db');
  return openSessionStore({
    file,
    now,
    onCorrupt: ({ reason, movedTo }) =>
      log.error('the list of sessions was damaged; it is made again from the journal', { file, reason, movedTo }),
  });
}

const countOf = (ids: readonly string[]): Snapshot['sessions'] => ({ count: ids.length, ids });

function openOrUndefined(sessions: Sessions, id: string) {
  try {
    return sessions.open(id);
  } catch {
    return undefined;
  }
}

/** Loads a saved chat into a session. The model it was made with becomes that session's, and nobody else's. */
async function resumeChat(
  sessions: Sessions,
  id: string,
  which: string | undefined,
  { caller }: RpcCall,
  resumed: () => void,
): Promise<string> {
  const chat = await sessions.resumeChat(id, which, caller.principal);
  const log = sessions.open(id);
  log.emit('session.configured', { settings: { ...log.record.settings, ...chat.settings } });
  resumed();
  return chat.id;
}

function tooEarly(): never {
  throw fail('server_error', 'the server is still starting');
}
