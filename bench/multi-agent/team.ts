/** What is measured of subagents and of what they are compared with. */

/** The words that a task counts. */
export const WORDS = 12;
export const TEXT = Array.from({ length: WORDS }, (_, at) => `word${at}`).join(' ');

/** Those who do tasks: one that is made for each, and some that stay. */
export interface Team {
  /** Makes one, gives it a task, waits for the result and ends it. */
  lifetime(): Promise<void>;
  /** Gives a task to one that stays, and waits for the result. It has no other meanwhile. */
  task(at: number): Promise<void>;
  /** Has one that stays report so many events; resolves when all have arrived, in order. */
  events(count: number): Promise<void>;
  close(): Promise<void>;
}
