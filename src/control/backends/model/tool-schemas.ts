/**
 * Schemas of tools as each provider takes them. A provider refuses the whole request for one schema that it does not take, so
 * every schema is built again from the keywords of JSON Schema 2020-12 that are valid, in the forms of the provider: a union at
 * the root becomes one object, references are resolved, forms of earlier drafts are translated, names of properties are
 * replaced.
 *
 * Sources: the providers' references of tool definitions, and the messages with which they refuse. Pure; the work on one schema
 * is counted, because schemas come from strangers.
 * @see docs/decisions/0062-requests-that-providers-take.md
 */
import { FreeNames, lettersOf } from '../../../base/free-names.ts';
import { isObject, membersOf } from '../../../wire/json.ts';
import { jsonPointer } from './json-pointer.ts';
import { PropertyNames } from './property-names.ts';
import {
  alternatives,
  consistent,
  isPattern,
  isSchema,
  merge,
  named,
  namesOf,
  oneOrAny,
  shortJson,
  tupleOf,
  typesOf,
  wellFormed,
  wordsOf,
} from './schema-parts.ts';

type Schema = Readonly<Record<string, unknown>>;
type Built = Record<string, unknown>;

/** The part of JSON Schema that a provider takes. */
interface SchemaRules {
  /** Names of properties. */
  readonly names: RegExp;
  /** `$ref` and `$defs`. False: a reference is replaced by its target. */
  readonly refs: boolean;
  /** `prefixItems` without `items`. */
  readonly tuples: boolean;
  /** Only the keywords of Gemini's subset: enums of texts, no constraints on texts, only declared properties are required. */
  readonly subset: boolean;
  /**
   * The server may make a grammar of all schemas, as llama.cpp does: patterns and long repetitions stand in the description.
   */
  readonly grammar: boolean;
}

/** Characters of any script: not every server reads JSON with half of a surrogate pair. */
const ANY_NAME = /^\P{Surrogate}+$/u;
const ANTHROPIC: SchemaRules = {
  names: /^[a-zA-Z0-9_.-]{1,64}$/,
  refs: true,
  tuples: true,
  subset: false,
  grammar: false,
};
const OPENAI: SchemaRules = { names: ANY_NAME, refs: true, tuples: false, subset: false, grammar: false };
const GOOGLE: SchemaRules = { names: /^[a-zA-Z_]\w{0,63}$/, refs: false, tuples: false, subset: true, grammar: false };
/** A server behind a common API may be any of them. */
const COMMON: SchemaRules = {
  names: /^[a-zA-Z0-9_.-]{1,64}$/,
  refs: false,
  tuples: false,
  subset: false,
  grammar: true,
};

const RULES: Readonly<Record<string, SchemaRules>> = {
  anthropic: ANTHROPIC,
  openai: OPENAI,
  google: GOOGLE,
  antigravity: GOOGLE,
};

/** Returns the rules for a model. OpenRouter forwards requests to the provider of the model, which its name begins with. */
function rulesOf(provider: string, model: string): SchemaRules {
  if (provider !== 'openrouter') return RULES[provider] ?? COMMON;
  return model.startsWith('google/') ? GOOGLE : COMMON;
}

/** A tool's schema in the form of a provider. */
export interface AdaptedSchema {
  readonly schema: Schema;
  /** Conditions that the schema cannot express in this form, for the description of the tool; may be empty. */
  readonly note: string;
  /** Names of properties that the provider does not take; undefined where it takes all. */
  readonly names: PropertyNames | undefined;
  /** The cost: subschemas that were built, and the subschemas that its length counts as. */
  readonly work: number;
}

/** Subschemas of one tool, references resolved. Beyond half of it references are not followed. */
const MAX_WORK = 4_000;
/** Characters of a target that count as one subschema each time that it is written out: enumerations and texts are long. */
const CHARS_PER_PART = 256;
/** Names of branches that count as one subschema each time that they are put into an object. */
const NAMES_PER_PART = 8;
/** Longest schema of one tool. */
const MAX_LENGTH = 1_048_576;
/** Minimum number of characters of a value: enumerations and examples of numbers are long, too. */
const CHARS_PER_VALUE = 16;
const MAX_DEPTH = 64;
/** Longest note about a root that was changed, and longest description of a target that is not written out. */
const MAX_NOTE = 400;

