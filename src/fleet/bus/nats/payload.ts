/**
 * The payload of a NATS message: JSON text, packed with gzip where it is large, because servers refuse messages above their
 * `max_payload` (1 MiB unless set) while a result with its prose, or a task record with its history, may come near it.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { Turns } from '../../../base/turns.ts';
import { fail } from '../../../wire/errors.ts';

/** Text of this many bytes and more is packed. */
const PACK_BYTES = 128 * 1024;
/** Messages of the protocol are at most 1 MiB; one byte more must pass, so that the decoder refuses it. */
export const MAX_MESSAGE_BYTES = 1024 * 1024 + 1;
/** A task record holds a dispatch, a result and late ones. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** A server delivers many messages in one turn of the event loop; they are read in as many as that takes. */
export const readingTurns = new Turns();

/** Returns a value as it goes into a message. */
export function pack(value: unknown): Uint8Array {
  const text = Buffer.from(JSON.stringify(value));
  return text.length < PACK_BYTES ? text : gzipSync(text, { level: 1 });
}

/**
 * Returns the text in a message, as UTF-8. Fails with `too_large` above `maxBytes`, `parse_error` when it is packed wrongly.
 */
export function unpack(data: Uint8Array, maxBytes: number = MAX_MESSAGE_BYTES): Uint8Array {
  // JSON never starts with these two bytes.
  if (data[0] !== 0x1f || data[1] !== 0x8b) return data;
  try {
    return gunzipSync(data, { maxOutputLength: maxBytes });
  } catch (error) {
    const large = (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE';
    throw fail(large ? 'too_large' : 'parse_error', 'a packed message could not be read', undefined, error);
  }
}
