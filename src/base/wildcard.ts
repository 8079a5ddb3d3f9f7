/**
 * Patterns in which `*` stands for any characters: names in grants, arguments of programs. Pure.
 *
 * The matched texts come from peers.
 */

const ANY_MORE = '**';

/** Returns true if words match patterns, one for each; a last `**` matches any further words. */
export function fitsWords(patterns: readonly string[], words: readonly string[]): boolean {
  const isOpen = patterns.at(-1) === ANY_MORE;
  const exact = isOpen ? patterns.slice(0, -1) : patterns;
  if (isOpen ? words.length < exact.length : words.length !== exact.length) return false;
  return exact.every((pattern, at) => fitsWildcard(pattern, words[at] as string));
}

/** A rule about a program: patterns of its words, and of the variables that may be set for it. */
export interface CommandRule {
  readonly words: readonly string[];
  /** Returns true for a variable with this value. */
  sets(name: string, value: string): boolean;
}

/** Reads a rule: patterns with spaces between, in front of them `NAME=pattern` for each variable. */
export function commandRule(text: string): CommandRule {
  const all = text.trim().split(/\s+/);
  const first = all.findIndex((word) => !/^[A-Za-z_]\w*=/.test(word));
  const words = first === -1 ? [] : all.slice(first);
  const variables = all.slice(0, all.length - words.length).map((word) => word.split(/=(.*)/s, 2));
  const sets = (wanted: string, value: string): boolean =>
    variables.some(([name, pattern = '']) => name === wanted && fitsWildcard(pattern, value));
  return { words, sets };
}

/** Returns true if a text matches a pattern. Each part of the pattern is searched once, so no text is slow. */
export function fitsWildcard(pattern: string, text: string): boolean {
  const [first = '', ...parts] = pattern.split('*');
  const last = parts.pop();
  if (last === undefined) return text === pattern;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