/** The forms of schemas that were adapted, by their rules: the same tools are offered in each round. */
const known = new WeakMap<Schema, Map<SchemaRules, AdaptedSchema | string>>();

/** Returns the schema of a tool for a model; a text: the reason why the schema has no form for its provider. */
export function adaptedSchema(schema: unknown, provider: string, model: string): AdaptedSchema | string {
  if (!isObject(schema)) return 'its schema is not an object';
  const rules = rulesOf(provider, model);
  const forms = known.get(schema) ?? new Map<SchemaRules, AdaptedSchema | string>();
  known.set(schema, forms);
  const made = forms.get(rules) ?? built(schema, rules);
  forms.set(rules, made);
  return made;
}

function built(schema: Schema, rules: SchemaRules): AdaptedSchema | string {
  const length = MAX_LENGTH - lengthLeft(schema, MAX_LENGTH);
  if (length > MAX_LENGTH) return `its schema is longer than ${MAX_LENGTH} characters`;
  const builder = new Builder(schema, rules);
  const { root, note } = builder.root();
  if (builder.work > MAX_WORK) return `its schema has more than ${MAX_WORK} parts`;
  const work = Math.ceil(builder.work + length / CHARS_PER_PART);
  return { schema: root, note, names: builder.names.anyReplaced ? builder.names : undefined, work };
}

/** Subtracts the length of a schema from `room`: its characters, and some for each value. Ends soon below zero. */
function lengthLeft(value: unknown, room: number): number {
  let left = room - CHARS_PER_VALUE;
  if (typeof value === 'string') return left - value.length;
  if (typeof value !== 'object' || value === null) return left;
  if (!Array.isArray(value)) for (const name of Object.keys(value)) left -= name.length;
  for (const member of Object.values(value)) {
    if (left < 0) break;
    left = lengthLeft(member, left);
  }
  return left;
}

const TEXTS = ['title', 'description', 'format', 'contentEncoding', 'contentMediaType'];
const NUMBERS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const COUNTS = [
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minContains',
  'maxContains',
];
const FLAGS = ['uniqueItems', 'readOnly', 'writeOnly', 'deprecated'];
const SCHEMAS = ['contains', 'propertyNames', 'not', 'if', 'then', 'else', 'unevaluatedItems', 'unevaluatedProperties'];
const LISTS = ['anyOf', 'oneOf', 'allOf'] as const;
/** Keywords that the object of the arguments keeps of a schema; its alternatives, conditions and values are read apart. */
const OWN = [
  ...TEXTS,
  ...NUMBERS,
  ...COUNTS,
  ...FLAGS,
  'contains',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'pattern',
  'default',
  'examples',
  'properties',
  'patternProperties',
  'additionalProperties',
  'dependentSchemas',
  'dependentRequired',
  'dependencies',
  'required',
  'items',
  'prefixItems',
  'additionalItems',
  'nullable',
];
/** Texts that every value of a schema may be, where a type must be named. */
const ANY_TYPES = [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }, { type: 'object' }];
/** Formats of texts that Gemini takes. */
const SUBSET_FORMATS = new Set(['date-time', 'date', 'time', 'enum']);

class Builder {
  readonly names: PropertyNames;
  work = 0;
  readonly #root: Schema;
  readonly #rules: SchemaRules;
  /** Names of the definitions by their target. */
  readonly #defs = new Map<unknown, string>();
  readonly #built = new Map<string, unknown>();
  readonly #free = new FreeNames();
  /** Targets that are being written out. */
  readonly #open: unknown[] = [];
  /** The pointers of the schemas that references led to. Strangers name one with 10,000 members in thousands of ways. */
  readonly #pointers = new Map<Schema, string | undefined>();
  /** Subschemas that the length of each target counts as. */
  readonly #lengths = new Map<unknown, number>();

  constructor(root: Schema, rules: SchemaRules) {
    this.#root = root;
    this.#rules = rules;
    this.names = new PropertyNames(root, rules.names);
  }

