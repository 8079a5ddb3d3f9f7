/**
 * The worker's side of a bus: the channel of its messages, and the port through which the bus calls the worker.
 *
 * `worker/worker.ts` implements {@link WorkerPort}; every binding brings a {@link ReplyChannel}.
 */
import type { Envelope, Feature, FleetMessage, SessionAnnounce, TaskAck, TaskResult } from '../../protocol/fleet.ts';
import type { Dispatched, Finding, Incoming } from '../messages/decoded.ts';

/** Destination of a worker's messages. */
export interface ReplyChannel {
  /**
   * Names the other end, the same after a restart: results of the tasks it sent wait for the channel of this name.
   */
  readonly name: string;
  /** Features that the other end understands beside the three messages. */
  readonly features: ReadonlySet<Feature>;
  /**
   * True when dispatches live on the bus, which holds their leases: they wait there without a limit, and the bus redelivers
   * one that was answered `busy` without a message to the orchestrator.
   */
  readonly durable?: boolean;
  /** Sends, or drops when the other end is not connected: announces, progress, heartbeats, questions. Never throws. */
  send(message: FleetMessage): void;
  /**
   * Sends a result; resolves when the other end has stored it durably. Rejects when that did not happen within its own bound;
   * the worker's outbox retries with backoff, and at once when the channel is attached again.
   */
  deliverResult(result: TaskResult): Promise<void>;
}

/** The right to run one attempt. */
export interface Lease {
  /** A number that only grows with the attempts of a task. */
  readonly fence: number;
  /** Time that it holds without renewal, seconds. */
  readonly ttlS: number;
  /**
   * Renews it; false: it is lost for good. Rejects when that is unknown. Absent: progress renews it on the other
   * side, and this side cannot lose it.
   */
  renew?(): Promise<boolean>;
  /** Releases it. */
  release?(): Promise<void>;
}

/** This worker has the attempt of a dispatch already: this is a duplicate. */
export interface AlreadyTaken {
  readonly kind: 'taken';
  readonly state: 'accepted' | 'running';
  /** The lease it runs under; undefined before it runs. */
  readonly lease: Envelope['lease'];
  /** Time when it may have ended, for a bus that answers `busy`. */
  readonly retryAfterS: number;
}

/** A worker's decision on a dispatch. Nothing has run yet, and no token is spent. */
export type DispatchOutcome =
  /** It is refused (phase 4), or its text is not a dispatch. */
  | { readonly kind: 'refused'; readonly result: TaskResult }
  /** It ended before, with this result. */
  | { readonly kind: 'replay'; readonly result: TaskResult }
  /** Another attempt at the same task, or another turn of its context, runs. */
  | { readonly kind: 'busy'; readonly retryAfterS: number; readonly reason: 'in_flight' | 'context' }
  | AlreadyTaken
  /** It is in the journal, on disk. The bus acknowledges, then calls `start`. */
  | {
      readonly kind: 'accepted';
      /** Runs it. Never throws; the result goes to the channel. */
      start(lease: Lease): void;
      /** Drops the task here: another worker has it. */
      abandon(): Promise<void>;
    };

/** The worker, as buses see it. */
export interface WorkerPort {
  readonly agentId: string;
  readonly incarnation: string;
  readonly features: readonly Feature[];
  readonly pools: readonly string[];
  readonly maxConcurrent: number;
  /** Tasks accepted or running. */
  readonly activeTasks: number;
  readonly draining: boolean;

  /** Describes the worker as it is now; probes facts that are not fresh. Bounded at 10 s. */
  announce(contextId?: string | null): Promise<SessionAnnounce>;
  /**
   * Sends announces, progress and results to `channel` from now on, and the results that wait for it at once. Returns the
   * function that detaches it; results wait in the outbox then.
   */
  attach(channel: ReplyChannel): () => void;
  /** Decides on a dispatch within 2 s. Its result and progress go to the channel of this name. */
  receive(dispatch: Dispatched, channel: ReplyChannel): Promise<DispatchOutcome>;
  /** Returns the refusal of a dispatch that could not be read, `undefined` when it does not even name a task. */
  refuse(taskId: string | undefined, errors: readonly Finding[]): TaskResult | undefined;
  /**
   * Handles any other message of the orchestrator: cancel, steer, poll, answer, ack of a result. Returns the reply, if the
   * message has one.
   */
  handle(message: Incoming, channel: ReplyChannel): Promise<TaskAck | TaskResult | undefined>;
}
