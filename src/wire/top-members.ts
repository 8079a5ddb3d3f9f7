/**
 * Reads single members at the top of a long JSON text without building the rest of it: whether a long message is read at all
 * depends on its method.
 *
 * Called by `jsonrpc.ts`. Pure.
 */
import { stringEnd } from './depth.ts';

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;

/** Longest member that is read, in characters of JSON. */
const MAX_CHARS = 1024;

/**
 * The members of these names of the object that `text` is, as JSON text; undefined for one that is missing, longer than 1 KiB,
 * or there more than once: two readers could take two of them. Undefined for all when a name at the top is escaped, or when
 * more than `most` characters stand outside of strings.
 */
export function topMembers(text: string, names: readonly string[], most: number): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  const twice = new Set<string>();
  let depth = 0;
  let outside = 0;
  /** Where the value of `key` starts. */
  let start = 0;
  let key: string | undefined;
  let keyComes = false;
  const ended = (at: number): void => {
    if (key === undefined || at - start > MAX_CHARS) return;
    if (Object.hasOwn(found, key)) twice.add(key);
    found[key] = text.slice(start, at).trim();
    key = undefined;
  };
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (++outside > most) return {};
    if (code === QUOTE) {
      const end = stringEnd(text, at + 1);
      if (end === -1) return {};
      if (keyComes && depth === 1) {
        const name = text.slice(at + 1, Math.min(end, at + 1 + MAX_CHARS));
        if (name.includes('\\')) return {};
        key = names.includes(name) ? name : undefined;
        keyComes = false;
      }
      at = end;
    } else if (code === COLON && depth === 1) start = at + 1;
    else if (code === COMMA && depth === 1) {
      ended(at);
      keyComes = true;
    } else if (code === 123 || code === 91) keyComes = ++depth === 1;
    else if ((code === 125 || code === 93) && --depth === 0) ended(at);
  }
  for (const name of twice) delete found[name];
  return found;
}
