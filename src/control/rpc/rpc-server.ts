/**
 * The wire side of the control edge: accepts links, makes connections of them, and closes all of them at the end.
 *
 * A host gets `dialect`, so that its listeners serve session RPC beside A2E. `accept` gets links for session RPC alone, such as
 * those of `/rpc`, and `serve` the pipes of this process.
 * @see docs/architecture.md
 */
import { within } from '../../base/race.ts';
import { openLosses, toldLosses } from '../../base/sqlite/losses.ts';
import { Acceptor, type Dialect } from '../../connection/accept.ts';
import type { ConnectionLimits } from '../../connection/connection.ts';
import { readParams } from '../../protocol/rpc-reader.ts';
import {
  approvalAnswer,
  type HandshakeResult,
  longMethods,
  SESSION_RPC_VERSION,
  sessionConfigure,
  sessionSend,
} from '../../protocol/session-rpc.ts';
import { type Authenticator, createAuthenticator, LOCAL_PRINCIPAL } from '../../session/auth.ts';
import { AuthThrottle } from '../../session/auth-throttle.ts';
import type { Principal } from '../../session/principal.ts';
import { must } from '../../session/rights.ts';
import type { TrafficShares } from '../../session/traffic-shares.ts';
import type { CloseInfo, Link } from '../../transport/link.ts';
import { asError, fail } from '../../wire/errors.ts';
import { resultValue } from '../../wire/json.ts';
import { JsonRpcCodec, type LongMessages, methodNotFound, NO_REQUEST } from '../../wire/jsonrpc.ts';
import type { RpcCall } from '../contract/handlers.ts';
import { type ClientOwner, ConnectedClient, connectionLimits } from './connected-client.ts';
import { connectionMethods, type MethodsOwner } from './connection-methods.ts';
import type { ControlDeps, ServerAccess } from './control-parts.ts';
import { EventFanOut } from './event-fan-out.ts';
import { type ClientHello, RpcHandshake, type RpcHandshakeDeps } from './handshake.ts';
import { Router } from './router.ts';
import { defaultRpcLimits, type RpcLimits } from './rpc-limits.ts';

export interface RpcServerOptions {
  /** Name of this server in the handshake. Default `handfast`. */
  readonly serverName?: string;
  /** Authenticates tokens. Default: no token is required, every client is `local`. {@link RpcServer.serve} does not use it. */
  readonly auth?: Authenticator;
  /** Throttles addresses that fail to authenticate; pass the host's where both serve the same listeners. */
  readonly authThrottle?: AuthThrottle;
  /** The shares of links and requests; pass the host's where both serve the same listeners. Default: none. */
  readonly traffic?: TrafficShares;
  /** True: only the handshake and pings are served before a handshake, on every link. Default false, as in 1.0.0. */
  readonly requireHandshake?: boolean;
  readonly limits?: Partial<RpcLimits>;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly newId?: () => string;
}

/** A running server. */
export interface RpcServer {
  /** For `HostOptions.dialects`: session RPC on listeners that serve A2E too. */
  readonly dialect: Dialect;
  /** Longest line accepted after the handshake of any client, in bytes. */
  readonly maxMessageBytes: number;
  /** Every callable method, sorted. */
  readonly methods: readonly string[];
  /** Number of connected clients. */
  readonly size: number;
  /** Resolves when the server has ended: by a client, a signal, or the end of the input. */
  readonly stopped: Promise<void>;
  /**
   * Accepts a link for session RPC alone. Requires a token if any are configured, except from the principal that is given: the
   * one that the operating system lets connect.
   */
  accept(link: Link, principal?: Principal): void;
  /**
   * Serves the parent process on the pipes of this one. No token is required, and the end of the input stops the server.
   * Resolves when everything has ended; never rejects.
   */
  serve(link: Link, principal?: Principal): Promise<void>;
  /**
   * Stops the server in order: notifies clients of the reason (`state.changed`), reads no more, ends turns and sends their
   * last events, flushes and closes the outputs. Idempotent, never rejects, bounded.
   * @param graceMs time for turns, milliseconds; default `RpcLimits.shutdownTimeoutMs`
   */
  stop(reason: string, graceMs?: number): Promise<void>;
  /** Calls a method as the caller of `call` would. Fails as it does, or with `unknown_type`. */
  callMethod(name: string, params: Readonly<Record<string, unknown>>, call: RpcCall): Promise<unknown>;
}

/** Makes the wire side of the control edge. Throws `runtime_error` when two handlers serve one method. */
export function createRpcServer(parts: ControlDeps, options: RpcServerOptions = {}): RpcServer {
  return new SessionRpcServer(parts, options);
}

/** The client on the pipes of this process. */
interface Served {
  readonly client: ConnectedClient;
  readonly closed: PromiseWithResolvers<CloseInfo>;
}

