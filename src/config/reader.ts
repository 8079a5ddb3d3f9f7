/**
 * Reads the tree of a configuration file by its schema: checks every value, fills in defaults, and reports each problem
 * with line, column and path. The only reader of `handfast.yaml`, `fleet.yaml`, the file of a worker, task batches, and
 * the sections that capability packages add.
 *
 * Pure. All problems are collected: no value stops the reading.
 */
import { resolve } from 'node:path';
import { suggest } from '../base/suggest.ts';
import { alternatives, camel, expectedOf, type SettingSchema, wordsOf } from './setting.ts';
import { textFormat } from './text-formats.ts';

/** A place in the file; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** The content of the file, with positions; `yaml-tree.ts` builds it. */
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

/** One read of a file. */
export interface Reading {
  problem(at: Position, path: string, message: string): void;
  /** The node of each setting that is in the file, by path (`limits.max_depth`, `auth.tokens[0]`). */
  readonly nodes: Map<string, ConfigNode>;
  /** Folder at which relative paths start. */
  readonly folder: string;
  /** True inside settings whose values must never be shown in a message. */
  readonly secret: boolean;
}

/** Longest part of a wrong value that a message repeats. */
const SHOWN_CHARACTERS = 40;

const START: Position = { line: 1, column: 1 };

/**
 * Returns the value of a setting. After a reported problem it is undefined, against its type: callers fail before they
 * use it.
 *
 * @param node undefined for a missing key
 */
export function readSetting(
  schema: SettingSchema,
  node: ConfigNode | undefined,
  path: string,
  reading: Reading,
): unknown {
  const given = node !== undefined && isStructured(schema) && isNothing(node) ? undefined : node;
  if (given === undefined && schema.default !== undefined) return readDefault(schema, path, reading);
  if (schema.type === 'object') {
    if (schema.properties !== undefined) return readGroup(schema, node, path, reading);
    return schema.additionalProperties instanceof Object
      ? readMap(schema, schema.additionalProperties, given, path, reading)
      : readAnything(given, path, reading);
  }
  if (given === undefined) return undefined;
  return schema.type === 'array' ? readList(schema, given, path, reading) : readScalar(schema, given, path, reading);
}

/** Reads a default like the file; it has no position in the file. */
function readDefault(schema: SettingSchema, path: string, reading: Reading): unknown {
  if (!isStructured(schema)) return schema.default;
  return readSetting({ ...schema, default: undefined }, nodeOf(schema.default), path, { ...reading, nodes: new Map() });
}

function readScalar(schema: SettingSchema, node: ConfigNode, path: string, reading: Reading): unknown {
  reading.nodes.set(path, node);
  const value = node.kind === 'scalar' && node.value !== null ? accepted(schema, node.value, reading) : undefined;
  if (value === undefined) {
    const hint = node.kind === 'scalar' ? hintFor(schema, node.value) : '';
    reading.problem(node, path, `expected ${expectedOf(schema)}, got ${got(node, reading)}${hint}`);
  }
  return value;
}

/** Returns the value as the program uses it; undefined when it is not valid. */
function accepted(schema: SettingSchema, value: string | number | boolean, { folder }: Reading): unknown {
  const { type, minimum = -Infinity, maximum = Infinity, pattern, format } = schema;
  if (schema.enum !== undefined) return schema.enum.find((word) => word === value);
  if (type === 'boolean') return typeof value === 'boolean' ? value : undefined;
  if (type === 'integer' || type === 'number') {
    const isNumber = type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value);
    return isNumber && Number(value) >= minimum && Number(value) <= maximum ? value : undefined;
  }
  if (typeof value !== 'string' || value === '') return undefined;
  if (pattern !== undefined && !new RegExp(pattern).test(value)) return undefined;
  if (format === 'path' || (format === 'program' && value.includes('/'))) return resolve(folder, value);
  const rule = textFormat(format);
  return rule === undefined ? value : rule.read(value);
}

/** Returns a suggestion for an invalid value. */
function hintFor(schema: SettingSchema, value: ConfigScalar['value']): string {
  const word = typeof value === 'string' ? value : '';
  if (schema.enum !== undefined) return meant(word, wordsOf(schema), schema.formerly);
  if (schema.type !== 'string') return '';
  const rule = textFormat(schema.format);
  if (rule !== undefined) return meant(word, rule.known ?? []);
  return typeof value === 'string' || value === null ? '' : ' (put it in quotes)';
}

