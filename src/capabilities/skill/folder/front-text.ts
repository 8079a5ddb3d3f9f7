/**
 * Finds texts of a front matter that YAML reads otherwise than their author: as a comment from a `#` on, as a map behind a `:
 * `, as a list, a number, an alias. Advises how to quote them. Pure.
 */

/** A value as written in the front matter. */
interface Written {
  readonly key: string;
  /** Its lines joined to one. */
  readonly text: string;
}

/** Longest text that advice repeats, in characters. */
const MAX_SHOWN = 200;

/** The keys whose values are prose. */
const PROSE = ['description', 'when_to_use', 'argument_hint', 'category'] as const;

/** Returns the value at a line, from 1, or of a key; undefined if it is not a text on the line of its key. */
function writtenAt(front: string, at: number | string): Written | undefined {
  const lines = front.split(/\r?\n/);
  const isOf = (line: string, key: string): boolean => line.startsWith(`${key}:`);
  let first = typeof at === 'number' ? at - 1 : lines.findIndex((line) => isOf(line, at));
  // A value may have further lines below its key.
  while (first > 0 && /^\s+\S/.test(lines[first] ?? '')) first -= 1;
  const [, key = '', begin = ''] = /^([\w-]+):[ \t]*(.*)$/.exec(lines[first] ?? '') ?? [];
  if (!PROSE.some((one) => one === key) || begin === '') return undefined;
  const more = lines.slice(first + 1);
  const end = more.findIndex((line) => !/^\s+\S/.test(line));
  return { key, text: [begin, ...more.slice(0, end < 0 ? more.length : end)].map((line) => line.trim()).join(' ') };
}

const inQuotes = ({ key, text }: Written): string =>
  text.length > MAX_SHOWN ? `${key}: "…"` : `${key}: ${JSON.stringify(text)}`;

/** Returns advice to quote the text at a line, from 1, or of a key; empty if the value is not a text. */
export function quotingAdvice(front: string, at: number | string): string {
  const written = writtenAt(front, at);
  return written === undefined ? '' : `; write the text in quotes: ${inQuotes(written)}`;
}

/** Returns a problem for each text that YAML cut: the omitted part, and the quoted form. */
export function cutTexts(front: string, fields: Readonly<Record<string, unknown>>): string[] {
  return PROSE.flatMap((key) => {
    const written = writtenAt(front, key);
    const value = fields[key];
    // Quoted texts and blocks are whole.
    if (written === undefined || typeof value !== 'string' || /^(?:["']|[|>][\d+-]*(?:\s|$))/.test(written.text))
      return [];
    const [whole, read] = [written.text, value].map((text) => text.replace(/\s+/g, ' ').trim()) as [string, string];
    if (whole === read) return [];
    const rest = whole.startsWith(read) ? whole.slice(read.length).trim() : whole;
    const why = rest.startsWith('#') ? 'YAML reads a comment from there on' : 'YAML reads its own signs there';
    return [`${key} is cut at ${JSON.stringify(rest.slice(0, 40))}: ${why}; to keep it write ${inQuotes(written)}`];
  });
}
