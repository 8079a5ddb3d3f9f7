/** A living session gets the rights that its principal has now. A part of `host.ts`. */
import { isDeepStrictEqual } from 'node:util';
import { capabilitiesChanged, EXTENSION_CAPABILITIES } from '../protocol/a2e.ts';
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session, Terms } from '../session/session.ts';

/**
 * What is no longer granted ends, and the agent is notified of it, and of what may be another list now.
 * @param termsOf the terms of what is left
 * @param changed pushes what a capability offers in the session
 */
export function giveRights(
  session: Session,
  principal: Principal,
  termsOf: (granted: ReadonlySet<string>, extensions: ReadonlySet<string>) => Terms,
  changed: (capability: string, session: Session) => void,
): void {
  const { granted, extensions } = session.terms;
  const left = new Set([...granted].filter((capability) => may(principal, 'use', capability)));
  if (extensions.has(EXTENSION_CAPABILITIES)) {
    for (const capability of granted) {
      if (!left.has(capability)) session.push(capabilitiesChanged, { capability, enabled: false, metadata: {} });
    }
  }
  const isSame = isDeepStrictEqual(principal, session.principal);
  session.narrow(principal, termsOf(left, extensions));
  // What a capability offers may depend on the rules within it, as lists of tools do.
  if (!isSame) for (const capability of left) changed(capability, session);
}
