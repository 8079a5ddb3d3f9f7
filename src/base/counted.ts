/** Numbers with their noun, as messages for people have them: "1 line", "2 lines". */

/** Returns `count` and `noun`, in the plural for every count but one. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : plural}`;
