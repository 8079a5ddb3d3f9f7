/** A living session gets the rights that its principal has now. A part of `host.ts`. */
import { isDeepStrictEqual } from 'node:util';
import { capabilitiesChanged } from '../protocol/a2e.ts';
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session, Terms } from '../session/session.ts';
import { hearsChanges } from './changed-capability.ts';

/** What it needs of the host. */
export interface ChangedRightsDeps {
  /** False where a grant within the capability does not fit its plugins: they would read more rights than were meant. */
  fits(principal: Principal, capability: string): boolean;
  /** The terms of what is left. */
  termsOf(granted: ReadonlySet<string>, extensions: ReadonlySet<string>): Terms;
  /** Pushes what a capability offers in the session. */
  changed(capability: string, session: Session): void;
  /** For the plugins of these capabilities the session has ended. */
  ended(session: Session, capabilities: ReadonlySet<string>): void;
}

/** What is no longer granted ends, and the agent is notified of it, and of what may be another list now. */
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
  // What a capability offers may depend on the rules within it, as lists of tools do.
  if (!isSame) for (const capability of left) changed(capability, session);
}
