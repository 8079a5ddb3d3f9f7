/**
 * `serve`: the process of `handfast up` and `handfast fleet up`: a host out of a configuration, on all its addresses, with the
 * server of sessions and, where one is requested, a fleet. Programs reach it through `src/serve.ts`.
 *
 * Order matters. Start: plugins before a peer can call them, addresses before they are registered. Close: the other way round,
 * so that no client finds this server any more, running work gets its time, and all writes are on disk.
 */

import { watchDescriptors } from '../base/descriptors.ts';
import { failingStores, onFailingStore } from '../base/failing-stores.ts';
import { type Closable, Lifetime, type LifetimeState } from '../base/lifetime.ts';
import { type Log, silentLog } from '../base/log.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { ConfigTrust, HostConfig } from '../config/config.ts';
import type { FleetConfig } from '../config/fleet-config.ts';
import { ensureLocalToken } from '../config/local-token.ts';
import type { ControlServer } from '../control/control-server.ts';
import type { Host } from '../host/host.ts';
import { hostSlots } from '../host/host-limits.ts';
import {
  type Authenticator,
  type ConfiguredAuthenticator,
  createAuthenticator,
  LOCAL_PRINCIPAL,
  localGrant,
  type PrincipalTokens,
  restricted,
} from '../session/auth.ts';
import { AuthThrottle } from '../session/auth-throttle.ts';
import { Editors } from '../session/editors.ts';
import { StorageShares } from '../session/storage-shares.ts';
import { TrafficShares } from '../session/traffic-shares.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { type AssembledHost, assembleHost } from './assemble.ts';
import type { ControlAssemblyOptions } from './control/control-assembly.ts';
import type { WorkspaceHost } from './control/own-host.ts';
import { SubagentLinks } from './control/subagent-links.ts';
import type { AssembledFleet } from './fleet/fleet-assembly.ts';
import { InternalTokens } from './fleet/internal-tokens.ts';
import { openHostSockets } from './host-sockets.ts';
import type { RouteFacts } from './http/server-route.ts';
import { openListeners } from './listeners.ts';
import { pathGuard, protectedPaths } from './protected-paths.ts';
import { dialable, type RunningHost, registerRunningHost } from './running-hosts.ts';

/** Time for running work while a store cannot store, milliseconds. */
const FAILING_GRACE_MS = 2_000;

