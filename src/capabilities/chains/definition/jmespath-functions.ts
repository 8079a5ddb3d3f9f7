/**
 * The functions of JMESPath: those of the specification, and of JMESPath Community `items`, `from_items`, `group_by`, `zip`,
 * `lower`, `upper`, `split` and `trim`. Each counts the values it reads and makes. `jmespath.ts` checks names and numbers of
 * arguments before.
 */
import type { Steps } from '../../../base/steps.ts';
import { codePoints, placeIn, splitAt } from '../../../base/text-search.ts';
import { isObject } from '../../../wire/json.ts';
import { failure } from '../errors.ts';
import { STEPS_PER_MEMBER } from './steps.ts';

/** An argument with `&`. */
export type Reference = (item: unknown) => unknown;

export interface Arity {
  readonly min: number;
  readonly max: number;
  /** Positions of the arguments that are expressions with `&`. */
  readonly references: readonly number[];
}

interface Definition extends Arity {
  readonly call: (args: readonly unknown[], steps: Steps, name: string) => unknown;
}

const takes = (count: number, call: Definition['call'], references: readonly number[] = []): Definition => ({
  min: count,
  max: count,
  references,
  call,
});
const takesAny = (call: Definition['call']): Definition => ({
  min: 1,
  max: Number.POSITIVE_INFINITY,
  references: [],
  call,
});

const wrong = (name: string, expected: string): Error =>
  failure('expression', `${name}() expects ${expected}`, { reason: 'type', function: name });

function text(value: unknown, name: string): string {
  if (typeof value !== 'string') throw wrong(name, 'a text');
  return value;
}
function number(value: unknown, name: string): number {
  if (typeof value !== 'number') throw wrong(name, 'a number');
  return value;
}
function list(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(name, 'an array');
  return value;
}
function object(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (!isObject(value)) throw wrong(name, 'an object');
  return value;
}
function all<T>(value: unknown, name: string, is: (item: unknown) => item is T, what: string): readonly T[] {
  const items = list(value, name);
  if (!items.every(is)) throw wrong(name, `an array of ${what}`);
  return items;
}
const isNumber = (value: unknown): value is number => typeof value === 'number';
const isText = (value: unknown): value is string => typeof value === 'string';
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);

/** Returns an array of numbers, or of texts: the values that have an order. */
function ordered(value: unknown, name: string): readonly (number | string)[] {
  const items = list(value, name);
  if (!items.every(isNumber) && !items.every(isText)) throw wrong(name, 'an array of numbers or one of texts');
  return items as readonly (number | string)[];
}

/** Compares texts by code points, as the specification orders them. */
function compare(left: number | string, right: number | string, steps: Steps): number {
  if (typeof left === 'number' || typeof right === 'number') return Number(left) - Number(right);
  const length = Math.min(left.length, right.length);
  let at = 0;
  while (at < length && left.charCodeAt(at) === right.charCodeAt(at)) at += 1;
  steps.countText(at);
  if (at === length) return left.length - right.length;
  // The first half of a pair belongs to the character that differs.
  if (at > 0 && HIGH_HALF.test(left.charAt(at - 1))) at -= 1;
  return (left.codePointAt(at) as number) - (right.codePointAt(at) as number);
}
const HIGH_HALF = /[\uD800-\uDBFF]/;

/** Returns the keys of items by an expression: all numbers or all texts. */
function keysOf(items: readonly unknown[], by: unknown, name: string): (number | string)[] {
  const keys = items.map(by as Reference);
  if (!keys.every(isNumber) && !keys.every(isText)) throw wrong(name, 'an expression that gives numbers, or texts');
  return keys as (number | string)[];
}

/** Counts the comparisons of a sort, about this many for each item; comparing counts the texts. */
const countSort = (items: readonly unknown[], steps: Steps): void => {
  steps.count(items.length * Math.ceil(Math.log2(items.length + 2)));
};

function extreme(keys: readonly (number | string)[], sign: 1 | -1, steps: Steps): number {
  let best = 0;
  for (let at = 1; at < keys.length; at += 1) {
    if (compare(keys[at] as number, keys[best] as number, steps) * sign > 0) best = at;
  }
  return best;
}

const extremeOf =
  (sign: 1 | -1): Definition['call'] =>
  ([given], steps, name) => {
    const items = ordered(given, name);
    return items[extreme(items, sign, steps)] ?? null;
  };

