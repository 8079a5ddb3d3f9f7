/** What a list of a server may be: a long one, or one long definition, would leave no room for those of others. Used by `connection.ts`. */
import { fail } from '../wire/errors.ts';
import type { McpTool } from './definition.ts';

/** Most pages of a list, and most entries. */
export const MAX_PAGES = 64;
const MAX_ENTRIES = 2_000;
/** Bytes of one entry, and of all, as JSON: half of what a message of a host has by default. */
const MAX_ENTRY_BYTES = 64 * 1024;
const MAX_BYTES = 512 * 1024;

/** The entries. Throws `too_large`. */
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

/** A call could reach either of two tools of one name. A tool that is there twice, as pages that overlap have it, is one. Throws `schema_violation`. */
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
