/**
 * The bounds on the amounts that one principal may take of shared resources. A share that is used up refuses its owner
 * alone.
 *
 * For sessions of the environment, and for those of the control edge. @see SECURITY.md#limits
 */
import { counted } from '../base/counted.ts';
import { type ShareUsage, shareUsage } from '../base/share-usage.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Principal } from './principal.ts';

/** Sessions of one principal at once, on each edge, unless the configuration sets another number. */
export const DEFAULT_SESSION_SHARE = 1_000;

/** Time after which a session of the principal may have ended. */
const RETRY_AFTER_MS = 1_000;

/** The sessions of an edge: those that one principal may have, and those of all together. */
export interface SessionLimits {
  readonly perPrincipal: number;
  readonly total: number;
}

/**
 * Returns the most sessions of this principal at once on one edge: its own limit, else the general one, which is at
 * most half of all sessions, so that no single principal can have all. Administrators have no separate share: they
 * could change it.
 */
export function sessionShare(
  { admin, limits }: Pick<Principal, 'admin' | 'limits'>,
  { perPrincipal, total }: SessionLimits,
): number {
  if (limits?.maxSessions !== undefined) return limits.maxSessions;
  return admin === true ? Number.POSITIVE_INFINITY : Math.min(perPrincipal, Math.max(1, Math.floor(total / 2)));
}

/** Returns the bytes that an owner may store: its own share, or an equal part if all together store too much. */
export function mayStore(
  stored: { readonly bytes: number; readonly owners: number },
  limits: { readonly own: number; readonly total: number },
): number {
  const { own, total } = limits;
  return stored.bytes < total ? own : Math.min(own, total / Math.max(1, stored.owners));
}

/** The sessions of an edge: refuses a principal that has as many as it may, and counts that. */
export class SessionShare {
  readonly #limits: SessionLimits;
  #refused = 0;

  constructor(limits: SessionLimits) {
    this.#limits = limits;
  }

  /** Fails with `over_capacity` when the principal has as many sessions as its share allows. */
  mustHaveShare(principal: Principal, has: number): void {
    const most = sessionShare(principal, this.#limits);
    if (has < most) return;
    throw this.#refusal(`${principal.name} has ${counted(has, 'session')}, its share; end some of them`, most);
  }

  /** Fails with `over_capacity` when the sessions of all have reached their bound. */
  mustHaveRoom(has: number, message: string): void {
    if (has < this.#limits.total) return;
    throw this.#refusal(message, this.#limits.total);
  }

  usage(has: number, counts: Iterable<readonly [string, number]>): ShareUsage {
    return shareUsage(has, this.#refused, counts);
  }

  #refusal(message: string, limit: number): HandfastError {
    this.#refused += 1;
    return fail('over_capacity', message, { session_limit: limit, retry_after_ms: RETRY_AFTER_MS });
  }
}