const extremeBy =
  (sign: 1 | -1): Definition['call'] =>
  ([given, by], steps, name) => {
    const items = list(given, name);
    const keys = keysOf(items, by, name);
    return items[extreme(keys, sign, steps)] ?? null;
  };

function sortBy([given, by]: readonly unknown[], steps: Steps, name: string): unknown[] {
  const items = list(given, name);
  const keys = keysOf(items, by, name);
  countSort(keys, steps);
  const places = items.map((_, at) => at);
  places.sort((a, b) => compare(keys[a] as number, keys[b] as number, steps));
  return places.map((at) => items[at]);
}

function groupBy([given, by]: readonly unknown[], steps: Steps, name: string): object {
  const items = list(given, name);
  const groups = new Map<string, unknown[]>();
  for (const item of items) {
    const key = text((by as Reference)(item), name);
    steps.countText(key.length);
    const group = groups.get(key) ?? [];
    group.push(item);
    groups.set(key, group);
  }
  steps.count(items.length + groups.size * STEPS_PER_MEMBER);
  return Object.fromEntries(groups);
}

function contains([where, what]: readonly unknown[], steps: Steps, name: string): boolean {
  if (typeof where === 'string') return typeof what === 'string' && placeIn(where, what, steps) !== -1;
  return list(where, name).some((item) => equal(item, what, steps));
}

function join([by, given]: readonly unknown[], steps: Steps, name: string): string {
  const parts = all(given, name, isText, 'texts');
  const between = text(by, name);
  // Counts before the text is made: the parts may be one and the same.
  for (const part of parts) steps.countText(part.length + between.length);
  return parts.join(between);
}

