/**
 * What one principal may take of what all share. A share that is used up refuses its owner alone.
 *
 * Used by `registry.ts` for sessions of the environment, and by the control edge for its own. @see SECURITY.md#limits
 */
import { fail } from '../wire/errors.ts';
import type { Principal } from './principal.ts';

/** Sessions of one principal at once, on each edge, unless the configuration says otherwise. */
export const DEFAULT_SESSION_SHARE = 1_000;

/** When a session of the principal may have ended. */
const RETRY_AFTER_MS = 1_000;

/** Most sessions of this principal at once. Administrators have no share of their own: they could change it. */
const sessionShare = ({ admin, limits }: Principal, share: number): number =>
  limits?.maxSessions ?? (admin === true ? Number.POSITIVE_INFINITY : share);

/** Bytes an owner may store: its own share, or an equal part where all together store too much. */
export function mayStore(
  stored: { readonly bytes: number; readonly owners: number },
  limits: { readonly own: number; readonly total: number },
): number {
  const { own, total } = limits;
  return stored.bytes < total ? own : Math.min(own, total / Math.max(1, stored.owners));
}

/** Fails with `over_capacity` when the principal has as many sessions as its share allows. */
export function mustHaveShare(principal: Principal, has: number, share: number): void {
  const most = sessionShare(principal, share);
  if (has < most) return;
  throw fail('over_capacity', `${principal.name} has ${has} sessions, its share; end some of them`, {
    session_limit: most,
    retry_after_ms: RETRY_AFTER_MS,
  });
}