  /** Returns the schema of the arguments, always an object. */
  root(): { root: Schema; note: string } {
    const notes: string[] = [];
    const built = this.#flat(this.#root, notes, 0);
    const { title: _title, $defs: _defs, ...rest } = built;
    const properties = (built.properties ?? {}) as Built;
    const required = this.#requiredOf(built.required, properties);
    const root: Built = { ...rest, type: 'object', properties };
    delete root.required;
    if (required.length > 0) root.required = required;
    if (this.#built.size > 0) root.$defs = Object.fromEntries(this.#built);
    const note = notes.join(' ');
    return { root, note: note.length > MAX_NOTE ? `${note.slice(0, MAX_NOTE)}…`.toWellFormed() : note };
  }

  /**
   * Makes one object of a schema and its alternatives. Names that all alternatives require stay required; the others become
   * optional.
   */
  #flat(schema: unknown, notes: string[], depth: number): Built {
    if (!isObject(schema) || depth > MAX_DEPTH || this.work > MAX_WORK) return {};
    const { $ref, anyOf, oneOf, allOf, if: condition, then, else: otherwise } = schema;
    this.work += 1;
    const flat = this.#one({ ...ownKeywords(schema), type: 'object' }, depth);
    const target = typeof $ref === 'string' ? this.#target($ref) : undefined;
    if (target !== undefined && !this.#open.includes(target)) {
      this.#merge(flat, [this.#writtenOut(target, () => this.#flat(target, notes, depth + 1))], 'all');
    }
    for (const [list, how] of [
      [allOf, 'all'],
      [anyOf, 'some'],
      [oneOf, 'some'],
    ] as const) {
      if (!Array.isArray(list)) continue;
      const objects = list.filter((each) => this.#isObjectSchema(each));
      const branches = objects.map((each) => this.#flat(each, notes, depth + 1));
      if (this.#merge(flat, branches, how) && how === 'some') note(notes, () => alternatives(branches));
    }
    const dependent = [then, otherwise].filter((each) => isObject(each));
    if (condition !== undefined && dependent.length > 0) {
      const branches = dependent.map((each) => this.#flat(each, notes, depth + 1));
      // Names alone: a constraint that holds sometimes must not be one that always holds.
      for (const branch of branches) this.#merge(flat, [{ properties: branch.properties ?? {} }], 'missing');
      note(notes, () => [`Arguments depend on each other: ${shortJson({ if: condition, then, else: otherwise })}.`]);
    }
    return flat;
  }

  /**
   * Adds branches to an object: each level of a nested schema has the names of its inner levels. Returns false when the work
   * exceeds its limit.
   */
  #merge(into: Built, branches: readonly Built[], how: 'all' | 'some' | 'missing'): boolean {
    for (const branch of branches) this.work += namesOf(branch) / NAMES_PER_PART;
    if (this.work > MAX_WORK) return false;
    merge(into, branches, how, this.#count);
    return true;
  }

  readonly #count = (characters: number): void => {
    this.work += characters / CHARS_PER_PART;
  };

  /** False for the alternatives of arguments that are no object. */
  #isObjectSchema(schema: unknown): boolean {
    if (!isObject(schema)) return false;
    const types = typesOf(schema.type);
    return types.length === 0 || types.includes('object');
  }

  /** Builds a schema below the root. */
  #sub(schema: unknown, depth: number): unknown {
    this.work += 1;
    if (!isObject(schema) || depth > MAX_DEPTH || this.work > MAX_WORK) return this.#any(schema);
    const { $ref } = schema;
    if (typeof $ref !== 'string') return this.#one(schema, depth);
    const target = this.#target($ref);
    if (!isObject(target)) return this.#one(schema, depth);
    if (this.#rules.refs) {
      const beside = this.#one(schema, depth, true);
      return { ...beside, $ref: `#/$defs/${this.#define(target, $ref, depth)}` };
    }
    // Only the beginning of a schema that has no end, or hardly one, can be written out.
    if (this.#open.includes(target) || this.work > MAX_WORK / 2) return this.#beginning(target, schema, depth);
    const whole = this.#writtenOut(target, () => this.#sub(target, depth + 1) as Built);
    const { description, default: fallback } = this.#one(schema, depth, true);
    return {
      ...whole,
      ...(description !== undefined && { description }),
      ...(fallback !== undefined && { default: fallback }),
    };
  }

  /** Writes out a target, whose length counts. */
  #writtenOut(target: unknown, write: () => Built): Built {
    let length = this.#lengths.get(target);
    if (length === undefined) {
      length = Math.floor(JSON.stringify(target).length / CHARS_PER_PART);
      this.#lengths.set(target, length);
    }
    this.work += length;
    this.#open.push(target);
    const built = write();
    this.#open.pop();
    return built;
  }

  /** Returns the type of a target, and its description. */
  #beginning({ type, description }: Schema, { description: own }: Schema, depth: number): Built {
    const types = typesOf(type).filter((each) => each !== 'array' && each !== 'null');
    const shortened = typeof description === 'string' ? description.slice(0, MAX_NOTE) : undefined;
    return this.#one({ type: types.length > 0 ? types : 'object', description: own ?? shortened }, depth);
  }

