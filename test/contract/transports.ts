/**
 * The transports the contract suite runs on. To add one, write a `TransportFactory` and put it into `transports` below;
 * the HTTP one comes from a separate file.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, type NetConnectOpts, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Link, Listener } from '../../src/transport/link.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import { connectTcp, connectUnix, listenTcp, listenUnix } from '../../src/transport/socket.ts';
import { spawnLink } from '../../src/transport/subprocess.ts';
import { connectWebSocket, webSocketAcceptor } from '../../src/transport/websocket.ts';
import { within } from './recorder.ts';
import { childCommand, controlServer, RemoteLink } from './remote-link.ts';

export interface PairOptions {
  readonly maxMessageBytes?: number;
}

/** Two links that are connected to each other. */
export interface LinkPair {
  /** The side that dialled. */
  readonly client: Link;
  /** The side that accepted. */
  readonly server: Link;
  /** Resolves when the requested operations on the links are done, also if one link lives in another process. */
  sync(): Promise<void>;
  /** Drops both and frees their resources. */
  dispose(): Promise<void>;
}

export interface TransportFactory {
  readonly name: string;
  pair(options?: PairOptions): Promise<LinkPair>;
  /** True when only the client's output can be watched, because the server's link is in another process. */
  readonly serverIsRemote?: boolean;
  /** True when a peer can end its side and still read. */
  readonly halfCloses: boolean;
}

/** A link whose other end is not a link of the project but plain bytes. */
export interface RawPeer {
  readonly link: Link;
  /** Streams that the peer writes to and reads from. */
  readonly output: Writable;
  readonly input: Readable;
  /** Ends the peer without any order. */
  cut(): void;
  sync(): Promise<void>;
  dispose(): Promise<void>;
}

export interface RawFactory {
  readonly name: string;
  raw(options?: PairOptions): Promise<RawPeer>;
}

const nothing = async (): Promise<void> => {};

/** Gives the first value passed to `give`, and takes no second one. */
function handOver<T>(): { give: (value: T) => void; got: Promise<T> } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { give: resolve, got: within(promise, 'a link to be accepted') };
}

async function socketPair(listener: Listener, accepted: Promise<Link>, dialled: Promise<Link>): Promise<LinkPair> {
  const [client, server] = await Promise.all([dialled, accepted]);
  return {
    client,
    server,
    sync: nothing,
    async dispose() {
      client.destroy();
      server.destroy();
      await listener.close();
    },
  };
}

const memory: TransportFactory = {
  name: 'memory',
  halfCloses: true,
  async pair() {
    const [client, server] = memoryPair();
    return {
      client,
      server,
      sync: nothing,
      async dispose() {
        client.destroy();
      },
    };
  },
};

const tcp: TransportFactory = {
  name: 'tcp',
  halfCloses: true,
  async pair(options) {
    const accepted = handOver<Link>();
    const listener = await listenTcp({ port: 0, ...options }, accepted.give);
    return socketPair(listener, accepted.got, connectTcp(listener.address, options));
  },
};

async function temporarySocket(): Promise<{ path: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
  return { path: join(folder, 'socket'), remove: () => rm(folder, { recursive: true, force: true }) };
}

const unix: TransportFactory = {
  name: 'unix',
  halfCloses: true,
  async pair(options) {
    const { path, remove } = await temporarySocket();
    const accepted = handOver<Link>();
    const listener = await listenUnix({ path, ...options }, accepted.give);
    const pair = await socketPair(listener, accepted.got, connectUnix(listener.address, options));
    return {
      ...pair,
      async dispose() {
        await pair.dispose();
        await remove();
      },
    };
  },
};

const stdio: TransportFactory = {
  name: 'stdio and subprocess',
  halfCloses: true,
  serverIsRemote: true,
  async pair(options) {
    const { port, control } = await controlServer();
    const [command = '', ...args] = childCommand('link', port, options?.maxMessageBytes);
    const client = await spawnLink({ command, args, ...options });
    const server = new RemoteLink(await control);
    return {
      client,
      server,
      sync: () => server.sync(),
      async dispose() {
        client.destroy();
        server.dispose();
      },
    };
  },
};

