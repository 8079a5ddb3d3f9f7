/**
 * One HTTP request as a client of the upstream dialect makes it: bounded in time and size, never redirected, and with a
 * failure that says whether the peer may have got it.
 *
 * Used by the peers of `http-peer-bus.ts` and by receivers that call back.
 */
import { Buffer } from 'node:buffer';
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { fail, type HandfastError } from '../../../wire/errors.ts';

export interface HttpCall {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON text. */
  readonly body?: string;
  /** From the beginning to the end of the answer, milliseconds. */
  readonly timeoutMs: number;
  /** Longest answer, bytes. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly body: Buffer;
}

export interface Exchange {
  /** Resolves when the whole request was given to the system, or it has failed. Never rejects. */
  readonly sent: Promise<void>;
  /**
   * The answer, whatever its status. Rejects with `unreachable` (nothing was sent), `connection_lost` or `timeout` (it may
   * have been), `too_large`, or the reason of `signal`.
   */
  readonly answer: Promise<HttpAnswer>;
}

/** Connections that are kept between requests. */
export class HttpClient {
  readonly #pools = new Map<string, Agent>();

  /** Begins a request. */
  begin(call: HttpCall): Exchange {
    const sent = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<HttpAnswer>();
    answer.promise.then(
      () => sent.resolve(),
      () => sent.resolve(),
    );
    void this.#run(call, sent.resolve).then(answer.resolve, answer.reject);
    return { sent: sent.promise, answer: answer.promise };
  }

  /** The whole of it: resolves with the answer. */
  exchange(call: HttpCall): Promise<HttpAnswer> {
    return this.begin(call).answer;
  }

  /** Ends all connections. */
  close(): void {
    for (const pool of this.#pools.values()) pool.destroy();
    this.#pools.clear();
  }

  async #run(call: HttpCall, onSent: () => void): Promise<HttpAnswer> {
    const { method, url, headers, body, timeoutMs, maxBytes, signal } = call;
    signal?.throwIfAborted();
    const secure = url.protocol === 'https:';
    // Loaded only where an address asks for it.
    const { Agent: PoolAgent, request } = secure ? await import('node:https') : { Agent, request: httpRequest };
    let pool = this.#pools.get(url.protocol);
    if (pool === undefined) {
      pool = new PoolAgent({ keepAlive: true, timeout: IDLE_CONNECTION_MS });
      this.#pools.set(url.protocol, pool);
    }
    const begun = request(url, {
      method,
      agent: pool,
      // Without a value of its own a busy connection would inherit the idle one of the pool.
      timeout: 0,
      headers: {
        Accept: 'application/json',
        ...(body !== undefined && {
          'Content-Type': 'application/json',
          'Content-Length': String(Buffer.byteLength(body)),
        }),
        ...headers,
      },
    });
    return answerOf(begun, { body, timeoutMs, maxBytes, signal, origin: url.origin, onSent });
  }
}

/** Idle connections are given up before common servers (5 s) do it: a request on a dying connection has no known outcome. */
const IDLE_CONNECTION_MS = 4_000;

/** Longest wait for a connection, however long the answer may take. */
const CONNECT_TIMEOUT_MS = 10_000;

interface Bounds extends Pick<HttpCall, 'body' | 'timeoutMs' | 'maxBytes' | 'signal'> {
  readonly origin: string;
  readonly onSent: () => void;
}

function answerOf(request: ClientRequest, { body, timeoutMs, maxBytes, signal, origin, onSent }: Bounds) {
  return new Promise<HttpAnswer>((resolve, reject) => {
    let connected = false;
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      clearTimeout(connecting);
      signal?.removeEventListener('abort', abort);
      act();
    };
    const stop = (error: unknown): void => {
      settle(() => reject(error));
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
    signal?.addEventListener('abort', abort, { once: true });
    const connecting = setTimeout(
      () => stop(unreachable(origin, `no connection in ${CONNECT_TIMEOUT_MS} ms`)),
      Math.min(timeoutMs, CONNECT_TIMEOUT_MS),
    );
    const reached = (): void => {
      connected = true;
      clearTimeout(connecting);
    };
    request.on('socket', (socket) => {
      if (socket.connecting) socket.once('connect', reached);
      else reached();
    });
    // A peer that vanished while its answer is waited for is found by the system's probes.
    request.setSocketKeepAlive(true, 30_000);
    request.on('finish', onSent);
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
        if (response.complete) {
          settle(() => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
        }
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

/** Parses the address of a peer. Fails with `config_invalid` for anything but http(s), and for one that holds a secret. */
export function peerUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fail('config_invalid', `expected an address like http://host:port, got ${JSON.stringify(address)}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw fail('config_invalid', 'an address must not carry a user name or password; give the peer a token');
  }
  url.hash = '';
  url.search = '';
  return url;
}

/** A path below an address. */
export function below(base: URL, path: string): URL {
  const url = new URL(base);
  url.pathname = `${base.pathname.replace(/\/+$/, '')}${path}`;
  return url;
}
