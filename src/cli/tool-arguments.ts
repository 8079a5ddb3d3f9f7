/**
 * Arguments of a tool as they are written on a command line: one JSON object, a file of it, standard input, or `key=value`
 * words typed by the tool's schema. Pure, except the reading, which the caller passes in.
 */
import { keepsDigits, parseExactJson } from '../base/exact-json.ts';
import { jsonOrText } from '../packages/command-values.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { type JsonSchema, schemaTypes } from './schema-types.ts';

/** Reads a whole file, or standard input for `-`. */
export type ReadText = (path: string) => Promise<string>;

/** True when the words can only be typed with the tool's schema. */
export function needsSchema(words: readonly string[]): boolean {
  return words.length > 0 && !isWhole(words[0] as string);
}

const isWhole = (word: string): boolean => word.startsWith('{') || word.startsWith('@') || word === '-';

/**
 * Returns the arguments that the words express.
 *
 * @param schema of the tool's input; without one, values that parse as JSON are JSON
 * @throws usage
 */
export async function toolArguments(
  words: readonly string[],
  schema: JsonSchema | undefined,
  read: ReadText,
): Promise<Record<string, unknown>> {
  const [first, ...others] = words;
  if (first === undefined) return {};
  if (!isWhole(first)) return keyed(words, schema);
  if (others.length > 0) throw fail('usage', 'expected one JSON object or key=value words, got both');
  return jsonObject(first, read);
}

/** Reads the object in a word: JSON, `@file` or `-`. Throws `usage`. */
export async function jsonObject(word: string, read: ReadText): Promise<Record<string, unknown>> {
  const source = word === '-' ? '-' : word.startsWith('@') ? word.slice(1) : undefined;
  const text = source === undefined ? word : await read(source);
  const name = source === undefined ? 'the argument' : source === '-' ? 'standard input' : source;
  let value: unknown;
  try {
    value = parseExactJson(text);
  } catch (error) {
    throw fail('usage', `${name} is not JSON: ${(error as Error).message}`, {}, error);
  }
  if (!isObject(value)) {
    throw fail('usage', `expected a JSON object, but ${name} is ${value === null ? 'null' : typeof value}`);
  }
  return value as Record<string, unknown>;
}

function keyed(words: readonly string[], schema: JsonSchema | undefined): Record<string, unknown> {
  const values = new Map<string, string[]>();
  for (const word of words) {
    const equals = word.indexOf('=');
    if (equals < 1) throw fail('usage', `expected key=value, a JSON object, @file or -, got ${JSON.stringify(word)}`);
    const key = word.slice(0, equals);
    values.set(key, [...(values.get(key) ?? []), word.slice(equals + 1)]);
  }
  const properties = (schema?.properties ?? {}) as Record<string, JsonSchema>;
  const args: Record<string, unknown> = Object.create(null);
  for (const [key, texts] of values) {
    const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
    args[key] = typedValue(key, texts, property);
  }
  return { ...args };
}

function typedValue(key: string, texts: readonly string[], schema: JsonSchema | undefined): unknown {
  const types = schema === undefined ? [] : schemaTypes(schema);
  const [text = ''] = texts;
  if (types.includes('array')) {
    // One word may hold the whole list; several words are its items.
    if (texts.length === 1 && text.startsWith('[')) return json(key, text, 'a JSON list');
    const items = schema?.items as JsonSchema | undefined;
    return texts.map((each) => typedValue(key, [each], items));
  }
  if (texts.length > 1) throw fail('usage', `${key} was given ${texts.length} times, but it is not a list`);
  if (types.length === 0) return jsonOrText(text, key);
  // The strictest reading first: every text is a string, so that comes last.
  if (types.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  if ((types.includes('integer') || types.includes('number')) && isNumber(text)) return exactNumber(key, text);
  if (types.includes('null') && text === 'null') return null;
  if (types.includes('object') && text.startsWith('{')) return json(key, text, 'a JSON object');
  if (types.includes('string')) return text;
  throw fail('usage', `${key}: expected ${types.join(' or ')}, got ${JSON.stringify(text)}`);
}

const isNumber = (text: string): boolean => /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text);

/** Fails with `usage` for a number whose digits would be lost. */
function exactNumber(key: string, text: string): number {
  const value = Number(text);
  if (keepsDigits(text, value)) return value;
  throw fail('usage', `${key}: the number ${text.slice(0, 60)} has more digits than a number of JSON keeps`);
}

function json(key: string, text: string, expected: string): unknown {
  try {
    return parseExactJson(text);
  } catch (error) {
    throw fail('usage', `${key}: expected ${expected}: ${(error as Error).message}`, {}, error);
  }
}
