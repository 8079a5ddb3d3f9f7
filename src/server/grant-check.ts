/**
 * Checks the grants within capabilities by the schemas of their plugins. A member that no plugin knows would be ignored, and
 * the principal would have more rights than its configuration names. Grants are checked at the start of a host, before rights
 * are reloaded and before a worker lends grants; `handfast config check` and `handfast fleet check` start no plugin.
 */
import { type JsonSchema, JsonSchemas } from '../base/json-schema.ts';
import { builtinCapability } from '../capabilities/index.ts';
import type { CapabilityGrants, ConfigProblem, HostConfig, PluginConfig } from '../config/config.ts';
import { meant } from '../config/reader.ts';
import { closedGrant } from '../host/grant-schema.ts';
import type { Plugin } from '../host/plugin.ts';
import { capabilityNames, capabilityOf } from '../protocol/a2e.ts';
import { UNKNOWN_MEMBER } from '../wire/check.ts';
import { shown } from '../wire/codec.ts';
import { asError, fail } from '../wire/errors.ts';
import { keysOf } from '../wire/findings.ts';
import { isObject } from '../wire/json.ts';

type Problem = Pick<ConfigProblem, 'path' | 'message'>;

/**
 * The schemas of the plugins that serve a capability. `absent`: no plugin serves it; `later`: a plugin that is not loaded may.
 */
type Schemas = (capability: string) => readonly JsonSchema[] | 'absent' | 'later';

/** Maximum number of problems that are reported of one grant. */
const MAX_PROBLEMS = 8;

/**
 * Fails with `config_invalid`, with the place of every member that does not fit.
 * @param plugins the loaded plugins. Left out: only grants of built-in plugins are checked, because no module is loaded.
 */
export async function checkGrants(config: HostConfig, plugins?: readonly Plugin[]): Promise<void> {
  const { auth, plugins: configured } = config;
  const found = grantProblems(auth.capabilityGrants, plugins === undefined ? unloaded(configured) : loaded(plugins));
  if (found.length === 0) return;
  // Grants come from a file, whose reader is loaded by then; a server without one loads none.
  const { configRefusal } = await import('../config/config.ts');
  throw configRefusal(config, found);
}

/** Checks the grants that a worker lends to its tasks. Fails with `config_invalid`. */
export function checkLentGrants(
  path: string,
  grants: CapabilityGrants['grants'] | undefined,
  plugins: readonly PluginConfig[],
): void {
  const found = grants === undefined ? [] : grantProblems([{ path, grants }], unloaded(plugins));
  if (found.length === 0) return;
  throw fail('config_invalid', found.map((problem) => `at ${problem.path}: ${problem.message}`).join('\n'));
}

const grantOf = (type: string): JsonSchema | undefined => builtinCapability(type)?.offer?.({})?.grant;

/** Checks a capability of the protocol also where the configuration leaves its plugin out. */
const ofBuiltin = (capability: string): ReturnType<Schemas> =>
  builtinCapability(capability) === undefined ? 'absent' : schemaList(grantOf(capability));

const schemaList = (schema: JsonSchema | undefined): JsonSchema[] => (schema === undefined ? [] : [schema]);

const loaded =
  (plugins: readonly Plugin[]): Schemas =>
  (capability) => {
    const serving = plugins.filter(({ type }) => type === capability);
    return serving.length === 0 ? ofBuiltin(capability) : serving.flatMap(({ grant }) => schemaList(grant));
  };

const unloaded =
  (plugins: readonly PluginConfig[]): Schemas =>
  (capability) => {
    if (plugins.every(({ builtin }) => builtin)) return ofBuiltin(capability);
    const schema = plugins.some(({ use, builtin }) => builtin && use === capability) ? grantOf(capability) : undefined;
    return schema === undefined ? 'later' : [schema];
  };

