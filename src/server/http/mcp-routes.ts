/**
 * `/mcp`: MCP over streamable HTTP on the port of the host, with the tokens and rights of agents.
 *
 * A client of the sessions era has an HTTP session with a separate agent session; requests that stand alone share one for each
 * principal. A reply is one JSON document, or a stream of events where notifications come first.
 * @see docs/mcp-server.md
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AgentSession } from '../../agent/agent.ts';
import { strictText } from '../../base/strict-text.ts';
import type { Host } from '../../host/host.ts';
import { Cancellation } from '../../mcp-endpoint/cancellation.ts';
import { HostSession, type OwnToolRule, type ToolTable } from '../../mcp-endpoint/host-session.ts';
import {
  errorText,
  HEADER_MISMATCH,
  INVALID_REQUEST,
  META_VERSION,
  metaOf,
  PARSE_ERROR,
  type Received,
  readMessage,
  SERVER_ERROR,
  SESSION_VERSIONS,
  STATELESS_VERSIONS,
} from '../../mcp-endpoint/protocol.ts';
import { McpRequests, type ServerInfo, termsOf } from '../../mcp-endpoint/requests.ts';
import { McpSession } from '../../mcp-endpoint/session.ts';
import { bearerToken, ConnectionTokens, knownPrincipal, refusedToken } from '../../session/bearer.ts';
import type { Principal } from '../../session/principal.ts';
import {
  type HttpReply,
  type HttpRoute,
  overloadReply,
  readBody,
  SAFE_HEADERS,
  sendReply,
} from '../../transport/http/http-exchange.ts';
import type { Link } from '../../transport/link.ts';
import { memoryPair } from '../../transport/memory.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import { headerMismatch, paramMismatch } from './mcp-headers.ts';
import { McpEventStream, McpResponse, WaitingResponses } from './mcp-response.ts';
import { REFUSED, type RouteAccess, type ServerRoute, TOO_MANY } from './server-route.ts';

export interface McpRoutesOptions {
  readonly host: Pick<Host, 'accept' | 'limits'>;
  readonly access: RouteAccess;
  readonly version: string;
  /** Narrows the tools of the memory and the skills. Default: all granted tools can be used. */
  readonly permits?: OwnToolRule;
  /** HTTP sessions at once, of all principals. Default 1,024. */
  readonly maxSessions?: number;
  /** A session without a request and without a stream ends after this, milliseconds. Default 15 min. */
  readonly idleMs?: number;
  /** A quiet stream gets a comment this often, milliseconds. Default 15 s. */
  readonly keepAliveMs?: number;
}

export interface McpRoutes {
  readonly routes: readonly ServerRoute[];
  /** Ends all sessions. */
  close(): void;
}

const PATH = '/mcp';
const SESSION = 'Mcp-Session-Id';

/** Returns a refusal before a message was read. */
function refusal(status: number, message: string, code = SERVER_ERROR, headers: readonly string[] = []): HttpReply {
  return jsonText(status, errorText(null, code, message), headers);
}

function jsonText(status: number, body: string, headers: readonly string[] = []): HttpReply {
  const length = String(Buffer.byteLength(body));
  const all = ['Content-Type', 'application/json', 'Content-Length', length, 'Cache-Control', 'no-store'];
  return { status, headers: [...all, ...SAFE_HEADERS, ...headers], body };
}

const ACCEPTED: HttpReply = { status: 202, headers: ['Content-Length', '0', ...SAFE_HEADERS], body: '' };
const ENDED: HttpReply = { status: 204, headers: [...SAFE_HEADERS], body: '' };
const BAD_TYPE = refusal(415, 'Content-Type must be application/json, without Content-Encoding', INVALID_REQUEST);
const BAD_ACCEPT = refusal(406, 'Accept must name application/json and text/event-stream', INVALID_REQUEST);
const NO_SESSION = refusal(404, 'the session has ended or was never opened; send initialize');
const SESSION_MISSING = refusal(400, `the ${SESSION} header is missing`, INVALID_REQUEST);
const FULL = refusal(429, 'too many sessions', SERVER_ERROR, ['Retry-After', '5']);
const NO_STREAM = refusal(405, `GET and DELETE need the ${SESSION} header of a session`, SERVER_ERROR, [
  'Allow',
  'POST',
]);
const BAD_UTF8 = refusal(400, 'the body is not UTF-8', PARSE_ERROR);
const NO_JSON = refusal(400, 'the body is not JSON', PARSE_ERROR);
const BAD_EVENT = refusal(400, 'Last-Event-ID names no event of this session', INVALID_REQUEST);
const ONE_STREAM = refusal(409, 'the session has a stream already');

const JSON_TYPE = /^\s*application\/json\s*(?:;|$)/i;

