/**
 * One connection of a client: reads its lines, runs its requests side by side, writes each answer once, and settles
 * everything when the link ends. What it knows of its client is the `Caller` its handlers see.
 *
 * Made by `rpc-server.ts` for a link that may call. @see docs/protocol/session-rpc.md#requests
 */

import type { Log } from '../../base/log.ts';
import { HIGH_WATER_BYTES, SlowConsumerGuard } from '../../connection/slow-consumer.ts';
import { readParams } from '../../protocol/rpc-params.ts';
import { handshake, ping } from '../../protocol/session-rpc.ts';
import type { Principal } from '../../session/principal.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../../transport/link.ts';
import { malformedInput } from '../../wire/codec.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import {
  methodNotFound,
  NO_REQUEST,
  parseError,
  type RpcId,
  type RpcIncoming,
  type RpcRequest,
  readRpc,
  writeError,
  writeResult,
} from '../../wire/jsonrpc.ts';
import type { PublishedEvent } from '../contract/events.ts';
import type { Caller } from '../contract/handlers.ts';
import type { EventFanOut } from './event-fan-out.ts';
import type { Router, Served } from './router.ts';
import type { RpcLimits } from './rpc-limits.ts';
import { RunningCall } from './running-call.ts';
import { ConnectionEvents } from './subscriptions.ts';

/** What a client is told to wait before it tries again. */
const RETRY_AFTER_MS = 100;

/** What a connection needs of its server. */
export interface RpcOwner {
  readonly limits: RpcLimits;
  readonly router: Router;
  readonly fanOut: EventFanOut;
  readonly log: Log;
  readonly now: () => number;
  /** The input of the peer has ended. */
  ended(connection: RpcConnection): void;
  /** The link is gone, and everything of the connection settled. */
  closed(connection: RpcConnection, cause: CloseInfo): void;
}

export interface ConnectionFacts {
  readonly id: string;
  readonly principal: Principal;
  /** False: only the handshake and pings are answered before a handshake. */
  readonly handshakeDone: boolean;
}

export class RpcConnection implements LinkReceiver {
  readonly id: string;
  readonly link: Link;
  readonly principal: Principal;
  readonly limits: RpcLimits;
  readonly log: Log;
  readonly now: () => number;
  /** Epoch milliseconds. */
  readonly connectedAt: number;
  readonly events: ConnectionEvents;
  caller: Caller;
  readonly #owner: RpcOwner;
  readonly #router: Router;
  readonly #text: boolean;
  #greeted: boolean;
  /** Requests whose handler has not settled. */
  readonly #open = new Set<RunningCall>();
  /** Those of them that have no answer. */
  #unanswered = 0;
  #idle: PromiseWithResolvers<void> | undefined;
  /** Nothing that comes is looked at any more. */
  #ignoringInput = false;
  #over = false;
  /** Watches a peer that has been behind. */
  #slow: SlowConsumerGuard | undefined;
  /** Unsent bytes from which it is watched. */
  readonly #watchedBytes: number;
  /** Characters of events sent since the link is above its bound. */
  #piled = 0;

  constructor(owner: RpcOwner, link: Link, { id, principal, handshakeDone: greeted }: ConnectionFacts) {
    this.#owner = owner;
    this.#router = owner.router;
    this.#text = link.text;
    this.#greeted = greeted;
    this.id = id;
    this.link = link;
    this.principal = principal;
    this.limits = owner.limits;
    this.#watchedBytes = Math.min(HIGH_WATER_BYTES, owner.limits.sendBufferBytes);
    this.log = owner.log;
    this.now = owner.now;
    this.connectedAt = owner.now();
    this.events = new ConnectionEvents(this, owner.fanOut);
    this.caller = { connectionId: id, principal, clientName: null, clientVersion: null, transport: link.transport };
  }

