/**
 * The sessions of a host in the records of its journal: written while they live, read when a host starts.
 *
 * `host.ts` owns one where its journal outlives the process. A record is written behind, like the entries of its session.
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
   * @param windowMs how long a session waits for a link
   * @param now epoch milliseconds
   */
  constructor(records: SessionRecords, windowMs: number, now: () => number) {
    this.#records = records;
    this.#windowMs = windowMs;
    this.#now = now;
  }

  /**
   * The sessions that may be resumed; the records of all others are removed. While a host runs, the window is measured by a
   * clock that is never set. Time between two hosts is known from the wall alone: a clock that was set back counts as no
   * time, one that was set forward ends the session early.
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
      // From the start of the next host on, where it has a link: then the host is what the agent waits for.
      ...(session.detachedAt !== 0 && { detached_at: this.#now() - (performance.now() - session.detachedAt) }),
      ...(stopped && { received: connection.received }),
    };
    this.#records.put(id, JSON.stringify(record));
  }

  /** The session has ended: no host takes it up any more. Its entries stay as long as their retention says. */
  remove(id: string): void {
    this.#records.put(id, '');
  }
}

/** What a request gets that the former host had read and not replied to; `route` is where it would go now. */
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

/** What a stored session has of its capabilities now; undefined when it had some and has none of them. */
export function grantedNow(
  { granted }: SessionRecord,
  principal: Principal | undefined,
  served: ReadonlyMap<string, unknown>,
): ReadonlySet<string> | undefined {
  if (principal === undefined) return undefined;
  const left = granted.filter((capability) => served.has(capability) && may(principal, 'use', capability));
  return left.length === 0 && granted.length > 0 ? undefined : new Set(left);
}
