/**
 * Throttles addresses that guess tokens. Owned by the host, which checks every link before its handshake.
 *
 * Two rules per remote address: a refusal is delayed, longer after every failure, and an address that failed often may
 * hold only a few such links at a time. Together they bound the guesses per second without ever refusing a right token
 * that gets through, and they do not touch links that have shaken hands.
 */
import { backoffMs } from '../base/backoff.ts';
import { isLogged } from '../base/log.ts';

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
  /** Links without a handshake that an address may hold while its refusals are delayed. Default 8. */
  readonly maxPendingConnections?: number;
  /** Addresses remembered; past that the one that failed longest ago is evicted. Default 4,096. */
  readonly maxAddresses?: number;
  /** A clock that only goes forward, in milliseconds. */
  readonly now?: () => number;
}

/** What to do about one failure. */
export interface ThrottleVerdict {
  /** Wait so long before the refusal is sent and the link closed. */
  readonly delayMs: number;
  /** Failures of this address that are remembered, this one included. */
  readonly failures: number;
  /** Whether this failure is logged (`isLogged`): guessing must not fill the logs. */
  readonly report: boolean;
}

interface AddressRecord {
  failures: number;
  lastFailureMs: number;
  pendingLinks: number;
}

/** The memory of failures, bounded in addresses. */
export class AuthThrottle {
  readonly #standings = new Map<string, AddressRecord>();
  readonly #settings: Required<BackoffSettings>;

  constructor(settings: BackoffSettings = {}) {
    this.#settings = {
      freeFailures: 5,
      firstDelayMs: 250,
      maxDelayMs: 5_000,
      halfLifeMs: 60_000,
      maxPendingConnections: 8,
      maxAddresses: 4_096,
      now: () => performance.now(),
      ...settings,
    };
  }

  /** Addresses remembered at the moment. */
  get size(): number {
    return this.#standings.size;
  }

  /**
   * A link of `address` was accepted. False: close it at once, unread. True: call {@link leave} once when it has shaken
   * hands or is gone.
   */
  enter(address: string): boolean {
    const key = networkOf(address);
    const standing = this.#standings.get(key) ?? this.#remember(key);
    if (this.#delayAfter(this.#decayed(standing)) > 0 && standing.pendingLinks >= this.#settings.maxPendingConnections)
      return false;
    standing.pendingLinks++;
    return true;
  }

  /** The link that {@link enter} admitted has completed its handshake or is closed. */
  leave(address: string): void {
    const key = networkOf(address);
    const standing = this.#standings.get(key);
    if (standing === undefined) return;
    standing.pendingLinks = Math.max(0, standing.pendingLinks - 1);
    if (standing.pendingLinks === 0 && this.#decayed(standing) === 0) this.#standings.delete(key);
  }

  /**
   * `address` sent a wrong token. A right one is not reported: it must not clear the failures of another client behind
   * the same address.
   */
  failed(address: string): ThrottleVerdict {
    const key = networkOf(address);
    const standing = this.#standings.get(key) ?? this.#remember(key);
    standing.failures = this.#decayed(standing) + 1;
    standing.lastFailureMs = this.#settings.now();
    // To the end of the map, which is the order of forgetting.
    this.#standings.delete(key);
    this.#standings.set(key, standing);
    const { failures } = standing;
    return { delayMs: this.#delayAfter(failures), failures, report: isLogged(failures) };
  }

  #delayAfter(failures: number): number {
    const { freeFailures, firstDelayMs, maxDelayMs } = this.#settings;
    // Without jitter: guessing must not find a short delay by trying often.
    const options = { firstDelayMs, maxDelayMs, jitter: 0 };
    return failures <= freeFailures ? 0 : backoffMs(failures - freeFailures - 1, options);
  }

  #decayed(standing: AddressRecord): number {
    const halvings = Math.floor((this.#settings.now() - standing.lastFailureMs) / this.#settings.halfLifeMs);
    return halvings <= 0 ? standing.failures : Math.floor(standing.failures / 2 ** halvings);
  }

  #remember(key: string): AddressRecord {
    if (this.#standings.size >= this.#settings.maxAddresses) this.#evictOne();
    const standing: AddressRecord = { failures: 0, lastFailureMs: this.#settings.now(), pendingLinks: 0 };
    this.#standings.set(key, standing);
    return standing;
  }

  /** The oldest standing without an open link; all have one only when more links are open than addresses remembered. */
  #evictOne(): void {
    let oldest: string | undefined;
    for (const [key, standing] of this.#standings) {
      oldest ??= key;
      if (standing.pendingLinks > 0) continue;
      oldest = key;
      break;
    }
    if (oldest !== undefined) this.#standings.delete(oldest);
  }
}

/**
 * What counts as one address: an IPv4 address, an IPv6 network of 64 bits (one machine owns all of it), or the text
 * itself for anything else. A port is not expected.
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  if (!address.includes(':') || address.includes('/')) return address;
  const [head = '', tail] = address.toLowerCase().replace(/%.*$/, '').split('::', 2);
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const groups =
    tail === undefined
      ? left
      : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((part) => part.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
