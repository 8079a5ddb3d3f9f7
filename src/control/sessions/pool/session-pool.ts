/**
 * The sessions of a server: all that exist, those that are loaded, and their owners. An idle session is unloaded after a while
 * and loaded again when it is used.
 */
import type { ShareUsage } from '../../../base/share-usage.ts';
import type { SessionEventPayloads } from '../../../protocol/session-events.ts';
import type { Principal } from '../../../session/principal.ts';
import { may, must, type SessionAction } from '../../../session/rights.ts';
import { SessionShare } from '../../../session/shares.ts';
import type { StorageShares } from '../../../session/storage-shares.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { OpenSession, type SessionDeps, streamOf } from '../log/open-session.ts';
import type { SessionRow } from '../store/store-catalogue.ts';
import { SessionTurns, type TurnDeps } from '../turns/session-turns.ts';
import { LiveSessions } from './live-sessions.ts';
import { type MemoryLimits, MemoryShare } from './memory-share.ts';

export interface PoolLimits extends MemoryLimits {
  /** Maximum number of sessions that are not closed. */
  readonly sessions: number;
  /** Sessions of one owner that is no administrator. */
  readonly perPrincipal: number;
  /** An idle session is unloaded after this many milliseconds. */
  readonly idleMs: number;
  /** Idle sessions past this many are unloaded at once. */
  readonly loaded: number;
}

/** At the limit of sessions, one that did not change for this long is closed. It can be loaded again. */
const STALE_MS = 24 * 60 * 60 * 1000;

/** A session that was not used for this long has a snapshot, though a long one may have got more entries since its last. */
const SNAPSHOT_MS = 60 * 1000;

/** Parts that the pool shares with its sessions, and the counter of their storage. */
export interface PoolDeps extends SessionDeps {
  readonly storage: StorageShares;
}

interface LoadedSession {
  readonly turns: SessionTurns;
  usedAt: number;
}

export class SessionPool {
  readonly parts: PoolDeps;
  /** The principal of a name. */
  readonly #ownerOf: (name: string) => Principal;
  readonly #turnParts: TurnDeps;
  readonly #limits: PoolLimits;
  /** Sessions in memory, the longest unused first. */
  readonly #loaded = new Map<string, LoadedSession>();
  /** Unloaded, but perhaps still referenced: a session must not exist twice. */
  readonly #unloaded = new Map<string, WeakRef<OpenSession>>();
  readonly #turns = new WeakMap<OpenSession, SessionTurns>();
  readonly #live = new LiveSessions();
  readonly #share: SessionShare;
  readonly #memory: MemoryShare;

  constructor(
    parts: Omit<PoolDeps, 'onLoad' | 'onUnstored' | 'unwritten'>,
    turnParts: TurnDeps,
    limits: PoolLimits,
    ownerOf: (name: string) => Principal,
  ) {
    this.#ownerOf = ownerOf;
    this.parts = {
      ...parts,
      unwritten: new Set(),
      onLoad: (session) => this.#wasLoaded(session),
      onUnstored: (session, error) => this.#turns.get(session)?.unstored(error),
    };
    this.#turnParts = turnParts;
    this.#limits = limits;
    this.#share = new SessionShare({ perPrincipal: limits.perPrincipal, total: limits.sessions });
    this.#memory = new MemoryShare(limits);
  }

  /** Ids of the sessions that are not closed, in the order of their creation; of one owner, or of all. */
  liveIds(owner?: string): string[] {
    return this.#live.ids(owner);
  }

  /** Returns the number of sessions that are not closed; of one owner, or of all. */
  liveCount(owner?: string): number {
    return this.#live.count(owner);
  }

  /** Sessions that are not closed, by owner. */
  get usage(): ShareUsage {
    return this.#share.usage(this.#live.size, this.#live.counts);
  }

