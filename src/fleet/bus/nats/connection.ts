/**
 * One connection to NATS that is never abandoned: it reconnects by itself, with bounded waits, and reads its secrets again each
 * time. Operations under way when it breaks fail at once, so that callers who can ask again do so the moment it is back.
 *
 * One for each bus of an orchestrator, for each worker and for each task store.
 */

import { Backoff } from '../../../base/backoff.ts';
import { isLogged, type Log } from '../../../base/log.ts';
import { withTimeout } from '../../../base/race.ts';
import { sleep } from '../../../base/sleep.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import {
  type ConnectionOptions,
  type JetStreamClient,
  type JetStreamManager,
  loadNats,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  type NatsPackages,
} from './client.ts';
import { isPassing, publishError, readPublishAck } from './publish-ack.ts';
import { DELAYS, Redial, type Retry } from './redial.ts';
import { NoReplyError, RequestMux } from './request-mux.ts';
import { identityOf, type NatsAuth } from './secrets.ts';
import { SetAside } from './set-aside.ts';
import { type NatsTls, tlsOf, tlsProblem } from './tls.ts';

export interface NatsOptions {
  /** `nats://host:port` or `tls://host:port`; several are one cluster. */
  readonly servers: string | readonly string[];
  readonly auth?: NatsAuth;
  readonly tls?: NatsTls;
  /** Timeout of the first connection, milliseconds. Default 30,000; workers: no limit. */
  readonly connectTimeoutMs?: number;
  /** Time that a message waits for its acknowledgement, while it is sent again, milliseconds. Default 20,000. */
  readonly publishTimeoutMs?: number;
  readonly log?: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** Environment variables. Default `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Longest time of one request before it is sent again, milliseconds. */
const REQUEST_MS = 3_000;
const DEFAULT_CONNECT_MS = 30_000;
const DEFAULT_PUBLISH_MS = 20_000;
/** The client drops a connection that is silent for three of these: the 15 s of every other transport. */
const PING_MS = 5_000;
const CLOSE_MS = 3_000;

/**
 * Opens a connection. `inboxPrefix` is the prefix of reply subjects; a separate one lets a server forbid others to listen.
 * `onRetry` is called before every further attempt. Fails with `unreachable`, `auth_failed`, `not_configured`,
 * `config_invalid`.
 */
export async function openNats(
  name: string,
  options: NatsOptions,
  {
    signal,
    inboxPrefix,
    onRetry,
  }: {
    readonly signal?: AbortSignal;
    readonly inboxPrefix?: string;
    readonly onRetry?: (retry: Retry) => void;
  } = {},
): Promise<NatsLink> {
  const packages = await loadNats();
  const servers = [options.servers].flat();
  if (servers.length === 0) throw fail('config_invalid', 'no address of a NATS server was given');
  const identity = identityOf(packages, options.auth, options);
  const redial = new Redial();
  const settings: ConnectionOptions = {
    servers,
    name,
    timeout: REQUEST_MS,
    reconnect: true,
    maxReconnectAttempts: -1,
    // A secret that was replaced is refused once or twice until its file has been written.
    ignoreAuthErrorAbort: true,
    reconnectDelayHandler: () => redial.delayMs(),
    pingInterval: PING_MS,
    maxPingOut: 2,
    noAsyncTraces: true,
    ...(inboxPrefix !== undefined && { inboxPrefix }),
    tls: tlsOf(options.tls, servers),
    ...(identity.authenticator && { authenticator: identity.authenticator }),
  };
  const first = new Backoff(DELAYS);
  const { connectTimeoutMs = DEFAULT_CONNECT_MS } = options;
  const bound = Number.isFinite(connectTimeoutMs) ? [AbortSignal.timeout(connectTimeoutMs)] : [];
  const until = AbortSignal.any([...bound, ...(signal ? [signal] : [])]);
  for (;;) {
    try {
      const connection = await packages.transport.connect(settings);
      redial.ended();
      return new NatsLink(packages, connection, options, redial, inboxPrefix);
    } catch (error) {
      const { name: kind, message } = error as Error;
      if (kind === 'AuthorizationError' || kind === 'UserAuthenticationExpiredError') {
        const { advice } = identity;
        throw fail('auth_failed', `the NATS server refused the credentials: ${message}; ${advice}`, {}, error);
      }
      const problem = tlsProblem(error);
      if (problem !== undefined) throw problem;
      const retryInMs = first.next();
      const attempt = first.failures + 1;
      if (isLogged(first.failures)) {
        options.log?.warn('no NATS server responds yet', {
          error: message,
          attempt,
          retry_in_ms: Math.round(retryInMs),
        });
      }
      onRetry?.({ attempt, retryInMs, reason: fail('unreachable', `no NATS server responded: ${message}`, {}, error) });
      await sleep(retryInMs, until);
      if (until.aborted) {
        signal?.throwIfAborted();
        const silent = options.tls !== undefined && options.tls.certFile === undefined;
        const hint = silent
          ? '; a server that requires a certificate does not reply without one (nats.tls.cert_file)'
          : '';
        throw fail(
          'unreachable',
          `no NATS server responded within ${connectTimeoutMs} ms: ${message}${hint}`,
          {},
          error,
        );
      }
    }
  }
}

/** Names of client errors after which the outcome of the request is unknown. */
const MAYBE = new Set(['TimeoutError', 'RequestError', 'ClosedConnectionError', 'ConnectionError', 'ProtocolError']);

/** A connection, its state (up or not), and the operations over it. */
export class NatsLink {
  readonly packages: NatsPackages;
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly log: Log | undefined;
  /** Entries that its readers of buckets could not read. */
  readonly aside: SetAside;
  /** Resolves when the client has closed the connection by itself, for good. */
  readonly lost: Promise<HandfastError>;
  readonly #servers: number;
  readonly #publishTimeoutMs: number;
  readonly #inboxPrefix: string | undefined;
  readonly #listeners = new Set<(up: boolean) => void>();
  /** Fails operations under way, when the connection breaks. */
  readonly #underWay = new Set<(error: Error) => void>();
  readonly #asking: RequestMux;
  readonly #closing = new AbortController();
  readonly #redial: Redial;
  #manager: Promise<JetStreamManager> | undefined;
  readonly #now: () => number;
  /** Epoch milliseconds. */
  #downSince: number | undefined;
  /** True while the outage may be logged: of connections that break soon after they were made, few are. */
  #logsOutage = true;

  constructor(
    packages: NatsPackages,
    connection: NatsConnection,
    options: NatsOptions,
    redial: Redial,
    inboxPrefix: string | undefined,
  ) {
    this.#inboxPrefix = inboxPrefix;
    this.packages = packages;
    this.connection = connection;
    this.log = options.log;
    this.aside = new SetAside(options.log);
    this.#now = options.now ?? Date.now;
    this.#asking = new RequestMux(connection, this.inbox(), REQUEST_MS);
    this.#servers = [options.servers].flat().length;
    this.#publishTimeoutMs = options.publishTimeoutMs ?? DEFAULT_PUBLISH_MS;
    this.js = packages.jetstream.jetstream(connection, { timeout: REQUEST_MS, checkAPI: false });
    this.lost = new Promise((resolve) => {
      void connection.closed().then((error) => {
        if (this.#closing.signal.aborted) return;
        const reason = error instanceof Error ? `: ${error.message}` : '';
        resolve(fail('connection_lost', `the connection to NATS was closed for good${reason}`, {}, error ?? undefined));
      });
    });
    this.#redial = redial;
    void this.#watch();
  }

  /** True while the connection stands. */
  get up(): boolean {
    return this.#downSince === undefined;
  }

  /** Time since when it does not stand, epoch milliseconds; undefined: it does. */
  get downSince(): number | undefined {
    return this.#downSince;
  }

  /** Aborts when this side closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Returns a new subject only this connection listens to. */
  inbox(): string {
    return this.packages.transport.createInbox(this.#inboxPrefix);
  }

  /** For people; holds no secret. */
  get address(): string {
    return `nats://${this.connection.getServer()}`;
  }

  /** Default number of stream copies: a configuration that names three servers has a cluster. */
  get defaultReplicas(): number {
    return this.#servers >= 3 ? 3 : 1;
  }

  /** True when the server is of this version or a later one. */
  atLeast(major: number, minor: number): boolean {
    const [theirMajor = 0, theirMinor = 0] = (this.connection.info?.version ?? '').split('.').map(Number);
    return theirMajor > major || (theirMajor === major && theirMinor >= minor);
  }

  manager(): Promise<JetStreamManager> {
    this.#manager ??= this.js.jetstreamManager(false);
    return this.#manager;
  }

  /** Calls `listener` whenever the connection breaks or comes back. Returns a function that removes the listener. */
  onChange(listener: (up: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Milliseconds until the client dials a lost server again. */
  get retryInMs(): number {
    return this.#redial.retryInMs;
  }

  /** Calls `listener` before every attempt to connect again but the first of an outage, which {@link onChange} reports. */
  onRetry(listener: (retry: Retry) => void): void {
    this.#redial.onRetry = (retry) => {
      if (this.up || this.#closing.signal.aborted) return;
      listener({ ...retry, reason: fail('unreachable', 'the NATS server is unreachable') });
    };
  }

  /** Tries one operation once. Fails with {@link NoReplyError} when it had no reply; with the server's error, otherwise. */
  async attempt<T>(operation: () => Promise<T>): Promise<T> {
    if (!this.up || this.connection.isClosed()) throw new NoReplyError('the connection is down', false);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#underWay.add(reject);
    operation().then(resolve, reject);
    try {
      return await promise;
    } catch (error) {
      const { name, message } = error as Error;
      if (isPassing(error)) throw new NoReplyError(message, false, error);
      if (name === 'JetStreamNotEnabled') throw new NoReplyError('no stream accepts this now', false, error);
      if (MAYBE.has(name)) {
        // The cause holds a refusal for missing permissions.
        const cause = (error as Error).cause as Error | undefined;
        if (cause?.name === 'PermissionViolationError') throw cause;
        throw new NoReplyError(message, true, error);
      }
      throw error;
    } finally {
      this.#underWay.delete(reject);
    }
  }

  /**
   * Repeats an operation that does no harm when done twice, until it is answered. Fails with `unreachable` when nothing was
   * sent, `timeout` when it may have happened, else with the error of the server's refusal.
   */
  async until<T>(
    operation: () => Promise<T>,
    withinMs: number = this.#publishTimeoutMs,
    signal?: AbortSignal,
  ): Promise<T> {
    const end = performance.now() + withinMs;
    let sent = false;
    const delays = new Backoff({ firstDelayMs: 20, maxDelayMs: 1000 });
    for (;;) {
      signal?.throwIfAborted();
      try {
        const trying = this.attempt(operation);
        const forMs = end - performance.now();
        // Requests bound themselves; only a shorter bound needs a separate clock.
        if (forMs >= REQUEST_MS) return await trying;
        return await withTimeout(
          trying,
          Math.max(1, forMs),
          () => new NoReplyError('no reply within the timeout', true),
        );
      } catch (error) {
        if (!(error instanceof NoReplyError)) throw publishError(error);
        sent ||= error.sent;
        const leftMs = end - performance.now();
        if (leftMs <= 0 || this.#closing.signal.aborted) {
          const message = `no answer from the NATS server: ${error.message}`;
          throw fail(sent ? 'timeout' : 'unreachable', message, {}, error);
        }
        await this.#pause(Math.min(delays.next(), leftMs), signal);
      }
    }
  }

  /**
   * Stores a message on the stream of its subject. The same `id` within the stream's window is stored once. `check` throws when
   * it must not be sent any more, also while it is sent again. Resolves with its position.
   */
  async publish(
    subject: string,
    data: Uint8Array,
    id: string,
    { signal, check }: { readonly signal?: AbortSignal; readonly check?: () => void } = {},
  ): Promise<number> {
    const once = async (): Promise<number> => {
      check?.();
      return this.store(subject, data, { 'Nats-Msg-Id': id });
    };
    return this.until(once, undefined, signal);
  }

  /** Stores a message on the stream of its subject, once. Resolves with its position; fails with the server's error. */
  async store(subject: string, data: Uint8Array, named: Readonly<Record<string, string>>): Promise<number> {
    return readPublishAck(await this.#asking.ask(subject, data, this.headers(named)));
  }

  /** Makes one request. Fails with {@link NoReplyError}, or the server's error. */
  ask(subject: string, data: string): Promise<Msg> {
    return this.#asking.ask(subject, data);
  }

  headers(named: Readonly<Record<string, string>>): MsgHdrs {
    const headers = this.packages.transport.headers();
    for (const [name, value] of Object.entries(named)) headers.set(name, value);
    return headers;
  }

  /** Sends when that is possible now; drops it otherwise. */
  notify(subject: string, data: Uint8Array): void {
    if (!this.up || this.connection.isClosed()) return;
    try {
      this.connection.publish(subject, data);
    } catch (error) {
      this.log?.warn('a message could not be sent', { subject, error: (error as Error).message });
    }
  }

  /** Flushes written messages, and closes. Bounded; never rejects. */
  async close(): Promise<void> {
    this.#closing.abort();
    const late = () => fail('timeout', 'not closed in time');
    if (this.up) await withTimeout(this.connection.flush(), CLOSE_MS, late).catch(() => {});
    this.#listeners.clear();
    await withTimeout(this.connection.close(), CLOSE_MS, late).catch(() => {});
  }

  /** Waits for a time, or until the connection is back, or closed. */
  async #pause(ms: number, signal?: AbortSignal): Promise<void> {
    const back = new AbortController();
    const stopListening = this.onChange((up) => up && back.abort());
    try {
      await sleep(ms, AbortSignal.any([back.signal, this.#closing.signal, ...(signal ? [signal] : [])]));
    } finally {
      stopListening();
    }
  }

  async #watch(): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === 'disconnect') this.#set(false);
      else if (status.type === 'reconnecting') this.#redial.dialled();
      else if (status.type === 'reconnect') {
        this.#redial.ended();
        this.#set(true);
      } else if (status.type === 'error') {
        const { error } = status;
        this.log?.warn('the NATS server reports an error', { error: error.message });
        if (error.name === 'PermissionViolationError') {
          this.#asking.refuse((error as Error & { readonly subject?: string }).subject ?? '', error);
        }
      }
    }
    this.#set(false);
  }

  #set(up: boolean): void {
    if (this.up === up) return;
    this.#downSince = up ? undefined : this.#now();
    if (!up) this.#logsOutage = isLogged(this.#redial.lost());
    if (this.#logsOutage && !this.#closing.signal.aborted) {
      this.log?.info(up ? 'connected to NATS again' : 'the connection to NATS is down');
    }
    if (!up) {
      const broken = new NoReplyError('the connection broke', true);
      for (const reject of [...this.#underWay]) reject(broken);
      this.#asking.broken();
    }
    for (const listener of [...this.#listeners]) listener(up);
  }
}
