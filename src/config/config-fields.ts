/**
 * The small language the configuration is declared in. A field is one value that knows how to read itself from a file
 * with positions, what it is when left out, how it looks as JSON Schema, and what the template says about it, so that
 * `config-schema.ts` is the only place where a setting is described.
 *
 * Keys are snake_case in the file and camelCase in the result: `max_message_bytes` becomes `maxMessageBytes`.
 */
import { suggest } from '../base/suggest.ts';

/** A place in the file; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** What the file holds, with positions; made by `config-lines.ts`. */
export type ConfigNode = ConfigScalar | ConfigList | ConfigMap;

export interface ConfigScalar extends Position {
  readonly kind: 'scalar';
  readonly value: string | number | boolean | null;
}

export interface ConfigList extends Position {
  readonly kind: 'list';
  readonly items: readonly ConfigNode[];
}

export interface ConfigMap extends Position {
  readonly kind: 'map';
  readonly entries: readonly ConfigEntry[];
}

/** The position is the key's. */
export interface ConfigEntry extends Position {
  readonly key: string;
  readonly value: ConfigNode;
}

/** A JSON Schema document. */
export type JsonSchema = Record<string, unknown>;

/** One read of a file: collects what is wrong, and where everything stood, for the checks that span several settings. */
export interface Reading {
  problem(at: Position, path: string, message: string): void;
  /** Where each setting that is in the file stands, by path (`limits.max_depth`, `auth.tokens[0]`). */
  readonly positions: Map<string, Position>;
  /** True inside settings whose values must never be shown in a message. */
  readonly secret: boolean;
}

/** One setting, or a group or list of settings. */
export interface Field<T> {
  /** What it is for, in sentences, with units. */
  readonly about: string;
  /** What a right value looks like, for messages: `expected …`. */
  readonly expected: string;
  /** The value when the key is left out, as it would stand in the file; undefined when there is none. */
  readonly fallback?: unknown;
  readonly required?: boolean;
  /** The template shows these lines, commented out, in place of the fallback. */
  readonly example?: readonly string[];
  /** The template writes the fallback as a live setting. */
  readonly shown?: boolean;
  /** Set for groups: their settings by key. */
  readonly fields?: Fields;
  schema(): JsonSchema;
  /** Reads `node`; undefined = the key is not there. After a reported problem the returned value must not be used. */
  read(node: ConfigNode | undefined, path: string, reading: Reading): T;
}

// biome-ignore lint/suspicious/noExplicitAny: a group holds fields of any type; `Settings` recovers each
export type Fields = Readonly<Record<string, Field<any>>>;

type Camel<Key> = Key extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Key;

/** What a group of fields becomes once read; what may be left out may not be there. */
export type Settings<F extends Fields> = {
  readonly [Key in keyof F as undefined extends Value<F[Key]> ? never : Camel<Key>]: Value<F[Key]>;
} & {
  readonly [Key in keyof F as undefined extends Value<F[Key]> ? Camel<Key> : never]?: Value<F[Key]>;
};

type Value<F> = F extends Field<infer T> ? T : never;

/** What every field may be told about how it is presented and what stands in for it. */
interface Presentation<T> {
  readonly default?: T;
  readonly required?: true;
  readonly example?: readonly string[];
  readonly shown?: true;
}

/** A field without a default that is not required may be left out. */
type Present<T, O> = O extends { default: unknown } | { required: true } ? T : T | undefined;

/** Longest part of a wrong value that a message repeats. */
const SHOWN_CHARACTERS = 40;

/** What a node is, for messages: `…, got a list`. Values of secret settings are never shown. */
export function got(node: ConfigNode, reading: Pick<Reading, 'secret'>): string {
  if (node.kind === 'map') return 'a map';
  if (node.kind === 'list') return 'a list';
  const { value } = node;
  if (value === null) return 'nothing';
  if (typeof value !== 'string') return reading.secret ? `a ${typeof value}` : `the ${typeof value} ${value}`;
  if (reading.secret) return `a text of ${value.length} characters`;
  return JSON.stringify(value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);
}

/** A field that is one scalar: `accept` gives the value, or undefined when it does not fit. */
function scalar<T, O extends Presentation<T>>(
  about: string,
  expected: string,
  schema: JsonSchema,
  accept: (value: string | number | boolean) => T | undefined,
  options: O,
  hint: (node: ConfigScalar) => string = () => '',
): Field<Present<T, O>> {
  return {
    about,
    expected,
    fallback: options.default,
    required: options.required ?? false,
    example: options.example,
    shown: options.shown ?? false,
    schema: () => ({
      ...schema,
      description: about,
      ...(options.default === undefined ? {} : { default: options.default }),
    }),
    read(node, path, reading) {
      if (node === undefined) return options.default as Present<T, O>;
      reading.positions.set(path, node);
      const value = node.kind === 'scalar' && node.value !== null ? accept(node.value) : undefined;
      if (value === undefined) {
        const extra = node.kind === 'scalar' ? hint(node) : '';
        reading.problem(node, path, `expected ${expected}, got ${got(node, reading)}${extra}`);
      }
      return value as Present<T, O>;
    },
  };
}