export function mcpRoutes(options: McpRoutesOptions): McpRoutes {
  const endpoint = new McpHttp(options);
  const route = (method: string, handle: HttpRoute['handle']) =>
    ({ method, path: PATH, needs: 'messages', handle }) as const;
  return {
    routes: [
      route('POST', (request, response) => endpoint.post(request, response)),
      route('GET', (request, response) => endpoint.get(request, response)),
      route('DELETE', (request, response) => endpoint.delete(request, response)),
    ],
    close: () => endpoint.close(),
  };
}

type Asked = Extract<Received, { readonly kind: 'request' }>;

/** One HTTP session. */
interface HttpSession {
  readonly id: string;
  readonly principal: string;
  readonly session: McpSession;
  readonly host: HostSession;
  /** Events that it may read again. */
  readonly events: McpEventStream;
  usedAt: number;
}

/** The common part of a principal's requests that stand alone. */
interface Shared {
  readonly principal: Principal;
  readonly requests: McpRequests;
  running: number;
  usedAt: number;
}

class McpHttp {
  readonly #options: McpRoutesOptions;
  readonly #server: ServerInfo;
  readonly #sessions = new Map<string, HttpSession>();
  readonly #shared = new Map<Principal, Shared>();
  readonly #tokens: ConnectionTokens;
  readonly #waiting = new WaitingResponses();
  readonly #maxBytes: number;
  readonly #idleMs: number;
  readonly #timer: NodeJS.Timeout;
  /** Number of changes of rights. */
  #changes = 0;

  constructor(options: McpRoutesOptions) {
    this.#options = options;
    this.#tokens = new ConnectionTokens(options.access.auth);
    this.#server = { name: 'handfast', title: 'Handfast', version: options.version };
    this.#maxBytes = options.host.limits.maxMessageBytes;
    this.#idleMs = options.idleMs ?? 15 * 60_000;
    const { keepAliveMs = 15_000 } = options;
    options.access.auth.onChange?.(() => this.#rightsChanged());
    this.#timer = setInterval(() => this.#sweep(), Math.min(keepAliveMs, this.#idleMs)).unref();
  }

  post(request: IncomingMessage, response: ServerResponse): void | Promise<void> {
    return this.#admit(request, response, (principal) => this.#post(request, response, principal));
  }

  #post(request: IncomingMessage, response: ServerResponse, principal: Principal): void {
    const { headers } = request;
    if (!JSON_TYPE.test(headers['content-type'] ?? '') || headers['content-encoding'] !== undefined) {
      return sendReply(response, BAD_TYPE);
    }
    const { accept = '' } = headers;
    if (!accept.includes('*/*') && !(accept.includes('application/json') && accept.includes('text/event-stream'))) {
      return sendReply(response, BAD_ACCEPT);
    }
    const changes = this.#changes;
    readBody(request, this.#maxBytes, (body) => {
      if (body === 'aborted') return;
      // The body may arrive long after the token was looked at.
      const owner = changes === this.#changes ? principal : this.#tokens.ownerOf(request);
      if (owner === undefined) return sendReply(response, REFUSED);
      if (body === 'too_large') {
        return sendReply(response, refusal(413, `the message exceeds ${this.#maxBytes} bytes`, INVALID_REQUEST));
      }
      const text = strictText(body);
      if (text === undefined) return sendReply(response, BAD_UTF8);
      let received: Received;
      try {
        received = readMessage(text, this.#options.host.limits.maxValues);
      } catch {
        return sendReply(response, NO_JSON);
      }
      this.#received(received, owner, request, response);
    });
  }

  /** Serves the stream of a session: messages that belong to no request, or the rest of an exchange that was cut off. */
  get(request: IncomingMessage, response: ServerResponse): void | Promise<void> {
    return this.#admit(request, response, (principal) => this.#get(request, response, principal));
  }

