/**
 * Which version is spoken with a peer, and in which form it gets its tasks. Pure.
 *
 * Called by the orchestrator for each peer, again on each new incarnation, changed agent card, or after a day.
 * @see docs/protocol/fleet.md#versions
 */
import { FLEET_VERSION } from '../../protocol/fleet.ts';
import { parseVersion, type Version } from '../messages/version.ts';

/** What is known about a peer. */
export interface VersionEvidence {
  /** Versions its announce lists: `protocol_versions`, else `protocol_version`. null: no announce yet. */
  readonly announced: readonly string[] | null;
  /** Its agent card declares our extension. */
  readonly cardExtension?: boolean;
  /** Hints may be written into the text for peers that do not speak the protocol. Default true. */
  readonly inlineHints?: boolean;
}

/** How a peer is spoken with; shown to operators. */
export interface Negotiated {
  readonly mode: 'structured' | 'inline' | 'plain';
  /** null where no messages are exchanged. */
  readonly version: string | null;
  /** `no_common_major`: it speaks the protocol, but no version of ours. */
  readonly warning?: 'no_common_major';
}

/** The highest of the versions of this major, of those that are versions at all. */
const highestMinor = (versions: readonly string[], major: number): number =>
  versions
    .map(parseVersion)
    .filter((version): version is Version => version?.major === major)
    .reduce((most, { minor }) => Math.max(most, minor), -1);

const OURS = parseVersion(FLEET_VERSION) as Version;

/** Chooses mode and version for a peer. Another major is never spoken half: it is a peer without the protocol. */
export function negotiate({ announced, cardExtension = false, inlineHints = true }: VersionEvidence): Negotiated {
  const unstructured = { mode: inlineHints ? 'inline' : 'plain', version: null } as const;
  if (announced === null || announced.length === 0) {
    return cardExtension ? { mode: 'structured', version: `${OURS.major}.0` } : unstructured;
  }
  const theirs = highestMinor(announced, OURS.major);
  if (theirs === -1) return { ...unstructured, warning: 'no_common_major' };
  return { mode: 'structured', version: `${OURS.major}.${Math.min(theirs, OURS.minor)}` };
}
