/**
 * The form of fleet messages on a stream link: one JSON object a line; on the in-memory pair the object itself.
 *
 * @see docs/protocol/fleet.md#stream-links
 */
import type { FleetMessage, SessionBye } from '../../../protocol/fleet.ts';
import type { Link, Message } from '../../../transport/link.ts';
import { decode, decodeValue } from '../../messages/decode.ts';
import type { Decoded } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';

export { MAX_MESSAGE_BYTES } from '../../../wire/strict-json.ts';

/** Limit of unsent bytes of a peer; past it messages are refused. */
export const MAX_SEND_BUFFER_BYTES = 8 * 1024 * 1024;

/** Number of heartbeats without a message after which a peer is lost. */
export const SILENT_HEARTBEATS = 3;

/** Reads a message, text or object. Never throws. */
export function readMessage(raw: string | Message): Decoded {
  return typeof raw === 'string' ? decode(raw) : decodeValue(raw);
}

/** Returns a message in the form of its link: text or object. Throws as `JSON.stringify` does. */
export function written(link: Link, message: FleetMessage): string | Message {
  return link.text ? JSON.stringify(message) : (message as unknown as Message);
}

/** Makes a SESSION_BYE. */
export function bye(agent_id: string, reason: string, incarnation?: string): SessionBye {
  return fleetMessage('SESSION_BYE', { agent_id, reason, ...(incarnation !== undefined && { incarnation }) });
}
