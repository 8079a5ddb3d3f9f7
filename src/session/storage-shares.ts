/**
 * How many bytes of events the journal stores for each principal, and the refusal of those that have used up their share.
 *
 * Made by `sessions.ts`. The sums are read from the journal at the start (`recovery.ts`), grow with each event
 * (`open-session.ts`), and shrink when a session is deleted; so a restart forgives nothing.
 */
import { type ShareUsage, shareUsage } from '../base/share-usage.ts';
import { fail } from '../wire/errors.ts';
import type { Principal } from './principal.ts';
import { mayStore } from './shares.ts';

export interface StorageLimits {
  /** Bytes of one principal that has no limit of its own. */
  readonly storedBytes: number;
  /** Bytes of all together: past that, principals with more than an equal part are refused. */
  readonly totalStoredBytes: number;
}

/** Retry delay in a refusal, milliseconds. Waiting alone does not help; its message says what does. */
const RETRY_AFTER_MS = 60_000;

export class StorageShares {
  readonly #limits: StorageLimits;
  readonly #sessions = new Map<string, { readonly owner: string; bytes: number }>();
  readonly #owners = new Map<string, number>();
  #bytes = 0;
  #refused = 0;

  constructor(limits: StorageLimits) {
    this.#limits = limits;
  }

  get usage(): ShareUsage {
    return shareUsage(this.#bytes, this.#refused, this.#owners);
  }

  /** The journal stores so many more bytes of a session. */
  add(session: string, owner: string, bytes: number): void {
    const known = this.#sessions.get(session);
    if (known === undefined) this.#sessions.set(session, { owner, bytes });
    else known.bytes += bytes;
    this.#owners.set(owner, (this.#owners.get(owner) ?? 0) + bytes);
    this.#bytes += bytes;
  }

  delete(session: string): void {
    const known = this.#sessions.get(session);
    if (known === undefined) return;
    this.#sessions.delete(session);
    this.#bytes -= known.bytes;
    const left = (this.#owners.get(known.owner) ?? 0) - known.bytes;
    if (left > 0) this.#owners.set(known.owner, left);
    else this.#owners.delete(known.owner);
  }

  /** Fails with `over_capacity` for a principal that may store nothing more. */
  mustHaveRoom({ name, limits }: Principal): void {
    const used = this.#owners.get(name) ?? 0;
    const own = limits?.storedBytes ?? this.#limits.storedBytes;
    const stored = { bytes: this.#bytes, owners: this.#owners.size };
    const most = mayStore(stored, { own, total: this.#limits.totalStoredBytes });
    if (used < most) return;
    this.#refused += 1;
    throw fail('over_capacity', 'the sessions of this principal store too much; delete some (session.delete)', {
      stored_bytes: used,
      limit_bytes: Math.floor(most),
      retry_after_ms: RETRY_AFTER_MS,
    });
  }
}
