/**
 * The form of replies of `/mcp`: one JSON document where no message comes before it, else a stream of events. Events of a
 * session are stored for a client that was cut off and continues with `Last-Event-ID`.
 */
import type { ServerResponse } from 'node:http';
import { Deadlines } from '../../base/deadlines.ts';
import { type Linked, LinkedList } from '../../base/linked-list.ts';
import type { RequestId } from '../../mcp-endpoint/protocol.ts';
import type { Exchange } from '../../mcp-endpoint/served-request.ts';
import { SAFE_HEADERS } from '../../transport/http/http-exchange.ts';
import { WHO_ARE_YOU } from './server-route.ts';

const JSON_HEADERS = [
  'Cache-Control',
  'no-store',
  ...SAFE_HEADERS,
  'Content-Type',
  'application/json',
  'Content-Length',
];
const STREAM_HEADERS = ['Content-Type', 'text/event-stream', 'Cache-Control', 'no-cache', 'X-Accel-Buffering', 'no'];

/** Bytes that a client may leave unread before notifications are dropped. */
const MAX_UNREAD_BYTES = 1024 * 1024;
/** A request that takes longer gets a stream, so that its client can read on elsewhere, and proxies see that it lives. */
const STREAM_AFTER_MS = 5_000;
/** Milliseconds after which a client that was cut off should come again. */
const RETRY_MS = 1_000;
/** Characters of events that are stored for one session. */
const MAX_STORED = 1024 * 1024;

interface StoredEvent {
  readonly stream: number;
  readonly seq: number;
  readonly text: string;
  /** True when it was the last of its stream. */
  readonly last: boolean;
}

/** One stream of a session: the stream of an exchange, or 0, that of messages without an exchange. */
interface OpenStream {
  response: ServerResponse | undefined;
  seq: number;
  ended: boolean;
}

const GENERAL = 0;

/** The events of a session, and where they go. */
export class McpEventStream {
  readonly #streams = new Map<number, OpenStream>([[GENERAL, { response: undefined, seq: 0, ended: false }]]);
  #stored: StoredEvent[] = [];
  #size = 0;
  #newest = GENERAL;

  /** True while a client reads messages that belong to no request. */
  get attached(): boolean {
    return this.#streams.get(GENERAL)?.response !== undefined;
  }

  /** Sends a message that belongs to no request; stored where no client reads it. */
  unasked(text: string): void {
    this.send(GENERAL, text, false);
  }

  /** Opens the stream of an exchange and gives its number. */
  open(response: ServerResponse, headers: readonly string[]): number {
    const stream = ++this.#newest;
    this.#streams.set(stream, { response, seq: 0, ended: false });
    start(response, headers);
    // The client can come again from here although it has no event yet.
    response.write(`id: ${stream}-0\nretry: ${RETRY_MS}\ndata:\n\n`);
    this.#follow(stream, response);
    return stream;
  }

  /** Sends an event of a stream and stores it. */
  send(number: number, text: string, last: boolean, mustArrive = last): void {
    const stream = this.#streams.get(number);
    if (stream === undefined) return;
    stream.seq += 1;
    stream.ended = last;
    this.#store({ stream: number, seq: stream.seq, text, last });
    const { response } = stream;
    if (response === undefined || (!mustArrive && response.writableLength > MAX_UNREAD_BYTES)) return;
    response.write(eventText(`${number}-${stream.seq}`, text));
    if (!last) return;
    response.end();
    stream.response = undefined;
  }

