/**
 * One connected client: its identity, the events it gets, and the serving of its requests. Its `Connection` has the rules that
 * are equal on every edge (requests side by side, one reply each, slow consumers, settling).
 *
 * @see docs/protocol/session-rpc.md#requests
 */

import type { Log } from '../../base/log.ts';
import { Connection, type ConnectionLimits, type ConnectionOwner } from '../../connection/connection.ts';
import type { Route, RunningRequest } from '../../connection/running-request.ts';
import { handshake, ping } from '../../protocol/session-rpc.ts';
import type { Principal } from '../../session/principal.ts';
import { may, refusal } from '../../session/rights.ts';
import type { CloseInfo, Link, Message } from '../../transport/link.ts';
import type { Incoming } from '../../wire/codec.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import { JsonRpcCodec, type LongMessages, NO_REQUEST } from '../../wire/jsonrpc.ts';
import type { PublishedEvent } from '../contract/events.ts';
import type { Caller } from '../contract/handlers.ts';
import { MAX_REPLY_BYTES } from '../contract/reply-size.ts';
import type { EventFanOut } from './event-fan-out.ts';
import type { Router } from './router.ts';
import type { RpcLimits } from './rpc-limits.ts';
import { RpcRequest } from './rpc-request.ts';
import { ConnectionEvents, type EventReceiver } from './subscriptions.ts';

/** The part of its server that a client needs. */
export interface ClientOwner {
  readonly limits: RpcLimits;
  readonly router: Router;
  readonly fanOut: EventFanOut;
  readonly log: Log;
  readonly now: () => number;
  /** Requests that may be long, from clients who may drive sessions. */
  readonly long: LongMessages;
  /** The input of the peer has ended. */
  ended(client: ConnectedClient): void;
  /** The link is lost, and everything of the connection settled. */
  closed(client: ConnectedClient, cause: CloseInfo): void;
}

export interface ClientFacts {
  readonly id: string;
  readonly principal: Principal;
  /** False: only the handshake and pings are served before a handshake. */
  readonly handshakeDone: boolean;
}

/** The client's name and version from its handshake. */
export interface Introduction {
  readonly clientName: string | null;
  readonly clientVersion: string | null;
  /** True when it answers a ping of the server. */
  readonly answersPings: boolean;
}

/**
 * Returns the limits of a connection, as this edge names them. A reply that is too long becomes an error, and the link stays
 * open.
 */
export function connectionLimits(limits: RpcLimits): ConnectionLimits {
  return {
    ...limits,
    maxParallel: limits.maxInFlight,
    queueLimit: 0,
    maxMessageBytes: MAX_REPLY_BYTES,
  };
}

export class ConnectedClient implements ConnectionOwner, EventReceiver {
  readonly id: string;
  readonly link: Link;
  readonly limits: RpcLimits;
  readonly log: Log;
  readonly now: () => number;
  /** Epoch milliseconds. */
  readonly connectedAt: number;
  readonly events: ConnectionEvents;
  readonly connection: Connection;
  caller: Caller;
  readonly #owner: ClientOwner;
  #handshakeDone: boolean;
  #answersPings = false;

  constructor(owner: ClientOwner, link: Link, { id, principal, handshakeDone }: ClientFacts, limits: ConnectionLimits) {
    this.#owner = owner;
    this.#handshakeDone = handshakeDone;
    this.id = id;
    this.link = link;
    this.limits = owner.limits;
    this.log = owner.log;
    this.now = owner.now;
    this.connectedAt = owner.now();
    this.connection = new Connection(this, new JsonRpcCodec({ calls: false, long: owner.long }), limits);
    this.events = new ConnectionEvents(this, owner.fanOut);
    this.caller = { connectionId: id, principal, clientName: null, clientVersion: null, transport: link.transport };
  }

  get principal(): Principal {
    return this.caller.principal;
  }

