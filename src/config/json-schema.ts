/**
 * JSON Schema of a configuration file, for editors and other programs, from the schema that the reader applies.
 *
 * `schema/*.json` come from it; programs with capability packages generate their own, with the added sections.
 */
import type { JsonSchema } from '../base/json-schema.ts';
import { mayBeLeftOut, type SettingSchema } from './setting.ts';
import { textFormat } from './text-formats.ts';

export function jsonSchema(title: string, schema: SettingSchema): JsonSchema {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', title, ...published(schema) };
}

function published(schema: SettingSchema): JsonSchema {
  const { type, description, default: fallback, items, minItems } = schema;
  const about = { ...(description && { description }), ...(fallback !== undefined && { default: fallback }) };
  if (type === 'array') {
    const item = published(items ?? {});
    // A single value stands for a list of one, and a key without a value for one that is left out.
    const isScalar = items?.type !== 'object' && items?.type !== 'array';
    const list = { type: 'array', items: item, ...(minItems && { minItems }), ...(isScalar && { uniqueItems: true }) };
    return { anyOf: [list, { type: 'null' }, item], ...about, ...examplesOf(schema) };
  }
  if (type !== 'object') return { ...scalar(schema), ...about, ...examplesOf(schema) };
  const object = { type: ['object', 'null'], ...about, ...membersOf(schema), ...rulesOf(schema) };
  return schema.short === undefined ? object : { anyOf: [{ type: 'string' }, { ...object, type: 'object' }] };
}

function scalar({ type, enum: words, pattern, minimum, maximum, format }: SettingSchema): JsonSchema {
  if (words !== undefined) return { enum: words };
  if (type !== 'string')
    return { type, ...(minimum !== undefined && { minimum }), ...(maximum !== undefined && { maximum }) };
  const rule = textFormat(format);
  if (rule !== undefined) return { type, ...(rule.known && { examples: [...rule.known] }) };
  return { type, ...(pattern === undefined ? { minLength: 1 } : { pattern }) };
}

/** Returns the examples: lines of a whole setting are for the template; a value is an example of the setting itself. */
const examplesOf = ({ example, type }: SettingSchema): JsonSchema =>
  typeof example === 'string' && type === 'string' ? { examples: [example] } : {};

function membersOf({ properties, required = [], additionalProperties, propertyNames }: SettingSchema): JsonSchema {
  if (properties !== undefined) {
    return {
      properties: Object.fromEntries(Object.entries(properties).map(([key, member]) => [key, published(member)])),
      required: required.filter((key) => !mayBeLeftOut(properties[key] ?? {})),
      additionalProperties: false,
    };
  }
  if (typeof additionalProperties !== 'object') return {};
  return {
    ...(propertyNames && { propertyNames: { pattern: propertyNames.pattern } }),
    additionalProperties: published(additionalProperties),
  };
}

/** Returns the rules about members that occur together, in keywords of JSON Schema. */
function rulesOf({ variants, needsOne, notBoth, either, together }: SettingSchema): JsonSchema {
  // A key without a value counts as left out, so null passes.
  const requires = (keys: readonly string[]) => [
    ...keys.map((key) => ({ type: 'object', required: [key] })),
    { type: 'null' },
  ];
  return {
    ...(needsOne && { anyOf: requires(needsOne) }),
    ...(either && { oneOf: requires(either) }),
    ...(notBoth && { not: { type: 'object', required: notBoth } }),
    ...(together && { dependentRequired: { [together[0]]: [together[1]], [together[1]]: [together[0]] } }),
    ...(variants && {
      allOf: Object.entries(variants.of).map(([word, schema]) => ({
        if: { properties: { [variants.by]: { const: word } }, required: [variants.by] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { properties: { [variants.member]: published(schema) } },
      })),
    }),
  };
}
