/**
 * Values of inline hints: the small subset of YAML that people and models write by hand, read without a YAML parser. An invalid
 * value drops its hint, never the task.
 * @see docs/fleet-phases.md#inline-hints
 */

import { formatTimestamp, parseWrittenTimestamp } from '../../base/timestamp.ts';
import { PRIORITIES, type Priority, REPLY_SCHEMAS, type ReplySchema } from '../../protocol/fleet.ts';
import { canonicalName, isId, isName, MAX_NAMES } from '../messages/names.ts';

/** Parsed hints: names canonical, the deadline in UTC. A hint that was not given is absent. */
export interface Hints {
  task_id?: string;
  priority?: Priority;
  reply_schema?: ReplySchema;
  /** Tokens. */
  token_budget?: number;
  required_mcp?: readonly string[];
  required_capabilities?: readonly string[];
  /** RFC 3339, `YYYY-MM-DDThh:mm:ss.mmmZ`. */
  deadline?: string;
}

export type HintKey = keyof Hints;

/** The known keys, in the order in which they are written. */
export const HINT_KEYS = [
  'task_id',
  'priority',
  'reply_schema',
  'token_budget',
  'required_mcp',
  'required_capabilities',
  'deadline',
] as const satisfies readonly HintKey[];

/** True for the known keys; the text of all others is passed on unchanged. */
export const isHintKey = (key: string): key is HintKey => (HINT_KEYS as readonly string[]).includes(key);

/** The raw value of a key: text on its line, or entries of a block list below it. */
export interface RawValue {
  readonly text: string;
  readonly entries: readonly string[];
}

/** A parsed value; `undefined` without a problem: the hint is empty (`~`, `null`, no text). */
export type Read<T> =
  | { readonly value: T | undefined; readonly problem?: undefined }
  | { readonly problem: 'H_BAD_VALUE' | 'H_YAML_FEATURE' };

const BAD = { problem: 'H_BAD_VALUE' } as const;
const YAML = { problem: 'H_YAML_FEATURE' } as const;
const ABSENT = { value: undefined } as const;

/** Reads the value of a known key. */
export function readHint(key: HintKey, raw: RawValue): Read<Hints[HintKey]> {
  if (key === 'required_mcp' || key === 'required_capabilities') return readNames(raw);
  if (raw.entries.length > 0) return BAD;
  const token = readToken(raw.text, '');
  if (token === undefined) return BAD;
  if (token.problem !== undefined) return token;
  if (token.absent) return ABSENT;
  if (!token.quoted && /^[[\]]/.test(token.text)) return BAD;
  const value = convert[key](token.text);
  return value === undefined ? BAD : { value };
}

/** True when only blanks and a comment follow the key, so that a block list may follow. */
export const isEmptyValue = (text: string): boolean => {
  const trimmed = text.trim();
  return trimmed === '' || trimmed.startsWith('#');
};

interface Token {
  readonly problem?: undefined;
  readonly text: string;
  readonly quoted: boolean;
  readonly absent: boolean;
  /** End of the token in the text: at a separator, a comment, or the end. */
  readonly end: number;
}

