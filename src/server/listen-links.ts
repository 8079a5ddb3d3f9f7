/**
 * Opens one address of any form and passes every incoming link to its owner: a host of this process, or a recorder. The code
 * for an address is loaded when it is opened.
 */
import type { ListenAddress } from '../config/listen-address.ts';
import type { Link, Listener } from '../transport/link.ts';

/** Path by which an accepted link came in: the paths of an HTTP address, else its only one. */
export type LinkPath = '/session' | '/ws' | '/rpc' | '';

export interface ListenLinksOptions {
  /** Longest message, in bytes. */
  readonly maxMessageBytes: number;
  /** HTTP sessions at once. */
  readonly maxSessions: number;
  /** Bytes that wait for a reader of an HTTP session. */
  readonly sendBufferBytes: number;
  /** HTTP: names that clients may use for this server, besides its address. */
  readonly allowedHosts?: readonly string[];
  /** HTTP: origins of pages, besides its own, that may connect. */
  readonly allowedOrigins?: readonly string[];
  /** HTTP: also serve `/rpc`, for session RPC. */
  readonly rpc?: boolean;
}

/** @throws runtime_error when it cannot be bound (`detail.reason` is the system's code, e.g. `EADDRINUSE`) */
export async function listenLinks(
  address: ListenAddress,
  accept: (link: Link, path: LinkPath) => void,
  {
    maxMessageBytes,
    maxSessions,
    sendBufferBytes,
    allowedHosts = [],
    allowedOrigins = [],
    rpc = false,
  }: ListenLinksOptions,
): Promise<Listener> {
  if (address.kind !== 'http') {
    const { listenTcp, listenUnix } = await import('../transport/socket.ts');
    const plain = (link: Link): void => accept(link, '');
    return address.kind === 'unix'
      ? listenUnix({ path: address.path }, plain)
      : listenTcp({ host: address.host, port: address.port }, plain);
  }
  const [{ httpServer }, { httpSseEndpoint }, { webSocketAcceptor }] = await Promise.all([
    import('./http/http.ts'),
    import('../transport/http/http-sse.ts'),
    import('../transport/websocket.ts'),
  ]);
  return httpServer({
    host: address.host,
    port: address.port,
    allowedHosts,
    allowedOrigins,
    accept: (link) => accept(link, '/ws'),
    endpoint: httpSseEndpoint({
      accept: (link) => accept(link, '/session'),
      maxSessions,
      waitingBytes: sendBufferBytes,
    }),
    webSocket: webSocketAcceptor({ maxMessageBytes }),
    ...(rpc && {
      rpc: { webSocket: webSocketAcceptor({ maxMessageBytes }), accept: (link: Link) => accept(link, '/rpc') },
    }),
  });
}
