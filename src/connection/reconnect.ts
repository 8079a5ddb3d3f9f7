/**
 * Maintains one link to a peer: dials, runs the dialect's handshake, watches the link for silence, and dials again with
 * backoff when it is lost, within a bound. Reports every change as an event.
 *
 * It knows no dialect. Its owner provides `dial`, `handshake` and `open`, and calls {@link Reconnect.lost} when its
 * link has ended.
 * @see docs/architecture.md#reconnecting
 */
import { Backoff, type BackoffOptions, STEADY_MS } from '../base/backoff.ts';
import { orAborted } from '../base/race.ts';
import { sleep } from '../base/sleep.ts';
import type { Link } from '../transport/link.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { Liveness, type LivenessOptions, type Ping } from './liveness.ts';

/** `open`: in use. `lost`: being dialled again. `closed`: ended, nothing is pending. */
export type ConnectionState = 'open' | 'lost' | 'closed';

/** Entries that retention removed before this side had read them; the numbers are inclusive. */
export interface Gap {
  readonly from: number;
  readonly to: number;
}

/** Argument of `onState`. */
export type StateChange =
  /** The first link, or one on which the session had to start again. */
  | { readonly state: 'open' }
  /** The link is lost, or could not be replaced yet: why, and when which attempt to dial follows. */
  | {
      readonly state: 'lost';
      readonly reason: HandfastError;
      /** Dials in a row since the link was lost; the first is 1. */
      readonly attempt: number;
      /** Milliseconds until that attempt. */
      readonly retryInMs: number;
    }
  /** A new link continues the session. `gap`: entries that the peer no longer had. */
  | { readonly state: 'resumed'; readonly gap?: Gap }
  /** The end. `error` is absent when this side closed it. */
  | { readonly state: 'closed'; readonly error?: HandfastError };

/** The settings of reconnecting for users, the same on every edge. */
export interface ReconnectSettings {
  /** Delays between attempts. Default: 50 ms doubling to 2 s, half of each random. */
  readonly backoff?: BackoffOptions;
  /** Time for which a lost link is dialled again, milliseconds; 0 = not at all. The default is that of the edge. */
  readonly maxMs?: number;
  /**
   * Time for which a link may be silent, milliseconds. Meanwhile the peer is pinged; a link on which nothing arrives
   * even so is lost. 0 = no limit. Default 15,000.
   */
  readonly livenessTimeoutMs?: number;
}

/**
 * Decision after a failed attempt: dial again (`retry`), dial again after the longest delay because the reason stands
 * (`later`), or end (`stop`).
 */
export type Verdict = 'retry' | 'later' | 'stop';

/** The outcome of a handshake on a new link. */
export interface Opened {
  /** The session continues. */
  readonly resumed: boolean;
  readonly gap?: Gap;
  /** Absent where the dialect has no message that the peer must answer. */
  readonly ping?: Ping;
  /** Time for which this link may be silent, if the handshake agreed on one. */
  readonly livenessTimeoutMs?: number;
}

/** The owner's side. */
export interface ReconnectOwner<Terms> {
  dial(signal: AbortSignal): Promise<Link>;
  /** Makes the first exchange. A handshake that fails ends its link. */
  handshake(link: Link, signal: AbortSignal): Promise<Terms>;
  /** Puts the link in use. Called in the turn in which the handshake succeeded, unless it was closed meanwhile. */
  open(terms: Terms, link: Link): Opened;
  /** Called when the handshake succeeded too late: the link is no longer needed. */
  discard(terms: Terms, link: Link): void;
  verdict(error: HandfastError): Verdict;
  /** Called once when the state has become `closed`: settles everything. */
  ended(error: HandfastError | undefined): void;
  /** Called for every change, in order, each in a separate microtask. */
  onState?(change: StateChange): void;
}

export interface ReconnectOptions extends Omit<ReconnectSettings, 'maxMs'> {
  /** Returns {@link ReconnectSettings.maxMs} at the time when the link is lost. */
  readonly boundMs: () => number;
  /** Attempts are counted from the last link that was steady, not from each loss. Default false. */
  readonly countsThrough?: boolean;
  /** Returns monotonic milliseconds. */
  readonly now?: () => number;
  /** Resolves after the time, or when the signal aborts. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly every?: LivenessOptions['every'];
}

const DELAYS: BackoffOptions = { firstDelayMs: 50, maxDelayMs: 2_000 };

export class Reconnect<Terms> {
  readonly #owner: ReconnectOwner<Terms>;
  readonly #options: ReconnectOptions;
  readonly #backoff: Backoff;
  readonly #now: () => number;
  // Made when they are needed: most connections rest, and there may be very many.
  #stop: AbortController | undefined;
  #closed: PromiseWithResolvers<HandfastError | undefined> | undefined;
  #ended: HandfastError | undefined;
  #state: ConnectionState = 'lost';
  /** Resolved when the state is another one than `lost`. */
  #settled: PromiseWithResolvers<void> | undefined;
  #openedAt = 0;
  /** Dials in a row since a link was steady: one that ends at once was no success, or a peer could have it dialled without a delay. */
  #attempts = 0;
  /** Failures that are not reported: they had opened a link. */
  #unreported = 0;
  #unwatch: (() => void) | undefined;
  /** Set while the owner puts a link in use; a loss in that moment is reported behind the success. */
  #opening = false;
  #lostEarly: [HandfastError, Verdict] | undefined;
  #dialling: Promise<void> = Promise.resolve();

