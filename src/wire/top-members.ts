/**
 * Reads single members at the top of a long JSON text without building the rest of it, and counts its values and levels on the
 * way: whether a long message is built at all depends on its method. One pass.
 *
 * Pure.
 */
import { isCounted, stringEnd } from './depth.ts';

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;

/** Longest member that is read, in characters of JSON. */
const MAX_CHARS = 1024;

export interface Top {
  /**
   * The wanted members as JSON text; without one that is missing, longer than 1 KiB, or there more than once: two readers could
   * take two of them.
   */
  readonly members: Readonly<Record<string, string>>;
  /** As `depth.ts` counts them. */
  readonly values: number;
  /** Nesting of objects and arrays. */
  readonly levels: number;
}

const NOTHING: Top = { members: {}, values: 0, levels: 0 };

/**
 * Returns the top of the object that `text` is. Without members when a name at the top is escaped, when a string does
 * not end, or when more than `most` characters are outside of strings.
 */
export function topOf(text: string, names: readonly string[], most: number): Top {
  const members: Record<string, string> = {};
  const seen = new Set<string>();
  const twice = new Set<string>();
  let [depth, levels, values, outside] = [0, 0, 0, 0];
  /** Start of the value of `key`. */
  let start = 0;
  let key: string | undefined;
  let keyComes = false;
  const ended = (at: number): void => {
    if (key === undefined) return;
    if (seen.has(key)) twice.add(key);
    seen.add(key);
    if (at - start <= MAX_CHARS) members[key] = text.slice(start, at).trim();
    key = undefined;
  };
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (++outside > most) return NOTHING;
    if (code === QUOTE) {
      const end = stringEnd(text, at + 1);
      if (end === -1) return NOTHING;
      if (keyComes && depth === 1) {
        const name = text.slice(at + 1, Math.min(end, at + 1 + MAX_CHARS));
        if (name.includes('\\')) return NOTHING;
        key = names.includes(name) ? name : undefined;
        keyComes = false;
      }
      at = end;
      continue;
    }
    if (isCounted(code)) values++;
    if (code === COLON && depth === 1) start = at + 1;
    else if (code === COMMA && depth === 1) {
      ended(at);
      keyComes = true;
    } else if (code === 123 || code === 91) {
      keyComes = ++depth === 1;
      if (depth > levels) levels = depth;
    } else if ((code === 125 || code === 93) && --depth === 0) ended(at);
  }
  for (const name of twice) delete members[name];
  return { members, values, levels };
}
