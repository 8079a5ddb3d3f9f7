/**
 * A configuration schema at run time: plain JSON Schema with annotations for the reader, the template and the
 * documentation. `*.schema.ts` write such schemas with TypeBox, `npm run generate` turns them into data, and a
 * capability package may bring its schema as a plain object.
 *
 * A schema describes the settings after reading. A setting with a `default` may be left out of the file, and so may a
 * group whose members all may. Keys are snake_case in the file and camelCase in the result.
 */
import { fail } from '../wire/errors.ts';
import { type TextFormatName, textFormat } from './text-formats.ts';

/** One setting, or a group, list or map of settings. No other keyword of JSON Schema is supported. */
export interface SettingSchema {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  /** Its purpose, in sentences, with units. */
  readonly description?: string;
  /** The value when the key is left out, in the form of the file. */
  readonly default?: unknown;
  /** The words that are allowed; `true` and `false` may be among them. */
  readonly enum?: readonly (string | boolean)[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: SettingSchema;
  readonly minItems?: number;
  /** Makes an object a group: its settings by key. Other keys are problems. */
  readonly properties?: Readonly<Record<string, SettingSchema>>;
  readonly required?: readonly string[];
  /** Makes an object a map: its keys are the user's own, each value is read by this schema. */
  readonly additionalProperties?: SettingSchema | boolean;
  readonly propertyNames?: { readonly pattern: string; readonly expected: string };

  /** Description of a valid value, for messages: `expected …`. */
  readonly expected?: string;
  /**
   * A rule for texts that a pattern cannot state. `path`: relative to the folder of the file, absolute once read.
   * `program`: the same for a path; the code that starts a program by name looks it up in `PATH`.
   */
  readonly format?: TextFormatName;
  /** A value to show, or the lines of the whole setting. The template shows it, commented out, in place of the default. */
  readonly example?: string | readonly string[];
  /** The template writes the default as a live setting. */
  readonly shown?: boolean;
  /** No message repeats a value from inside this group. */
  readonly secret?: boolean;
  /** The key whose value a text is, if a text may stand for the group. */
  readonly short?: string;
  /** Words of earlier versions, with the word that replaced each: they are suggested. */
  readonly formerly?: Readonly<Record<string, string>>;
  /** The schema of the member `member`, by the value of the member `by`. */
  readonly variants?: {
    readonly by: string;
    readonly member: string;
    readonly of: Readonly<Record<string, SettingSchema>>;
  };
  /** Members of a group of which at least one is needed. */
  readonly needsOne?: readonly string[];
  /** Two members that exclude each other. */
  readonly notBoth?: readonly [string, string];
  /** Members of which exactly one is needed. */
  readonly either?: readonly string[];
  /** Two members that need each other. */
  readonly together?: readonly [string, string];
}

/** `max_message_bytes` becomes `maxMessageBytes`. */
type Camel<Key> = Key extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Key;

/**
 * The settings as they are read, from the static type of a schema: camelCase, read-only, and a `Map` where keys are the
 * user's own.
 */
export type Settings<T> = T extends readonly (infer Item)[]
  ? readonly Settings<Item>[]
  : T extends object
    ? string extends keyof T
      ? unknown extends T[keyof T]
        ? Readonly<Record<string, unknown>>
        : ReadonlyMap<string, Settings<T[keyof T]>>
      : { readonly [Key in keyof T as Camel<Key>]: Settings<T[Key]> }
    : T;

export const camel = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Returns the description of a valid value, in words. */
export function expectedOf(schema: SettingSchema): string {
  const { type, expected, short } = schema;
  if (expected !== undefined) return expected;
  if (schema.enum !== undefined) return alternatives(wordsOf(schema));
  if (type === 'array') return `${expectedOf(schema.items ?? {})}, or a list of such`;
  if (type === 'object') return short === undefined ? 'a map' : `a text, or a map with ${short}`;
  if (type === 'boolean') return 'true or false';
  if (type === 'integer' || type === 'number') return numberIn(schema);
  return textFormat(schema.format)?.expected ?? (schema.format === 'path' ? 'a path' : 'a text');
}

function numberIn({ type, minimum, maximum }: SettingSchema): string {
  const kind = type === 'integer' ? 'a whole number' : 'a number';
  if (minimum === undefined) return maximum === undefined ? kind : `${kind} of at most ${maximum}`;
  return maximum === undefined ? `${kind} of at least ${minimum}` : `${kind} from ${minimum} to ${maximum}`;
}

/** Returns the words of an `enum`. */
export const wordsOf = (schema: SettingSchema): string[] =>
  (schema.enum ?? []).filter((word): word is string => typeof word === 'string');

/** Returns `a, b or c`. */
export function alternatives(words: readonly string[]): string {
  return words.length < 2 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** Returns true when a file may omit the setting. */
export function mayBeLeftOut(schema: SettingSchema): boolean {
  if (schema.default !== undefined) return true;
  const { properties = {}, required = [] } = schema;
  return schema.type === 'object' && required.every((key) => mayBeLeftOut(properties[key] ?? {}));
}

/** The keywords of {@link SettingSchema}. */
const KEYWORDS: ReadonlySet<string> = new Set(
  [
    'type description default enum pattern minimum maximum items minItems properties required additionalProperties',
    'propertyNames expected format example shown secret short formerly variants needsOne notBoth either together',
  ].flatMap((words) => words.split(' ')),
);

/**
 * Refuses a schema that asks for more than the reader can check, so that no rule of it is silently ignored.
 *
 * Fails with `config_invalid`, naming the place in the schema.
 */
export function checkSettingSchema(schema: SettingSchema, at: string): void {
  // Keys with a tilde are TypeBox's own marks.
  const unknown = Object.keys(schema).find((key) => !KEYWORDS.has(key) && !key.startsWith('~'));
  if (unknown !== undefined) {
    throw fail('config_invalid', `the schema of ${at} uses ${JSON.stringify(unknown)}, which settings do not support`);
  }
  if (schema.type === undefined && schema.enum === undefined) {
    throw fail('config_invalid', `the schema of ${at} needs a "type" or an "enum"`);
  }
  for (const [key, member] of Object.entries(schema.properties ?? {})) checkSettingSchema(member, `${at}.${key}`);
  for (const [name, member] of Object.entries(schema.variants?.of ?? {})) checkSettingSchema(member, `${at}(${name})`);
  if (schema.items !== undefined) checkSettingSchema(schema.items, `${at}[]`);
  if (typeof schema.additionalProperties === 'object') checkSettingSchema(schema.additionalProperties, `${at}.*`);
}
