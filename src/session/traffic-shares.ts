/**
 * Bounds on the traffic of the links of one principal together, and of all principals in sum: links, requests in
 * flight, requests and bytes a second. A share that is used up refuses or delays its owner alone.
 *
 * A host has one, or all edges of a server share one. Handshakes give each connection the {@link Traffic} of its
 * principal. @see docs/security/shares.md
 */
import { type ShareUsage, shareUsage } from '../base/share-usage.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import type { Throttled, Traffic } from '../connection/traffic.ts';
import type { Link } from '../transport/link.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Principal } from './principal.ts';

/** Amounts for one principal and for all. Whole numbers, at least 1. */
export interface TrafficLimits {
  /** Links of all principals at once; past that, those with more than an equal part are refused. */
  readonly maxConnections: number;
  /** Of one principal that is no administrator. */
  readonly maxConnectionsPerPrincipal: number;
  /** Requests of all principals without a reply; past that, those with more than an equal part are refused. */
  readonly maxInFlight: number;
  /** Of one principal that is no administrator. */
  readonly maxInFlightPerPrincipal: number;
  /** Of one principal that is no administrator. */
  readonly requestsPerSecond: number;
  /** Requests a second of all principals with that limit. */
  readonly totalRequestsPerSecond: number;
  /** Received from one principal that is no administrator. */
  readonly bytesPerSecond: number;
  /** Received bytes a second of all principals with that limit. */
  readonly totalBytesPerSecond: number;
  /** Bytes of incomplete messages of one principal that is no administrator. */
  readonly receiveBufferBytes: number;
  /**
   * Bytes of incomplete messages of all principals with that limit; past that, those with more than an equal part are
   * refused.
   */
  readonly totalReceiveBufferBytes: number;
}

/** The shares, as errors and operators name them. */
export type TrafficShare =
  | 'connections'
  | 'in_flight'
  | 'requests_per_second'
  | 'bytes_per_second'
  | 'receive_buffer_bytes';

/** One share, for operators: of a rate, the used part of one second's units. Delays count as refusals. */
export interface TrafficUsage extends ShareUsage {
  /** Refusals by principal, those with most first. */
  readonly refused_by: Readonly<Record<string, number>>;
}

/** Time after which a link of the principal may have ended, milliseconds. */
const CONNECTION_RETRY_MS = 1_000;
/**
 * Time after which a request of the principal may have its reply, and the least time after which a request is sent
 * again, milliseconds.
 */
const REQUEST_RETRY_MS = 100;
/** Shortest pause, milliseconds: pausing and resuming thousands of links costs milliseconds itself. */
const MIN_PAUSE_MS = 100;
/** Interval of checks of a debt, milliseconds: the limit may have changed. */
const MAX_WAIT_MS = 1_000;

/** A rate of several owners: one half is divided among the active ones, the other is for all of them. */
class SharedRate {
  readonly common: TokenBucket;
  /** Returns the units a second that each active owner has for itself. */
  readonly part: () => number;

  constructor(total: number, active: () => number, now: () => number) {
    this.common = new TokenBucket(() => total / 2, now);
    this.part = () => total / 2 / Math.max(1, active());
  }
}

/** The rate of one owner: its limit, and within the sum its own part before that of all. */
class OwnRate {
  readonly #limit: TokenBucket;
  readonly #part: TokenBucket;
  readonly #common: TokenBucket;

  constructor({ common, part }: SharedRate, perSecond: () => number, now: () => number) {
    this.#limit = new TokenBucket(perSecond, now);
    this.#part = new TokenBucket(part, now);
    this.#common = common;
  }

  /** Takes units while anything is left. */
  take(units = 1): boolean {
    return this.#limit.take(units) && (this.#part.take(units) || this.#common.take(units));
  }

