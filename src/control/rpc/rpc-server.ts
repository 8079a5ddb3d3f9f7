/**
 * The wire side of the control edge: takes links, makes connections of them, and ends them all.
 *
 * `dialect` is given to a host, so that its listeners serve session RPC beside A2E; `accept` takes links that speak nothing
 * else, such as those of `/rpc`; `serve` takes the pipes of this process. Composed by `control-server.ts`.
 * @see docs/architecture.md
 */
import { within } from '../../base/race.ts';
import { Acceptor, type Dialect } from '../../connection/accept.ts';
import type { ConnectionLimits } from '../../connection/connection.ts';
import { readParams } from '../../protocol/rpc-reader.ts';
import {
  approvalAnswer,
  type HandshakeResult,
  SESSION_RPC_VERSION,
  sessionConfigure,
  sessionSend,
} from '../../protocol/session-rpc.ts';
import { type Authenticator, createAuthenticator, LOCAL_PRINCIPAL } from '../../session/auth.ts';
import { AuthThrottle } from '../../session/auth-throttle.ts';
import type { Principal } from '../../session/principal.ts';
import { must } from '../../session/rights.ts';
import type { CloseInfo, Link } from '../../transport/link.ts';
import { asError, fail } from '../../wire/errors.ts';
import { resultValue } from '../../wire/json.ts';
import { JsonRpcCodec, methodNotFound, NO_REQUEST } from '../../wire/jsonrpc.ts';
import type { RpcCall } from '../contract/handlers.ts';
import { type ClientOwner, ConnectedClient, connectionLimits } from './connected-client.ts';
import { connectionMethods, type MethodsOwner } from './connection-methods.ts';
import type { ControlDeps, ServerAccess } from './control-parts.ts';
import { EventFanOut } from './event-fan-out.ts';
import { type ClientHello, RpcHandshake, type RpcHandshakeDeps } from './handshake.ts';
import { Router } from './router.ts';
import { defaultRpcLimits, type RpcLimits } from './rpc-limits.ts';

export interface RpcServerOptions {
  /** What the handshake calls this server. Default `handfast`. */
  readonly serverName?: string;
  /** Whose token is this? Default: no token, everybody is `local`. Not asked for by {@link RpcServer.serve}. */
  readonly auth?: Authenticator;
  /** Slows guessing down; share the host's where both serve the same listeners. */
  readonly backoff?: AuthThrottle;
  /** True: only the handshake and pings are answered before a handshake, on every link. Default false, as 1.0.0 has it. */
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
  /** Longest line taken from a peer that may call, in bytes. */
  readonly maxMessageBytes: number;
  /** Every callable method, sorted. */
  readonly methods: readonly string[];
  /** Clients that may call. */
  readonly size: number;
  /** Resolves when the server has ended, whoever wanted it: a client, a signal, the end of the input. */
  readonly stopped: Promise<void>;
  /** Takes a link that speaks nothing but session RPC. A token is asked for when there are any. */
  accept(link: Link): void;
  /**
   * Serves whoever started this process, on its pipes: no token is asked for, and the end of the input is the end of the
   * server. Resolves when everything has ended; never rejects.
   */
  serve(link: Link, principal?: Principal): Promise<void>;
  /**
   * Ends the server in good order: everybody is told why (`state.changed`), nothing more is read, turns are ended and
   * their last events sent, outputs are flushed and closed. Idempotent, never rejects, bounded.
   */
  stop(reason: string): Promise<void>;
  /** Calls a method as the caller of `call` would. Fails as it does, or with `unknown_type`. */
  callMethod(name: string, params: Readonly<Record<string, unknown>>, call: RpcCall): Promise<unknown>;
}

/** Makes the wire side of the control edge. Throws `runtime_error` when two handlers answer one method. */
export function createRpcServer(parts: ControlDeps, options: RpcServerOptions = {}): RpcServer {
  return new SessionRpcServer(parts, options);
}

/** A link that is served on its own. */
interface Served {
  readonly client: ConnectedClient;
  readonly gone: PromiseWithResolvers<CloseInfo>;
}

