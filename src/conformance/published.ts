/**
 * The published JSON Schemas of the package as checks of single messages.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { lazyCheck } from '../base/json-schema.ts';
import { type Check, issuePath, issueText } from '../wire/check.ts';

/** The folder of the package: the same distance from `src/conformance/` and from `dist/conformance/`. */
const packageFolder = new URL('../../', import.meta.url);

/** Returns the path of a file that comes with the package. */
export const packageFile = (path: string): string => fileURLToPath(new URL(path, packageFolder));

interface Definition {
  readonly properties?: Readonly<Record<string, { readonly const?: unknown }>>;
}

/** Returns the definitions of one published schema, by their names. */
function definitionsOf(name: string): Readonly<Record<string, Definition>> {
  const text = readFileSync(packageFile(`schema/${name}.json`), 'utf8');
  return (JSON.parse(text) as { $defs?: Record<string, Definition> }).$defs ?? {};
}

/** Returns the checks of all messages that have a published schema, by the constant of their member `type`. */
export function checksByType(): ReadonlyMap<string, Check> {
  const checks = new Map<string, Check>();
  for (const file of readdirSync(packageFile('schema'))) {
    const name = file.replace(/\.json$/, '');
    const definitions = definitionsOf(name);
    for (const definition of Object.values(definitions)) {
      const type = definition.properties?.type?.const;
      // Definitions may refer to others of their file.
      if (typeof type === 'string') checks.set(type, lazyCheck({ ...definition, $defs: definitions }));
    }
  }
  return checks;
}

/**
 * Returns the check of one definition of a published schema that accepts a missing addition of this library: present
 * members must have their type, and none is required.
 */
export function looseCheckOf(name: string, definition: string): Check | undefined {
  const definitions = withoutRequired(definitionsOf(name)) as Readonly<Record<string, Definition>>;
  const found = definitions[definition];
  return found && lazyCheck({ ...found, $defs: definitions });
}

/** Returns a schema without its lists of required members. */
function withoutRequired(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutRequired);
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(([name, value]) => name !== 'required' || !Array.isArray(value));
  return Object.fromEntries(kept.map(([name, value]) => [name, withoutRequired(value)]));
}

/** Returns the problem of a value, in one line; undefined if it matches, or no schema is published for it. */
export function problemOf(check: Check | undefined, value: unknown): string | undefined {
  if (check === undefined || check(value)) return undefined;
  const [first] = check.errors ?? [];
  return first === undefined ? 'does not fit its schema' : `${issuePath(first) || 'the message'} ${issueText(first)}`;
}
