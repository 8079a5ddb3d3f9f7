/**
 * One HTTP request as a client of the upstream dialect makes it: bounded in time and size, never redirected, and with a
 * failure that says whether the peer may have got it.
 *
 * Used by the peers of `fleet/bus/http/orchestrator-bus.ts` and by receivers that call back.
 */
import { Buffer } from 'node:buffer';
import { Agent, type ClientRequest, request as httpRequest, type RequestOptions } from 'node:http';
import {
  type AnswerOptions,
  type HttpResponse,
  IDLE_CONNECTION_MS,
  readResponse,
} from '../../../transport/http/http-response.ts';
import { fail } from '../../../wire/errors.ts';

/** An address requests go to, taken apart once. */
export interface Endpoint {
  /** For messages. */
  readonly origin: string;
  readonly secure: boolean;
  readonly hostname: string;
  readonly port: number;
  readonly path: string;
  /** Headers every request there has, names and values by turns. */
  readonly headers: readonly string[];
}

/** `body` is JSON text. */
export interface HttpCall extends Omit<AnswerOptions, 'origin' | 'running'> {
  readonly method: 'GET' | 'POST';
  readonly to: Endpoint;
  /** Names and values by turns. */
  readonly headers?: readonly string[];
}

type Begin = (options: RequestOptions) => ClientRequest;

/** A peer that vanished while its answer is waited for is found by the system's probes, which begin after this. */
const PROBE_AFTER_MS = 30_000;

const POOL = { keepAlive: true, keepAliveMsecs: PROBE_AFTER_MS, timeout: IDLE_CONNECTION_MS };

/** Requests, and the connections that are kept between them. */
export class HttpClient {
  readonly #pool = new Agent(POOL);
  /** Loaded only where an address asks for it. */
  #secure: Promise<{ readonly pool: Agent; readonly begin: Begin }> | undefined;
  /** What ends each request under way. */
  readonly #running = new Set<(reason: unknown) => void>();
  #closed = false;

  /**
   * Makes a request. Resolves with the answer, whatever its status. Rejects as {@link readResponse} does, with the reason of
   * `close` when that ended it.
   */
  async exchange(call: HttpCall): Promise<HttpResponse> {
    call.signal?.throwIfAborted();
    if (!call.to.secure) return this.#run(call, this.#pool, httpRequest);
    this.#secure ??= import('node:https').then((https) => ({ pool: new https.Agent(POOL), begin: https.request }));
    const { pool, begin } = await this.#secure;
    return this.#run(call, pool, begin);
  }

  /** Ends all requests, which fail with `reason`, and all connections. */
  close(reason: unknown = fail('interrupted', 'this side is stopping')): void {
    this.#closed = true;
    for (const end of [...this.#running]) end(reason);
    this.#pool.destroy();
    void this.#secure?.then(({ pool }) => pool.destroy());
  }

  #run(call: HttpCall, pool: Agent, begin: Begin): Promise<HttpResponse> {
    const { method, to, headers = [], body } = call;
    if (this.#closed) throw fail('interrupted', 'this side is stopping');
    const about =
      body === undefined ? [] : ['Content-Type', 'application/json', 'Content-Length', `${byteLength(body)}`];
    const request = begin({
      method,
      hostname: to.hostname,
      port: to.port,
      path: to.path,
      // As a list they are written at once, not looked up and copied.
      headers: [...to.headers, ...about, ...headers],
      agent: pool,
      // Without a value of its own a busy connection would inherit the idle one of the pool.
      timeout: 0,
    });
    return readResponse(request, { ...call, origin: to.origin, running: this.#running });
  }
}

const { byteLength } = Buffer;

/** Parses the address of a peer. Fails with `config_invalid` for anything but http(s), and for one that holds a secret. */
export function peerUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fail('config_invalid', `expected an address like http://host:port, got ${JSON.stringify(address)}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw fail('config_invalid', 'an address must not carry a user name or password; give the peer a token');
  }
  url.hash = '';
  url.search = '';
  return url;
}

/** Where requests to a path below an address go. */
export function endpointBelow(base: URL, path: string): Endpoint {
  const { origin, protocol, host, hostname, port, pathname } = below(base, path);
  const secure = protocol === 'https:';
  return {
    origin,
    secure,
    hostname: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (secure ? 443 : 80) : Number(port),
    path: pathname,
    headers: ['Host', host, 'Accept', 'application/json'],
  };
}

/** A path below an address. */
export function below(base: URL, path: string): URL {
  const url = new URL(base);
  url.pathname = `${base.pathname.replace(/\/+$/, '')}${path}`;
  return url;
}
