/**
 * The largest values that a schema permits, as far as they fit into one message: for each member in turn the longest
 * texts, the longest lists, the widest maps and the deepest values, with contents that are known to be hard.
 */
import { MAX_DEPTH, MAX_VALUES } from '../../src/wire/depth.ts';
import { isObject, type JsonObject } from '../../src/wire/json.ts';

/** A value for a member: by its name, or by `type:name` for one message. Functions are called for each message. */
export type Known = Readonly<Record<string, unknown>>;

export interface Sized {
  readonly title: string;
  readonly value: JsonObject;
}

/** Values of a message that are not those of its largest member. */
const OTHER_VALUES = 200;
const VALUES = MAX_VALUES - OTHER_VALUES;
/** Levels around the largest member. */
const OTHER_LEVELS = 8;
const SHORT_CHARS = 4096;

const filled = (unit: string, bytes: number): string =>
  unit.repeat(Math.max(1, Math.floor(bytes / (Buffer.byteLength(JSON.stringify(unit)) - 2))));

/** Returns numbered parts until the bytes are used up. */
function counted(part: (at: number) => string, bytes: number): string {
  const parts: string[] = [];
  for (let at = 0, size = 0; ; at++) {
    const next = part(at);
    size += Buffer.byteLength(JSON.stringify(next)) - 2;
    if (size > bytes) return parts.join('');
    parts.push(next);
  }
}

const texts: Readonly<Record<string, (bytes: number) => string>> = {
  letters: (bytes) => filled('a', bytes),
  'task lines': (bytes) => counted((at) => `- [ ] t${at}\n`, bytes),
  'empty lines': (bytes) => filled('\n', bytes),
  words: (bytes) => counted((at) => `w${at} `, bytes),
  marks: (bytes) => filled('([{*_`<!-- #|', bytes),
  'capitals and small letters': (bytes) => filled('Aa', bytes),
  'blanks in the middle': (bytes) => `x${filled(' ', bytes - 2)}x`,
  'letters beyond Latin': (bytes) => filled('ж😀', bytes),
  'control characters': (bytes) => filled('\u0001', bytes),
  'lists in JSON': (bytes) => `[${filled('[],', bytes - 8)}[]]`,
  'a key for each value, in JSON': (bytes) => `{${counted((at) => `"k${at}":0,`, bytes - 20)}"x":0}`,
};
/** Contents for members whose text must be short: tried at the largest legal length, and beyond it. */
const short: readonly string[] = ['letters', 'marks'];

const numbered = <T>(length: number, of: (at: number) => T): T[] => Array.from({ length }, (_, at) => of(at));

function nested(levels: number, isMap: boolean): unknown {
  let value: unknown = 0;
  for (let at = 0; at < levels; at++) value = isMap ? { a: value } : [value];
  return value;
}

/** Values of any shape. */
function shapes(bytes: number, within: number): readonly (readonly [string, unknown])[] {
  const deep = MAX_DEPTH - OTHER_LEVELS - within;
  const most = (bytesEach: number, valuesEach = 1): number =>
    Math.floor(Math.min(bytes / bytesEach, VALUES / valuesEach));
  return [
    ['a long text', texts.letters?.(bytes)],
    ['many keys', Object.fromEntries(numbered(most(12, 2), (at) => [`k${at}`, 0] as const))],
    ['many keys that are numbers', Object.fromEntries(numbered(most(10, 2), (at) => [String(at * 7), 0] as const))],
    ['many empty lists', numbered(most(3, 2), () => [])],
    ['many maps of one key each', numbered(most(14, 3), (at) => ({ [`k${at}`]: 0 }))],
    ['many numbers', numbered(most(10), (at) => at / 7)],
    ['many texts', numbered(most(10), (at) => `s${at}`)],
    ['maps in maps', numbered(most(deep * 6 + 2, 2 * deep + 1), () => nested(deep, true))],
    ['lists in lists', numbered(most(deep * 2 + 2, deep + 1), () => nested(deep, false))],
  ];
}

type Schema = JsonObject;
const schemaOf = (value: unknown): Schema => (isObject(value) ? value : {});

/** Returns one of several schemas: the one with the most content. */
function settled(schema: Schema): Schema {
  const options = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined;
  if (options === undefined) return schema;
  return settled(
    options.find(({ type }) => type === 'object' || type === 'array') ??
      options.find(({ type }) => type !== 'null') ??
      {},
  );
}

function typeOf(schema: Schema): string {
  const { type } = schema;
  if (Array.isArray(type)) return String(type.find((each) => each !== 'null'));
  if (typeof type === 'string') return type;
  return schema.properties !== undefined ? 'object' : schema.items !== undefined ? 'array' : 'any';
}

