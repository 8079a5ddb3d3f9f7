/**
 * The schema by which grants within a capability are checked. An ignored member would widen a grant, so objects have
 * only the members that their schema names. Pure.
 */
import type { JsonSchema } from '../base/json-schema.ts';
import { isObject } from '../wire/json.ts';

/** The schema for a capability whose plugins have none. */
export const NO_MEMBERS: JsonSchema = { type: 'object', additionalProperties: false };

/** Keywords by which a schema decides itself about further members. */
const DECIDES = [
  'additionalProperties',
  'unevaluatedProperties',
  'patternProperties',
  'allOf',
  'anyOf',
  'oneOf',
  '$ref',
];

/** Returns the schema of a plugin, with every object closed that names its members, unless the schema says otherwise. */
export function closedGrant(schema: JsonSchema): JsonSchema {
  const { properties, items } = schema;
  const closed: Record<string, unknown> = { ...schema };
  if (isObject(items)) closed.items = closedGrant(items);
  if (!isObject(properties)) return closed;
  closed.properties = Object.fromEntries(
    Object.entries(properties).map(([name, member]) => [name, isObject(member) ? closedGrant(member) : member]),
  );
  if (!DECIDES.some((keyword) => Object.hasOwn(schema, keyword))) closed.additionalProperties = false;
  return closed;
}
