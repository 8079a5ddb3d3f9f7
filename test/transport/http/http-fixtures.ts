/**
 * Shared parts of the HTTP tests: a receiver that records, a served endpoint, requests on raw sockets, and a small TCP
 * relay that can cut connections.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpListener, type HttpServerOptions, httpServer } from '../../../src/server/http/http.ts';
import { type HttpSseEndpoint, type HttpSseOptions, httpSseEndpoint } from '../../../src/transport/http/http-sse.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed } from '../../../src/transport/link.ts';
import { PATIENCE_MS, within } from '../../contract/recorder.ts';

export { within };

/** Far above the duration of any wait here; only present so that a lost wake-up fails instead of hanging. */
const WAIT_MS = PATIENCE_MS;

/** Waits until `condition` holds, looking once a turn or so. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const end = performance.now() + WAIT_MS;
  while (!condition()) {
    assert.ok(performance.now() < end, `waited ${WAIT_MS} ms until ${what}`);
    await delay(2);
  }
}

/** Records the input of a link. */
export class Recorder implements LinkReceiver {
  readonly messages: string[] = [];
  readonly problems: Malformed[] = [];
  readonly link: Link;
  readonly #over = Promise.withResolvers<CloseInfo>();
  closures = 0;

  /** @param onMessage gets each message after it was recorded */
  constructor(link: Link, onMessage?: (text: string) => void) {
    this.link = link;
    this.#onMessage = onMessage;
    link.open(this);
  }
  readonly #onMessage: ((text: string) => void) | undefined;

  message(message: string | Record<string, unknown>): void {
    assert.equal(typeof message, 'string');
    assert.equal(this.closures, 0, 'nothing is delivered after closed');
    this.messages.push(message as string);
    this.#onMessage?.(message as string);
  }
  malformed(problem: Malformed): void {
    this.problems.push(problem);
  }
  ended(): void {}
  closed(cause: CloseInfo): void {
    this.closures += 1;
    this.#over.resolve(cause);
  }

  count(messages: number): Promise<void> {
    return until(() => this.messages.length >= messages, `${messages} messages came (${this.messages.length} did)`);
  }
  get over(): Promise<CloseInfo> {
    return within(this.#over.promise, 'the link to close');
  }
}

export interface Served {
  readonly listener: HttpListener;
  readonly endpoint: HttpSseEndpoint;
  /** The server's ends of the links, in the order they were accepted. */
  readonly peers: Recorder[];
}

/** Returns a served endpoint that is closed after the test. */
export async function serve(
  t: TestContext,
  options: Partial<HttpSseOptions> & {
    server?: HttpServerOptions;
    onMessage?: (link: Link, text: string) => void;
  } = {},
): Promise<Served> {
  const { server, onMessage, ...endpointOptions } = options;
  const peers: Recorder[] = [];
  const endpoint = httpSseEndpoint({
    accept: (link) => {
      peers.push(new Recorder(link, (text) => onMessage?.(link, text)));
    },
    ...endpointOptions,
  });
  const listener = await httpServer({ ...server, endpoint });
  t.after(async () => {
    for (const { link } of peers) link.destroy('the test is over');
    await listener.close();
  });
  return { listener, endpoint, peers };
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Sends one plain request, as a client without any of Handfast's extensions does. */
export function ask(
  address: string,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string | Buffer,
): Promise<Answer> {
  const asked = new Promise<Answer>((resolve, reject) => {
    const sent = request(`${address}${path}`, { method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
  return within(asked, `an answer to ${method} ${path}`);
}

export async function newSession(address: string): Promise<string> {
  const { status, body } = await ask(address, 'POST', '/session');
  assert.equal(status, 200);
  return (JSON.parse(body) as { session_id: string }).session_id;
}

/** An open event stream, with its text as it arrives. */
export class EventText {
  text = '';
  ended = false;
  readonly response: IncomingMessage;

  constructor(response: IncomingMessage) {
    this.response = response;
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => {
      this.text += chunk;
    });
    response.on('error', () => {});
    response.on('close', () => {
      this.ended = true;
    });
  }

  /** `[id, data]` of each complete event that has no type. */
  get events(): [number, string][] {
    return [...this.text.matchAll(/^id: (\d+)\ndata: (.*)\n\n/gm)].map((match) => [Number(match[1]), match[2]!]);
  }
  get data(): string[] {
    return this.events.map(([, data]) => data);
  }
  count(events: number): Promise<void> {
    return until(() => this.events.length >= events, `${events} events came (${this.events.length} did)`);
  }
  end(): Promise<void> {
    return until(() => this.ended, 'the stream ended');
  }
  drop(): void {
    this.response.destroy();
  }
}

/** Opens `GET /stream`; resolves with its head. */
export async function openStream(address: string, session: string, lastEventId?: string): Promise<EventText> {
  const headers: Record<string, string> = { 'X-Session-Id': session };
  if (lastEventId !== undefined) headers['Last-Event-ID'] = lastEventId;
  const sent = request(`${address}/stream`, { headers, agent: new Agent() });
  sent.end();
  const [response] = (await within(once(sent, 'response'), 'the head of the stream')) as [IncomingMessage];
  assert.equal(response.statusCode, 200);
  sent.on('error', () => {});
  return new EventText(response);
}

/** Sends bytes on a raw socket; resolves with everything received once the server closed the connection. */
export async function raw(port: number, bytes: string | Buffer, options: { keepOpen?: boolean } = {}): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => {});
  socket.write(bytes);
  if (!options.keepOpen) socket.end();
  await within(
    new Promise<void>((resolve) => socket.on('close', () => resolve())),
    'the server to close the connection',
  ).finally(() => socket.destroy());
  return Buffer.concat(chunks).toString('latin1');
}

/** A TCP relay to `port` whose connections a test can cut, stop or refuse. */
export class Relay {
  readonly #server = createServer((near) => this.#join(near));
  readonly #pairs = new Set<[Socket, Socket]>();
  readonly #port: number;
  /** Called with each chunk; returns false to cut this connection instead of forwarding the chunk. */
  pass: (chunk: Buffer, up: boolean) => boolean = () => true;
  refusing = false;
  connections = 0;

  private constructor(port: number) {
    this.#port = port;
  }

  static async to(t: TestContext, port: number): Promise<{ relay: Relay; address: string }> {
    const relay = new Relay(port);
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    t.after(() => {
      relay.cut();
      relay.#server.close();
    });
    return { relay, address: `http://127.0.0.1:${(relay.#server.address() as AddressInfo).port}` };
  }

  /** Cuts every open connection. */
  cut(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  #join(near: Socket): void {
    this.connections += 1;
    if (this.refusing) {
      near.destroy();
      return;
    }
    const far = connect(this.#port, '127.0.0.1');
    const pair: [Socket, Socket] = [near, far];
    this.#pairs.add(pair);
    const forward = (from: Socket, to: Socket, up: boolean) => {
      from.on('data', (chunk: Buffer) => {
        if (!this.pass(chunk, up)) {
          near.destroy();
          far.destroy();
        } else if (!to.write(chunk)) {
          from.pause();
          to.once('drain', () => from.resume());
        }
      });
      from.on('error', () => {});
      from.on('end', () => to.end());
      from.on('close', () => {
        this.#pairs.delete(pair);
        to.destroy();
      });
    };
    forward(near, far, true);
    forward(far, near, false);
  }
}
