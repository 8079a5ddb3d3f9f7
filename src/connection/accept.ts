/**
 * The gate in front of every accepted link: it reads the first message, decides the dialect by it, and lets nothing else
 * through until that dialect's handshake has taken the link over. One deadline for all of it, and a bound on how many
 * links may stand here at once.
 *
 * Called by listeners through `host/host.ts`.
 * @see docs/architecture.md#the-gate
 */
import { Deadlines } from '../base/deadlines.ts';
import {
  type CloseInfo,
  type Link,
  type LinkReceiver,
  type Malformed,
  PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
} from '../transport/link.ts';
import { parseNested } from '../wire/depth.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { unreadable } from './connection.ts';

type Message = Record<string, unknown>;

/** The protocols a link can speak. */
export type DialectName = 'a2e' | 'jsonrpc' | 'fleet';

/** Which dialect a first message belongs to. */
export function dialectOf(message: Message): DialectName {
  if (Object.hasOwn(message, 'jsonrpc')) return 'jsonrpc';
  if (message.type === 'SESSION_ANNOUNCE') return 'fleet';
  return 'a2e';
}

/** A dialect's own doorkeeper. */
export interface Dialect {
  /** A message before the link was taken over; `raw` is the same as it came. */
  onMessage(message: Message, gate: PendingLink, raw: string | Message): void;
  /** Input that is no message; `raw` is its text, where there is one. The link closes after the answer when the gate decides so. */
  unreadable(error: HandfastError, gate: PendingLink, raw?: string): void;
}

export interface HandshakeLimits {
  /** Absolute time a link may take to shake hands, in milliseconds. */
  readonly handshakeTimeoutMs: number;
  /** Links before their handshake at once; one more takes the place of the one that is silent longest. */
  readonly maxPending: number;
  /** Nesting of a message at most. */
  readonly maxDepth: number;
  /** Longest message once the handshake is accepted, in bytes. */
  readonly maxMessageBytes: number;
}

/** Counts the links of an address that have not shaken hands; `session/auth-throttle.ts` is one. */
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

/** Messages that came behind the handshake while it was still being decided. */
const MAX_HELD = 256;

/** One link before its handshake. */
export class PendingLink implements LinkReceiver {
  readonly link: Link;
  readonly deadlineAt: number;
  readonly #acceptor: Acceptor;
  #dialect: Dialect | undefined;
  /** Messages held back while the handshake is decided; undefined = not deciding. */
  #held: (string | Message)[] | undefined;
  #over = false;
  /** Messages answered so far without a handshake. */
  strikes = 0;

  /** Where the link comes from, for counting failures per address; undefined where guessing is no concern. */
  readonly origin: string | undefined;

  constructor(acceptor: Acceptor, link: Link, deadlineAt: number, origin: string | undefined) {
    this.#acceptor = acceptor;
    this.link = link;
    this.deadlineAt = deadlineAt;
    this.origin = origin;
  }

  /** The handshake is being decided: what comes meanwhile waits. */
  bufferMessages(): void {
    this.#held = [];
    this.link.pause(true);
  }

