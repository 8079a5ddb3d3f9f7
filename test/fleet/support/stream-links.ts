/**
 * Ways for a worker to reach an orchestrator over a link, for the tests of stream links.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Link } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { connectTcp, connectUnix, listenTcp, listenUnix } from '../../../src/transport/socket.ts';
import { connectWebSocket, webSocketAcceptor } from '../../../src/transport/websocket.ts';

export interface LinkSite {
  dial(): Promise<Link>;
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

const webSocket: LinkKind = {
  name: 'WebSocket',
  async listen(accept) {
    const acceptor = webSocketAcceptor();
    const http = createServer();
    http.on('upgrade', (request, socket, head) => acceptor.handle(request, socket, head, accept));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const address = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/ws`;
    return {
      dial: () => connectWebSocket(address),
      async close() {
        http.closeAllConnections();
        await new Promise((resolve) => http.close(resolve));
      },
    };
  },
};

export const linkKinds: readonly LinkKind[] = [memory, tcp, unix, webSocket];

export const quiet = { debug() {}, info() {}, warn() {}, error() {} };