function toText([value]: readonly unknown[], steps: Steps): string {
  steps.countAll(value);
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

function toNumber([value]: readonly unknown[], steps: Steps): number | null {
  if (typeof value === 'number') return value;
  if (typeof value === 'string') steps.count(value.length);
  const converted = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN;
  return Number.isFinite(converted) ? converted : null;
}

function zip(given: readonly unknown[], steps: Steps, name: string): unknown[][] {
  const lists = all(given, name, isList, 'arrays');
  const length = lists.reduce((least, { length: each }) => Math.min(least, each), Number.POSITIVE_INFINITY);
  steps.count(length * lists.length);
  return Array.from({ length }, (_, at) => lists.map((items) => items[at]));
}

function fromItems([given]: readonly unknown[], steps: Steps, name: string): object {
  const pairs = all(given, name, isList, 'arrays');
  for (const pair of pairs)
    if (pair.length !== 2 || typeof pair[0] !== 'string') throw wrong(name, 'pairs of a text and a value');
  steps.count(pairs.length * STEPS_PER_MEMBER);
  return Object.fromEntries(pairs as readonly [string, unknown][]);
}

function mean([given]: readonly unknown[], _steps: Steps, name: string): number | null {
  const numbers = all(given, name, isNumber, 'numbers');
  return numbers.length === 0 ? null : numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}

function reverse([value]: readonly unknown[], steps: Steps, name: string): unknown {
  steps.count(Array.isArray(value) ? value.length : 0);
  if (typeof value !== 'string') return [...list(value, name)].reverse();
  steps.count(value.length * 2);
  return [...value].reverse().join('');
}

function lengthOf([value]: readonly unknown[], steps: Steps, name: string): number {
  if (typeof value === 'string') return codePoints(value, steps);
  return Array.isArray(value) ? value.length : steps.keys(object(value, name)).length;
}

function split([value, by]: readonly unknown[], steps: Steps, name: string): string[] {
  const whole = text(value, name);
  return whole === '' ? [] : splitAt(whole, text(by, name), steps);
}

type Members = Readonly<Record<string, unknown>>;
const MEMBER = { configurable: true, enumerable: true, writable: true };

function merge(given: readonly unknown[], steps: Steps, name: string): object {
  const merged: Record<string, unknown> = {};
  for (const each of given) {
    const names = steps.keys(object(each, name));
    steps.count(names.length * STEPS_PER_MEMBER);
    // Defines members, so that one named `__proto__` is a member, too.
    for (const key of names) Object.defineProperty(merged, key, { ...MEMBER, value: (each as Members)[key] });
  }
  return merged;
}

function typeOf([value]: readonly unknown[]): string {
  if (value === null || value === undefined) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

const counted =
  (of: (value: string) => string): Definition['call'] =>
  ([value], steps, name) => {
    const whole = text(value, name);
    steps.count(1 + Math.ceil(whole.length / 2));
    return of(whole);
  };

const entriesOf =
  (of: (value: object) => unknown[]): Definition['call'] =>
  ([value], steps, name) => {
    steps.count(steps.keys(object(value, name)).length);
    return of(value as object);
  };

const definitions: ReadonlyMap<string, Definition> = new Map(
  Object.entries({
    abs: takes(1, ([value], _, name) => Math.abs(number(value, name))),
    avg: takes(1, mean),
    ceil: takes(1, ([value], _, name) => Math.ceil(number(value, name))),
    contains: takes(2, contains),
    ends_with: takes(2, ([value, end], steps, name) => {
      steps.countText(text(end, name).length);
      return text(value, name).endsWith(text(end, name));
    }),
    floor: takes(1, ([value], _, name) => Math.floor(number(value, name))),
    from_items: takes(1, fromItems),
    group_by: takes(2, groupBy, [1]),
    items: takes(1, entriesOf(Object.entries)),
    join: takes(2, join),
    keys: takes(1, entriesOf(Object.keys)),
    length: takes(1, lengthOf),
    lower: takes(
      1,
      counted((value) => value.toLowerCase()),
    ),
    map: takes(2, ([by, given], _, name) => list(given, name).map((item) => (by as Reference)(item)), [0]),
    max: takes(1, extremeOf(1)),
    max_by: takes(2, extremeBy(1), [1]),
    merge: takesAny(merge),
    min: takes(1, extremeOf(-1)),
    min_by: takes(2, extremeBy(-1), [1]),
    not_null: takesAny((given) => given.find((value) => value !== null && value !== undefined) ?? null),
    reverse: takes(1, reverse),
    sort: takes(1, ([given], steps, name) => {
      const items = ordered(given, name);
      countSort(items, steps);
      return [...items].sort((left, right) => compare(left, right, steps));
    }),
    sort_by: takes(2, sortBy, [1]),
    split: takes(2, split),
    starts_with: takes(2, ([value, start], steps, name) => {
      steps.countText(text(start, name).length);
      return text(value, name).startsWith(text(start, name));
    }),
    sum: takes(1, ([given], _, name) => all(given, name, isNumber, 'numbers').reduce((sum, each) => sum + each, 0)),
    to_array: takes(1, ([value]) => (Array.isArray(value) ? value : [value])),
    to_number: takes(1, toNumber),
    to_string: takes(1, toText),
    trim: takes(
      1,
      counted((value) => value.trim()),
    ),
    type: takes(1, typeOf),
    upper: takes(
      1,
      counted((value) => value.toUpperCase()),
    ),
    values: takes(1, entriesOf(Object.values)),
    zip: takesAny(zip),
  } satisfies Record<string, Definition>),
);

/** The names of all functions. */
export const functionNames: readonly string[] = [...definitions.keys()];

/** Returns the numbers of arguments that a function takes; undefined: no such function exists. */
export const arityOf = (name: string): Arity | undefined => definitions.get(name);

/** Calls an existing function, with as many arguments as it takes. Fails with chains.expression where one does not fit. */
export function callFunction(name: string, args: readonly unknown[], steps: Steps): unknown {
  for (const arg of args) steps.count(Array.isArray(arg) ? arg.length + 1 : 1);
  return (definitions.get(name) as Definition).call(args, steps, name);
}

/** Returns true when two values are deeply equal. */
export function equal(left: unknown, right: unknown, steps: Steps): boolean {
  steps.count();
  if (typeof left === 'string' && typeof right === 'string' && left.length === right.length) {
    steps.countText(left.length / 8);
  }
  if (left === right) return true;
  if (Array.isArray(left)) {
    if (!Array.isArray(right) || left.length !== right.length) return false;
    return left.every((item, at) => equal(item, right[at], steps));
  }
  if (!isObject(left) || !isObject(right)) return (left ?? null) === (right ?? null);
  const keys = steps.keys(left);
  if (keys.length !== steps.keys(right).length) return false;
  return keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key], steps));
}

/** Returns true for the values that count as false: null, false, and empty texts, arrays and objects. */
export function isEmpty(value: unknown, steps: Steps): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (isObject(value)) return steps.keys(value).length === 0;
  return value === null || value === undefined || value === false || value === '';
}
