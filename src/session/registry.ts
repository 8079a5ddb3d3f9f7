/**
 * The sessions of a host: found by id, counted, expired. One timer for all of them, running only while there are any.
 *
 * A message that races its session's expiry is either served or gets `session_expired`: sessions are marked active when a
 * message is read and expired only in a sweep that finds the mark missing.
 */
import { NO_REQUEST } from '../wire/a2e.ts';
import { fail } from '../wire/errors.ts';
import type { Session } from './session.ts';

export interface RegistryLimits {
  /** A session with a link but without traffic and running work ends after this many milliseconds. 0 = never. */
  readonly idleTimeoutMs: number;
  /** A session without a link ends after this many milliseconds. 0 = at once: no session of the host can be resumed. */
  readonly resumeWindowMs: number;
  readonly maxSessions: number;
}

const MIN_SWEEP_MS = 20;
const MAX_SWEEP_MS = 15_000;

export class SessionRegistry {
  readonly #limits: RegistryLimits;
  readonly #sessions = new Map<string, Session>();
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;

  /** @param now monotonic milliseconds */
  constructor(limits: RegistryLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
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

  /** True when one more session may be opened. */
  get hasRoom(): boolean {
    return this.#sessions.size < this.#limits.maxSessions;
  }

  add(session: Session): void {
    this.#sessions.set(session.id, session);
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
    this.#sessions.delete(id);
    if (this.#sessions.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Ends what has been idle or without a link for too long. */
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