  #get(request: IncomingMessage, response: ServerResponse, principal: Principal): void {
    if (request.headers['mcp-session-id'] === undefined) return sendReply(response, NO_STREAM);
    const session = this.#session(request, response, principal);
    if (session === undefined) return;
    if (!(request.headers.accept ?? '').includes('text/event-stream')) return sendReply(response, BAD_ACCEPT);
    const last = request.headers['last-event-id'];
    const outcome = session.events.attach(response, last as string | undefined, [SESSION, session.id]);
    if (outcome === 'unknown') sendReply(response, BAD_EVENT);
    if (outcome === 'in use') sendReply(response, ONE_STREAM);
  }

  delete(request: IncomingMessage, response: ServerResponse): void | Promise<void> {
    return this.#admit(request, response, (principal) => this.#delete(request, response, principal));
  }

  #delete(request: IncomingMessage, response: ServerResponse, principal: Principal): void {
    if (request.headers['mcp-session-id'] === undefined) return sendReply(response, NO_STREAM);
    const session = this.#session(request, response, principal);
    if (session === undefined) return;
    this.#end(session);
    sendReply(response, ENDED);
  }

  close(): void {
    clearInterval(this.#timer);
    for (const session of [...this.#sessions.values()]) this.#end(session);
    this.#waiting.close();
    for (const { requests } of this.#shared.values()) requests.close();
    this.#shared.clear();
  }

  /** Serves the request of a known principal, at once: waiting for it would cost as much as the call. Others are refused. */
  #admit(
    request: IncomingMessage,
    response: ServerResponse,
    serve: (principal: Principal) => void,
  ): void | Promise<void> {
    const { authThrottle, traffic } = this.#options.access;
    const known = knownPrincipal(request, this.#tokens, traffic);
    if (known === undefined) {
      return refusedToken(request, authThrottle).then((status) =>
        sendReply(response, status === 401 ? REFUSED : TOO_MANY),
      );
    }
    if (known instanceof HandfastError) sendReply(response, overloadReply(known));
    else serve(known);
  }

  #received(received: Received, principal: Principal, request: IncomingMessage, response: ServerResponse): void {
    if (received.kind === 'invalid') {
      return sendReply(response, jsonText(400, errorText(received.id, INVALID_REQUEST, received.reason)));
    }
    const header = request.headers['mcp-protocol-version'];
    const claimed = received.kind !== 'response' && META_VERSION in metaOf(received.params);
    if (claimed || STATELESS_VERSIONS.includes(header as never)) {
      return this.#standAlone(received, principal, request, response);
    }
    if (received.kind === 'request' && received.method === 'initialize') {
      return this.#initialize(received, principal, response);
    }
    const session = this.#session(request, response, principal);
    if (session === undefined) return;
    if (header !== undefined && !SESSION_VERSIONS.includes(header as never)) {
      return sendReply(response, refusal(400, `unsupported protocol version: ${String(header).slice(0, 64)}`));
    }
    if (received.kind !== 'request') {
      session.session.receive(received, NOWHERE);
      return sendReply(response, ACCEPTED);
    }
    const out = new McpResponse(session.principal, response, [SESSION, session.id], session.events, this.#waiting);
    out.running = session.session;
    out.id = received.id;
    session.session.receive(received, out);
  }

  #initialize(received: Asked, principal: Principal, response: ServerResponse): void {
    if (this.#sessions.size >= (this.#options.maxSessions ?? 1_024)) return sendReply(response, FULL);
    const id = randomBytes(16).toString('hex');
    const events = new McpEventStream();
    const host = this.#hostSession(principal);
    const session = new McpSession(new McpRequests(host, this.#server), (text) => events.unasked(text));
    const opened: HttpSession = { id, principal: principal.name, session, host, events, usedAt: Date.now() };
    this.#sessions.set(id, opened);
    const out = new McpResponse(principal.name, response, [SESSION, id], events, this.#waiting);
    out.id = received.id;
    session.receive(received, {
      reply: (text, status) => {
        // The host refused it: the session does not exist.
        if (session.version === undefined) this.#end(opened);
        out.reply(text, status);
      },
      notify: (text) => out.notify(text),
      ask: (text) => out.ask(text),
      end: () => out.end(),
    });
  }

  /** Serves a request of the stateless revision. */
  #standAlone(received: Received, principal: Principal, request: IncomingMessage, response: ServerResponse): void {
    if (received.kind === 'response' || received.kind === 'invalid') {
      return sendReply(response, refusal(400, 'replies cannot be sent here', INVALID_REQUEST));
    }
    const mismatch = headerMismatch(received, request.headers);
    const id = received.kind === 'request' ? received.id : null;
    if (mismatch !== undefined) {
      return sendReply(response, jsonText(400, errorText(id, HEADER_MISMATCH, mismatch)));
    }
    if (received.kind === 'notification') return sendReply(response, ACCEPTED);
    const shared = this.#sharedOf(principal);
    const { host } = shared.requests;
    const serve = (tools: ToolTable | undefined): void => {
      const expected = tools?.headerParams.get(String(received.params.name));
      const wrong = expected && paramMismatch(expected, received.params, request.headers);
      if (wrong === undefined) this.#serveAlone(received, shared, response);
      else sendReply(response, jsonText(400, errorText(id, HEADER_MISMATCH, wrong)));
    };
    if (received.method !== 'tools/call') this.#serveAlone(received, shared, response);
    else if (host.knownTools !== undefined) serve(host.knownTools);
    // Without a list, the call reports the reason.
    else host.toolTable().then(serve, () => serve(undefined));
  }

  #serveAlone(received: Asked, shared: Shared, response: ServerResponse): void {
    const out = new McpResponse(shared.principal.name, response, [], undefined, this.#waiting);
    const cancellation = new Cancellation();
    out.running = cancellation;
    out.id = received.id;
    shared.running++;
    // Without a session, a client that leaves is one that cancels.
    response.on('close', () => {
      shared.running--;
      shared.usedAt = Date.now();
      if (!response.writableFinished) cancellation.cancel();
    });
    const { id, method, params } = received;
    const served = { id, method, params, cancellation, exchange: out };
    try {
      shared.requests.serve({ ...served, terms: termsOf(metaOf(params)) });
    } catch (error) {
      shared.requests.fail(served, error);
    }
  }

  /** Returns the session that a request names, if it is of this principal; otherwise the request has been answered. */
  #session(request: IncomingMessage, response: ServerResponse, principal: Principal): HttpSession | undefined {
    const id = request.headers['mcp-session-id'];
    if (id === undefined) {
      sendReply(response, SESSION_MISSING);
      return undefined;
    }
    const session = this.#sessions.get(id as string);
    if (session === undefined || session.principal !== principal.name) {
      sendReply(response, NO_SESSION);
      return undefined;
    }
    session.usedAt = Date.now();
    return session;
  }

  #sharedOf(principal: Principal): Shared {
    let shared = this.#shared.get(principal);
    if (shared === undefined) {
      const requests = new McpRequests(this.#hostSession(principal), this.#server);
      shared = { principal, requests, running: 0, usedAt: Date.now() };
      this.#shared.set(principal, shared);
    }
    return shared;
  }

  #hostSession(principal: Principal): HostSession {
    const { host, permits } = this.#options;
    const dial = async (): Promise<Link> => {
      // With the present rights, also where the session before was lost.
      const current = this.#currentOf(principal);
      if (current === undefined) throw fail('unauthorized', `${principal.name} is no longer configured`);
      const [ours, theirs] = memoryPair();
      host.accept(theirs, current);
      return ours;
    };
    return new HostSession(
      (capabilities, options) => AgentSession.open(dial, capabilities, { ...options, resume: false }),
      permits,
    );
  }

  /** Returns the principal with the rights it has now; undefined when it no longer exists. */
  #currentOf(principal: Principal): Principal | undefined {
    const { auth } = this.#options.access;
    return auth.current === undefined ? principal : auth.current(principal.name);
  }

  /**
   * Ends requests and streams of withdrawn tokens: requests that run are cancelled and replied to, streams end. The sessions of
   * a principal that still exists stay for its other tokens.
   */
  #rightsChanged(): void {
    this.#changes += 1;
    const { auth } = this.#options.access;
    const isWithdrawn = (authorization: string | undefined, owner: string): boolean =>
      auth.authenticate(bearerToken(authorization))?.name !== owner;
    for (const response of this.#waiting.open) {
      const { authorization, owner, id, running } = response;
      if (!isWithdrawn(authorization, owner)) continue;
      running?.cancel(id);
      response.reply(errorText(id, SERVER_ERROR, 'unauthorized: the token was withdrawn', WITHDRAWN), 401);
    }
    for (const session of [...this.#sessions.values()]) {
      if (auth.current !== undefined && auth.current(session.principal) === undefined) this.#end(session);
      else session.events.detach(({ req }) => isWithdrawn(req.headers.authorization, session.principal));
    }
    for (const [principal, { requests }] of [...this.#shared]) {
      if (this.#currentOf(principal) !== undefined) continue;
      this.#shared.delete(principal);
      requests.close();
    }
  }

  #end(session: HttpSession): void {
    if (!this.#sessions.delete(session.id)) return;
    session.session.close();
    for (const response of this.#waiting.open) {
      if (response.running === session.session)
        response.reply(errorText(response.id, SERVER_ERROR, 'the session has ended'), 404);
    }
    session.host.close();
    session.events.end();
  }

  /** Ends idle sessions, and keeps quiet streams alive. */
  #sweep(): void {
    const idleSince = Date.now() - this.#idleMs;
    for (const session of [...this.#sessions.values()]) {
      session.events.keepAlive();
      if (session.session.running === 0 && !session.events.attached && session.usedAt < idleSince) this.#end(session);
    }
    for (const [principal, shared] of [...this.#shared]) {
      if (shared.running > 0 || shared.usedAt >= idleSince) continue;
      this.#shared.delete(principal);
      shared.requests.close();
    }
  }
}

const WITHDRAWN = { code: 'unauthorized', retryable: false };

/** For messages without a reply. */
const NOWHERE = { reply(): void {}, notify(): void {}, ask(): void {}, end(): void {} };
