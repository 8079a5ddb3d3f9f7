/**
 * Links over TCP and Unix sockets: listening for them and dialling them.
 *
 * `listenTcp` and `listenUnix` listen, `connectTcp` and `connectUnix` dial. The links are `stream.ts`; HTTP and TLS on
 * these ports are refused at their first bytes.
 */
import {
  createServer,
  type NetConnectOpts,
  connect as netConnect,
  type Server,
  Socket,
  type SocketConstructorOpts,
} from 'node:net';
import { fail } from '../wire/errors.ts';
import type { Link, Listener } from './link.ts';
import { listening } from './listening.ts';
import { noPeerText } from './refusal-text.ts';
import { type ReadTarget, readInto, StreamLink } from './stream.ts';
import { bindUnix } from './unix-path.ts';

/**
 * Time for which a quiet TCP connection is left alone before the system probes the peer. Node then probes ten times, a
 * second apart: a lost machine is noticed within the 15 s of `connection/liveness.ts`, also if a dialect has no pings.
 */
const KEEP_ALIVE_MS = 5_000;

const DEFAULT_TIMEOUT_MS = 10_000;

export interface ListenOptions {
  /** Longest message accepted on a new link, in bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
}

export interface ListenTcpOptions extends ListenOptions {
  /** Address or name to bind. Default `127.0.0.1`. */
  readonly host?: string;
  /** 0 = any free port; the listener's address has the port. */
  readonly port: number;
}

export interface ListenUnixOptions extends ListenOptions {
  readonly path: string;
}

export interface ConnectOptions {
  /** Time for reaching the peer, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
  readonly maxMessageBytes?: number;
  /** Gives the attempt up; a link that was returned is not touched by it. */
  readonly signal?: AbortSignal;
}

/** Returns `tcp://host:port`, with brackets around an IPv6 address. */
function tcpAddress(host: string, port: number): string {
  return host.includes(':') ? `tcp://[${host}]:${port}` : `tcp://${host}:${port}`;
}

