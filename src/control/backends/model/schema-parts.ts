/**
 * Parts of JSON Schemas: valid types, values and patterns, and how branches become one object.
 *
 * Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import { isObject, membersOf } from '../../../wire/json.ts';

type Built = Record<string, unknown>;

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'] as const;
/** Words that are read in a list of types. */
const MAX_TYPES = 64;
/** Longest pattern that is read. */
const MAX_PATTERN = 4_096;
/** Words that servers write in the place of types. */
const TYPE_WORDS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    str: 'string',
    text: 'string',
    date: 'string',
    datetime: 'string',
    file: 'string',
    uuid: 'string',
    int: 'integer',
    int32: 'integer',
    int64: 'integer',
    long: 'integer',
    float: 'number',
    double: 'number',
    decimal: 'number',
    num: 'number',
    bool: 'boolean',
    dict: 'object',
    map: 'object',
    json: 'object',
    list: 'array',
    tuple: 'array',
    set: 'array',
    none: 'null',
    nil: 'null',
  }),
);

export const isSchema = (value: unknown): boolean => isObject(value) || typeof value === 'boolean';

/** Returns the types of a schema, in the words of JSON Schema; other types are left out. */
export function typesOf(type: unknown): string[] {
  const given = Array.isArray(type) ? type.slice(0, MAX_TYPES) : [type];
  const types = given.flatMap((word) => {
    if (typeof word !== 'string') return [];
    const lower = word.toLowerCase();
    const known = (TYPES as readonly string[]).includes(lower) ? lower : TYPE_WORDS.get(lower);
    return known === undefined ? [] : [known];
  });
  return [...new Set(types)];
}

/** Returns the values of an enumeration that are of one of the types, each once. */
export function wordsOf(given: unknown, types: readonly string[]): unknown[] {
  if (!Array.isArray(given)) return [];
  const seen = new Set<string>();
  return given
    .filter((value) => {
      // JSON of a text costs more than the text.
      const key = typeof value === 'string' ? `'${value}` : JSON.stringify(value);
      if (key === undefined || seen.has(key) || (types.length > 0 && !types.some((type) => isOf(value, type))))
        return false;
      seen.add(key);
      return true;
    })
    .map(wellFormed);
}

function isOf(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/** True for a pattern that engines of several languages read: no property classes, named groups or flags. */
export function isPattern(pattern: unknown): pattern is string {
  if (
    typeof pattern !== 'string' ||
    pattern.length > MAX_PATTERN ||
    !pattern.isWellFormed() ||
    /\\[pPkcu]|\(\?(?![:=!])/.test(pattern)
  )
    return false;
  try {
    new RegExp(pattern, 'u');
    return true;
  } catch {
    return false;
  }
}

/** Returns the schemas of the first elements of an array, and the one of the elements after these. */
export function tupleOf({ items, prefixItems, additionalItems }: Readonly<Built>): {
  readonly tuple: readonly unknown[];
  readonly rest: unknown;
} {
  // Until 2019 `items` was the list, and `additionalItems` the schema of the elements after it.
  if (Array.isArray(items)) return { tuple: items, rest: additionalItems };
  return { tuple: Array.isArray(prefixItems) ? prefixItems : [], rest: items };
}

/** Returns a value whose texts have no half surrogate pairs. */
export function wellFormed<Value>(value: Value): Value {
  if (typeof value === 'string') return value.toWellFormed() as Value;
  if (Array.isArray(value)) return value.map(wellFormed) as Value;
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), wellFormed(member)]),
  ) as Value;
}

/**
 * Maximum number of schemas that are compared with each other. Of more, the text of each is written; the text of a nested
 * schema contains the texts of its inner schemas.
 */
export const FEW = 8;

/** Counts characters that were written to compare schemas: each level of a nested one writes those below again. */
export type CountCharacters = (characters: number) => void;

/** Returns one schema for all of these. */
export function oneOrAny(schemas: readonly unknown[], count: CountCharacters): unknown {
  const unique =
    schemas.length <= FEW
      ? schemas.filter((each, at) => !schemas.slice(0, at).some((earlier) => isDeepStrictEqual(earlier, each)))
      : [...new Map(schemas.map((each) => [countedJson(each, count), each])).values()];
  return unique.length === 1 ? unique[0] : { anyOf: unique };
}

function countedJson(schema: unknown, count: CountCharacters): string {
  const json = JSON.stringify(schema);
  count(json.length);
  return json;
}

/** Returns the number of names that {@link merge} reads of an object. */
export const namesOf = ({ properties, required }: Built): number =>
  Object.keys(membersOf(properties)).length + (Array.isArray(required) ? required.length : 0);

/**
 * Adds branches to an object: their properties, and the names that are required in `all` of them, or in each of `some`.
 * `missing`: only properties that it does not have.
 */
