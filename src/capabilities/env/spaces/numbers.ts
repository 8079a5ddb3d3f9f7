/**
 * Arrays of numbers in spaces: nested by a shape in values, flat in calculations; the rounding of dtypes; and the JSON form of
 * numbers that JSON has no form for.
 */
import type { JsonSchema } from '../../../base/json-schema.ts';
import { fail } from '../../../wire/errors.ts';

/** A number, or arrays of numbers nested by a shape. */
export type Nested = number | readonly Nested[];

interface Dtype {
  readonly kind: 'float' | 'integer';
  readonly bits: number;
  readonly min: number;
  readonly max: number;
  readonly round: (value: number) => number;
}

const same = (value: number): number => value;

const integer = (bits: number, signed: boolean): Dtype => ({
  kind: 'integer',
  bits,
  // Integers beyond 2^53 are not exact in JSON, so 64-bit types end there.
  min: signed ? Math.max(-(2 ** (bits - 1)), Number.MIN_SAFE_INTEGER) : 0,
  max: Math.min(2 ** (signed ? bits - 1 : bits) - 1, Number.MAX_SAFE_INTEGER),
  round: same,
});

const float = (bits: number, max: number, round: (value: number) => number): Dtype => ({
  kind: 'float',
  bits,
  min: -max,
  max,
  round,
});

const dtypes: Readonly<Record<string, Dtype>> = {
  float64: float(64, Number.MAX_VALUE, same),
  float32: float(32, (2 - 2 ** -23) * 2 ** 127, Math.fround),
  int8: integer(8, true),
  int16: integer(16, true),
  int32: integer(32, true),
  int64: integer(64, true),
  uint8: integer(8, false),
  uint16: integer(16, false),
  uint32: integer(32, false),
  uint64: integer(64, false),
  bool: { ...integer(8, false), max: 1 },
};

/** Returns the properties of a dtype by its NumPy name. Throws `schema_violation` for other names. */
export function dtypeOf(name: string): Dtype {
  const dtype = Object.hasOwn(dtypes, name) ? dtypes[name] : undefined;
  if (dtype === undefined)
    throw fail('schema_violation', `unknown dtype "${name}"; use one of ${Object.keys(dtypes).join(', ')}`);
  return dtype;
}

/** Returns the number of elements of a shape. */
export const sizeOf = (shape: readonly number[]): number => shape.reduce((size, length) => size * length, 1);

/** Nests flat numbers by a shape; the number itself where the shape is `[]`. */
export function nest(flat: ArrayLike<number>, shape: readonly number[]): Nested {
  const build = (axis: number, from: number, size: number): Nested => {
    if (axis === shape.length) return flat[from]!;
    const part = size / shape[axis]!;
    return Array.from({ length: shape[axis]! }, (_, at) => build(axis + 1, from + at * part, part));
  };
  return build(0, 0, sizeOf(shape));
}

/**
 * Returns the numbers of a nested value in order, or undefined when it has another shape.
 * @param read makes a number of a leaf; undefined refuses it
 */
export function flatten(
  value: unknown,
  shape: readonly number[],
  read: (leaf: unknown) => number | undefined = asNumber,
): number[] | undefined {
  const flat: number[] = [];
  const visit = (part: unknown, axis: number): boolean => {
    if (axis === shape.length) {
      const number = read(part);
      if (number === undefined) return false;
      flat.push(number);
      return true;
    }
    return Array.isArray(part) && part.length === shape[axis] && part.every((item) => visit(item, axis + 1));
  };
  return visit(value, 0) ? flat : undefined;
}

const asNumber = (leaf: unknown): number | undefined => (typeof leaf === 'number' ? leaf : undefined);

/** Converts a number to JSON: infinities and NaN become strings. */
export const numberToWire = (value: number): number | string => (Number.isFinite(value) ? value : String(value));

/** Reads a number from JSON, also `"Infinity"`, `"-Infinity"`, `"NaN"`, true and false; undefined for anything else. */
export function numberFromWire(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  return value === 'Infinity' || value === '-Infinity' || value === 'NaN' ? Number(value) : undefined;
}

/** Converts a nested value to JSON; returns the value itself if all of it is finite. */
export function nestedToWire(value: unknown): unknown {
  if (typeof value === 'number') return numberToWire(value);
  if (!Array.isArray(value)) return value;
  return value.every((item) => typeof item === 'number' && Number.isFinite(item)) ? value : value.map(nestedToWire);
}

/** Returns the shape of a nested value, by its first items. */
export function shapeOf(value: unknown): number[] {
  return Array.isArray(value) ? [value.length, ...shapeOf(value[0])] : [];
}

/** Longest array whose elements get a schema each. */
const MAX_PREFIX = 64;

/** Returns the JSON Schema of nested arrays: of each element if the array has one axis and few elements, else of all alike. */
export function nestedSchema(shape: readonly number[], element: (at?: number) => JsonSchema): JsonSchema {
  const [length, ...inner] = shape;
  if (length === undefined) return element(0);
  const bounds = { type: 'array', minItems: length, maxItems: length };
  if (inner.length === 0 && length > 0 && length <= MAX_PREFIX)
    return { ...bounds, prefixItems: Array.from({ length }, (_, at) => element(at)) };
  return { ...bounds, items: inner.length === 0 ? element() : nestedSchema(inner, () => element()) };
}