  constructor(owner: ReconnectOwner<Terms>, options: ReconnectOptions) {
    this.#owner = owner;
    this.#options = options;
    this.#backoff = new Backoff({ ...DELAYS, ...options.backoff });
    this.#now = options.now ?? (() => performance.now());
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Resolves at the end: with the error that caused it, or undefined after {@link close}. */
  get closed(): Promise<HandfastError | undefined> {
    if (this.#closed === undefined) {
      this.#closed = Promise.withResolvers();
      if (this.#state === 'closed') this.#closed.resolve(this.#ended);
    }
    return this.#closed.promise;
  }

  /** Resolves as soon as the state is not `lost`. */
  get settled(): Promise<void> {
    if (this.#state !== 'lost') return Promise.resolve();
    this.#settled ??= Promise.withResolvers();
    return this.#settled.promise;
  }

  /** Opens the first link, in one attempt. Rejects with the error of dialling or of the handshake. */
  async connect(signal?: AbortSignal): Promise<void> {
    const stop = this.#stopSignal();
    await this.#attempt(signal === undefined ? stop : AbortSignal.any([signal, stop]));
  }

  /** Dials the first link like a lost one. */
  start(): void {
    this.#dialling = this.#dial(undefined);
  }

  /**
   * Handles the end of the link in use. The owner passes the `verdict`, because it knows more than an error shows.
   * Ignored when the state is not `open`.
   */
  lost(reason: HandfastError, verdict: Verdict = 'retry'): void {
    if (this.#state !== 'open') return;
    if (this.#opening) {
      this.#lostEarly ??= [reason, verdict];
      return;
    }
    this.#unwatch?.();
    if (verdict === 'stop' || this.#options.boundMs() <= 0) return void this.close(reason);
    this.#state = 'lost';
    if (this.#now() - this.#openedAt >= STEADY_MS) {
      this.#backoff.reset();
      this.#attempts = 0;
    }
    this.#unreported = this.#options.countsThrough ? 0 : this.#attempts;
    if (verdict === 'later') this.#backoff.longest();
    this.#dialling = this.#dial(reason, verdict);
  }

  /** Ends everything at once. Resolves when no dialling is under way. Idempotent: the first error counts. */
  close(error?: HandfastError): Promise<void> {
    if (this.#state !== 'closed') {
      this.#state = 'closed';
      this.#unwatch?.();
      this.#ended = error;
      this.#stop?.abort(error);
      this.#settle();
      this.#closed?.resolve(error);
      this.#owner.ended(error);
      this.#emit({ state: 'closed', ...(error !== undefined && { error }) });
    }
    return this.#dialling;
  }

  /** Dials until a link is open, the bound is reached, or it is closed. Never rejects. */
  async #dial(lost: HandfastError | undefined, verdict: Verdict = 'retry'): Promise<void> {
    const { wait = sleep, boundMs } = this.#options;
    const signal = this.#stopSignal();
    const until = this.#now() + boundMs();
    let reason = lost;
    // The first attempt follows at once: most lost links are back by then.
    let delayMs = this.#attempts === 0 && verdict === 'retry' ? 0 : this.#backoff.next();
    for (;;) {
      this.#attempts += 1;
      const attempt = this.#attempts - this.#unreported;
      if (reason !== undefined) this.#emit({ state: 'lost', reason, attempt, retryInMs: delayMs });
      if (delayMs > 0) await wait(delayMs, signal);
      if (this.#state !== 'lost') return;
      try {
        return await this.#attempt(signal);
      } catch (thrown) {
        if (this.#state !== 'lost') return;
        reason = asError(thrown);
      }
      const meaning = this.#owner.verdict(reason);
      if (meaning === 'stop') return void this.close(reason);
      if (meaning === 'later') this.#backoff.longest();
      delayMs = this.#backoff.next();
      if (this.#now() + delayMs > until) return void this.close(lost ?? reason);
    }
  }

  /** Opens one link, up to the moment it is in use. */
  async #attempt(signal: AbortSignal): Promise<void> {
    const owner = this.#owner;
    const dialled = owner.dial(signal);
    // Dialling may ignore the signal: a late link is ended.
    const link = await orAborted(dialled, signal, abandoned).catch((error) => {
      if (signal.aborted) void dialled.then((late) => late.destroy('no longer wanted')).catch(() => {});
      throw error;
    });
    const terms = await owner.handshake(link, signal);
    if (this.#state !== 'lost') {
      owner.discard(terms, link);
      throw fail('cancelled', 'the connection was closed');
    }
    this.#state = 'open';
    this.#openedAt = this.#now();
    this.#opening = true;
    const { resumed, gap, ping, livenessTimeoutMs = this.#options.livenessTimeoutMs } = owner.open(terms, link);
    this.#opening = false;
    // Input of the link may have made the owner close everything.
    if (this.#isClosed) return;
    this.#stop = undefined;
    this.#settle();
    this.#emit(resumed ? { state: 'resumed', ...(gap !== undefined && { gap }) } : { state: 'open' });
    this.#unwatch = new Liveness({ livenessTimeoutMs, every: this.#options.every }).watch(link, ping);
    const early = this.#lostEarly;
    this.#lostEarly = undefined;
    if (early !== undefined) this.lost(...early);
  }

  /** Returns a signal that aborts dialling when this is closed. */
  #stopSignal(): AbortSignal {
    this.#stop ??= new AbortController();
    return this.#stop.signal;
  }

  #settle(): void {
    this.#settled?.resolve();
    this.#settled = undefined;
  }

  get #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #emit(change: StateChange): void {
    // Not from within code of a link: an error that a callback throws must not end the link.
    queueMicrotask(() => this.#owner.onState?.(change));
  }
}

function abandoned({ reason }: AbortSignal): HandfastError {
  return reason instanceof HandfastError ? reason : fail('cancelled', 'connecting was cancelled', undefined, reason);
}
