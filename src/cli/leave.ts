/**
 * Ending a process that has done its work although a plugin left something running. For commands that serve.
 */

/** Time for parts that are closing by themselves, in milliseconds. */
const LEAVE_AFTER_MS = 1000;

/** Ends the process soon, unless it ends by itself before: the timer is unreferenced, so it does not delay the exit. */
export function leaveSoon(): void {
  setTimeout(() => process.exit(), LEAVE_AFTER_MS).unref();
}
