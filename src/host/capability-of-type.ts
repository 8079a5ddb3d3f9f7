/** Which capability a request type belongs to, for types that no loaded plugin serves. Used by `host.ts` for its errors. */

/** The capability a request type belongs to by its prefix, for types no loaded plugin serves. */
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
