/**
 * `json-rpc-2.0`: a JSON-RPC library without transports and without validation. It runs over the plain carriers here,
 * one write a message, as its users write them; in memory the payload objects are handed over unchanged.
 */
import { JSONRPCClient, JSONRPCServer, JSONRPCServerAndClient } from 'json-rpc-2.0';
import { type Carrier, openCarrier, serveCarriers } from './carriers.ts';
import { type Contender, eventIndex, eventText, type Session } from './contender.ts';
import { PostClient, servePosts } from './http-loop.ts';

interface EventParams {
  readonly token: number;
  readonly message: string;
}

function addMethods(server: JSONRPCServer, notify: (params: EventParams) => void): void {
  server.addMethod('initialize', () => ({ capabilities: ['tools'] }));
  server.addMethod('echo', ({ text, n }: { text: string; n: number }) => ({ text, n }));
  server.addMethod('flood', ({ count, token }: { count: number; token: number }) => {
    for (let index = 0; index < count; index++) notify({ token, message: eventText(index) });
    return { count };
  });
}

function endpoint(send: (payload: unknown) => void): JSONRPCServerAndClient {
  return new JSONRPCServerAndClient(
    new JSONRPCServer(),
    new JSONRPCClient((payload) => {
      send(payload);
    }),
  );
}

function servingEndpoint(send: (payload: unknown) => void): JSONRPCServerAndClient {
  const peer = endpoint(send);
  addMethods(peer as unknown as JSONRPCServer, (params) => peer.notify('event', params));
  return peer;
}

async function openSession(peer: JSONRPCServerAndClient, close: () => Promise<void>): Promise<Session> {
  const listeners = new Map<number, (index: number) => void>();
  let tokens = 0;
  peer.addMethod('event', ({ token, message }: EventParams) => {
    listeners.get(token)?.(eventIndex(message));
  });
  await peer.request('initialize', { client: 'bench' });
  return {
    echo: async (text, n) => (await peer.request('echo', { text, n })).text,
    flood: async (count, seen) => {
      const token = ++tokens;
      listeners.set(token, seen);
      await peer.request('flood', { count, token });
      listeners.delete(token);
    },
    close,
  };
}

function connectInMemory(): Promise<Session> {
  const server = servingEndpoint((payload) => void client.receiveAndSend(payload));
  const client: JSONRPCServerAndClient = endpoint((payload) => void server.receiveAndSend(payload));
  return openSession(client, async () => {});
}

function connectHttp(port: number): Promise<Session> {
  const posts = new PostClient(port);
  const client: JSONRPCServerAndClient = endpoint((payload) => {
    void posts.post(JSON.stringify(payload)).then((text) => client.receiveAndSend(JSON.parse(text)));
  });
  return openSession(client, async () => posts.close());
}

function overCarrier(carrier: Carrier, make: typeof endpoint): JSONRPCServerAndClient {
  const peer = make((payload) => carrier.send(JSON.stringify(payload)));
  carrier.receive((text) => void peer.receiveAndSend(JSON.parse(text)));
  return peer;
}

export const contender: Contender = {
  name: 'json-rpc-2.0',
  transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'],
  serve: (transport) => {
    if (transport !== 'http') {
      return serveCarriers(transport, false, (carrier) => {
        overCarrier(carrier, servingEndpoint);
      });
    }
    const server = new JSONRPCServer();
    addMethods(server, () => {
      throw new Error('a reply in one body has no room for events');
    });
    return servePosts((body, _send, last) => {
      void server.receive(JSON.parse(body)).then((response) => last(JSON.stringify(response)));
    });
  },
  connect: async (target) => {
    if (target.transport === 'memory') return connectInMemory();
    if (target.transport === 'http') return connectHttp(target.port);
    const carrier = await openCarrier(target, false);
    return openSession(overCarrier(carrier, endpoint), carrier.close);
  },
};
