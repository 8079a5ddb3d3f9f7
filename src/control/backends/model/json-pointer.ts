/** Pointers within a schema: `/$defs/A` (RFC 6901, also percent-encoded) and the names that `$anchor` and `$id` give. Pure. */
import { isObject } from '../../../wire/json.ts';

/** Parts of a document that are searched for a name. */
const MAX_SEARCHED = 10_000;

/** The value at a pointer; undefined: there is none. @param finish applied to the value that is found */
export function jsonPointer(document: unknown, pointer: string, finish = (found: unknown): unknown => found): unknown {
  if (pointer !== '' && !pointer.startsWith('/')) return finish(anchored(document, pointer));
  let found = document;
  for (const encoded of pointer.split('/').slice(1)) {
    const name = decoded(encoded).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[name];
  }
  return finish(found);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function anchored(document: unknown, name: string): unknown {
  const open: unknown[] = [document];
  for (let searched = 0; open.length > 0 && searched < MAX_SEARCHED; searched += 1) {
    const value = open.shift();
    if (typeof value !== 'object' || value === null) continue;
    if (isObject(value)) {
      const { $anchor, $dynamicAnchor, $id, id } = value as Readonly<Record<string, unknown>>;
      if ($anchor === name || $dynamicAnchor === name || $id === `#${name}` || id === `#${name}`) return value;
    }
    open.push(...Object.values(value));
  }
  return undefined;
}
