/**
 * What a peer's limit lets through, of what is about to be sent. Pure; used by `connection.ts`.
 */
import { jsonChars } from '../base/json-size.ts';
import { asciiLength } from '../wire/ascii.ts';
import type { Encoded } from '../wire/codec.ts';
import { fail, type HandfastError } from '../wire/errors.ts';

/** Levels of a value that are looked at; one that is deeper is written, and that fails. */
const MAX_DEPTH = 1000;

/** True when the limit, in bytes, lets it through. A character above ASCII takes six bytes on the wire. */
export const fits = (out: Encoded, limit: number): boolean =>
  typeof out !== 'string' || out.length * 6 <= limit || asciiLength(out) <= limit;

/**
 * True for a value that is surely longer: to write it only to see that could take long. One that is up to twice as long may count
 * as none: members that are undefined are counted too.
 */
export const isFarTooLarge = (value: unknown, limit: number): boolean =>
  limit !== Number.POSITIVE_INFINITY && jsonChars(value, { chars: 2 * limit, depth: MAX_DEPTH }) === 'chars';

/** @param out undefined where it was not even written */
export function tooLong(what: string, out: Encoded | undefined, limit: number): HandfastError {
  return fail('too_large', `the ${what} exceeds the message size limit`, {
    limit,
    ...(out !== undefined && { size: asciiLength(out as string) }),
  });
}
