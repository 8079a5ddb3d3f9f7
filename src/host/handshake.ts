/**
 * The host's side of the A2E handshake: version, token, resume or negotiation, reply. It decides every action of a link
 * before it has a session.
 *
 * @see docs/protocol/a2e.md#handshake
 */
import type { Log } from '../base/log.ts';
import type { Dialect, PendingLink } from '../connection/accept.ts';
import type { Ping } from '../connection/liveness.ts';
import type { Journal } from '../journal/journal.ts';
import {
  type CapabilityGrant,
  checkHandshakeReq,
  checkPing,
  EXTENSION_CANCEL,
  EXTENSION_CAPABILITIES,
  EXTENSION_JOURNAL,
  EXTENSION_RESUME,
  type HandshakeReason,
  type HandshakeReq,
  isAdditionalCapability,
} from '../protocol/a2e.ts';
import type { Authenticator } from '../session/auth.ts';
import type { AuthThrottle } from '../session/auth-throttle.ts';
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import type { TrafficShares } from '../session/traffic-shares.ts';
import type { Link } from '../transport/link.ts';
import { A2ECodec, errorBody, versionFits } from '../wire/a2e.ts';
import { violation } from '../wire/check.ts';
import { shown } from '../wire/codec.ts';
import { asError, fail, type HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { HostLimits } from './host-limits.ts';
import { type CapabilityOffer, negotiate, negotiateAdditional } from './negotiate.ts';

type Message = Record<string, unknown>;

/** Members of the host that the handshake uses. */
export interface A2EHandshakeDeps {
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly traffic: TrafficShares;
  readonly log: Log;
  readonly uptimeMs: () => number;
  /** Returns the principal of a peer, by its kind of link or by its token. */
  authenticate(link: Link, token: unknown): Principal | undefined;
  /** Capabilities loaded. */
  readonly offers: (principal: Principal) => ReadonlyMap<string, CapabilityOffer>;
  /** Extensions this host grants when asked. */
  readonly extensions: ReadonlySet<string>;
  find(id: string): Session | undefined;
  /** Opens a session; throws when the host cannot, and the agent gets `server_error`. */
  open(
    request: HandshakeReq,
    principal: Principal,
    granted: ReadonlySet<string>,
    extensions: ReadonlySet<string>,
  ): Session;
  /** Loads the plugins that serve the capabilities of a session; undefined if they are loaded. Never rejects. */
  prepare(granted: ReadonlySet<string>): Promise<void> | undefined;
  maxParallel(principal: Principal): number;
  maxWaiting(principal: Principal): number;
  resumeWindowMs: number;
  /** Called when a handshake was decided; for the audit. */
  onHandshakeDone(
    gate: PendingLink,
    principal: Principal | undefined,
    session: Session | undefined,
    reason: string,
  ): void;
}

/** Answers a peer gets without a handshake before its link is closed. */
const MAX_STRIKES = 16;

export class A2EHandshake implements Dialect {
  readonly #host: A2EHandshakeDeps;
  readonly #codec: A2ECodec;

  constructor(host: A2EHandshakeDeps, codec = new A2ECodec()) {
    this.#host = host;
    this.#codec = codec;
  }

  /** Returns true for any message: A2E also gets messages of no other dialect. */
  speaks(): boolean {
    return true;
  }

  onMessage(message: Message, gate: PendingLink): void {
    switch (message.type) {
      case 'handshake/req':
        return this.#shake(message, gate);
      case 'ping':
        return this.#ping(message, gate);
      case 'shutdown':
        return gate.refuse('shutdown before the handshake');
    }
    const { auth } = this.#host;
    const { type } = message;
    if (typeof type !== 'string' || type === '') {
      this.#refuseMessage(gate, message, fail('invalid_message', '"type" must be a non-empty string'));
    } else if (auth.hasTokens) {
      this.#refuseMessage(gate, message, fail('handshake_required', 'send handshake/req first'));
    } else {
      this.#refuseMessage(
        gate,
        message,
        fail('capability_missing', `${shown(type)} was not granted; send handshake/req first`),
      );
    }
  }

  malformed(error: HandfastError, gate: PendingLink): void {
    this.#refuseMessage(gate, {}, error);
    // Close the link: an unauthenticated peer must not make this host scan oversized lines.
    if (error.code === 'too_large') gate.refuse(error.code);
  }

  /** Replies to a message that is no handshake. If a token is required no second try is allowed. */
  #refuseMessage(gate: PendingLink, message: Message, error: HandfastError): void {
    this.#strike(gate, 'error', message, errorBody(error));
    if (this.#host.auth.hasTokens) gate.refuse(error.code);
  }

  #strike(gate: PendingLink, type: string, message: Message, body: object): void {
    gate.link.send(this.#codec.reply(gate.link.text, type, { id: idOf(message), idText: '' }, body, 0));
    if (++gate.strikes >= MAX_STRIKES) gate.refuse('too many messages before the handshake');
  }

  #ping(message: Message, gate: PendingLink): void {
    const objection = this.#codec.objection({ id: idOf(message), message });
    if (objection !== undefined) return this.#refuseMessage(gate, message, objection);
    if (!checkPing(message)) return this.#refuseMessage(gate, message, violation('ping', checkPing.errors));
    this.#strike(gate, 'pong', message, { uptime_seconds: Math.round(this.#host.uptimeMs()) / 1000 });
  }

  #shake(message: Message, gate: PendingLink): void {
    if (idOf(message) === '') {
      const error = fail('invalid_message', 'a request needs an id: a non-empty string');
      return this.#refuseMessage(gate, message, error);
    }
    if (!checkHandshakeReq(message)) {
      return this.#refuseMessage(gate, message, violation('handshake/req', checkHandshakeReq.errors));
    }
    const request = message as HandshakeReq;
    const host = this.#host;
    if (!versionFits(request.a2e) || !versionFits(request.version))
      return this.#reject(gate, request, 'version_mismatch');
    const principal = host.authenticate(gate.link, request.auth_token ?? '');
    if (principal === undefined) return this.#authFailed(gate, request);
    const extensions = { ...(isObject(request.extensions) && request.extensions) };
    // The principal has the name of another one, whose sessions and journals are not its own.
    if (principal.subagent !== undefined) for (const name of OF_OWN_SESSIONS) delete extensions[name];
    const resume = extensions[EXTENSION_RESUME];
    if (isObject(resume) && typeof resume.session_id === 'string' && host.extensions.has(EXTENSION_RESUME)) {
      const session = host.find(resume.session_id);
      // A session of another principal and an unknown session get the same reply.
      if (session?.principal.name === principal.name && session.resumable && session.state !== 'draining') {
        return this.#resume(gate, request, session, resume);
      }
    }
    this.#open(gate, request, principal, extensions);
  }

  #open(gate: PendingLink, request: HandshakeReq, principal: Principal, asked: Message): void {
    const host = this.#host;
    const policy = { available: host.offers(principal), mayUse: (name: string) => may(principal, 'use', name) };
    const { accepted, granted, refused } = negotiate(request.agent_caps ?? [], policy);
    if (refused !== undefined) return this.#reject(gate, request, refused, { principal, accepted });
    const extensions = new Set([...host.extensions].filter((name) => Object.hasOwn(asked, name)));
    const additional = extensions.has(EXTENSION_CAPABILITIES)
      ? negotiateAdditional(asked[EXTENSION_CAPABILITIES], policy)
      : [];
    const all = new Set<string>([...granted, ...additional.filter(isEnabled).map(({ capability }) => capability)]);
    let session: Session;
    try {
      const traffic = host.traffic.of(principal, gate.link);
      traffic?.mustHaveRoom();
      session = host.open(request, principal, all, extensions);
      session.connection.traffic = traffic;
    } catch (thrown) {
      return this.#failed(gate, request, principal, thrown);
    }
    const agreed = agreedOn(extensions);
    if (extensions.has(EXTENSION_RESUME)) agreed[EXTENSION_RESUME] = { window_ms: host.resumeWindowMs };
    this.#agreeOnCapabilities(agreed, principal, additional);
    this.#answer(gate, request, {
      session_id: session.id,
      accepted_caps: accepted,
      max_parallel: host.maxParallel(principal),
      ok: true,
      reason: '',
      ...(extensions.size > 0 && { extensions: agreed }),
    });
    host.onHandshakeDone(gate, principal, session, '');
    gate.accept(session.connection, pingOf(session));
    const preparing = host.prepare(all);
    if (preparing !== undefined) session.connection.readAfter(preparing);
  }

  #resume(gate: PendingLink, request: HandshakeReq, session: Session, resume: Message): void {
    const host = this.#host;
    const { cursor } = resume;
    const { connection } = session;
    if (typeof cursor !== 'number' || !Number.isInteger(cursor) || cursor < 0 || cursor > connection.cursor) {
      const { cursor: last } = connection;
      const why = `the resume cursor was never issued by this session, which is at ${last}; open a new session`;
      return this.#refuseMessage(gate, request as Message, fail('invalid_message', why, { last }));
    }
    try {
      // A link that replaces that of its session is no further one.
      if (connection.link === undefined) host.traffic.of(session.principal, gate.link)?.mustHaveRoom();
    } catch (thrown) {
      return this.#failed(gate, request, session.principal, thrown);
    }
    gate.bufferMessages();
    const steps = {
      alive: () => gate.waiting,
      greet: (gap: { from: number; to: number } | undefined) => {
        const { granted, extensions } = session.terms;
        const agreed = agreedOn(extensions);
        agreed[EXTENSION_RESUME] = {
          window_ms: host.resumeWindowMs,
          resumed: true,
          cursor: connection.cursor,
          received: connection.received,
          ...(session.restarts > 0 && { restarts: session.restarts }),
          // Only needed where replies may be lost.
          ...(gap !== undefined && { gap: { from: gap.from, to: gap.to } }),
          ...((gap !== undefined || session.restarts > 0) && { running: connection.requests.ids() }),
        };
        const offers = host.offers(session.principal);
        const grants = [...granted].map((name) => ({
          capability: name,
          enabled: true,
          metadata: { ...offers.get(name) },
        }));
        const additional = grants.filter(({ capability }) => isAdditionalCapability(capability));
        this.#agreeOnCapabilities(agreed, session.principal, additional);
        this.#answer(gate, request, {
          session_id: session.id,
          accepted_caps: grants.filter(({ capability }) => !isAdditionalCapability(capability)),
          max_parallel: host.maxParallel(session.principal),
          ok: true,
          reason: '',
          extensions: agreed,
        });
        host.onHandshakeDone(gate, session.principal, session, 'resumed');
      },
      take: () => gate.accept(connection, pingOf(session)),
    };
    const attach = (): Promise<void> =>
      session.resume(gate.link, cursor, steps).catch((error) => {
        host.log.error('a resume failed', { error });
        gate.refuse('server_error');
      });
    void (host.prepare(session.terms.granted)?.then(attach) ?? attach());
  }

  #agreeOnCapabilities(agreed: Message, principal: Principal, additional: readonly CapabilityGrant[]): void {
    if (agreed[EXTENSION_CAPABILITIES] === undefined) return;
    const accepted = additional.length > 0 && { accepted: additional };
    agreed[EXTENSION_CAPABILITIES] = { ...accepted, max_waiting: this.#host.maxWaiting(principal) };
  }

  /** Handles a failure: the host could not open or resume a session, or the principal has used up a share. */
  #failed(gate: PendingLink, request: HandshakeReq, principal: Principal, thrown: unknown): void {
    const error = asError(thrown);
    const { log } = this.#host;
    if (error.code !== 'over_capacity') {
      log.error('a handshake failed', { error: thrown });
      return this.#reject(gate, request, 'server_error', { principal });
    }
    log.warn('a handshake was refused', { principal: principal.name, reason: error.message });
    this.#reject(gate, request, 'server_error', { principal, error });
  }

  #authFailed(gate: PendingLink, request: HandshakeReq): void {
    const { authThrottle, log } = this.#host;
    authThrottle.refuseLink(gate, log, 'a peer sent a wrong credential', (report) =>
      this.#reject(gate, request, 'auth_failed', { report }),
    );
  }

  #reject(
    gate: PendingLink,
    request: HandshakeReq,
    reason: HandshakeReason,
    facts: { principal?: Principal; accepted?: readonly object[]; report?: boolean; error?: HandfastError } = {},
  ): void {
    const { principal, accepted = [], report = true, error } = facts;
    if (!gate.waiting) return;
    this.#answer(gate, request, {
      session_id: '',
      accepted_caps: accepted,
      max_parallel: 0,
      ok: false,
      reason,
      ...(error !== undefined && { error: errorBody(error) }),
    });
    if (report) this.#host.onHandshakeDone(gate, principal, undefined, reason);
    gate.refuse(reason);
  }

  #answer(gate: PendingLink, request: HandshakeReq, body: object): void {
    const { link } = gate;
    link.send(this.#codec.reply(link.text, 'handshake/resp', { id: request.id, idText: '' }, body, 0));
  }
}