class SessionRpcServer implements RpcServer, ClientOwner, RpcHandshakeDeps, MethodsOwner, ServerAccess {
  readonly limits: RpcLimits;
  readonly router: Router;
  readonly fanOut: EventFanOut;
  readonly auth: Authenticator;
  readonly backoff: AuthThrottle;
  readonly now: () => number;
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
    this.auth = options.auth ?? createAuthenticator([]);
    this.backoff = options.backoff ?? new AuthThrottle();
    this.now = options.now ?? Date.now;
    this.#newId = options.newId ?? (() => crypto.randomUUID());
    this.router = new Router([...connectionMethods(this), ...parts.handlers, ...(parts.serverHandlers?.(this) ?? [])]);
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
      // Whatever the first message looks like: on these links it can only be meant for us.
      [this.dialect],
      { ...this.limits, maxPending },
      this.backoff,
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

  accept(link: Link): void {
    if (this.#state !== 'running') return link.destroy('the server is stopping');
    if (this.auth.hasTokens) return this.#acceptor.accept(link);
    this.#attach(link, LOCAL_PRINCIPAL);
  }

  async serve(link: Link, principal: Principal = LOCAL_PRINCIPAL): Promise<void> {
    const client = this.#attach(link, principal);
    if (client === undefined) return;
    this.#served = { client, gone: Promise.withResolvers() };
    await this.#served.gone.promise;
    await this.stop('input_closed');
  }

  #attach(link: Link, principal: Principal): ConnectedClient | undefined {
    try {
      const client = this.admit(link, principal);
      client.attach(link);
      // No handshake has to come, so the gate has not seen this link.
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
      throw fail('over_capacity', 'too many clients are connected', { max_connections: maxConnections });
    }
    const greeted = this.#options.requireHandshake !== true;
    const facts = { id: this.#newId(), principal, handshakeDone: greeted };
    const client = new ConnectedClient(this, link, facts, this.#connectionLimits);
    this.#clients.set(client.id, client);
    return client;
  }

  /** Requests that were read get their answers, then the link is closed; on the pipes of this process all ends. */
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
    else this.log.info('a client is gone', { ...who, reason: cause.reason });
    if (this.#served?.client === client) this.#served.gone.resolve(cause);
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

  // What the methods of `rpc/` ask.

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
    return {
      protocol_version: SESSION_RPC_VERSION,
      server_name: this.#options.serverName ?? 'handfast',
      capabilities: this.#capabilities,
      methods: this.router.names,
      connection_id: id,
      principal: principal.name,
    };
  }

  /** Times are formatted once a millisecond: that costs more than all the rest of a ping. */
  pong(): { ok: true; time: string } {
    const ms = this.now();
    if (ms !== this.#time.ms) this.#time = { ms, pong: { ok: true, time: new Date(ms).toISOString() } };
    return this.#time.pong;
  }

  // The end.

  async stopBehind(call: RpcCall, reason: string): Promise<void> {
    await this.#announce(reason);
    const stop = (): void => void this.#stop(reason, false);
    // A caller that is gone by now gets no answer, and yet has asked.
    if (call.signal.aborted) stop();
    else call.afterAnswer(stop);
  }

  stop(reason: string): Promise<void> {
    return this.#stop(reason, true);
  }

  #stop(reason: string, announce: boolean): Promise<void> {
    if (this.#state === 'running') {
      this.#state = 'stopping';
      void this.#ending(reason, announce).finally(() => {
        this.#state = 'stopped';
        this.#stopped.resolve();
      });
    }
    return this.#stopped.promise;
  }

  async #announce(reason: string): Promise<void> {
    this.#parts.serverEvents.emit('state.changed', { reason, snapshot: await this.#parts.snapshot() });
  }

  async #ending(reason: string, announce: boolean): Promise<void> {
    this.#acceptor.close();
    const clients = [...this.#clients.values()];
    for (const { connection } of clients) connection.ignoreInput();
    if (announce) {
      await this.#announce(reason).catch((error) => this.log.error('the end could not be announced', { error }));
    }
    const interrupted = () => fail('interrupted', 'the server is stopping');
    await Promise.all(clients.map((client) => client.settle(0, interrupted)));
    await this.#shutDown(reason);
    this.fanOut.close();
    await Promise.all(clients.map(({ link }) => link.close('the server has ended')));
  }

  /** Ends the turns, within its time. */
  async #shutDown(reason: string): Promise<void> {
    const done = (async () => this.#parts.shutdown(reason))().then(
      () => true,
      (error) => {
        this.log.error('the server did not end well', { error });
        return true;
      },
    );
    if ((await within(done, this.limits.shutdownTimeoutMs)) === true) return;
    this.log.error('the server ends although something did not', { reason });
  }
}
