/**
 * The in-memory journal: a ring for each session under the contract of `journal.ts`; nothing of it outlives the process.
 * All its entries are volatile, for both durabilities.
 */
import { type Followable, Follower } from './follow.ts';
import {
  DEFAULT_RETENTION,
  type Durability,
  type Gap,
  type Journal,
  type JournalEntry,
  type JournalSession,
  type NewEntry,
  type Page,
  type Retention,
} from './journal.ts';
import { follows, journalClosed, outOfOrder, refuse } from './refusals.ts';
import { SessionRing } from './ring.ts';
import type { Account, Excess, JournalShares } from './shares.ts';

/** Entries a follower reads from its session at a time. They stay in memory while its reader pauses. */
const FOLLOW_PAGE = 16;

/** Returns a journal that lives and dies with the process. `append` returns `undefined`, since no wait is needed. */
export function memoryJournal(options: { retention?: Partial<Retention> } = {}): Journal {
  return new MemoryJournal({ ...DEFAULT_RETENTION, ...options.retention }, undefined);
}

/** Returns the same journal, with shares enforced for the owners of sessions. */
export function sharedMemoryJournal(retention: Retention, shares: JournalShares): Journal {
  return new MemoryJournal(retention, shares);
}

class MemorySession implements Followable {
  readonly ring: SessionRing;
  /** The owner; `''` = no owner. */
  owner = '';
  /** Null without followers: all that an append has to check. */
  followers: Set<Follower> | null = null;
  /** Number of this session's last append in the whole journal; orders `sessions()`. */
  written = 0;
  /** Of its owner; undefined when it counts in no share. */
  account: Account | undefined;
  /** The part of it that is in the account. */
  bytes = 0;
  entries = 0;
  readonly #abandoned: () => void;

  /** @param abandoned called when the last follower left and no entry was ever written */
  constructor(retention: Retention, abandoned: () => void) {
    this.ring = new SessionRing(retention);
    this.#abandoned = abandoned;
  }

  page(after: number, limit = FOLLOW_PAGE): Page {
    const { ring } = this;
    return { entries: ring.after(after, limit), gap: ring.gap(after), last: ring.last };
  }

  join(follower: Follower): void {
    this.followers ??= new Set();
    this.followers.add(follower);
  }

  leave(follower: Follower): void {
    this.followers?.delete(follower);
    if (this.followers?.size !== 0) return;
    this.followers = null;
    if (this.ring.last === 0) this.#abandoned();
  }

  end(): void {
    for (const follower of this.followers ?? []) follower.end();
  }
}

class MemoryJournal implements Journal {
  readonly #retention: Retention;
  readonly #shares: JournalShares | undefined;
  /** The sessions that count in each account. */
  readonly #counted = new Map<Account, Set<MemorySession>>();
  readonly #sessions = new Map<string, MemorySession>();
  #appends = 0;
  #closed = false;

  constructor(retention: Retention, shares: JournalShares | undefined) {
    this.#retention = retention;
    this.#shares = shares;
  }

  /** Always 0: every write succeeds here. */
  readonly volatileFailures = 0;

