/**
 * The capability of a request type, for types that no loaded plugin serves.
 */

/** Returns the capability of a request type by its prefix, for types that no loaded plugin serves. */
export function capabilityOfType(type: string): string | undefined {
  if (type.startsWith('SUBAGENT_')) return type.endsWith('_REQ') ? 'multi_agent' : undefined;
  if (/\/(resp|event|push)$/.test(type)) return undefined;
  return prefixes.get(type.slice(0, type.indexOf('/') + 1));
}

const prefixes: ReadonlyMap<string, string> = new Map([
  ['tool/', 'tools'],
  ['toolkit/', 'toolkits'],
  ['skill/', 'skill'],
  ['env/', 'env'],
  ['proc/', 'proc'],
  ['memory/', 'memory'],
  ['learn/', 'learning'],
  ['chain/', 'chains'],
  ['mcp/', 'mcp'],
  ['multi_agent/', 'multi_agent'],
  ['planning/', 'planning'],
]);
