/**
 * The handshake of stream links: the first message is a valid SESSION_ANNOUNCE with the token of a principal that is granted to
 * work under the name, or the link ends with a SESSION_BYE that says why.
 *
 * `FleetHandshake` stands behind the gate of every listener that serves workers; `OutboundHandshake` at a link that was opened
 * from here, whose worker is trusted.
 * @see docs/protocol/fleet.md#stream-links
 */

import type { Log } from '../../../base/log.ts';
import type { Dialect, PendingLink } from '../../../connection/accept.ts';
import type { Ping } from '../../../connection/liveness.ts';
import type { AuthThrottle } from '../../../session/auth-throttle.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../../../transport/link.ts';
import type { Announced, Decoded } from '../../messages/decoded.ts';
import type { WorkerIdentity } from '../worker-rights.ts';
import { bye, MAX_MESSAGE_BYTES, readMessage, written } from './messages.ts';
import type { StreamPeer } from './stream-peer.ts';

/** The part of its bus that a handshake needs. */
export interface FleetHandshakeDeps {
  readonly name: string;
  readonly incarnation: string;
  readonly authThrottle: AuthThrottle;
  readonly log: Log;
  /**
   * Returns the identity of the worker, by its token, or why it is refused: the token is missing or wrong, or its principal may
   * not be it.
   */
  identify(link: Link, announced: Announced, token: unknown): WorkerIdentity | 'auth_failed' | 'unauthorized';
  /** Makes the peer of a link, or returns the reason to refuse it. */
  admit(
    link: Link,
    announced: Announced,
    identity: WorkerIdentity,
    onClosed?: (cause: CloseInfo) => void,
  ): StreamPeer | string;
  /** Attaches the link to its peer, and notifies both the peer and the orchestrator. */
  welcome(peer: StreamPeer, announced: Announced): void;
}

/** Returns the announce in a first message, or the reason to refuse it. */
function announceIn(decoded: Decoded): Announced | string {
  if (decoded.valid) return decoded.message.type === 'SESSION_ANNOUNCE' ? decoded.message : 'announce_required';
  const [error] = decoded.errors;
  if (error?.code === 'E_VERSION_UNSUPPORTED' || error?.code === 'E_VERSION') return 'unsupported_version';
  if (decoded.type !== 'SESSION_ANNOUNCE') return 'announce_required';
  const found = decoded.errors.slice(0, 5).map(({ code, path }) => `${code} ${path}`);
  return `invalid_announce: ${found.join(', ')}`;
}

/** Time after which a worker that was refused for want of room may try again, seconds. */
const RETRY_AFTER_S = 1;

/** Sends SESSION_BYE on a link that has no peer. */
function dismiss(link: Link, { name, incarnation }: FleetHandshakeDeps, reason: string): void {
  const message = bye(name, reason, incarnation);
  link.send(written(link, reason === 'over_capacity' ? { ...message, retry_after_s: RETRY_AFTER_S } : message));
}

export class FleetHandshake implements Dialect {
  readonly #admission: FleetHandshakeDeps;

  constructor(admission: FleetHandshakeDeps) {
    this.#admission = admission;
  }

  speaks({ type }: Message): boolean {
    return type === 'SESSION_ANNOUNCE';
  }

  onMessage(_message: object, gate: PendingLink, raw: string | Message): void {
    const announced = announceIn(readMessage(raw));
    if (typeof announced === 'string') return this.#refuse(gate, announced);
    const { token } = announced.envelope;
    const identity = this.#admission.identify(gate.link, announced, token ?? '');
    if (identity === 'auth_failed') return this.#authFailed(gate);
    if (identity === 'unauthorized') return this.#refuse(gate, identity);
    const peer = this.#admission.admit(gate.link, announced, identity);
    if (typeof peer === 'string') return this.#refuse(gate, peer);
    gate.accept(peer.connection, pingOf(peer));
    this.#admission.welcome(peer, announced);
  }

  malformed(_error: unknown, gate: PendingLink): void {
    this.#refuse(gate, 'announce_required');
  }

  #authFailed(gate: PendingLink): void {
    const { authThrottle, log } = this.#admission;
    authThrottle.refuseLink(gate, log, 'a worker sent a wrong credential', () => this.#refuse(gate, 'auth_failed'));
  }

  #refuse(gate: PendingLink, reason: string): void {
    if (!gate.waiting) return;
    dismiss(gate.link, this.#admission, reason);
    gate.refuse(reason);
  }
}

/** Waits for the announce on a link that was opened from here. */
export class OutboundHandshake implements LinkReceiver {
  /** Resolves with the peer once it announced itself, or with undefined when the link ended before. */
  readonly settled: Promise<StreamPeer | undefined>;
  /** Resolves when the link has closed. */
  readonly gone: Promise<CloseInfo>;
  readonly #admission: FleetHandshakeDeps;
  readonly #link: Link;
  readonly #end = Promise.withResolvers<CloseInfo>();
  readonly #settled = Promise.withResolvers<StreamPeer | undefined>();
  readonly #timer: NodeJS.Timeout;
  #peer: StreamPeer | undefined;
  #refused = false;

  constructor(admission: FleetHandshakeDeps, link: Link, handshakeTimeoutMs: number) {
    this.#admission = admission;
    this.#link = link;
    this.settled = this.#settled.promise;
    this.gone = this.#end.promise;
    this.#timer = setTimeout(() => this.dismiss('handshake_timeout'), handshakeTimeoutMs);
    link.setMaxMessageBytes(MAX_MESSAGE_BYTES);
    link.open(this);
  }

  /** Ends the link with a word. */
  dismiss(reason: string): void {
    clearTimeout(this.#timer);
    if (this.#peer !== undefined) return void this.#peer.dismiss(reason);
    if (this.#refused) return;
    this.#refused = true;
    dismiss(this.#link, this.#admission, reason);
    void this.#link.close(reason);
  }

  message(raw: string | Message): void {
    if (this.#refused) return;
    const announced = announceIn(readMessage(raw));
    if (typeof announced === 'string') return this.dismiss(announced);
    const identity = { peerId: announced.agent_id };
    const peer = this.#admission.admit(this.#link, announced, identity, (cause) => this.closed(cause));
    if (typeof peer === 'string') return this.dismiss(peer);
    clearTimeout(this.#timer);
    this.#peer = peer;
    peer.connection.attach(this.#link);
    this.#admission.welcome(peer, announced);
    this.#settled.resolve(peer);
  }

  malformed(_problem: Malformed): void {
    this.dismiss('announce_required');
  }

  ended(): void {
    this.dismiss('ended before the announce');
  }

  closed(cause: CloseInfo): void {
    clearTimeout(this.#timer);
    this.#settled.resolve(undefined);
    this.#end.resolve(cause);
  }
}

/** Heartbeats come by themselves; silence of a worker that promised them is noticed without asking. */
export function pingOf(peer: StreamPeer): Ping {
  return () => peer.beats;
}
