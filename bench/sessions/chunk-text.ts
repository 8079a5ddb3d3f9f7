/**
 * The text of the streamed chunks, which all contenders share.
 */

/** Returns chunk number `index`: about as long as a chunk of a model. */
export const chunkText = (index: number): string => `piece ${index} of the answer, `;
