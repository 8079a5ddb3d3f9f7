/** The text of the streamed chunks: the same from everybody. */

/** Chunk number `index`: about as long as what models send at once. */
export const chunkText = (index: number): string => `piece ${index} of the answer, `;
