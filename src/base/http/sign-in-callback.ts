/**
 * The loopback page to which a browser returns at the end of a sign-in: listens on this machine only, accepts no
 * request without the right state, is used once, and closes afterwards.
 *
 * It opens for each sign-in in a browser.
 * @see https://www.rfc-editor.org/rfc/rfc8252#section-7.3
 */
import { timingSafeEqual } from 'node:crypto';
import type { Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { asError, fail } from '../../wire/errors.ts';

/** The return of the browser. */
export interface Arrival {
  /** The address at which it arrived, with the code. */
  readonly url: URL;
  /** Shows the outcome to the user in the browser. Call it once. */
  show(outcome: { readonly ok: boolean; readonly message: string }): void;
}

export interface Callback {
  /** The address that the sign-in service sends the browser back to. */
  readonly redirectUri: string;
  /**
   * Waits for the browser with this state. Fails with `login_failed` when the user refused, or with the reason of
   * `signal`. Visits with another state are refused and change nothing.
   */
  arrival(state: string, signal: AbortSignal): Promise<Arrival>;
  /** Ends it; an answer that is being sent is finished first. */
  close(): void;
}

/** A browser opens a few connections ahead; more than this is no browser. */
const MAX_CONNECTIONS = 16;
/** Time for a connection to send its request, and for a reply to be read. */
const CONNECTION_TIMEOUT_MS = 10_000;

/** Opens the page at the first of `ports` that is free, else at any. Fails with `login_failed`. */
export async function openCallback(path: string, ports: readonly number[]): Promise<Callback> {
  let expected: { readonly state: string; resolve(arrival: Arrival): void; reject(error: Error): void } | undefined;

  // Loaded with the first sign-in: it takes a tenth of the time in which a whole server starts.
  const { createServer } = await import('./node-http.ts');
  const server = createServer((request, response) => {
    // Only path and query of the request are used; a visitor controls the Host header.
    const url = URL.canParse(request.url ?? '', redirectUri) ? new URL(request.url!, redirectUri) : undefined;
    if (request.method !== 'GET' || url?.pathname !== path) return page(response, 404, 'There is nothing here.');
    const waiting = expected;
    if (waiting === undefined) return page(response, 410, 'This sign-in has ended.');
    if (!isSame(url.searchParams.get('state') ?? '', waiting.state)) {
      return page(response, 400, 'This address does not belong to the running sign-in.');
    }
    expected = undefined;
    const error = url.searchParams.get('error');
    if (error !== null) {
      const why = (url.searchParams.get('error_description') ?? error).slice(0, 300);
      page(response, 200, 'You are not signed in. You can close this window.');
      return waiting.reject(fail('login_failed', `sign-in was refused: ${why}`, { error: error.slice(0, 100) }));
    }
    waiting.resolve({
      url: new URL(`${redirectUri}${url.search}`),
      show: ({ ok, message }) => page(response, ok ? 200 : 400, message),
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.requestTimeout = CONNECTION_TIMEOUT_MS;
  server.headersTimeout = CONNECTION_TIMEOUT_MS;
  server.on('connection', (socket) => socket.unref());

  await listen(server, ports);
  // An error without a listener would end the process, also one after the server listens.
  server.on('error', () => {});
  // A pending sign-in must not hold the process open.
  server.unref();
  const redirectUri = `http://localhost:${(server.address() as AddressInfo).port}${path}`;

  return {
    redirectUri,
    arrival(state, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<Arrival>();
      const abandon = () => {
        expected = undefined;
        reject(asError(signal.reason, 'cancelled'));
      };
      if (signal.aborted) abandon();
      else {
        expected = { state, resolve, reject };
        signal.addEventListener('abort', abandon, { once: true });
      }
      return promise.finally(() => signal.removeEventListener('abort', abandon));
    },
    close() {
      server.close();
      server.closeIdleConnections();
      // A client that does not read the last reply is not waited for.
      setTimeout(() => server.closeAllConnections(), CONNECTION_TIMEOUT_MS).unref();
    },
  };
}

/** Listens on the first port that is free; 0 means any port and ends the list. */
async function listen(server: Server, ports: readonly number[]): Promise<void> {
  for (const port of [...ports, 0]) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject).once('listening', resolve);
    server.listen({ port, host: '127.0.0.1', exclusive: true });
    try {
      return await promise;
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      if (port === 0 || (code !== 'EADDRINUSE' && code !== 'EACCES')) {
        throw fail('login_failed', `cannot listen for the callback of the sign-in (${code})`, {}, cause);
      }
    } finally {
      server.removeListener('error', reject).removeListener('listening', resolve);
    }
  }
}

function isSame(one: string, other: string): boolean {
  const bytes = Buffer.from(one);
  const others = Buffer.from(other);
  return bytes.length === others.length && timingSafeEqual(bytes, others);
}

/** Sends one short page of text without scripts; its address, which holds the code, is never sent as a referrer. */
function page(response: ServerResponse, status: number, message: string): void {
  const text = message.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  response
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'",
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      connection: 'close',
    })
    .end(`<!doctype html><meta charset="utf-8"><title>Handfast</title><p>${text}</p>\n`);
}
