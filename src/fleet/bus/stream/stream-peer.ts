/**
 * A worker at the other end of a stream link, as the orchestrator sees it: its messages go to the orchestrator, dispatches
 * wait for its acknowledgement, stored results are acknowledged, and silence ends the link.
 *
 * For a link whose announce was accepted.
 * @see docs/protocol/fleet.md#stream-links
 */

import { evictOldest } from '../../../base/evict-oldest.ts';
import type { Log } from '../../../base/log.ts';
import type { Feature, FleetMessage, TaskAck } from '../../../protocol/fleet.ts';
import type { Principal } from '../../../session/principal.ts';
import type { CloseInfo, Link } from '../../../transport/link.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { FleetMalformed } from '../../../wire/fleet.ts';
import type { Announced, Incoming, Reported } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { forwardToOrchestrator } from '../forward.ts';
import type { FleetPeer, PeerEvents } from '../peer.ts';
import { ack } from '../worker-messages.ts';
import { mayWork, type WorkerIdentity } from '../worker-rights.ts';
import { FleetConnection, type FleetConnectionOwner } from './fleet-connection.ts';
import { bye } from './messages.ts';

/** Dispatches of one link that are neither acknowledged nor polled for; past it the oldest count as acknowledged. */
const MAX_UNACKNOWLEDGED = 10_000;

/** The part of its bus that a peer needs. */
export interface PeerOwner {
  readonly name: string;
  readonly incarnation: string;
  readonly events: PeerEvents;
  readonly log: Log;
  /** Longest time that a worker may take to acknowledge a dispatch, milliseconds. */
  readonly ackTimeoutMs: number;
  readonly newId: () => string;
  /** Called when its principal may not be this worker. */
  unauthorized(principal: Principal, worker: string, link: Link): void;
  /** Called once, when the peer is lost. */
  gone(peer: StreamPeer, reason: string, asleep: boolean): void;
}

export class StreamPeer implements FleetPeer, FleetConnectionOwner {
  readonly peerId: string;
  readonly binding = 'stream';
  readonly address: string;
  readonly structured = true;
  readonly durable = false;
  readonly incarnation: string | null;
  readonly link: Link;
  /** The connection that receives from the link. */
  readonly connection: FleetConnection;
  readonly #owner: PeerOwner;
  readonly #onClosed: ((cause: CloseInfo) => void) | undefined;
  #principal: Principal | undefined;
  #pools: readonly string[];
  #features: ReadonlySet<Feature>;
  /** Task → the attempt that was dispatched last, until it is acknowledged or polled for. */
  readonly #unacknowledged = new Map<string, number>();
  #beats = 0;

  constructor(
    owner: PeerOwner,
    link: Link,
    facts: WorkerIdentity & { readonly announced: Announced; readonly onClosed?: (cause: CloseInfo) => void },
  ) {
    this.#owner = owner;
    this.link = link;
    this.peerId = facts.peerId;
    this.#principal = facts.principal;
    this.#pools = facts.announced.pools;
    this.incarnation = facts.announced.incarnation;
    this.address = link.peer;
    this.#features = new Set(facts.announced.features);
    this.#onClosed = facts.onClosed;
    this.connection = new FleetConnection(this);
  }

  get features(): ReadonlySet<Feature> {
    return this.#features;
  }

  /** The principal of the token it joined with, with its current rights; undefined for a link that was opened from here. */
  get principal(): Principal | undefined {
    return this.#principal;
  }

  /** Notes the present rights of its principal; undefined: it is no longer configured. */
  rightsChanged(principal: Principal | undefined): void {
    if (principal === undefined) return this.#unauthorized();
    this.#principal = principal;
    if (!this.#permitted(this.#pools)) this.#unauthorized();
  }

  /**
   * Returns whether the principal may work for these pools. Checked for every message: a right may have been withdrawn, and a
   * new announce may name other pools.
   */
  #permitted(pools: readonly string[]): boolean {
    return this.#principal === undefined || mayWork(this.#principal, this.peerId, pools);
  }

  #unauthorized(): void {
    if (this.#principal !== undefined) this.#owner.unauthorized(this.#principal, this.peerId, this.link);
    void this.dismiss('unauthorized');
  }

  get reachable(): boolean {
    return !this.connection.ended;
  }

  unacknowledged(taskId: string): number | undefined {
    return this.#unacknowledged.get(taskId);
  }

  // To the worker.

