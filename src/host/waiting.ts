/**
 * Lets a request wait for a later message of its agent, and takes no place of `max_parallel` meanwhile.
 */
import type { CallContext } from './context.ts';

/** Awaits `work` without a place in the concurrency limit; see `CallContext.yieldSlot`. */
export async function waiting<Result>(context: Pick<CallContext, 'yieldSlot'>, work: Promise<Result>): Promise<Result> {
  const end = context.yieldSlot();
  try {
    return await work;
  } finally {
    end();
  }
}
