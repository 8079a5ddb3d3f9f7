/**
 * The one HTTP client of a bus for plain peers: requests that are bounded in time and size, never redirected, and whose
 * failure says whether the peer may have received them.
 *
 * Each bus, server and executor that calls peers over HTTP has one; `fetch` is its form for libraries that want one.
 */

import { Buffer } from 'node:buffer';
import type { ClientRequest } from 'node:http';
import { Readable } from 'node:stream';
import { trimmedEnd } from '../../../base/trim-end.ts';
import {
  type HttpAddress,
  type HttpPool,
  httpAddress,
  httpPool,
  parseHttpUrl,
} from '../../../transport/http/http-request.ts';
import {
  type ExchangeOptions,
  type HttpResponse,
  openResponse,
  type ResponseOptions,
  readResponse,
} from '../../../transport/http/http-response.ts';
import { fail } from '../../../wire/errors.ts';

/** An address that requests go to, parsed once. */
export interface Endpoint extends HttpAddress {
  readonly path: string;
  /** Headers of every request, names and values by turns. */
  readonly headers: readonly string[];
}

interface Call {
  readonly method: string;
  readonly to: Endpoint;
  /** Names and values by turns. */
  readonly headers?: readonly string[];
}

/** `body` is JSON text. */
export interface HttpCall extends Call, Omit<ResponseOptions, 'origin' | 'running'> {
  readonly method: 'GET' | 'POST';
}

/** Longest wait for the headers of a response that is streamed, milliseconds; callers bring a signal with their own bound. */
const HEADERS_TIMEOUT_MS = 3_600_000;

export class HttpClient {
  /** Loaded with the first request of their scheme. */
  readonly #pools = new Map<boolean, Promise<HttpPool>>();
  /** Ends one request that runs. */
  readonly #running = new Set<(reason: unknown) => void>();
  #closed = false;

  /**
   * Makes a request. Resolves with the response, of any status. Rejects as {@link readResponse} does, with the reason
   * of `close` when that ended it.
   */
  async exchange(call: HttpCall): Promise<HttpResponse> {
    const { to, body, headers = [], signal } = call;
    const json = body === undefined ? [] : ['Content-Type', 'application/json', ...lengthOf(body)];
    const request = await this.#begin({ ...call, headers: [...json, ...headers] }, signal);
    return readResponse(request, { ...call, origin: to.origin, running: this.#running });
  }

  /**
   * The client as `fetch`, for libraries: text bodies only, and any redirect is a failure, because it would carry the task
   * to an address that the configuration does not name. Fails as `exchange` does.
   */
  readonly fetch = async (input: URL | string | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : input);
    const { method = 'GET', body, signal } = init;
    if (body !== undefined && body !== null && typeof body !== 'string') {
      throw fail('usage', 'the fetch of this client sends text bodies only');
    }
    const headers = [...new Headers(init.headers)].flat();
    if (body) headers.push(...lengthOf(body));
    const to: Endpoint = { ...httpAddress(url), path: url.pathname + url.search, headers: ['Host', url.host] };
    const request = await this.#begin({ method, to, headers }, signal ?? undefined);
    const options: ExchangeOptions = {
      origin: to.origin,
      timeoutMs: HEADERS_TIMEOUT_MS,
      running: this.#running,
      ...(body && { body }),
      ...(signal && { signal }),
    };
    const response = await openResponse(request, options);
    const { statusCode: status = 0 } = response;
    if (status >= 300 && status < 400) {
      response.destroy();
      throw fail('connection_lost', `${to.origin} redirects; configure the address it redirects to`, { status });
    }
    const pairs = Object.entries(response.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    );
    const stream = EMPTY_STATUS.has(status) ? null : (Readable.toWeb(response) as ReadableStream<Uint8Array>);
    if (stream === null) response.resume();
    return new Response(stream, { status, headers: pairs });
  };

  /** Ends all requests, which fail with `reason`, and all connections. */
  close(reason: unknown = fail('interrupted', 'this side is stopping')): void {
    this.#closed = true;
    for (const end of [...this.#running]) end(reason);
    for (const pool of this.#pools.values()) void pool.then(({ close }) => close());
  }

  async #begin({ method, to, headers = [] }: Call, signal?: AbortSignal): Promise<ClientRequest> {
    const pool = await this.#pool(to.secure);
    // Checked after the wait: a request that starts behind `close` would end by its timeout only.
    signal?.throwIfAborted();
    if (this.#closed) throw fail('interrupted', 'this side is stopping');
    return pool.start({
      method,
      hostname: to.hostname,
      port: to.port,
      path: to.path,
      // A list is written as it is; an object would be looked up and copied.
      headers: [...to.headers, ...headers],
    });
  }

  #pool(secure: boolean): Promise<HttpPool> {
    const pool = this.#pools.get(secure) ?? httpPool(secure);
    this.#pools.set(secure, pool);
    return pool;
  }
}

const lengthOf = (body: string): readonly string[] => ['Content-Length', `${Buffer.byteLength(body)}`];

/** Statuses whose response has no body. */
const EMPTY_STATUS: ReadonlySet<number> = new Set([204, 205, 304]);

/** Parses the address of a peer. Fails with `config_invalid` for anything but http(s), and for one that holds a secret. */
export function peerUrl(address: string): URL {
  const url = parseHttpUrl(address, 'config_invalid', 'give the peer a token');
  url.hash = '';
  url.search = '';
  return url;
}

/** Returns the endpoint of a path below an address. */
export function endpointBelow(base: URL, path: string): Endpoint {
  const url = below(base, path);
  return { ...httpAddress(url), path: url.pathname, headers: ['Host', url.host, 'Accept', 'application/json'] };
}

/** Returns a path below an address. */
export function below(base: URL, path: string): URL {
  const url = new URL(base);
  url.pathname = `${trimmedEnd(base.pathname, '/')}${path}`;
  return url;
}
