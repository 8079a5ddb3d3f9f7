/** Expressions of A2E 1.0, as the Python SDK evaluates them: paths (`$`, `$.node.field`) and conditions (`$.node.field == 3`). */
import { trimmedEnd } from '../../../base/trim-end.ts';
import { isObject } from '../../../wire/json.ts';
import { failure } from '../errors.ts';
import type { Context } from './context.ts';

/** A path into the context; no names: the whole context. */
export interface Path {
  readonly names: readonly string[];
}

/** Longest path or condition of A2E 1.0, in characters. */
const MAX_CHARS = 4_096;

/** An index, a slice, a filter or a quoted name, as other path languages have them. */
const INDEX = /\[(?:-?\d+|\*|\?[^\]]*|-?\d*:[-\d:]*|'[^']*'|"[^"]*")?\]/;

/** Reads `$` or `$.name.name`. Returns a text that describes the problem of an invalid path. */
export function parsePath(text: string): Path | string {
  if (text.length > MAX_CHARS) return `the path exceeds ${MAX_CHARS} characters`;
  if (text === '$') return { names: [] };
  if (!text.startsWith('$.')) return `expected \`$\` or \`$.name\`, got: ${text.slice(0, 40)}`;
  const names = text.slice(2).split('.');
  if (names.includes('')) return `a name is missing between two dots: ${text.slice(0, 80)}`;
  if (names.some((name) => INDEX.test(name))) {
    return `a path has names only, got ${text.slice(0, 80)}; write {"jmespath": "${text.slice(2, 82).replaceAll('"', '\\"')}"}`;
  }
  return { names };
}

/** Returns the value at a path; null: the path leads nowhere. Reads own members of objects only. */
export function valueAt({ names }: Path, context: Context): unknown {
  const [first, ...rest] = names;
  if (first === undefined) return context.whole();
  let value = context.get(first);
  for (const name of rest) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return null;
    value = value[name];
  }
  return value ?? null;
}

type Operator = '==' | '!=' | '>=' | '<=' | '>' | '<';

/** A condition of A2E 1.0: a comparison, or a path whose value counts. */
export interface PathCondition {
  readonly path: Path;
  readonly compare?: { readonly operator: Operator; readonly literal: string | number | boolean | null };
}

/** Advice for a condition that one comparison cannot express. */
const AS_CEL = 'write it as CEL, without `$.`: `input.a == 1 && b.status != "done"`';

/** A path up to a sign that no name in it has, and the operator. */
const COMPARISON = /^(\$[^\s=!<>&|~"'`()[\]{},?;*^\\]*)\s*(==|!=|>=|<=|>|<)?(.*)$/s;

/**
 * Reads a condition that begins with `$`: a path, or one comparison of a path with a literal. Returns the problem as a text: a
 * condition that only looks like a comparison would hold, or not, for all data alike.
 */
export function parseCondition(text: string): PathCondition | string {
  const [, given = '', operator, rest = ''] = COMPARISON.exec(text) ?? [];
  const path = parsePath(given);
  if (typeof path === 'string') return given === '' ? `expected a path, got: ${text.slice(0, 40)}` : path;
  if (operator === undefined) {
    if (rest === '') return { path };
    return `expected ==, !=, >=, <=, > or < behind ${given.slice(0, 40)}, got: ${rest.slice(0, 40)}; ${AS_CEL}`;
  }
  const literal = literalOf(rest.trim());
  if (typeof literal === 'object') return { path, compare: { operator: operator as Operator, literal: literal.value } };
  return `behind ${operator}: ${literal}`;
}

const NUMBER = /^[+-]?(?:\d+(?:_\d+)*)?(?:\.\d*)?(?:e[+-]?\d+)?$/i;
const WHOLE = /^[+-]?\d+$/;
const QUOTES = `'"`;
const PLAIN = /^[\p{L}\p{M}\p{N} _.:@/-]+$/u;

/** Words of other languages for the literals of this one. */
const LITERAL_WORDS: ReadonlyMap<string, string> = new Map([
  ['none', 'null'],
  ['nil', 'null'],
  ['undefined', 'null'],
  ['null', 'null'],
  ['true', 'true'],
  ['false', 'false'],
]);

/** Reads the right side of a comparison. Returns the problem as a text. */
function literalOf(text: string): { readonly value: string | number | boolean | null } | string {
  if (text === '') return 'expected a number, true, false, null or a text in quotes, got nothing';
  if (text === 'true' || text === 'false') return { value: text === 'true' };
  if (text === 'null') return { value: null };
  if (/\d/.test(text) && NUMBER.test(text)) {
    const plain = text.replaceAll('_', '');
    const value = Number(plain);
    if (!Number.isFinite(value)) return `${text.slice(0, 40)} is larger than a number may be`;
    if (WHOLE.test(plain) && !Number.isSafeInteger(value)) {
      return `the number ${text.slice(0, 40)} has more digits than a number of JSON keeps; compare texts, in quotes`;
    }
    return { value };
  }
  const [quote] = text;
  if (quote === '"' || quote === "'") {
    // The SDK removes all quotes at both ends.
    const inner = trimmedEnd(text.replace(/^['"]+/, ''), QUOTES);
    if (text.length > 1 && text.endsWith(quote) && !inner.includes(quote)) return { value: inner };
    return text.indexOf(quote, 1) < 0 ? `the text has no closing ${quote}` : `one comparison only; ${AS_CEL}`;
  }
  if (text.startsWith('$')) return `expected a literal, got a path; ${AS_CEL}`;
  if (/^[=<>!~]/.test(text)) return `expected a literal, got ${text[0]}; write == or !=`;
  if (/&&|\|\||\b(?:and|or)\b/.test(text)) return `one comparison only; ${AS_CEL}`;
  const word = LITERAL_WORDS.get(text.toLowerCase());
  if (word !== undefined) return `write ${word}, or "${text}" for the text`;
  // The SDK takes plain words as a text.
  if (PLAIN.test(text)) return { value: text };
  return `write a text with signs in quotes: "${text.slice(0, 40).replaceAll('"', '')}"`;
}

/** Returns true when a condition holds. Fails with chains.expression where two values have no order. */
export function holds({ path, compare }: PathCondition, context: Context): boolean {
  const found = valueAt(path, context);
  if (compare === undefined) return isTrue(found);
  const { operator, literal } = compare;
  const value = comparable(typeof found === 'string' ? found.trim() : found);
  const other = comparable(literal);
  if (operator === '==') return value === other;
  if (operator === '!=') return value !== other;
  if (value === null || other === null) return false;
  if (typeof value !== typeof other || (typeof value !== 'number' && typeof value !== 'string')) {
    throw failure('expression', `${kindOf(found)} and ${kindOf(literal)} have no order`, { reason: 'type' });
  }
  const [left, right] = [value, other] as [number, number];
  if (operator === '>') return left > right;
  if (operator === '<') return left < right;
  return operator === '>=' ? left >= right : left <= right;
}

/** Converts true and false to 1 and 0 for comparisons, as Python does. */
const comparable = (value: unknown): unknown => (typeof value === 'boolean' ? Number(value) : value);

const kindOf = (value: unknown): string => (Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`);

/** Returns true for all values except null, false, 0, and empty texts, arrays and objects. */
function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}
