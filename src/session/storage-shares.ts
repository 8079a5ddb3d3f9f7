/**
 * The bytes that are stored for each principal and that only the principal deletes: events of its sessions, state and
 * files of plugins. Refuses principals that have used up their share.
 *
 * The sums are read from the stores at the start (`recovery.ts`, `host/store/database.ts`), grow with each write, and
 * shrink with each deletion; so a restart clears no debt.
 */
import { type ShareUsage, shareUsage } from '../base/share-usage.ts';
import { fail } from '../wire/errors.ts';
import type { Principal } from './principal.ts';
import { mayStore } from './shares.ts';

export interface StorageLimits {
  /** Bytes of one principal without its own limit. */
  readonly storedBytes: number;
  /** Bytes of all together: past that, principals with more than an equal part are refused. */
  readonly totalStoredBytes: number;
}

/** Members of a principal that are used. */
type Owner = Pick<Principal, 'name' | 'limits'>;

/** Retry delay in a refusal, milliseconds. Waiting alone does not help; its message names the remedy. */
const RETRY_AFTER_MS = 60_000;

export class StorageShares {
  readonly #limits: StorageLimits;
  /** By session, or by part of the state of a plugin. */
  readonly #items = new Map<string, { readonly owner: string; bytes: number }>();
  readonly #owners = new Map<string, number>();
  #bytes = 0;
  #refused = 0;

  constructor(limits: StorageLimits) {
    this.#limits = limits;
  }

  get usage(): ShareUsage {
    return shareUsage(this.#bytes, this.#refused, this.#owners);
  }

  /** Adds bytes to the stored size of an item, or subtracts them. */
  add(item: string, owner: string, bytes: number): void {
    const known = this.#items.get(item);
    if (known === undefined) this.#items.set(item, { owner, bytes });
    else known.bytes += bytes;
    this.#owners.set(owner, (this.#owners.get(owner) ?? 0) + bytes);
    this.#bytes += bytes;
  }

  delete(item: string): void {
    const known = this.#items.get(item);
    if (known === undefined) return;
    this.#items.delete(item);
    this.#bytes -= known.bytes;
    const left = (this.#owners.get(known.owner) ?? 0) - known.bytes;
    if (left > 0) this.#owners.set(known.owner, left);
    else this.#owners.delete(known.owner);
  }

  /** Replaces the earlier estimate for an item by its stored size. */
  set(item: string, owner: string, bytes: number): void {
    this.delete(item);
    if (bytes > 0) this.add(item, owner, bytes);
  }

  /** Returns the bytes that may be stored of an item, beside all other items of its owner. */
  most(item: string, owner: Owner): number {
    const { used, most } = this.#room(owner);
    return Math.max(0, Math.floor(most - used)) + (this.#items.get(item)?.bytes ?? 0);
  }

  #room({ name, limits }: Owner): { readonly used: number; readonly most: number } {
    const own = limits?.storedBytes ?? this.#limits.storedBytes;
    const stored = { bytes: this.#bytes, owners: this.#owners.size };
    return {
      used: this.#owners.get(name) ?? 0,
      most: mayStore(stored, { own, total: this.#limits.totalStoredBytes }),
    };
  }

  /** Fails with `over_capacity` for a principal that may store nothing more. */
  mustHaveRoom(owner: Owner): void {
    const { name } = owner;
    const { used, most } = this.#room(owner);
    if (used < most) return;
    this.#refused += 1;
    throw fail(
      'over_capacity',
      `${name} stores too much; delete some sessions (session.delete) or what plugins store`,
      {
        stored_bytes: used,
        share: 'stored_bytes',
        limit_bytes: Math.floor(most),
        retry_after_ms: RETRY_AFTER_MS,
      },
    );
  }
}
