/** A path or word in a text for people, so that they can tell where it begins and ends. Used by everything in `trust/`; pure. */

/** Words that a shell reads as they are. */
const PLAIN_WORD = /^[\w@%+:,./-]+$/;

/** Characters that no quotes keep on their line. */
const CONTROL = /\p{Cc}/u;

/**
 * The word, in quotes where it needs them, as a shell reads it: line breaks and quotes in it cannot pretend to be something
 * else, and a command that is copied from a message runs nothing that a folder's name says.
 */
export function quoted(word: string): string {
  if (PLAIN_WORD.test(word)) return word;
  if (!CONTROL.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${word.replaceAll(/[\\']|\p{Cc}/gu, (character) => ESCAPES[character] ?? hex(character))}'`;
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '\n': '\\n', '\t': '\\t', '\r': '\\r' };

const hex = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
