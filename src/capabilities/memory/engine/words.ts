/**
 * Converts text to its searched form: one folded form, and the words of it. Entries and queries use one conversion, so a query
 * is literal text and has no syntax.
 *
 * A change of its results needs new indexes: a migration of `database.ts` that fills the table `unfolded`.
 */
import { folded } from '../../../base/fold-text.ts';

/** Longest word, in UTF-16 units; only a literal part finds the rest of a longer one. */
const MAX_WORD = 64;

/** Scripts that write without spaces: pairs of characters find their words. */
const UNSPACED =
  '\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}\\p{sc=Bopomofo}';
const pieces = new RegExp(
  `(?<run>[${UNSPACED}ー々〆]+)|(?<word>(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}_])+)|(?<sign>\\p{Emoji_Presentation}|\\p{Extended_Pictographic})`,
  'gu',
);
const openingMarks = /^[\p{Ps}\p{Pi}"'`¿¡]+/u;
const closingMark = /^[\p{Pe}\p{Pf}"'`.,;:!?…。、！？]$/u;

/**
 * Removes the brackets and marks around a piece between spaces. In steps of one: a search for the end of a long run would start
 * again at each character of it.
 */
function withoutMarks(chunk: string): string {
  const text = chunk.replace(openingMarks, '');
  let end = text.length;
  while (end > 0 && closingMark.test(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}

/** Returns the folded form, with control characters and runs of white space as one space. */
export function fold(text: string): string {
  return folded(text)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim();
}

/**
 * Returns the words of a folded text, in order and with repeats: letters and digits, pairs and single characters of scripts
 * without spaces, emoji, and pieces between spaces that have other signs (`c++`, `foo:bar`, `it's`, `-x`).
 * @param query true for a search: single characters of a longer run are left out, since its pairs say more
 */
export function wordsOf(folded: string, query = false): string[] {
  const words: string[] = [];
  for (const chunk of folded.split(' ')) {
    if (chunk === '') continue;
    const before = words.length;
    for (const { groups } of chunk.matchAll(pieces)) {
      const { run, word, sign } = groups as { run?: string; word?: string; sign?: string };
      if (run !== undefined) addRun(words, run, query);
      else words.push((word ?? (sign as string)).slice(0, MAX_WORD));
    }
    const whole = withoutMarks(chunk) || chunk;
    if (whole.length <= MAX_WORD && !(words.length === before + 1 && words[before] === whole) && !isRuns(whole)) {
      words.push(whole);
    }
  }
  return words;
}

const runOnly = new RegExp(`^[${UNSPACED}ー々〆]+$`, 'u');
const isRuns = (whole: string): boolean => runOnly.test(whole);

function addRun(words: string[], run: string, query: boolean): void {
  const characters = [...run];
  if (characters.length === 1 || !query) for (const character of characters) words.push(character);
  for (let at = 1; at < characters.length; at += 1) words.push(`${characters[at - 1]}${characters[at]}`);
}

/** Returns the searched text of an entry: names and values of its key, its content and its tags, in order. */
export function textOf(key: unknown, content: unknown, tags: readonly string[]): string {
  const parts: string[] = [];
  // The content comes first: the vector of a long entry is made of its beginning.
  collect(content, parts);
  collect(key, parts);
  parts.push(...tags);
  return parts.join('\n');
}

function collect(value: unknown, parts: string[]): void {
  if (value === null || value === undefined) return;
  if (typeof value !== 'object') {
    parts.push(String(value));
    return;
  }
  if (Array.isArray(value)) {
    for (const item of value) collect(item, parts);
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    parts.push(name);
    collect(member, parts);
  }
}
