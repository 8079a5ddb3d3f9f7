/**
 * The HTTP server of every dialect for plain peers: routes, authentication, bodies within their bound, responses as JSON.
 *
 * `http-listener.ts` gives it a port.
 * @see docs/protocol/fleet.md#http
 */

import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import { isLoopback } from '../../../config/listen-address.ts';
import { type Authenticator, createAuthenticator } from '../../../session/auth.ts';
import { AuthThrottle } from '../../../session/auth-throttle.ts';
import { principalOfRequest } from '../../../session/bearer.ts';
import type { Principal } from '../../../session/principal.ts';
import { may, refusal } from '../../../session/rights.ts';
import type { TrafficShares } from '../../../session/traffic-shares.ts';
import { asError, HandfastError } from '../../../wire/errors.ts';

/** Longest body of a request or a response, bytes. */
export const MAX_BODY_BYTES = 1024 * 1024;
/** Bytes of a body that are read and dropped at most. */
const MAX_READ_BYTES = 16 * MAX_BODY_BYTES;

/** Callers that a server accepts. */
export interface ServerAccess {
  /**
   * A principal that submits tasks needs `fleet.submit`. Default: no token; every caller that reaches the port is this user.
   */
  readonly auth?: Authenticator;
  /** True: without a configured token everything but the open routes is refused with 503. Default false. */
  readonly requireToken?: boolean;
  /**
   * Delays callers that fail to authenticate; shared between the listeners of one process.
   * @internal
   */
  readonly authThrottle?: AuthThrottle;
  /**
   * The shares of requests; shared between the listeners of one process. Default: none.
   * @internal
   */
  readonly traffic?: TrafficShares;
}

/** A request whose caller is known. */
export interface Authenticated {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal;
}

/** Handler of a path. Its failure is logged and answered with 500. */
export type Route =
  /** For every caller. */
  | { readonly open: (request: IncomingMessage, response: ServerResponse) => unknown }
  /** `GET`, with a token. */
  | { readonly needs: RouteRight; readonly get: (call: Authenticated) => unknown }
  /** `POST` of JSON, with a token. */
  | { readonly needs: RouteRight; readonly post: (call: Authenticated, body: Buffer) => unknown };

/**
 * The right that the caller must be granted: `submit` for its tasks, or the right that the handler checks for each message.
 */
export type RouteRight = 'submit' | 'messages';

export interface HttpServerOptions extends ServerAccess {
  readonly log: Log;
  /** Path → route; every other path gets 404. */
  readonly routes: Readonly<Record<string, Route>>;
  /** The body of a 503 for every path, while the server accepts no calls. */
  readonly unavailable?: () => object | undefined;
  /** The caller of a route with a token could not be authenticated; `status` is its response. */
  readonly onRefused?: (request: IncomingMessage, status: 401 | 429) => void;
}

