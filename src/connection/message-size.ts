/**
 * Holds messages to the size limit of the peer before they are sent. Pure.
 */
import { jsonChars } from '../base/json-size.ts';
import { asciiLength } from '../wire/ascii.ts';
import type { Encoded } from '../wire/codec.ts';
import { fail, type HandfastError } from '../wire/errors.ts';

/** Levels of a value that are looked at; one that is deeper is written, and that fails. */
const MAX_DEPTH = 1000;

/**
 * Returns true when the message is within the limit, in bytes. A character above ASCII takes six bytes on the wire.
 * False for undefined.
 */
export const fits = (out: Encoded | undefined, limit: number): boolean =>
  typeof out === 'string' ? out.length * 6 <= limit || asciiLength(out) <= limit : out !== undefined;

/**
 * Returns true for a value that is surely longer than the limit: writing it only to measure it could take long. Members
 * that are undefined are counted too, so a value of up to twice the limit gets false.
 */
export const isFarTooLarge = (value: unknown, limit: number): boolean =>
  limit !== Number.POSITIVE_INFINITY && jsonChars(value, { chars: 2 * limit, depth: MAX_DEPTH }) === 'chars';

/** Throws {@link tooLong} for a message that the limit does not let through. */
export function mustFit(what: string, out: Encoded, limit: number): void {
  if (!fits(out, limit)) throw tooLong(what, out, limit);
}

/** Returns the error for a message beyond the limit. @param out undefined if it was not even written */
export function tooLong(what: string, out: Encoded | undefined, limit: number): HandfastError {
  return fail('too_large', `the ${what} exceeds the message size limit`, {
    limit,
    ...(out !== undefined && { size: asciiLength(out as string) }),
  });
}