const isEnabled = ({ enabled }: { readonly enabled?: boolean }): boolean => enabled === true;

/** Returns the `extensions` member of a reply: each agreed name, without further facts yet. */
const agreedOn = (extensions: ReadonlySet<string>): Message =>
  Object.fromEntries([...extensions].map((name) => [name, {}]));

/** Extensions that reach other sessions of a principal. */
const OF_OWN_SESSIONS = [EXTENSION_RESUME, EXTENSION_JOURNAL] as const;

/** Every extension this host knows. */
const hostExtensions: ReadonlySet<string> = new Set([
  EXTENSION_CANCEL,
  EXTENSION_CAPABILITIES,
  EXTENSION_RESUME,
  EXTENSION_JOURNAL,
]);

/**
 * Returns the extensions that a host offers: no journal or resume without a journal, and no resume without a resume
 * window.
 */
export function extensionsOf(
  journal: Journal | undefined,
  { resumeWindowMs }: Pick<HostLimits, 'resumeWindowMs'>,
): ReadonlySet<string> {
  const without = (...names: string[]) => new Set([...hostExtensions].filter((name) => !names.includes(name)));
  if (journal === undefined) return without(EXTENSION_JOURNAL, EXTENSION_RESUME);
  return resumeWindowMs > 0 ? hostExtensions : without(EXTENSION_RESUME);
}

/** Returns the host's ping, if the agent agreed to resume and so replies to it. Plain A2E has only pings of agents. */
function pingOf({ connection, terms }: Session): Ping | undefined {
  return terms.extensions.has(EXTENSION_RESUME) ? () => connection.probe() : undefined;
}

const idOf = ({ id }: Message): string => (typeof id === 'string' ? id : '');
