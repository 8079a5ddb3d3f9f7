/** How many words a text has. */
export function wordsIn(text: string): number;
