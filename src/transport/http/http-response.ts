/**
 * The whole answer to an HTTP request: bounded in time and size, with a failure that says whether the peer may have got the
 * request.
 *
 * Used by the client half of the HTTP binding (`http-request.ts`) and by that of the fleet's HTTP bus.
 */
import { Buffer } from 'node:buffer';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { fail, type HandfastError } from '../../wire/errors.ts';

/** Idle connections are given up before common servers (5 s) do it: a request on a dying connection has no known outcome. */
export const IDLE_CONNECTION_MS = 4_000;
/** Longest wait for a connection, however long the answer may take. */
const CONNECT_TIMEOUT_MS = 10_000;

export interface AnswerOptions {
  /** Whom messages name. */
  readonly origin: string;
  readonly body?: string;
  /** From the beginning to the end of the answer, milliseconds. */
  readonly timeoutMs: number;
  /** Longest answer, bytes. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal;
  /** The whole request was given to the system. */
  readonly onSent?: () => void;
  /** While it is under way, what ends it is in here. */
  readonly running?: Set<(reason: unknown) => void>;
}

export interface HttpResponse {
  readonly status: number;
  readonly body: Buffer;
}

/**
 * Ends a request that was begun, with its body, and resolves with the whole answer, whatever its status. Rejects with
 * `unreachable` (nothing was sent), `connection_lost` or `timeout` (it may have been), `too_large`, the reason of `signal`, or
 * what it was ended with.
 */
export function readResponse(
  request: ClientRequest,
  { origin, body, timeoutMs, maxBytes, signal, onSent, running }: AnswerOptions,
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    let connected = false;
    let connecting: NodeJS.Timeout | undefined;
    const settled = (): void => {
      clearTimeout(timer);
      clearTimeout(connecting);
      signal?.removeEventListener('abort', abort);
      running?.delete(stop);
    };
    const stop = (error: unknown): void => {
      settled();
      reject(error);
      request.destroy();
    };
    const abort = (): void => stop(signal?.reason);
    const failed = (error: Error): void => {
      const why = (error as NodeJS.ErrnoException).code ?? error.message;
      stop(connected ? lost(origin, why, error) : unreachable(origin, why, error));
    };
    const timer = setTimeout(
      () => stop(connected ? late(origin, timeoutMs) : unreachable(origin, `no answer in ${timeoutMs} ms`)),
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
    request.on('response', (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > maxBytes) stop(fail('too_large', `the answer of ${origin} is too long`, { limit: maxBytes }));
        else chunks.push(chunk);
      });
      response.on('error', failed);
      response.on('close', () => {
        if (!response.complete) failed(new Error('the answer was cut off'));
      });
      response.on('end', () => {
        if (!response.complete) return;
        settled();
        resolve({ status: response.statusCode ?? 0, body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) });
      });
    });
    request.end(body);
  });
}

const unreachable = (origin: string, why: string, cause?: unknown): HandfastError =>
  fail('unreachable', `nobody answers at ${origin} (${why})`, { address: origin }, cause);
const lost = (origin: string, why: string, cause?: unknown): HandfastError =>
  fail('connection_lost', `the connection to ${origin} ended before the answer (${why})`, { address: origin }, cause);
const late = (origin: string, timeoutMs: number): HandfastError =>
  fail('timeout', `no answer from ${origin} in ${timeoutMs} ms`, { address: origin });
