/**
 * Throttles addresses that guess tokens: the only record of failures in a process, for every handshake and every HTTP
 * route with a token.
 *
 * Only the refusal of a wrong token is delayed, longer after every failure; a right one is accepted at once, also while
 * others of its address guess. Few refusals of an address wait at a time: past that it gets none, so that guesses hold
 * no places.
 */
import { backoffMs } from '../base/backoff.ts';
import { setNewest } from '../base/evict-oldest.ts';
import type { Log } from '../base/log.ts';
import { processTimer, type Timer } from '../base/timer-queue.ts';
import { networkOf } from '../connection/origin.ts';

/** All optional; the defaults fit a host on a network. */
export interface BackoffSettings {
  /** Failures that cost nothing: people mistype. Default 5. */
  readonly freeFailures?: number;
  /** Delay of the first refusal after those, doubled with each further one. Default 250. */
  readonly firstDelayMs?: number;
  /** Longest delay. Below the handshake timeout, so that the refusal still arrives. Default 5,000. */
  readonly maxDelayMs?: number;
  /** After so long without a failure half of them are dropped. Default 60,000. */
  readonly halfLifeMs?: number;
  /** Refusals of one address that are delayed at the same time. Default 8. */
  readonly maxDelayed?: number;
  /** Addresses remembered; past that the one that failed longest ago is evicted. Default 4,096. */
  readonly maxAddresses?: number;
  /** Returns milliseconds of a clock that only goes forward. */
  readonly now?: () => number;
  readonly timer?: Timer;
}

/** The consequence of one failure. */
export interface ThrottleVerdict {
  /** Wait so long before the refusal is sent and the link closed. */
  readonly delayMs: number;
  /** Failures of this address that are remembered, this one included. */
  readonly failures: number;
  /** True for the 1st, 2nd, 4th, 8th … failure: write only these down, so that guessing cannot fill the logs. */
  readonly report: boolean;
}

/** A link before its handshake; `connection/accept.ts` has them. */
export interface GuessingLink {
  readonly origin: string | undefined;
  /** Marks the link as one to be refused: no more of it is read, and its place is the first to be given to another. */
  awaitRefusal(): void;
  drop(reason: string): void;
}

interface AddressRecord {
  failures: number;
  lastFailureMs: number;
  /** Refusals that wait. */
  delayed: number;
}

/** The memory of failures, bounded in addresses. */
export class AuthThrottle {
  readonly #records = new Map<string, AddressRecord>();
  readonly #settings: Required<BackoffSettings>;

  constructor(settings: BackoffSettings = {}) {
    this.#settings = {
      freeFailures: 5,
      firstDelayMs: 250,
      maxDelayMs: 5_000,
      halfLifeMs: 60_000,
      maxDelayed: 8,
      maxAddresses: 4_096,
      now: () => performance.now(),
      timer: processTimer,
      ...settings,
    };
  }

  /** Addresses remembered at the moment. */
  get size(): number {
    return this.#records.size;
  }

  /**
   * Refuses a link whose token is wrong. `refuse` sends the refusal, at once or after its delay; past `maxDelayed` of
   * its address the link is dropped without one, unless the refusal must be reported.
   *
   * @param what for the log
   */
  refuseLink(link: GuessingLink, log: Log, what: string, refuse: (report: boolean) => void): void {
    const { origin } = link;
    if (origin === undefined) return refuse(true);
    const verdict = this.failed(origin);
    const { delayMs, failures, report } = verdict;
    if (report) log.warn(what, { origin, failures });
    if (delayMs > 0) link.awaitRefusal();
    this.#delay(origin, delayMs, (crowded) => {
      if (crowded && !report) link.drop('too many failures from this address');
      else refuse(report);
    });
  }

  /**
   * Delays the refusal of a request of `address` with a wrong token: resolves when it may be sent. True: at once,
   * because too many refusals of this address wait already.
   */
  delayRefusal(address: string): Promise<boolean> {
    return new Promise((resolve) => this.#delay(address, this.failed(address).delayMs, resolve));
  }

  /**
   * Counts a wrong token of `address`. A right one is not reported: it must not clear the failures of another client
   * behind the same address.
   */
  failed(address: string): ThrottleVerdict {
    const key = networkOf(address);
    const record = this.#records.get(key) ?? { failures: 0, lastFailureMs: this.#settings.now(), delayed: 0 };
    record.failures = this.#decayed(record) + 1;
    record.lastFailureMs = this.#settings.now();
    // The address that failed longest ago is evicted first.
    setNewest(this.#records, key, record, this.#settings.maxAddresses);
    const { failures } = record;
    return { delayMs: this.#delayAfter(failures), failures, report: (failures & (failures - 1)) === 0 };
  }

  /** Calls `done` after the delay, or at once and with true when too many of this address wait. */
  #delay(address: string, delayMs: number, done: (crowded: boolean) => void): void {
    const record = this.#records.get(networkOf(address));
    if (delayMs === 0 || record === undefined) return done(false);
    if (record.delayed >= this.#settings.maxDelayed) return done(true);
    record.delayed++;
    this.#settings.timer(() => {
      record.delayed--;
      done(false);
    }, delayMs);
  }

  #delayAfter(failures: number): number {
    const { freeFailures, firstDelayMs, maxDelayMs } = this.#settings;
    // Without jitter: guessing must not find a short delay by trying often.
    const options = { firstDelayMs, maxDelayMs, jitter: 0 };
    return failures <= freeFailures ? 0 : backoffMs(failures - freeFailures - 1, options);
  }

  #decayed(record: AddressRecord): number {
    const halvings = Math.floor((this.#settings.now() - record.lastFailureMs) / this.#settings.halfLifeMs);
    return halvings <= 0 ? record.failures : Math.floor(record.failures / 2 ** halvings);
  }
}