  /** Attaches a reader: to the general stream, or behind the event that it saw last. */
  attach(
    response: ServerResponse,
    last: string | undefined,
    headers: readonly string[],
  ): 'attached' | 'unknown' | 'in use' {
    const [, number = GENERAL, after = 0] = (/^(\d{1,9})-(\d{1,9})$/.exec(last ?? '') ?? []).map(Number);
    if (last !== undefined && !/^\d{1,9}-\d{1,9}$/.test(last)) return 'unknown';
    const stream = this.#streams.get(number);
    if (stream === undefined || after > stream.seq) return 'unknown';
    if (stream.response !== undefined) {
      if (last === undefined) return 'in use';
      // The client knows better than this end whether its connection is lost.
      stream.response.end();
    }
    start(response, headers);
    const missed = this.#stored.filter(
      (event) => event.stream === number && event.seq > (last === undefined ? 0 : after),
    );
    for (const event of missed) response.write(eventText(`${number}-${event.seq}`, event.text));
    if (stream.ended) response.end();
    else {
      stream.response = response;
      response.write(': attached\n\n');
      this.#follow(number, response);
    }
    return 'attached';
  }

  /** Ends the stream of an exchange: no further message comes on it. */
  finish(number: number): void {
    const stream = this.#streams.get(number);
    if (stream === undefined || stream.ended) return;
    stream.ended = true;
    stream.response?.end();
    // None of its events is the last, by which it would be evicted.
    this.#streams.delete(number);
  }

  /** Ends the responses that are to be read no longer. The client may attach again, if it is let in. */
  detach(which: (response: ServerResponse) => boolean): void {
    for (const stream of this.#streams.values()) {
      if (stream.response === undefined || !which(stream.response)) continue;
      stream.response.end();
      stream.response = undefined;
    }
  }

  keepAlive(): void {
    for (const { response } of this.#streams.values()) response?.write(':\n\n');
  }

  end(): void {
    for (const { response } of this.#streams.values()) response?.end();
    this.#streams.clear();
    this.#stored = [];
  }

  #follow(number: number, response: ServerResponse): void {
    response.once('close', () => {
      const stream = this.#streams.get(number);
      if (stream?.response === response) stream.response = undefined;
    });
  }

  #store(event: StoredEvent): void {
    this.#stored.push(event);
    this.#size += event.text.length;
    while (this.#size > MAX_STORED && this.#stored.length > 1) {
      const oldest = this.#stored.shift() as StoredEvent;
      this.#size -= oldest.text.length;
      // A stream that has ended and of which nothing is stored is not known any more.
      if (oldest.last) this.#streams.delete(oldest.stream);
    }
  }
}

/**
 * The responses that have not been written. Responses that have neither a reply nor a stream yet share one timer: most are
 * replied to at once. Responses with a reply are written together when all requests of this turn of the event loop have been
 * read: a client that is woken by one response finds the others there, and waking it once costs less than waking it for each.
 */
