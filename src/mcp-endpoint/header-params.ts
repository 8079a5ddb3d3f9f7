/**
 * Arguments of tools that clients of the stateless revision repeat in headers (`Mcp-Param-*`), so that intermediaries
 * can route a call without reading it: the arguments whose schema has `x-mcp-header`. Pure; the HTTP edge checks them.
 */
import { isObject } from '../wire/json.ts';

/** One argument that clients repeat in a header. */
export interface HeaderParam {
  /** Its path in the arguments. */
  readonly path: readonly string[];
  /** In lower case. */
  readonly header: string;
}

/** Deeper ones are not looked for. */
const MAX_DEPTH = 16;
const TYPES: readonly unknown[] = ['string', 'integer', 'boolean', 'number'];

/** Returns the header arguments of a schema, at any depth below `properties`. */
export function headerParamsOf(schema: unknown, path: readonly string[] = []): HeaderParam[] {
  if (!isObject(schema) || !isObject(schema.properties) || path.length >= MAX_DEPTH) return [];
  return Object.entries(schema.properties).flatMap(([name, inner]) => {
    const at = [...path, name];
    const below = headerParamsOf(inner, at);
    const { type, 'x-mcp-header': header } = isObject(inner) ? inner : {};
    if (typeof header !== 'string' || header === '' || !TYPES.includes(type)) return below;
    return [{ path: at, header: `mcp-param-${header.toLowerCase()}` }, ...below];
  });
}

/** Returns the argument in the form of its header; undefined if it has none. */
export function headerText({ path }: HeaderParam, args: unknown): string | undefined {
  let value = args;
  for (const name of path) value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}
