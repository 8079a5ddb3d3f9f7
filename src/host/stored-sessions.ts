/**
 * The sessions of a host in the records of its journal: written while they live, read when a host starts.
 *
 * A host has them if its journal outlives the process. A record is written later, like the entries of its session.
 * @see docs/decisions/0033-sessions-outlive-their-host.md
 */
import type { Route } from '../connection/running-request.ts';
import type { SessionRecords } from '../journal/journal.ts';
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import { readRecord, type SessionRecord, type StoredSession } from '../session/stored-session.ts';
import type { Incoming } from '../wire/codec.ts';
import { fail, HandfastError, mayHaveRun } from '../wire/errors.ts';

export class StoredSessions {
  readonly #records: SessionRecords;
  readonly #windowMs: number;
  readonly #now: () => number;

  /**
   * @param windowMs time that a session waits for a link
   * @param now epoch milliseconds
   */
  constructor(records: SessionRecords, windowMs: number, now: () => number) {
    this.#records = records;
    this.#windowMs = windowMs;
    this.#now = now;
  }

  /**
   * Returns the sessions that may be resumed; the records of all others are removed. While a host runs, the window is
   * measured by a clock that is never set. Time between two hosts is known from the wall clock alone: a clock that was
   * set back counts as no time, one that was set forward ends the session early.
   */
  load(): StoredSession[] {
    const now = this.#now();
    const sessions: StoredSession[] = [];
    for (const { session: id, owner, last, record: text } of this.#records.all()) {
      const record = readRecord(text);
      const detachedMs = Math.max(0, now - (record?.detached_at ?? now));
      if (record === undefined || owner === '' || detachedMs >= this.#windowMs) this.remove(id);
      else sessions.push({ id, owner, last, record, detachedMs });
    }
    return sessions;
  }

  /** Stores a session as it is now. `stopped`: its host stops in order, and reads no more of its messages. */
  store(session: Session, stopped = false): void {
    const { id, agentId, terms, restarts, connection } = session;
    const record: SessionRecord = {
      agent_id: agentId,
      granted: [...terms.granted],
      extensions: [...terms.extensions],
      restarts,
      // With a link, the time counts from the start of the next host: the agent then waits for the host.
      ...(session.detachedAt !== 0 && { detached_at: this.#now() - (performance.now() - session.detachedAt) }),
      ...(stopped && { received: connection.received }),
    };
    this.#records.put(id, JSON.stringify(record));
  }

  /**
   * Removes the record of a session that has ended: no host restores it. Its entries stay as long as their retention
   * allows.
   */
  remove(id: string): void {
    this.#records.put(id, '');
  }
}

/** Returns the error for a request that the former host had read and not replied to; `route` is its route in this host. */
export function interruptedError(
  route: Route | HandfastError | undefined,
  { body }: Incoming,
  session: Session,
): HandfastError {
  const interrupted = fail('interrupted', 'the host was restarted before the work was done');
  if (route === undefined || route instanceof HandfastError) return mayHaveRun(interrupted);
  const { capability, idempotent } = route.method;
  const { code, message, retryable } = interrupted;
  const error = new HandfastError(code, message, { retryable, capability });
  return (route.isIdempotent?.(body, session) ?? idempotent === true) ? error : mayHaveRun(error);
}

/** Returns the present grants of a stored session's capabilities; undefined when it had grants and has none of them now. */
export function grantedNow(
  { granted }: SessionRecord,
  principal: Principal | undefined,
  served: ReadonlyMap<string, unknown>,
): ReadonlySet<string> | undefined {
  if (principal === undefined) return undefined;
  const left = granted.filter((capability) => served.has(capability) && may(principal, 'use', capability));
  return left.length === 0 && granted.length > 0 ? undefined : new Set(left);
}
