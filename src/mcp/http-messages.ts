/**
 * Reads the messages of servers in responses over HTTP, and gives the official client messages that it accepts. A
 * response without the reply to its request fails that request at once, with the reason.
 *
 * The client gets these responses from the `fetch` of `over-http.ts`.
 */
import { isEventStream, SseReader } from '../base/http/sse-reader.ts';
import { type Id, type Message, type MessageReader, unreadable } from './read-message.ts';
import { MAX_MESSAGE } from './too-long.ts';

/** Longest part of the body of an error response that is read. */
const MAX_ERROR_BYTES = 64 * 1024;

const mediaType = (response: Response): string =>
  (response.headers.get('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';

const isJson = (response: Response): boolean => /^application\/(?:[\w.-]+\+)?json$/.test(mediaType(response));

export interface Reading {
  /** Called with the error when the body broke off. */
  readonly onLost: (thrown: object) => void;
  /** Returns the error for a body that was not read to its end because it is too long. */
  readonly tooLong: () => Message | undefined;
  /** Gets each message, and returns the message for the client. */
  readonly received: (message: Message) => Message;
}

/** Reads the messages of the response to a request. */
export async function readMessages(
  response: Response,
  reader: MessageReader,
  own: Id | undefined,
  reading: Reading,
): Promise<Response> {
  if (isEventStream(response.headers.get('content-type'))) return events(response, reader, own, reading);
  if (own === undefined) return response;
  const body = await response.text().catch((thrown: object) => {
    reading.onLost(thrown);
    const excess = reading.tooLong();
    if (excess === undefined) throw thrown;
    return excess;
  });
  const messages = (typeof body === 'string' ? read(body, response, reader, own) : [body]).map(reading.received);
  if (mediaType(response) === 'application/json') return withMessages(response, messages);
  const headers = new Headers(response.headers);
  headers.set('content-type', 'application/json');
  return withMessages(new Response(null, { status: response.status, headers }), messages);
}

/** Returns a response whose messages are read already; the client gets them in place of a text. */
const withMessages = (response: Response, messages: readonly Message[]): Response =>
  Object.assign(response, { json: async () => messages });

/** Returns the response to a request that the server accepted without sending a reply. */
export function nothingFor(own: Id): Response {
  const response = new Response(null, { headers: { 'content-type': 'application/json' } });
  return withMessages(response, [unreadable(own, 'the server accepted the request and sent nothing')]);
}

function read(body: string, response: Response, reader: MessageReader, own: Id): Message[] {
  // A page of a proxy, or a program that serves something else.
  if (!isJson(response) && !/^\s*[[{]/.test(body.slice(0, 256))) {
    return [unreadable(own, `it is of the type ${JSON.stringify(mediaType(response).slice(0, 64))}`)];
  }
  const messages = reader.text(body, own);
  const isAnswered = messages.some((message) => !('method' in message) && message.id === own);
  return isAnswered ? messages : [...messages, unreadable(own, 'it is for another request')];
}

/** Returns a stream of events with messages that the client accepts, without other events. */
function events(response: Response, reader: MessageReader, own: Id | undefined, reading: Reading): Response {
  const { body, status, headers } = response;
  if (body === null) return response;
  const source = body.getReader();
  let written: string[] = [];
  let isOver = false;
  const write = (messages: readonly Message[], id: string): void => {
    for (const message of messages.map(reading.received))
      written.push(`event: message\n${idLine(id)}data: ${JSON.stringify(message)}\n\n`);
  };
  const sse = new SseReader(
    {
      event(type, data, id) {
        if (type === '' || type === 'message') write(isOver && !isJsonText(data) ? [] : reader.text(data, own), id);
      },
      empty: (id) => written.push(`${idLine(id)}data:\n\n`),
      malformed({ reason }, id) {
        if (reason === 'too_large') write(reader.tooMany('', 'bytes', own), id);
        else if (own !== undefined) write([unreadable(own, 'it is not UTF-8')], id);
      },
      retry: (delayMs) => written.push(`retry: ${delayMs}\n\n`),
    },
    MAX_MESSAGE,
  );
  const bytes = new TextEncoder();
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    while (written.length === 0) {
      const { done, value } = await source.read().catch((thrown: unknown) => {
        const excess = reading.tooLong();
        if (excess === undefined) throw thrown;
        write([excess], '');
        return { done: true as const, value: undefined };
      });
      isOver = done;
      // The last event of some servers lacks the line that ends it.
      sse.push(done ? Buffer.from('\n\n') : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
      if (done) break;
    }
    if (written.length > 0) controller.enqueue(bytes.encode(written.join('')));
    written = [];
    if (isOver) controller.close();
  };
  return new Response(new ReadableStream({ pull, cancel: (reason) => source.cancel(reason) }), { status, headers });
}

const idLine = (id: string): string => (id === '' ? '' : `id: ${id}\n`);

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns the first part of the body of an error response. */
export async function errorBody(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  while (reader !== undefined && size < MAX_ERROR_BYTES) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  void reader?.cancel().catch(() => {});
  return Buffer.concat(parts).subarray(0, MAX_ERROR_BYTES).toString();
}
