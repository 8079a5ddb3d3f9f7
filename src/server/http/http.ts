/**
 * The one HTTP port: guards every request, routes it, upgrades `/ws` and `/rpc`, answers `/health`, and closes without cutting
 * a client off.
 *
 * The A2E binding's endpoint and others bring their routes. Limits and refusals: docs/architecture.md#the-http-port and
 * SECURITY.md#threat-model.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { failingStores } from '../../base/failing-stores.ts';
import { noteClientAddress, type ProxyTrust, trustProxies } from '../../base/http/client-address.ts';
import { boundConnections } from '../../base/http/connection-places.ts';
import { createServer, STATUS_CODES } from '../../base/http/node-http.ts';
import { errorReply, type HttpReply, jsonReply, sendReply } from '../../transport/http/http-exchange.ts';
import type { HttpSseEndpoint } from '../../transport/http/http-sse.ts';
import type { Link, Listener } from '../../transport/link.ts';
import { listening } from '../../transport/listening.ts';
import { bindUnix } from '../../transport/unix-path.ts';
import type { WebSocketAcceptor } from '../../transport/websocket.ts';
import { TurnShare } from '../../wire/turn-share.ts';
import { type Guard, requestGuard } from './http-guard.ts';
import { pathOf, Router } from './router.ts';
import { handlerOf, type RouteAccess, type RouteFacts, type ServerRoute } from './server-route.ts';

export interface HttpServerOptions {
  /** Address to bind. Default `127.0.0.1`. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  /** A Unix socket to listen on in place of `host` and `port`; only this user may connect. Clients call it `localhost`. */
  readonly path?: string;
  /** The HTTP + SSE binding. Its routes are served, and closing waits for its sessions. */
  readonly endpoint?: HttpSseEndpoint;
  readonly routes?: readonly ServerRoute[];
  /** The authenticator of the tokens that routes accept; needed where one of `routes` asks for a right. */
  readonly access?: RouteAccess;
  /** Serves upgrades of `/ws`; links go to `accept`. */
  readonly webSocket?: WebSocketAcceptor;
  readonly accept?: (link: Link) => void;
  /** Serves upgrades of `/rpc`: links for session RPC, whose messages may be longer than messages of `/ws`. */
  readonly rpc?: { readonly webSocket: WebSocketAcceptor; accept(link: Link): void };
  /** Added to `{"status":"ok"}` of `GET /health`; every client that reaches the port can read it. */
  readonly health?: () => Record<string, unknown> | undefined;
  /** Names of this server, beside loopback and `host`: `name` (any port) or `name:port`. */
  readonly allowedHosts?: readonly string[];
  /** Origins of pages, beside its own, that may talk to it. */
  readonly allowedOrigins?: readonly string[];
  /** Addresses and networks of trusted proxies: the address they forward is believed. Default: none. */
  readonly trustedProxies?: readonly string[];
  /** TCP connections at once; one more evicts one that has no request running. Default 10,000. */
  readonly maxConnections?: number;
  /** Time for the head of a request. Default 10 s. */
  readonly headersTimeoutMs?: number;
  /** Time for a whole request. Default 30 s. */
  readonly requestTimeoutMs?: number;
  /** Longest time that a connection may idle between requests. Default 15 s. */
  readonly keepAliveTimeoutMs?: number;
  /** Time for running responses to end after `close`. Default 2 s. */
  readonly drainMs?: number;
  /** Receives the error that a handler threw; the client only gets 500. */
  readonly onHandlerError?: (error: unknown, path: string) => void;
}

export interface HttpListener extends Listener {
  readonly port: number;
  /** Everything that is served, upgrades included, with the right it asks for. */
  readonly routes: readonly RouteFacts[];
  /**
   * Accepts no new session, upgrade or other request (503). Sessions and WebSocket links already open continue, and the port
   * stays open for the former until the last is closed; without any it is closed when this resolves, within `drainMs`.
   */
  close(): Promise<void>;
}

/** Longest head of a request. */
const MAX_HEADER_BYTES = 16 * 1024;
/** Requests that one connection may bring in one turn of the event loop. Clients wait for replies; only a flood has more. */
const MAX_REQUESTS_A_TURN = 256;
/** Dead peers of open streams are found by the operating system's probes, the first after this. */
const PROBE_AFTER_MS = 30_000;

const BAD_TARGET = errorReply(400, 'invalid_message', 'the request target must be a path', ['Connection', 'close']);
const FAILED = errorReply(500, 'runtime_error', 'the request failed');
const CLOSING = errorReply(503, 'interrupted', 'this server is stopping', ['Retry-After', '5', 'Connection', 'close']);
const READY = jsonReply(200, { status: 'ready' });
const HEALTHY = jsonReply(200, { status: 'ok' });
const NO_UPGRADE = errorReply(404, 'unknown_type', 'nothing to upgrade to here', ['Connection', 'close']);
const FLOOD = errorReply(429, 'over_capacity', 'too many requests at once on this connection', ['Connection', 'close']);
const MALFORMED = errorReply(400, 'parse_error', 'this is not HTTP', ['Connection', 'close']);
const TOO_SLOW = errorReply(408, 'timeout', 'the request timed out', ['Connection', 'close']);
const HEAD_TOO_LARGE = errorReply(431, 'too_large', 'the request head is too large', ['Connection', 'close']);

