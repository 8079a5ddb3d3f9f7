/** Replies that say themselves why a request was refused, as A2E 1.0 has it for some. Used by `plugin.ts` and `contents.ts`. */
import { HandfastError } from '../../wire/errors.ts';
import type { Refusal } from './mcp.schema.ts';

/** The reply, or the empty one with the error beside it. */
export async function refusable<Empty extends object, Reply extends object>(
  empty: Empty,
  run: () => Promise<Reply>,
): Promise<Reply | (Empty & { error: string; refusal: Refusal })> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof HandfastError)) throw error;
    const { code, message, detail, retryable } = error;
    return { ...empty, error: `${code}: ${message}`, refusal: { code, message, detail, retryable } };
  }
}