/** Returns a small value that the schema permits, with the known values of its members. */
export function small(given: unknown, known: Known, name = '', type = ''): unknown {
  const value = Object.hasOwn(known, `${type}:${name}`) ? known[`${type}:${name}`] : known[name];
  if (name !== '' && value !== undefined) return typeof value === 'function' ? value() : value;
  const schema = settled(schemaOf(given));
  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  switch (typeOf(schema)) {
    case 'string':
      return 'x'.repeat(Math.max(1, Number(schema.minLength ?? 1)));
    case 'integer':
    case 'number':
      return Number(schema.minimum ?? 1);
    case 'boolean':
      return false;
    case 'array':
      return numbered(Number(schema.minItems ?? 0), () => small(schema.items, known, '', type));
    case 'object': {
      const required = new Set((schema.required ?? []) as readonly string[]);
      const properties = Object.entries(schemaOf(schema.properties));
      return Object.fromEntries(
        properties
          .filter(([key]) => required.has(key) || known[key] !== undefined || known[`${type}:${key}`] !== undefined)
          .map(([key, each]) => [key, small(each, known, key, type)]),
      );
    }
    case 'null':
      return null;
    default:
      return 'x';
  }
}

type Path = readonly (string | number)[];

/** Returns the value with another one at the path; missing parents are created. */
function replaced(value: unknown, [step, ...rest]: Path, by: unknown): unknown {
  if (step === undefined) return by;
  if (typeof step === 'number') {
    const list = Array.isArray(value) && value.length > 0 ? value : [undefined];
    return list.with(step, replaced(list[step], rest, by));
  }
  const map = isObject(value) ? value : {};
  return { ...map, [step]: replaced(map[step], rest, by) };
}

interface Member {
  readonly path: Path;
  readonly schema: Schema;
}

/** Yields the members of a schema, and those of its maps and lists, down to `levels`. */
function* members(given: unknown, path: Path, levels: number): Generator<Member> {
  const schema = settled(schemaOf(given));
  if (path.length > 0) yield { path, schema };
  if (levels === 0) return;
  for (const [name, each] of Object.entries(schemaOf(schema.properties))) {
    yield* members(each, [...path, name], levels - 1);
  }
  const { items } = schema;
  if (items !== undefined && !Array.isArray(items)) yield* members(items, [...path, 0], levels - 1);
}

/** Members that are the frame of a message: they are read before all others. */
const FRAME: ReadonlySet<unknown> = new Set(['type', 'a2e', 'version', 'ts', 'jsonrpc']);

/** Yields the largest values of one member. */
function* largestOf({ path, schema }: Member, known: Known, bytes: number): Generator<readonly [string, unknown]> {
  if ('const' in schema || schema.enum !== undefined) return;
  const type = typeOf(schema);
  if (type === 'string' || type === 'any') {
    const most = Number(schema.maxLength ?? Number.POSITIVE_INFINITY);
    for (const [title, text] of Object.entries(texts)) {
      const isShort = most <= SHORT_CHARS || path.at(-1) === 'id' || /_id$/.test(String(path.at(-1)));
      if (isShort && !short.includes(title)) continue;
      yield [title, text(Math.min(bytes, most * 2)).slice(0, most)];
      if (isShort) yield [`${title}, too many`, text(bytes)];
    }
  }
  if (type === 'array') {
    const most = Number(schema.maxItems ?? Number.POSITIVE_INFINITY);
    const item = small(schema.items, known);
    const room = Buffer.byteLength(JSON.stringify(item)) + 8;
    const valuesEach = 1 + JSON.stringify(item).split(/[,:[{]/).length - 1;
    const length = Math.floor(Math.min(most, bytes / room, VALUES / valuesEach));
    yield ['many items', numbered(length, (at) => (typeof item === 'string' ? `s${at}` : item))];
    yield ['many items, one twice', numbered(length, (at) => (typeof item === 'string' ? `s${at % 97}` : item))];
    if (typeof item === 'string') {
      yield ['some long items', numbered(Math.min(most, 16), () => texts.letters?.(bytes / 17))];
    }
  }
  if ((type === 'object' && schema.properties === undefined) || type === 'any') {
    yield* shapes(bytes, path.length);
  }
}

/**
 * Yields the largest values of a schema, one member at a time, each of about `bytes` bytes.
 * @param type of the message: `known` may have members for this type alone
 */
export function* largest(schema: unknown, known: Known, bytes: number, type = ''): Generator<Sized> {
  for (const member of members(schema, [], 4)) {
    if (member.path.length === 1 && FRAME.has(member.path[0])) continue;
    const title = member.path.join('.').replace(/\.0\b/g, '[]');
    for (const [content, value] of largestOf(member, known, bytes)) {
      const message = replaced(small(schema, known, '', type), member.path, value);
      yield { title: `${title}: ${content}`, value: message as JsonObject };
    }
  }
}
