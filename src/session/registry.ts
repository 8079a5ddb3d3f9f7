/**
 * The sessions of a host: found by id, counted, expired. One timer for all of them, running only while sessions exist.
 *
 * A message that races its session's expiry is either served or gets `session_expired`: sessions are marked active when
 * a message is read and expired only in a sweep that finds the mark missing.
 */
import { counted } from '../base/counted.ts';
import type { ShareUsage } from '../base/share-usage.ts';
import { NO_REQUEST } from '../wire/a2e.ts';
import { fail } from '../wire/errors.ts';
import type { Principal } from './principal.ts';
import type { Session } from './session.ts';
import { SessionShare } from './shares.ts';

export interface RegistryLimits {
  /** A session with a link but without traffic and running work ends after this many milliseconds. 0 = never. */
  readonly idleTimeoutMs: number;
  /** A session without a link ends after this many milliseconds. 0 = at once: no session of the host can be resumed. */
  readonly resumeWindowMs: number;
  readonly maxSessions: number;
  /** Of one principal that is no administrator. */
  readonly maxSessionsPerPrincipal: number;
}

const MIN_SWEEP_MS = 20;
const MAX_SWEEP_MS = 15_000;

export class SessionRegistry {
  readonly #limits: RegistryLimits;
  readonly #sessions = new Map<string, Session>();
  /** Number of sessions of each principal. */
  readonly #counts = new Map<string, number>();
  readonly #share: SessionShare;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;

  /** @param now monotonic milliseconds */
  constructor(limits: RegistryLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#share = new SessionShare({ perPrincipal: limits.maxSessionsPerPrincipal, total: limits.maxSessions });
    this.#now = now;
  }

  get size(): number {
    return this.#sessions.size;
  }

  [Symbol.iterator](): Iterator<Session> {
    return this.#sessions.values();
  }

  get(id: string): Session | undefined {
    return this.#sessions.get(id);
  }

  /** Fails with `over_capacity` when the host, or this principal, may not have one more session. */
  mustHaveRoom(principal: Principal): void {
    const { size } = this.#sessions;
    this.#share.mustHaveRoom(
      size,
      `the host has ${counted(size, 'session')}, its limit; end some, or raise limits.max_sessions`,
    );
    this.#share.mustHaveShare(principal, this.#counts.get(principal.name) ?? 0);
  }

  /** Sessions by principal. */
  get usage(): ShareUsage {
    return this.#share.usage(this.#sessions.size, this.#counts);
  }

  add(session: Session): void {
    this.#sessions.set(session.id, session);
    this.#count(session, 1);
    if (this.#timer === undefined) {
      session.activeAt = this.#now();
      const { idleTimeoutMs, resumeWindowMs } = this.#limits;
      const never = Number.POSITIVE_INFINITY;
      const shortest = Math.min(idleTimeoutMs || never, resumeWindowMs || never);
      const every = Math.min(Math.max(shortest / 4, MIN_SWEEP_MS), MAX_SWEEP_MS);
      this.#timer = setInterval(() => this.sweep(), every).unref();
    }
  }

  delete(id: string): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    this.#sessions.delete(id);
    this.#count(session, -1);
    if (this.#sessions.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #count({ principal: { name } }: Session, change: 1 | -1): void {
    const count = (this.#counts.get(name) ?? 0) + change;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }

  /** Ends sessions that have been idle or without a link for too long. */
  sweep(): void {
    const now = this.#now();
    const { idleTimeoutMs, resumeWindowMs } = this.#limits;
    for (const session of this.#sessions.values()) {
      if (session.state === 'detached') {
        if (now - session.detachedAt >= resumeWindowMs) session.close('session_expired', 'no link came back in time');
        continue;
      }
      const { connection } = session;
      if (connection.arrivals !== session.arrivalsSeen || connection.busy > 0 || session.activeAt === 0) {
        session.arrivalsSeen = connection.arrivals;
        session.activeAt = now;
      } else if (idleTimeoutMs > 0 && now - session.activeAt >= idleTimeoutMs) {
        const error = fail('session_expired', 'the session was idle for too long');
        connection.refuse(NO_REQUEST, error);
        session.close(error.code as 'session_expired', error.message);
      }
    }
  }
}
