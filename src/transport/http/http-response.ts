/**
 * The response to an HTTP request, whole or as a stream: bounded in time and size, with a failure that reports whether
 * the peer may have received the request.
 */
import { Buffer } from 'node:buffer';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { noPeerText } from '../refusal-text.ts';

/** Timeout of connecting, in addition to the timeout of the response. */
const CONNECT_TIMEOUT_MS = 10_000;

export interface ExchangeOptions {
  /** The peer as messages name it. */
  readonly origin: string;
  readonly body?: string;
  /** From the start to the end of the response, or to its headers where it is streamed, milliseconds. */
  readonly timeoutMs: number;
  /** Cancels the request, and a streamed response with it. */
  readonly signal?: AbortSignal;
  /** Called when the whole request was given to the system. */
  readonly onSent?: () => void;
  /** While the exchange runs, the function that ends it is in here. */
  readonly running?: Set<(reason: unknown) => void>;
}

export interface ResponseOptions extends ExchangeOptions {
  /** Longest response, bytes. */
  readonly maxBytes: number;
}

export interface HttpResponse {
  readonly status: number;
  readonly body: Buffer;
}

/**
 * Ends a started request, with its body, and resolves with the whole response, of any status. Rejects with
 * `unreachable` (nothing was sent), `connection_lost` or `timeout` (it may have been), `too_large`, the reason of `signal`, or
 * the reason it was ended with.
 */
export function readResponse(request: ClientRequest, options: ResponseOptions): Promise<HttpResponse> {
  const { origin, maxBytes } = options;
  return exchangeOver(request, options, (response, { settle, stop, failed }) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) stop(fail('too_large', `the response of ${origin} is too long`, { limit: maxBytes }));
      else chunks.push(chunk);
    });
    response.on('error', failed);
    response.on('close', () => {
      if (!response.complete) failed(new Error('the response was cut off'));
    });
    response.on('end', () => {
      if (!response.complete) return;
      settle({ status: response.statusCode ?? 0, body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) });
    });
  });
}

/**
 * Ends a started request, with its body, and resolves with the response once its headers are here. Rejects as
 * {@link readResponse} does; the body fails with the reason of `signal`, or the reason it was ended with.
 */
export function openResponse(request: ClientRequest, options: ExchangeOptions): Promise<IncomingMessage> {
  return exchangeOver(request, options, (response, { opened }) => opened(response));
}

/** The actions of a response's reader on the exchange. */
interface Exchange<T> {
  /** Ends the exchange with this value. */
  settle(value: T): void;
  /** Called when the headers were received, and the body continues: only its end, or the signal, ends the exchange. */
  opened(value: T & IncomingMessage): void;
  /** Ends the exchange, which fails with this. */
  stop(error: unknown): void;
  failed(error: Error): void;
}

function exchangeOver<T>(
  request: ClientRequest,
  { origin, body, timeoutMs, signal, onSent, running }: ExchangeOptions,
  receive: (response: IncomingMessage, exchange: Exchange<T>) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let connected = false;
    let connecting: NodeJS.Timeout | undefined;
    let stream: IncomingMessage | undefined;
    const ended = (): void => {
      clearTimeout(timer);
      clearTimeout(connecting);
      signal?.removeEventListener('abort', abort);
      running?.delete(stop);
    };
    const stop = (error: unknown): void => {
      ended();
      reject(error);
      // The reader of an open body gets the reason; `destroy` of the request alone would give it a reset connection.
      stream?.destroy(error as Error);
      request.destroy();
    };
    const settle = (value: T): void => {
      ended();
      resolve(value);
    };
    const opened = (response: T & IncomingMessage): void => {
      clearTimeout(timer);
      stream = response;
      response.once('close', ended);
      resolve(response);
    };
    const abort = (): void => stop(signal?.reason);
    const failed = (error: Error): void => {
      const reason = (error as NodeJS.ErrnoException).code ?? error.message;
      stop(connected ? lost(origin, reason, error) : unreachable(origin, reason, error));
    };
    const timer = setTimeout(
      () => stop(connected ? late(origin, timeoutMs) : unreachable(origin, `no response in ${timeoutMs} ms`)),
      timeoutMs,
    );
    running?.add(stop);
    signal?.addEventListener('abort', abort, { once: true });
    request.on('socket', (socket) => {
      connected = !socket.connecting;
      if (connected) return;
      const mostMs = Math.min(timeoutMs, CONNECT_TIMEOUT_MS);
      connecting = setTimeout(() => stop(unreachable(origin, `no connection in ${mostMs} ms`)), mostMs);
      socket.once('connect', () => {
        connected = true;
        clearTimeout(connecting);
      });
    });
    if (onSent !== undefined) request.on('finish', onSent);
    request.on('error', failed);
    request.on('response', (response: IncomingMessage) => receive(response, { settle, opened, stop, failed }));
    request.end(body);
  });
}

const unreachable = (origin: string, reason: string, cause?: unknown): HandfastError =>
  fail('unreachable', noPeerText(origin, { message: reason }), { address: origin }, cause);
const lost = (origin: string, reason: string, cause?: unknown): HandfastError =>
  fail(
    'connection_lost',
    `the connection to ${origin} ended before the response (${reason})`,
    { address: origin },
    cause,
  );
const late = (origin: string, timeoutMs: number): HandfastError =>
  fail('timeout', `no response from ${origin} in ${timeoutMs} ms`, { address: origin });