  /** Notes that the principal has other rights from now on; requests and subscriptions that it may no longer make end. */
  rightsChanged(principal: Principal): void {
    this.caller = { ...this.caller, principal };
    this.link.setMaxMessageBytes(this.#maxMessageBytes);
    this.connection.requests.stopWhere((request) => {
      const { needs = 'none' } = request as RpcRequest;
      return needs === 'none' || may(principal, needs) ? undefined : refusal(principal, needs);
    });
    this.events.rightsChanged();
  }

  /** Attaches the link; from now on this client receives its messages, and events may go out. */
  attach(link: Link): void {
    link.setMaxMessageBytes(this.#maxMessageBytes);
    if (this.#handshakeDone) this.events.open();
    this.connection.attach(link);
  }

  /** Bytes that a line of this client may have. */
  get #maxMessageBytes(): number {
    const { maxMessageBytes, maxPlainMessageBytes } = this.limits;
    return may(this.principal, 'drive') ? maxMessageBytes : Math.min(maxMessageBytes, maxPlainMessageBytes);
  }

  /** Receives a message that was read before the link was attached. */
  message(raw: string | Message): void {
    this.connection.message(raw);
  }

  /** Applies a valid handshake: all methods may be called. A later one without a name changes none. */
  introduced({ clientName, clientVersion, answersPings }: Introduction): void {
    const { caller } = this;
    this.#answersPings = answersPings;
    this.caller = {
      ...caller,
      clientName: clientName ?? caller.clientName,
      clientVersion: clientVersion ?? caller.clientVersion,
    };
    this.#handshakeDone = true;
  }

  /** Asks a client that answers pings for a ping in return. False: its silence means nothing. */
  ping(): boolean {
    if (this.#answersPings) this.notify(ping.name, {});
    return this.#answersPings;
  }

  /**
   * Resolves when every request that was read has its reply. After `graceMs` those that run are aborted, and some
   * time later they get an error reply. Never rejects.
   */
  async settle(graceMs: number, reason: () => HandfastError): Promise<void> {
    const { requests } = this.connection;
    const timer = setTimeout(() => requests.interrupt(reason()), graceMs);
    await requests.idle();
    clearTimeout(timer);
  }

  // EventReceiver.

  event(event: PublishedEvent): void {
    const { connection } = this;
    connection.forward(connection.text ? event.line : connection.codec.notice(false, 'event', event.params, 0));
  }

  notify(method: string, params: object): void {
    this.connection.notify(method, params);
  }

  // ConnectionOwner.

  route({ type }: Incoming): Route | HandfastError | undefined {
    if (!this.#handshakeDone && type !== handshake.name && type !== ping.name) {
      return fail('handshake_required', 'send rpc.handshake first');
    }
    return this.#owner.router.find(type);
  }

  request(incoming: Incoming, route: Route): RunningRequest {
    return new RpcRequest(this.connection, incoming, route, this);
  }

  malformed(error: HandfastError): void {
    this.connection.refuse(NO_REQUEST, error);
  }

  /** Returns the value that a handler threw as the error for its caller. */
  failed(request: RunningRequest, thrown: unknown): HandfastError {
    if (thrown instanceof HandfastError) {
      const { session } = request as RpcRequest;
      if (session === undefined || thrown.detail.session_id !== undefined) return thrown;
      const { code, message, detail, retryable, cause } = thrown;
      return new HandfastError(code, message, { detail: { ...detail, session_id: session }, retryable, cause });
    }
    // A bug: the client learns where to look, the log has the rest.
    const correlation_id = crypto.randomUUID();
    const method = request.incoming.type;
    this.log.error('a request failed', { correlation_id, method, connection: this.id, error: thrown });
    return fail('runtime_error', 'the request failed', { correlation_id }, thrown);
  }

  unwritable(request: RunningRequest, thrown: unknown): HandfastError {
    return request.reason ?? this.failed(request, thrown);
  }

  ended(): void {
    this.#owner.ended(this);
  }

  linkLost(cause: CloseInfo): void {
    this.connection.ignoreInput();
    this.events.close();
    this.connection.settle(() => fail('connection_lost', 'the connection ended'));
    this.#owner.closed(this, cause);
  }
}