/** Reads a list. A single value stands for a list of one, so that `listen: tcp://127.0.0.1:4701` is valid too. */
function readList(schema: SettingSchema, node: ConfigNode, path: string, reading: Reading): readonly unknown[] {
  const { items = {}, minItems = 0 } = schema;
  reading.nodes.set(path, node);
  if (node.kind !== 'list') return Object.freeze([readSetting(items, node, path, reading)]);
  if (node.items.length < minItems) {
    reading.problem(node, path, `expected at least ${minItems} in the list, got ${node.items.length}`);
  }
  const seen = new Set<unknown>();
  return Object.freeze(
    node.items.map((item, index) => {
      const at = `${path}[${index}]`;
      if (item.kind === 'scalar' && item.value !== null) {
        if (seen.has(item.value)) reading.problem(item, at, `expected each once, got ${got(item, reading)} again`);
        seen.add(item.value);
      }
      return readSetting(items, item, at, reading);
    }),
  );
}

function readGroup(schema: SettingSchema, found: ConfigNode | undefined, path: string, outer: Reading): unknown {
  const { properties = {}, required = [] } = schema;
  const reading = schema.secret ? { ...outer, secret: true } : outer;
  const node = found && wholeOf(schema, found);
  const given = new Map<string, ConfigNode>();
  if (node !== undefined && !isNothing(node)) {
    reading.nodes.set(path, node);
    if (node.kind !== 'map') {
      reading.problem(node, path, `expected a map, got ${got(node, reading)}`);
      return undefined;
    }
    for (const entry of node.entries) {
      if (Object.hasOwn(properties, entry.key)) given.set(entry.key, entry.value);
      else reading.problem(entry, join(path, entry.key), unknownKey(entry.key, schema));
    }
  }
  const settings: Record<string, unknown> = {};
  for (const [key, declared] of Object.entries(properties)) {
    const value = given.get(key);
    const absent = value === undefined || (isStructured(declared) && isNothing(value));
    const at = join(path, key);
    if (absent && declared.default === undefined) {
      if (!required.includes(key)) continue;
      if (declared.type !== 'object') {
        reading.problem(value ?? node ?? START, at, `expected ${expectedOf(declared)}, got nothing`);
        continue;
      }
    }
    const setting = readSetting(variantOf(schema, key, settings) ?? declared, value, at, reading);
    // A setting without a value gets no key, so that spreading the result over defaults is safe.
    if (setting !== undefined) settings[camel(key)] = setting;
  }
  if (node !== undefined) checkMembers(schema, given, node, path, reading);
  return Object.freeze(settings);
}

/** Returns the schema of a member whose shape another member decides. */
function variantOf(
  { variants }: SettingSchema,
  key: string,
  settings: Record<string, unknown>,
): SettingSchema | undefined {
  if (variants?.member !== key) return undefined;
  const choice = String(settings[camel(variants.by)]);
  return Object.hasOwn(variants.of, choice) ? variants.of[choice] : undefined;
}

/** Returns the group that a text stands for: `executor: claude` is `executor: { kind: claude }`. */
function wholeOf({ short }: SettingSchema, node: ConfigNode): ConfigNode {
  if (short === undefined || node.kind !== 'scalar' || typeof node.value !== 'string') return node;
  const { line, column } = node;
  return { kind: 'map', entries: [{ key: short, value: node, line, column }], line, column };
}

/** Checks the rules about members of a group that occur together. */
function checkMembers(
  { needsOne, notBoth, either, together }: SettingSchema,
  given: ReadonlyMap<string, ConfigNode>,
  node: ConfigNode,
  path: string,
  reading: Reading,
): void {
  const isGiven = (key: string): boolean => given.has(key) && !isNothing(given.get(key) as ConfigNode);
  const count = (keys: readonly string[]): number => keys.filter(isGiven).length;
  const problem = (message: string): void => reading.problem(node, path, `expected ${message}`);
  if (needsOne && count(needsOne) === 0) {
    problem(`${alternatives(needsOne)}, got ${needsOne.length === 2 ? 'neither' : 'none of them'}`);
  }
  if (notBoth && count(notBoth) === 2) problem(`${alternatives(notBoth)}, got both`);
  if (either && count(either) !== 1)
    problem(`${alternatives(either)}, and not ${either.length === 2 ? 'both' : 'more than one of them'}`);
  if (together && count(together) === 1) problem(`${together.join(' and ')} together, got one of them`);
}