export class WaitingResponses {
  #replied: McpResponse[] = [];
  readonly #responses = new LinkedList<McpResponse>();
  readonly #streams = new LinkedList<McpResponse>();
  readonly #deadlines = new Deadlines<McpResponse>(
    () => this.#responses,
    (response) => response.start(),
  );

  add(response: McpResponse): void {
    this.#responses.add(response);
    this.#deadlines.watch(response.deadlineAt);
  }

  delete(response: McpResponse): void {
    // It holds no process open that has nothing else to wait for.
    if (this.#responses.delete(response)) {
      if (this.#responses.size === 0) this.#deadlines.rest();
    } else this.#streams.delete(response);
  }

  /** Notes that the response has become a stream. */
  stream(response: McpResponse): void {
    this.delete(response);
    this.#streams.add(response);
  }

  /** The responses that have no reply yet. */
  get open(): McpResponse[] {
    return [...this.#responses, ...this.#streams];
  }

  /** Writes the reply of a response together with the other replies of this turn. */
  write(response: McpResponse): void {
    if (this.#replied.push(response) === 1) setImmediate(this.#writeAll);
  }

  readonly #writeAll = (): void => {
    const replied = this.#replied;
    this.#replied = [];
    for (const response of replied) response.writeReply();
  };

  close(): void {
    this.#responses.clear();
    this.#streams.clear();
    this.#deadlines.clear();
  }
}

/** The response of one POST. */
export class McpResponse implements Exchange, Linked<McpResponse> {
  list: LinkedList<McpResponse> | undefined;
  previous: McpResponse | undefined;
  next: McpResponse | undefined;
  /** Name of the principal of the request. */
  readonly owner: string;
  /** The request that a withdrawn token cancels. */
  running: { cancel(id: RequestId): unknown } | undefined;
  id: RequestId = '';
  readonly #response: ServerResponse;
  readonly #headers: readonly string[];
  readonly #events: McpEventStream | undefined;
  readonly #waiting: WaitingResponses;
  /** Time when it becomes a stream. */
  readonly deadlineAt = performance.now() + STREAM_AFTER_MS;
  #stream: number | undefined;
  #started = false;
  #replied = false;
  #text = '';
  #status = 200;

  /** @param events of the session; without them nothing is stored */
  constructor(
    owner: string,
    response: ServerResponse,
    headers: readonly string[],
    events: McpEventStream | undefined,
    waiting: WaitingResponses,
  ) {
    this.owner = owner;
    this.#response = response;
    this.#headers = headers;
    this.#events = events;
    this.#waiting = waiting;
    waiting.add(this);
  }

  /** The token that the request was sent with, as its header has it. */
  get authorization(): string | undefined {
    return this.#response.req.headers.authorization;
  }

  reply(text: string, status = 200): void {
    if (this.#replied) return;
    this.#replied = true;
    this.#waiting.delete(this);
    if (this.#stream !== undefined) return this.#events?.send(this.#stream, text, true);
    const response = this.#response;
    if (response.destroyed) return;
    if (this.#started) {
      response.end(eventText(undefined, text));
      return;
    }
    this.#text = text;
    this.#status = status;
    this.#waiting.write(this);
  }

  /** Writes the reply as one document, unless its client has left. */
  writeReply(): void {
    const response = this.#response;
    if (response.destroyed) return;
    const text = this.#text;
    const headers = [...JSON_HEADERS, String(Buffer.byteLength(text)), ...this.#headers];
    if (this.#status === 401) headers.push(...WHO_ARE_YOU);
    response.writeHead(this.#status, headers);
    response.end(text);
  }

  /** Ends as a stream without a reply. */
  end(): void {
    if (this.#replied) return;
    this.start();
    this.#replied = true;
    this.#waiting.delete(this);
    if (this.#stream !== undefined) this.#events?.finish(this.#stream);
    else this.#response.end();
  }

  notify(text: string): void {
    if (this.#replied) return;
    this.start();
    if (this.#stream !== undefined) this.#events?.send(this.#stream, text, false);
    else if (!this.#response.destroyed && this.#response.writableLength < MAX_UNREAD_BYTES) {
      this.#response.write(eventText(undefined, text));
    }
  }

  ask(text: string): void {
    if (this.#replied) return;
    this.start();
    if (this.#stream !== undefined) this.#events?.send(this.#stream, text, false, true);
  }

  /** Makes it a stream, unless it is one or its client has left. */
  start(): void {
    if (this.#started || this.#replied) return;
    if (this.#response.destroyed) return this.#waiting.delete(this);
    this.#started = true;
    this.#waiting.stream(this);
    // A client that has left reads no reply; a session stores it.
    this.#response.once('close', () => this.#events === undefined && this.#waiting.delete(this));
    if (this.#events !== undefined) {
      this.#stream = this.#events.open(this.#response, this.#headers);
      return;
    }
    start(this.#response, this.#headers);
    const alive = setInterval(() => this.#response.write(':\n\n'), KEEP_ALIVE_MS).unref();
    this.#response.once('close', () => clearInterval(alive));
  }
}

const KEEP_ALIVE_MS = 15_000;

function start(response: ServerResponse, headers: readonly string[]): void {
  response.writeHead(200, [...STREAM_HEADERS, ...SAFE_HEADERS, ...headers]);
  response.flushHeaders();
}

const eventText = (id: string | undefined, text: string): string =>
  id === undefined ? `event: message\ndata: ${text}\n\n` : `event: message\nid: ${id}\ndata: ${text}\n\n`;
