/**
 * What every message has beside its own members: type, version and envelope.
 *
 * Called by `decode.ts` before the members of a message are read.
 * @see docs/protocol/fleet.md#envelope
 */
import { type Envelope, FLEET_VERSION } from '../../protocol/fleet.ts';
import type { Findings } from './findings.ts';
import { count, id, may, need, objectOf, optional, positive, seconds, text, timestamp } from './read.ts';
import type { Members } from './strict-json.ts';

/** Members every message may have at its root. */
export const ROOT_FIELDS = ['type', 'protocol_version', 'envelope'] as const;

const VERSION = /^(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})$/;

/** A version in numbers: 2.10 is more than 2.9. */
export interface Version {
  readonly major: number;
  readonly minor: number;
}

/** The numbers of `major.minor`, or undefined when the text is no version. */
export function parseVersion(version: string): Version | undefined {
  const parts = VERSION.exec(version);
  return parts === null ? undefined : { major: Number(parts[1]), minor: Number(parts[2]) };
}

const OURS = parseVersion(FLEET_VERSION) as Version;

/** The version of a message, or undefined when it cannot be read any further. */
export function readVersion(message: Members, found: Findings): string | undefined {
  const version = message.protocol_version;
  if (version === FLEET_VERSION) return FLEET_VERSION;
  if (version === undefined || version === null) {
    found.error('E_REQUIRED', '', 'protocol_version');
    return undefined;
  }
  const parts = typeof version === 'string' ? parseVersion(version) : undefined;
  if (parts === undefined) {
    found.error('E_VERSION', '', 'protocol_version');
    return undefined;
  }
  if (parts.major !== OURS.major) {
    found.error('E_VERSION_UNSUPPORTED', '', 'protocol_version');
    return undefined;
  }
  if (parts.minor > OURS.minor) found.warn('W_VERSION_MINOR_AHEAD', '', 'protocol_version');
  return version as string;
}

/** The lease of an attempt. */
export const lease = objectOf<NonNullable<Envelope['lease']>>({ ttl_s: need(seconds), fence: need(count) });

const envelope = objectOf<Envelope>({
  message_id: may(id),
  context_id: may(id),
  correlation_id: may(id),
  causation_id: may(id),
  sent_at: may(timestamp),
  sender: may(id),
  attempt: may(positive),
  lease: may(lease),
  token: may(text),
});

const NO_ENVELOPE: Envelope = Object.freeze({});

/** The envelope of a message; an empty one where there is none. */
export const readEnvelope = (message: Members, found: Findings): Envelope =>
  message.envelope === undefined ? NO_ENVELOPE : (optional(envelope, message, 'envelope', found, '') ?? NO_ENVELOPE);
