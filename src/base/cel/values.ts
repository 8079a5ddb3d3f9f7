/**
 * Values of the Common Expression Language, and its operators on lists, maps and texts: each counts its reads and its result
 * first. The package has all other values, for example durations; they are small.
 */
import type { Steps } from '../steps.ts';
import { codePoints } from '../text-search.ts';

/** An expression has no value: thrown, and made once, because a loop may fail for each of its items. */
export const NO_VALUE = new Error('the expression has no value');

export type Kind = 'string' | 'int' | 'double' | 'bool' | 'null' | 'list' | 'map' | 'other';

export function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'string':
      return 'string';
    case 'bigint':
      return 'int';
    case 'number':
      return 'double';
    case 'boolean':
      return 'bool';
    case 'object': {
      if (value === null) return 'null';
      if (Array.isArray(value)) return 'list';
      const prototype: unknown = Object.getPrototypeOf(value);
      return prototype === null || prototype === Object.prototype || value instanceof Map ? 'map' : 'other';
    }
    default:
      throw NO_VALUE;
  }
}

/** Maps of the language: objects, and maps of the host. */
type Members = Readonly<Record<string, unknown>> | ReadonlyMap<string, unknown>;

function namesOf(map: Members, steps: Steps): readonly string[] {
  if (!(map instanceof Map)) return steps.keys(map);
  steps.count(map.size);
  return [...map.keys()] as string[];
}

/** Returns the value of a name; undefined if the map has no own member of that name. */
export function valueAt(map: Members, name: string): unknown {
  if (map instanceof Map) return map.get(name);
  return Object.hasOwn(map, name) ? (map as Readonly<Record<string, unknown>>)[name] : undefined;
}

/**
 * Returns true if two values are deeply equal; values of different kinds are not. `others` compares two values that are
 * neither.
 */
export function equal(
  left: unknown,
  right: unknown,
  steps: Steps,
  others: (left: unknown, right: unknown) => unknown,
): boolean {
  steps.count();
  const kind = kindOf(left);
  switch (kind) {
    case 'string':
      if (typeof right === 'string') steps.countText(Math.min((left as string).length, right.length) / 8);
      return left === right;
    case 'bool':
    case 'null':
      return left === right;
    case 'int':
    case 'double':
      if (kindOf(right) === 'other') return others(left, right) === true;
      // An integer equals the number of equal value.
      // biome-ignore lint/suspicious/noDoubleEquals: `===` is false for 1n and 1.
      return (typeof right === 'number' || typeof right === 'bigint') && left == right;
    case 'list': {
      if (!Array.isArray(right) || (left as unknown[]).length !== right.length) return false;
      return left === right || (left as unknown[]).every((item, at) => equal(item, right[at], steps, others));
    }
    case 'map': {
      if (kindOf(right) !== 'map') return false;
      if (left === right) return true;
      const [one, other] = [left as Members, right as Members];
      const names = namesOf(one, steps);
      if (names.length !== namesOf(other, steps).length) return false;
      return names.every((name) => {
        const found = valueAt(other, name);
        return found !== undefined && equal(valueAt(one, name), found, steps, others);
      });
    }
    default:
      return kindOf(right) === 'other' && others(left, right) === true;
  }
}

/** Returns a key of a map as text. */
function nameOf(key: unknown, steps: Steps): string {
  if (typeof key === 'string') steps.countText(key.length);
  else if (!['int', 'double', 'bool'].includes(kindOf(key))) throw NO_VALUE;
  return String(key);
}

/** Returns a member of a map or an item of a list. */
export function memberOf(value: unknown, key: unknown, steps: Steps): unknown {
  let found: unknown;
  if (Array.isArray(value)) {
    if (typeof key !== 'bigint' && typeof key !== 'number') throw NO_VALUE;
    found = value[Number(key)];
  } else if (kindOf(value) === 'map') {
    found = valueAt(value as Members, nameOf(key, steps));
  }
  if (found === undefined) throw NO_VALUE;
  return found;
}

/** Returns the values that a loop runs over: the items of a list, the keys of a map. */
export function itemsOf(value: unknown, steps: Steps): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (kindOf(value) !== 'map') throw NO_VALUE;
  return namesOf(value as Members, steps);
}

/** Evaluates `value in where`. */
export function isIn(
  value: unknown,
  where: unknown,
  steps: Steps,
  others: (a: unknown, b: unknown) => unknown,
): boolean {
  if (Array.isArray(where)) return where.some((item) => equal(value, item, steps, others));
  if (kindOf(where) !== 'map') throw NO_VALUE;
  return valueAt(where as Members, nameOf(value, steps)) !== undefined;
}

/** Characters are code points, as the language has them. */
export function sizeOf(value: unknown, steps: Steps): bigint | undefined {
  if (Array.isArray(value)) return BigInt(value.length);
  if (typeof value === 'string') return BigInt(codePoints(value, steps));
  return kindOf(value) === 'map' ? BigInt(namesOf(value as Members, steps).length) : undefined;
}

const [LEAST, MOST] = [-(2n ** 63n), 2n ** 63n - 1n];

/** Integers of 64 bits. */
export function integers(operator: string, left: bigint, right: bigint): bigint {
  let result: bigint;
  if (operator === '+') result = left + right;
  else if (operator === '-') result = left - right;
  else if (operator === '*') result = left * right;
  else if (right === 0n) throw NO_VALUE;
  else result = operator === '/' ? left / right : left % right;
  if (result < LEAST || result > MOST) throw NO_VALUE;
  return result;
}

export function doubles(operator: string, left: number, right: number): number {
  if (operator === '+') return left + right;
  if (operator === '-') return left - right;
  if (operator === '*') return left * right;
  if (operator === '/') return left / right;
  throw NO_VALUE;
}

/** Evaluates `<`, `<=`, `>` or `>=` of two texts, two numbers or two truth values. */
export function ordered<Value extends string | number | bigint | boolean>(
  operator: string,
  left: Value,
  right: Value,
): boolean {
  if (operator === '<') return left < right;
  if (operator === '<=') return left <= right;
  return operator === '>' ? left > right : left >= right;
}
