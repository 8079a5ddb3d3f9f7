/**
 * The reader of the fleet dialect: walks the short form of a schema (`protocol/fleet.generated.ts`) over a value that
 * arrived, and reports every error and warning in one pass. `null` equals absent; unknown members pass.
 *
 * Rules between members, which no schema says, are in `rules.ts`.
 * @see docs/protocol/fleet.md#scalars
 */

import { formatTimestamp, parseTimestamp } from '../../base/timestamp.ts';
import type { Member } from '../../protocol/member.ts';
import { isLonger } from '../../wire/ascii.ts';
import { type Findings, pointer } from '../../wire/findings.ts';
import { isObject } from '../../wire/json.ts';
import type { Members } from '../../wire/strict-json.ts';
import { canonicalName, isAgentId, isBlank, isId, isName } from './names.ts';

/** Longest brief and longest steering text, in bytes of UTF-8. */
const MAX_PROMPT_BYTES = 262_144;

/**
 * Reads a value that is present: returns its meaning, or undefined after a finding about the member `key` of the object at
 * `where`.
 */
export type Read = (value: unknown, found: Findings, where: string, key: string | number) => unknown;

/** Reads the members of an object into `into`. */
export type ReadMembers = (members: Members, into: Record<string, unknown>, found: Findings, where: string) => void;

/** The classes of texts: each returns the text that was read, or the code of the error in it. */
const textClasses: Readonly<Record<string, (text: string) => { readonly text: string } | string>> = {
  string: (text) => ({ text }),
  filled: (text) => (isBlank(text) ? 'E_REQUIRED' : { text }),
  prompt: (text) => (isBlank(text) ? 'E_REQUIRED' : isLonger(text, MAX_PROMPT_BYTES) ? 'E_LIMIT' : { text }),
  id: (text) => (isId(text) ? { text } : 'E_FORMAT'),
  agent_id: (text) => (isAgentId(text) ? { text } : 'E_FORMAT'),
  name: (text) => (isName(text) ? { text: canonicalName(text) } : 'E_FORMAT'),
  timestamp(text) {
    const time = parseTimestamp(text);
    return time === undefined ? 'E_FORMAT' : { text: formatTimestamp(time) };
  },
};

function readText({ as, words, other }: Member): Read {
  const read = textClasses[as];
  if (read === undefined) throw new Error(`the fleet reader has no class "${as}"`);
  return (value, found, where, key) => {
    const result = typeof value === 'string' ? read(value) : 'E_FIELD_TYPE';
    if (typeof result === 'string') return found.error(result, where, key);
    if (words === undefined || words.includes(result.text)) return result.text;
    found.warn('W_UNKNOWN_ENUM', where, key);
    return other ?? result.text;
  };
}

/** Reads one of a closed list of words: an outcome must not be guessed. */
const readWord =
  ({ oneOf = [] }: Member): Read =>
  (value, found, where, key) =>
    oneOf.includes(value as string)
      ? value
      : found.error(typeof value === 'string' ? 'E_ENUM' : 'E_FIELD_TYPE', where, key);

/** A finite number between two bounds, both allowed. A fraction is of another type than an integer. */
const readNumber =
  ({ as, min = -Number.MAX_VALUE, max = Number.MAX_VALUE }: Member): Read =>
  (value, found, where, key) => {
    if (typeof value !== 'number') return found.error('E_FIELD_TYPE', where, key);
    if (as === 'integer' && Number.isFinite(value) && !Number.isInteger(value)) {
      return found.error('E_FIELD_TYPE', where, key);
    }
    // Also false for NaN. Minus zero is zero.
    return value >= min && value <= max ? value + 0 : found.error('E_RANGE', where, key);
  };

const readFlag: Read = (value, found, where, key) =>
  typeof value === 'boolean' ? value : found.error('E_FIELD_TYPE', where, key);

/** Makes the reader of a list; entries that cannot be read are left out after a finding each. Names stay once each. */
function readList({ items, max = Number.POSITIVE_INFINITY }: Member): Read {
  const read = readerOf(items as Member);
  const once = items?.as === 'name';
  return (value, found, where, key) => {
    if (!Array.isArray(value)) return found.error('E_FIELD_TYPE', where, key);
    if (value.length > max) return found.error('E_LIMIT', where, key);
    const here = pointer(where, key);
    const entries: unknown[] = [];
    for (const [index, entry] of value.entries()) {
      const one = read(entry, found, here, index);
      if (one === undefined) continue;
      if (once && entries.includes(one)) found.warn('W_DUP_NAME', here, index);
      else entries.push(one);
    }
    return entries;
  };
}

/** Makes the reader of an object of the protocol, or of one of a peer's own making. */
function readObject(member: Member): Read {
  const read = member.members && membersReader(member);
  return (value, found, where, key) => {
    if (!isObject(value)) return found.error('E_FIELD_TYPE', where, key);
    if (read === undefined) return value;
    const into = {};
    read(value, into, found, pointer(where, key));
    return into;
  };
}

const readers: Readonly<Record<string, (member: Member) => Read>> = {
  word: readWord,
  integer: readNumber,
  number: readNumber,
  boolean: () => readFlag,
  array: readList,
  object: readObject,
  any: () => (value) => value,
};

/** Returns the reader of a value. */
export const readerOf = (member: Member): Read => (readers[member.as] ?? readText)(member);

/** A member as it is walked. */
interface Field {
  readonly key: string;
  readonly needed: boolean;
  readonly unused: boolean;
  /** Anything at all, null too. */
  readonly any: boolean;
  /** The value that stands for an absent member; undefined: none does. */
  readonly absent: unknown;
  readonly read: Read;
  /** Reads its members into the object that holds it. */
  readonly spread: ReadMembers | undefined;
}

/** Stands for an object that is absent or cannot be read: its members are not asked for once more. */
const NOTHING: Members = Object.freeze({});

/** Returns the reader of the members of an object. Members in `others` are read elsewhere. */
export function membersReader({ members = {}, full, warns }: Member, others: readonly string[] = []): ReadMembers {
  const known = new Set([...others, ...Object.keys(members)]);
  const fields = Object.entries(members).map(
    ([key, member]): Field => ({
      key,
      needed: member.needed === true,
      unused: member.unused === true,
      any: member.as === 'any',
      absent: Object.freeze(member.absent) ?? (full ? null : undefined),
      read: member.spread ? readObject({ as: 'object' }) : readerOf(member),
      spread: member.spread ? membersReader(member) : undefined,
    }),
  );
  return (object, into, found, where) => {
    if (warns) found.unknown(object, known, where);
    for (const { key, needed, unused, any, absent, read, spread } of fields) {
      const value = object[key];
      const isAbsent = value === undefined || value === null;
      if (isAbsent && needed && object !== NOTHING) found.error('E_REQUIRED', where, key);
      const result = isAbsent ? absent : (read(value, found, where, key) ?? absent);
      if (spread !== undefined) spread(isObject(result) ? result : NOTHING, into, found, pointer(where, key));
      else if (any && !unused) into[key] = value;
      else if (!unused && result !== undefined) into[key] = result;
    }
  };
}