  /** Takes the link over; what arrives comes here from now on, and events may go out. */
  attach(link: Link): void {
    link.setMaxMessageBytes(this.limits.maxMessageBytes);
    if (this.#greeted) this.events.open();
    link.open(this);
  }

  /** The handshake was good: everything may be called. A later one that gives no name changes none. */
  introduced(clientName: string | null, clientVersion: string | null): void {
    const { caller } = this;
    this.caller = {
      ...caller,
      clientName: clientName ?? caller.clientName,
      clientVersion: clientVersion ?? caller.clientVersion,
    };
    this.#greeted = true;
  }

  // Receiver.

  message(raw: string | Message): void {
    // Only a stream of bytes that knows nothing of this dialect leaves a carriage return in a line.
    if (typeof raw !== 'string' || !raw.includes('\r')) return this.#read(raw);
    for (const line of raw.split('\r')) this.#read(line);
  }

  malformed(problem: Malformed): void {
    if (this.#ignoringInput) return;
    const error = malformedInput(problem);
    this.#refuse(error.code === 'parse_error' ? parseError(error.message) : error);
  }

  ended(): void {
    this.#owner.ended(this);
  }

  closed(cause: CloseInfo): void {
    this.#over = true;
    this.#ignoringInput = true;
    this.#slow?.stop();
    this.events.close();
    const reason = fail('connection_lost', 'the connection ended');
    for (const call of this.#open) {
      clearTimeout(call.timer);
      call.stop(reason);
    }
    this.#open.clear();
    this.#idle?.resolve();
    this.#owner.closed(this, cause);
  }

  // What the server does with it.

  /** Reads no further message; what runs goes on. */
  ignoreInput(): void {
    this.#ignoringInput = true;
  }

  /**
   * Resolves when every request that was read has its answer. After `graceMs` those that run are told to stop, and some
   * time later they are answered for their handlers. Never rejects.
   */
  async settle(graceMs: number, reason: () => HandfastError): Promise<void> {
    if (this.#unanswered === 0 || this.#over) return;
    this.#idle ??= Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      for (const call of this.#open) this.#stop(call, reason());
    }, graceMs);
    await this.#idle.promise;
    clearTimeout(timer);
  }

  /** Answers a message that was read before this connection had the link. */
  accept(incoming: RpcIncoming): void {
    if (this.#ignoringInput) return;
    if (incoming.kind === 'request') this.#request(incoming);
    else if (incoming.kind === 'invalid') this.#refuse(incoming.error);
    else if (incoming.method === '$/cancel_request') this.#cancel(incoming.params);
  }

  /** Sends one event. */
  event(event: PublishedEvent): void {
    const { link, limits } = this;
    if (link.buffered <= limits.sendBufferBytes) this.#piled = 0;
    else {
      // Events come whether they are read or not; nothing else can stop their pile from growing.
      this.#piled += event.line.length;
      if (this.#piled > limits.maxSendBufferBytes) return link.destroy('slow_consumer');
    }
    this.put(this.#text ? event.line : { jsonrpc: '2.0', method: 'event', params: event.params });
  }

  /** Queues a message, and watches over a peer that does not read. */
  put(out: string | Message): void {
    const { link } = this;
    link.send(out);
    const waiting = link.buffered;
    if (waiting <= this.#watchedBytes) return;
    this.#slow ??= new SlowConsumerGuard(link, this.limits);
    this.#slow.onBuffered(waiting);
  }

  // Requests.

  #read(raw: string | Message): void {
    if (this.#ignoringInput) return;
    const incoming = readRpc(raw, this.limits.maxDepth);
    if (incoming !== undefined) this.accept(incoming);
  }

  #refuse(error: HandfastError): void {
    this.put(writeError(this.#text, NO_REQUEST, error));
  }

  #request(request: RpcRequest): void {
    const served = this.#router.find(request.method);
    const refusal = this.#refusalOf(request.method, served);
    if (refusal !== undefined || served === undefined) {
      this.put(writeError(this.#text, request, refusal ?? methodNotFound(request.method)));
      return;
    }
    const call = new RunningCall(this, request);
    let outcome: unknown;
    try {
      const params = readParams(served.method, request.params);
      if (typeof params.session_id === 'string') call.session = params.session_id;
      outcome = served.handle(params, call);
    } catch (thrown) {
      return this.#failed(call, thrown);
    }
    if (typeof (outcome as Promise<unknown> | null | undefined)?.then === 'function') {
      this.#wait(call, outcome as Promise<unknown>);
    } else this.#answer(call, outcome);
  }

  /** Why a request is not run at all; undefined = it is, or nobody serves it. */
  #refusalOf(method: string, served: Served | undefined): HandfastError | undefined {
    if (!this.#greeted && method !== handshake.name && method !== ping.name) {
      return fail('handshake_required', 'send rpc.handshake first');
    }
    if (served === undefined) return undefined;
    const { maxInFlight, maxSendBufferBytes } = this.limits;
    const open = this.#open.size;
    if (open >= maxInFlight && (!served.exemptFromLimit || open >= 2 * maxInFlight)) {
      return fail('over_capacity', 'too many requests of this connection are running', {
        max_in_flight: maxInFlight,
        retry_after_ms: RETRY_AFTER_MS,
      });
    }
    if (this.#slow !== undefined && !served.exemptFromLimit && this.link.buffered > maxSendBufferBytes) {
      return fail('over_capacity', 'the answers so far have not been read', { retry_after_ms: RETRY_AFTER_MS });
    }
    return undefined;
  }

  #wait(call: RunningCall, outcome: Promise<unknown>): void {
    this.#open.add(call);
    this.#unanswered++;
    outcome.then(
      (result) => {
        if (this.#settled(call)) this.#answer(call, result);
      },
      (thrown) => {
        if (this.#settled(call)) this.#failed(call, thrown);
      },
    );
  }

  /** Its handler is done. True: its answer is still wanted. */
  #settled(call: RunningCall): boolean {
    clearTimeout(call.timer);
    this.#open.delete(call);
    if (call.answered || this.#over) return false;
    this.#counted();
    return true;
  }

  #counted(): void {
    if (--this.#unanswered > 0 || this.#idle === undefined) return;
    // Whoever waits finds the answer in the link.
    queueMicrotask(this.#idle.resolve);
    this.#idle = undefined;
  }

  #answer(call: RunningCall, result: unknown): void {
    let out: string | Message;
    try {
      out = writeResult(this.#text, call.request, result);
    } catch (thrown) {
      return this.#failed(call, thrown);
    }
    this.#finish(call, out);
  }

  #failed(call: RunningCall, thrown: unknown): void {
    // A handler that was told to stop failed because of that, whatever it says.
    const error = call.stopped ?? this.#errorOf(call, thrown);
    this.#finish(call, writeError(this.#text, call.request, error));
  }

  #finish(call: RunningCall, out: string | Message): void {
    call.answered = true;
    this.put(out);
    for (const work of call.takeAfterwards()) {
      try {
        work();
      } catch (error) {
        this.log.error('work after an answer failed', { method: call.request.method, error });
      }
    }
  }

  /** What a handler threw, as its caller is told. */
  #errorOf(call: RunningCall, thrown: unknown): HandfastError {
    if (thrown instanceof HandfastError) {
      if (call.session === undefined || thrown.detail.session_id !== undefined) return thrown;
      const { code, message, detail, retryable, cause } = thrown;
      return new HandfastError(code, message, { detail: { ...detail, session_id: call.session }, retryable, cause });
    }
    // A bug: the client learns where to look, the log has the rest.
    const correlation_id = crypto.randomUUID();
    const { method } = call.request;
    this.log.error('a request failed', { correlation_id, method, connection: this.id, error: thrown });
    return fail('runtime_error', 'the request failed', { correlation_id }, thrown);
  }

  // Giving up.

  #cancel(params: unknown): void {
    const id = (params as { id?: RpcId } | null | undefined)?.id;
    for (const call of this.#open) {
      if (call.id === id) this.#stop(call, fail('cancelled', 'the request was cancelled by its caller'));
    }
  }

  /**
   * Tells a handler to stop. Its answer waits for it, so that the last events of the work precede it; one that does not
   * listen keeps its place among the open requests, or its client could have any number of them.
   */
  #stop(call: RunningCall, reason: HandfastError): void {
    if (call.answered || call.stopped !== undefined) return;
    call.stop(reason);
    call.timer = setTimeout(() => {
      this.#counted();
      this.#finish(call, writeError(this.#text, call.request, reason));
    }, this.limits.settleMs);
  }
}
