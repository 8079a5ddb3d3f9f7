/**
 * The server side of the HTTP + SSE binding: `POST /session`, `POST /send`, `GET /stream`, `DELETE /session`. Each
 * session is one {@link Link}, handed to `accept` when it is created.
 *
 * Beyond the binding, Handfast's client gets `"lines": true`: a body may pack several newline-separated messages,
 * `X-Send-Sequence` numbers bodies from 1 so that one can be repeated after a lost response without being delivered
 * twice, and a reader that sends `Last-Event-ID` (0 at first) gets `gap` and `end` events. Plain clients neither use
 * nor see these additions.
 *
 * @see docs/protocol/a2e.md#http-and-sse
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { clientAddress } from '../../base/http/client-address.ts';
import { type Link, PRE_HANDSHAKE_MAX_MESSAGE_BYTES } from '../link.ts';
import { errorReply, type HttpRoute, jsonReply, readBody, sendReply } from './http-exchange.ts';
import { UNKNOWN_SESSION } from './http-inbox.ts';
import { HttpSession, type SessionRules } from './http-session.ts';

export interface HttpSseOptions {
  /** Gets each new session. Destroying the link before returning refuses it (503). */
  accept(link: Link): void;
  /** Longest message a new session accepts, in bytes; `setMaxMessageBytes` changes it. Default 64 KiB. */
  readonly maxMessageBytes?: number;
  /** Sessions at once; past it `POST /session` answers 429. Default 1,024. */
  readonly maxSessions?: number;
  /** A quiet stream gets a comment this often. Default 15 s. */
  readonly keepAliveMs?: number;
  /** Stored after delivery for readers that resume by `Last-Event-ID`, per session. Default 256 KiB. */
  readonly replayBytes?: number;
  /** Buffer limit while no stream is attached; past it the link closes as `slow_consumer`. Default 4 MiB. */
  readonly waitingBytes?: number;
  /** A session that never had a stream and sees no request closes after this. Default 15 min. */
  readonly idleMs?: number;
  /** Time in which a session whose stream was lost must get a stream or a request, else it closes. Default 60 s. */
  readonly reattachMs?: number;
  /**
   * Time for which the response to a `/send` is delayed for a paused link before it is 429. Default 10 s; clients time
   * out at 30.
   */
  readonly sendDelayMs?: number;
  /** Makes session ids. Default: 128 random bits as 32 hex digits. */
  readonly newId?: () => string;
}

/** The four routes and the sessions behind them. */
export interface HttpSseEndpoint {
  readonly routes: readonly HttpRoute[];
  /** Sessions open now. */
  readonly size: number;
  /** Refuses new sessions (503). Resolves when the last one has ended; open sessions continue. */
  close(): Promise<void>;
}

const HEADER_MISSING = errorReply(400, 'invalid_message', 'the X-Session-Id header is missing');
const BAD_EVENT_ID = errorReply(400, 'invalid_message', 'Last-Event-ID names no event of this session');
const BAD_SEQUENCE = errorReply(400, 'invalid_message', 'X-Send-Sequence must be a positive integer');
const BAD_TYPE = errorReply(
  415,
  'invalid_message',
  'Content-Type must be text/plain, application/json or application/x-ndjson, without Content-Encoding',
);
const NOT_JSON_TYPE = errorReply(
  415,
  'invalid_message',
  'Content-Type must be application/json, or absent without a body',
);
const FULL = errorReply(429, 'over_capacity', 'too many sessions', ['Retry-After', '5']);
const CLOSING = errorReply(503, 'interrupted', 'this server is stopping', ['Retry-After', '5']);
const REFUSED = errorReply(503, 'over_capacity', 'the session was refused', ['Retry-After', '5']);
const ENDED = jsonReply(200, { ok: true });

/** Longest interval of sweeps, so that timeouts are exact to a quarter of their length or five seconds. */
const MAX_SWEEP_MS = 5_000;
const MIN_SWEEP_MS = 10;

