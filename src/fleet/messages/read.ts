/**
 * How members of a message are read: small readers, each of which takes a value or says what is wrong with it, and the two
 * ways to apply one, `required` and `optional`. A table of fields makes a reader of objects.
 *
 * Used by all message readers of this folder. `null` equals absent; unknown members pass.
 * @see docs/protocol/fleet.md#scalars
 */
import { isObject } from '../../wire/json.ts';
import { type Findings, pointer } from './findings.ts';
import { canonicalName, isAgentId, isBlank, isId, isName, MAX_NAMES } from './names.ts';
import { isLonger, type Members } from './strict-json.ts';
import { formatTimestamp, parseTimestamp } from './timestamp.ts';

/** Longest brief and longest steering text, in bytes of UTF-8. */
const MAX_BRIEF_BYTES = 262_144;

/** Reads a value that is there: what it means, or undefined after a finding about the member `key` of what is at `where`. */
export type Read<T> = (value: unknown, found: Findings, where: string, key: string | number) => T | undefined;

/** Reads a member that must be there. */
export function required<T>(
  read: Read<T>,
  members: Members,
  key: string,
  found: Findings,
  where: string,
): T | undefined {
  const value = members[key];
  if (value !== undefined && value !== null) return read(value, found, where, key);
  found.error('E_REQUIRED', where, key);
  return undefined;
}

/** Reads a member that may be left out; null when it is, and after a finding. */
export function optional<T>(read: Read<T>, members: Members, key: string, found: Findings, where: string): T | null {
  const value = members[key];
  return value === undefined || value === null ? null : (read(value, found, where, key) ?? null);
}

/** A string, any. */
export const text: Read<string> = (value, found, where, key) => {
  if (typeof value === 'string') return value;
  found.error('E_FIELD_TYPE', where, key);
  return undefined;
};

/** A string with something in it. A blank one is as good as none. */
export const filled: Read<string> = (value, found, where, key) => {
  if (text(value, found, where, key) === undefined) return undefined;
  if (!isBlank(value as string)) return value as string;
  found.error('E_REQUIRED', where, key);
  return undefined;
};

/** A text for a model: not blank, and no longer than {@link MAX_BRIEF_BYTES}. It is refused, never cut. */
export const prompt: Read<string> = (value, found, where, key) => {
  const read = filled(value, found, where, key);
  if (read === undefined || !isLonger(read, MAX_BRIEF_BYTES)) return read;
  found.error('E_LIMIT', where, key);
  return undefined;
};

const formatted =
  (fits: (value: string) => boolean): Read<string> =>
  (value, found, where, key) => {
    const read = text(value, found, where, key);
    if (read === undefined || fits(read)) return read;
    found.error('E_FORMAT', where, key);
    return undefined;
  };

/** The id of a task, a context, a message. */
export const id: Read<string> = formatted(isId);

/** The id of an agent. */
export const agentId: Read<string> = formatted(isAgentId);

const anyName = formatted(isName);

/** A name, in canonical form. */
export const name: Read<string> = (value, found, where, key) => {
  const read = anyName(value, found, where, key);
  return read === undefined ? undefined : canonicalName(read);
};

/** A moment, as UTC with milliseconds. */
export const timestamp: Read<string> = (value, found, where, key) => {
  const read = text(value, found, where, key);
  if (read === undefined) return undefined;
  const time = parseTimestamp(read);
  if (time !== undefined) return formatTimestamp(time);
  found.error('E_FORMAT', where, key);
  return undefined;
};

export const flag: Read<boolean> = (value, found, where, key) => {
  if (typeof value === 'boolean') return value;
  found.error('E_FIELD_TYPE', where, key);
  return undefined;
};

/** A finite number between two bounds, both allowed. */
const numberIn =
  (least: number, most: number): Read<number> =>
  (value, found, where, key) => {
    if (typeof value !== 'number') found.error('E_FIELD_TYPE', where, key);
    // Also false for NaN.
    else if (value >= least && value <= most) return value;
    else found.error('E_RANGE', where, key);
    return undefined;
  };

