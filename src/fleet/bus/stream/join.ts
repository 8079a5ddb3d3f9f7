/**
 * How a worker joins an orchestrator over stream links: it dials, announces itself, and dials again whenever the link ends,
 * after a delay that grows while that fails. Results that were not confirmed are sent again over the next link.
 *
 * `joinOverLink` is for workers that dial; `workerOverStdio` for one that was started by its orchestrator and lives as long
 * as the link. How an address becomes a link is the caller's matter.
 * @see docs/protocol/fleet.md#stream-links
 */

import { Backoff, type BackoffOptions } from '../../../base/backoff.ts';
import type { Log } from '../../../base/log.ts';
import { withTimeout } from '../../../base/race.ts';
import { sleep } from '../../../base/sleep.ts';
import type { SessionAnnounce } from '../../../protocol/fleet.ts';
import type { Link } from '../../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { type SessionEnd, WorkerConnection, type WorkerSessionOptions } from './worker-connection.ts';

/** Reasons of a SESSION_BYE that trying again soon will not change. */
const STANDING_REFUSALS =
  /^(?:auth_failed|announce_required|unsupported_version|invalid_announce|over_capacity|name_taken)\b/;

/** A session that held so long counts as a success, however it ended, milliseconds. */
const STEADY_MS = 5_000;

export interface JoinOptions {
  /** Read anew for each link, so that a token that was replaced is found. Default: none is sent. */
  readonly token?: () => string | undefined | Promise<string | undefined>;
  /** Name of the outlet in the worker's journal. Default: what the orchestrator calls itself. */
  readonly channelName?: string;
  readonly log: Log;
  readonly retry?: BackoffOptions;
  /** Refused, for a reason that stands, before it was ever accepted. It goes on trying unless it is told to leave. */
  readonly onRefused?: (reason: string) => void;
  /** How long the orchestrator may take to accept an announce, milliseconds. Default 10,000. */
  readonly acceptTimeoutMs?: number;
  /** How long it may take to confirm a result, milliseconds. Default 15,000. */
  readonly deliverTimeoutMs?: number;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
  readonly newId?: () => string;
}

/** A worker that belongs to an orchestrator, connected or not. */
export interface Joined {
  readonly connected: boolean;
  /** The name the orchestrator gave it last. */
  readonly peerId: string | undefined;
  /** Resolves when it has been accepted for the first time; rejects with what `ended` tells when that never happens. */
  readonly accepted: Promise<void>;
  /**
   * Resolves when it is over for good: `undefined` after `leave`, or `superseded` when another process has taken the name.
   * Never rejects.
   */
  readonly ended: Promise<HandfastError | undefined>;
  /** Says goodbye and stays away. Bounded, never rejects. */
  leave(reason?: string): Promise<void>;
}

/** Joins over the links that `dial` opens. */
export function joinOverLink(
  worker: WorkerPort,
  dial: (signal: AbortSignal) => Promise<Link>,
  options: JoinOptions,
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
  options: Omit<JoinOptions, 'token' | 'retry'> & { readonly signal?: AbortSignal },
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
  const { acceptTimeoutMs = 10_000, deliverTimeoutMs = 15_000, channelName, log } = options;
  const { monotonic = () => performance.now(), newId = () => crypto.randomUUID() } = options;
  return { acceptTimeoutMs, deliverTimeoutMs, channelName: channelName, log, monotonic, newId };
}

class Membership implements Joined {
  readonly accepted: Promise<void>;
  readonly ended: Promise<HandfastError | undefined>;
  readonly #worker: WorkerPort;
  readonly #dial: (signal: AbortSignal) => Promise<Link>;
  readonly #options: JoinOptions;
  readonly #session: WorkerSessionOptions;
  readonly #delay: Backoff;
  readonly #leaving = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #current: WorkerConnection | undefined;
  #peerId: string | undefined;

  constructor(worker: WorkerPort, dial: (signal: AbortSignal) => Promise<Link>, options: JoinOptions) {
    this.#worker = worker;
    this.#dial = dial;
    this.#options = options;
    this.#session = sessionOptions(options);
    this.#delay = new Backoff(options.retry);
    this.accepted = this.#first.promise;
    // Whoever does not wait for it must not be told of its failure as of a bug.
    this.accepted.catch(() => {});
    this.ended = this.#run();
  }

