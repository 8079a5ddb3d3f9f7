/**
 * Joins a worker to an orchestrator over stream links: it dials, announces itself, and dials again whenever the link ends,
 * after a delay that grows while that fails. Results that were not confirmed are sent again over the next link.
 *
 * `joinOverLink` is for workers that dial; `workerOverStdio` for one that was started by its orchestrator and lives as long as
 * the link. The caller turns an address into a link.
 * @see docs/protocol/fleet.md#stream-links
 */
import type { Closable } from '../../../base/lifetime.ts';
import { type Log, silentLog } from '../../../base/log.ts';
import { orAborted, withTimeout } from '../../../base/race.ts';
import {
  type ConnectionState,
  type Opened,
  Reconnect,
  type ReconnectSettings,
  type StateChange,
  type Verdict,
} from '../../../connection/reconnect.ts';
import { readToken, type Token } from '../../../connection/token.ts';
import type { SessionAnnounce } from '../../../protocol/fleet.ts';
import type { Link } from '../../../transport/link.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { reportLoss, supervision } from './supervision.ts';
import { type SessionEnd, WorkerConnection, type WorkerSessionOptions } from './worker-connection.ts';

/** Reasons of a SESSION_BYE that trying again soon will not change. */
const STANDING_REFUSALS =
  /^(?:auth_failed|unauthorized|announce_required|unsupported_version|invalid_announce|over_capacity|name_taken)\b/;

export interface JoinOptions {
  /** Sent with each announce; a function is called again for each link. Default: none is sent. */
  readonly token?: Token;
  /** Cancels joining; has no effect once the worker was accepted. `closed` then resolves as after `close`. */
  readonly signal?: AbortSignal;
  /** Name of the outlet in the worker's journal. Default: the orchestrator's own name. */
  readonly channelName?: string;
  /** Default: nothing is written. */
  readonly log?: Log;
  /** Delays, bound (by default none) and liveness of reconnecting. */
  readonly reconnect?: ReconnectSettings;
  /** Called for every change of the connection: opened, lost, resumed, closed. */
  readonly onState?: (change: StateChange) => void;
  /** Called when the orchestrator refused the worker permanently before accepting it. Joining is retried until `close`. */
  readonly onRefused?: (reason: string) => void;
  /** Longest time that the orchestrator may take to accept an announce, milliseconds. Default 10,000. */
  readonly acceptTimeoutMs?: number;
  /** Longest time that it may take to confirm a result, milliseconds. Default 15,000. */
  readonly deliverTimeoutMs?: number;
  readonly newId?: () => string;
}

/** A worker that belongs to an orchestrator, connected or not. */
export interface Joined extends Closable {
  readonly connected: boolean;
  readonly state: ConnectionState;
  /** The name the orchestrator gave it last. */
  readonly peerId: string | undefined;
  /** Resolves when it has been accepted for the first time; rejects with the error of `closed` when that never happens. */
  readonly accepted: Promise<void>;
  /**
   * Resolves at the end: `undefined` after `close`, or `superseded` when another process has joined under the name. Never
   * rejects.
   */
  readonly closed: Promise<HandfastError | undefined>;
  /** Sends SESSION_BYE and does not reconnect. Idempotent, bounded, never rejects. */
  close(reason?: string): Promise<void>;
}

/** Joins over the links that `dial` opens. */
export function joinOverLink(
  worker: WorkerPort,
  dial: (signal: AbortSignal) => Promise<Link>,
  options: JoinOptions = {},
): Joined {
  return new Membership(worker, dial, options);
}

/**
 * Serves the orchestrator at the other end of one link, usually this process's stdin and stdout. Resolves when the link is
 * gone; rejects with `connection_lost` when it ended before the worker was accepted.
 */
export async function workerOverStdio(
  worker: WorkerPort,
  link: Link,
  options: Omit<JoinOptions, 'token' | 'signal' | 'reconnect' | 'onState'> & {
    /** Leaves the orchestrator. */
    readonly signal?: AbortSignal;
  } = {},
): Promise<void> {
  const session = new WorkerConnection(worker, link, await worker.announce(), sessionOptions(options));
  const leave = (): void => void session.leave('stopping');
  options.signal?.addEventListener('abort', leave, { once: true });
  if (options.signal?.aborted) leave();
  const { accepted, cause, farewell } = await session.gone;
  options.signal?.removeEventListener('abort', leave);
  if (!accepted && !options.signal?.aborted) {
    throw fail('connection_lost', `the orchestrator did not accept this worker: ${farewell ?? cause.reason}`);
  }
}

function sessionOptions(options: JoinOptions): WorkerSessionOptions {
  const { acceptTimeoutMs = 10_000, deliverTimeoutMs = 15_000, channelName, log = silentLog } = options;
  const { newId = () => crypto.randomUUID() } = options;
  return { acceptTimeoutMs, deliverTimeoutMs, channelName, log, newId };
}

class Membership implements Joined {
  readonly accepted: Promise<void>;
  readonly closed: Promise<HandfastError | undefined>;
  readonly #worker: WorkerPort;
  readonly #options: JoinOptions;
  readonly #session: WorkerSessionOptions;
  readonly #first = Promise.withResolvers<void>();
  readonly #link: Reconnect<WorkerConnection>;
  /** Made before dialling, so that slow preparation does not count for the handshake timeout of the orchestrator. */
  #announcement: SessionAnnounce | undefined;
  #current: WorkerConnection | undefined;
  #peerId: string | undefined;

