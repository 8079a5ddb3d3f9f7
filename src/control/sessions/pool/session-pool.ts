/**
 * The sessions of a server: which there are, which of them are in memory, and whose they are. A session that nothing
 * happens in is let go of after a while and comes back when somebody asks for it.
 *
 * Made by `sessions.ts`; handlers and `recovery.ts` get their sessions here.
 */
import type { SessionEventPayloads } from '../../../protocol/session-events.ts';
import type { Principal } from '../../../session/principal.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { OpenSession, type SessionDeps, streamOf } from '../log/open-session.ts';
import { storeFailure } from '../store/store.ts';
import type { SessionRow } from '../store/store-catalogue.ts';
import { SessionTurns, type TurnDeps } from '../turns/session-turns.ts';

export interface PoolLimits {
  /** Most sessions that are not closed. */
  readonly sessions: number;
  /** A quiet session is let go of after this many milliseconds. */
  readonly idleMs: number;
  /** Quiet sessions past this many are let go of at once. */
  readonly loaded: number;
}

/** With no room for another session, one that did not change for so long is closed. It can be loaded again. */
const STALE_MS = 24 * 60 * 60 * 1000;

interface LoadedSession {
  readonly turns: SessionTurns;
  usedAt: number;
}

export class SessionPool {
  readonly parts: SessionDeps;
  readonly #turnParts: TurnDeps;
  readonly #limits: PoolLimits;
  /** In memory, the longest unused first. */
  readonly #loaded = new Map<string, LoadedSession>();
  /** Let go of, but somebody may still hold them: two of one session must not be. */
  readonly #resting = new Map<string, WeakRef<OpenSession>>();
  readonly #turns = new WeakMap<OpenSession, SessionTurns>();
  /** Sessions that are not closed, in the order of their creation, with their owners. */
  readonly #live = new Map<string, string>();

  constructor(parts: Omit<SessionDeps, 'awoke'>, turnParts: TurnDeps, limits: PoolLimits) {
    this.parts = { ...parts, awoke: (session) => this.#keep(session) };
    this.#turnParts = turnParts;
    this.#limits = limits;
  }

  /** Ids of the sessions that are not closed, in the order of their creation; of one owner, or of all. */
  liveIds(owner?: string): string[] {
    const ids = [...this.#live.keys()];
    return owner === undefined ? ids : ids.filter((id) => this.#live.get(id) === owner);
  }

  /** Sessions in memory. */
  loaded(): SessionTurns[] {
    return [...this.#loaded.values()].map(({ turns }) => turns);
  }

  /** Makes a session. Fails with `over_capacity`, or `interrupted` while the server ends. */
  async create(
    id: string,
    created: SessionEventPayloads['session.created'] & { owner: string },
  ): Promise<SessionTurns> {
    if (this.#turnParts.isEnding()) throw fail('interrupted', 'the server is ending');
    if (this.#live.size >= this.#limits.sessions) await this.#makeRoom();
    const session = OpenSession.fresh(id, this.parts);
    // Whoever is told of it can already ask for it.
    this.#live.set(id, created.owner);
    const turns = this.#keep(session);
    session.emit('session.created', created);
    try {
      session.list();
    } catch (thrown) {
      await this.undo(turns);
      throw storeFailure(thrown);
    }
    return turns;
  }

  /** Fails with `over_capacity` when as many sessions are open as may be. */
  mustHaveRoom(): void {
    if (this.#live.size < this.#limits.sessions) return;
    throw fail('over_capacity', 'too many sessions are open; close some', { session_limit: this.#limits.sessions });
  }

  /** Takes in a session that was read from the journal. */
  adopt(session: OpenSession): SessionTurns {
    this.noteLive(session);
    return this.#keep(session);
  }

  /** A session that is stored as it is: nothing is read until somebody asks for it. */
  know(id: string, owner: string): void {
    this.#live.set(id, owner);
  }

  /** The session, open to whoever asks. Fails with `session_not_found`. */
  get(id: string): SessionTurns {
    const awake = this.#loaded.get(id);
    if (awake !== undefined) return this.#keep(awake.turns.session);
    const resting = this.#resting.get(id)?.deref();
    if (resting !== undefined) return this.#keep(resting);
    const row = this.parts.store.catalogue.row(id);
    if (row === undefined) throw unknownSession(id);
    const session = OpenSession.stored(id, this.parts, row.cursor);
    // What the approver knew of the session went with the object it knew it by.
    const turns = this.#keep(session);
    this.#turnParts.approver.restore(session);
    return turns;
  }

  /** The session, if it is the principal's or he may see all. Fails with `session_not_found`. */
  getFor(principal: Principal, id: string): SessionTurns {
    const owner = this.ownerOf(id);
    if (owner === undefined || (owner !== principal.name && principal.admin !== true)) throw unknownSession(id);
    return this.get(id);
  }

  ownerOf(id: string): string | undefined {
    return this.#loaded.get(id)?.turns.session.record.owner ?? this.#live.get(id) ?? this.#row(id)?.owner;
  }

  /** Newest sequence number of a session. Fails with `session_not_found`. */
  seqOf(id: string): number {
    const seq = this.#loaded.get(id)?.turns.session.record.seq ?? this.#row(id)?.seq;
    if (seq === undefined) throw unknownSession(id);
    return seq;
  }

  /** Brings the catalogue up to date, before it is asked. */
  listAll(): void {
    for (const { turns } of this.#loaded.values()) turns.session.list();
  }

  /** Notes whether a session is closed now. */
  noteLive({ id, record }: OpenSession): void {
    if (record.phase === 'closed') this.#live.delete(id);
    else if (!this.#live.has(id)) this.#live.set(id, record.owner);
  }

  /** Forgets a session and all its entries. Rejects with what the journal failed with; then it is forgotten at the next start. */
  async forget({ session }: SessionTurns): Promise<void> {
    const { id } = session;
    const { catalogue } = this.parts.store;
    catalogue.markDeleted(id);
    session.delete();
    this.#loaded.delete(id);
    this.#resting.delete(id);
    this.#live.delete(id);
    await this.parts.journal.delete(streamOf(id));
    catalogue.remove(id);
  }

  /** Takes back a session that could not be kept. */
  async undo(turns: SessionTurns): Promise<void> {
    await this.forget(turns).catch(() => {});
  }

  /** Lets go of sessions that nothing happens in. */
  sweep(): void {
    const now = this.parts.now();
    for (const [id, { turns, usedAt }] of this.#loaded) {
      const isOver = this.#loaded.size > this.#limits.loaded;
      // The clock may have been set back.
      const isOld = Math.abs(now - usedAt) >= this.#limits.idleMs;
      if (!(isOver || isOld)) continue;
      if (!turns.session.awake || (turns.isQuiet && turns.session.rest())) {
        this.#loaded.delete(id);
        this.#resting.set(id, new WeakRef(turns.session));
      }
    }
    for (const [id, resting] of this.#resting) if (resting.deref() === undefined) this.#resting.delete(id);
  }

  #row(id: string): SessionRow | undefined {
    return this.parts.store.catalogue.row(id);
  }

  #keep(session: OpenSession): SessionTurns {
    const { id } = session;
    let turns = this.#turns.get(session);
    if (turns === undefined) {
      turns = new SessionTurns(session, this.#turnParts);
      this.#turns.set(session, turns);
    }
    this.#resting.delete(id);
    // Behind all others: it was used last.
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

/** The refusal of an id that nobody has, or that is somebody else's: both sound the same. */
export function unknownSession(id: string): HandfastError {
  return fail('session_not_found', `unknown session: ${id}`, { session_id: id });
}
