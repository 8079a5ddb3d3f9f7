/**
 * The gate in front of every accepted link: it reads the first message, picks the dialect by it, and lets nothing else
 * through until the handshake of that dialect completes. One deadline for all of it, and a bound on how many links may wait
 * here at once.
 *
 * Called by listeners through `host/host.ts`, `control/rpc/rpc-server.ts` and `fleet/bus/stream/stream-bus.ts`.
 * @see docs/architecture.md#before-the-handshake
 */

import { Deadlines } from '../base/deadlines.ts';
import {
  type CloseInfo,
  type Link,
  type LinkReceiver,
  type Malformed,
  PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
} from '../transport/link.ts';
import { malformedInput } from '../wire/codec.ts';
import { parseNested } from '../wire/depth.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { Liveness, type Ping } from './liveness.ts';

type Message = Record<string, unknown>;

/** Handles the messages of a link until the handshake of this dialect completes. */
export interface Dialect {
  /** True when a first message is of this dialect. */
  speaks(message: Message): boolean;
  /** A message before the link was accepted; `raw` is the same as it arrived. */
  onMessage(message: Message, gate: PendingLink, raw: string | Message): void;
  /** Input that is no message; `raw` is its text, where there is one. The link closes behind the reply when the gate decides so. */
  malformed(error: HandfastError, gate: PendingLink, raw?: string): void;
}

export interface HandshakeLimits {
  /** Absolute time of a handshake, in milliseconds. */
  readonly handshakeTimeoutMs: number;
  /** Links before their handshake at once; one more evicts the one that is silent longest. */
  readonly maxPending: number;
  /** Nesting of a message at most. */
  readonly maxDepth: number;
  /** Longest message once the handshake is accepted, in bytes. */
  readonly maxMessageBytes: number;
  /** How long an accepted link may be silent, milliseconds; see {@link Liveness}. Default 15,000; 0 = no limit. */
  readonly livenessTimeoutMs?: number;
}

/** Counts the links of an address before their handshake; `session/auth-throttle.ts` is one. */
export interface OriginTracker {
  /** False: drop this link unread. */
  enter(origin: string): boolean;
  leave(origin: string): void;
}

