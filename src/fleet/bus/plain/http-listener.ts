/**
 * A port for a worker server, or for an orchestrator's replies: the configured one, or the first free port of the band that
 * upstream gives to this kind of worker, so that two kinds never share one.
 *
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { noteClientAddress, trustProxies } from '../../../base/http/client-address.ts';
import { boundConnections } from '../../../base/http/connection-places.ts';
import { isLoopback } from '../../../config/listen-address.ts';
import { fail } from '../../../wire/errors.ts';

/** First port of the ten of each kind, as upstream counts them. */
export const PORT_BANDS = { claude: 9300, opencode: 9310, codex: 9320, agy: 9330 } as const;
export type PortBand = keyof typeof PORT_BANDS;

const BAND_PORTS = 10;

export interface HttpListenerOptions {
  /** Address to bind. Default `127.0.0.1`. */
  readonly host?: string;
  /** A port, 0 for any free one, or a band. */
  readonly port: number | PortBand;
  /** A token is required; without one, only loopback addresses may be bound. */
  readonly hasTokens: boolean;
  /** Addresses and networks of trusted proxies: the address they forward is believed. Default: none. */
  readonly trustedProxies?: readonly string[];
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
}

export interface HttpListener {
  readonly address: string;
  readonly port: number;
  /** Stops listening; running responses get two seconds. Idempotent. */
  close(): Promise<void>;
}

/**
 * Starts listening. Fails with `config_invalid` for an address others reach without a token, with `runtime_error`
 * (`detail.reason`: the system's code) when nothing can be bound.
 */
export async function listenHttp(options: HttpListenerOptions): Promise<HttpListener> {
  const { host = '127.0.0.1', port, hasTokens } = options;
  const handle = handlerOf(options);
  if (!isLoopback(host) && !hasTokens) {
    throw fail('config_invalid', `${host} can be reached by other machines; configure a token, or bind 127.0.0.1`);
  }
  const ports = typeof port === 'number' ? [port] : band(port);
  for (const candidate of ports) {
    const server = await serverOf(handle);
    const refused = await bind(server, candidate, host);
    if (refused === undefined) return listening(server, host);
    if (refused.code !== 'EADDRINUSE' || ports.length === 1) {
      const reason = refused.code === 'EADDRINUSE' ? 'the address is already in use' : refused.message;
      throw fail(
        'runtime_error',
        `cannot listen on ${host}:${candidate}: ${reason}`,
        { reason: refused.code },
        refused,
      );
    }
  }
  const range = `${ports[0]}–${ports.at(-1)}`;
  throw fail('runtime_error', `no port of ${range} is free on ${host}`, { reason: 'EADDRINUSE' });
}

/** Returns the handler of requests; behind trusted proxies it gets them with the address of the client they name. */
function handlerOf({ handle, trustedProxies = [] }: HttpListenerOptions): HttpListenerOptions['handle'] {
  if (trustedProxies.length === 0) return handle;
  const trust = trustProxies(trustedProxies);
  return (request, response) => {
    noteClientAddress(request, trust(request));
    handle(request, response);
  };
}

const band = (name: PortBand): number[] => Array.from({ length: BAND_PORTS }, (_, index) => PORT_BANDS[name] + index);

async function serverOf(handle: HttpListenerOptions['handle']): Promise<Server> {
  // Loaded with the first server: most programs that import this never listen.
  const { createServer } = await import('../../../base/http/node-http.ts');
  const server = createServer({
    maxHeaderSize: 16 * 1024,
    headersTimeout: 10_000,
    // The time for the request; the handler bounds its response.
    requestTimeout: 30_000,
    keepAliveTimeout: 15_000,
    keepAlive: true,
  });
  boundConnections(server, 10_000);
  server.on('request', handle);
  server.on('clientError', (_error, socket) => socket.destroy());
  return server;
}

function bind(server: Server, port: number, host: string): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    server.once('error', resolve);
    server.listen(port, host, () => {
      server.removeListener('error', resolve);
      // An error without a listener would end the process, also one after the server listens.
      server.on('error', () => {});
      resolve(undefined);
    });
  });
}

/** Longest time that running responses may take after `close`, milliseconds. */
const DRAIN_MS = 2_000;

function listening(server: Server, host: string): HttpListener {
  const { port } = server.address() as AddressInfo;
  const reachable =
    host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host;
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
    return promise;
  };
  return {
    address: `http://${reachable}:${port}`,
    port,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