/** `GET /readyz`: 503 while a store of this process cannot store. */
function readiness(response: ServerResponse): void {
  const stores = failingStores();
  sendReply(response, stores.length === 0 ? READY : jsonReply(503, { status: 'failing', stores }));
}

/** Returns the refusal of the guard. */
const forbidden = (reason: string): HttpReply => errorReply(403, 'unauthorized', reason, ['Connection', 'close']);

/** Starts listening. Fails with `runtime_error` (`detail.reason`: the system's code) when the address cannot be bound. */
export async function httpServer(options: HttpServerOptions): Promise<HttpListener> {
  const { host = '127.0.0.1', headersTimeoutMs = 10_000, requestTimeoutMs = 30_000 } = options;
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: Math.min(headersTimeoutMs, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? 15_000,
    connectionsCheckingInterval: Math.max(20, Math.min(1_000, headersTimeoutMs / 4, requestTimeoutMs / 4)),
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
    insecureHTTPParser: false,
    // The guard refuses a missing Host itself, with the same 403 as a wrong one.
    requireHostHeader: false,
    // Other protocols that a client merely offers to switch to do not matter here.
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
  });
  // The size of the head bounds their number. A count would drop the rest silently, and the guard must see all of them.
  server.maxHeadersCount = 0;
  boundConnections(server, options.maxConnections ?? 10_000);
  const port = new HttpPort(server, options);
  const bound = await (options.path === undefined
    ? listenOnPort(server, options.port ?? 0, host)
    : listenOnPath(server, options.path));
  const { allowedHosts = [], allowedOrigins = [] } = options;
  port.open(requestGuard({ port: bound, host, allowedHosts, allowedOrigins }));
  return {
    address: options.path === undefined ? `http://${reachable(host)}:${bound}` : `unix://${options.path}`,
    port: bound,
    routes: port.routes,
    close: () => port.close(),
  };
}

/** Returns the name by which a client on this machine reaches the server that was bound to `host`. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

/** Resolves with the port. */
async function listenOnPort(server: Server, port: number, host: string): Promise<number> {
  const address = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  await listening(server, address, () => server.listen(port, host));
  return (server.address() as AddressInfo).port;
}

/** Resolves with the port 80: requests to a path name no port, as those to port 80. */
async function listenOnPath(server: Server, path: string): Promise<number> {
  await bindUnix(path, () => listening(server, `unix://${path}`, () => server.listen({ path })));
  return 80;
}

/** Notes of the port about a connection. */
interface PortConnection {
  /** The newest answer, to know whether bytes of this port may still be written. */
  answer: ServerResponse | undefined;
  readonly share: TurnShare;
}

/** The running port. */
class HttpPort {
  readonly routes: readonly RouteFacts[];
  readonly #server: Server;
  readonly #options: HttpServerOptions;
  readonly #router: Router;
  /** Paths that upgrade to WebSocket links, with the function that receives each link. */
  readonly #upgrades = new Map<string, { webSocket: WebSocketAcceptor; accept: (link: Link) => void }>();
  /** Nothing comes in before the port is known. */
  #guard: Guard = () => 'this server is starting';
  #closing: Promise<void> | undefined;
  #upgraded = 0;
  readonly #connections = new WeakMap<Socket, PortConnection>();
  readonly #proxyTrust: ProxyTrust | undefined;