/** The address of a peer without its port; undefined for links that only this machine, or this process, can open. */
export function originOf({ transport, peer }: Link): string | undefined {
  if (transport !== 'tcp' && transport !== 'websocket' && transport !== 'http') return undefined;
  return peer
    .replace(/^(?:\w+:\/\/|ws:)/, '')
    .replace(/[/?#].*$/, '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '');
}

/** Messages that may wait behind a handshake while it is being decided. */
const MAX_BUFFERED = 256;

/** One link before its handshake. */
export class PendingLink implements LinkReceiver {
  readonly link: Link;
  readonly deadlineAt: number;
  readonly #acceptor: Acceptor;
  #dialect: Dialect | undefined;
  /** Messages buffered while the handshake is decided; undefined = not deciding. */
  #buffered: (string | Message)[] | undefined;
  #ended = false;
  /** Messages replied to so far without a handshake. */
  strikes = 0;

  /** The peer's address, for counting failures; undefined where guessing is no concern. */
  readonly origin: string | undefined;

  constructor(acceptor: Acceptor, link: Link, deadlineAt: number, origin: string | undefined) {
    this.#acceptor = acceptor;
    this.link = link;
    this.deadlineAt = deadlineAt;
    this.origin = origin;
  }

  /** The handshake is being decided: buffers what arrives meanwhile. */
  bufferMessages(): void {
    this.#buffered = [];
    this.link.pause(true);
  }

  /**
   * Accepts the link: it may send long messages now, and `receiver` gets what was buffered and all that follows.
   *
   * @param ping sends what this peer is known to answer; by it a silent link is noticed where the transport has no ping
   */
  accept(receiver: { attach(link: Link): void; message(message: string | Message): unknown }, ping?: Ping): void {
    if (this.#ended) return;
    this.#leave();
    this.#acceptor.liveness.watch(this.link, ping);
    this.link.setMaxMessageBytes(this.#acceptor.limits.maxMessageBytes);
    receiver.attach(this.link);
    const buffered = this.#buffered;
    if (buffered === undefined) return;
    this.#buffered = undefined;
    // First, because the receiver may pause the link again. What the link holds comes in a later turn, behind these.
    this.link.pause(false);
    for (const message of buffered) receiver.message(message);
  }

  /** True while its handshake has been read and is being decided. */
  get deciding(): boolean {
    return this.#buffered !== undefined;
  }

  /** Drops the link at once, without a message. */
  drop(reason: string): void {
    if (this.#ended) return;
    this.#leave();
    this.link.destroy(reason);
  }

  /** True while the peer is connected and not refused. */
  get waiting(): boolean {
    return !this.#ended;
  }

  /** Refuses the link: what was sent so far still goes out, then it closes. */
  refuse(reason: string): void {
    if (this.#ended) return;
    this.#leave();
    void this.link.close(reason);
  }

  message(raw: string | Message): string | undefined {
    if (this.#ended) return undefined;
    if (this.#buffered !== undefined) {
      if (this.#buffered.push(raw) > MAX_BUFFERED) this.refuse('too much before the handshake was answered');
      return undefined;
    }
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = parseNested(raw, this.#acceptor.limits.maxDepth);
      } catch (thrown) {
        return this.#malformed(
          thrown instanceof SyntaxError ? fail('parse_error', 'the line is not JSON') : (thrown as HandfastError),
          raw,
        );
      }
      if (!isObject(message)) return this.#malformed(fail('invalid_message', 'a message is a JSON object'), raw);
    }
    this.#dialect ??= this.#acceptor.dialect(message as Message);
    this.#dialect.onMessage(message as Message, this, raw);
    return undefined;
  }

  malformed(problem: Malformed): void {
    if (!this.#ended) this.#malformed(malformedInput(problem));
  }

  ended(): void {
    // Without a handshake nothing is owed to the peer; while one is being decided its reply is.
    if (this.#buffered === undefined) this.refuse('ended before the handshake');
  }

  closed(_cause: CloseInfo): void {
    this.#leave();
  }

  #malformed(error: HandfastError, raw?: string): string {
    (this.#dialect ?? this.#acceptor.dialect()).malformed(error, this, raw);
    return error.code;
  }

  #leave(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#acceptor.left(this);
  }
}

/** The gate of all listeners of one server. */
export class Acceptor {
  readonly limits: HandshakeLimits;
  readonly #dialects: readonly [Dialect, ...Dialect[]];
  readonly #pending = new Set<PendingLink>();
  readonly #deadlines = new Deadlines<PendingLink>(
    () => this.#pending,
    (gate) => gate.refuse('handshake_timeout'),
  );

  readonly #origins: OriginTracker;
  /** Drops accepted links that are silent. */
  readonly liveness: Liveness;

  /** @param dialects the first also gets what belongs to none of them */
  constructor(
    dialects: readonly [Dialect, ...Dialect[]],
    limits: HandshakeLimits,
    origins: OriginTracker = { enter: () => true, leave() {} },
  ) {
    this.#dialects = dialects;
    this.limits = limits;
    this.#origins = origins;
    this.liveness = new Liveness(limits);
  }

  /** Links before their handshake. */
  get pending(): number {
    return this.#pending.size;
  }

  accept(link: Link): void {
    const origin = originOf(link);
    if (origin !== undefined && !this.#origins.enter(origin))
      return link.destroy('too many failures from this address');
    if (this.#pending.size >= this.limits.maxPending) {
      // Evict the oldest link that has not sent a handshake, so that idle connections cannot exhaust the slots.
      const silent = this.#pending.values().find((gate) => !gate.deciding);
      silent?.drop('too many links before their handshake');
      if (silent === undefined) {
        if (origin !== undefined) this.#origins.leave(origin);
        return link.destroy('too many links before their handshake');
      }
    }
    const gate = new PendingLink(this, link, performance.now() + this.limits.handshakeTimeoutMs, origin);
    this.#pending.add(gate);
    this.#deadlines.watch(gate.deadlineAt);
    link.setMaxMessageBytes(Math.min(PRE_HANDSHAKE_MAX_MESSAGE_BYTES, this.limits.maxMessageBytes));
    link.open(gate);
  }

  /** The dialect of a first message; of input that is none, the one that gets what belongs to no other. */
  dialect(message?: Message): Dialect {
    const [first, ...others] = this.#dialects;
    return (message !== undefined && others.find((dialect) => dialect.speaks(message))) || first;
  }

  left(gate: PendingLink): void {
    this.#pending.delete(gate);
    if (gate.origin !== undefined) this.#origins.leave(gate.origin);
    if (this.#pending.size === 0) this.#deadlines.rest();
  }

  /** Refuses every link that still waits here. */
  close(): void {
    for (const gate of [...this.#pending]) gate.refuse('the host is stopping');
    this.#deadlines.clear();
  }
}
