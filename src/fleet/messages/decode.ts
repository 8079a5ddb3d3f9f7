/**
 * The reading side of the fleet protocol: from what arrived to a message in its normalised form, or to every reason why not.
 *
 * Called by every binding with what it received. It never throws; who called decides what a message that cannot be read
 * means for the link.
 * @see docs/protocol/fleet.md#decoder
 */
import { isAddition, readAddition } from './additions.ts';
import { readAnnounce } from './announce.ts';
import type { Decoded, Incoming } from './decoded.ts';
import { readDispatch } from './dispatch.ts';
import { readEnvelope, readVersion } from './envelope.ts';
import { Findings } from './findings.ts';
import { isId } from './names.ts';
import { readResult } from './result.ts';
import { type Members, readStrictJson, readStrictValue, type StrictJson } from './strict-json.ts';

export interface DecodeOptions {
  /** Epoch milliseconds, for `W_DEADLINE_PAST`. Default: now. */
  readonly nowMs?: number;
}

/** Decodes a message from its text, or from bytes of UTF-8. All errors and warnings of a message are found in one pass. */
export const decode = (input: string | Uint8Array, options: DecodeOptions = {}): Decoded =>
  decodeRead(readStrictJson(input), options);

/**
 * The same for a message that was never text. What is decoded may share parts with `value`, which must not be changed
 * afterwards.
 */
export const decodeValue = (value: unknown, options: DecodeOptions = {}): Decoded =>
  decodeRead(readStrictValue(value), options);

type MessageType = Incoming['type'];

function readType(message: Members, found: Findings): MessageType | null {
  const { type } = message;
  if (typeof type === 'string') {
    if (type === 'TASK_DISPATCH' || type === 'TASK_RESULT' || type === 'SESSION_ANNOUNCE' || isAddition(type))
      return type;
  }
  found.error(type === undefined || type === null ? 'E_REQUIRED' : 'E_TYPE', '', 'type');
  return null;
}

/** The id of the task a message is about, where it can be told in spite of what is wrong with it. */
function taskIdOf(message: Members): string | undefined {
  const task = message.type === 'TASK_DISPATCH' ? message.task : message;
  if (typeof task !== 'object' || task === null) return undefined;
  const taskId = (task as Members).task_id;
  return typeof taskId === 'string' && isId(taskId) ? taskId : undefined;
}

function decodeRead(json: StrictJson, { nowMs = Date.now() }: DecodeOptions): Decoded {
  if (!json.ok) return { valid: false, type: null, errors: json.errors, warnings: json.warnings };
  const found = new Findings();
  found.warnings.push(...json.warnings);
  const type = readType(json.value, found);
  const version = readVersion(json.value, found);
  const message =
    type === null || version === undefined ? undefined : readMessage(type, json.value, version, found, nowMs);
  if (message !== undefined && found.errors.length === 0) {
    return { valid: true, message, errors: [], warnings: found.warnings };
  }
  const taskId = type === null ? undefined : taskIdOf(json.value);
  return {
    valid: false,
    type,
    ...(taskId !== undefined && { taskId }),
    errors: found.errors,
    warnings: found.warnings,
  };
}

function readMessage(type: MessageType, value: Members, version: string, found: Findings, nowMs: number): Incoming {
  const envelope = readEnvelope(value, found);
  switch (type) {
    case 'TASK_DISPATCH':
      return readDispatch(value, version, envelope, found, nowMs);
    case 'TASK_RESULT':
      return readResult(value, version, envelope, found);
    case 'SESSION_ANNOUNCE':
      return readAnnounce(value, version, envelope, found);
    default:
      return readAddition(type, value, version, envelope, found);
  }
}