  /** The link is accepted: it may send long messages now, and `receiver` hears what was held and all that follows. */
  accept(receiver: { attach(link: Link): void; message(message: string | Message): unknown }): void {
    if (this.#over) return;
    this.#leave();
    this.link.setMaxMessageBytes(this.#acceptor.limits.maxMessageBytes);
    receiver.attach(this.link);
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    for (const message of held) receiver.message(message);
    this.link.pause(false);
  }

  /** True while its handshake has been read and is being decided. */
  get deciding(): boolean {
    return this.#held !== undefined;
  }

  /** Drops the link at once, nothing said. */
  drop(reason: string): void {
    if (this.#over) return;
    this.#leave();
    this.link.destroy(reason);
  }

  /** True while the peer is still there and not refused. */
  get waiting(): boolean {
    return !this.#over;
  }

  /** Refuses the link: what was sent so far still goes out, then it closes. */
  refuse(reason: string): void {
    if (this.#over) return;
    this.#leave();
    void this.link.close(reason);
  }

  message(raw: string | Message): string | undefined {
    if (this.#over) return undefined;
    if (this.#held !== undefined) {
      if (this.#held.push(raw) > MAX_HELD) this.refuse('too much before the handshake was answered');
      return undefined;
    }
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = parseNested(raw, this.#acceptor.limits.maxDepth);
      } catch (thrown) {
        return this.#unreadable(
          thrown instanceof SyntaxError ? fail('parse_error', 'the line is not JSON') : (thrown as HandfastError),
          raw,
        );
      }
      if (!isObject(message)) return this.#unreadable(fail('invalid_message', 'a message is a JSON object'), raw);
    }
    this.#dialect ??= this.#acceptor.dialect(dialectOf(message as Message));
    this.#dialect.onMessage(message as Message, this, raw);
    return undefined;
  }

  malformed(problem: Malformed): void {
    if (!this.#over) this.#unreadable(unreadable(problem));
  }

  ended(): void {
    // Nothing was agreed, so nothing is owed; while the handshake is being decided its answer is.
    if (this.#held === undefined) this.refuse('ended before the handshake');
  }

  closed(_cause: CloseInfo): void {
    this.#leave();
  }

  #unreadable(error: HandfastError, raw?: string): string {
    (this.#dialect ?? this.#acceptor.dialect('a2e')).unreadable(error, this, raw);
    return error.code;
  }

  #leave(): void {
    if (this.#over) return;
    this.#over = true;
    this.#acceptor.left(this);
  }
}

/** Stands in front of all listeners of a host. */
export class Acceptor {
  readonly limits: HandshakeLimits;
  readonly #dialects: Partial<Record<DialectName, Dialect>> & { a2e: Dialect };
  readonly #pending = new Set<PendingLink>();
  readonly #deadlines = new Deadlines<PendingLink>(
    () => this.#pending,
    (gate) => gate.refuse('handshake_timeout'),
  );

  readonly #origins: OriginTracker;

  constructor(
    dialects: Partial<Record<DialectName, Dialect>> & { a2e: Dialect },
    limits: HandshakeLimits,
    origins: OriginTracker = { enter: () => true, leave() {} },
  ) {
    this.#dialects = dialects;
    this.limits = limits;
    this.#origins = origins;
  }

  /** Links that have not shaken hands yet. */
  get pending(): number {
    return this.#pending.size;
  }

  accept(link: Link): void {
    const origin = originOf(link);
    if (origin !== undefined && !this.#origins.enter(origin))
      return link.destroy('too many failures from this address');
    if (this.#pending.size >= this.limits.maxPending) {
      // The oldest silent one goes: whoever fills the places with silence must not keep those out who speak at once.
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

  /** The doorkeeper for a dialect; a dialect that is not served says so in its own words and closes. */
  dialect(name: DialectName): Dialect {
    return this.#dialects[name] ?? (name === 'jsonrpc' ? notServedJsonRpc : this.#dialects.a2e);
  }

  left(gate: PendingLink): void {
    this.#pending.delete(gate);
    if (gate.origin !== undefined) this.#origins.leave(gate.origin);
    if (this.#pending.size === 0) this.#deadlines.rest();
  }

  /** Refuses everybody who still stands here. */
  close(): void {
    for (const gate of [...this.#pending]) gate.refuse('the host is stopping');
    this.#deadlines.clear();
  }
}

/** Tells a JSON-RPC client that no session RPC is served on this listener. */
const notServedJsonRpc: Dialect = {
  onMessage(message, gate) {
    const id = typeof message.id === 'string' || typeof message.id === 'number' ? message.id : null;
    const error = { code: -32601, message: 'session RPC is not served here', data: { reason: 'dialect_not_served' } };
    if (gate.link.text) gate.link.send(JSON.stringify({ jsonrpc: '2.0', id, error }));
    gate.refuse('dialect_not_served');
  },
  unreadable(_error, gate) {
    gate.refuse('unreadable');
  },
};
