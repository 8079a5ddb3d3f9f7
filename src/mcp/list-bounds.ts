/**
 * The bounds of a list of a server: a long list, or one long definition, would leave no space for lists of other
 * servers.
 */
import { fail } from '../wire/errors.ts';
import type { McpTool } from './definition.ts';

/** Most pages of a list, and most entries. */
export const MAX_PAGES = 64;
const MAX_ENTRIES = 2_000;
/** Bytes of one entry, and of all, as JSON: half of the default message limit of a host. */
const MAX_ENTRY_BYTES = 64 * 1024;
const MAX_BYTES = 512 * 1024;

/** Returns the entries. Throws `too_large`. */
export function bounded<T>(entries: readonly T[], what: string): readonly T[] {
  if (entries.length > MAX_ENTRIES) {
    throw fail('too_large', `the server has ${entries.length} ${what}, more than ${MAX_ENTRIES}`);
  }
  let all = 0;
  for (const entry of entries) {
    const bytes = Buffer.byteLength(JSON.stringify(entry));
    if (bytes > MAX_ENTRY_BYTES) {
      throw fail('too_large', `the server has ${what} of ${bytes} bytes, more than ${MAX_ENTRY_BYTES} each`);
    }
    all += bytes;
  }
  if (all > MAX_BYTES) throw fail('too_large', `the ${what} of the server have ${all} bytes, more than ${MAX_BYTES}`);
  return entries;
}

/**
 * Returns each tool once: a tool that is listed twice, as by pages that overlap, is one. A call could reach either of
 * two tools with one name, so different ones throw `schema_violation`.
 */
export function namedOnce(tools: readonly McpTool[]): readonly McpTool[] {
  const named = new Map<string, McpTool>();
  for (const tool of tools) {
    const { name } = tool;
    const other = named.get(name);
    if (other !== undefined && JSON.stringify(other) !== JSON.stringify(tool)) {
      throw fail('schema_violation', `the server lists two tools with the name ${JSON.stringify(name.slice(0, 64))}`);
    }
    named.set(name, tool);
  }
  return [...named.values()];
}
