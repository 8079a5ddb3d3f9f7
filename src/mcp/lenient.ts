/**
 * Readers for values that differ from the protocol: `null` for an absent member, a member of the wrong type, a missing
 * list. They leave out invalid optional members, and entries without a required member, and change nothing else. Pure.
 *
 * A reader returns a valid value itself, not a copy.
 */
import { isObject } from '../wire/json.ts';

/** Returns the value to use, or undefined to leave it out. */
export type Reader = (value: unknown) => unknown;

export const text: Reader = (value) => (typeof value === 'string' ? value : undefined);
export const flag: Reader = (value) => (typeof value === 'boolean' ? value : undefined);
export const number: Reader = (value) => (typeof value === 'number' ? value : undefined);
export const object: Reader = (value) => (isObject(value) ? value : undefined);
/** Reads a capability; also `true`, as servers write a capability without members. */
export const capability: Reader = (value) => (value === true ? {} : object(value));

export const oneOf =
  (...words: readonly string[]): Reader =>
  (value) =>
    words.includes(value as string) ? value : undefined;

/** The readers in turn, each with the result of the one before. */
export const chained =
  (...readers: readonly Reader[]): Reader =>
  (value) =>
    readers.reduce((read, reader) => (read === undefined ? undefined : reader(read)), value);

/** The value, or another one where it does not fit. */
export const otherwise =
  (reader: Reader, other: unknown): Reader =>
  (value) =>
    reader(value) ?? other;

/** The entries that fit. */
export const listOf =
  (entry: Reader): Reader =>
  (value) => {
    if (!Array.isArray(value)) return undefined;
    const read = value.map(entry);
    if (read.every((each, at) => each === value[at] && each !== undefined)) return value;
    return read.filter((each) => each !== undefined);
  };

/**
 * Returns a reader of an object by its members: other members stay. `needed` members are read also if they are missing;
 * without a value for one the object is invalid.
 */
export function objectOf(
  members: Readonly<Record<string, Reader>>,
  needed: Readonly<Record<string, Reader>> = {},
): Reader {
  const optional = Object.entries(members);
  const necessary = Object.entries(needed);
  return (value) => {
    if (!isObject(value)) return undefined;
    let read = value;
    const put = (key: string, changed: unknown): void => {
      if (read === value) read = { ...value };
      if (changed === undefined) delete read[key];
      else read[key] = changed;
    };
    for (const [key, reader] of optional) {
      if (!Object.hasOwn(value, key)) continue;
      const changed = reader(value[key]);
      if (changed !== value[key] || changed === undefined) put(key, changed);
    }
    for (const [key, reader] of necessary) {
      const given = Object.hasOwn(value, key) ? value[key] : undefined;
      const changed = reader(given);
      if (changed === undefined) return undefined;
      if (changed !== given) put(key, changed);
    }
    return read;
  };
}