export interface ServerOptions {
  /** Default: nothing is written. */
  readonly log?: Log;
  /** Runs the orchestrator of a fleet, and its workers of this process, too. */
  readonly fleet?: FleetConfig;
  /** False: this host is not registered for the commands of this user. Default true. */
  readonly announce?: boolean;
  /** Reads the configuration again; then tokens, roles and grants can be reloaded. Rejects with `config_invalid`. */
  readonly reread?: () => Promise<HostConfig>;
  /** Version of this software, sent to agents behind sessions. */
  readonly version?: string;
  /** Cancels starting, also while it waits for another orchestrator's end; has no effect once the server is ready. */
  readonly signal?: AbortSignal;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** A running server. */
export interface Server extends Closable {
  readonly host: Host;
  /** The first HTTP address, else the first of all; undefined when the configuration lists none. */
  readonly url: string | undefined;
  /** Every address, with the port that was bound. */
  readonly listeners: readonly string[];
  /** The file with the token of this user's own command line; undefined when no token is needed. */
  readonly tokenFile: string | undefined;
  readonly state: LifetimeState;
  /** Also resolves when a client ends the server (`system.shutdown`), or with an error when the bus of a fleet ended. */
  readonly closed: Promise<HandfastError | undefined>;
  /**
   * Closes in order: no new clients, then running work, then stores. Idempotent, never rejects, bounded.
   * @param graceMs time for running work, milliseconds; default `limits.shutdown_timeout_ms`
   */
  close(graceMs?: number): Promise<void>;
}

/** A running server as the command line sees it: with its parts. */
export interface RunningServer extends Server {
  /** The server of sessions; undefined where it is turned off, or another process has its data. */
  readonly control: ControlServer | undefined;
  /** Routes that are served over HTTP, with the right each requires. */
  readonly routes: readonly RouteFacts[];
  /** The fleet, where one was asked for. */
  readonly fleet: AssembledFleet | undefined;
  /** Reads tokens, roles and grants again; undefined where they cannot change. Rejects with `config_invalid`. */
  readonly reload: (() => Promise<Reloaded>) | undefined;
}

/**
 * Starts a host and opens its addresses.
 *
 * Fails with `config_invalid` for an address that may not or cannot be listened on (`detail.reason`), a plugin that
 * cannot be loaded, or a token file that others can read; with the codes of `sqliteJournal` for a journal on disk. Then
 * nothing is left running.
 */
export async function serve(config: HostConfig, options: ServerOptions = {}): Promise<RunningServer> {
  const { log = silentLog, signal, now = Date.now } = options;
  const { auth, tokenFile, grantsOf } = await accessOf(config);
  const guard = pathGuard(config, options.fleet);
  const authThrottle = new AuthThrottle();
  const slots = hostSlots(config.limits);
  const storage = new StorageShares(config.limits);
  const editors = new Editors();
  const links = new SubagentLinks(editors);
  const traffic = new TrafficShares(config.limits);
  const inside = new InternalTokens(auth);
  // Turns resumed from an earlier run may need tools before the host has started.
  const workspace = Promise.withResolvers<WorkspaceHost>();
  workspace.promise.catch(() => {});
  const version = options.version ?? '0';
  const fleet =
    options.fleet &&
    (await (
      await import('./fleet/fleet-assembly.ts')
    ).assembleFleet(options.fleet, {
      limits: config.limits,
      auth,
      authThrottle,
      traffic,
      log,
      version,
      now,
      ...(signal && { signal }),
    }));
  const offered = await controlOf(config, {
    auth,
    log,
    authThrottle,
    traffic,
    workspaceHost: () => workspace.promise,
    slots,
    storage,
    editors,
    links,
    guard,
    version: () => version,
    handlers: fleet?.handlers,
    backends: fleet && [fleet.backend],
  }).catch(async (error) => {
    await fleet?.stop();
    throw error;
  });
  const control = offered instanceof HandfastError ? undefined : offered;
  links.attach(control);
  try {
    // A fleet without a control server cannot be operated.
    if (fleet !== undefined && offered instanceof HandfastError) throw offered;
    const assembled = await assembleHost(config, {
      auth: inside,
      log,
      authThrottle,
      slots,
      storage,
      traffic,
      editors,
      guard,
      subagents: { fleet: fleet?.tasks, links },
      checksState: true,
      dialects: [control?.rpc.dialect, fleet?.dialect].filter((dialect) => dialect !== undefined),
    });
    const { host, audit, checkGrants } = assembled;
    const reload = reloading(config, { auth, log, grantsOf, guard, checkGrants, reread: options.reread });
    workspace.resolve({ host, audit, tokenFor: (principal) => inside.tokenFor(principal) });
    try {
      if (signal?.aborted) throw fail('cancelled', 'starting was cancelled', undefined, signal.reason);
      const announced = options.announce ?? true;
      const trusts = [config.trust, options.fleet?.trust].filter((trust) => trust !== undefined);
      const server = await openServer(config, assembled, {
        reload,
        auth,
        authThrottle,
        traffic,
        control,
        fleet,
        tokenFile,
        version,
        log,
        announced,
        now,
        trusts,
      });
      await warnOfPrograms(config, log);
      if (offered instanceof HandfastError) {
        log.warn('sessions are not served: another process uses their data', { reason: offered.message });
      }
      return server;
    } catch (error) {
      await assembled.stop(0);
      throw error;
    }
  } catch (error) {
    workspace.reject(error);
    await fleet?.stop();
    await control?.rpc.stop('shutdown');
    throw error;
  }
}

/**
 * Returns the server of sessions, or the error that prevents it. The host still serves tools when another process has the data
 * of the server.
 */
async function controlOf(
  config: HostConfig,
  options: ControlAssemblyOptions,
): Promise<ControlServer | HandfastError | undefined> {
  if (!config.control.enabled) return undefined;
  const { assembleControl } = await import('./control/control-assembly.ts');
  try {
    return await assembleControl(config, options);
  } catch (thrown) {
    const error = asError(thrown);
    if (error.code !== 'journal_locked') throw thrown;
    return error;
  }
}

interface Serving {
  readonly reload: (() => Promise<Reloaded>) | undefined;
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly traffic: TrafficShares;
  readonly control: ControlServer | undefined;
  readonly fleet: AssembledFleet | undefined;
  readonly tokenFile: string | undefined;
  readonly version: string;
  readonly log: Log;
  readonly announced: boolean;
  readonly now: () => number;
  /** Trust in configurations that came with a folder: without it the server closes. */
  readonly trusts: readonly ConfigTrust[];
}

async function openServer(config: HostConfig, assembled: AssembledHost, serving: Serving): Promise<RunningServer> {
  const { auth, authThrottle, traffic, control, fleet, tokenFile, version, log, trusts } = serving;
  const { host, journal, journalShares, audit } = assembled;
  await audit?.open();
  const shares = async () => ({
    ...host.shares,
    ...traffic.usage,
    ...journalShares.usage,
    ...control?.shares,
    ...(await fleet?.shares()),
  });
  const operated = { host, journal, auth, authThrottle, traffic, audit, shares, reload: serving.reload };
  const opened = await openListeners({ config, operated, rpc: control?.rpc, routes: fleet?.routes, version, log });
  try {
    await fleet?.start(control as ControlServer);
  } catch (error) {
    await Promise.all(opened.map((listener) => listener.close()));
    throw error;
  }
  const listeners = opened.map(({ address }) => address);
  const url = listeners.find((address) => address.startsWith('http')) ?? listeners[0];
  const known = { ...operated, listeners: () => listeners };
  const sockets = serving.announced
    ? await openHostSockets({
        home: config.home,
        identity: [config.hostId, config.workspace, fleet?.name ?? '', ...config.listen],
        accept: (link) => host.accept(link),
        operated: listeners.some((address) => address.startsWith('http')) ? known : undefined,
        log,
      })
    : undefined;
  const running: RunningHost = {
    pid: process.pid,
    host_id: config.hostId,
    url: url === undefined ? null : dialable(url),
    listeners,
    socket: sockets?.socket ?? null,
    http_socket: sockets?.httpSocket ?? null,
    workspace: config.workspace,
    token_file: tokenFile ?? null,
    fleet: fleet?.name ?? null,
    sessions: control !== undefined,
    started_at: serving.now(),
  };
  // Without the file commands must be given the address; that is no reason not to serve.
  const withdraw = serving.announced
    ? await registerRunningHost(config.home, running).catch((error) => {
        log.warn('commands will not find this host by themselves', { error });
        return undefined;
      })
    : undefined;
  const lifetime = new Lifetime();
  const unwatched = onFailingStore(({ store, code, message, fatal }) =>
    log.error('a store cannot store', { store, reason: code, error: message, restart: fatal }),
  );
  void lifetime.closed.then(unwatched);
  void lifetime.closed.then(watchDescriptors());
  const end = async (graceMs: number = config.limits.shutdownTimeoutMs): Promise<void> => {
    const failing = failingStores();
    // The outcome of what runs could not be stored.
    const until = performance.now() + (failing.length > 0 ? Math.min(graceMs, FAILING_GRACE_MS) : graceMs);
    const leftMs = (): number => Math.max(0, until - performance.now());
    if (failing.length > 0) {
      const stores = failing.map(({ store, message }) => `${store}: ${message}`);
      log.error('the server ends while stores cannot store; what they refused is not on disk', { stores });
    }
    await withdraw?.();
    // An HTTP port stays open for its sessions until they have ended, which the host sees to.
    const closed = Promise.all([...opened.map((listener) => listener.close()), sockets?.close()]);
    // Tasks are stored and continue with the next process; workers of this one are ended.
    await fleet?.stop();
    // Turns first: they use tools. Those that wait for an answer continue with the next process.
    await control?.rpc.stop('sigterm', leftMs());
    await assembled.stop(leftMs());
    await closed;
  };
  const close = (graceMs?: number, error?: HandfastError) => lifetime.close(() => end(graceMs), error);
  void control?.rpc.stopped.then(async () => {
    if (lifetime.state === 'open') await fleet?.drain();
    await close();
  });
  void fleet?.ended.then((error) => close(undefined, error));
  for (const trust of trusts) {
    const unwatch = trust.onWithdrawn((error) => {
      log.warn('the trust in the configuration was withdrawn; closing', { error: error.message });
      void close(undefined, error);
    });
    void lifetime.closed.then(unwatch);
  }
  return {
    host,
    control,
    fleet,
    reload: serving.reload,
    url,
    listeners,
    routes: opened.flatMap(({ routes = [] }) => routes),
    tokenFile,
    get state() {
      return lifetime.state;
    },
    closed: lifetime.closed,
    close: (graceMs) => close(graceMs),
    [Symbol.asyncDispose]: () => close(),
  };
}

/** Warns of principals that may run programs nothing is covered for. Most servers have none, and load nothing for it. */
async function warnOfPrograms(config: HostConfig, log: Log): Promise<void> {
  if (restricted(config.auth.grants).length === 0) return;
  const { exposingPrincipals } = await import('./exposures.ts');
  for (const warning of await exposingPrincipals(config)) log.warn(warning);
}

/** Outcome of a reload. */
export interface Reloaded {
  /** Names of the current principals. */
  readonly principals: readonly string[];
  /** Sections of the file that differ from the configuration in use: they need a restart. */
  readonly restart: readonly string[];
}

interface Reloading {
  readonly auth: ConfiguredAuthenticator;
  readonly log: Log;
  readonly grantsOf: ((config: HostConfig) => readonly PrincipalTokens[]) | undefined;
  readonly guard: PathGuard;
  readonly checkGrants: AssembledHost['checkGrants'];
  readonly reread: ServerOptions['reread'];
}

/** Members of a configuration that are no sections, are given by the command line too, or are reloaded. */
const NOT_COMPARED: ReadonlySet<keyof HostConfig> = new Set(['auth', 'file', 'home', 'listen', 'trust', 'warnings']);

/** Returns the function that gives every principal the rights the file has now; undefined where rights cannot change. */
function reloading(
  config: HostConfig,
  { auth, log, grantsOf, guard, checkGrants, reread }: Reloading,
): (() => Promise<Reloaded>) | undefined {
  if (reread === undefined || grantsOf === undefined) return undefined;
  return async () => {
    const next = await reread();
    await checkGrants(next);
    const sections = Object.keys(next) as (keyof HostConfig)[];
    const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
    const restart = sections.filter((key) => !NOT_COMPARED.has(key) && !same(next[key], config[key]));
    if (!next.auth.required) restart.push('auth');
    // Before the first of its new tokens is accepted: the files they are in are secrets from now on.
    guard.protect(protectedPaths(next));
    auth.replace(grantsOf(next));
    await warnOfPrograms(next, log);
    const principals = next.auth.grants.map(({ principal }) => principal.name);
    log.warn('rights were reloaded', { principals, restart });
    return { principals, restart };
  };
}

/** The accepted principals, and the function that reads their grants from a configuration. */
interface Access {
  readonly auth: ConfiguredAuthenticator;
  readonly tokenFile: string | undefined;
  /** Undefined where no token is needed. */
  readonly grantsOf: ((config: HostConfig) => readonly PrincipalTokens[]) | undefined;
}

/** Returns the accepted principals: those of the configuration, and this user's own command line. */
async function accessOf(config: HostConfig): Promise<Access> {
  if (!config.auth.required) return { auth: createAuthenticator([]), tokenFile: undefined, grantsOf: undefined };
  const { token, file } = await ensureLocalToken({ home: config.home });
  const grantsOf = (current: HostConfig) => [...namedGrants(current), localGrant(token)];
  return { auth: createAuthenticator(grantsOf(config)), tokenFile: file, grantsOf };
}

function namedGrants({ auth: { grants } }: HostConfig): readonly PrincipalTokens[] {
  if (grants.some(({ principal }) => principal.name === LOCAL_PRINCIPAL.name)) {
    // Sessions belong to names: two principals of one name could read each other's.
    throw fail(
      'config_invalid',
      `the name "${LOCAL_PRINCIPAL.name}" in auth.tokens is reserved for this user's own token`,
    );
  }
  return grants;
}
