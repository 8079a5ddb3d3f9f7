/**
 * Holds the owners of sessions in the SQLite journal to their shares. The stored amount of each owner is a row of the
 * file, changed in the transaction that changes the sessions, so that it is known at the start without reading them.
 *
 * Past a share the owner's oldest sessions that have ended are dropped, the last of them in part; then its living ones
 * lose their oldest entries, first those of the session with the oldest last write. It runs a slice per turn of the
 * event loop, like `expiry.ts`.
 */
import { type Account, type Amount, JournalShares } from '../shares.ts';
import type { JournalRows, OwnedSession } from './rows.ts';
import { Slices } from './slices.ts';

/** Members of the store that eviction uses. All except `failed` may throw errors of SQLite. */
export interface EvictionSource {
  /** Returns true for a session that must stay, with fewer entries: it lives, or is being read. */
  lives(session: OwnedSession): boolean;
  /** Forgets sessions in one transaction. False when that could not be done. */
  drop(sessions: readonly string[]): boolean;
  /** Evicts at least so much of the oldest entries of a session. False when that could not be done. */
  shrink(session: string, amount: Amount): boolean;
  failed(thrown: unknown): void;
}

/** Sessions dropped or shrunk in one turn. */
const SLICE_SESSIONS = 16;
/** After an eviction that found nothing, milliseconds. */
const REST_MS = 1000;

/** An eviction that runs. */
interface Plan {
  readonly account: Account;
  /** The owner's amounts at the end of the eviction. */
  readonly goal: Amount;
  readonly left: OwnedSession[];
}

export class OwnerShares {
  readonly #rows: JournalRows;
  readonly #shares: JournalShares;
  readonly #source: EvictionSource;
  readonly #now: () => number;
  /** Changes of the open transaction. */
  readonly #changes = new Map<Account, { bytes: number; entries: number }>();
  readonly #slices: Slices;
  #restUntil = 0;

  /** Throws errors of SQLite. @param now counts milliseconds */
  constructor(rows: JournalRows, source: EvictionSource, now: () => number, shares = new JournalShares()) {
    this.#rows = rows;
    this.#shares = shares;
    this.#source = source;
    this.#now = now;
    this.#slices = new Slices((thrown) => source.failed(thrown));
    for (const { owner, bytes, entries } of rows.usage()) shares.add(shares.account(owner), bytes, entries);
  }

  stop(): void {
    this.#slices.stop();
  }

  /** Records that the open transaction changes the amounts of an owner. */
  change(owner: string, { bytes, entries }: Amount): void {
    if (owner === '') return;
    const account = this.#shares.account(owner);
    const change = this.#changes.get(account) ?? { bytes: 0, entries: 0 };
    change.bytes += bytes;
    change.entries += entries;
    this.#changes.set(account, change);
  }

  /** Records that the open transaction removes a session. */
  remove(session: string): void {
    const share = this.#rows.shareOf(session);
    if (share !== undefined) this.change(share.owner, { bytes: -share.bytes, entries: -share.entries });
  }

  /** Writes the changes, inside the open transaction. */
  write(): void {
    for (const [{ owner, bytes, entries }, change] of this.#changes) {
      this.#rows.putUsage(owner, { bytes: bytes + change.bytes, entries: entries + change.entries });
    }
  }

  /** Handles the end of the transaction: it committed, or none of it happened. */
  settle(committed: boolean): void {
    for (const [account, { bytes, entries }] of this.#changes) {
      if (committed) this.#shares.add(account, bytes, entries);
      if (account.entries === 0) this.#shares.drop(account);
      else if (committed && entries > 0) this.#check(account);
    }
    this.#changes.clear();
  }

  #check(account: Account): void {
    if (this.#slices.waiting || this.#now() < this.#restUntil || this.#shares.excess(account) === undefined) return;
    this.#slices.next(() => this.#start(account));
  }

  #start(changed: Account): void {
    const excess = this.#shares.excess(changed);
    if (excess === undefined) return;
    const { account, amount } = excess;
    const plan: Plan = {
      account,
      goal: { bytes: account.bytes - amount.bytes, entries: account.entries - amount.entries },
      left: this.#oldest(account.owner, amount),
    };
    if (plan.left.length === 0) this.#restUntil = this.#now() + REST_MS;
    this.#slice(plan);
  }

  /** Sessions that have ended, the oldest first, as many as make up `amount`; where they do not, the living ones after them. */
  #oldest(owner: string, { bytes, entries }: Amount): OwnedSession[] {
    const ended: OwnedSession[] = [];
    const living: OwnedSession[] = [];
    const missing = { bytes, entries };
    for (const session of this.#rows.ownedBy(owner)) {
      if (this.#source.lives(session)) {
        living.push(session);
        continue;
      }
      ended.push(session);
      missing.bytes -= session.bytes;
      missing.entries -= session.entries;
      if (missing.bytes <= 0 && missing.entries <= 0) return ended;
    }
    return [...ended, ...living];
  }

  /** Evicts from the next few sessions, and continues in the next turn. */
  #slice(plan: Plan): void {
    const { account, goal, left } = plan;
    const before = account.entries;
    const ended: string[] = [];
    const missing = { bytes: account.bytes - goal.bytes, entries: account.entries - goal.entries };
    for (let count = 0; count < SLICE_SESSIONS; count += 1) {
      if (missing.bytes <= 0 && missing.entries <= 0) break;
      const session = left.shift();
      if (session === undefined) break;
      const isWhole = session.bytes <= missing.bytes || session.entries <= missing.entries;
      // Between two slices a client may have used a session again.
      if (isWhole && !this.#source.lives(session)) ended.push(session.session);
      else if (!this.#source.shrink(session.session, { ...missing })) return;
      missing.bytes -= session.bytes;
      missing.entries -= session.entries;
    }
    if (ended.length > 0 && !this.#source.drop(ended)) return;
    this.#shares.evicted(before - account.entries);
    if ((account.bytes <= goal.bytes && account.entries <= goal.entries) || left.length === 0) return;
    this.#slices.next(() => this.#slice(plan));
  }
}
