/**
 * Ways for a worker to reach an orchestrator over a link, for the tests of stream links.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectHttp } from '../../../src/transport/http/http-client.ts';
import { httpSseEndpoint } from '../../../src/transport/http/http-sse.ts';
import type { Link } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { connectTcp, connectUnix, listenTcp, listenUnix } from '../../../src/transport/socket.ts';
import { connectWebSocket, webSocketAcceptor } from '../../../src/transport/websocket.ts';

export interface LinkSite {
  dial(): Promise<Link>;
  /** Ends every connection. Absent: a link is one connection, and ends with it. */
  cut?(): void;
  close(): Promise<void>;
}

export interface LinkKind {
  readonly name: string;
  listen(accept: (link: Link) => void): Promise<LinkSite>;
}

const memory: LinkKind = {
  name: 'memory links',
  async listen(accept) {
    return {
      async dial() {
        const [client, server] = memoryPair();
        accept(server);
        return client;
      },
      async close() {},
    };
  },
};

const tcp: LinkKind = {
  name: 'TCP',
  async listen(accept) {
    const listener = await listenTcp({ port: 0 }, accept);
    return { dial: () => connectTcp(listener.address), close: () => listener.close() };
  },
};

const unix: LinkKind = {
  name: 'Unix sockets',
  async listen(accept) {
    const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
    const listener = await listenUnix({ path: join(folder, 'socket') }, accept);
    return {
      dial: () => connectUnix(listener.address),
      async close() {
        await listener.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  },
};

async function listening(http: Server): Promise<string> {
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

async function closed(http: Server): Promise<void> {
  http.closeAllConnections();
  await new Promise((resolve) => http.close(resolve));
}

const webSocket: LinkKind = {
  name: 'WebSocket',
  async listen(accept) {
    const acceptor = webSocketAcceptor();
    const http = createServer();
    http.on('upgrade', (request, socket, head) => acceptor.handle(request, socket, head, accept));
    const address = await listening(http);
    return { dial: () => connectWebSocket(`${address.replace('http', 'ws')}/ws`), close: () => closed(http) };
  },
};

/** Requests and an event stream: the link outlives the connections it goes over. */
export const httpEvents: LinkKind = {
  name: 'HTTP with server-sent events',
  async listen(accept) {
    const { routes } = httpSseEndpoint({ accept });
    const http = createServer((request, response) => {
      const route = routes.find(({ method, path }) => method === request.method && path === request.url);
      void route?.handle(request, response, route.path);
    });
    const address = await listening(http);
    return {
      dial: () => connectHttp(address),
      cut: () => http.closeAllConnections(),
      close: () => closed(http),
    };
  },
};

export const linkKinds: readonly LinkKind[] = [memory, tcp, unix, webSocket, httpEvents];

export const quiet = { debug() {}, info() {}, warn() {}, error() {} };
