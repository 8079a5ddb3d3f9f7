/**
 * Names of properties that a provider does not take: each gets another one in the schema that the provider is given, and arguments
 * are translated on the way out and back. Only names that the schema declares at their place are translated; the keys of free
 * objects are data.
 *
 * Used by `tool-schemas.ts`. Pure.
 */
import { isObject } from '../../../wire/json.ts';
import { jsonPointer } from './json-pointer.ts';

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
    this.#declared ??= namesIn(this.#root);
    const letters = name.replaceAll(/\W+/g, '_').replaceAll(/^_+|_+$/g, '');
    const stem = (/^[A-Za-z]/.test(letters) ? letters : `p_${letters}`).slice(0, MAX_GIVEN);
    let given = stem;
    for (let count = 2; this.#declared.has(given) || this.#own.has(given); count += 1) given = `${stem}_${count}`;
    this.#given.set(name, given);
    this.#own.set(given, name);
    return given;
  }

  /** Arguments with the names of the provider. */
  toProvider(input: Schema): Schema {
    return this.#translated(
      input,
      (name) => this.#given.get(name),
      (name) => name,
    );
  }

  /** Arguments with the names of the tool. */
  fromProvider(input: Schema): Schema {
    return this.#translated(
      input,
      (name) => this.#own.get(name),
      (_name, other) => other,
    );
  }

  /** @param declaredName of a name and its translation, the one that the schema has */
  #translated(
    input: Schema,
    other: (name: string) => string | undefined,
    declaredName: (name: string, other: string) => string,
  ): Schema {
    const walk = (value: unknown, schemas: readonly Schema[], depth: number): unknown => {
      if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return value;
      const all = this.#reached(schemas);
      if (Array.isArray(value)) return value.map((each, at) => walk(each, itemsOf(all, at), depth + 1));
      const members = Object.entries(value).map(([name, member]): [string, unknown] => {
        const translated = other(name);
        const isDeclared =
          translated !== undefined && propertiesOf(all, declaredName(name, translated), false).length > 0;
        const key = isDeclared ? translated : name;
        const own = isDeclared ? declaredName(name, translated) : name;
        return [key, walk(member, propertiesOf(all, own, true), depth + 1)];
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
      const further = [target, then, otherwise, anyOf, oneOf, allOf].flat();
      for (const each of [dependentSchemas, dependencies]) if (isObject(each)) further.push(...Object.values(each));
      for (const each of further) if (isObject(each)) found.add(each as Schema);
    }
    return [...found];
  }
}

function propertiesOf(schemas: readonly Schema[], name: string, orAny: boolean): readonly Schema[] {
  const found: Schema[] = [];
  for (const { properties, additionalProperties } of schemas) {
    if (isObject(properties) && Object.hasOwn(properties, name)) {
      const value = (properties as Schema)[name];
      found.push((isObject(value) ? value : {}) as Schema);
    } else if (orAny && isObject(additionalProperties)) found.push(additionalProperties as Schema);
  }
  return found;
}

function itemsOf(schemas: readonly Schema[], at: number): readonly Schema[] {
  return schemas.flatMap(({ items, prefixItems, additionalItems }) => {
    const tuple = Array.isArray(items) ? items : Array.isArray(prefixItems) ? prefixItems : [];
    const own = at < tuple.length ? tuple[at] : Array.isArray(items) ? additionalItems : items;
    return isObject(own) ? [own as Schema] : [];
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