const integerFrom = (least: number): Read<number> => {
  const inRange = numberIn(least, Number.MAX_SAFE_INTEGER);
  return (value, found, where, key) => {
    if (typeof value !== 'number' || !Number.isFinite(value) || Number.isInteger(value)) {
      const read = inRange(value, found, where, key);
      // Minus zero is zero.
      return read === undefined ? undefined : read + 0;
    }
    found.error('E_FIELD_TYPE', where, key);
    return undefined;
  };
};

/** A whole number from 0. */
export const count: Read<number> = integerFrom(0);
/** A whole number from 1. */
export const positive: Read<number> = integerFrom(1);
/** A duration in seconds; parts of a second are allowed. */
export const seconds: Read<number> = numberIn(0, Number.MAX_SAFE_INTEGER);
/** A share in percent. */
export const percent: Read<number> = numberIn(0, 100);
/** A price or another measure that is not negative. */
export const amount: Read<number> = numberIn(0, Number.MAX_VALUE);

/** One of a closed list of words. */
export const oneOf =
  <T extends string>(words: readonly T[]): Read<T> =>
  (value, found, where, key) => {
    const read = text(value, found, where, key);
    if (read === undefined || (words as readonly string[]).includes(read)) return read as T | undefined;
    found.error('E_ENUM', where, key);
    return undefined;
  };

/** An object of the protocol or of a peer's own making. */
export const object: Read<Members> = (value, found, where, key) => {
  if (isObject(value)) return value as Members;
  found.error('E_FIELD_TYPE', where, key);
  return undefined;
};

/** A list; entries that cannot be read are left out after a finding each. */
export const listOf =
  <T>(read: Read<T>): Read<readonly T[]> =>
  (value, found, where, key) => {
    if (!Array.isArray(value)) {
      found.error('E_FIELD_TYPE', where, key);
      return undefined;
    }
    const here = pointer(where, key);
    const entries: T[] = [];
    for (const [index, entry] of value.entries()) {
      const one = read(entry, found, here, index);
      if (one !== undefined) entries.push(one);
    }
    return entries;
  };

export const texts: Read<readonly string[]> = listOf(text);

/** Names in canonical form, each once. */
export const names: Read<readonly string[]> = (value, found, where, key) => {
  if (Array.isArray(value) && value.length > MAX_NAMES) {
    found.error('E_LIMIT', where, key);
    return undefined;
  }
  const seen = new Set<string>();
  const entry: Read<string> = (one, _found, here, index) => {
    const read = name(one, found, here, index);
    if (read !== undefined && seen.has(read)) found.warn('W_DUP_NAME', here, index);
    else if (read !== undefined) seen.add(read);
    return read;
  };
  return listOf(entry)(value, found, where, key) && [...seen];
};

/** How one member of an object is read. */
export interface Field<T, Needed extends boolean = boolean> {
  readonly read: Read<T>;
  readonly needed: Needed;
}

export const need = <T>(read: Read<T>): Field<T, true> => ({ read, needed: true });
export const may = <T>(read: Read<T>): Field<T, false> => ({ read, needed: false });

/** The fields of a type: those that may be left out are marked so. */
export type FieldsOf<T> = {
  readonly [K in keyof T]-?: Field<NonNullable<T[K]>, Record<string, never> extends Pick<T, K> ? false : true>;
};

/** Reads the fields of a table from an object that is there. Members without a field are left out. */
export function readFields<T>(fields: FieldsOf<T>, members: Members, found: Findings, where: string): T {
  const read: Record<string, unknown> = {};
  for (const key in fields) {
    const field: Field<unknown> = fields[key];
    const value = members[key];
    if (value !== undefined && value !== null) {
      const one = field.read(value, found, where, key);
      if (one !== undefined) read[key] = one;
    } else if (field.needed) found.error('E_REQUIRED', where, key);
  }
  return read as T;
}

/** A reader of objects from a table of fields. */
export const objectOf =
  <T>(fields: FieldsOf<T>): Read<T> =>
  (value, found, where, key) => {
    const members = object(value, found, where, key);
    return members && readFields(fields, members, found, pointer(where, key));
  };
