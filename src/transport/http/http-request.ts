/**
 * Where an HTTP client sends its requests: the parsed address, one pool of kept-alive connections, the headers that go
 * with everything. `https:` is loaded only when an address asks for it.
 *
 * Used by the client half of the HTTP binding (`http-client.ts` and its parts).
 */
import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { asError, fail } from '../../wire/errors.ts';
import { type HttpResponse, IDLE_CONNECTION_MS, readResponse } from './http-response.ts';

/** Header names and values. */
export type HttpHeaders = Readonly<Record<string, string>>;

/** Answers that are read whole are this long at most. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** One server as a client sees it. Made by {@link httpTarget}. */
export interface HttpTarget {
  /** Scheme, host and port, for logs. Never holds a secret. */
  readonly origin: string;
  /**
   * Begins a request; the caller ends it and handles `error`. `timeoutMs` is the longest silence on the connection (it
   * raises `timeout`), 0 = none. `apart` uses a connection of its own that does not keep the process alive.
   */
  begin(
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
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')) {
    throw fail('usage', 'expected an address like http://host:port');
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw fail('usage', 'an address must not carry a user name or password; use headers');
  }
  const secure = parsed.protocol === 'https:';
  const { Agent: PoolAgent, request } = secure ? await import('node:https') : { Agent, request: httpRequest };
  const pool: Agent = new PoolAgent({ keepAlive: true, timeout: IDLE_CONNECTION_MS });
  const hostname = parsed.hostname.replace(/^\[|\]$/g, '');
  const port = parsed.port === '' ? (secure ? 443 : 80) : Number(parsed.port);
  const base = parsed.pathname.replace(/\/+$/, '');
  return {
    origin: parsed.origin,
    begin(method, path, own, options = {}) {
      const requestOptions: RequestOptions = {
        hostname,
        port,
        method,
        path: base + path,
        headers: { ...headers, ...own },
        agent: options.apart ? false : pool,
        // Without an own value a busy connection would inherit the idle one of the pool.
        timeout: options.timeoutMs ?? 0,
      };
      const begun = request(requestOptions);
      if (options.apart) begun.on('socket', (socket) => socket.unref());
      return begun;
    },
    close() {
      pool.destroy();
    },
  };
}

/**
 * Sends a request without a body and reads the whole answer. Fails with `cancelled` when `signal` aborts, `unreachable`
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
    const request = target.begin(method, path, { ...headers, 'Content-Length': '0' });
    return await readResponse(request, { origin, timeoutMs, maxBytes: MAX_ANSWER_BYTES, ...(signal && { signal }) });
  } catch (thrown) {
    if (signal?.aborted) throw fail('cancelled', `connecting to ${origin} was given up`);
    throw fail('unreachable', asError(thrown).message, { address: origin }, thrown);
  }
}

/** Milliseconds of a `Retry-After` header in seconds; undefined when there is none or it is a date. */
export function retryAfterMs(response: IncomingMessage): number | undefined {
  const value = response.headers['retry-after'];
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) * 1_000 : undefined;
}