  constructor(worker: WorkerPort, dial: (signal: AbortSignal) => Promise<Link>, options: JoinOptions) {
    this.#worker = worker;
    this.#options = options;
    this.#session = sessionOptions(options);
    this.#link = new Reconnect(
      {
        dial: async (signal) => {
          this.#announcement = await this.#announce();
          signal.throwIfAborted();
          return dial(signal);
        },
        handshake: (link, signal) => this.#handshake(link, signal),
        open: (session, link) => this.#open(session, link),
        discard: (session) => void session.leave('stopping'),
        verdict: verdictOf,
        ended: (error) => this.#first.reject(error ?? fail('cancelled', 'the worker left before it was accepted')),
        onState: (change) => this.#report(change),
      },
      supervision(options.reconnect),
    );
    this.accepted = this.#first.promise;
    // A caller that does not wait for it must not see its failure as an unhandled rejection.
    this.accepted.catch(() => {});
    this.closed = this.#end();
    orAborted(this.accepted, options.signal).catch(() => this.close());
    this.#link.start();
  }

  get state(): ConnectionState {
    return this.#link.state;
  }

  get connected(): boolean {
    return this.state === 'open';
  }

  get peerId(): string | undefined {
    return this.#peerId;
  }

  async close(reason = 'stopping'): Promise<void> {
    const dialling = this.#link.close();
    await this.#current?.leave(reason);
    await dialling;
    await this.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #end(): Promise<HandfastError | undefined> {
    const error = await this.#link.closed;
    await this.#current?.gone;
    return error;
  }

  async #handshake(link: Link, signal: AbortSignal): Promise<WorkerConnection> {
    // It may have been closed in the moment the link was there; nothing would end that link later.
    if (signal.aborted) {
      link.destroy('leaving');
      throw fail('cancelled', 'the worker is leaving');
    }
    const session = new WorkerConnection(this.#worker, link, this.#announcement as SessionAnnounce, this.#session);
    this.#current = session;
    await session.settled;
    if (session.terms === undefined) throw lossOf(await session.gone, this.#worker.agentId);
    void session.gone.then((end) => this.#gone(session, end));
    return session;
  }

  #open(session: WorkerConnection, link: Link): Opened {
    const resumed = this.#peerId !== undefined;
    this.#peerId = session.terms?.peer_id;
    this.#session.log.info('joined the orchestrator', { address: link.peer, as: this.#peerId });
    this.#first.resolve();
    const { livenessTimeoutMs } = session;
    if (livenessTimeoutMs === undefined) return { resumed };
    const { livenessTimeoutMs: own = livenessTimeoutMs } = this.#options.reconnect ?? {};
    // Not less than the heartbeats that were agreed.
    return { resumed, ping() {}, livenessTimeoutMs: own === 0 ? 0 : Math.max(own, livenessTimeoutMs) };
  }

  #gone(session: WorkerConnection, end: SessionEnd): void {
    if (this.#current !== session) return;
    // The worker itself has sent SESSION_BYE.
    if (end.parted) return void this.#link.close();
    const error = lossOf(end, this.#worker.agentId);
    this.#link.lost(error, verdictOf(error));
  }

  #report(change: StateChange): void {
    const { onState, onRefused } = this.#options;
    const { log } = this.#session;
    if (change.state === 'lost' && verdictOf(change.reason) === 'later') {
      const reason = String(change.reason.detail.reason);
      log.error('the orchestrator refuses this worker', { reason });
      if (this.#peerId === undefined) onRefused?.(reason);
    } else if (change.state === 'closed' && change.error?.code === 'superseded') {
      log.error('another worker of this name replaced this one', { agent_id: this.#worker.agentId });
    } else reportLoss(log, 'lost the orchestrator; reconnecting', {}, change);
    onState?.(change);
  }

  async #announce(): Promise<SessionAnnounce> {
    const token = await readToken(this.#options.token);
    const announce = await withTimeout(this.#worker.announce(), 15_000, () =>
      fail('timeout', 'the worker did not announce itself within the timeout'),
    );
    return token === undefined ? announce : { ...announce, envelope: { ...announce.envelope, token } };
  }
}

/** Returns the reason why a session ended: the reason of the orchestrator's goodbye is `detail.reason`. */
function lossOf({ farewell, cause }: SessionEnd, agentId: string): HandfastError {
  if (farewell === 'superseded') return fail('superseded', `another worker named ${agentId} has joined`);
  if (farewell === undefined) return fail('connection_lost', `the link ended: ${cause.reason}`);
  return fail('connection_lost', `the orchestrator ended the session: ${farewell}`, { reason: farewell });
}

function verdictOf({ code, detail }: HandfastError): Verdict {
  // No retry changes a malformed address (`usage`).
  if (code === 'superseded' || code === 'usage') return 'stop';
  return typeof detail.reason === 'string' && STANDING_REFUSALS.test(detail.reason) ? 'later' : 'retry';
}