/** A text, optionally of a given shape (`pattern` with `expected` saying it in words). */
export function text<const O extends Presentation<string> & { pattern?: RegExp; expected?: string }>(
  about: string,
  options: O,
): Field<Present<string, O>> {
  return scalar<string, O>(
    about,
    options.expected ?? 'a text',
    { type: 'string', ...(options.pattern ? { pattern: options.pattern.source } : { minLength: 1 }) },
    (value) => {
      if (typeof value !== 'string' || value === '') return undefined;
      return options.pattern === undefined || options.pattern.test(value) ? value : undefined;
    },
    options,
    ({ value }) => (typeof value === 'string' || value === null ? '' : ' (put it in quotes)'),
  );
}

/** A whole number from `min` to `max`. */
export function integer<const O extends Presentation<number> & { min: number; max: number }>(
  about: string,
  options: O,
): Field<Present<number, O>> {
  return scalar<number, O>(
    about,
    `a whole number from ${options.min} to ${options.max}`,
    { type: 'integer', minimum: options.min, maximum: options.max },
    (value) =>
      typeof value === 'number' && Number.isSafeInteger(value) && value >= options.min && value <= options.max
        ? value
        : undefined,
    options,
  );
}

/** `true` or `false`. */
export function flag<const O extends Presentation<boolean>>(about: string, options: O): Field<Present<boolean, O>> {
  return scalar<boolean, O>(
    about,
    'true or false',
    { type: 'boolean' },
    (value) => (typeof value === 'boolean' ? value : undefined),
    options,
  );
}

