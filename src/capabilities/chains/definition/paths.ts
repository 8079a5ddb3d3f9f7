/**
 * Expressions of A2E 1.0, as the Python SDK evaluates them: paths (`$`, `$.node.field`) and conditions (`$.node.field == 3`).
 *
 * Called by `expressions.ts`.
 */
import { trimmedEnd } from '../../../base/trim-end.ts';
import { isObject } from '../../../wire/json.ts';
import { failure } from '../errors.ts';
import type { Context } from './context.ts';

/** A path into the context; no names: all of it. */
export interface Path {
  readonly names: readonly string[];
}

/** Longest path or condition of A2E 1.0, in characters. */
const MAX_CHARS = 4_096;

/** Reads `$` or `$.name.name`. A text says what is wrong. */
export function parsePath(text: string): Path | string {
  if (text.length > MAX_CHARS) return `the path exceeds ${MAX_CHARS} characters`;
  if (text === '$') return { names: [] };
  if (!text.startsWith('$.')) return `expected \`$\` or \`$.name\`, got: ${text.slice(0, 40)}`;
  const names = text.slice(2).split('.');
  if (names.includes('')) return `a name is missing between two dots: ${text.slice(0, 80)}`;
  return { names };
}

/** The value at a path; null: there is none. Own members of objects only. */
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

const OPERATORS = ['==', '!=', '>=', '<=', '>', '<'] as const;
type Operator = (typeof OPERATORS)[number];

/** A condition of A2E 1.0: a comparison, or a path whose value counts. */
export interface PathCondition {
  readonly path: Path;
  readonly compare?: { readonly operator: Operator; readonly literal: string | number | boolean };
}

/** Reads a condition that begins with `$`. A text says what is wrong. */
export function parseCondition(text: string): PathCondition | string {
  // The first operator of the list that occurs anywhere counts, as the SDK has it.
  const operator = OPERATORS.find((each) => text.includes(each));
  const at = operator === undefined ? text.length : text.indexOf(operator);
  const path = parsePath(text.slice(0, at).trim());
  if (typeof path === 'string') return path;
  if (operator === undefined) return { path };
  return { path, compare: { operator, literal: literalOf(text.slice(at + operator.length).trim()) } };
}

const NUMBER = /^[+-]?(?:\d+(?:_\d+)*)?(?:\.\d*)?(?:e[+-]?\d+)?$/i;

const QUOTES = `'"`;

function literalOf(text: string): string | number | boolean {
  if (/\d/.test(text) && NUMBER.test(text)) {
    const number = Number(text.replaceAll('_', ''));
    if (!Number.isNaN(number)) return number;
  }
  if (text === 'true' || text === 'false') return text === 'true';
  return trimmedEnd(text.replace(/^['"]+/, ''), QUOTES);
}

/** Whether a condition holds. Fails with chains.expression where two values have no order. */
export function holds({ path, compare }: PathCondition, context: Context): boolean {
  const found = valueAt(path, context);
  if (compare === undefined) return isTrue(found);
  const { operator, literal } = compare;
  const value = comparable(typeof found === 'string' ? found.trim() : found);
  const other = comparable(literal);
  if (operator === '==') return value === other;
  if (operator === '!=') return value !== other;
  if (value === null) return false;
  if (typeof value !== typeof other || (typeof value !== 'number' && typeof value !== 'string')) {
    throw failure('expression', `${kindOf(found)} and ${kindOf(literal)} have no order`, { reason: 'type' });
  }
  const [left, right] = [value, other] as [number, number];
  if (operator === '>') return left > right;
  if (operator === '<') return left < right;
  return operator === '>=' ? left >= right : left <= right;
}

/** True and false compare as 1 and 0, as they do in Python. */
const comparable = (value: unknown): unknown => (typeof value === 'boolean' ? Number(value) : value);

const kindOf = (value: unknown): string => (Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`);

/** What counts as true: all but null, false, 0 and what is empty. */
function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}