function grantProblems(granted: readonly CapabilityGrants[], schemas: Schemas): Problem[] {
  return granted.flatMap(({ path, grants }) => {
    const seen = new Map<string, string>();
    return Object.entries(grants).flatMap(([name, grant]) => {
      const at = `${path}.${name}`;
      const capability = capabilityOf(name) ?? name;
      const other = seen.get(capability);
      seen.set(capability, name);
      if (other !== undefined) {
        return [{ path: at, message: `expected each capability once, got ${shown(name)} beside ${shown(other)}` }];
      }
      return [...problemsOf(capability, grant, { path, at, schemas }), ...delegated(grant, at, schemas)];
    });
  });
}

function problemsOf(
  capability: string,
  grant: unknown,
  { path, at, schemas }: { readonly path: string; readonly at: string; readonly schemas: Schemas },
): Problem[] {
  const known = schemas(capability);
  if (known === 'later') return [];
  if (known === 'absent') {
    const message = `expected a capability of the protocol or of a loaded plugin, got ${shown(capability)}`;
    return [{ path: at, message: `${message}${meant(capability, capabilityNames)}` }];
  }
  if (known.length > 0) return known.flatMap((schema) => misfits(schema, grant, at));
  if (isObject(grant) && Object.keys(grant).length === 0) return [];
  const elsewhere =
    capability === 'tools'
      ? `; rules about tools stand in ${path.replace(/grants$/, 'tools')}: allow, deny, deny_risks, risks`
      : '';
  return [{ path: at, message: `expected {}, because this capability has no rights within it${elsewhere}` }];
}

/** Checks grants that are delegated to subagents: they have the form of a principal's grants. */
function delegated(grant: unknown, at: string, schemas: Schemas): Problem[] {
  const delegate = isObject(grant) ? grant.delegate : undefined;
  const grants = isObject(delegate) ? delegate.grants : undefined;
  return isObject(grants) ? grantProblems([{ path: `${at}.delegate.grants`, grants }], schemas) : [];
}

/** Returns the places where a grant does not fit a schema: each unknown member, then the first value that is wrong. */
function misfits(schema: JsonSchema, given: unknown, at: string): Problem[] {
  const check = new JsonSchemas(false).compileNow(closedGrant(schema), 'grant');
  const grant = structuredClone(given);
  const found: Problem[] = [];
  while (found.length < MAX_PROBLEMS) {
    const issue = firstIssue(() => check(grant));
    if (issue === undefined) break;
    const keys = keysOf(issue.path);
    const path = keys.reduce((place, key) => `${place}${/^\d+$/.test(key) ? `[${key}]` : `.${key}`}`, at);
    const member = keys.at(-1);
    const owner = valueAt(grant, keys.slice(0, -1));
    if (issue.message !== UNKNOWN_MEMBER || member === undefined || !isObject(owner) || !Object.hasOwn(owner, member)) {
      found.push({ path, message: issue.message });
      break;
    }
    const names = membersAt(schema, keys.slice(0, -1));
    const expected = names.length === 0 ? 'expected no members' : `expected one of ${names.join(', ')}`;
    found.push({ path, message: `${expected}, got ${shown(member)}${meant(member, names)}` });
    delete owner[member];
  }
  return found;
}

function firstIssue(check: () => unknown): Problem | undefined {
  try {
    check();
    return undefined;
  } catch (thrown) {
    const { detail, message } = asError(thrown);
    const [first] = (detail.errors ?? []) as Problem[];
    return first ?? { path: '', message };
  }
}

const valueAt = (value: unknown, keys: readonly string[]): unknown =>
  keys.reduce<unknown>((owner, key) => (owner as Record<string, unknown> | undefined)?.[key], value);

/** Returns the members that a schema names at a place. */
function membersAt(schema: JsonSchema, keys: readonly string[]): string[] {
  let at: unknown = schema;
  for (const key of keys) {
    const { properties, items } = (isObject(at) ? at : {}) as { properties?: unknown; items?: unknown };
    at = isObject(properties) && Object.hasOwn(properties, key) ? properties[key] : items;
  }
  const properties = isObject(at) ? at.properties : undefined;
  return isObject(properties) ? Object.keys(properties) : [];
}
