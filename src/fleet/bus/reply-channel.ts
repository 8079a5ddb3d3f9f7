/**
 * The worker's side of a bus: where its messages go, and what the bus asks of the worker.
 *
 * `worker/worker.ts` implements {@link WorkerPort}; every binding brings a {@link ReplyChannel} and calls the port.
 */
import type { Envelope, Feature, FleetMessage, SessionAnnounce, TaskAck, TaskResult } from '../../protocol/fleet.ts';
import type { Dispatched, Finding, Incoming } from '../messages/decoded.ts';

/** Where the messages of a worker go. */
export interface ReplyChannel {
  /**
   * Names who is at the other end, the same after a restart: results of the tasks it sent wait for the outlet of this name.
   */
  readonly name: string;
  /** What the other end understands beside the three messages. */
  readonly features: ReadonlySet<Feature>;
  /**
   * True when dispatches live on the bus, which keeps their leases: they may wait there for as long as they must, and one
   * that is answered `busy` comes again without anybody having been told.
   */
  readonly durable?: boolean;
  /** Sends, or drops when the other end is away: announces, progress, heartbeats, questions. Never throws. */
  send(message: FleetMessage): void;
  /**
   * Sends a result and resolves when the other end has it for good. Rejects when that did not happen within its own bound;
   * the worker's outbox tries again with backoff, and at once when the outlet is attached again.
   */
  deliverResult(result: TaskResult): Promise<void>;
}

/** The right to run one attempt. */
export interface Lease {
  /** A number that only grows with the attempts of a task. */
  readonly fence: number;
  /** How long it holds without renewal, seconds. */
  readonly ttlS: number;
  /**
   * Renews it; false: it is lost for good. Rejects when that cannot be told now. Absent: progress renews it on the other
   * side, and this side cannot lose it.
   */
  renew?(): Promise<boolean>;
  /** Gives it back. */
  release?(): Promise<void>;
}

/** The attempt of a dispatch is here already: this is another copy. */
export interface AlreadyTaken {
  readonly kind: 'taken';
  readonly state: 'accepted' | 'running';
  /** What it runs under; undefined before it runs. */
  readonly lease: Envelope['lease'];
  /** When it may have ended, for a bus whose answer is that it is busy. */
  readonly retryAfterS: number;
}

/** What a worker makes of a dispatch. Nothing has been run yet, and no token spent. */
export type DispatchOutcome =
  /** It is refused (phase 4), or its text is no dispatch. */
  | { readonly kind: 'refused'; readonly result: TaskResult }
  /** It ended before; this is how. */
  | { readonly kind: 'replay'; readonly result: TaskResult }
  /** Another attempt at the same task, or another turn of its context, runs. */
  | { readonly kind: 'busy'; readonly retryAfterS: number; readonly reason: 'in_flight' | 'context' }
  | AlreadyTaken
  /** It is in the journal, on disk. The bus acknowledges, then calls `begin`. */
  | {
      readonly kind: 'accepted';
      /** Runs it. Never throws; the result goes to the outlet. */
      begin(lease: Lease): void;
      /** Another worker has it: it is forgotten. */
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

  /** Describes the worker as it is now; probes what is not known freshly. Bounded at 10 s. */
  announce(contextId?: string | null): Promise<SessionAnnounce>;
  /**
   * Sends announces, progress and results to `outlet` from now on; what waits for it is sent at once. Returns what undoes
   * it; results wait in the outbox then.
   */
  attach(outlet: ReplyChannel): () => void;
  /** Decides on a dispatch within 2 s. Its result and progress go to the outlet of this name. */
  receive(dispatch: Dispatched, outlet: ReplyChannel): Promise<DispatchOutcome>;
  /** A dispatch that could not be read: the refusal to answer with, `undefined` when it does not even name a task. */
  refuse(taskId: string | undefined, errors: readonly Finding[]): TaskResult | undefined;
  /** Any other message of the orchestrator: cancel, steer, poll, answer, ack of a result. Returns what to answer, if anything. */
  handle(message: Incoming, outlet: ReplyChannel): Promise<TaskAck | TaskResult | undefined>;
}
