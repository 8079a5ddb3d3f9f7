/**
 * A key that its holder must renew before its ttl ends: the holder's revision, when the server confirmed it last, and one
 * renewal at a time. A renewal without a reply is repeated with the same value, which the bucket recognises as the holder's.
 *
 * The lease of a task (`leases.ts`) and the leader lease of an orchestrator (`leader-lease.ts`) are such keys.
 * @see docs/nats.md#leases
 */
import type { Bucket } from './bucket.ts';

export interface RenewedKeyOptions {
  readonly bucket: Bucket;
  readonly key: string;
  readonly ttlS: number;
  /** The value after a number of renewals. Values of different holders, and of different renewals, must differ. */
  readonly value: (renewals: number) => Uint8Array;
  /** True: writes the key again when it has expired. Default false: an expired key is lost. */
  readonly restores?: boolean;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
}

export class RenewedKey {
  readonly #options: RenewedKeyOptions;
  #revision: number;
  #confirmedAt: number;
  #renewals = 0;
  #lost = false;
  #renewing: Promise<boolean> | undefined;

  /** @param revision that of `value(0)` @param confirmedAt when the server had it for certain, by the same clock */
  constructor(options: RenewedKeyOptions, revision: number, confirmedAt: number) {
    this.#options = options;
    this.#revision = revision;
    this.#confirmedAt = confirmedAt;
  }

  /** True when the server has confirmed it within `ms` milliseconds. */
  confirmedWithin(ms: number): boolean {
    return !this.#lost && this.#options.monotonic() - this.#confirmedAt < ms;
  }

  /** Renews it, for a quarter of its ttl at most. False: another holder has it. Rejects when that is not known. */
  renew(): Promise<boolean> {
    // Two renewals at a time would conflict with each other.
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  /** Deletes the key if this holder still has it. Never rejects. */
  async release(): Promise<void> {
    await this.#renewing?.catch(() => {});
    if (!this.#lost) this.#options.bucket.release(this.#options.key, this.#revision);
    this.#lost = true;
  }

  async #renew(): Promise<boolean> {
    if (this.#lost) return false;
    const { bucket, key, ttlS, restores, monotonic } = this.#options;
    const value = this.#options.value(this.#renewals + 1);
    const withinMs = (ttlS * 1000) / 4;
    const askedAt = monotonic();
    let revision = await bucket.update(key, value, this.#revision, withinMs);
    if (revision === undefined && restores === true) revision = await bucket.create(key, value, withinMs);
    if (revision === undefined) {
      this.#lost = true;
      return false;
    }
    this.#renewals += 1;
    this.#revision = revision;
    this.#confirmedAt = askedAt;
    return true;
  }
}
