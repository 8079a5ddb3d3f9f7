/** A path or word in a text for people, so that they can tell where it begins and ends. Used by everything in `trust/`; pure. */

/** Words that a shell reads as they are. */
const PLAIN_WORD = /^[\w@%+:,./-]+$/;

/** The word, in quotes where it needs them: line breaks and quotes in it cannot pretend to be something else. */
export const quoted = (word: string): string => (PLAIN_WORD.test(word) ? word : JSON.stringify(word));
