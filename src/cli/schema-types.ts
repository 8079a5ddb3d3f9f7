/**
 * The types a JSON Schema allows at its top, for values that come as text. Pure.
 */

import type { JsonSchema } from '../base/json-schema.ts';

export type { JsonSchema };

/** Returns type words in the order the schema has them; none when it names none. */
export function schemaTypes(schema: JsonSchema): string[] {
  const own = [schema.type].flat().filter((type): type is string => typeof type === 'string');
  if (own.length > 0) return own;
  for (const key of ['anyOf', 'oneOf']) {
    const choices = schema[key];
    if (Array.isArray(choices)) return [...new Set(choices.flatMap((choice) => schemaTypes(choice as JsonSchema)))];
  }
  const constants = Array.isArray(schema.enum) ? schema.enum : 'const' in schema ? [schema.const] : [];
  return [
    ...new Set(constants.map((value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value))),
  ];
}