function readMap(
  { propertyNames }: SettingSchema,
  item: SettingSchema,
  node: ConfigNode | undefined,
  path: string,
  reading: Reading,
): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>();
  if (node === undefined) return values;
  reading.nodes.set(path, node);
  if (node.kind !== 'map') {
    reading.problem(node, path, `expected a map, got ${got(node, reading)}`);
    return values;
  }
  const allowed = new RegExp(propertyNames?.pattern ?? '');
  for (const entry of node.entries) {
    const at = join(path, entry.key);
    if (allowed.test(entry.key)) values.set(entry.key, readSetting(item, entry.value, at, reading));
    else reading.problem(entry, at, `expected ${propertyNames?.expected}, got ${JSON.stringify(entry.key)}`);
  }
  return values;
}

/** Returns plain frozen values with their keys as written: the settings of a part that checks them itself. */
function readAnything(node: ConfigNode | undefined, path: string, reading: Reading): unknown {
  if (node === undefined) return Object.freeze({});
  if (node.kind !== 'map') reading.problem(node, path, `expected a map, got ${got(node, reading)}`);
  return plain(node, path, reading);
}

function plain(node: ConfigNode, path: string, reading: Reading): unknown {
  reading.nodes.set(path, node);
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return Object.freeze(node.items.map((item, i) => plain(item, `${path}[${i}]`, reading)));
  const values: Record<string, unknown> = {};
  for (const { key, value, line, column } of node.entries) {
    // Assigning this key would change the object's prototype instead of adding a property.
    if (key === '__proto__') reading.problem({ line, column }, join(path, key), 'expected another key, got __proto__');
    else values[key] = plain(value, join(path, key), reading);
  }
  return Object.freeze(values);
}

/** Returns a value of the program as a node, so that it is read like a file. */
export function nodeOf(value: unknown): ConfigNode {
  if (Array.isArray(value)) return { kind: 'list', items: value.map(nodeOf), ...START };
  if (typeof value !== 'object' || value === null) {
    return { kind: 'scalar', value: value as ConfigScalar['value'], ...START };
  }
  const entries = Object.entries(value).map(([key, each]) => ({ key, value: nodeOf(each), ...START }));
  return { kind: 'map', entries, ...START };
}

const isStructured = ({ type }: SettingSchema): boolean => type === 'object' || type === 'array';

/** Returns true for a key that exists without a value (`limits:` with every line below it commented out). */
const isNothing = (node: ConfigNode): boolean => node.kind === 'scalar' && node.value === null;

/** Returns the kind of a node, for messages: `…, got a list`. Values of secret settings are never shown. */
function got(node: ConfigNode, reading: Pick<Reading, 'secret'>): string {
  if (node.kind === 'map') return 'a map';
  if (node.kind === 'list') return 'a list';
  const { value } = node;
  if (value === null) return 'nothing';
  if (typeof value !== 'string') return reading.secret ? `a ${typeof value}` : `the ${typeof value} ${value}`;
  return reading.secret ? `a text of ${value.length} characters` : shown(value);
}

const shown = (text: string): string =>
  JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text);

/** Joins path and key: `limits` and `max_depth` make `limits.max_depth`; the root's path is empty. */
export function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

/** Returns ` (did you mean "x"?)`, or '' when no known word is near. */
export function meant(word: string, known: Iterable<string>, formerly: SettingSchema['formerly'] = {}): string {
  const near = Object.hasOwn(formerly, word) ? formerly[word] : suggest(word, known);
  return near === undefined ? '' : ` (did you mean ${JSON.stringify(near)}?)`;
}

function unknownKey(key: string, { properties = {}, formerly }: SettingSchema): string {
  const known = Object.keys(properties);
  return `expected one of ${known.join(', ')}, got ${shown(key)}${meant(key, known, formerly)}`;
}