  append(
    session: string,
    entries: readonly NewEntry[],
    durability?: Durability,
    owner?: string,
  ): Promise<void> | undefined {
    if (this.#closed) return refuse(journalClosed(), durability);
    let held = this.#sessions.get(session);
    // All are checked before one is pushed: a batch is stored whole or not at all.
    let last = held === undefined ? 0 : held.ring.last;
    for (const entry of entries) {
      if (!follows(entry.cursor, last)) return refuse(outOfOrder(entry.cursor, last), durability);
      last = entry.cursor;
    }
    if (entries.length === 0) return undefined;
    held ??= this.#create(session);
    if (held.ring.last === 0) held.owner = owner ?? '';
    for (const entry of entries) held.ring.push(entry);
    this.#appends += 1;
    held.written = this.#appends;
    if (owner !== undefined && this.#shares !== undefined) this.#charge(held, owner, this.#shares);
    if (held.followers !== null) for (const follower of held.followers) follower.wake();
    return undefined;
  }

  async read(session: string, after: number, limit = 256): Promise<Page> {
    if (this.#closed) throw journalClosed();
    return this.#sessions.get(session)?.page(Math.max(0, after), limit) ?? { entries: [], last: 0 };
  }

  follow(session: string, after: number, signal?: AbortSignal): AsyncIterable<JournalEntry | Gap> {
    const open = () => {
      if (this.#closed) throw journalClosed();
      return this.#sessions.get(session) ?? this.#create(session);
    };
    return new Follower(open, after, signal);
  }

  async sessions(limit = 256, owner?: string): Promise<readonly JournalSession[]> {
    if (this.#closed) throw journalClosed();
    return [...this.#sessions]
      .filter(([, session]) => session.ring.last > 0 && (owner === undefined || session.owner === owner))
      .sort(([, one], [, other]) => other.written - one.written)
      .slice(0, Math.max(0, limit))
      .map(([session, { ring, owner }]) => ({
        session,
        first: ring.first,
        last: ring.last,
        bytes: ring.bytes,
        ...(owner !== '' && { owner }),
      }));
  }

  owner(session: string): string | undefined {
    return this.#sessions.get(session)?.owner || undefined;
  }

  async delete(session: string): Promise<void> {
    if (this.#closed) throw journalClosed();
    const held = this.#sessions.get(session);
    this.#sessions.delete(session);
    if (held?.account !== undefined) this.#discharge(held, held.account);
    held?.end();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const held = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const session of held) session.end();
  }

  /** Counts the present size of a session in the share of its owner, and evicts if that is too much. */
  #charge(held: MemorySession, owner: string, shares: JournalShares): void {
    if (held.account === undefined) {
      held.account = shares.account(owner);
      const others = this.#counted.get(held.account);
      if (others === undefined) this.#counted.set(held.account, new Set([held]));
      else others.add(held);
    }
    this.#recount(held, shares);
    for (let excess = shares.excess(held.account); excess !== undefined; excess = shares.excess(held.account)) {
      if (!this.#relieve(excess, shares)) return;
    }
  }

  #recount(held: MemorySession, shares: JournalShares): void {
    const { ring, account } = held;
    if (account === undefined) return;
    shares.add(account, ring.bytes - held.bytes, ring.length - held.entries);
    held.bytes = ring.bytes;
    held.entries = ring.length;
  }

  /**
   * Evicts the oldest entries of an owner: first those of the session whose last write is the oldest. Returns false
   * when none are left.
   */
  #relieve({ account, amount }: Excess, shares: JournalShares): boolean {
    const { bytes, entries } = account;
    const oldest = [...(this.#counted.get(account) ?? [])].sort((one, other) => one.written - other.written);
    for (const session of oldest) {
      const missing = {
        bytes: amount.bytes - (bytes - account.bytes),
        entries: amount.entries - (entries - account.entries),
      };
      if (missing.bytes <= 0 && missing.entries <= 0) break;
      const { ring } = session;
      ring.retain({
        maxBytes: Math.max(0, ring.bytes - missing.bytes),
        maxEntries: Math.max(0, ring.length - missing.entries),
      });
      this.#recount(session, shares);
    }
    shares.evicted(entries - account.entries);
    return account.entries < entries;
  }

  /** Removes a session without entries from the account. */
  #discharge(held: MemorySession, account: Account): void {
    this.#shares?.add(account, -held.bytes, -held.entries);
    const others = this.#counted.get(account);
    others?.delete(held);
    if (others?.size !== 0) return;
    this.#counted.delete(account);
    this.#shares?.drop(account);
  }

  /**
   * Creates a session. A session that is followed before it was written to is stored here too; it is removed when its
   * last follower leaves.
   */
  #create(session: string): MemorySession {
    const created = new MemorySession(this.#retention, () => this.#sessions.delete(session));
    this.#sessions.set(session, created);
    return created;
  }
}
