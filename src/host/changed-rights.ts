/**
 * Gives a living session the rights that its principal has now.
 */
import { isDeepStrictEqual } from 'node:util';
import { capabilitiesChanged } from '../protocol/a2e.ts';
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session, Terms } from '../session/session.ts';
import { hearsChanges } from './changed-capability.ts';

/** Functions of the host that it uses. */
export interface ChangedRightsDeps {
  /**
   * Returns false if a grant within the capability does not match the schema of its plugins: they would read more
   * rights than were meant.
   */
  fits(principal: Principal, capability: string): boolean;
  /** Returns the terms with the remaining capabilities. */
  termsOf(granted: ReadonlySet<string>, extensions: ReadonlySet<string>): Terms;
  /** Pushes the current offer of a capability in the session. */
  changed(capability: string, session: Session): void;
  /** Tells the plugins of these capabilities that the session has ended for them. */
  ended(session: Session, capabilities: ReadonlySet<string>): void;
}

/** Ends calls of withdrawn capabilities and notifies the agent of the withdrawal, and of lists that may have changed. */
export function giveRights(
  session: Session,
  principal: Principal,
  { fits, termsOf, changed, ended }: ChangedRightsDeps,
): void {
  const { granted, extensions } = session.terms;
  const isLeft = (capability: string): boolean => may(principal, 'use', capability) && fits(principal, capability);
  const left = new Set([...granted].filter(isLeft));
  const gone = [...granted].filter((capability) => !left.has(capability));
  if (hearsChanges(session)) {
    for (const capability of gone) session.push(capabilitiesChanged, { capability, enabled: false, metadata: {} });
  }
  const isSame = isDeepStrictEqual(principal, session.principal);
  session.narrow(principal, termsOf(left, extensions));
  if (gone.length > 0) ended(session, new Set(gone));
  // The offer of a capability may depend on the rules within it, as lists of tools do.
  if (!isSame) for (const capability of left) changed(capability, session);
}
