/**
 * The reading side of the fleet protocol: turns received text into a message in its normalised form, or into all errors in it.
 *
 * It never throws; its caller decides whether a message that cannot be read ends the link.
 * @see docs/protocol/fleet.md#decoder
 */

import { envelope, fleetMessages } from '../../protocol/fleet.generated.ts';
import { FLEET_VERSION } from '../../protocol/fleet.ts';
import { Findings } from '../../wire/findings.ts';
import { type Members, readStrictJson, readStrictValue, type StrictJson } from '../../wire/strict-json.ts';
import type { Decoded, Incoming } from './decoded.ts';
import { isId } from './names.ts';
import { membersReader, type ReadMembers, readerOf } from './reader.ts';
import { rules } from './rules.ts';
import { parseVersion, type Version } from './version.ts';

export interface DecodeOptions {
  /** Epoch milliseconds, for `W_DEADLINE_PAST`. Default: now. */
  readonly nowMs?: number;
}

/** Decodes a message from its text, or from bytes of UTF-8. All errors and warnings of a message are found in one pass. */
export const decode = (input: string | Uint8Array, options?: DecodeOptions): Decoded =>
  decodeJson(readStrictJson(input), options);

/** Decodes a message that never was text. The result may share parts with `value`, which must not be changed afterwards. */
export const decodeValue = (value: unknown, options?: DecodeOptions): Decoded =>
  decodeJson(readStrictValue(value), options);

type MessageType = Incoming['type'];

const readEnvelope = readerOf(envelope);
const readers: ReadonlyMap<unknown, ReadMembers> = new Map(
  Object.entries(fleetMessages).map(([type, member]) => [
    type,
    membersReader(member, ['type', 'protocol_version', 'envelope']),
  ]),
);

function readType({ type }: Members, found: Findings): MessageType | null {
  if (readers.has(type)) return type as MessageType;
  found.error(type === undefined || type === null ? 'E_REQUIRED' : 'E_TYPE', '', 'type');
  return null;
}

const OURS = parseVersion(FLEET_VERSION) as Version;

/** Returns the version of a message, or undefined when it cannot be read any further. */
function readVersion({ protocol_version: version }: Members, found: Findings): string | undefined {
  if (version === FLEET_VERSION) return FLEET_VERSION;
  const parts = typeof version === 'string' ? parseVersion(version) : undefined;
  if (parts === undefined) {
    const isAbsent = version === undefined || version === null;
    return found.error(isAbsent ? 'E_REQUIRED' : 'E_VERSION', '', 'protocol_version');
  }
  if (parts.major !== OURS.major) return found.error('E_VERSION_UNSUPPORTED', '', 'protocol_version');
  if (parts.minor > OURS.minor) found.warn('W_VERSION_MINOR_AHEAD', '', 'protocol_version');
  return version as string;
}

/** Returns the id of the task a message is about, where it can be read in spite of the errors. */
function taskIdOf(message: Members): string | undefined {
  const task = message.type === 'TASK_DISPATCH' ? message.task : message;
  if (typeof task !== 'object' || task === null) return undefined;
  const taskId = (task as Members).task_id;
  return typeof taskId === 'string' && isId(taskId) ? taskId : undefined;
}

/** Decodes JSON that was read: by a codec, which had to know the sender of the message. */
export function decodeJson(json: StrictJson, { nowMs = Date.now() }: DecodeOptions = {}): Decoded {
  if (!json.ok) return { valid: false, type: null, errors: json.errors, warnings: json.warnings };
  const { value } = json;
  const found = new Findings();
  found.warnings.push(...json.warnings);
  const type = readType(value, found);
  const version = readVersion(value, found);
  const message = type === null || version === undefined ? undefined : readMessage(type, version, value, found, nowMs);
  if (message !== undefined && found.errors.length === 0) {
    return { valid: true, message, errors: [], warnings: found.warnings };
  }
  const taskId = type === null ? undefined : taskIdOf(value);
  return {
    valid: false,
    type,
    ...(taskId !== undefined && { taskId }),
    errors: found.errors,
    warnings: found.warnings,
  };
}

const NO_ENVELOPE = Object.freeze({});

function readMessage(type: MessageType, version: string, value: Members, found: Findings, nowMs: number): Incoming {
  const finish = type in rules ? rules[type as keyof typeof rules] : undefined;
  const stated = value.envelope ?? undefined;
  const sent = stated === undefined ? finish && NO_ENVELOPE : readEnvelope(stated, found, '', 'envelope');
  const read: Record<string, unknown> = { type, protocol_version: version };
  (readers.get(type) as ReadMembers)(value, read, found, '');
  if (sent !== undefined) read.envelope = sent;
  finish?.(read, value, found, nowMs);
  return read as unknown as Incoming;
}