const webSocket: TransportFactory = {
  name: 'websocket',
  halfCloses: false,
  async pair(options) {
    const accepted = handOver<Link>();
    const acceptor = webSocketAcceptor(options);
    const http = createServer();
    http.on('upgrade', (request, socket, head) => acceptor.handle(request, socket, head, accepted.give));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const address = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/ws`;
    const listener = {
      address,
      async close() {
        http.close();
      },
    };
    return socketPair(listener, accepted.got, connectWebSocket(address, options));
  },
};

/** Returns the HTTP transport's factory, which lives with that transport's own test parts. */
async function http(): Promise<TransportFactory[]> {
  const file = './http-transport.ts';
  if (!existsSync(new URL(file, import.meta.url))) return [];
  const { httpTransport } = (await import(file)) as { httpTransport: TransportFactory };
  return [httpTransport];
}

export const transports: readonly TransportFactory[] = [memory, tcp, unix, stdio, webSocket, ...(await http())];

/** Returns a peer over a separate socket. */
async function rawSocket(listener: Listener, accepted: Promise<Link>, dial: NetConnectOpts): Promise<RawPeer> {
  const socket = connect({ ...dial, allowHalfOpen: true });
  socket.on('error', () => {});
  const link = await accepted;
  return {
    link,
    output: socket,
    input: socket,
    cut: () => (listener.address.startsWith('tcp:') ? socket.resetAndDestroy() : socket.destroy()),
    sync: nothing,
    async dispose() {
      socket.destroy();
      link.destroy();
      await listener.close();
    },
  };
}

const acceptedTcp: RawFactory = {
  name: 'tcp, accepted',
  async raw(options) {
    const accepted = handOver<Link>();
    const listener = await listenTcp({ port: 0, ...options }, accepted.give);
    return rawSocket(listener, accepted.got, { port: Number(new URL(listener.address).port), host: '127.0.0.1' });
  },
};

const acceptedUnix: RawFactory = {
  name: 'unix, accepted',
  async raw(options) {
    const { path, remove } = await temporarySocket();
    const accepted = handOver<Link>();
    const listener = await listenUnix({ path, ...options }, accepted.give);
    const peer = await rawSocket(listener, accepted.got, { path });
    return {
      ...peer,
      async dispose() {
        await peer.dispose();
        await remove();
      },
    };
  },
};

/** The dialling side reads in another way than the accepting one, so it is tried with raw bytes too. */
const dialledTcp: RawFactory = {
  name: 'tcp, dialled',
  async raw(options) {
    const server = createNetServer({ allowHalfOpen: true });
    const accepted = handOver<Socket>();
    server.once('connection', accepted.give);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const link = await connectTcp(`tcp://127.0.0.1:${(server.address() as AddressInfo).port}`, options);
    const socket = await accepted.got;
    socket.on('error', () => {});
    return {
      link,
      output: socket,
      input: socket,
      cut: () => socket.resetAndDestroy(),
      sync: nothing,
      async dispose() {
        socket.destroy();
        link.destroy();
        server.close();
      },
    };
  },
};

const stdioServer: RawFactory = {
  name: 'stdio',
  async raw(options) {
    const { port, control } = await controlServer();
    const [command = '', ...args] = childCommand('link', port, options?.maxMessageBytes);
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {});
    const link = new RemoteLink(await control);
    return {
      link,
      output: child.stdin,
      input: child.stdout,
      cut() {
        child.stdin.destroy();
        child.stdout.destroy();
      },
      sync: () => link.sync(),
      async dispose() {
        link.dispose();
        child.kill('SIGKILL');
      },
    };
  },
};

const subprocess: RawFactory = {
  name: 'subprocess',
  async raw(options) {
    const { port, control } = await controlServer();
    const [command = '', ...args] = childCommand('raw', port);
    const link = await spawnLink({ command, args, ...options });
    const socket = await control;
    return {
      link,
      output: socket,
      input: socket,
      // The child takes a broken control connection for its own end.
      cut: () => socket.resetAndDestroy(),
      sync: nothing,
      async dispose() {
        socket.destroy();
        link.destroy();
      },
    };
  },
};

/** Links over byte pipes, with plain bytes at the other end. */
export const rawTransports: readonly RawFactory[] = [acceptedTcp, dialledTcp, acceptedUnix, stdioServer, subprocess];
