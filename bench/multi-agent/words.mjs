/** The small task of `bench:multi-agent`. */

/** How many words a text has. */
export const wordsIn = (text) => text.split(' ').length;