  /** Returns sessions in memory. */
  loaded(): SessionTurns[] {
    return [...this.#loaded.values()].map(({ turns }) => turns);
  }

  /** Makes a session. Fails with `over_capacity`, or `interrupted` while the server ends. */
  async create(
    id: string,
    created: SessionEventPayloads['session.created'] & { owner: string },
  ): Promise<SessionTurns> {
    if (this.#turnParts.isEnding()) throw fail('interrupted', 'the server is ending');
    this.#mustHaveShare(created.owner);
    if (this.#live.size >= this.#limits.sessions) await this.#makeRoom();
    const session = OpenSession.fresh(id, this.parts);
    // Listed first: a client that gets the event may call at once.
    this.#live.add(id, created.owner);
    const turns = this.#use(session);
    session.emit('session.created', created);
    try {
      session.list();
    } catch (thrown) {
      await this.undo(turns);
      throw thrown;
    }
    return turns;
  }

  #mustHaveShare(owner: string): void {
    this.#share.mustHaveShare(this.#ownerOf(owner), this.#live.count(owner));
  }

  /** Fails with `over_capacity` when as many sessions are open as may be, in all or of this owner. */
  mustHaveRoom(owner?: string): void {
    if (owner !== undefined) this.#mustHaveShare(owner);
    this.#share.mustHaveRoom(this.#live.size, 'too many sessions are open; close some');
  }

  /** Adds a session that was read from the journal. */
  adopt(session: OpenSession): SessionTurns {
    this.noteLive(session);
    return this.#use(session);
  }

  /** Adds a stored session whose snapshot is up to date: it is loaded when it is first used. */
  know(id: string, owner: string): void {
    this.#live.add(id, owner);
  }

  /** Returns the session, without a check of its owner. Fails with `session_not_found`. */
  get(id: string): SessionTurns {
    const known = this.#loaded.get(id);
    if (known !== undefined) return this.#use(known.turns.session);
    const unloaded = this.#unloaded.get(id)?.deref();
    if (unloaded !== undefined) return this.#use(unloaded);
    const row = this.parts.store.catalogue.row(id);
    if (row === undefined) throw unknownSession(id);
    const session = OpenSession.stored(id, this.parts, row.cursor);
    // The approver knew the session by its old object.
    const turns = this.#use(session);
    this.#turnParts.approver.restore(session);
    return turns;
  }

  /**
   * Returns the session, if the principal may do this to it. Fails with `session_not_found`, also for one it may not read, and
   * with `unauthorized` for one it may read and no more.
   */
  getFor(principal: Principal, id: string, action: SessionAction): SessionTurns {
    const owner = this.ownerOf(id);
    if (owner === undefined || !may(principal, 'read', owner)) throw unknownSession(id);
    must(principal, action, owner);
    return this.get(id);
  }

  ownerOf(id: string): string | undefined {
    return this.#loaded.get(id)?.turns.session.record.owner ?? this.#live.ownerOf(id) ?? this.#row(id)?.owner;
  }

  /** Returns newest sequence number of a session that clients may know. Fails with `session_not_found`. */
  seqOf(id: string): number {
    const seq = this.#loaded.get(id)?.turns.session.publishedSeq ?? this.#row(id)?.seq;
    if (seq === undefined) throw unknownSession(id);
    return seq;
  }

  /** Brings the catalogue up to date, before it is asked. */
  listAll(): void {
    const changed = [...this.#loaded.values()].filter(({ turns }) => turns.session.unlisted);
    if (changed.length === 0) return;
    this.parts.store.catalogue.together(() => {
      for (const { turns } of changed) turns.session.list();
    });
  }

  /** Resolves when every entry of one session, or of all, was stored or could not be; undefined where that is so already. */
  settled(id?: string): Promise<unknown> | undefined {
    if (id !== undefined) return this.#loaded.get(id)?.turns.session.settled();
    const { unwritten } = this.parts;
    return unwritten.size === 0 ? undefined : Promise.all([...unwritten].map((session) => session.settled()));
  }

  /** Notes whether a session is closed now. */
  noteLive({ id, record }: OpenSession): void {
    if (record.phase === 'closed') this.#live.delete(id);
    else this.#live.add(id, record.owner);
  }

  /** Deletes a session and all its entries. When the journal fails, rejects, and the next start deletes it. */
  async delete({ session }: SessionTurns): Promise<void> {
    const { id } = session;
    const { catalogue } = this.parts.store;
    catalogue.markDeleted(id);
    session.delete();
    this.#loaded.delete(id);
    this.#unloaded.delete(id);
    this.#live.delete(id);
    await this.parts.journal.delete(streamOf(id));
    this.parts.storage.delete(id);
    catalogue.remove(id);
  }

  /** Deletes a session that could not be stored. */
  async undo(turns: SessionTurns): Promise<void> {
    await this.delete(turns).catch(() => {});
  }

  /** Unloads idle sessions. */
  sweep(): void {
    const now = this.parts.now();
    for (const [id, { turns, usedAt }] of this.#loaded) {
      const isOver = this.#loaded.size > this.#limits.loaded;
      // The clock may have been set back.
      const isOld = Math.abs(now - usedAt) >= this.#limits.idleMs;
      if (isOver || isOld) this.#unload(id, turns);
      // Without a snapshot, a start after a kill would read these entries again.
      else if (Math.abs(now - usedAt) >= SNAPSHOT_MS && turns.session.loaded && turns.isIdle) turns.session.snapshot();
    }
    for (const [id, unloaded] of this.#unloaded) if (unloaded.deref() === undefined) this.#unloaded.delete(id);
  }

  /** Fails with `over_capacity` when the loaded sessions of an owner hold as much as they may, idle ones unloaded. */
  mustHaveMemory(owner: string): void {
    if (this.#memory.left(owner, this.#held()) > 0) return;
    this.#unloadIdle(owner);
    this.#memory.mustBeLeft(owner, this.#held());
  }

  /** Usage of memory, by owner. */
  get memory(): ShareUsage {
    return this.#memory.usage(this.#held());
  }

  #held(): Map<string, number> {
    const held = new Map<string, number>();
    for (const { turns } of this.#loaded.values()) {
      const { session } = turns;
      // Reading the owner of an unloaded one would load it.
      if (!session.loaded) continue;
      const { owner } = session.record;
      held.set(owner, (held.get(owner) ?? 0) + session.size);
    }
    return held;
  }

  #wasLoaded(session: OpenSession): void {
    this.#use(session);
    const { owner } = session.record;
    if (this.#memory.left(owner, this.#held()) <= 0) this.#unloadIdle(owner, session);
  }

  #unloadIdle(owner: string, except?: OpenSession): void {
    for (const [id, { turns }] of this.#loaded) {
      const { session } = turns;
      if (session !== except && session.loaded && session.record.owner === owner) this.#unload(id, turns);
    }
  }

  /** Unloads a session where it is idle and stored. */
  #unload(id: string, turns: SessionTurns): void {
    const { session } = turns;
    if (session.loaded && !(turns.isIdle && session.unload())) return;
    this.#loaded.delete(id);
    this.#unloaded.set(id, new WeakRef(session));
    // Nothing is written soon: the cursors that were reserved for it need not be found again by the next process.
    this.parts.journal.release?.(streamOf(id));
  }

  #row(id: string): SessionRow | undefined {
    return this.parts.store.catalogue.row(id);
  }

  #use(session: OpenSession): SessionTurns {
    const { id } = session;
    let turns = this.#turns.get(session);
    if (turns === undefined) {
      turns = new SessionTurns(session, this.#turnParts);
      this.#turns.set(session, turns);
    }
    this.#unloaded.delete(id);
    // Last in the map: it was used last.
    this.#loaded.delete(id);
    this.#loaded.set(id, { turns, usedAt: this.parts.now() });
    if (this.#loaded.size > this.#limits.loaded * 2) this.sweep();
    return turns;
  }

  async #makeRoom(): Promise<void> {
    this.listAll();
    const id = this.parts.store.catalogue.stalest(this.parts.now() - STALE_MS);
    if (id === undefined) return this.mustHaveRoom();
    const turns = this.get(id);
    await turns.close('closed');
    this.noteLive(turns.session);
  }
}

/** Returns the error for an unknown id and for a session of another principal: both are the same. */
export function unknownSession(id: string): HandfastError {
  return fail('session_not_found', `unknown session: ${id}`, { session_id: id });
}