export function httpSseEndpoint(options: HttpSseOptions): HttpSseEndpoint {
  const {
    accept,
    maxMessageBytes = PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
    maxSessions = 1_024,
    keepAliveMs = 15_000,
    replayBytes = 256 * 1024,
    waitingBytes = 4 * 1024 * 1024,
    idleMs = 15 * 60_000,
    reattachMs = 60_000,
    sendDelayMs = 10_000,
    newId = () => randomBytes(16).toString('hex'),
  } = options;
  const quarter = Math.min(keepAliveMs, idleMs, reattachMs, sendDelayMs) / 4;
  const sweepMs = Math.min(MAX_SWEEP_MS, Math.max(MIN_SWEEP_MS, quarter));
  const sweepsIn = (spanMs: number) => Math.max(1, Math.round(spanMs / sweepMs));
  const rules: SessionRules = {
    replayBytes,
    waitingBytes,
    keepAliveSweeps: sweepsIn(keepAliveMs),
    idleSweeps: sweepsIn(idleMs),
    reattachSweeps: sweepsIn(reattachMs),
    delaySweeps: sweepsIn(sendDelayMs),
  };
  const sessions = new Map<string, HttpSession>();
  let timer: NodeJS.Timeout | undefined;
  let closing: { promise: Promise<void>; resolve: () => void } | undefined;

  const onEnded = (session: HttpSession): void => {
    sessions.delete(session.id);
    if (sessions.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    closing?.resolve();
  };

  /** Returns the session that a request names; otherwise the request has been replied to. */
  const sessionOf = (request: IncomingMessage, response: ServerResponse): HttpSession | undefined => {
    const id = request.headers['x-session-id'];
    if (id === undefined || id === '') {
      sendReply(response, HEADER_MISSING);
      return undefined;
    }
    const session = sessions.get(id as string);
    if (session === undefined) sendReply(response, UNKNOWN_SESSION);
    else session.touch();
    return session;
  };

  const create = (request: IncomingMessage, response: ServerResponse): void => {
    if (closing !== undefined) return sendReply(response, CLOSING);
    if (!asksForSession(request)) return sendReply(response, NOT_JSON_TYPE);
    if (sessions.size >= maxSessions) return sendReply(response, FULL);
    const peer = `${clientAddress(request)}:${request.socket.remotePort}`;
    const session = new HttpSession(newId(), peer, maxMessageBytes, rules, onEnded);
    sessions.set(session.id, session);
    timer ??= setInterval(() => {
      for (const each of sessions.values()) each.sweep();
    }, sweepMs).unref();
    try {
      accept(session);
    } catch (error) {
      session.destroy('the session could not be started');
      throw error;
    }
    sendReply(response, session.ended ? REFUSED : jsonReply(200, { session_id: session.id, lines: true }));
  };

  const send = (request: IncomingMessage, response: ServerResponse): void => {
    const session = sessionOf(request, response);
    if (session === undefined) return;
    if (!session.receiving) return sendReply(response, UNKNOWN_SESSION);
    if (!isPlain(request)) return sendReply(response, BAD_TYPE);
    const counted = request.headers['x-send-sequence'];
    const sequence = counted === undefined ? 0 : integerOf(counted);
    if (sequence === undefined || (counted !== undefined && sequence === 0)) return sendReply(response, BAD_SEQUENCE);
    if (!session.inbox.start(response)) return;
    readBody(request, session.inbox.maxBodyBytes, (body) => {
      if (body === 'aborted') return session.inbox.abandon();
      const bytes = body === 'too_large' ? undefined : body;
      session.inbox.accept(bytes, sequence, response);
      session.meter?.(bytes?.length ?? session.inbox.maxBodyBytes, 0);
    });
  };

  const stream = (request: IncomingMessage, response: ServerResponse): void => {
    const session = sessionOf(request, response);
    if (session === undefined) return;
    const last = request.headers['last-event-id'];
    const lastEventId = last === undefined ? undefined : integerOf(last);
    // A reader that is ahead of this side, or counts differently, cannot be served without loss, so it gets an error.
    if (last !== undefined && (lastEventId === undefined || !session.hasReached(lastEventId))) {
      return sendReply(response, BAD_EVENT_ID);
    }
    session.attach(response, lastEventId);
  };

  const end = (request: IncomingMessage, response: ServerResponse): void => {
    const session = sessionOf(request, response);
    if (session === undefined) return;
    session.endedByPeer(request.headers['x-session-end'] !== 'abrupt');
    sendReply(response, ENDED);
  };

  return {
    routes: [
      { method: 'POST', path: '/session', whileClosing: true, handle: create },
      { method: 'POST', path: '/send', whileClosing: true, handle: send },
      { method: 'GET', path: '/stream', whileClosing: true, handle: stream },
      { method: 'DELETE', path: '/session', whileClosing: true, handle: end },
    ],
    get size() {
      return sessions.size;
    },
    close() {
      if (closing === undefined) {
        closing = Promise.withResolvers<void>();
        if (sessions.size === 0) closing.resolve();
      }
      return closing.promise;
    },
  };
}

const JSON_TYPE = /^\s*application\/json\s*(?:;|$)/i;
/**
 * Content types that carry messages unchanged. A form, the only other body that a foreign page can post unasked, does
 * not.
 */
const PLAIN_TYPE = /^\s*(?:text\/plain|application\/json|application\/x-ndjson)\s*(?:;|$)/i;

/**
 * Returns true for a request without a body, as plain clients send it, or one with JSON. A page needs permission of its
 * browser for the latter, and names itself in `Origin` with the former.
 */
function asksForSession({ headers }: IncomingMessage): boolean {
  const type = headers['content-type'];
  if (type !== undefined) return JSON_TYPE.test(type);
  const length = headers['content-length'] ?? '0';
  return headers.origin === undefined && length === '0' && headers['transfer-encoding'] === undefined;
}

function isPlain(request: IncomingMessage): boolean {
  const type = request.headers['content-type'];
  const encoding = request.headers['content-encoding'];
  return (type === undefined || PLAIN_TYPE.test(type)) && (encoding === undefined || encoding === 'identity');
}

/** Returns a header value as a whole number from 0 to 15 digits, or undefined. */
function integerOf(value: string | string[]): number | undefined {
  return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : undefined;
}
