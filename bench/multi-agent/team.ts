/**
 * The operations that are measured of subagents and of their contenders.
 */

/** The words that a task counts. */
export const WORDS = 12;
export const TEXT = Array.from({ length: WORDS }, (_, at) => `word${at}`).join(' ');

/** Workers that do tasks: one that is created for each task, and some that stay. */
export interface Team {
  /** Makes one, gives it a task, waits for the result and ends it. */
  lifetime(): Promise<void>;
  /** Gives a task to one that stays, and waits for the result. It has no other meanwhile. */
  task(at: number): Promise<void>;
  /** Makes one that stays report `count` events; resolves when all have arrived, in order. */
  events(count: number): Promise<void>;
  close(): Promise<void>;
}