export class HttpServer {
  readonly auth: Authenticator;
  readonly #requireToken: boolean;
  readonly #throttle: AuthThrottle;
  readonly #options: HttpServerOptions;
  readonly #routes: ReadonlyMap<string, Route>;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.auth = options.auth ?? createAuthenticator([]);
    this.#requireToken = options.requireToken ?? false;
    this.#throttle = options.authThrottle ?? new AuthThrottle();
    this.#routes = new Map(Object.entries(options.routes));
  }

  /** Responds to any request. Never rejects. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#route(request, response);
    } catch (thrown) {
      this.#options.log.error('a request failed', { path: pathOf(request), error: asError(thrown).message });
      respond(response, 500, { error: 'the request failed' });
    }
  }

  /** Returns the principal of a request, or the reason of its refusal. A wrong token delays the refusal. */
  principalOf(request: IncomingMessage): Promise<Principal | 401 | 429 | HandfastError> {
    return principalOfRequest(request, this.auth, this.#throttle, this.#options.traffic);
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const route = this.#routes.get(pathOf(request));
    if (route === undefined) return respond(response, 404, { error: 'there is nothing here' });
    const method = 'post' in route ? 'POST' : 'GET';
    if (request.method !== method) return respond(response, 405, { error: `use ${method}` }, { Allow: method });
    const unavailable = this.#options.unavailable?.();
    if (unavailable !== undefined) return respond(response, 503, unavailable);
    if ('open' in route) {
      await route.open(request, response);
      return;
    }
    const principal = await this.#authenticate(request, response);
    if (principal === undefined) {
      request.resume();
      return;
    }
    if (route.needs === 'submit' && !may(principal, 'submit', principal.name)) {
      request.resume();
      return respond(response, 403, { error: refusal(principal, 'submit').message });
    }
    const call = { request, response, principal };
    if ('get' in route) {
      await route.get(call);
      return;
    }
    const body = await readBody(request, response);
    if (body !== undefined) await route.post(call, body);
  }

  /**
   * Authenticates a request. Undefined: it was refused (401, 403, 503). Each wrong token of an address delays its next refusal.
   */
  async #authenticate(request: IncomingMessage, response: ServerResponse): Promise<Principal | undefined> {
    const { hasTokens } = this.auth;
    if (this.#requireToken && !hasTokens) {
      respond(response, 503, { error: 'authentication is required here, but no token is configured' });
      return undefined;
    }
    if (!hasTokens && !namesAddress(request)) {
      respond(response, 403, { error: 'without a token, only addresses are answered, not names' });
      return undefined;
    }
    const principal = await this.principalOf(request);
    if (principal instanceof HandfastError) {
      const { message, detail } = principal;
      const seconds = Math.ceil(Number(detail.retry_after_ms) / 1000);
      respond(response, 429, { error: message, ...detail }, { 'Retry-After': String(seconds) });
      return undefined;
    }
    if (typeof principal === 'object') return principal;
    this.#options.onRefused?.(request, principal);
    if (principal === 429) respond(response, 429, { error: 'too many wrong tokens' }, { 'Retry-After': '5' });
    else respond(response, 401, { error: 'the token is missing or wrong' }, { 'WWW-Authenticate': 'Bearer' });
    return undefined;
  }
}

/** Writes a JSON response, unless the client has closed the connection. */
export function respond(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Record<string, string> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...headers,
  });
  response.end(body);
}

/** Returns the path of a request, without its query. */
function pathOf({ url = '/' }: IncomingMessage): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/**
 * True when the request names this address: without tokens, a page of another site could get here by a name that resolves to
 * this machine.
 */
function namesAddress({ headers }: IncomingMessage): boolean {
  const host = (headers.host ?? '').replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  return isLoopback(host) || /^[\d.]+$|:/.test(host);
}

/** Reads a body. Undefined: the request was refused (413, 415), or the client has closed the connection. */
function readBody(request: IncomingMessage, response: ServerResponse): Promise<Buffer | undefined> {
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(request.headers['content-type'] ?? '')) {
    // This also keeps forms of foreign pages out.
    respond(response, 415, { error: 'the body must be application/json' }, { Connection: 'close' });
    request.resume();
    return Promise.resolve(undefined);
  }
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const tooLarge = (): void => {
      respond(response, 413, { error: `the body is longer than ${MAX_BODY_BYTES} bytes` }, { Connection: 'close' });
      chunks.length = 0;
      resolve(undefined);
    };
    if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) tooLarge();
    request.on('data', (chunk: Buffer) => {
      const before = bytes;
      bytes += chunk.length;
      if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
      else if (before <= MAX_BODY_BYTES) tooLarge();
      // Some of the rest is read, so that the client gets to see the response.
      else if (bytes > MAX_READ_BYTES) request.destroy();
    });
    request.on('end', () => resolve(bytes <= MAX_BODY_BYTES ? joined(chunks) : undefined));
    request.on('error', () => resolve(undefined));
    request.on('close', () => resolve(undefined));
  });
}

/** Joins the chunks of a body. Most bodies come in one chunk, which needs no copy. */
const joined = (chunks: readonly Buffer[]): Buffer => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
