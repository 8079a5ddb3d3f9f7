/**
 * The amounts that owners store in a journal, and the choice of the owner whose oldest entries are evicted past a
 * limit. An owner is the principal of a session. Past its own share an owner loses its own entries; past the sum of
 * all, the owner with most loses them.
 *
 * Both journals enforce these shares; `GET /status` shows them.
 */
import { type ShareUsage, shareUsage } from '../base/share-usage.ts';

/** Bytes of bodies, and entries. */
export interface Amount {
  readonly bytes: number;
  readonly entries: number;
}

export interface JournalShareLimits {
  /** Of one owner. */
  readonly perOwner: Amount;
  /** Of all together. */
  readonly total: Amount;
}

/** The stored amounts of one owner. */
export interface Account {
  readonly owner: string;
  bytes: number;
  entries: number;
}

/** An owner, and the least amount of its oldest entries that must be evicted. */
export interface Excess {
  readonly account: Account;
  readonly amount: Amount;
}

const ANY: Amount = { bytes: Number.POSITIVE_INFINITY, entries: Number.POSITIVE_INFINITY };

/** Divisor of the limit for the amount evicted at a time: so that searching the oldest sessions is rare. */
const STEP_SHARE = 8;

export class JournalShares {
  readonly #limits: JournalShareLimits;
  readonly #accounts = new Map<string, Account>();
  readonly #total = { bytes: 0, entries: 0 };
  #evicted = 0;

  /** @param limits without them it only counts */
  constructor(limits: JournalShareLimits = { perOwner: ANY, total: ANY }) {
    this.#limits = limits;
  }

  /** Returns the account of an owner. An empty account may be dropped with {@link drop}. */
  account(owner: string): Account {
    let account = this.#accounts.get(owner);
    if (account === undefined) {
      account = { owner, bytes: 0, entries: 0 };
      this.#accounts.set(owner, account);
    }
    return account;
  }

  /** Drops the account of an owner without sessions. */
  drop({ owner }: Account): void {
    this.#accounts.delete(owner);
  }

  /** Adds to the amounts of an owner, or subtracts. */
  add(account: Account, bytes: number, entries: number): void {
    account.bytes += bytes;
    account.entries += entries;
    this.#total.bytes += bytes;
    this.#total.entries += entries;
  }

  /** Entries were evicted for a share. */
  evicted(entries: number): void {
    this.#evicted += entries;
  }

  /**
   * Returns the owner that must lose entries, and the amount, after `changed` grew; undefined when all are within their
   * limits.
   */
  excess(changed: Account): Excess | undefined {
    const { perOwner, total } = this.#limits;
    if (isOver(changed, perOwner)) return { account: changed, amount: stepOf(changed, perOwner) };
    if (!isOver(this.#total, total)) return undefined;
    const measure = this.#total.bytes > total.bytes ? 'bytes' : 'entries';
    let account = changed;
    for (const each of this.#accounts.values()) if (each[measure] > account[measure]) account = each;
    const { bytes, entries } = stepOf(this.#total, total);
    // The largest is brought a step below an equal part at most; then another one is the largest.
    const part = (limit: number): number => (limit / this.#accounts.size) * (1 - 1 / STEP_SHARE);
    return {
      account,
      amount: {
        bytes: Math.min(bytes, Math.max(0, account.bytes - part(total.bytes))),
        entries: Math.min(entries, Math.max(0, account.entries - part(total.entries))),
      },
    };
  }

  get usage(): Readonly<Record<'journal_bytes' | 'journal_entries', ShareUsage & { readonly evicted: number }>> {
    const of = (measure: 'bytes' | 'entries') => ({
      ...shareUsage(
        this.#total[measure],
        0,
        this.#accounts.values().map((account) => [account.owner, account[measure]] as const),
      ),
      evicted: this.#evicted,
    });
    return { journal_bytes: of('bytes'), journal_entries: of('entries') };
  }
}

const isOver = (has: Amount, most: Amount): boolean => has.bytes > most.bytes || has.entries > most.entries;

/** Returns the amount whose removal brings the stored amount one step below a limit. */
const stepOf = (has: Amount, most: Amount): Amount => ({
  bytes: has.bytes > most.bytes ? has.bytes - most.bytes + most.bytes / STEP_SHARE : 0,
  entries: has.entries > most.entries ? has.entries - most.entries + most.entries / STEP_SHARE : 0,
});
