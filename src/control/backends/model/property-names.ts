/**
 * Names of properties that a provider does not take: each gets another one in the schema that the provider is given, and arguments
 * are translated on the way out and back. Only names that the schema declares at their place are translated; the keys of free
 * objects are data.
 *
 * Pure.
 */
import { FreeNames, lettersOf } from '../../../base/free-names.ts';
import { isObject, membersOf } from '../../../wire/json.ts';
import { jsonPointer } from './json-pointer.ts';
import { tupleOf } from './schema-parts.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Longest given name: room for a number behind it. */
const MAX_GIVEN = 56;
/** Most schemas that apply to one object of arguments. */
const MAX_SCHEMAS = 256;
const MAX_DEPTH = 64;
/** Parts of a schema that are searched for names. */
const MAX_PARTS = 20_000;

export class PropertyNames {
  readonly #root: Schema;
  readonly #taken: RegExp;
  readonly #given = new Map<string, string>();
  readonly #own = new Map<string, string>();
  #declared: ReadonlySet<string> | undefined;
  readonly #free = new FreeNames({
    isReserved: (name) => {
      this.#declared ??= namesIn(this.#root);
      return this.#declared.has(name);
    },
  });

  /** @param taken the names that the provider takes */
  constructor(root: Schema, taken: RegExp) {
    this.#root = root;
    this.#taken = taken;
  }

  /** True when a name was replaced. */
  get anyReplaced(): boolean {
    return this.#given.size > 0;
  }

  /** The name for the provider. */
  given(name: string): string {
    if (this.#taken.test(name)) return name;
    const known = this.#given.get(name);
    if (known !== undefined) return known;
    const letters = lettersOf(name);
    const given = this.#free.take((/^[A-Za-z]/.test(letters) ? letters : `p_${letters}`).slice(0, MAX_GIVEN));
    this.#given.set(name, given);
    this.#own.set(given, name);
    return given;
  }

  /** Arguments with the names of the provider. */
  toProvider(input: Schema): Schema {
    return this.#translated(input, this.#given, (name) => name);
  }

  /** Arguments with the names of the tool. */
  fromProvider(input: Schema): Schema {
    return this.#translated(input, this.#own, (name) => this.#own.get(name) ?? name);
  }

  /** @param ownName the name in the schema for a name in the input */
  #translated(input: Schema, names: ReadonlyMap<string, string>, ownName: (name: string) => string): Schema {
    const walk = (value: unknown, schemas: readonly Schema[], depth: number): unknown => {
      if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return value;
      const all = this.#reached(schemas);
      if (Array.isArray(value)) return value.map((each, at) => walk(each, itemsOf(all, at), depth + 1));
      const members = Object.entries(value).map(([name, member]): [string, unknown] => {
        const translated = names.get(name);
        if (translated === undefined || !declares(all, ownName(name)))
          return [name, walk(member, propertiesOf(all, name), depth + 1)];
        return [translated, walk(member, propertiesOf(all, ownName(name)), depth + 1)];
      });
      return Object.fromEntries(members);
    };
    return walk(input, [this.#root], 0) as Schema;
  }

  /** The schemas and all others that apply at this place: references, alternatives, conditions. */
  #reached(schemas: readonly Schema[]): readonly Schema[] {
    const found = new Set<Schema>(schemas);
    for (const schema of found) {
      if (found.size > MAX_SCHEMAS) break;
      const { $ref, anyOf, oneOf, allOf, then, else: otherwise, dependentSchemas, dependencies } = schema;
      const target =
        typeof $ref === 'string' && $ref.includes('#')
          ? jsonPointer(this.#root, $ref.slice($ref.indexOf('#') + 1))
          : undefined;
      const dependent = [dependentSchemas, dependencies].map((each) => Object.values(membersOf(each)));
      for (const each of [target, then, otherwise, anyOf, oneOf, allOf, ...dependent].flat())
        if (isObject(each)) found.add(each);
    }
    return [...found];
  }
}

const declares = (schemas: readonly Schema[], name: string): boolean =>
  schemas.some(({ properties }) => isObject(properties) && Object.hasOwn(properties, name));

function propertiesOf(schemas: readonly Schema[], name: string): readonly Schema[] {
  return schemas.flatMap(({ properties, additionalProperties }) => {
    if (isObject(properties) && Object.hasOwn(properties, name)) return [membersOf(properties[name])];
    return isObject(additionalProperties) ? [additionalProperties] : [];
  });
}

function itemsOf(schemas: readonly Schema[], at: number): readonly Schema[] {
  return schemas.flatMap((schema) => {
    const { tuple, rest } = tupleOf(schema);
    const own = at < tuple.length ? tuple[at] : rest;
    return isObject(own) ? [own] : [];
  });
}

/** Every name that the schema declares anywhere. */
function namesIn(schema: Schema): ReadonlySet<string> {
  const names = new Set<string>();
  const open: unknown[] = [schema];
  for (let parts = 0; open.length > 0 && parts < MAX_PARTS; parts += 1) {
    const value = open.pop();
    if (typeof value !== 'object' || value === null) continue;
    const { properties } = value as Schema;
    if (isObject(properties)) for (const name of Object.keys(properties)) names.add(name);
    for (const member of Object.values(value)) open.push(member);
  }
  return names;
}
