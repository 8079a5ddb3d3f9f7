/**
 * Opens the addresses of a host: HTTP (with the A2E binding, WebSocket and the operator's routes), TCP and Unix sockets.
 *
 * Only the code that an address needs is loaded.
 */

import type { Log } from '../base/log.ts';
import type { HostConfig } from '../config/config.ts';
import { checkBind, type ListenAddress } from '../config/listen-address.ts';
import type { RpcServer } from '../control/rpc/rpc-server.ts';
import type { Link, Listener } from '../transport/link.ts';
import { asError, fail, type HandfastError } from '../wire/errors.ts';
import type { Operated } from './http/operator-routes.ts';
import type { RouteFacts, ServerRoute } from './http/server-route.ts';
import { lossesForAll } from './journal-damage.ts';

export interface ListenersOptions {
  readonly config: HostConfig;
  readonly operated: Omit<Operated, 'listeners'>;
  /** Serves `/rpc`. */
  readonly rpc?: RpcServer;
  /** Served beside the operator's routes on every HTTP address. */
  readonly routes?: readonly ServerRoute[];
  /** Version of this software, sent to MCP clients. */
  readonly version: string;
  readonly log: Log;
}

/** An open address; `routes`: its HTTP routes. */
export interface OpenListener extends Listener {
  readonly routes?: readonly RouteFacts[];
}

/**
 * Opens every address of `config.listen`, in order. An address other machines can reach needs a configured token and
 * `insecure_bind`, wherever the configuration got it from.
 *
 * Fails with `config_invalid` (`detail.reason` is the system's code, e.g. `EADDRINUSE`); then none is left open.
 */
export async function openListeners({
  config,
  operated,
  rpc,
  routes = [],
  version,
  log,
}: ListenersOptions): Promise<OpenListener[]> {
  const hasToken = config.auth.grants.length > 0;
  const addresses = config.listen.map((address) => checkBind(address, { hasToken, insecure: config.insecureBind }));
  const listeners: OpenListener[] = [];
  const known = { ...operated, listeners: () => listeners.map(({ address }) => address) };
  try {
    for (const [index, address] of addresses.entries()) {
      try {
        listeners.push(await openListener(address, config, known, rpc, routes, version, log));
      } catch (error) {
        throw cannotListen(config.listen[index] as string, error);
      }
    }
    return listeners;
  } catch (error) {
    await Promise.all(listeners.map((listener) => listener.close()));
    throw error;
  }
}

async function openListener(
  address: ListenAddress,
  config: HostConfig,
  operated: Operated,
  rpc: RpcServer | undefined,
  routes: readonly ServerRoute[],
  version: string,
  log: Log,
): Promise<OpenListener> {
  const accept = (link: Link): void => operated.host.accept(link);
  switch (address.kind) {
    case 'http':
      return openHttp(address, config, operated, rpc, routes, version, log);
    case 'tcp':
      return (await import('../transport/socket.ts')).listenTcp({ host: address.host, port: address.port }, accept);
    case 'unix':
      return (await import('../transport/socket.ts')).listenUnix({ path: address.path }, accept);
  }
}

/** TCP connections of an HTTP port for requests, beside those that may become links. */
const SPARE_CONNECTIONS = 1_000;

async function openHttp(
  { host, port }: { host: string; port: number },
  { limits, http }: HostConfig,
  operated: Operated,
  rpc: RpcServer | undefined,
  routes: readonly ServerRoute[],
  version: string,
  log: Log,
): Promise<OpenListener> {
  const [{ httpServer }, { httpSseEndpoint }, { webSocketAcceptor }, { operatorRoutes }, { mcpRoutes }] =
    await Promise.all([
      import('./http/http.ts'),
      import('../transport/http/http-sse.ts'),
      import('../transport/websocket.ts'),
      import('./http/operator-routes.ts'),
      import('./http/mcp-routes.ts'),
    ]);
  const accept = (link: Link): void => operated.host.accept(link);
  const mcp = mcpRoutes({ host: operated.host, access: operated, version, maxSessions: limits.maxSessions });
  const listener = await httpServer({
    host,
    port,
    // Links are among them, so there must be room beside the links of all principals.
    maxConnections: limits.maxConnections + SPARE_CONNECTIONS,
    accept,
    endpoint: httpSseEndpoint({ accept, maxSessions: limits.maxSessions, waitingBytes: limits.sendBufferBytes }),
    // Links of session RPC come here too, and an oversized frame ends a link before its dialect is known.
    webSocket: webSocketAcceptor({ maxMessageBytes: Math.max(limits.maxMessageBytes, rpc?.maxMessageBytes ?? 0) }),
    rpc: rpc && {
      webSocket: webSocketAcceptor({ maxMessageBytes: rpc.maxMessageBytes }),
      accept: (link) => rpc.accept(link),
    },
    routes: [...operatorRoutes(operated), ...mcp.routes, ...routes],
    access: operated,
    health: lossesForAll,
    allowedHosts: http.allowedHosts,
    allowedOrigins: http.allowedOrigins,
    trustedProxies: http.trustedProxies,
    onHandlerError: (error, path) => log.error('an HTTP request failed', { path, error }),
  });
  const close = (): Promise<void> => {
    // Streams of its sessions are responses, for which the port would wait.
    mcp.close();
    return listener.close();
  };
  return { ...listener, close };
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the address is already in use',
  EACCES: 'this user may not listen there',
  EADDRNOTAVAIL: 'this machine has no such address',
};

/**
 * Returns the system's error for an address that cannot be opened, as `config_invalid` with `detail.reason`: for every reason
 * another address is needed.
 */
export function cannotListen(address: string, thrown: unknown): HandfastError {
  const error = asError(thrown);
  const reason = String(error.detail.reason ?? error.detail.errno ?? '');
  const message = Object.hasOwn(reasons, reason) ? `cannot listen on ${address}: ${reasons[reason]}` : error.message;
  return fail('config_invalid', message, { address, reason }, thrown);
}