class SessionRpcServer implements RpcServer, ClientOwner, RpcHandshakeDeps, MethodsOwner, ServerAccess {
  readonly limits: RpcLimits;
  readonly router: Router;
  readonly fanOut: EventFanOut;
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly now: () => number;
  readonly long: LongMessages;
  readonly dialect: Dialect = new RpcHandshake(this);
  readonly #parts: ControlDeps;
  readonly #options: RpcServerOptions;
  readonly #capabilities: HandshakeResult['capabilities'];
  readonly #clients = new Map<string, ConnectedClient>();
  readonly #connectionLimits: ConnectionLimits;
  readonly #acceptor: Acceptor;
  readonly #newId: () => string;
  readonly #stopped = Promise.withResolvers<void>();
  #served: Served | undefined;
  #state: 'running' | 'stopping' | 'stopped' = 'running';
  #time = { ms: Number.NaN, pong: { ok: true as const, time: '' } };

  constructor(parts: ControlDeps, options: RpcServerOptions) {
    this.#parts = parts;
    this.#options = options;
    this.limits = { ...defaultRpcLimits, ...options.limits };
    this.#connectionLimits = connectionLimits(this.limits);
    const { maxPlainMessageBytes: limit } = this.limits;
    const message = `only ${[...longMethods].join(' and ')} may have more than ${limit} bytes (limits.max_message_bytes)`;
    this.long = { above: limit, methods: longMethods, refusal: fail('too_large', message, { limit, unit: 'bytes' }) };
    this.auth = options.auth ?? createAuthenticator([]);
    this.authThrottle = options.authThrottle ?? new AuthThrottle();
    this.now = options.now ?? Date.now;
    this.#newId = options.newId ?? (() => crypto.randomUUID());
    this.router = new Router(
      [...connectionMethods(this), ...parts.handlers, ...(parts.serverHandlers?.(this) ?? [])],
      (session) => parts.events.settled(session),
    );
    this.#capabilities = {
      events: true,
      command_execute: true,
      multi_session: true,
      image_inputs: ['path', 'data_url'],
      event_replay: true,
      approvals: this.router.has(approvalAnswer),
      cancel_request: true,
      parallel_tools: this.router.has(sessionConfigure),
      idempotent_send: this.router.has(sessionSend),
    };
    const { maxPendingConnections: maxPending } = this.limits;
    this.#acceptor = new Acceptor(
      // These links carry session RPC alone, so the first message is not sniffed.
      [this.dialect],
      { ...this.limits, maxPending },
    );
    this.auth.onChange?.(() => this.#rightsChanged());
    this.fanOut = new EventFanOut(parts.events, () => this.#clients.values().some(({ events }) => events.debug));
  }

  get log(): ControlDeps['log'] {
    return this.#parts.log;
  }

  get maxMessageBytes(): number {
    return this.limits.maxMessageBytes;
  }

  get maxDepth(): number {
    return this.limits.maxDepth;
  }

  get methods(): readonly string[] {
    return this.router.names;
  }

  get size(): number {
    return this.#clients.size;
  }

  get stopped(): Promise<void> {
    return this.#stopped.promise;
  }

  // Links.

  accept(link: Link, principal?: Principal): void {
    if (this.#state !== 'running') return link.destroy('the server is stopping');
    if (principal !== undefined) return void this.#attach(link, principal);
    if (this.auth.hasTokens) return this.#acceptor.accept(link);
    this.#attach(link, LOCAL_PRINCIPAL);
  }

  async serve(link: Link, principal: Principal = LOCAL_PRINCIPAL): Promise<void> {
    const client = this.#attach(link, principal);
    if (client === undefined) return;
    this.#served = { client, closed: Promise.withResolvers() };
    await this.#served.closed.promise;
    await this.stop('input_closed');
  }

  #attach(link: Link, principal: Principal): ConnectedClient | undefined {
    try {
      const client = this.admit(link, principal);
      client.attach(link);
      // No handshake is required, so the acceptor does not watch this link.
      this.#acceptor.liveness.watch(link, () => client.ping());
      return client;
    } catch (thrown) {
      link.send(new JsonRpcCodec({ calls: false }).failure(link.text, NO_REQUEST, asError(thrown)));
      void link.close('over_capacity');
      return undefined;
    }
  }

  admit(link: Link, principal: Principal): ConnectedClient {
    if (this.#state !== 'running') throw fail('interrupted', 'the server is stopping');
    const { maxConnections } = this.limits;
    if (this.#clients.size >= maxConnections) {
      throw fail('over_capacity', 'too many clients are connected; close some', { max_connections: maxConnections });
    }
    const traffic = this.#options.traffic?.of(principal, link);
    traffic?.mustHaveRoom();
    const handshakeDone = this.#options.requireHandshake !== true;
    const facts = { id: this.#newId(), principal, handshakeDone };
    const client = new ConnectedClient(this, link, facts, this.#connectionLimits);
    client.connection.traffic = traffic;
    this.#clients.set(client.id, client);
    return client;
  }

  /** Sends the replies of requests that were read, then closes the link; on the pipes of this process, stops the server. */
  ended(client: ConnectedClient): void {
    client.connection.ignoreInput();
    const reason = () => fail('interrupted', 'the input has ended');
    void client.settle(this.limits.settleMs, reason).then(() => {
      if (this.#served?.client === client) return this.stop('input_closed');
      return client.link.close('input ended');
    });
  }

  closed(client: ConnectedClient, cause: CloseInfo): void {
    this.#clients.delete(client.id);
    const { id, link, principal, caller } = client;
    const { transport, peer } = link;
    const who = { connection: id, transport, peer, principal: principal.name, client: caller.clientName };
    if (cause.reason === 'slow_consumer') this.log.warn('a client did not read and was dropped', who);
    else this.log.info('client disconnected', { ...who, reason: cause.reason });
    if (this.#served?.client === client) this.#served.closed.resolve(cause);
  }

  /** Gives every client the rights its principal has now; one that is no longer configured is disconnected. */
  #rightsChanged(): void {
    for (const client of [...this.#clients.values()]) {
      // The owner of the pipes of this process needs no token, and has its rights from nowhere else.
      if (this.#served?.client === client) continue;
      const principal = this.auth.current?.(client.principal.name);
      if (principal === undefined) void client.link.close('unauthorized');
      else client.rightsChanged(principal);
    }
  }

  // For the methods of `rpc/`.

  clientOf(call: RpcCall): ConnectedClient {
    const client = this.#clients.get(call.caller.connectionId);
    if (client === undefined) throw fail('connection_lost', 'the connection ended');
    return client;
  }

  clients(): Iterable<ConnectedClient> {
    return this.#clients.values();
  }

  async callMethod(name: string, params: Readonly<Record<string, unknown>>, call: RpcCall): Promise<unknown> {
    const handler = this.router.handlerOf(name);
    if (handler === undefined) throw methodNotFound(name);
    if (handler.needs !== 'none') must(call.caller.principal, handler.needs);
    return resultValue(await handler.handle(readParams(handler.method, params), call));
  }

  welcome(client: ConnectedClient, greeting: ClientHello): HandshakeResult {
    client.introduced(greeting);
    client.events.choose(greeting.allEvents, greeting.optedOut);
    const { id, link, principal } = client;
    this.log.info('session RPC handshake', {
      connection: id,
      transport: link.transport,
      peer: link.peer,
      principal: principal.name,
      client: greeting.clientName,
      version: greeting.clientVersion,
    });
    const losses = toldLosses(openLosses());
    return {
      protocol_version: SESSION_RPC_VERSION,
      server_name: this.#options.serverName ?? 'handfast',
      capabilities: this.#capabilities,
      methods: this.router.names,
      connection_id: id,
      principal: principal.name,
      ...(losses.length > 0 && { losses }),
    };
  }

  /** Formats the time once a millisecond, because that is the largest cost of a ping. */
  pong(): { ok: true; time: string } {
    const ms = this.now();
    if (ms !== this.#time.ms) this.#time = { ms, pong: { ok: true, time: new Date(ms).toISOString() } };
    return this.#time.pong;
  }

  // The end.

  async stopBehind(call: RpcCall, reason: string): Promise<void> {
    await this.#announce(reason);
    const stop = (): void => void this.#stop(reason, false, this.limits.shutdownTimeoutMs);
    // A caller that has disconnected gets no reply, and its request still stops the server.
    if (call.signal.aborted) stop();
    else call.afterAnswer(stop);
  }

  stop(reason: string, graceMs: number = this.limits.shutdownTimeoutMs): Promise<void> {
    return this.#stop(reason, true, graceMs);
  }

  #stop(reason: string, announce: boolean, graceMs: number): Promise<void> {
    if (this.#state === 'running') {
      this.#state = 'stopping';
      void this.#ending(reason, announce, graceMs).finally(() => {
        this.#state = 'stopped';
        this.#stopped.resolve();
      });
    }
    return this.#stopped.promise;
  }

  async #announce(reason: string): Promise<void> {
    this.#parts.serverEvents.emit('state.changed', { reason, snapshot: await this.#parts.snapshot() });
  }

  async #ending(reason: string, announce: boolean, graceMs: number): Promise<void> {
    this.#acceptor.close();
    const clients = [...this.#clients.values()];
    for (const { connection } of clients) connection.ignoreInput();
    if (announce) {
      await this.#announce(reason).catch((error) =>
        this.log.error('clients could not be notified of the shutdown', { error }),
      );
    }
    const interrupted = () => fail('interrupted', 'the server is stopping');
    await Promise.all(clients.map((client) => client.settle(0, interrupted)));
    await this.#shutDown(reason, graceMs);
    this.fanOut.close();
    await Promise.all(clients.map(({ link }) => link.close('the server has ended')));
  }

  /** Ends the turns within a time. */
  async #shutDown(reason: string, graceMs: number): Promise<void> {
    const done = (async () => this.#parts.shutdown(reason))().then(
      () => true,
      (error) => {
        this.log.error('the server did not stop cleanly', { error });
        return true;
      },
    );
    if ((await within(done, graceMs)) === true) return;
    this.log.error('the server exits although a part of it did not stop', { reason });
  }
}
