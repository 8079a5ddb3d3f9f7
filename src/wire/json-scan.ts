/**
 * Searches a JSON text for faults that `JSON.parse` hides: keys that occur twice in one object, the key `__proto__`,
 * and nesting that is too deep. One pass over the text, without recursion; strings are jumped over.
 *
 * `JSON.parse` has accepted the texts, so it need not check the grammar.
 */
import { stringEnd } from './depth.ts';
import { type Finding, MAX_FINDINGS, pointer } from './findings.ts';

/** Deepest nesting of objects and arrays; the root value is level 1. */
export const MAX_LEVELS = 32;

const QUOTE = 34;
const COMMA = 44;

/** Keys of one object compared with each other; past them a set is made. */
const FEW_KEYS = 12;

/** An object or array the scan is in. Used again for the next one of its level. */
interface Level {
  isObject: boolean;
  /** Keys seen, for an object with few of them. */
  readonly keys: string[];
  /** Keys seen, for one with many. */
  set: Set<string> | undefined;
  /** Position of the scan in the level. */
  key: string;
  index: number;
}

/** Returns true when the object has this key already; stores it otherwise. */
function seenBefore(level: Level, key: string): boolean {
  const { keys } = level;
  if (level.set !== undefined) {
    if (level.set.has(key)) return true;
    level.set.add(key);
    return false;
  }
  for (const other of keys) if (other === key) return true;
  keys.push(key);
  if (keys.length > FEW_KEYS) level.set = new Set(keys);
  return false;
}

/** Returns the JSON Pointer of the scan's present key. */
function pathOf(levels: readonly Level[], depth: number): string {
  let path = '';
  for (let at = 0; at < depth; at++) {
    const { isObject, key, index } = levels[at] as Level;
    path = pointer(path, isObject ? key : index);
  }
  return path;
}

/**
 * Returns the findings of a text that is JSON: one `E_LIMIT` when it is nested too deeply, else an `E_RESERVED_KEY` or
 * `E_DUP_KEY` for each position, once. Linear in the length of the text.
 */
export function scanJson(text: string, maxLevels = MAX_LEVELS): readonly Finding[] {
  const levels: Level[] = [];
  const found = new Map<string, Finding>();
  let depth = 0;
  let level: Level | undefined;
  let keyComes = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = stringEnd(text, at + 1);
      if (keyComes) {
        const raw = text.slice(at + 1, end);
        const key = raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
        keyComes = false;
        level!.key = key;
        const problem = key === '__proto__' ? 'E_RESERVED_KEY' : seenBefore(level!, key) ? 'E_DUP_KEY' : undefined;
        if (problem !== undefined && found.size < MAX_FINDINGS) {
          const path = pathOf(levels, depth);
          found.set(path, { code: problem, path });
        }
      }
      at = end;
    } else if (code === 123 || code === 91) {
      if (depth === maxLevels) return [{ code: 'E_LIMIT', path: '' }];
      keyComes = code === 123;
      level = levels[depth];
      if (level === undefined) {
        level = { isObject: keyComes, keys: [], set: undefined, key: '', index: 0 };
        levels.push(level);
      } else {
        level.isObject = keyComes;
        level.keys.length = 0;
        level.set = undefined;
        level.index = 0;
      }
      depth++;
    } else if (code === 125 || code === 93) {
      depth--;
      level = levels[depth - 1];
      keyComes = false;
    } else if (code === COMMA) {
      if (level!.isObject) keyComes = true;
      else level!.index++;
    }
  }
  return found.size === 0 ? NONE : [...found.values()];
}

const NONE: readonly Finding[] = [];
