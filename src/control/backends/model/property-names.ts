/**
 * Names of properties that a provider does not take: each gets another one in the schema that the provider is given, and
 * arguments are translated on the way out and back. Only names that the schema declares at their place are translated; the keys
 * of free objects are data.
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
/** Maximum number of schemas that apply to one object of arguments. */
const MAX_SCHEMAS = 256;
/** Maximum number of schemas and names that are read to translate the arguments of one call. */
const MAX_READ = 100_000;
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

  /** Returns the name for the provider. */
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

  /** Returns arguments with the names of the provider. */
  toProvider(input: Schema): Schema {
    return this.#translated(input, this.#given, (name) => name);
  }

  /** Returns arguments with the names of the tool. */
  fromProvider(input: Schema): Schema {
    return this.#translated(input, this.#own, (name) => this.#own.get(name) ?? name);
  }

  /** @param ownName the name in the schema for a name in the input */
  #translated(input: Schema, names: ReadonlyMap<string, string>, ownName: (name: string) => string): Schema {
    const walk = (value: unknown, place: Place, depth: number): unknown => {
      if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return value;
      // Most values keep all their names; they are not built again.
      if (Array.isArray(value)) {
        const items = value.map((each, at) => walk(each, place.item(at), depth + 1));
        return items.every((each, at) => each === value[at]) ? value : items;
      }
      let isSame = true;
      const members = Object.entries(value).map(([name, member]): [string, unknown] => {
        const own = ownName(name);
        const given = place.declares(own) ? (names.get(name) ?? name) : name;
        const translated = walk(member, place.property(given === name ? name : own), depth + 1);
        isSame &&= given === name && translated === member;
        return [given, translated];
      });
      return isSame ? value : Object.fromEntries(members);
    };
    return walk(input, new Places(this.#root).at([this.#root]), 0) as Schema;
  }
}

/** The places of a schema that arguments reach, each read once. */
class Places {
  readonly #root: Schema;
  readonly #known = new Map<Schema, Place>();
  /** Schemas and names that may still be read; beyond it, places declare nothing. */
  #left = MAX_READ;

  constructor(root: Schema) {
    this.#root = root;
  }

  /** Returns the place to which these schemas apply. */
  at(schemas: readonly Schema[]): Place {
    const [first] = schemas;
    const isOne = first !== undefined && schemas.length === 1;
    const place = (isOne ? this.#known.get(first) : undefined) ?? this.#read(schemas);
    if (isOne) this.#known.set(first, place);
    return place;
  }

  #read(schemas: readonly Schema[]): Place {
    if (this.#left <= 0) return new Place(this, [], new Set());
    const reached = this.#reached(schemas);
    const names = new Set(reached.flatMap(({ properties }) => Object.keys(membersOf(properties))));
    this.#left -= 1 + reached.length + names.size;
    return new Place(this, reached, names);
  }

  /** Returns the schemas and all others that apply at this place: references, alternatives, conditions. */
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

/** A place of arguments: the schemas that apply to a value there. */
class Place {
  readonly #places: Places;
  readonly #schemas: readonly Schema[];
  readonly #names: ReadonlySet<string>;
  readonly #properties = new Map<string | undefined, Place>();
  readonly #items = new Map<number, Place>();
  /** Elements after the longest tuple have one place. */
  readonly #tuple: number;

  constructor(places: Places, schemas: readonly Schema[], names: ReadonlySet<string>) {
    this.#places = places;
    this.#schemas = schemas;
    this.#names = names;
    this.#tuple = schemas.reduce((longest, schema) => Math.max(longest, tupleOf(schema).tuple.length), 0);
  }

  declares(name: string): boolean {
    return this.#names.has(name);
  }

  property(name: string): Place {
    // Properties that no schema declares have one place.
    const key = this.#names.has(name) ? name : undefined;
    const known = this.#properties.get(key) ?? this.#places.at(propertiesOf(this.#schemas, name));
    this.#properties.set(key, known);
    return known;
  }

  item(at: number): Place {
    const key = Math.min(at, this.#tuple);
    const known = this.#items.get(key) ?? this.#places.at(itemsOf(this.#schemas, key));
    this.#items.set(key, known);
    return known;
  }
}

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

/** Returns every name that the schema declares anywhere. */
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
