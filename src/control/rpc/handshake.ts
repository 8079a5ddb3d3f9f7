/**
 * The handshake of session RPC: flexible or strict, as 1.0.0 has it, and the identity of the client. On a link that does not
 * identify its client by itself, no other request is answered before it.
 *
 * `RpcHandshake` stands behind the gate of every listener that serves session RPC; on links that need no handshake it only
 * makes the connection. @see docs/protocol/session-rpc.md#handshake
 */

import type { Log } from '../../base/log.ts';
import type { Dialect, PendingLink } from '../../connection/accept.ts';
import { type ParamsOf, readParams } from '../../protocol/rpc-reader.ts';
import { type HandshakeResult, handshake, ping, SESSION_RPC_VERSION } from '../../protocol/session-rpc.ts';
import type { Authenticator } from '../../session/auth.ts';
import type { AuthThrottle } from '../../session/auth-throttle.ts';
import type { Principal } from '../../session/principal.ts';
import type { Link } from '../../transport/link.ts';
import type { Address, Incoming, Message } from '../../wire/codec.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import { JsonRpcCodec, NO_REQUEST, parseError, speaksJsonRpc } from '../../wire/jsonrpc.ts';
import type { ConnectedClient, Introduction } from './connected-client.ts';
import { MAX_PATTERN_CHARS, MAX_PATTERNS } from './event-filter.ts';

/** Maximum length of a stored client name, in characters. */
const MAX_NAME_CHARS = 128;
/** Answers a peer gets without a handshake before its link is closed. */
const MAX_STRIKES = 16;

/** The handshake of a client: its name, version and event options. */
export interface ClientHello extends Introduction {
  /** As it came; only an authenticator looks at it. */
  readonly token: unknown;
  /** All events (true) or none (false) before the first subscription; undefined = as it was. */
  readonly allEvents: boolean | undefined;
  /** Types that never come; undefined = as it was. */
  readonly optedOut: readonly string[] | undefined;
}

/**
 * Reads a handshake. Fails with `version_mismatch` when it is strict and names another version; a flexible client decides for
 * itself. Members that 1.0.0 does not check are not checked: an invalid name counts as none.
 */
export function greetingOf(params: ParamsOf<typeof handshake>): ClientHello {
  const { protocol_version: version, strict, opt_out_events: optOut } = params;
  if (strict === true && version !== undefined && version !== SESSION_RPC_VERSION) {
    throw fail('version_mismatch', `unsupported protocol_version: ${version}`, { supported: SESSION_RPC_VERSION });
  }
  return {
    clientName: named(params.client_name),
    clientVersion: named(params.client_version),
    token: params.token,
    allEvents: typeof params.events === 'boolean' ? params.events : undefined,
    optedOut: Array.isArray(optOut)
      ? optOut
          .filter((type): type is string => typeof type === 'string' && type.length <= MAX_PATTERN_CHARS)
          .slice(0, MAX_PATTERNS)
      : undefined,
    answersPings: params.answers_pings === true,
  };
}

function named(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  return value.trim().slice(0, MAX_NAME_CHARS) || null;
}

/** The part of its server that the handshake needs. */
export interface RpcHandshakeDeps {
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly log: Log;
  readonly maxDepth: number;
  /** Makes the connection of a link. Fails with `over_capacity`, and `interrupted` while the server is stopping. */
  admit(link: Link, principal: Principal): ConnectedClient;
  /** Applies the handshake of a client and replies to it. */
  welcome(connection: ConnectedClient, greeting: ClientHello): HandshakeResult;
  pong(): object;
}

export class RpcHandshake implements Dialect {
  readonly #server: RpcHandshakeDeps;
  readonly #codec = new JsonRpcCodec({ calls: false });

  constructor(server: RpcHandshakeDeps) {
    this.#server = server;
  }

  speaks = speaksJsonRpc;

  onMessage(_message: object, gate: PendingLink, raw: string | Message): void {
    const incoming = this.#codec.read(raw, this.#server.maxDepth) as Incoming;
    if (!this.#server.auth.hasTokens) return this.#letIn(incoming, gate, raw);
    if (incoming.error !== undefined) return this.#refuse(gate, NO_REQUEST, incoming.error);
    if (incoming.kind !== 'request') return this.#strike(gate);
    if (incoming.type === handshake.name) return this.#shake(incoming, gate);
    if (incoming.type !== ping.name)
      return this.#refuse(gate, incoming, fail('handshake_required', 'send rpc.handshake first'));
    gate.link.send(this.#codec.reply(gate.link.text, '', incoming, this.#server.pong()));
    this.#strike(gate);
  }

  malformed(error: HandfastError, gate: PendingLink, raw?: string): void {
    // The gate only knows that it is no JSON object; this protocol says more.
    const incoming = raw === undefined ? undefined : this.#codec.read(raw, this.#server.maxDepth);
    if (raw !== undefined && incoming === undefined) return this.#strike(gate);
    const known = error.code === 'parse_error' ? parseError(error.message) : error;
    this.#refuse(gate, NO_REQUEST, incoming?.error ?? known);
  }

  /** Admits a client without a token: every client of this listener may call, with or without a handshake. */
  #letIn(incoming: Incoming, gate: PendingLink, raw: string | Message): void {
    const { auth } = this.#server;
    let connection: ConnectedClient;
    try {
      connection = this.#server.admit(gate.link, auth.authenticate('') as Principal);
    } catch (thrown) {
      const request = incoming.kind === 'request' ? incoming : NO_REQUEST;
      return this.#refuse(gate, request, asError(thrown));
    }
    gate.accept(connection, () => connection.ping());
    connection.message(raw);
  }

  #shake(request: Incoming, gate: PendingLink): void {
    const { auth } = this.#server;
    let greeting: ClientHello;
    try {
      greeting = greetingOf(readParams(handshake, request.body));
    } catch (thrown) {
      // A client that speaks another version, or badly, may try again until its time is over.
      gate.link.send(this.#codec.failure(gate.link.text, request, asError(thrown)));
      return this.#strike(gate);
    }
    const principal = auth.authenticate(greeting.token);
    if (principal === undefined) return this.#authFailed(gate, request);
    let connection: ConnectedClient;
    try {
      connection = this.#server.admit(gate.link, principal);
    } catch (thrown) {
      return this.#refuse(gate, request, asError(thrown));
    }
    // The answer before the first event.
    gate.link.send(this.#codec.reply(gate.link.text, '', request, this.#server.welcome(connection, greeting)));
    gate.accept(connection, () => connection.ping());
  }

  #authFailed(gate: PendingLink, request: Incoming): void {
    const { authThrottle, log } = this.#server;
    authThrottle.refuseLink(gate, log, 'a client sent a wrong credential', () => {
      if (gate.waiting) this.#refuse(gate, request, fail('auth_failed', 'the token is missing or wrong'));
    });
  }

  /** Answers and closes: where a token is required, a client has no second try. */
  #refuse(gate: PendingLink, request: Address, error: HandfastError): void {
    gate.link.send(this.#codec.failure(gate.link.text, request, error));
    gate.refuse(error.code);
  }

  #strike(gate: PendingLink): void {
    if (++gate.strikes >= MAX_STRIKES) gate.refuse('too many messages before the handshake');
  }
}
