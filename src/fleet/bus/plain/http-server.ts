/**
 * What both HTTP servers of the upstream dialect share: who asks, the body within its bound, the answer as JSON.
 *
 * Used by `fleet/bus/http/worker-server.ts` and `replies.ts`.
 * @see docs/protocol/fleet.md#http
 */

import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { sleep } from '../../../base/sleep.ts';
import { isLoopback } from '../../../config/listen-address.ts';
import type { Authenticator } from '../../../session/auth.ts';
import type { AuthThrottle } from '../../../session/auth-throttle.ts';
import type { Principal } from '../../../session/principal.ts';
import { MAX_BODY_BYTES } from '../http/messages.ts';

export interface Guard {
  readonly auth: Authenticator;
  /** A token was asked for by configuration: without any the server refuses to work at all. */
  readonly requireToken: boolean;
  readonly backoff: AuthThrottle;
}

/** Writes a JSON answer, unless the client has gone. */
export function answer(response: ServerResponse, status: number, value: unknown, headers: Record<string, string> = {}) {
  if (response.headersSent || response.destroyed) return;
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...headers,
  });
  response.end(body);
}

/** The path of a request, without its query. */
export function pathOf({ url = '/' }: IncomingMessage): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/**
 * Who asks; undefined: it has been answered (401, 403, 503). A refusal for a wrong token takes longer the more there were.
 */
export async function callerOf(
  { auth, requireToken, backoff }: Guard,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<Principal | undefined> {
  if (requireToken && !auth.hasTokens) {
    answer(response, 503, { error: 'authentication is required here, but no token is configured' });
    return undefined;
  }
  if (!auth.hasTokens && !meansThisMachine(request)) {
    answer(response, 403, { error: 'without a token, only addresses are answered, not names' });
    return undefined;
  }
  const token = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
  const principal = auth.authenticate(token ?? '');
  if (principal !== undefined) return principal;
  const { delayMs } = backoff.failed(request.socket.remoteAddress ?? '');
  if (delayMs > 0) await sleep(delayMs);
  answer(response, 401, { error: 'the token is missing or wrong' }, { 'WWW-Authenticate': 'Bearer' });
  return undefined;
}

/** Without tokens a page of another site could get here by a name that was made to point at this machine. */
function meansThisMachine({ headers }: IncomingMessage): boolean {
  const host = (headers.host ?? '').replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  return isLoopback(host) || /^[\d.]+$|:/.test(host);
}

/** The body; undefined: it has been answered (413, 415), or the client has gone. */
export function bodyOf(request: IncomingMessage, response: ServerResponse): Promise<Buffer | undefined> {
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(request.headers['content-type'] ?? '')) {
    // Also what keeps forms of foreign pages out.
    answer(response, 415, { error: 'the body must be application/json' }, { Connection: 'close' });
    request.resume();
    return Promise.resolve(undefined);
  }
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const tooLarge = (): void => {
      answer(response, 413, { error: `the body is longer than ${MAX_BODY_BYTES} bytes` }, { Connection: 'close' });
      chunks.length = 0;
      resolve(undefined);
    };
    if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) tooLarge();
    request.on('data', (chunk: Buffer) => {
      const before = bytes;
      bytes += chunk.length;
      if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
      else if (before <= MAX_BODY_BYTES) tooLarge();
      // Some of the rest is read, so that the client gets to see the answer.
      else if (bytes > MAX_READ_BYTES) request.destroy();
    });
    request.on('end', () => resolve(bytes <= MAX_BODY_BYTES ? joined(chunks) : undefined));
    request.on('error', () => resolve(undefined));
    request.on('close', () => resolve(undefined));
  });
}

/** The whole of what came in pieces; most bodies come in one. */
const joined = (chunks: readonly Buffer[]): Buffer => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));

/** Bytes of a body that are read and thrown away at most. */
const MAX_READ_BYTES = 16 * MAX_BODY_BYTES;
