/**
 * HTTP requests to configured addresses: the parsed address, the one pool of keep-alive connections, the headers of
 * every request. `node:http` and `node:https` are loaded with the first request that needs them.
 *
 * For the client half of the HTTP binding and for the fleet's buses for plain peers.
 */
import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { trimmedEnd } from '../../base/trim-end.ts';
import { asError, type ErrorName, fail } from '../../wire/errors.ts';
import { type HttpResponse, readResponse } from './http-response.ts';

/** Header names and values. */
export type HttpHeaders = Readonly<Record<string, string>>;

/** Responses that are read whole are this long at most. */
const MAX_RESPONSE_BYTES = 64 * 1024;
/** Idle connections are closed before common servers (5 s) do it: a request on a dying connection has no known outcome. */
const IDLE_CONNECTION_MS = 4_000;
/** The system starts to probe a silent connection after this, so that a peer that vanished during a request is noticed. */
const PROBE_AFTER_MS = 30_000;

/** Keep-alive connections to any number of servers of one scheme. */
export interface HttpPool {
  /** Starts a request over the pool, or with the `agent` of the options; the caller ends it and handles `error`. */
  start(options: RequestOptions): ClientRequest;
  /** Ends all connections. */
  close(): void;
}

/** Makes a pool for `http:`, or for `https:` when `secure`. */
export async function httpPool(secure: boolean): Promise<HttpPool> {
  const http = await (secure ? import('node:https') : import('../../base/http/node-http.ts'));
  const agent: Agent = new http.Agent({ keepAlive: true, keepAliveMsecs: PROBE_AFTER_MS, timeout: IDLE_CONNECTION_MS });
  return {
    // Without an explicit timeout a busy connection would inherit the idle one of the pool.
    start: (options) => http.request({ agent, timeout: 0, ...options }),
    close: () => agent.destroy(),
  };
}

/** The parts of an http(s) address that a request needs. */
export interface HttpAddress {
  /** Scheme, host and port, for messages. Never contains a secret. */
  readonly origin: string;
  readonly secure: boolean;
  readonly hostname: string;
  readonly port: number;
}

/** Parses an address. Fails with `code` for anything but http(s), and for one with a user name or password in it. */
export function parseHttpUrl(address: string, code: ErrorName, advice: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fail(code, `expected an address like http://host:port, got ${JSON.stringify(withoutSecret(address))}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw fail(code, `an address must not carry a user name or password; ${advice}`);
  }
  return url;
}

/** Returns an address without its secret, in the form for messages. */
const withoutSecret = (address: string): string => address.replace(/\/\/[^/]*@/, '//');

export function httpAddress({ origin, protocol, hostname, port }: URL): HttpAddress {
  const secure = protocol === 'https:';
  return {
    origin,
    secure,
    hostname: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (secure ? 443 : 80) : Number(port),
  };
}

/** One server as a client sees it. Made by {@link httpTarget}. */
export interface HttpTarget {
  /** Scheme, host and port, for logs. Never contains a secret. */
  readonly origin: string;
  /**
   * Starts a request; the caller ends it and handles `error`. `timeoutMs` is the longest silence on the connection (it
   * raises `timeout`), 0 = none. `apart` uses a separate connection that does not hold the process open.
   */
  start(
    method: string,
    path: string,
    headers: HttpHeaders,
    options?: { timeoutMs?: number; apart?: boolean },
  ): ClientRequest;
  /** Ends all connections of the pool. */
  close(): void;
}

/**
 * Prepares requests to `url` (`http:` or `https:`; a path is put before every path). `headers` go with each request.
 * Fails with `usage` when the address is no such URL or carries a user name or password.
 */
export async function httpTarget(url: string, headers: HttpHeaders = {}): Promise<HttpTarget> {
  const parsed = parseHttpUrl(url, 'usage', 'use headers');
  const { origin, secure, hostname, port } = httpAddress(parsed);
  const pool = await httpPool(secure);
  const base = trimmedEnd(parsed.pathname, '/');
  return {
    origin,
    start(method, path, own, { timeoutMs = 0, apart = false } = {}) {
      const request = pool.start({
        hostname,
        port,
        method,
        path: base + path,
        headers: { ...headers, ...own },
        timeout: timeoutMs,
        ...(apart && { agent: false }),
      });
      if (apart) request.on('socket', (socket) => socket.unref());
      return request;
    },
    close: pool.close,
  };
}

/**
 * Sends a request without a body and reads the whole response. Fails with `cancelled` when `signal` aborts, `unreachable`
 * otherwise, also after `timeoutMs`.
 */
export async function exchange(
  target: HttpTarget,
  method: string,
  path: string,
  options: { headers?: HttpHeaders; timeoutMs: number; signal?: AbortSignal },
): Promise<HttpResponse> {
  const { headers, timeoutMs, signal } = options;
  const { origin } = target;
  try {
    signal?.throwIfAborted();
    const request = target.start(method, path, { ...headers, 'Content-Length': '0' });
    return await readResponse(request, { origin, timeoutMs, maxBytes: MAX_RESPONSE_BYTES, ...(signal && { signal }) });
  } catch (thrown) {
    if (signal?.aborted) throw fail('cancelled', `connecting to ${origin} was cancelled`);
    throw fail('unreachable', asError(thrown).message, { address: origin }, thrown);
  }
}

/** Returns true when no process listens at the address. A host name with several addresses fails with all of their errors. */
export function isRefused(error: NodeJS.ErrnoException): boolean {
  const { errors } = error as { errors?: readonly NodeJS.ErrnoException[] };
  if (errors !== undefined && errors.length > 0) return errors.every(isRefused);
  return error.code === 'ECONNREFUSED';
}

/** Returns the milliseconds of a `Retry-After` header in seconds; undefined when it is missing or a date. */
export function retryAfterMs(response: IncomingMessage): number | undefined {
  const value = response.headers['retry-after'];
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) * 1_000 : undefined;
}
