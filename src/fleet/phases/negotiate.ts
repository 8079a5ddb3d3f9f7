/**
 * Chooses the protocol version for a peer, and the form in which it gets its tasks. Pure.
 *
 * The choice is made for each peer, and again on each new incarnation, changed agent card, or after a day.
 * @see docs/protocol/fleet.md#versions
 */
import { FLEET_VERSION } from '../../protocol/fleet.ts';
import { parseVersion, type Version } from '../messages/version.ts';

/** Known facts about a peer. */
export interface VersionEvidence {
  /** Versions its announce lists: `protocol_versions`, else `protocol_version`. null: no announce yet. */
  readonly announced: readonly string[] | null;
  /** Its agent card declares the fleet extension. */
  readonly cardExtension?: boolean;
  /** Write hints into the text for peers without the protocol. Default true. */
  readonly inlineHints?: boolean;
}

/** The negotiated mode and version; shown to operators. */
export interface Negotiated {
  readonly mode: 'structured' | 'inline' | 'plain';
  /** null where no messages are exchanged. */
  readonly version: string | null;
  /** `no_common_major`: the peer has the protocol, with another major version only. */
  readonly warning?: 'no_common_major';
}

/** Returns the highest minor version of this major; −1: none. Skips invalid versions. */
const highestMinor = (versions: readonly string[], major: number): number =>
  versions
    .map(parseVersion)
    .filter((version): version is Version => version?.major === major)
    .reduce((most, { minor }) => Math.max(most, minor), -1);

const OURS = parseVersion(FLEET_VERSION) as Version;

/** Chooses mode and version for a peer. A peer with another major version only counts as a peer without the protocol. */
export function negotiate({ announced, cardExtension = false, inlineHints = true }: VersionEvidence): Negotiated {
  const unstructured = { mode: inlineHints ? 'inline' : 'plain', version: null } as const;
  if (announced === null || announced.length === 0) {
    return cardExtension ? { mode: 'structured', version: `${OURS.major}.0` } : unstructured;
  }
  const theirs = highestMinor(announced, OURS.major);
  if (theirs === -1) return { ...unstructured, warning: 'no_common_major' };
  return { mode: 'structured', version: `${OURS.major}.${Math.min(theirs, OURS.minor)}` };
}
