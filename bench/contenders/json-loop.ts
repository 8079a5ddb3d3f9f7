/**
 * The bare JSON loop behind `bare` and `limit`: stringify, send, parse, find the pending call in a Map. Nothing else:
 * no checks, limits, deadlines, cancellation, backpressure or errors.
 */
import { type Carrier, openCarrier, serveCarriers } from './carriers.ts';
import { eventIndex, eventText, type Served, type Session, type Target, type TransportName } from './contender.ts';
import {
  type CallRequest,
  callReply,
  callRequest,
  handshakeReply,
  handshakeRequest,
  type Incoming,
  idSource,
  toolEvent,
} from './messages.ts';

interface Pending {
  readonly resolve: (reply: Incoming) => void;
  readonly seen: ((index: number) => void) | undefined;
}

/** The client side over something that sends one text. */
export class LoopClient {
  readonly #pending = new Map<string, Pending>();
  readonly #send: (text: string) => void;
  readonly #nextId = idSource();

  constructor(send: (text: string) => void) {
    this.#send = send;
  }

  receive(text: string): void {
    const message = JSON.parse(text) as Incoming;
    const pending = this.#pending.get(message.req_id);
    if (pending === undefined) return;
    if (message.type === 'tool/event') {
      pending.seen?.(eventIndex(message.data.message ?? ''));
      return;
    }
    this.#pending.delete(message.req_id);
    pending.resolve(message);
  }

  handshake(): Promise<Incoming> {
    const id = this.#nextId();
    return this.#ask(id, handshakeRequest(id));
  }

  call(tool: string, args: object, seen?: (index: number) => void): Promise<Incoming> {
    const id = this.#nextId();
    return this.#ask(id, callRequest(id, tool, args, seen !== undefined), seen);
  }

  #ask(id: string, request: object, seen?: (index: number) => void): Promise<Incoming> {
    return new Promise((resolve) => {
      this.#pending.set(id, { resolve, seen });
      this.#send(JSON.stringify(request));
    });
  }
}

/** Answers one request text through `send`. */
export function answer(text: string, nextId: () => string, send: (text: string) => void): void {
  const request = JSON.parse(text) as CallRequest | { readonly type: 'handshake/req'; readonly id: string };
  if (request.type === 'handshake/req') {
    send(JSON.stringify(handshakeReply(nextId(), request.id)));
    return;
  }
  const args = request.arguments;
  if (request.tool_name === 'flood') {
    const count = args.count ?? 0;
    for (let index = 0; index < count; index++) {
      send(JSON.stringify(toolEvent(nextId(), request.id, index, eventText(index))));
    }
    send(JSON.stringify(callReply(nextId(), request.id, 'flood', { count })));
    return;
  }
  send(JSON.stringify(callReply(nextId(), request.id, 'echo', { text: args.text, n: args.n })));
}

function sessionOver(client: LoopClient, close: () => Promise<void>): Session {
  return {
    echo: async (text, n) => (await client.call('echo', { text, n })).data.data?.text ?? '',
    flood: async (count, seen) => {
      await client.call('flood', { count }, seen);
    },
    close,
  };
}

/** Connects both ends in one process: the text is handed over by a function call. */
export function connectInMemory(): Session {
  const nextId = idSource();
  const client: LoopClient = new LoopClient((text) => answer(text, nextId, (reply) => client.receive(reply)));
  return sessionOver(client, async () => {});
}

export async function connectLoop(target: Target, coalesced: boolean): Promise<Session> {
  const carrier = await openCarrier(target, coalesced);
  const client = new LoopClient(carrier.send);
  carrier.receive((text) => client.receive(text));
  await client.handshake();
  return sessionOver(client, carrier.close);
}

export function serveLoop(transport: TransportName, coalesced: boolean): Promise<Served> {
  return serveCarriers(transport, coalesced, (carrier: Carrier) => {
    const nextId = idSource();
    carrier.receive((text) => answer(text, nextId, carrier.send));
  });
}