/** One of a few words. */
export function choice<const W extends string, const O extends Presentation<W>>(
  about: string,
  words: readonly W[],
  options: O,
): Field<Present<W, O>> {
  return scalar<W, O>(
    about,
    words.length === 1 ? words[0]! : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`,
    { enum: [...words] },
    (value) => words.find((word) => word === value),
    options,
    ({ value }) => meant(typeof value === 'string' ? value : '', words),
  );
}

/**
 * A list. A single value stands for a list of one, so that `listen: tcp://127.0.0.1:4701` is right too. An item that
 * occurs twice is a problem. The default is given as it would stand in the file and read like it.
 */
export function listOf<T, const O extends Presentation<readonly (string | number)[]> & { atLeast?: number }>(
  about: string,
  item: Field<T>,
  options: O,
): Field<Present<readonly T[], O>> {
  const expected = `${item.expected}, or a list of such`;
  const many = (): JsonSchema => ({
    type: 'array',
    items: item.schema(),
    ...(options.atLeast ? { minItems: options.atLeast } : {}),
  });
  const read = (node: ConfigNode, path: string, reading: Reading): readonly T[] => {
    reading.positions.set(path, node);
    if (node.kind !== 'list') return Object.freeze([item.read(node, path, reading)]);
    if (node.items.length < (options.atLeast ?? 0)) {
      reading.problem(node, path, `expected at least ${options.atLeast} in the list, got ${node.items.length}`);
    }
    const seen = new Set<unknown>();
    return Object.freeze(
      node.items.map((each, index) => {
        if (each.kind === 'scalar' && each.value !== null) {
          const again = seen.has(each.value);
          if (again) reading.problem(each, `${path}[${index}]`, `expected each once, got ${got(each, reading)} again`);
          seen.add(each.value);
        }
        return item.read(each, `${path}[${index}]`, reading);
      }),
    );
  };
  return {
    about,
    expected,
    fallback: options.default,
    required: options.required ?? false,
    example: options.example,
    shown: options.shown ?? false,
    schema: () => ({
      anyOf: [many(), { type: 'null' }, item.schema()],
      description: about,
      ...(options.default === undefined ? {} : { default: options.default }),
    }),
    read(node, path, reading) {
      if (node !== undefined && !isNothing(node)) return read(node, path, reading);
      // Defaults stand nowhere, so they leave no positions.
      const apart: Reading = { ...reading, positions: new Map() };
      const items = options.default?.map((value) =>
        item.read({ kind: 'scalar', value, line: 1, column: 1 }, path, apart),
      );
      return (items && Object.freeze(items)) as Present<readonly T[], O>;
    },
  };
}

/**
 * A map of named settings. Unknown keys are problems. Left out or empty, every setting takes its default, unless
 * `optional`: then the whole group is undefined. `secret` keeps the values below it out of messages.
 */
export function group<const F extends Fields>(
  about: string,
  fields: F,
  options?: { secret?: boolean },
): Field<Settings<F>>;
export function group<const F extends Fields>(
  about: string,
  fields: F,
  options: { secret?: boolean; optional: true },
): Field<Settings<F> | undefined>;
export function group<const F extends Fields>(
  about: string,
  fields: F,
  options: { secret?: boolean; optional?: boolean } = {},
): Field<Settings<F> | undefined> {
  const keys = Object.keys(fields);
  const camelKeys = new Map(keys.map((key) => [key, camel(key)]));
  return {
    about,
    expected: 'a map',
    fields,
    schema: () => ({
      type: ['object', 'null'],
      description: about,
      properties: Object.fromEntries(keys.map((key) => [key, fields[key]!.schema()])),
      required: keys.filter((key) => fields[key]!.required),
      additionalProperties: false,
    }),
    read(node, path, outer) {
      const reading = options.secret ? { ...outer, secret: true } : outer;
      const found = new Map<string, ConfigNode>();
      if (node !== undefined && !isNothing(node)) {
        reading.positions.set(path, node);
        if (node.kind !== 'map') {
          reading.problem(node, path, `expected a map, got ${got(node, reading)}`);
          return undefined;
        }
        for (const entry of node.entries) {
          if (camelKeys.has(entry.key)) found.set(entry.key, entry.value);
          else reading.problem(entry, join(path, entry.key), unknownKey(entry.key, keys));
        }
      } else if (options.optional) return undefined;
      const settings: Record<string, unknown> = {};
      for (const [key, name] of camelKeys) {
        const field = fields[key]!;
        const value = found.get(key);
        if (value === undefined && field.required) {
          reading.problem(node ?? { line: 1, column: 1 }, join(path, key), `expected ${field.expected}, got nothing`);
          continue;
        }
        const setting = field.read(value, join(path, key), reading);
        // What was left out is not there at all, so that spreading the result over defaults is right.
        if (setting !== undefined) settings[name] = setting;
      }
      return Object.freeze(settings) as Settings<F>;
    },
  };
}

/** Anything at all, handed on as plain frozen values with its keys as written: the options of somebody else's plugin. */
export function anything(about: string): Field<Readonly<Record<string, unknown>>> {
  const plain = (node: ConfigNode, path: string, reading: Reading): unknown => {
    reading.positions.set(path, node);
    if (node.kind === 'scalar') return node.value;
    if (node.kind === 'list') return Object.freeze(node.items.map((each, i) => plain(each, `${path}[${i}]`, reading)));
    const result: Record<string, unknown> = {};
    for (const { key, value, line, column } of node.entries) {
      // Assigning this key would change the object's prototype instead of adding a property.
      if (key === '__proto__')
        reading.problem({ line, column }, join(path, key), 'expected another key, got __proto__');
      else result[key] = plain(value, join(path, key), reading);
    }
    return Object.freeze(result);
  };
  return {
    about,
    expected: 'a map',
    schema: () => ({ type: ['object', 'null'], description: about }),
    read(node, path, reading) {
      if (node === undefined || isNothing(node)) return Object.freeze({});
      if (node.kind !== 'map') reading.problem(node, path, `expected a map, got ${got(node, reading)}`);
      return plain(node, path, reading) as Readonly<Record<string, unknown>>;
    },
  };
}

/** A map whose keys are the user's own, as written; every value is read by `item`. Left out: an empty map. */
export function mapOf<T>(
  about: string,
  item: Field<T>,
  options: { readonly key: RegExp; readonly expectedKey: string; readonly example?: readonly string[] },
): Field<ReadonlyMap<string, T>> {
  return {
    about,
    expected: 'a map',
    example: options.example,
    schema: () => ({
      type: ['object', 'null'],
      description: about,
      propertyNames: { pattern: options.key.source },
      additionalProperties: item.schema(),
    }),
    read(node, path, reading) {
      const found = new Map<string, T>();
      if (node === undefined || isNothing(node)) return found;
      reading.positions.set(path, node);
      if (node.kind !== 'map') {
        reading.problem(node, path, `expected a map, got ${got(node, reading)}`);
        return found;
      }
      for (const entry of node.entries) {
        const at = join(path, entry.key);
        if (options.key.test(entry.key)) found.set(entry.key, item.read(entry.value, at, reading));
        else reading.problem(entry, at, `expected ${options.expectedKey}, got ${JSON.stringify(entry.key)}`);
      }
      return found;
    },
  };
}

/** True for a key that is there but has no value (`limits:` with every line below it commented out). */
export function isNothing(node: ConfigNode): boolean {
  return node.kind === 'scalar' && node.value === null;
}

/** `limits` and `max_depth` make `limits.max_depth`; the root's path is empty. */
export function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

/** ` (did you mean "x"?)`, or nothing when no known word is near. */
export function meant(word: string, known: Iterable<string>): string {
  const near = suggest(word, known);
  return near === undefined ? '' : ` (did you mean ${JSON.stringify(near)}?)`;
}

function unknownKey(key: string, known: readonly string[]): string {
  const shown = JSON.stringify(key.length > SHOWN_CHARACTERS ? `${key.slice(0, SHOWN_CHARACTERS)}…` : key);
  return `expected one of ${known.join(', ')}, got ${shown}${meant(key, known)}`;
}

function camel(key: string): string {
  return key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