  async send(message: FleetMessage, how: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (!this.reachable) throw fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
    const { signal } = how;
    signal?.throwIfAborted();
    // A worker that has finished replies to a poll with its result.
    if (message.type === 'TASK_POLL') this.#unacknowledged.delete(message.task_id);
    if (message.type !== 'TASK_DISPATCH' || !this.#features.has('ack')) return this.connection.send(message);
    const { envelope, task } = message;
    this.#unacknowledged.set(task.task_id, envelope?.attempt ?? 1);
    evictOldest(this.#unacknowledged, MAX_UNACKNOWLEDGED);
    const messageId = envelope?.message_id ?? this.#owner.newId();
    await this.connection.ask(
      { ...message, envelope: { ...envelope, message_id: messageId } },
      {
        taskId: task.task_id,
        messageId,
        timeoutMs: this.#owner.ackTimeoutMs,
        late: `${this.peerId} did not acknowledge the dispatch within ${this.#owner.ackTimeoutMs} ms`,
        signal,
      },
    );
  }

  /** True when it promised heartbeats: only then is its silence a loss. */
  get beats(): boolean {
    return this.#features.has('heartbeat');
  }

  /** Sends the heartbeat of this side. */
  beat(): void {
    const { name, incarnation } = this.#owner;
    if (!this.#features.has('heartbeat')) return;
    this.#notify(
      fleetMessage('SESSION_HEARTBEAT', { agent_id: name, incarnation, seq: ++this.#beats, active_tasks: 0 }),
    );
  }

  /** Ends the session with a SESSION_BYE: this side stops, or another link of the same worker replaces this one. */
  async dismiss(reason: string): Promise<void> {
    if (this.beats) this.#notify(bye(this.#owner.name, reason, this.#owner.incarnation));
    this.#lost(reason, false);
    await this.link.close(reason);
  }

  /** Sends a message that nothing waits for. */
  #notify(message: FleetMessage): void {
    try {
      this.connection.send(message);
    } catch {
      // The worker does not read; the guard over slow consumers ends its link.
    }
  }

  // From the worker.

  receive(message: Incoming): Promise<unknown> | undefined {
    if (!this.#permitted(message.type === 'SESSION_ANNOUNCE' ? message.pools : this.#pools)) {
      this.#unauthorized();
      return undefined;
    }
    switch (message.type) {
      case 'SESSION_ANNOUNCE':
        this.#features = new Set(message.features);
        this.#pools = message.pools;
        return this.#forward(withoutToken(message));
      case 'TASK_RESULT':
        this.#settleByResult(message);
        return this.#forwardResult(message);
      case 'TASK_ACK':
        return this.#acknowledged(message);
      case 'TASK_PROGRESS':
      case 'TASK_QUESTION':
      case 'SESSION_HEARTBEAT':
        return this.#forward(message);
      case 'SESSION_BYE':
        this.#lost(message.reason, true);
        void this.link.close('the worker said goodbye');
        return undefined;
      default:
        // Not a message of a worker.
        this.#reportMalformed(['E_TYPE'], message.type);
        return undefined;
    }
  }

  malformed({ errors, type }: FleetMalformed): void {
    this.#reportMalformed(
      errors.map(({ code }) => code),
      type,
    );
  }

  ended(): void {
    // Its last messages have been handled already, and a worker that cannot send is of no use.
    void this.link.close('the worker ended the link');
  }

  linkLost(cause: CloseInfo): void {
    this.#lost(cause.reason, false);
    this.#onClosed?.(cause);
  }

  #acknowledged(message: TaskAck): Promise<unknown> | undefined {
    const { task_id: taskId, accepted, state, retry_after_s = 30 } = message;
    const { causation_id: causationId, attempt } = message.envelope ?? {};
    const due = this.unacknowledged(taskId);
    if (accepted && (attempt ?? due) === due) this.#unacknowledged.delete(taskId);
    if (!accepted && (state === 'busy' || state === 'running') && this.connection.waitsFor(taskId, causationId)) {
      const reason = state === 'running' ? 'in_flight' : 'context';
      const detail = { reason, retry_after_ms: retry_after_s * 1000 };
      this.connection.settle(taskId, causationId, fail('over_capacity', `${this.peerId} is busy`, detail));
      return undefined;
    }
    // The orchestrator receives it before the sender of the dispatch continues.
    const forwarded = this.#forward(message);
    this.connection.settle(taskId, causationId);
    return forwarded;
  }

  #settleByResult({ task_id: taskId, status, envelope }: Reported): void {
    const { causation_id: causationId } = envelope;
    // A result that names no cause may be of an earlier attempt. Only a refusal of a message that could not be read cannot name
    // it.
    if (causationId !== undefined || status === 'blocked') this.connection.settle(taskId, causationId);
  }

  /** Acknowledges a result when it is stored, and also when it is not, so that the worker sends it again soon. */
  async #forwardResult(result: Reported): Promise<void> {
    const stored = await this.#forward(result);
    if (!this.reachable || !this.#features.has('ack')) return;
    const { task_id, envelope } = result;
    const { message_id: causation_id, attempt } = envelope;
    const outcome = stored ? ({ accepted: true, state: 'finished' } as const) : { accepted: false, retry_after_s: 1 };
    this.#notify(ack(task_id, outcome, { causation_id, attempt }));
  }

  /** Hands a message to the orchestrator. False: it could not be stored. */
  async #forward(message: Incoming): Promise<boolean> {
    try {
      await forwardToOrchestrator(this.#owner.events, this, message);
      return true;
    } catch (thrown) {
      const { code, message: error } = asError(thrown);
      const { peerId: peer } = this;
      this.#owner.log.warn('a message of a worker was not stored', { peer, type: message.type, code, error });
      return false;
    }
  }

  /** Reports malformed input; the connection continues. */
  #reportMalformed(codes: readonly string[], type: string | null): void {
    const count = this.connection.countMalformed();
    if (count !== undefined) {
      this.#owner.log.warn('a worker sent invalid messages', { peer: this.peerId, type, codes, count });
    }
    this.#owner.events.malformed(this, codes);
  }

  #lost(reason: string, asleep: boolean): void {
    if (!this.reachable) return;
    this.connection.end(() => fail('connection_lost', `the link to ${this.peerId} ended: ${reason}`));
    this.#owner.gone(this, reason, asleep);
  }
}

/** Returns an announce without the secret it may have brought. */
export function withoutToken(announced: Announced): Announced {
  if (announced.envelope.token === undefined) return announced;
  const { token: _secret, ...envelope } = announced.envelope;
  return { ...announced, envelope };
}