  constructor(server: Server, options: HttpServerOptions) {
    this.#server = server;
    this.#options = options;
    const { trustedProxies = [] } = options;
    if (trustedProxies.length > 0) this.#proxyTrust = trustProxies(trustedProxies);
    const health: ServerRoute = {
      method: 'GET',
      path: '/health',
      needs: 'none',
      handle: (_request, response) => this.#health(response),
    };
    const ready: ServerRoute = {
      method: 'GET',
      path: '/readyz',
      needs: 'none',
      handle: (_request, response) => readiness(response),
    };
    const { webSocket, accept, rpc, endpoint, access } = options;
    const binding = (endpoint?.routes ?? []).map((route) => ({ ...route, needs: 'messages' }) as const);
    const routes = [health, ready, ...binding, ...(options.routes ?? [])];
    this.#router = new Router(routes.map((route) => handlerOf(route, access)));
    if (webSocket !== undefined && accept !== undefined) this.#upgrades.set('/ws', { webSocket, accept });
    if (rpc !== undefined) this.#upgrades.set('/rpc', { ...rpc, accept: (link) => rpc.accept(link) });
    const upgrades = [...this.#upgrades.keys()].map((path) => ({ method: 'GET', path, needs: 'messages' }) as const);
    this.routes = [...routes, ...upgrades].map(({ method, path, needs }) => ({ method, path, needs }));
    server.on('request', (request, response) => this.#request(request, response));
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => this.#malformed(error, socket as Socket));
  }

  open(guard: Guard): void {
    this.#guard = guard;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { endpoint } = this.#options;
    const sessionsGone = endpoint?.close();
    if (endpoint !== undefined && endpoint.size > 0) {
      // Sessions need new connections to send, so listening ends with the last of them.
      void sessionsGone?.then(() => this.#stopListening());
      return;
    }
    await this.#stopListening();
  }

  /** Ends listening; running responses get `drainMs` to end. WebSocket links are not responses and stay open. */
  #stopListening(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#server.closeAllConnections();
      resolve();
    }, this.#options.drainMs ?? 2_000);
    this.#server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    this.#server.closeIdleConnections();
    if (this.#upgraded > 0) resolve();
    return promise;
  }

  #request(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connectionOf(request.socket);
    connection.answer = response;
    // True when a connection brings more requests at once than are served in a turn.
    if (connection.share.spend(1)) return sendReply(response, FLOOD);
    if (this.#proxyTrust !== undefined) noteClientAddress(request, this.#proxyTrust(request));
    const refusal = this.#guard(request);
    if (refusal !== undefined) return sendReply(response, forbidden(refusal));
    const target = request.url ?? '';
    if (!target.startsWith('/')) return sendReply(response, BAD_TARGET);
    const path = pathOf(target);
    const found = this.#router.find(request.method ?? '', path);
    if (!('handle' in found)) return sendReply(response, found);
    if (this.#closing !== undefined && !found.whileClosing) return sendReply(response, CLOSING);
    try {
      found.handle(request, response, path)?.catch((error: unknown) => this.#handlerFailed(error, path, response));
    } catch (error) {
      this.#handlerFailed(error, path, response);
    }
  }

  #connectionOf(socket: Socket): PortConnection {
    let connection = this.#connections.get(socket);
    if (connection === undefined) {
      connection = { answer: undefined, share: new TurnShare(MAX_REQUESTS_A_TURN, Number.POSITIVE_INFINITY) };
      this.#connections.set(socket, connection);
    }
    return connection;
  }

  #handlerFailed(error: unknown, path: string, response: ServerResponse): void {
    this.#options.onHandlerError?.(error, path);
    // A response that was started cannot be replaced, only broken off.
    if (response.headersSent) response.destroy();
    else sendReply(response, FAILED);
  }

  #health(response: ServerResponse): void {
    const details = this.#options.health?.();
    const failing = failingStores();
    if (failing.length > 0) {
      // A restart helps where a sync failed, and does not where the disk is full.
      const status = failing.some(({ fatal }) => fatal) ? 503 : 200;
      return sendReply(response, jsonReply(status, { status: 'failing', stores: failing, ...details }));
    }
    sendReply(response, details === undefined ? HEALTHY : jsonReply(200, { status: 'ok', ...details }));
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // No other listener handles errors of this socket until the link does.
    socket.on('error', () => socket.destroy());
    const refusal = this.#guard(request);
    if (refusal !== undefined) return endWith(socket, forbidden(refusal));
    if (this.#closing !== undefined) return endWith(socket, CLOSING);
    const upgrade = this.#upgrades.get(pathOf(request.url ?? ''));
    if (upgrade === undefined) return endWith(socket, NO_UPGRADE);
    if (this.#proxyTrust !== undefined) noteClientAddress(request, this.#proxyTrust(request));
    this.#upgraded += 1;
    socket.once('close', () => {
      this.#upgraded -= 1;
    });
    upgrade.webSocket.handle(request, socket, head, upgrade.accept);
  }

  /** Handles malformed bytes: replies 400 when no response is running on this connection, then closes it. */
  #malformed(error: NodeJS.ErrnoException, socket: Socket): void {
    const answer = this.#connections.get(socket)?.answer;
    const midAnswer = answer?.writableFinished === false && (answer.headersSent || answer.req.complete);
    if (error.code === 'ECONNRESET' || !socket.writable || midAnswer) {
      socket.destroy();
      return;
    }
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') endWith(socket, TOO_SLOW);
    else endWith(socket, error.code === 'HPE_HEADER_OVERFLOW' ? HEAD_TOO_LARGE : MALFORMED);
  }
}

/** Sends the last reply on a connection that node:http does not answer. */
function endWith(socket: Duplex, { status, headers, body }: HttpReply): void {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (let index = 0; index < headers.length; index += 2) head += `${headers[index]}: ${headers[index + 1]}\r\n`;
  socket.end(`${head}\r\n${body}`, () => socket.destroy());
}
