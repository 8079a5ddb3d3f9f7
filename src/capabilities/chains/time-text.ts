/** Formats a time for tables of the chain commands. */

/** @param seconds of the epoch */
export const timeText = (seconds: number): string =>
  new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ');