/** Returns host and port of a `tcp://` address. Throws `usage`. */
export function parseTcpAddress(address: string): { host: string; port: number } {
  const match = /^tcp:\/\/(?:\[([0-9a-f:.]+)\]|([^/:@?#\s[\]]+)):(\d{1,5})\/?$/i.exec(address);
  const port = Number(match?.[3]);
  if (match === null || port < 1 || port > 65_535) {
    throw fail('usage', `expected tcp://host:port, got ${JSON.stringify(address)}`);
  }
  return { host: (match[1] ?? match[2]) as string, port };
}

/** Returns the path of a `unix://` address. Throws `usage`. */
export function parseUnixAddress(address: string): string {
  const path = /^unix:\/\/([^\0]+)$/.exec(address)?.[1];
  if (path === undefined) throw fail('usage', `expected unix:///path, got ${JSON.stringify(address)}`);
  return path;
}

/**
 * Accepts links on a TCP port.
 *
 * @throws runtime_error when the port cannot be bound; `detail.reason` is the system's code, e.g. `EADDRINUSE`
 */
export async function listenTcp(options: ListenTcpOptions, accept: (link: Link) => void): Promise<Listener> {
  const { host = '127.0.0.1', port } = options;
  const server = createServer({
    allowHalfOpen: true,
    pauseOnConnect: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
  server.on('connection', (socket) => {
    accept(acceptedLink(socket, 'tcp', tcpAddress(socket.remoteAddress ?? '?', socket.remotePort ?? 0), options));
  });
  await listening(server, tcpAddress(host, port), () => server.listen(port, host));
  const bound = server.address();
  const boundPort = typeof bound === 'object' && bound !== null ? bound.port : port;
  return listenerOf(server, tcpAddress(host, boundPort));
}

/**
 * Accepts links on a Unix socket. The file is 0600, a folder made for it 0700. A file left behind by a process that died
 * is replaced; one that a process listens on, or that is not a socket, stays.
 *
 * @throws runtime_error when the path cannot be bound; `detail.reason` is the system's code, e.g. `EADDRINUSE`
 */
export async function listenUnix(options: ListenUnixOptions, accept: (link: Link) => void): Promise<Listener> {
  const { path } = options;
  const address = `unix://${path}`;
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
  server.on('connection', (socket) => accept(acceptedLink(socket, 'unix', address, options)));
  await bindUnix(path, () => listening(server, address, () => server.listen({ path })));
  return listenerOf(server, address);
}

/**
 * Dials a `tcp://` address.
 *
 * @throws unreachable when no peer accepts the connection before the timeout · cancelled · usage
 */
export function connectTcp(address: string, options: ConnectOptions = {}): Promise<Link> {
  const { host, port } = parseTcpAddress(address);
  const dial = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };
  return dialled('tcp', address, dial, options);
}

/**
 * Dials a `unix://` address.
 *
 * @throws unreachable when no peer accepts the connection before the timeout · cancelled · usage
 */
export function connectUnix(address: string, options: ConnectOptions = {}): Promise<Link> {
  return dialled('unix', address, { path: parseUnixAddress(address) }, options);
}

function acceptedLink(socket: Socket, transport: 'tcp' | 'unix', peer: string, options: ListenOptions): Link {
  const { maxMessageBytes } = options;
  const target: ReadTarget = {};
  const own = readingInto(target, socket);
  const link = new StreamLink({
    transport,
    peer,
    readable: own,
    writable: own,
    maxMessageBytes,
    firstByteGuard: true,
  });
  target.link = link;
  return link;
}

/** Node's handle behind a socket, and the server that counts the socket. */
interface Accepted {
  _handle?: object | null;
  _server?: object | null;
}

/**
 * Returns the accepted connection in a socket that reads into {@link readInto} memory. Node has that option for sockets
 * that dial and not for those of its servers, which allocate 64 KiB for each read: a tenth of the CPU of a small
 * request. Without a handle, as in other runtimes, and on Windows, where shared memory is not safe, the socket itself
 * is returned.
 */
function readingInto(target: ReadTarget, socket: Socket): Socket {
  const accepted = socket as Accepted;
  const { _handle: handle, _server: server } = accepted;
  if (handle === undefined || handle === null || process.platform === 'win32') return socket;
  // A handle has one owner, and a server counts one socket for it.
  accepted._handle = null;
  accepted._server = null;
  const options = { handle, allowHalfOpen: true, pauseOnCreate: true, onread: readInto(target) };
  const own = new Socket(options as SocketConstructorOpts);
  (own as Accepted)._server = server;
  return own;
}

function listenerOf(server: Server, address: string): Listener {
  let closed: Promise<void> | undefined;
  return {
    address,
    close() {
      // The server's own callback waits for its connections, and those continue.
      closed ??= new Promise((resolve) => {
        server.close();
        setImmediate(resolve);
      });
      return closed;
    },
  };
}

/** Opens a socket within its time and makes a link of it. */
function dialled(
  transport: 'tcp' | 'unix',
  address: string,
  dial: NetConnectOpts,
  options: ConnectOptions,
): Promise<Link> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal, maxMessageBytes } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(fail('cancelled', `connecting to ${address} was cancelled`));
    const target: ReadTarget = {};
    const onread = readInto(target);
    const socket = netConnect({ ...dial, allowHalfOpen: true, onread });
    // Nothing is read before the link is opened.
    socket.pause();
    const settled = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      socket.removeListener('error', refused);
    };
    const abandon = (code: 'unreachable' | 'cancelled', why: string, cause?: Error): void => {
      settled();
      // An attempt that is torn down may still report an error.
      socket.on('error', () => {});
      socket.destroy();
      reject(fail(code, why, { address }, cause));
    };
    const refused = (error: NodeJS.ErrnoException): void => abandon('unreachable', noPeerText(address, error), error);
    const aborted = (): void => abandon('cancelled', `connecting to ${address} was cancelled`);
    const timer = setTimeout(
      () => abandon('unreachable', `no response from ${address} within ${timeoutMs} ms`),
      timeoutMs,
    );
    signal?.addEventListener('abort', aborted, { once: true });
    socket.once('error', refused);
    socket.once('connect', () => {
      settled();
      const link = new StreamLink({ transport, peer: address, readable: socket, writable: socket, maxMessageBytes });
      target.link = link;
      resolve(link);
    });
  });
}
