/**
 * Parts that all handlers of the HTTP port share: the shape of a route, JSON replies created once and sent many times,
 * the error body, and reading a request body within a limit.
 *
 * The error body carries `detail` because the clients of the A2E binding read it, and `error` has the code.
 */
import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ErrorName, errorTable, type HandfastError } from '../../wire/errors.ts';
import { MESSAGE_BYTES_CEILING } from '../link.ts';

/** One method on one path of the HTTP port. */
export interface HttpRoute {
  /** Upper case, e.g. `POST`. */
  readonly method: string;
  /** Compared with the raw path, undecoded and without the query. */
  readonly path: string;
  /** True: `path` ends with `/` and everything below it belongs to this route. */
  readonly prefix?: boolean;
  /** True: still served while the port closes, because open sessions need it. */
  readonly whileClosing?: boolean;
  /** Handles one request. An error that it throws or rejects with becomes a 500 without details. */
  handle(request: IncomingMessage, response: ServerResponse, path: string): void | Promise<void>;
}

/** A whole answer, ready to be written any number of times. */
export interface HttpReply {
  readonly status: number;
  /** Names and values by turns, as `ServerResponse.writeHead` accepts them. */
  readonly headers: readonly string[];
  readonly body: string;
}

/** Headers that every answer of the port carries. */
export const SAFE_HEADERS: readonly string[] = [
  'X-Content-Type-Options',
  'nosniff',
  'Referrer-Policy',
  'no-referrer',
  'Cross-Origin-Resource-Policy',
  'same-origin',
];

/** Returns a reply with `value` as its JSON body. `headers` are further names and values by turns. */
export function jsonReply(status: number, value: unknown, headers: readonly string[] = []): HttpReply {
  const body = JSON.stringify(value);
  return {
    status,
    headers: [
      'Content-Type',
      'application/json',
      'Content-Length',
      String(Buffer.byteLength(body)),
      'Cache-Control',
      'no-store',
      ...SAFE_HEADERS,
      ...headers,
    ],
    body,
  };
}

/** Returns a refusal: `{"detail": message, "error": {code, message, retryable}}`. */
export function errorReply(
  status: number,
  code: ErrorName,
  message: string,
  headers: readonly string[] = [],
): HttpReply {
  const { retryable } = errorTable[code];
  return jsonReply(status, { detail: message, error: { code, message, retryable } }, headers);
}

/** Returns the refusal of a principal that has used up a share. */
export function overloadReply({ message, detail }: HandfastError): HttpReply {
  const { retry_after_ms } = detail;
  const error = { code: 'over_capacity', message, retryable: true, ...detail };
  return jsonReply(429, { detail: message, error }, ['Retry-After', String(Math.ceil(Number(retry_after_ms) / 1000))]);
}

/** Writes a response, unless one was started or the client has disconnected. */
export function sendReply(response: ServerResponse, reply: HttpReply): void {
  if (response.headersSent || response.destroyed) return;
  // Node accepts the flat array as it is; its type only lacks `readonly`.
  response.writeHead(reply.status, reply.headers as string[]);
  response.end(reply.body);
}

/** The outcome of reading a request body: its bytes, over the limit, or the client left before its end. */
export type BodyOutcome = Buffer | 'too_large' | 'aborted';

/**
 * Reads a body of at most `maxBytes`; `done` is called exactly once. After `too_large` the rest is read and thrown away,
 * so that the client receives the response and can reuse its connection; a body above every message limit is cut off.
 */
export function readBody(request: IncomingMessage, maxBytes: number, done: (outcome: BodyOutcome) => void): void {
  const declared = request.headers['content-length'];
  let store: Buffer | undefined;
  let bytes = 0;
  let settled = false;
  const settle = (outcome: BodyOutcome): void => {
    if (settled) return;
    settled = true;
    store = undefined;
    done(outcome);
  };
  request.on('data', (chunk: Buffer) => {
    const before = bytes;
    bytes += chunk.length;
    if (settled) {
      if (bytes > MESSAGE_BYTES_CEILING + maxBytes) request.destroy();
    } else if (bytes > maxBytes) settle('too_large');
    else store = store === undefined ? chunk : grown(store, before, chunk, maxBytes);
  });
  request.on('end', () => settle(store?.subarray(0, bytes) ?? Buffer.alloc(0)));
  request.on('close', () => settle('aborted'));
  // A declared length is checked at once; the bytes themselves are then only counted.
  if (declared !== undefined && Number(declared) > maxBytes) settle('too_large');
}

/**
 * Adds a chunk at offset `used`. One buffer that doubles, not a list of chunks: a body in one-byte chunks would otherwise
 * cost a hundred times its size. The first chunk is exactly full, so it is copied and never written to.
 */
function grown(store: Buffer, used: number, chunk: Buffer, maxBytes: number): Buffer {
  const needed = used + chunk.length;
  let target = store;
  if (needed > store.length) {
    target = Buffer.allocUnsafe(Math.min(maxBytes, needed * 2));
    store.copy(target, 0, 0, used);
  }
  chunk.copy(target, used);
  return target;
}
