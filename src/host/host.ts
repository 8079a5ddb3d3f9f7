/**
 * The environment host: plugins, sessions, and the handshake in front of them. Transports hand it links with `accept`;
 * it knows none of them.
 *
 * A server builds one from a configuration; programs build one with `createHost`.
 * @see docs/architecture.md#the-host-and-its-plugins
 */

import { Lifetime, type LifetimeState } from '../base/lifetime.ts';
import type { Log } from '../base/log.ts';
import { silentLog } from '../base/log.ts';
import { isShortage, whyNotStarted } from '../base/not-started.ts';
import type { ShareUsage } from '../base/share-usage.ts';
import { valueKind } from '../base/value-kind.ts';
import { Acceptor } from '../connection/accept.ts';
import type { Route, RunningRequest } from '../connection/running-request.ts';
import { EXTENSION_JOURNAL, EXTENSION_RESUME, type HandshakeReq, journalFollow } from '../protocol/a2e.ts';
import { type Authenticator, createAuthenticator } from '../session/auth.ts';
import { AuthThrottle } from '../session/auth-throttle.ts';
import type { Principal } from '../session/principal.ts';
import { SessionRegistry } from '../session/registry.ts';
import { may } from '../session/rights.ts';
import { Session, type SessionHost, type SessionOptions, type Terms } from '../session/session.ts';
import type { StoredSession } from '../session/stored-session.ts';
import { TrafficShares } from '../session/traffic-shares.ts';
import type { Link } from '../transport/link.ts';
import { type Incoming, shown } from '../wire/codec.ts';
import { asError, type ErrorName, fail, HandfastError } from '../wire/errors.ts';
import { HostCall } from './call.ts';
import { capabilityOfType } from './capability-of-type.ts';
import { hearsChanges, notifyChanged } from './changed-capability.ts';
import { giveRights } from './changed-rights.ts';
import { Delegations } from './delegations.ts';
import { A2EHandshake, type A2EHandshakeDeps, extensionsOf } from './handshake.ts';
import type { Host, HostHealth, HostOptions } from './host-contract.ts';
import { defaultHostLimits, type HostLimits, hostSlots, type SessionLimits, sessionLimits } from './host-limits.ts';
import { journalReader } from './journal-reader.ts';
import type { CapabilityOffer } from './negotiate.ts';
import type { CallDeps, NestedCall } from './nested-call.ts';
import { jsonRpcNotServed } from './not-served.ts';
import type { PluginRuntime, RuntimeDeps } from './plugin-runtime.ts';
import { Plugins } from './plugins.ts';
import { offers } from './routes.ts';
import { PluginState } from './store/plugin-state.ts';
import { grantedNow, interruptedError, StoredSessions } from './stored-sessions.ts';

export type { AuditSink, Host, HostHealth, HostOptions, HostSession, SnapshotStore } from './host-contract.ts';

/** Makes a host. Nothing runs until `start`. Throws `config_invalid` for options that are none. */
export function createHost(options: HostOptions): Host {
  const { plugins, auth } = (options ?? {}) as Partial<HostOptions>;
  if (!Array.isArray(plugins)) {
    throw fail('config_invalid', `expected createHost({ plugins: [plugin] }), got ${valueKind(plugins)} as plugins`);
  }
  if (auth !== undefined && typeof auth.authenticate !== 'function') {
    throw fail('config_invalid', 'auth must come from createAuthenticator of handfast/host');
  }
  return new EnvironmentHost(options);
}

