/**
 * The checks of the messages of Handfast: a generated test that only returns true or false, and, for a message that it
 * refuses, an interpreter of the schema that finds the issues. Most messages are valid: only a refused one costs the
 * time for texts.
 *
 * The issues are those of Ajv. The schemas have only the keywords below: the generator refuses them.
 */
import type { Check, Issue } from './check.ts';
import { pointer } from './findings.ts';
import { isObject } from './json.ts';

/** A schema as the generator writes it. */
export interface MessageSchema {
  readonly type?: TypeName | readonly TypeName[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly MessageSchema[];
  readonly pattern?: string;
  readonly maximum?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maxItems?: number;
  readonly minItems?: number;
  readonly items?: MessageSchema;
  readonly required?: readonly string[];
  readonly additionalProperties?: MessageSchema;
  readonly properties?: Readonly<Record<string, MessageSchema>>;
}
type TypeName = 'string' | 'number' | 'integer' | 'boolean' | 'null' | 'array' | 'object';

/** Returns the check of a message. */
export function messageCheck(fits: (value: unknown) => boolean, schema: () => MessageSchema): Check {
  const check: Check = (value) => {
    if (fits(value)) return true;
    const issues: Issue[] = [];
    find(schema(), value, '', issues);
    check.errors = issues;
    return false;
  };
  return check;
}

/**
 * Returns true when all elements of an array are valid. An empty slot is undefined here, as for Ajv; `Array.every`
 * skips it.
 */
export function every(values: readonly unknown[], fits: (value: unknown) => boolean): boolean {
  for (let at = 0; at < values.length; at++) if (!fits(values[at])) return false;
  return true;
}

/** Returns true when all members of an object are valid. */
export function everyMember(values: Readonly<Record<string, unknown>>, fits: (value: unknown) => boolean): boolean {
  for (const name in values) if (!fits(values[name])) return false;
  return true;
}

const IS: Readonly<Record<TypeName, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  number: Number.isFinite,
  integer: Number.isInteger,
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  array: Array.isArray,
  object: isObject,
};

/** Adds the issues of a value, up to the first keyword that refuses it. True when no keyword does. */
function find(schema: MessageSchema, value: unknown, instancePath: string, issues: Issue[]): boolean {
  const wrong = (keyword: keyof MessageSchema, params: Record<string, unknown>, message: string): boolean => {
    issues.push({ instancePath, keyword, params, message: `must ${message}` });
    return false;
  };
  const { type, anyOf } = schema;
  if (type !== undefined && ![type].flat().some((name) => IS[name](value)))
    return wrong('type', { type }, `be ${[type].flat().join(',')}`);
  if (typeof value === 'number') {
    const { maximum, minimum, exclusiveMinimum } = schema;
    const limit = (keyword: keyof MessageSchema, comparison: string, of: number): boolean =>
      wrong(keyword, { comparison, limit: of }, `be ${comparison} ${of}`);
    if (maximum !== undefined && value > maximum) return limit('maximum', '<=', maximum);
    if (minimum !== undefined && value < minimum) return limit('minimum', '>=', minimum);
    if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
      return limit('exclusiveMinimum', '>', exclusiveMinimum);
  }
  const { pattern } = schema;
  if (pattern !== undefined && typeof value === 'string' && !new RegExp(pattern, 'u').test(value))
    return wrong('pattern', { pattern }, `match pattern "${pattern}"`);
  if ('const' in schema && value !== schema.const)
    return wrong('const', { allowedValue: schema.const }, 'be equal to constant');
  if (schema.enum?.includes(value) === false)
    return wrong('enum', { allowedValues: schema.enum }, 'be equal to one of the allowed values');
  if (anyOf !== undefined) {
    const before = issues.length;
    if (!anyOf.some((each) => find(each, value, instancePath, issues)))
      return wrong('anyOf', {}, 'match a schema in anyOf');
    issues.length = before;
  }
  if (Array.isArray(value)) {
    const { maxItems, minItems, items } = schema;
    if (maxItems !== undefined && value.length > maxItems)
      return wrong('maxItems', { limit: maxItems }, `NOT have more than ${maxItems} items`);
    if (minItems !== undefined && value.length < minItems)
      return wrong('minItems', { limit: minItems }, `NOT have fewer than ${minItems} items`);
    if (items !== undefined)
      for (let index = 0; index < value.length; index++)
        if (!find(items, value[index], pointer(instancePath, index), issues)) return false;
  } else if (isObject(value)) {
    const { required = [], additionalProperties, properties = {} } = schema;
    const missingProperty = required.find((name) => value[name] === undefined);
    if (missingProperty !== undefined)
      return wrong('required', { missingProperty }, `have required property '${missingProperty}'`);
    if (additionalProperties !== undefined)
      for (const name in value)
        if (!find(additionalProperties, value[name], pointer(instancePath, name), issues)) return false;
    for (const [name, member] of Object.entries(properties))
      if (value[name] !== undefined && !find(member, value[name], pointer(instancePath, name), issues)) return false;
  }
  return true;
}