  get connected(): boolean {
    return this.#current?.terms !== undefined;
  }

  get peerId(): string | undefined {
    return this.#peerId;
  }

  async leave(reason = 'stopping'): Promise<void> {
    this.#leaving.abort();
    await this.#current?.leave(reason);
    await this.ended;
  }

  async #run(): Promise<HandfastError | undefined> {
    const { signal } = this.#leaving;
    let over: HandfastError | undefined;
    while (over === undefined && !signal.aborted) {
      try {
        over = await this.#once(signal);
      } catch (thrown) {
        const { code, message } = asError(thrown);
        this.#report('the orchestrator could not be reached', { code, error: message });
      }
      if (over === undefined) await sleep(this.#delay.next(), signal);
    }
    this.#first.reject(over ?? fail('cancelled', 'the worker left before it was accepted'));
    return over;
  }

  /** One link, from dialling to its end. Resolves with the reason for never trying again. */
  async #once(signal: AbortSignal): Promise<HandfastError | undefined> {
    const { log, monotonic = () => performance.now() } = this.#options;
    // What takes long is done before the orchestrator's clock for the handshake runs.
    const announce = await this.#announce();
    const link = await this.#opened(signal);
    // It may have been told to leave in the moment the link was there: nobody would end that one later.
    if (link === undefined || signal.aborted) {
      link?.destroy('leaving');
      return undefined;
    }
    const since = monotonic();
    const session = new WorkerConnection(this.#worker, link, announce, this.#session);
    this.#current = session;
    await session.settled;
    if (session.terms !== undefined) {
      this.#peerId = session.terms.peer_id;
      log.info('joined the orchestrator', { address: link.peer, as: this.#peerId });
      this.#first.resolve();
    }
    const end = await session.gone;
    this.#current = undefined;
    if (end.accepted && monotonic() - since >= STEADY_MS) this.#delay.reset();
    return signal.aborted ? undefined : this.#judge(end);
  }

  /** Dials; gives it up when the worker leaves, whether the dialling heeds the signal or not. */
  async #opened(signal: AbortSignal): Promise<Link | undefined> {
    const dialled = this.#dial(signal);
    const left = Promise.withResolvers<undefined>();
    const leave = (): void => left.resolve(undefined);
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    const link = await Promise.race([dialled, left.promise]).finally(() => signal.removeEventListener('abort', leave));
    if (link === undefined) {
      dialled.then(
        (late) => late.destroy('leaving'),
        () => {},
      );
    }
    return link;
  }

  #judge({ accepted, cause, farewell, parted }: SessionEnd): HandfastError | undefined {
    if (parted) {
      // The worker itself has said goodbye.
      this.#leaving.abort();
      return undefined;
    }
    if (farewell === 'superseded') {
      const { agentId } = this.#worker;
      this.#options.log.error('another worker of this name has taken the place of this one', { agent_id: agentId });
      return fail('superseded', `another worker named ${agentId} has joined`);
    }
    if (farewell !== undefined && STANDING_REFUSALS.test(farewell)) {
      this.#delay.longest();
      this.#options.log.error('the orchestrator refuses this worker', { reason: farewell });
      if (this.#peerId === undefined) this.#options.onRefused?.(farewell);
    } else this.#report('the link to the orchestrator has ended', { accepted, reason: farewell ?? cause.reason });
    return undefined;
  }

  async #announce(): Promise<SessionAnnounce> {
    const token = await this.#options.token?.();
    const announce = await withTimeout(this.#worker.announce(), 15_000, () =>
      fail('timeout', 'the worker did not describe itself in time'),
    );
    return token === undefined ? announce : { ...announce, envelope: { ...announce.envelope, token } };
  }

  /** Written down for the 1st, 2nd, 4th, 8th … failure in a row only. */
  #report(what: string, fields: Record<string, unknown>): void {
    const count = this.#delay.failures + 1;
    if ((count & (count - 1)) === 0) this.#options.log.warn(what, { ...fields, failures: count });
  }
}
