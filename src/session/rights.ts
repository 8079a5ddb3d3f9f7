/**
 * What a principal may do. The one place that answers it, so that a change to how rights are given is made here.
 *
 * Asked at the handshake, for calls between capabilities, and by plugins through their context.
 */
import { capabilityOf } from '../protocol/a2e.ts';
import type { Principal } from './principal.ts';

/** The name a capability is known by: the standard one for its other spellings, else as it is. */
const nameOf = (capability: string): string => capabilityOf(capability) ?? capability;

/** True when the principal may use a capability: it is listed, or a grant names it; without a list all may be used. */
export function mayUse(principal: Pick<Principal, 'capabilities' | 'grants'>, capability: string): boolean {
  const { capabilities } = principal;
  const wanted = nameOf(capability);
  return (
    capabilities === undefined ||
    capabilities.some((allowed) => nameOf(allowed) === wanted) ||
    grantOf(principal, capability) !== undefined
  );
}

/** What the configuration grants the principal within a capability, unchecked; undefined without a grant. */
export function grantOf({ grants }: Pick<Principal, 'grants'>, capability: string): unknown {
  if (grants === undefined) return undefined;
  const wanted = nameOf(capability);
  return Object.entries(grants).find(([name]) => nameOf(name) === wanted)?.[1];
}
