/**
 * A path or word in a text for people, so that its start and end are visible. Pure.
 */

/** Words that a shell reads as they are. */
const PLAIN_WORD = /^[\w@%+:,./-]+$/;

/** Characters that break a line even in quotes. */
const CONTROL = /\p{Cc}/u;

/**
 * Returns the word, in quotes if it needs them, as a shell reads it: line breaks and quotes in it cannot pretend to be
 * other text, and a command that is copied from a message runs no command that a folder's name contains.
 */
export function quoted(word: string): string {
  if (PLAIN_WORD.test(word)) return word;
  if (!CONTROL.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${word.replaceAll(/[\\']|\p{Cc}/gu, (character) => ESCAPES[character] ?? hex(character))}'`;
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '\n': '\\n', '\t': '\\t', '\r': '\\r' };

const hex = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