/** Indicators of YAML features that are refused: anchors, aliases, tags, block scalars, maps, directives, merges. */
const FEATURE = /^(?:[&*!|>{}%@`?]|<<)/;

/**
 * Reads one scalar from `start`. An unquoted one ends at one of the characters of `stops`, or at a comment.
 * @returns undefined where quotes do not close, or text follows them
 */
function readToken(text: string, stops: string, start = 0): Token | typeof YAML | undefined {
  let from = start;
  while (isBlank(text[from])) from++;
  const first = text[from];
  if (first === '"' || first === "'") return readQuoted(text, stops, from);
  let end = from;
  while (end < text.length && !stops.includes(text[end] as string) && !startsComment(text, end)) end++;
  const plain = text.slice(from, end).trimEnd();
  if (FEATURE.test(plain)) return YAML;
  return { text: plain, quoted: false, absent: /^(?:~|null)?$/i.test(plain), end };
}

function readQuoted(text: string, stops: string, from: number): Token | undefined {
  const quote = text[from] as string;
  let end = from + 1;
  for (; ; end++) {
    if (end >= text.length) return undefined;
    if (quote === '"' && text[end] === '\\') end++;
    else if (text[end] === quote) {
      if (quote === '"' || text[end + 1] !== quote) break;
      end++;
    }
  }
  const inside = text.slice(from + 1, end);
  const value = quote === '"' ? unescaped(inside) : inside.replaceAll("''", "'");
  if (value === undefined) return undefined;
  let after = end + 1;
  while (isBlank(text[after])) after++;
  if (after < text.length && !stops.includes(text[after] as string) && !startsComment(text, after)) return undefined;
  return { text: value, quoted: true, absent: false, end: after };
}

function unescaped(inside: string): string | undefined {
  try {
    return JSON.parse(`"${inside}"`) as string;
  } catch {
    return undefined;
  }
}

const isBlank = (character: string | undefined): boolean => character === ' ' || character === '\t';

const startsComment = (text: string, at: number): boolean => text[at] === '#' && (at === 0 || isBlank(text[at - 1]));

/** `[a, b]`, `a, b`, one name, or a block list. Names with the same canonical form count once. */
function readNames({ text, entries }: RawValue): Read<readonly string[]> {
  const names = entries.length > 0 ? blockList(entries) : flowList(text);
  if (names === undefined) return BAD;
  if (names.problem !== undefined) return names;
  if (names.absent) return ABSENT;
  const found = new Set<string>();
  for (const name of names.items) {
    if (!isName(name)) return BAD;
    found.add(canonicalName(name));
  }
  return found.size > MAX_NAMES ? BAD : { value: [...found] };
}

type Items =
  | { readonly problem?: undefined; readonly items: readonly string[]; readonly absent: boolean }
  | typeof YAML
  | undefined;

function blockList(entries: readonly string[]): Items {
  const items: string[] = [];
  for (const entry of entries) {
    const token = readToken(entry, '');
    if (token?.problem !== undefined) return token;
    if (token === undefined || token.absent || isNested(token)) return undefined;
    items.push(token.text);
  }
  return { items, absent: false };
}

function flowList(text: string): Items {
  const value = text.trim();
  const bracketed = value.startsWith('[');
  const items: string[] = [];
  for (let at = bracketed ? 1 : 0; ; ) {
    const token = readToken(value, bracketed ? ',]' : ',', at);
    if (token === undefined || token.problem !== undefined) return token;
    const more = value[token.end] === ',';
    const nothing = token.text === '' && !token.quoted;
    if (nothing ? more : token.absent) return !more && !bracketed && items.length === 0 ? NO_LIST : undefined;
    if (!nothing) {
      if (isNested(token)) return undefined;
      items.push(token.text);
    }
    if (more) at = token.end + 1;
    else if (!bracketed) return { items, absent: items.length === 0 };
    else return value[token.end] === ']' && isRest(value.slice(token.end + 1)) ? { items, absent: false } : undefined;
  }
}

const NO_LIST: Items = { items: [], absent: true };

const isNested = ({ text, quoted }: Token): boolean => !quoted && /[[\]]/.test(text);

const isRest = (text: string): boolean => text.trim() === '' || /^[ \t]+#/.test(text);

const PRIORITY_WORDS: ReadonlyMap<string, Priority> = new Map([
  ...PRIORITIES.map((word) => [word, word] as const),
  ['p0', 'urgent'],
  ['critical', 'urgent'],
  ['p1', 'high'],
  ['p2', 'normal'],
  ['medium', 'normal'],
  ['p3', 'low'],
  ['background', 'low'],
]);

const SCHEMA_WORDS: ReadonlyMap<string, ReplySchema> = new Map([
  ...REPLY_SCHEMAS.map((word) => [word, word] as const),
  ['text', 'prose'],
]);

/** Scalar keys: the text of a value → the parsed value, or undefined for an invalid one. */
const convert: {
  readonly [K in Exclude<HintKey, 'required_mcp' | 'required_capabilities'>]: (text: string) => Hints[K];
} = {
  task_id: (text) => (isId(text) ? text : undefined),
  priority: (text) => PRIORITY_WORDS.get(text.toLowerCase()),
  reply_schema: (text) => SCHEMA_WORDS.get(text.toLowerCase()),
  token_budget: readBudget,
  deadline: readDeadline,
};

function readDeadline(text: string): string | undefined {
  const time = parseWrittenTimestamp(text);
  return time === undefined ? undefined : formatTimestamp(time);
}

/**
 * Reads `4000`, `4,000`, `4_000`, `4k`, `1.5M`. Refuses forms that other parsers read differently: hex, octal, exponent, sign;
 * and zero.
 */
function readBudget(text: string): number | undefined {
  if (text.length > 32) return undefined;
  if (/^[1-9]\d*$/.test(text) || /^[1-9]\d{0,2}(?:([,_])\d{3})(?:\1\d{3})*$/.test(text))
    return budget(text.replace(/[,_]/g, ''));
  const short = /^(0|[1-9]\d*)(?:\.(\d+))?([km])$/i.exec(text);
  if (short === null) return undefined;
  const [, whole = '', fraction = '', unit = ''] = short;
  const zeros = unit.toLowerCase() === 'k' ? 3 : 6;
  // Digits instead of floating point: 1.1k is 1100 exactly, and 1.0001k is not a whole number of tokens.
  const digits = fraction.padEnd(zeros, '0');
  return /^0*$/.test(digits.slice(zeros)) ? budget(whole + digits.slice(0, zeros)) : undefined;
}

function budget(digits: string): number | undefined {
  const value = Number(digits);
  return value >= 1 && Number.isSafeInteger(value) ? value : undefined;
}
