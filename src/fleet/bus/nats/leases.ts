/**
 * The right to run an attempt of a task, decided by the server: a lease that must be renewed, whose revision is the fence, and
 * a claim that stays. The lease prevents two at a time; the claim prevents a second start of an attempt, also after the lease
 * has ended, when the server lost the acknowledgement, and wherever the dispatch is redelivered.
 *
 * No clock of this machine is compared with another's: ages are the server's, waits are this machine's.
 * @see docs/nats.md#leases
 */
import type { Lease } from '../reply-channel.ts';
import type { Bucket } from './bucket.ts';
import { RenewedKey } from './renewed-key.ts';
import { tokenOf } from './subjects.ts';

/** The value of a task's lease. */
export interface LeaseValue {
  readonly task_id: string;
  readonly agent: string;
  readonly incarnation: string;
  readonly attempt: number;
  readonly ttl_s: number;
  /** Number of its renewals: no two values of one holder are alike. */
  readonly renewed: number;
}

/** The worker that started an attempt. */
interface ClaimValue {
  readonly agent: string;
  readonly incarnation: string;
  readonly attempt: number;
}

/** The outcome of acquiring a lease. */
export type LeaseOutcome =
  | { readonly kind: 'taken'; readonly lease: HeldLease }
  /** Another worker has it for the same attempt. */
  | { readonly kind: 'held'; readonly agent: string }
  /** A later attempt has it, or had it. */
  | { readonly kind: 'stale'; readonly attempt: number };

const text = (value: object): Uint8Array => Buffer.from(JSON.stringify(value));

/** The longest of the configuration. */
const MAX_TTL_S = 86_400;

/** Reads a lease; undefined when the value is not a lease of this protocol. */
export function readLease(value: Uint8Array | undefined): LeaseValue | undefined {
  return readObject<LeaseValue>(
    value,
    ({ task_id, ttl_s, renewed }) =>
      typeof task_id === 'string' &&
      Number.isFinite(ttl_s) &&
      ttl_s > 0 &&
      ttl_s <= MAX_TTL_S &&
      Number.isSafeInteger(renewed),
  );
}

/** Reads a claim; undefined when the value is not a claim of this protocol. */
export const readClaim = (value: Uint8Array | undefined): ClaimValue | undefined => readObject<ClaimValue>(value);

function readObject<T extends ClaimValue>(
  value: Uint8Array | undefined,
  more: (found: T) => boolean = () => true,
): T | undefined {
  if (value === undefined) return undefined;
  try {
    const found = JSON.parse(Buffer.from(value).toString()) as T | null;
    const good =
      typeof found?.agent === 'string' &&
      typeof found.incarnation === 'string' &&
      Number.isSafeInteger(found.attempt) &&
      found.attempt >= 0 &&
      more(found);
    return good ? found : undefined;
  } catch {
    return undefined;
  }
}

/** How long a claim is tried at least; else while the lease certainly holds. */
const MIN_CLAIM_MS = 10_000;
/** Conflicts between two workers before one stops for now. */
const TRIES = 8;

export interface LeaseOptions {
  readonly leases: Bucket;
  readonly journal: Bucket;
  readonly agent: string;
  readonly incarnation: string;
  readonly ttlS: number;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
}

export class Leases {
  readonly #options: LeaseOptions;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /**
   * Acquires the lease of a task. A later attempt takes it over from an earlier one: an orchestrator sends one only when it
   * has abandoned the other. Fails with `unreachable` or `timeout` when the server does not answer.
   */
  async acquire(taskId: string, attempt: number): Promise<LeaseOutcome> {
    const { leases, agent, incarnation, ttlS } = this.#options;
    const key = tokenOf(taskId);
    const value: LeaseValue = { task_id: taskId, agent, incarnation, attempt, ttl_s: ttlS, renewed: 0 };
    for (let tries = 0; tries < TRIES; tries++) {
      const made = await leases.create(key, text(value));
      if (made !== undefined) return { kind: 'taken', lease: new HeldLease(key, value, made, this.#options) };
      const entry = await leases.get(key);
      if (entry === undefined) continue;
      const held = readLease(entry.value);
      if (held === undefined) leases.setAside(key, 'not a lease; replaced');
      if (held !== undefined && held.attempt > attempt) return { kind: 'stale', attempt: held.attempt };
      if (held?.attempt === attempt && held.agent !== agent) return { kind: 'held', agent: held.agent };
      const taken = await leases.update(key, text(value), entry.revision);
      if (taken !== undefined) return { kind: 'taken', lease: new HeldLease(key, value, taken, this.#options) };
    }
    return { kind: 'held', agent: '' };
  }

  /** Returns whether any worker claimed this attempt, or a later one. */
  async isClaimed(taskId: string, attempt: number): Promise<boolean> {
    const claimed = readClaim((await this.#options.journal.get(tokenOf(taskId)))?.value);
    return claimed !== undefined && claimed.attempt >= attempt;
  }

  /**
   * Claims an attempt for good. False: it was started elsewhere, or by an earlier incarnation of this worker, or a later
   * attempt was. After false the attempt must not be started.
   */
  async claim(taskId: string, attempt: number): Promise<boolean> {
    const { journal, agent, incarnation, ttlS } = this.#options;
    const key = tokenOf(taskId);
    const value = text({ agent, incarnation, attempt } satisfies ClaimValue);
    // Where its outcome stays unknown, another worker may get the dispatch and find a claim: no worker starts it then.
    const withinMs = Math.max(MIN_CLAIM_MS, (ttlS * 1000 * 2) / 3);
    for (let tries = 0; tries < TRIES; tries++) {
      if ((await journal.create(key, value, withinMs)) !== undefined) return true;
      const entry = await journal.get(key);
      if (entry === undefined) continue;
      const claimed = readClaim(entry.value);
      if (claimed === undefined) journal.setAside(key, 'not a claim; replaced');
      if (claimed !== undefined && claimed.attempt >= attempt) {
        return claimed.attempt === attempt && claimed.agent === agent && claimed.incarnation === incarnation;
      }
      if ((await journal.update(key, value, entry.revision, withinMs)) !== undefined) return true;
    }
    return false;
  }
}

/** A lease this worker has. */
export class HeldLease implements Lease {
  readonly fence: number;
  readonly ttlS: number;
  readonly #key: RenewedKey;

  constructor(key: string, value: LeaseValue, revision: number, options: LeaseOptions) {
    const { leases: bucket, monotonic = () => performance.now() } = options;
    this.fence = revision;
    this.ttlS = value.ttl_s;
    const renewed = (renewals: number): Uint8Array => text({ ...value, renewed: renewals } satisfies LeaseValue);
    this.#key = new RenewedKey({ bucket, key, ttlS: this.ttlS, value: renewed, monotonic }, revision, monotonic());
  }

  /** True while no other worker can have it, as far as known without a request. */
  get fresh(): boolean {
    return this.#key.confirmedWithin(this.ttlS * 500);
  }

  renew(): Promise<boolean> {
    return this.#key.renew();
  }

  release(): Promise<void> {
    return this.#key.release();
  }
}