  /** Returns the name of the definition of a target. */
  #define(target: unknown, pointer: string, depth: number): string {
    const known = this.#defs.get(target);
    if (known !== undefined) return known;
    const name = this.#free.take(lettersOf(pointer.slice(pointer.lastIndexOf('/') + 1)).slice(0, 48) || 'root');
    this.#defs.set(target, name);
    // Defined before it is built: it may contain itself.
    this.#built.set(name, {});
    this.#built.set(name, this.#sub(target, depth + 1));
    return name;
  }

  /** Builds a schema without a reference. @param bare true: nothing is added to it */
  #one(schema: Schema, depth: number, bare = false): Built {
    const built: Built = {};
    for (const name of TEXTS)
      if (typeof schema[name] === 'string') built[name] = (schema[name] as string).toWellFormed();
    const types = typesOf(schema.type);
    this.#numbers(schema, built);
    for (const name of FLAGS) if (typeof schema[name] === 'boolean') built[name] = schema[name];
    if (isPattern(schema.pattern)) built.pattern = schema.pattern;
    if (schema.default !== undefined) built.default = wellFormed(schema.default);
    if (Array.isArray(schema.examples)) built.examples = wellFormed(schema.examples);
    if (schema.const !== undefined) built.const = wellFormed(schema.const);
    this.#object(schema, built, depth);
    this.#array(schema, built, types, depth);
    for (const name of SCHEMAS) if (isSchema(schema[name])) built[name] = this.#sub(schema[name], depth + 1);
    for (const name of LISTS) {
      const list = Array.isArray(schema[name]) ? (schema[name] as unknown[]).filter(isSchema) : [];
      if (list.length > 0) built[name] = list.map((each) => this.#sub(each, depth + 1));
    }
    if (schema.nullable === true && types.length > 0 && !types.includes('null')) types.push('null');
    if (types.length > 0) built.type = types.length === 1 ? types[0] : types;
    const words = wordsOf(schema.enum, types);
    if (words.length > 0) built.enum = words;
    if (this.#rules.subset) this.#reduce(built, bare);
    else if (this.#rules.grammar) simplify(built);
    return built;
  }

  #numbers(schema: Schema, built: Built): void {
    for (const name of NUMBERS) {
      if (Number.isFinite(schema[name]) && (name !== 'multipleOf' || (schema[name] as number) > 0))
        built[name] = schema[name];
    }
    for (const name of COUNTS) {
      if (Number.isSafeInteger(schema[name]) && (schema[name] as number) >= 0) built[name] = schema[name];
    }
    // Draft 4 has flags where later drafts have numbers.
    for (const [flag, limit] of [
      ['exclusiveMinimum', 'minimum'],
      ['exclusiveMaximum', 'maximum'],
    ] as const) {
      if (schema[flag] !== true || built[limit] === undefined) continue;
      built[flag] = built[limit];
      delete built[limit];
    }
  }

  #object(schema: Schema, built: Built, depth: number): void {
    const { properties, patternProperties, additionalProperties, dependentSchemas, dependencies } = schema;
    if (isObject(properties)) {
      const kept: [string, unknown][] = [];
      for (const [name, value] of Object.entries(properties)) {
        if (this.work > MAX_WORK) break;
        // A property that no value fits is left out.
        if (value === false) continue;
        const given = this.names.given(name);
        const made = this.#sub(isSchema(value) ? value : {}, depth + 1);
        kept.push([given, given === name ? made : named(made as Built, name)]);
      }
      built.properties = Object.fromEntries(kept);
    } else if (typesOf(schema.type).includes('object') && !this.#rules.subset) built.properties = {};
    const required = this.#requiredOf(schema.required, undefined).map((name) => this.names.given(name));
    if (required.length > 0) built.required = required;
    if (isObject(patternProperties)) {
      const kept = Object.entries(patternProperties).filter(([name, value]) => isPattern(name) && isSchema(value));
      if (kept.length > 0) {
        built.patternProperties = Object.fromEntries(kept.map(([name, value]) => [name, this.#sub(value, depth + 1)]));
      }
    }
    if (isSchema(additionalProperties)) {
      built.additionalProperties =
        typeof additionalProperties === 'boolean' ? additionalProperties : this.#sub(additionalProperties, depth + 1);
    }
    const needed: [string, unknown][] = [];
    const further: [string, unknown][] = [];
    for (const source of [dependencies, dependentSchemas, schema.dependentRequired]) {
      if (!isObject(source)) continue;
      for (const [name, value] of Object.entries(source)) {
        if (Array.isArray(value))
          needed.push([
            this.names.given(name),
            this.#requiredOf(value, undefined).map((each) => this.names.given(each)),
          ]);
        else if (isSchema(value)) further.push([this.names.given(name), this.#sub(value, depth + 1)]);
      }
    }
    if (needed.length > 0) built.dependentRequired = Object.fromEntries(needed);
    if (further.length > 0) built.dependentSchemas = Object.fromEntries(further);
  }

  #array(schema: Schema, built: Built, types: readonly string[], depth: number): void {
    const { tuple: listed, rest } = tupleOf(schema);
    const tuple = listed.filter(isSchema).map((each) => this.#sub(each, depth + 1));
    const isArray = types.includes('array') || schema.items !== undefined || tuple.length > 0;
    if (!isArray) return;
    if (tuple.length > 0 && this.#rules.tuples) {
      built.prefixItems = tuple;
      if (isSchema(rest)) built.items = typeof rest === 'boolean' ? rest : this.#sub(rest, depth + 1);
      return;
    }
    if (tuple.length > 0) {
      const more = isObject(rest) ? [this.#sub(rest, depth + 1)] : [];
      const all = [...tuple, ...more];
      built.items = this.work > MAX_WORK ? this.#any(undefined) : oneOrAny(all, this.#count);
      if (more.length === 0) built.maxItems ??= tuple.length;
      return;
    }
    built.items = isObject(rest) ? this.#sub(rest, depth + 1) : this.#any(undefined);
  }

  /** Returns names, each once; of `declared` alone where only those may be required. */
  #requiredOf(required: unknown, declared: Built | undefined): string[] {
    if (!Array.isArray(required)) return [];
    const names = [...new Set(required.filter((name) => typeof name === 'string'))];
    return declared === undefined || !this.#rules.subset
      ? names
      : names.filter((name) => Object.hasOwn(declared, name));
  }

  /** Builds the schema of any value. */
  #any(schema: unknown): Built {
    const { description } = membersOf(schema);
    const known = typeof description === 'string' ? { description: description.toWellFormed() } : {};
    return this.#rules.subset ? { ...known, anyOf: ANY_TYPES } : known;
  }

  /** Reduces a schema to Gemini's subset; the rest goes into the description. */
  #reduce(built: Built, bare: boolean): void {
    const said: string[] = [];
    const { const: value, enum: words, format, oneOf, allOf } = built;
    for (const name of [
      'const',
      'pattern',
      'minLength',
      'maxLength',
      'exclusiveMinimum',
      'exclusiveMaximum',
      'multipleOf',
      'uniqueItems',
    ]) {
      if (built[name] !== undefined && !(name === 'const' && typeof value === 'string')) {
        said.push(`${name}: ${shortJson(built[name])}`);
      }
    }
    for (const name of Object.keys(built)) if (!SUBSET.has(name)) delete built[name];
    const isText = built.type === undefined || [built.type].flat().includes('string');
    if (typeof value === 'string' && value !== '' && isText) built.enum = [value];
    if (Array.isArray(words)) {
      const texts = words.filter((word) => typeof word === 'string' && word !== '');
      if (texts.length === words.filter((word) => word !== null).length && texts.length > 0) built.enum = texts;
      else {
        delete built.enum;
        said.push(`one of ${shortJson(words)}`);
      }
    }
    if (typeof format === 'string' && !SUBSET_FORMATS.has(format)) {
      delete built.format;
      if (format !== '') said.push(`format: ${format}`);
    }
    if (typeof built.additionalProperties === 'boolean') delete built.additionalProperties;
    if (Array.isArray(oneOf)) built.anyOf = [...((built.anyOf as unknown[]) ?? []), ...oneOf];
    if (Array.isArray(allOf)) this.#merge(built, allOf as Built[], 'all');
    if (consistent(built).enum === undefined) delete built.enum;
    if (Array.isArray(built.required)) {
      const required = this.#requiredOf(built.required, (built.properties ?? {}) as Built);
      if (required.length > 0) built.required = required;
      else delete built.required;
    }
    describe(built, said);
    if (built.type !== undefined || built.anyOf !== undefined || bare) return;
    if (built.enum !== undefined) built.type = 'string';
    else if (built.properties !== undefined || built.additionalProperties !== undefined) built.type = 'object';
    else if (built.items !== undefined) built.type = 'array';
    else if (typeof value === 'number') built.type = 'number';
    else if (typeof value === 'boolean') built.type = 'boolean';
    else built.anyOf = ANY_TYPES;
  }

  /** Returns the target of a reference within the schema. */
  #target(reference: string): unknown {
    const { $id } = this.#root;
    const at = reference.indexOf('#');
    const document = at < 0 ? reference : reference.slice(0, at);
    const isOwn = document === '' || (typeof $id === 'string' && ($id === document || $id.endsWith(`/${document}`)));
    if (!isOwn) return undefined;
    return this.#resolved(jsonPointer(this.#root, at < 0 ? '' : reference.slice(at + 1)));
  }

  /** Returns the end of a chain of references. */
  #resolved(schema: unknown): unknown {
    let found = schema;
    for (let steps = 0; steps < MAX_DEPTH && isObject(found); steps += 1) {
      const pointer = this.#pointerIn(found);
      if (pointer === undefined) return found;
      const next = jsonPointer(this.#root, pointer);
      if (next === undefined || next === found) return {};
      found = next;
    }
    return isObject(found) && '$ref' in found ? {} : found;
  }

  /** Returns the pointer of a schema that is a reference within the document and nothing else. */
  #pointerIn(schema: Schema): string | undefined {
    if (!this.#pointers.has(schema)) {
      const { $ref } = schema;
      const isAlone = typeof $ref === 'string' && $ref.startsWith('#') && Object.keys(schema).length === 1;
      this.#pointers.set(schema, isAlone ? $ref.slice(1) : undefined);
    }
    return this.#pointers.get(schema);
  }
}

const ownKeywords = (schema: Schema): Schema => Object.fromEntries(OWN.map((name) => [name, schema[name]]));

/** Adds sentences to the note, as long as it shows them. */
function note(notes: string[], sentences: () => readonly string[]): void {
  const length = notes.reduce((sum, text) => sum + text.length, 0);
  if (length <= MAX_NOTE) notes.push(...sentences());
}

/** Longest repetition that is left in a grammar: nested repetitions are multiplied. */
const MAX_REPETITION = 100;
const REPETITIONS = ['minLength', 'maxLength', 'minItems', 'maxItems'];

/** Removes constraints of which no grammar can be made; they go into the description. */
function simplify(built: Built): void {
  const said: string[] = [];
  for (const name of ['pattern', ...REPETITIONS]) {
    const value = built[name];
    if (value === undefined || (typeof value === 'number' && value <= MAX_REPETITION)) continue;
    said.push(`${name}: ${shortJson(value)}`);
    delete built[name];
  }
  describe(built, said);
}

function describe(built: Built, said: readonly string[]): void {
  if (said.length > 0) built.description = [built.description, `(${said.join('; ')})`].filter(Boolean).join(' ');
}

/** The keywords of Gemini's subset. */
const SUBSET = new Set([
  'type',
  'format',
  'title',
  'description',
  'enum',
  'items',
  'minItems',
  'maxItems',
  'minimum',
  'maximum',
  'anyOf',
  'properties',
  'additionalProperties',
  'required',
]);
