/**
 * The right of a principal to work in the fleet under a name: the grant `fleet.worker`, checked when a worker joins and for
 * every message it sends.
 *
 * For the buses whose workers authenticate here: stream links and receivers that call back. @see docs/security/rights.md
 */
import type { Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';

/** Identity of a worker, as its bus authenticated it. */
export interface WorkerIdentity {
  readonly peerId: string;
  /** Undefined for a link that was opened from here. */
  readonly principal?: Principal;
}

/** True when it may announce, accept and deliver as this worker, in every one of its pools. */
export function mayWork(principal: Principal, name: string, pools: readonly string[] = []): boolean {
  if (pools.length === 0) return may(principal, 'work', { name });
  return pools.every((pool) => may(principal, 'work', { name, pool }));
}
