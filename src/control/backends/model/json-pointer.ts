/** Pointers within a schema: `/$defs/A` (RFC 6901, also percent-encoded) and the names that `$anchor` and `$id` give. Pure. */
import { keyOf } from '../../../wire/findings.ts';
import { isObject } from '../../../wire/json.ts';

/** Parts of a document that are searched for names. */
const MAX_SEARCHED = 10_000;

/** The parts that were looked up in each document: references of strangers repeat one in thousands of places. */
const parts = new WeakMap<object, Map<string, unknown>>();
/** The named parts of each document, found in one search. */
const anchors = new WeakMap<object, ReadonlyMap<unknown, unknown>>();

/** Returns the value at a pointer; undefined where the document has none. The document must not change. */
export function jsonPointer(document: object, pointer: string): unknown {
  const known = parts.get(document) ?? new Map<string, unknown>();
  parts.set(document, known);
  if (!known.has(pointer)) known.set(pointer, partAt(document, pointer));
  return known.get(pointer);
}

function partAt(document: object, pointer: string): unknown {
  if (pointer !== '' && !pointer.startsWith('/')) return anchored(document, pointer);
  let found: unknown = document;
  for (const encoded of pointer.split('/').slice(1)) {
    const name = keyOf(decoded(encoded));
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[name];
  }
  return found;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function anchored(document: object, name: string): unknown {
  let known = anchors.get(document);
  if (known === undefined) {
    known = anchorsIn(document);
    anchors.set(document, known);
  }
  return known.get(name);
}

/** Returns the parts of a document by their names; of several with one name, the first on the highest level. */
function anchorsIn(document: object): ReadonlyMap<unknown, unknown> {
  const found = new Map<unknown, unknown>();
  const open: object[] = [document];
  for (const part of open) {
    if (isObject(part)) {
      const { $anchor, $dynamicAnchor, $id, id } = part;
      for (const name of [$anchor, $dynamicAnchor, fragmentOf($id), fragmentOf(id)]) {
        if (name !== undefined && !found.has(name)) found.set(name, part);
      }
    }
    for (const member of Object.values(part)) {
      if (open.length === MAX_SEARCHED) break;
      if (typeof member === 'object' && member !== null) open.push(member);
    }
  }
  return found;
}

/** Returns the name in an id of an earlier draft: `#name`. */
const fragmentOf = (id: unknown): string | undefined =>
  typeof id === 'string' && id.startsWith('#') ? id.slice(1) : undefined;
