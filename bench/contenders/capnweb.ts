/**
 * `capnweb`, Cap'n Web: object capabilities over WebSocket. Events are calls of a function that the caller passes, which
 * is how its users stream; the server uses `ws` as its documentation shows, the client the WebSocket of the platform.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { newMessagePortRpcSession, newWebSocketRpcSession, RpcTarget } from 'capnweb';
import { WebSocketServer } from 'ws';
import { listening } from './carriers.ts';
import {
  type Contender,
  eventIndex,
  eventText,
  LOOPBACK,
  MAX_MESSAGE_BYTES,
  type Session,
  unsupported,
} from './contender.ts';

type Listener = (message: string) => void;

class BenchTarget extends RpcTarget {
  initialize(): { capabilities: string[] } {
    return { capabilities: ['tools'] };
  }

  echo({ text, n }: { text: string; n: number }): { text: string; n: number } {
    return { text, n };
  }

  async flood(count: number, listener: (message: string) => Promise<void>): Promise<{ count: number }> {
    const calls: Promise<void>[] = [];
    for (let index = 0; index < count; index++) calls.push(listener(eventText(index)));
    await Promise.all(calls);
    return { count };
  }
}

/** The stub in the form used here; `RpcStub<BenchTarget>` has the same types, which take long to check. */
interface Stub {
  initialize(): Promise<{ capabilities: string[] }>;
  echo(args: { text: string; n: number }): Promise<{ text: string; n: number }>;
  flood(count: number, listener: Listener): Promise<{ count: number }>;
  [Symbol.dispose](): void;
}

async function openSession(stub: Stub, close: () => Promise<void>): Promise<Session> {
  await stub.initialize();
  return {
    echo: async (text, n) => (await stub.echo({ text, n })).text,
    flood: async (count, seen) => {
      await stub.flood(count, (message) => seen(eventIndex(message)));
    },
    close: async () => {
      stub[Symbol.dispose]();
      await close();
    },
  };
}

export const contender: Contender = {
  name: 'capnweb',
  transports: ['memory', 'websocket'],
  serve: async (transport) => {
    if (transport !== 'websocket') return unsupported('capnweb', transport);
    const server = createServer();
    new WebSocketServer({ server, maxPayload: MAX_MESSAGE_BYTES }).on('connection', (socket) => {
      newWebSocketRpcSession(socket as unknown as WebSocket, new BenchTarget());
    });
    return listening(server);
  },
  connect: async (target) => {
    if (target.transport === 'memory') {
      const { port1, port2 } = new MessageChannel();
      newMessagePortRpcSession(port2 as never, new BenchTarget());
      return openSession(newMessagePortRpcSession(port1 as never) as unknown as Stub, async () => port1.close());
    }
    if (target.transport !== 'websocket') return unsupported('capnweb', target.transport);
    const socket = new WebSocket(`ws://${LOOPBACK}:${target.port}`);
    await once(socket, 'open');
    return openSession(newWebSocketRpcSession(socket) as unknown as Stub, async () => {
      if (socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      socket.close();
      await closed;
    });
  },
};
