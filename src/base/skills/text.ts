/**
 * Parses a skill's text, and the names of skills in a prompt. Pure.
 *
 * @see docs/protocol/session-rpc.md#skills
 */
import { folded } from '../fold-text.ts';
import { trimmedEnd } from '../trim-end.ts';

/** The description of a skill without prose. */
const NO_DESCRIPTION = 'no description provided';
const PREVIEW_WORDS = 8;

/**
 * Returns a skill's description: that of its front matter, else its first paragraph that is more than headings and
 * fences, as plain words on one line.
 */
export function descriptionOf(text: string): string {
  const { front, body } = parted(text);
  const given = front === undefined ? undefined : describedIn(front);
  if (given !== undefined) return given;
  let fenced = false;
  let paragraph: string[] = [];
  for (const line of [...body.split(/\r\n|\r|\n/), '']) {
    const trimmed = line.trim();
    if (/^(?:```|~~~)/.test(trimmed)) fenced = !fenced;
    else if (trimmed === '') {
      if (paragraph.length > 0) break;
    } else if (!fenced && !/^#{1,6}(?:\s|$)/.test(trimmed)) paragraph.push(plain(trimmed));
  }
  paragraph = paragraph.filter((line) => line !== '');
  return paragraph.length === 0 ? NO_DESCRIPTION : paragraph.join(' ').replace(/\s+/g, ' ');
}

/** Returns the first words of a description, with `...` if it has more. */
export function previewOf(description: string): string {
  const words = description.split(/\s+/);
  return words.length <= PREVIEW_WORDS ? description : `${words.slice(0, PREVIEW_WORDS).join(' ')}...`;
}

/** Returns the skill's text without its front matter: the part that a model gets. */
export function bodyOf(text: string): string {
  return parted(text).body.trim();
}

/**
 * Returns the names that a prompt gives with `$`, folded, in their order, each once. Numbers alone are amounts of
 * money, and punctuation at the end belongs to the sentence.
 */
export function skillNamesIn(prompt: string): string[] {
  const names = [...prompt.matchAll(/\$([\p{L}\p{N}][\p{L}\p{M}\p{N}_.:-]*)/gu)]
    .map(([, name = '']) => folded(trimmedEnd(name, '._:-')))
    .filter((name) => name !== '' && !/^\p{N}+$/u.test(name));
  return [...new Set(names)];
}

/** Splits a text into front matter and body; without front matter, the text is the body. */
export function parted(text: string): { front?: string; body: string } {
  const clean = text.replace(/^\ufeff/, '');
  const found = /^---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/.exec(clean);
  return found === null ? { body: clean } : { front: found[1] ?? '', body: clean.slice(found[0].length) };
}

/**
 * Returns the `description:` of a front matter: on its line, quoted or not, or folded over the indented lines that
 * follow.
 */
function describedIn(front: string): string | undefined {
  const lines = front.split(/\r?\n/);
  const at = lines.findIndex((line) => /^description:/.test(line));
  if (at < 0) return undefined;
  let value = (lines[at] as string).slice('description:'.length).trim();
  if (/^[>|][+-]?$/.test(value)) value = '';
  for (const line of lines.slice(at + 1)) {
    if (!/^\s+\S/.test(line)) break;
    value += ` ${line.trim()}`;
  }
  const quoted = /^\s*(["'])([\s\S]*)\1\s*$/.exec(value);
  const words = (quoted?.[2] ?? value).replace(/\s+/g, ' ').trim();
  return words === '' ? undefined : words;
}

/** Returns a line without list mark, emphasis and code marks. */
function plain(line: string): string {
  return line
    .replace(/^(?:[-*+]|\d+[.)])\s+/, '')
    .replaceAll('**', '')
    .replaceAll('__', '')
    .replaceAll('`', '')
    .trim();
}
