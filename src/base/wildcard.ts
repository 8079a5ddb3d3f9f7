/**
 * Patterns in which `*` stands for any characters: names in grants, arguments of programs. Pure.
 *
 * Called by `session/rights.ts`, `capabilities/mcp/rights.ts` and `capabilities/proc/programs.ts`, with texts that a peer sends.
 */

const ANY_MORE = '**';

/** True where words fit patterns, one for each; a last `**` fits any further words. */
export function fitsWords(patterns: readonly string[], words: readonly string[]): boolean {
  const isOpen = patterns.at(-1) === ANY_MORE;
  const exact = isOpen ? patterns.slice(0, -1) : patterns;
  if (isOpen ? words.length < exact.length : words.length !== exact.length) return false;
  return exact.every((pattern, at) => fitsWildcard(pattern, words[at] as string));
}

/** True where a text fits a pattern. Each part of the pattern is looked for once, so no text is slow. */
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