class EnvironmentHost implements Host, SessionHost, A2EHandshakeDeps {
  readonly id: string;
  readonly limits: HostLimits;
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly traffic: TrafficShares;
  readonly log: Log;
  readonly extensions: ReadonlySet<string>;
  readonly #options: HostOptions;
  readonly #registry: SessionRegistry;
  readonly #acceptor: Acceptor;
  readonly #now: () => number;
  readonly #startedAt = performance.now();
  readonly #callDeps: CallDeps;
  readonly #journalRoute: Route;
  readonly #plugins: Plugins;
  readonly #state: PluginState;
  readonly #delegations = new Delegations({
    current: (owner) => (this.auth.current === undefined ? owner : this.auth.current(owner.name)),
    accept: (link, principal) => this.accept(link, principal),
  });
  readonly #termsByKey = new Map<string, Terms>();
  /** The principals of links that need no token. */
  readonly #proven = new WeakMap<Link, Principal>();
  readonly #limitsByPrincipal = new WeakMap<Principal, SessionLimits>();
  #phase: 'new' | 'running' | 'stopping' = 'new';
  readonly #lifetime = new Lifetime();
  /** Sessions that a plugin refused, and the plugins that had accepted them before. */
  readonly #partlyOpened = new WeakMap<Session, PluginRuntime[]>();
  #zombies = 0;
  /** Messages that sessions which are over had no use for. */
  #dropped = 0;
  #journalFailures = 0;
  /** Store of sessions for the next host; undefined without resume, or when the journal ends with the process. */
  readonly #stored: StoredSessions | undefined;
  /** The sessions of the host before this one, while it starts. */
  #toTakeUp: readonly StoredSession[] = [];

  constructor(options: HostOptions) {
    this.#options = options;
    this.id = options.hostId ?? 'handfast';
    this.limits = { ...defaultHostLimits, ...options.limits };
    this.auth = options.auth ?? createAuthenticator([]);
    this.authThrottle = options.authThrottle ?? new AuthThrottle();
    this.traffic = options.traffic ?? new TrafficShares(this.limits);
    this.log = options.log ?? silentLog;
    this.#now = options.now ?? Date.now;
    this.#callDeps = {
      log: this.log,
      workspace: options.workspace ?? process.cwd(),
      pathGuard: options.pathGuard,
      editors: options.editors,
      slots: options.slots ?? hostSlots(this.limits),
      prepare: (capability) => this.#plugins.load(new Set([capability])),
      nestedRoute: (type, session) => this.#nestedRoute(type, session),
      failure: (route, session, thrown) => this.#failure(route, session, thrown),
      running: new Set(),
      nestedDone: (call, error) => this.#auditNested(call, error),
      abandoned: (change) => this.abandoned(change),
    };
    this.#registry = new SessionRegistry(this.limits);
    const { maxPendingConnections: maxPending } = this.limits;
    this.#acceptor = new Acceptor([new A2EHandshake(this), ...(options.dialects ?? []), jsonRpcNotServed], {
      ...this.limits,
      maxPending,
    });
    this.extensions = extensionsOf(options.journal, this.limits);
    const records = this.extensions.has(EXTENSION_RESUME) ? options.journal?.records : undefined;
    this.#stored = records && new StoredSessions(records, this.limits.resumeWindowMs, this.#now);
    this.#state = new PluginState({
      file: options.stateFile,
      storage: options.storage,
      log: this.log,
      now: this.#now,
      opened: () => options.sharedState?.opened(),
      lost: () => this.#plugins.stateLost(),
      sessions: () => new Map(this.#owners()),
    });
    const { log, workspace } = this.#callDeps;
    this.#plugins = new Plugins({
      hostId: this.id,
      log,
      workspace,
      dataDir: options.dataDir,
      storage: options.storage,
      changed: this.#changed,
      hearsChanges: (session) => hearsChanges(session as Session),
      accept: (link, session) => this.#delegations.accept(link, session),
      openState: this.#state.open,
      stateLoss: () => this.#state.loss,
      sharedState: options.sharedState,
      loaded: (runtime) => this.#notifyLoaded(runtime),
    });
    this.#journalRoute = journalReader({
      journal: options.journal,
      owner: (id) => this.#registry.get(id)?.principal.name ?? options.journal?.owner(id),
    });
  }

  get requiresToken(): boolean {
    return this.auth.hasTokens;
  }

  async start(): Promise<void> {
    if (this.#phase !== 'new') return;
    const states = (await this.#options.snapshots?.load()) ?? {};
    this.#toTakeUp = this.#stored?.load() ?? [];
    if (this.#options.checksState === true) await this.#state.openDoubtful();
    try {
      await this.#plugins.start(this.#options.plugins, states);
    } catch (error) {
      this.#state.close();
      throw error;
    }
    for (const session of this.#toTakeUp) this.#takeUp(session);
    this.#toTakeUp = [];
    this.auth.onChange?.(() => this.#rightsChanged());
    this.#phase = 'running';
  }

  /** Restores a session of the previous host, with the present rights of its principal: it waits for its agent. */
  #takeUp(stored: StoredSession): void {
    const { id, owner, record } = stored;
    const principal = this.auth.current?.(owner);
    const granted = grantedNow(record, principal, this.#plugins.served);
    if (principal === undefined || granted === undefined) return this.#forget(id);
    const session = this.#session({
      id,
      agentId: record.agent_id,
      principal,
      terms: this.#terms(granted, new Set(record.extensions)),
      stored,
    });
    try {
      this.#notifyOpened(session);
      this.#registry.add(session);
      this.changed(session);
    } catch (error) {
      this.log.error('a session of the former host was not taken up', { session: id, error });
    }
  }

  /** Removes everything of a session except the entries of its journal. */
  #forget(session: string): void {
    this.#stored?.remove(session);
    this.#state.dropSession(session);
  }

  /** Returns the sessions whose stored state stays. */
  #owners(): [session: string, owner: string][] {
    if (this.#phase === 'new') return this.#toTakeUp.map(({ id, owner }) => [id, owner]);
    return [...this.#registry].map(({ id, principal }) => [id, principal.name]);
  }

  get sessions(): Iterable<Session> {
    return this.#registry;
  }

  readonly #changed: RuntimeDeps['changed'] = (capability, only, concerns) => {
    const plugins = this.#plugins.served.get(capability);
    if (plugins === undefined) return; // Not serving yet: the handshake will report it.
    const sessions = only === undefined ? this.#registry : [this.#registry.get(only.id)];
    notifyChanged(capability, plugins, sessions, concerns);
  };

  /** Gives every session the rights its principal has now. */
  #rightsChanged(): void {
    this.traffic.rightsChanged((name) => this.auth.current?.(name));
    for (const session of [...this.#registry]) {
      const principal = this.#delegations.now(session.principal, this.auth.current?.(session.principal.name));
      if (principal === session.principal) continue;
      if (principal === undefined) {
        session.close('unauthorized', `${session.principal.name} is no longer configured`);
        continue;
      }
      giveRights(session, principal, {
        fits: this.#plugins.grantFits,
        termsOf: (left, extensions) => this.#terms(left, extensions),
        changed: this.#changed,
        ended: (one, capabilities) => this.#plugins.notifyClosed(one, this.#plugins.of(capabilities)),
      });
    }
    for (const call of this.#callDeps.running) call.rightsChanged();
  }

  get started(): boolean {
    return this.#phase !== 'new';
  }

  has(session: string): boolean {
    return this.#registry.get(session) !== undefined;
  }

  accept(link: Link, principal?: Principal): void {
    if (principal !== undefined) this.#proven.set(link, principal);
    if (this.#phase !== 'running') return link.destroy(`the host ${this.started ? 'has stopped' : 'was not started'}`);
    this.#acceptor.accept(link);
  }

  close(graceMs: number = this.limits.shutdownTimeoutMs): Promise<void> {
    return this.#lifetime.close(() => this.#stop(graceMs));
  }

  get state(): LifetimeState {
    return this.#lifetime.state;
  }

  get closed(): Promise<HandfastError | undefined> {
    return this.#lifetime.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #stop(graceMs: number): Promise<void> {
    this.#phase = 'stopping';
    this.#acceptor.close();
    await Promise.all(
      [...this.#registry].map((session) => {
        session.suspended = this.#stored !== undefined && session.resumable;
        return session.drain(graceMs, 'interrupted', 'the host stopped before the work was done');
      }),
    );
    const states = await this.#plugins.stop();
    this.#state.close();
    if (Object.keys(states).length > 0) await this.#options.snapshots?.save(states);
  }

  get shares(): Readonly<Record<string, ShareUsage>> {
    const { threads, processes } = this.#callDeps.slots;
    return { sessions: this.#registry.usage, threads: threads.usage, processes: processes.usage };
  }

  health(): HostHealth {
    let running = 0;
    let dropped = this.#dropped;
    for (const { connection } of this.#registry) {
      running += connection.busy;
      dropped += connection.dropped;
    }
    return {
      host_id: this.id,
      uptime_seconds: Math.round(this.uptimeMs()) / 1000,
      sessions: this.#registry.size,
      pending_links: this.#acceptor.pending,
      running,
      abandoned: this.#zombies,
      dropped_messages: dropped,
      journal_failures: this.#journalFailures + (this.#options.journal?.volatileFailures ?? 0),
      threads: this.#callDeps.slots.threads.held,
      threads_refused: this.#callDeps.slots.threads.refused,
      capabilities: [...this.#plugins.served.keys()],
    };
  }

  // A2EHandshakeDeps: members for the handshake.

  uptimeMs = (): number => performance.now() - this.#startedAt;
  offers = (principal: Principal): ReadonlyMap<string, CapabilityOffer> => offers(this.#plugins.served, { principal });

  get resumeWindowMs(): number {
    return this.limits.resumeWindowMs;
  }

  prepare(granted: ReadonlySet<string>): Promise<void> | undefined {
    return this.#plugins.load(granted);
  }

  authenticate(link: Link, token: unknown): Principal | undefined {
    return this.#proven.get(link) ?? this.auth.authenticate(token);
  }

  find(id: string): Session | undefined {
    return this.#registry.get(id);
  }

  maxParallel(principal: Principal): number {
    return this.#limitsOf(principal).maxParallel;
  }

  maxWaiting(principal: Principal): number {
    return this.#limitsOf(principal).maxWaiting;
  }

  open(
    request: HandshakeReq,
    principal: Principal,
    granted: ReadonlySet<string>,
    extensions: ReadonlySet<string>,
  ): Session {
    if (this.#phase !== 'running') throw fail('server_error', 'the host is stopping');
    this.#registry.mustHaveRoom(principal);
    const id = this.#options.newId?.() ?? crypto.randomUUID().replaceAll('-', '');
    if (id === '' || this.has(id))
      throw fail('runtime_error', 'newId must give an id that is not empty and not in use');
    const session = this.#session({
      id,
      agentId: this.#delegations.agentId(principal) ?? request.agent_id ?? '',
      principal,
      terms: this.#terms(granted, extensions),
    });
    this.#notifyOpened(session);
    this.#registry.add(session);
    this.#delegations.opened(session);
    return session;
  }

  #session(options: Pick<SessionOptions, 'id' | 'agentId' | 'principal' | 'terms' | 'stored'>): Session {
    return new Session({
      ...options,
      host: this,
      limits: this.#limitsOf(options.principal),
      journal: this.#options.journal,
      durableReplies: this.#options.durableReplies,
      resumable: options.terms.extensions.has(EXTENSION_RESUME),
      now: this.#now,
    });
  }

  /** Notifies plugins that a session opened. When one throws, the session ends for those notified before it. */
  #notifyOpened(session: Session): void {
    const notified: PluginRuntime[] = [];
    for (const runtime of this.#plugins.of(session.terms.granted)) {
      try {
        // A grant that does not fit is found here, not at the first call.
        runtime.grantOf(session.principal);
        runtime.plugin.opened?.(session);
        notified.push(runtime);
      } catch (error) {
        this.#partlyOpened.set(session, notified);
        session.close('server_error', 'a plugin refused the session');
        throw error;
      }
    }
  }

  /** Notifies agents of a plugin that was loaded after sessions had been granted its capability. */
  #notifyLoaded({ plugin }: PluginRuntime): void {
    for (const session of this.#registry) {
      if (!session.granted(plugin.type)) continue;
      try {
        plugin.opened?.(session);
      } catch (error) {
        this.log.error('a plugin refused a session', { plugin: plugin.name, session: session.id, error });
        session.close('server_error', 'a plugin refused the session');
      }
    }
  }

  /** Returns the terms. Equal terms are one object: ten thousand idle sessions mostly agree on the same few. */
  #terms(granted: ReadonlySet<string>, extensions: ReadonlySet<string>): Terms {
    const key = `${[...granted].sort()} ${[...extensions].sort()}`;
    let terms = this.#termsByKey.get(key);
    if (terms === undefined) {
      terms = { granted, extensions };
      this.#termsByKey.set(key, terms);
    }
    return terms;
  }

  #limitsOf(principal: Principal): SessionLimits {
    const limits = this.#limitsByPrincipal.get(principal) ?? sessionLimits(this.limits, principal);
    this.#limitsByPrincipal.set(principal, limits);
    return limits;
  }

  onHandshakeDone(
    gate: { link: Link },
    principal: Principal | undefined,
    session: Session | undefined,
    reason: string,
  ): void {
    const { transport, peer } = gate.link;
    this.log.info('handshake', { transport, peer, principal: principal?.name, session: session?.id, reason });
    this.#options.audit?.record({
      time: this.#now(),
      session: session?.id ?? '',
      principal: principal?.name ?? '',
      ...(principal?.task !== undefined && { task: principal.task }),
      peer,
      type: 'handshake/req',
      request_bytes: 0,
      reply_bytes: 0,
      duration_ms: 0,
      outcome: session === undefined ? 'refused' : 'ok',
      ...(reason !== '' && { error_code: reason }),
    });
  }

  // SessionHost: members for sessions.

  route(type: string, session: Session): Route | HandfastError | undefined {
    const route = this.#plugins.route(type);
    if (route !== undefined) {
      const { capability } = route.method;
      if (session.terms.granted.has(capability)) return this.#delegations.refusal(session, type) ?? route;
      return new HandfastError('capability_missing', `capability ${capability} was not granted`, {
        detail: { type },
        capability,
      });
    }
    if (type === journalFollow.request && session.terms.extensions.has(EXTENSION_JOURNAL)) return this.#journalRoute;
    const capability = capabilityOfType(type);
    // A capability without a plugin was not granted either, and that is the more useful error.
    if (capability === undefined) return undefined;
    if (session.terms.granted.has(capability)) return this.#plugins.failure(capability);
    return new HandfastError('capability_missing', `capability ${capability} was not granted`, {
      detail: { type: type.slice(0, 64) },
      capability,
    });
  }

  request(session: Session, incoming: Incoming, route: Route): RunningRequest {
    return new HostCall(session, incoming, route, this.#callDeps);
  }

  /**
   * Returns the route of a call between capabilities: to any capability that the principal may use, whether or not this
   * agent requested it.
   */
  #nestedRoute(type: string, session: Session): Route {
    const route = this.#plugins.route(type);
    const capability = route?.method.capability ?? capabilityOfType(type);
    if (route !== undefined && may(session.principal, 'use', route.method.capability)) return route;
    if (capability === undefined) throw fail('unknown_type', `unsupported message type ${shown(type)}`);
    const reason = route === undefined ? 'no plugin loaded' : 'not allowed for this principal';
    throw new HandfastError('capability_missing', `capability ${capability} cannot be called: ${reason}`, {
      detail: { type: type.slice(0, 64) },
      capability,
    });
  }

  failed(session: Session, request: RunningRequest, thrown: unknown): HandfastError {
    return this.#failure(request.route, session, thrown);
  }

  #failure(route: Route, session: Session, thrown: unknown): HandfastError {
    const { capability } = route.method;
    if (thrown instanceof HandfastError) {
      if (thrown.capability !== '') return thrown;
      const { code, message, detail, retryable, cause } = thrown;
      return new HandfastError(code, message, { detail, retryable, cause, capability });
    }
    // A bug: the peer learns where to look, the log has the rest.
    const correlation = crypto.randomUUID();
    this.log.error('a handler failed', {
      correlation_id: correlation,
      type: route.method.request,
      session: session.id,
      error: thrown,
    });
    const why = isShortage(thrown) ? `the request failed: ${whyNotStarted(thrown)}` : 'the handler failed';
    return new HandfastError('runtime_error', why, {
      detail: { correlation_id: correlation },
      capability,
      cause: asError(thrown),
    });
  }

  replied(session: Session, request: RunningRequest, error: HandfastError | undefined, size: number): void {
    if (this.#options.audit !== undefined) this.#audit(session, request as HostCall, error, request.size, size);
  }

  /** Audits a call between capabilities as a separate line; its sizes are 0, because it was never written. */
  #auditNested(call: NestedCall, error: HandfastError | undefined): void {
    if (this.#options.audit !== undefined)
      this.#audit(call.session, call, error, 0, 0, call.caller.route.method.request);
  }

  #audit(
    session: Session,
    { route, message, startedAt, by, refusal }: Pick<HostCall, 'route' | 'message' | 'startedAt' | 'by' | 'refusal'>,
    failed: HandfastError | undefined,
    requestBytes: number,
    replyBytes: number,
    via?: string,
  ): void {
    const { tool_name } = message;
    const error = failed ?? refusal;
    this.#options.audit?.record({
      time: this.#now(),
      session: session.id,
      principal: session.principal.name,
      task: session.principal.task,
      type: route.method.request,
      request_bytes: requestBytes,
      reply_bytes: replyBytes,
      duration_ms: startedAt === 0 ? 0 : Math.round(performance.now() - startedAt),
      outcome: error === undefined ? 'ok' : error.code === 'cancelled' ? 'cancelled' : 'error',
      // Undefined members, so that all records have one shape: every request has a record.
      error_code: error?.code,
      reason: error === undefined ? undefined : reasonOf(error),
      tool: typeof tool_name === 'string' ? tool_name.slice(0, 128) : undefined,
      via,
      by,
    });
  }

  unread = (session: Session, error: HandfastError): void => this.#delegations.unread(session, error);

  sessionClosed(session: Session, reason: ErrorName): void {
    this.#registry.delete(session.id);
    this.#dropped += session.connection.dropped;
    this.#plugins.notifyClosed(session, this.#partlyOpened.get(session) ?? this.#plugins.of(session.terms.granted));
    if (session.suspended) this.#stored?.store(session, true);
    else this.#forget(session.id);
    this.log.info('session ended', { session: session.id, reason });
    if (this.#options.forgetClosed && session.connection.cursor > 0) {
      this.#options.journal?.delete(session.id).catch((error) => this.journalFailed(session, error));
    } else this.#options.journal?.release?.(session.id);
  }

  interrupted(session: Session, incoming: Incoming): HandfastError {
    return interruptedError(this.route(incoming.type, session), incoming, session);
  }

  changed(session: Session): void {
    if (session.resumable && session.cursor > 0) this.#stored?.store(session);
  }

  abandoned(change: 1 | -1): void {
    this.#zombies += change;
  }

  journalFailed(session: Session, error: unknown): void {
    this.#journalFailures++;
    // Only the first failure is logged; a full disk would otherwise fill the log too.
    if (this.#journalFailures === 1) this.log.error('the journal cannot be written', { session: session.id, error });
  }
}

/** Returns the reason why a call was denied, in its tool's words; for a refused variable, also its name. */
function reasonOf({ code, detail: { reason, name } }: HandfastError): string | undefined {
  if (typeof reason !== 'string' || (code !== 'tool_denied' && code !== 'proc.denied')) return undefined;
  return (reason === 'env_refused' ? `${reason} ${name}` : reason).slice(0, 64);
}
