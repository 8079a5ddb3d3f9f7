/**
 * The gate in front of every accepted link: it reads the first message, picks the dialect by it, and lets nothing else
 * through until the handshake of that dialect completes. One deadline covers all of it, and a bound limits the links
 * that may wait here at once.
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
import { currentTurn } from '../wire/turn-share.ts';
import { Liveness, type Ping } from './liveness.ts';
import { originOf } from './origin.ts';

type Message = Record<string, unknown>;

/** Handles the messages of a link until the handshake of this dialect completes. */
export interface Dialect {
  /** Returns true when a first message is of this dialect. */
  speaks(message: Message): boolean;
  /** Handles a message before the link was accepted; `raw` is the same message as it arrived. */
  onMessage(message: Message, gate: PendingLink, raw: string | Message): void;
  /**
   * Handles input that is no message; `raw` is its text, if it has one. If the gate decides so, the link closes after
   * the reply.
   */
  malformed(error: HandfastError, gate: PendingLink, raw?: string): void;
}

export interface HandshakeLimits {
  /** Absolute time of a handshake, in milliseconds. */
  readonly handshakeTimeoutMs: number;
  /** Links before their handshake at once; one more evicts the oldest silent one of the origin that has most. */
  readonly maxPending: number;
  /** Nesting of a message at most. */
  readonly maxDepth: number;
  /** Longest message once the handshake is accepted, in bytes. */
  readonly maxMessageBytes: number;
  /** Time for which an accepted link may be silent, milliseconds; see {@link Liveness}. Default 15,000; 0 = no limit. */
  readonly livenessTimeoutMs?: number;
}

/** Reason why a link before its handshake is dropped. */
const CROWDED = 'too many links before their handshake';

/** Messages that may wait behind a handshake while it is being decided. */
const MAX_BUFFERED = 256;

/** One link before its handshake. */
export class PendingLink implements LinkReceiver {
  readonly link: Link;
  readonly deadlineAt: number;
  readonly #acceptor: Acceptor;
  #dialect: Dialect | undefined;
  /** Buffers messages while the handshake is decided; undefined = not deciding. */
  #buffered: (string | Message)[] | undefined;
  #refused = false;
  #ended = false;
  /** Messages replied to so far without a handshake. */
  strikes = 0;

  /** Origin of the link, for counting failures; undefined where guessing is no concern. */
  readonly origin: string | undefined;
  readonly #acceptedAt = currentTurn();

  constructor(acceptor: Acceptor, link: Link, deadlineAt: number, origin: string | undefined) {
    this.#acceptor = acceptor;
    this.link = link;
    this.deadlineAt = deadlineAt;
    this.origin = origin;
  }

  /** Marks that the handshake is being decided: buffers messages that arrive meanwhile. */
  bufferMessages(): void {
    this.#buffered = [];
    this.link.pause(true);
  }

  /**
   * Accepts the link: it may send long messages now, and `receiver` gets the buffered messages and all later ones.
   *
   * @param ping sends a message to which this peer is known to reply; it detects a silent link if the transport has no
   * ping
   */
  accept(receiver: { attach(link: Link): void; message(message: string | Message): unknown }, ping?: Ping): void {
    if (this.#ended) return;
    this.#leave();
    this.#acceptor.liveness.watch(this.link, ping);
    this.link.setMaxMessageBytes(this.#acceptor.limits.maxMessageBytes);
    const buffered = this.#buffered;
    this.#buffered = undefined;
    // First, because the receiver may pause the link again. Messages that the link holds arrive in a later turn, after
    // these.
    if (buffered !== undefined) this.link.pause(false);
    receiver.attach(this.link);
    for (const message of buffered ?? []) receiver.message(message);
  }

  /** Stops reading: the token was wrong, and the refusal is delayed. */
  awaitRefusal(): void {
    this.#refused = true;
    this.link.pause(true);
  }

  /**
   * True when its place may be given to another link: it has had time to send a handshake, and none is being decided. A
   * message that it sent right after it connected is read in the turn after the one in which it was accepted.
   */
  get evictable(): boolean {
    if (this.#buffered !== undefined) return false;
    return this.origin === undefined || currentTurn() >= this.#acceptedAt + 2;
  }

  /** True while its refusal is delayed. */
  get refused(): boolean {
    return this.#refused;
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

  /** Refuses the link: messages sent so far still go out, then it closes. */
  refuse(reason: string): void {
    if (this.#ended) return;
    this.#leave();
    void this.link.close(reason);
  }

  message(raw: string | Message): string | undefined {
    if (this.#ended || this.#refused) return undefined;
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
    if (!this.#ended && !this.#refused) this.#malformed(malformedInput(problem));
  }

  ended(): void {
    // Without a handshake nothing is owed to the peer; behind one its reply is.
    if (this.#buffered === undefined && !this.#refused) this.refuse('ended before the handshake');
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

  /** Drops accepted links that are silent. */
  readonly liveness: Liveness;

  /** @param dialects the first also gets input that belongs to none of them */
  constructor(dialects: readonly [Dialect, ...Dialect[]], limits: HandshakeLimits) {
    this.#dialects = dialects;
    this.limits = limits;
    this.liveness = new Liveness(limits);
  }

  /** Links before their handshake. */
  get pending(): number {
    return this.#pending.size;
  }

  accept(link: Link): void {
    const { maxPending } = this.limits;
    // More than one where a burst has taken the room for a moment.
    while (this.#pending.size >= maxPending) {
      const victim = this.#victim();
      if (victim === undefined) break;
      victim.drop(CROWDED);
    }
    // All others have just connected, or have sent their handshake: the same number again may wait, for a moment.
    if (this.#pending.size >= 2 * maxPending) return link.destroy(CROWDED);
    const gate = new PendingLink(this, link, performance.now() + this.limits.handshakeTimeoutMs, originOf(link));
    this.#pending.add(gate);
    this.#deadlines.watch(gate.deadlineAt);
    link.setMaxMessageBytes(Math.min(PRE_HANDSHAKE_MAX_MESSAGE_BYTES, this.limits.maxMessageBytes));
    link.open(gate);
  }

  /**
   * Returns the link whose place a new link gets: one that will be refused anyway, else the oldest of the origin with
   * the most links.
   */
  #victim(): PendingLink | undefined {
    const places = new Map<string | undefined, number>();
    for (const { origin } of this.#pending) places.set(origin, (places.get(origin) ?? 0) + 1);
    let victim: PendingLink | undefined;
    let most = 0;
    for (const gate of this.#pending) {
      const weight = gate.refused ? Number.POSITIVE_INFINITY : (places.get(gate.origin) as number);
      if (weight > most && gate.evictable) [victim, most] = [gate, weight];
    }
    return victim;
  }

  /** Returns the dialect of a first message; for input that is no message, the dialect that gets input of no other. */
  dialect(message?: Message): Dialect {
    const [first, ...others] = this.#dialects;
    return (message !== undefined && others.find((dialect) => dialect.speaks(message))) || first;
  }

  left(gate: PendingLink): void {
    this.#pending.delete(gate);
    if (this.#pending.size === 0) this.#deadlines.rest();
  }

  /** Refuses every link that still waits here. */
  close(): void {
    for (const gate of [...this.#pending]) gate.refuse('the host is stopping');
    this.#deadlines.clear();
  }
}
