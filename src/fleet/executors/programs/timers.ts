/**
 * Derives both timers of a program from one figure, so that the executor's timer never fires before the program's.
 */

/** Returns a time as whole seconds: rounded up, at least one. */
export const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/**
 * Returns the time after which the executor stops a turn, milliseconds: `graceMs` after the program's own timer. Undefined
 * without a timeout.
 */
export const killAfter = (timeoutMs: number | undefined, graceMs = 0): number | undefined =>
  timeoutMs === undefined ? undefined : wholeSeconds(timeoutMs) * 1000 + graceMs;
