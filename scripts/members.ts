/**
 * Builds the short forms of schemas (`src/protocol/member.ts`) that the readers of the fleet and of session RPC walk,
 * and the published forms, which have no notes.
 */
import { type Member, type Members, NOTE, type Note } from '../src/protocol/member.ts';

/** A JSON Schema as the generators look at it. */
export interface Schema {
  readonly [NOTE]?: Note;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly description?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly maxItems?: number;
  readonly minItems?: number;
  readonly pattern?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

/** Returns the schema in the form of JSON text: without TypeBox's hidden marks. */
export const plain = (schema: unknown): Schema => JSON.parse(JSON.stringify(schema));

/** Returns the schema in its published form: without notes. */
export const published = (schema: unknown): Schema =>
  JSON.parse(JSON.stringify(schema, (key, value) => (key === NOTE ? undefined : value)));

/** Returns the schema without the null that may occur in its place; undefined when it has none. */
export function withoutNull(schema: Schema): Schema | undefined {
  const others = schema.anyOf?.filter(({ type }) => type !== 'null');
  if (others?.length !== 1 || others.length === schema.anyOf?.length) return undefined;
  const [only] = others as [Schema];
  const description = schema.description ?? only.description;
  return { ...only, ...(description !== undefined && { description }), [NOTE]: { ...only[NOTE], ...schema[NOTE] } };
}

/** Returns the short form of a value. `required`: its schema requires the member. */
export function memberOf(stated: Schema, required: boolean): Member {
  const other = withoutNull(stated);
  const schema = other ?? stated;
  const own = schema[NOTE] ?? {};
  const needed = required && other === undefined && own.absent === undefined;
  const closed = schema.enum !== undefined && own.words === undefined;
  const [type = 'any'] = [schema.type ?? []].flat();
  return {
    as: closed ? 'word' : schema.enum !== undefined ? 'string' : type,
    ...own,
    ...(needed && { needed }),
    ...(closed && { oneOf: schema.enum?.filter((word) => typeof word === 'string') }),
    ...(schema.minimum !== undefined && { min: schema.minimum }),
    ...(schema.maximum !== undefined && { max: schema.maximum }),
    ...(schema.maxItems !== undefined && { max: schema.maxItems }),
    ...(schema.items !== undefined && { items: memberOf(schema.items, true) }),
    ...(schema.properties !== undefined && { members: membersOf(schema) }),
  };
}

/** Returns the short forms of the members of an object, except those that are read apart. */
export function membersOf(schema: Schema, apart: readonly string[] = []): Members {
  const entries = Object.entries(schema.properties ?? {}).filter(([name]) => !apart.includes(name));
  return Object.fromEntries(
    entries.map(([name, property]) => [name, memberOf(property, schema.required?.includes(name) ?? false)]),
  );
}
