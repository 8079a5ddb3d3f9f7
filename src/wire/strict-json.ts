/**
 * The strict decoder: from wire text to a JSON object, or to every reason of a refusal. It reports and never throws.
 *
 * It decodes every message of the fleet, and every JSON candidate that reply extraction finds in prose. It refuses text
 * that two readers could understand in two ways: a proxy and a worker must not have different copies of `status`.
 * @see docs/protocol/fleet.md#decoder
 */
import { isUtf8 } from 'node:buffer';
import { isLonger } from './ascii.ts';
import { MAX_VALUES, moreValues, tooDeep } from './depth.ts';
import { type Finding, MAX_FINDINGS, pointer } from './findings.ts';
import { isObject } from './json.ts';
import { MAX_LEVELS, scanJson } from './json-scan.ts';

/** Longest message, in bytes of UTF-8. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** The members of a JSON object. Only own ones count: a look-up by a peer's name must use `Object.hasOwn`. */
export type Members = Readonly<Record<string, unknown>>;

/** A JSON object, or why it is none. */
export type StrictJson =
  | { readonly ok: true; readonly value: Members; readonly warnings: readonly Finding[] }
  | { readonly ok: false; readonly errors: readonly Finding[]; readonly warnings: readonly Finding[] };

const NONE: readonly Finding[] = [];
const BOM_SEEN: readonly Finding[] = [{ code: 'W_BOM', path: '' }];

const refused = (code: string, warnings: readonly Finding[] = NONE): StrictJson => ({
  ok: false,
  errors: [{ code, path: '' }],
  warnings,
});

/** Reads one JSON object from a text, or from bytes that must be UTF-8. */
export function readStrictJson(input: string | Uint8Array): StrictJson {
  if (typeof input === 'string') {
    return isLonger(input, MAX_MESSAGE_BYTES) ? refused('E_LIMIT') : readText(input);
  }
  if (input.byteLength > MAX_MESSAGE_BYTES) return refused('E_LIMIT');
  // Checked first, because decoding would replace invalid UTF-8 by U+FFFD.
  if (!isUtf8(input)) return refused('E_NOT_JSON');
  return readText(Buffer.from(input.buffer, input.byteOffset, input.byteLength).toString('utf8'));
}

function readText(input: string): StrictJson {
  const marked = input.charCodeAt(0) === 0xfeff;
  const text = marked ? input.slice(1) : input;
  const warnings = marked ? BOM_SEEN : NONE;
  if (moreValues(text, MAX_VALUES)) return refused('E_LIMIT', warnings);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // A text that is nested too deeply is refused for that, before the rest is parsed.
    return refused(tooDeep(text, MAX_LEVELS) ? 'E_LIMIT' : 'E_NOT_JSON', warnings);
  }
  const errors = scanJson(text);
  if (errors.length > 0) return { ok: false, errors, warnings };
  return isObject(value) ? { ok: true, value, warnings } : refused('E_NOT_OBJECT', warnings);
}

/** The remaining bounds while a value is walked through. */
interface Walk {
  /** Bytes that it may still take as JSON; the count is a lower bound. */
  room: number;
  /** Values it may still have, as `depth.ts` counts them. */
  values: number;
  problem: string | undefined;
  /** The key `__proto__` was met. */
  reserved: boolean;
}

/**
 * Reads, in the same way, a value that never was text, as the in-process bus passes it: it must be expressible in JSON,
 * within the same bounds. Members that are `undefined` count as absent.
 */
export function readStrictValue(value: unknown): StrictJson {
  const walk: Walk = { room: MAX_MESSAGE_BYTES, values: MAX_VALUES, problem: undefined, reserved: false };
  if (!within(value, walk, MAX_LEVELS)) return refused(walk.problem as string);
  if (walk.reserved) return { ok: false, errors: reservedKeys(value, '', []), warnings: NONE };
  return isObject(value) ? { ok: true, value, warnings: NONE } : refused('E_NOT_OBJECT');
}

/** Ends the walk. */
function stop(walk: Walk, problem: string): false {
  walk.problem = problem;
  return false;
}

/** Calls itself at most {@link MAX_LEVELS} deep; circles end there, and shared parts by the room they take. */
function within(value: unknown, walk: Walk, levels: number): boolean {
  walk.values -= 1;
  if (typeof value === 'string') walk.room -= value.length + 2;
  else if (typeof value !== 'object') {
    if (typeof value !== 'number' && typeof value !== 'boolean') return stop(walk, 'E_NOT_JSON');
    walk.room -= 1;
  } else if (value === null) walk.room -= 4;
  else {
    if (levels === 0) return stop(walk, 'E_LIMIT');
    walk.room -= 2;
    if (Array.isArray(value)) {
      for (const element of value) if (!within(element, walk, levels - 1)) return false;
    } else {
      const prototype: unknown = Object.getPrototypeOf(value);
      if (prototype !== Object.prototype && prototype !== null) return stop(walk, 'E_NOT_JSON');
      for (const key of Object.keys(value)) {
        const member = (value as Members)[key];
        if (member === undefined) continue;
        if (key === '__proto__') walk.reserved = true;
        walk.room -= key.length + 3;
        walk.values -= 1;
        if (!within(member, walk, levels - 1)) return false;
      }
    }
  }
  return (walk.room >= 0 && walk.values >= 0) || stop(walk, 'E_LIMIT');
}

/**
 * Returns every position of the key, as for a text. Computed once the value is known to contain one: positions cost
 * their paths.
 */
function reservedKeys(value: unknown, where: string, found: Finding[]): readonly Finding[] {
  if (typeof value !== 'object' || value === null) return found;
  const isList = Array.isArray(value);
  for (const [key, member] of Object.entries(value)) {
    if (found.length === MAX_FINDINGS) break;
    if (member === undefined) continue;
    const path = pointer(where, key);
    if (!isList && key === '__proto__') found.push({ code: 'E_RESERVED_KEY', path });
    reservedKeys(member, path, found);
  }
  return found;
}