  /** Spends units that were used already. Returns false when none are left. */
  spend(units: number): boolean {
    const within = this.#limit.spend(units);
    return (this.#part.take(units) || this.#common.spend(units)) && within;
  }

  /** The used part of one second's units. */
  get used(): number {
    return this.#limit.used;
  }

  get waitMs(): number {
    return Math.max(this.#limit.waitMs, Math.min(this.#part.waitMs, this.#common.waitMs));
  }
}

/** The shares of all edges of one server. */
export class TrafficShares {
  readonly limits: TrafficLimits;
  readonly now: () => number;
  readonly requests: SharedRate;
  readonly bytes: SharedRate;
  readonly #principals = new Map<string, PrincipalTraffic>();
  /** Links of all principals. */
  connections = 0;
  /** Requests of all principals without a reply. */
  inFlight = 0;
  /** Bytes of incomplete messages of all principals with a limit of them. */
  incomplete = 0;
  /** Principals with links. */
  active = 0;

  /** @param now monotonic milliseconds */
  constructor(limits: TrafficLimits, now: () => number = () => performance.now()) {
    const active = (): number => this.active;
    this.limits = limits;
    this.now = now;
    this.requests = new SharedRate(limits.totalRequestsPerSecond, active, now);
    this.bytes = new SharedRate(limits.totalBytesPerSecond, active, now);
  }

  /** Returns the shares of a principal, for the connection of one of its links. Undefined for a link in this process. */
  of(principal: Principal, { transport }: Pick<Link, 'transport'>): PrincipalTraffic | undefined {
    if (transport === 'memory') return undefined;
    let traffic = this.#principals.get(principal.name);
    if (traffic === undefined) {
      // As many as are configured.
      traffic = new PrincipalTraffic(this, principal);
      this.#principals.set(principal.name, traffic);
    } else traffic.update(principal);
    return traffic;
  }

  /** Gives every principal the limits it has now. */
  rightsChanged(current: (name: string) => Principal | undefined): void {
    for (const [name, traffic] of this.#principals) traffic.update(current(name) ?? { name });
  }

  /** Returns an equal part of a sum for each principal with links. */
  equalPart(total: number): number {
    return total / Math.max(1, this.active);
  }

  /** The usage, for operators. */
  get usage(): Readonly<Record<TrafficShare, TrafficUsage>> {
    const of = (share: TrafficShare): TrafficUsage => {
      const used = counted(this.#principals, (traffic) => traffic.used(share));
      const refused = counted(this.#principals, (traffic) => traffic.refused[share]);
      return {
        ...shareUsage(used.sum, refused.sum, used.each),
        refused_by: shareUsage(0, 0, refused.each).principals,
      };
    };
    return {
      connections: of('connections'),
      in_flight: of('in_flight'),
      requests_per_second: of('requests_per_second'),
      bytes_per_second: of('bytes_per_second'),
      receive_buffer_bytes: of('receive_buffer_bytes'),
    };
  }
}

/** The shares of one principal. */
class PrincipalTraffic implements Traffic {
  readonly #shares: TrafficShares;
  readonly #readers = new Map<Throttled, Attached>();
  /** Refusals and delays since the start. */
  readonly refused = {
    connections: 0,
    in_flight: 0,
    requests_per_second: 0,
    bytes_per_second: 0,
    receive_buffer_bytes: 0,
  };
  #principal: Principal;
  #limits: Own;
  #inFlight = 0;
  #incomplete = 0;
  /** Undefined: unlimited, and not part of the sum. */
  #requests: OwnRate | undefined;
  #bytes: OwnRate | undefined;
  /** Set while no link is read. */
  #timer: NodeJS.Timeout | undefined;

  constructor(shares: TrafficShares, principal: Principal) {
    this.#shares = shares;
    this.#principal = principal;
    this.#limits = ownLimits(principal, shares.limits);
    this.#apply();
  }

  /** Returns the principal's present usage of a share. */
  used(share: TrafficShare): number {
    if (share === 'connections') return this.#readers.size;
    if (share === 'in_flight') return this.#inFlight;
    if (share === 'receive_buffer_bytes') return this.#incomplete;
    return (share === 'requests_per_second' ? this.#requests : this.#bytes)?.used ?? 0;
  }

  update(principal: Principal): void {
    if (principal === this.#principal) return;
    this.#principal = principal;
    this.#limits = ownLimits(principal, this.#shares.limits);
    this.#apply();
  }

  #apply(): void {
    const { requests, bytes } = this.#shares;
    this.#requests = this.#rate(requests, 'requestsPerSecond', this.#requests);
    this.#bytes = this.#rate(bytes, 'bytesPerSecond', this.#bytes);
    for (const attached of this.#readers.values()) this.#measure(attached);
  }

  /** Returns a rate. Its used part stays used when the limit changes. */
  #rate(shared: SharedRate, key: 'requestsPerSecond' | 'bytesPerSecond', before: OwnRate | undefined) {
    if (this.#limits[key] === Number.POSITIVE_INFINITY) return undefined;
    return before ?? new OwnRate(shared, () => this.#limits[key], this.#shares.now);
  }

  /** Fails with `over_capacity` (`detail {share, limit, retry_after_ms}`) when the principal may have no further link. */
  mustHaveRoom(): void {
    const { maxConnections } = this.#limits;
    const { connections, limits } = this.#shares;
    const { size } = this.#readers;
    const isFull = connections >= limits.maxConnections && size >= this.#shares.equalPart(limits.maxConnections);
    if (size < maxConnections && !isFull) return;
    this.refused.connections += 1;
    throw this.#refusal('connections', Math.min(maxConnections, limits.maxConnections), CONNECTION_RETRY_MS);
  }

  join(reader: Throttled, link: Link): void {
    this.leave(reader);
    if (this.#readers.size === 0) this.#shares.active += 1;
    const attached = { link, incomplete: 0 };
    this.#shares.connections += 1;
    this.#readers.set(reader, attached);
    this.#measure(attached);
    if (this.#timer !== undefined) reader.throttle(true);
  }

  leave(reader: Throttled): void {
    const attached = this.#readers.get(reader);
    if (attached === undefined) return;
    attached.link.meter = undefined;
    this.#hold(attached, 0);
    this.#readers.delete(reader);
    this.#shares.connections -= 1;
    if (this.#readers.size === 0) this.#shares.active -= 1;
  }

  admit(exempt: boolean): HandfastError | undefined {
    if (this.#requests?.take() === false) {
      if (!exempt) return this.#tooMany('requests_per_second', this.#requests);
      this.#throttle('requests_per_second');
    }
    if (!exempt && this.#isFull) {
      this.refused.in_flight += 1;
      const { maxInFlight } = this.#limits;
      return this.#refusal('in_flight', Math.min(maxInFlight, this.#shares.limits.maxInFlight), REQUEST_RETRY_MS);
    }
    this.#start();
    return undefined;
  }

  /** Counts a request without a link, with a body of `bytes`: returns the reason to refuse it, or undefined. */
  admitAlone(bytes: number): HandfastError | undefined {
    if (this.#requests?.take() === false) return this.#tooMany('requests_per_second', this.#requests);
    if (this.#bytes?.take(bytes) === false) return this.#tooMany('bytes_per_second', this.#bytes);
    return undefined;
  }

  arrived(): void {
    if (this.#requests?.take() === false) this.#throttle('requests_per_second');
  }

  started(): boolean {
    const shared = !this.#isFull;
    this.#start();
    return shared;
  }

  ended(): void {
    this.#inFlight -= 1;
    this.#shares.inFlight -= 1;
  }

  #start(): void {
    this.#inFlight += 1;
    this.#shares.inFlight += 1;
  }

  get #isFull(): boolean {
    if (this.#inFlight >= this.#limits.maxInFlight) return true;
    const { inFlight, limits } = this.#shares;
    return inFlight >= limits.maxInFlight && this.#inFlight >= this.#shares.equalPart(limits.maxInFlight);
  }

  #tooMany(share: 'requests_per_second' | 'bytes_per_second', rate: OwnRate): HandfastError {
    this.refused[share] += 1;
    const { requestsPerSecond, bytesPerSecond } = this.#limits;
    const limit = share === 'bytes_per_second' ? bytesPerSecond : requestsPerSecond;
    return this.#refusal(share, limit, Math.max(REQUEST_RETRY_MS, rate.waitMs));
  }

  #refusal(share: TrafficShare, limit: number, retryAfterMs: number): HandfastError {
    return fail('over_capacity', `${this.#principal.name} has used up its share of ${share}`, {
      share,
      limit,
      retry_after_ms: retryAfterMs,
    });
  }

  /** Counts the bytes of a link, where they are limited. */
  #measure(attached: Attached): void {
    const isLimited = this.#bytes !== undefined || this.#limits.receiveBufferBytes !== Number.POSITIVE_INFINITY;
    if (!isLimited) this.#hold(attached, 0);
    attached.link.meter = isLimited ? (bytes, held) => this.#received(attached, bytes, held) : undefined;
  }

  #received(attached: Attached, bytes: number, incomplete: number): void {
    if (incomplete !== attached.incomplete && !this.#hold(attached, incomplete)) {
      this.refused.receive_buffer_bytes += 1;
      this.#hold(attached, 0);
      return attached.link.destroy('over_capacity: the share of receive_buffer_bytes is used up');
    }
    if (this.#bytes?.spend(bytes) === false) this.#throttle('bytes_per_second');
  }

  /** Counts the incomplete message of a link. False: it has grown, and is too much. */
  #hold(attached: Attached, incomplete: number): boolean {
    const change = incomplete - attached.incomplete;
    attached.incomplete = incomplete;
    this.#incomplete += change;
    this.#shares.incomplete += change;
    if (change <= 0) return true;
    const { totalReceiveBufferBytes: total } = this.#shares.limits;
    if (this.#incomplete > this.#limits.receiveBufferBytes) return false;
    return this.#shares.incomplete <= total || this.#incomplete <= this.#shares.equalPart(total);
  }

  /** Reads no link of the principal until its shares have something left. */
  #throttle(share: TrafficShare): void {
    if (this.#timer !== undefined) return;
    this.refused[share] += 1;
    for (const reader of this.#readers.keys()) reader.throttle(true);
    this.#wait();
  }

  /** Waits some time, and again while a debt is larger. */
  #wait(): void {
    const waitMs = Math.max(this.#requests?.waitMs ?? 0, this.#bytes?.waitMs ?? 0);
    if (waitMs > 0) {
      const delayMs = Math.min(Math.max(waitMs, MIN_PAUSE_MS), MAX_WAIT_MS);
      this.#timer = setTimeout(() => this.#wait(), delayMs).unref();
      return;
    }
    this.#timer = undefined;
    for (const reader of [...this.#readers.keys()]) reader.throttle(false);
  }
}

/** Returns a number of each principal, if it is not 0, and their sum. */
function counted(
  principals: ReadonlyMap<string, PrincipalTraffic>,
  count: (traffic: PrincipalTraffic) => number,
): { readonly sum: number; readonly each: readonly (readonly [string, number])[] } {
  const each = [...principals].map(([name, traffic]) => [name, count(traffic)] as const).filter(([, n]) => n > 0);
  return { sum: each.reduce((sum, [, n]) => sum + n, 0), each };
}

/** A link of a principal, and the amount of an incomplete message that it holds. */
interface Attached {
  readonly link: Link;
  incomplete: number;
}

/** The limits of one principal. */
type Own = Required<
  Pick<
    NonNullable<Principal['limits']>,
    'maxConnections' | 'maxInFlight' | 'requestsPerSecond' | 'bytesPerSecond' | 'receiveBufferBytes'
  >
>;

/** Administrators have only the limits they were given themselves: they could change the others. */
function ownLimits({ admin, limits = {} }: Principal, host: TrafficLimits): Own {
  const limit = (own: number | undefined, share: number): number =>
    own ?? (admin === true ? Number.POSITIVE_INFINITY : share);
  return {
    maxConnections: limit(limits.maxConnections, host.maxConnectionsPerPrincipal),
    maxInFlight: limit(limits.maxInFlight, host.maxInFlightPerPrincipal),
    requestsPerSecond: limit(limits.requestsPerSecond, host.requestsPerSecond),
    bytesPerSecond: limit(limits.bytesPerSecond, host.bytesPerSecond),
    receiveBufferBytes: limit(limits.receiveBufferBytes, host.receiveBufferBytes),
  };
}
