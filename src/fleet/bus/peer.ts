/**
 * The orchestrator's side of a bus: peers connect and leave, receive messages, and send some.
 *
 * The other files of this folder implement it: in-process, stream links, the upstream HTTP dialect, A2A 1.0, NATS JetStream.
 * `orchestrator/` knows none of them. A bus whose peers do not speak messages translates.
 */
import type { Feature, FleetMessage, TaskDispatch } from '../../protocol/fleet.ts';
import type { Incoming } from '../messages/decoded.ts';

export type Binding = 'in-process' | 'stream' | 'http' | 'a2a' | 'nats';

/** Form in which a peer wants its tasks: as messages, as hints in the text, or as the bare brief. */
export type DispatchMode = 'structured' | 'inline' | 'plain';

/**
 * Where an attempt is that a bus stores: it waits on its queue, or a worker holds its lease, or neither. Then no worker will run it,
 * unless `startedBy` has: that one knows how it ended.
 */
export type Whereabouts = { readonly at: 'queue' | 'worker' } | { readonly at: 'nowhere'; readonly startedBy?: string };

/** One worker, as its transport knows it. */
export interface FleetPeer {
  /** The identity that the transport authenticated, not the one the worker announces. Unique in an orchestrator. */
  readonly peerId: string;
  readonly binding: Binding;
  /** For people. Never holds a secret. */
  readonly address: string;
  /** Its agent card, or its link, shows that it speaks this protocol. */
  readonly structured: boolean;
  /** Features it understands beside the three messages. Empty for plain peers; it may grow with an announce. */
  readonly features: ReadonlySet<Feature>;
  /**
   * True when tasks and results live on the bus and survive both ends (NATS): a dispatch that was sent need not be polled
   * or sent again after a restart, and the bus holds the leases.
   */
  readonly durable: boolean;
  /** State of a peer without an announce, from configuration: for plain peers only. */
  readonly reachable: boolean;

  /**
   * Returns the attempt of this task whose dispatch went over this link and was not acknowledged there; undefined: none. A poll
   * ends the wait, because its reply may be the result. Absent where results come without acknowledgements.
   */
  unacknowledged?(taskId: string): number | undefined;

  /**
   * Hands a message over. A dispatch resolves when the peer, or the bus, has it; everything else when it is on its way.
   * A message the peer has no feature for is dropped by the caller, not here.
   *
   * Fails with `unreachable` (nothing was delivered), `connection_lost` or `timeout` (it may have been: poll before sending
   * again), `over_capacity` (busy; `detail.retry_after_ms`), `unauthorized`, `invalid_message` (the peer refused it).
   */
  send(message: FleetMessage, how: SendOptions): Promise<void>;

  /**
   * Where an attempt is whose dispatch was sent; its outcome may be unknown: then it is sent again. Present where the bus holds
   * dispatches and leases: then only these are signs of an attempt, and not that its worker is there. Fails as `send`.
   */
  find?(message: TaskDispatch): Promise<Whereabouts>;
}

export interface SendOptions {
  readonly mode: DispatchMode;
  readonly signal?: AbortSignal;
}

/** The events of a bus, which the orchestrator handles. */
export interface PeerEvents {
  /** Called when a peer has connected. Its announce follows as a message where it sends one. */
  joined(peer: FleetPeer): void;
  /**
   * Receives a message of a peer. Resolves when a message that must not be lost (a result, a question) is on disk; the bus
   * acknowledges to the worker then. Rejects when it could not be stored: the worker sends it again.
   */
  received(peer: FleetPeer, message: Incoming): Promise<void> | void;
  /** Called when a peer sent bytes that are not a message; for the log and the counters. */
  malformed(peer: FleetPeer, codes: readonly string[]): void;
  /** Called when the peer is not connected any more. `asleep`: it shut down in order. */
  left(peer: FleetPeer, reason: string, asleep: boolean): void;
}

/** A bus that carries nothing now. */
export interface BusOutage {
  /** For people; holds no secret. */
  readonly reason: string;
  /** Epoch milliseconds. */
  readonly since: number;
}

/** A bus, on the orchestrator's side. */
export interface OrchestratorBus {
  readonly binding: Binding;
  start(events: PeerEvents): Promise<void>;
  /** Queues a task for any worker of a pool; absent: this bus has no pools. Resolves when it is stored. */
  offer?(pool: string, message: FleetMessage): Promise<void>;
  /** The same as {@link FleetPeer.find}, of a task that was offered to a pool. */
  find?(pool: string, message: TaskDispatch): Promise<Whereabouts>;
  /** Since when and why it carries nothing; undefined: it works. Absent: it cannot fail apart from its peers. */
  down?(): BusOutage | undefined;
  /** Closes all peers in order. Bounded, never rejects. */
  close(): Promise<void>;
}