export function merge(
  into: Built,
  branches: readonly Built[],
  how: 'all' | 'some' | 'missing',
  count: CountCharacters,
): void {
  const properties = new Map(Object.entries(membersOf(into.properties)));
  const declared = branches.flatMap((branch) => Object.entries(membersOf(branch.properties)));
  for (const [name, entries] of Map.groupBy(declared, ([name]) => name)) {
    const isOwn = properties.has(name);
    if (isOwn && how === 'missing') continue;
    const own = properties.get(name);
    const values = entries.map(([, value]) => value);
    if (own === undefined || isBlank(own)) properties.set(name, oneOrAny(values, count));
    else if (how === 'all') {
      // The object's own schema of a property holds in every branch; a branch that says more of it narrows it.
      const narrower = values.filter((value) => !isBlank(value) && !isDeepStrictEqual(value, own));
      if (narrower.length > 0) properties.set(name, narrowed(own, narrower));
    }
  }
  if (properties.size > 0) into.properties = Object.fromEntries(properties);
  const required = new Set((into.required as string[] | undefined) ?? []);
  for (const name of how === 'missing' ? [] : requiredIn(branches, how)) required.add(name);
  if (required.size > 0) into.required = [...required];
  if (how !== 'all') return;
  for (const branch of branches) {
    for (const name of ['type', 'description', 'items', 'anyOf']) {
      if (branch[name] !== undefined) into[name] ??= branch[name];
    }
  }
}

/** Returns the names that one of the branches requires, or, of alternatives, each of them. */
function requiredIn(branches: readonly Built[], how: 'all' | 'some'): readonly string[] {
  const lists = branches.map(({ required }) => (Array.isArray(required) ? (required as string[]) : []));
  if (how === 'all') return lists.flat();
  const [first = [], ...others] = lists;
  const sets = others.map((list) => new Set(list));
  return first.filter((name) => sets.every((set) => set.has(name)));
}

const isBlank = (schema: unknown): boolean => isObject(schema) && Object.keys(schema).length === 0;

/** Returns a schema without values of an enumeration that are not of the type, which other branches may have. */
export function consistent(schema: Built): Built {
  if (schema.enum === undefined || schema.type === undefined) return schema;
  const { enum: words, ...rest } = schema;
  const fitting = wordsOf(words, typesOf(schema.type));
  return fitting.length > 0 ? { ...rest, enum: fitting } : rest;
}

/** Returns a schema that also has the keywords of others which it lacks. */
function narrowed(own: unknown, others: readonly unknown[]): unknown {
  const found: Built = { ...(own as Built) };
  for (const other of others) {
    for (const [name, value] of Object.entries(other as Built)) found[name] ??= value;
  }
  return consistent(found);
}

/** Returns a sentence about alternatives: the names that each of them requires. */
export function alternatives(branches: readonly Built[]): string[] {
  const sets = branches.map(({ required, properties }) => {
    const names = Array.isArray(required) ? (required as string[]) : Object.keys((properties ?? {}) as Built);
    return names.length === 0 ? '' : `(${names.join(', ')})`;
  });
  const known = [...new Set(sets.filter((set) => set !== ''))];
  return known.length < 2 ? [] : [`Give the arguments of one of these sets: ${known.join(' or ')}.`];
}

/** Returns the schema of a property under another name, with its own name in the description. */
export function named(schema: Built, name: string): Built {
  const { description } = schema;
  const own = `(named ${JSON.stringify(name.toWellFormed())})`;
  // A reference may have no description beside it everywhere.
  return { ...schema, description: typeof description === 'string' ? `${description} ${own}` : own };
}

/** Longest JSON in a description. */
const MAX_JSON = 160;

export function shortJson(value: unknown): string {
  const json = JSON.stringify(wellFormed(beginning(value, { left: MAX_JSON }))) ?? '';
  return json.length > MAX_JSON ? `${json.slice(0, MAX_JSON)}…`.toWellFormed() : json;
}

/** Returns as much of a value as its short JSON shows, and the part after that. */
function beginning(value: unknown, room: { left: number }): unknown {
  if (typeof value === 'string') {
    room.left -= value.length;
    return value.slice(0, MAX_JSON);
  }
  room.left -= 1;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const shown: unknown[] = [];
    for (const each of value) {
      if (room.left < 0) break;
      shown.push(beginning(each, room));
    }
    return shown;
  }
  const shown: [string, unknown][] = [];
  for (const name in value) {
    if (room.left < 0) break;
    if (!Object.hasOwn(value, name) || (value as Built)[name] === undefined) continue;
    room.left -= name.length;
    shown.push([name.slice(0, MAX_JSON), beginning((value as Built)[name], room)]);
  }
  return Object.fromEntries(shown);
}
