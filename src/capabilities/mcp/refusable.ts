/** Replies that contain the reason of a refusal, as A2E 1.0 has it for some. */
import type { CallContext } from '../../host/context.ts';
import { HandfastError } from '../../wire/errors.ts';
import type { Refusal } from './mcp.schema.ts';

/** Returns the reply, or the empty one with the error beside it, which the audit also gets. */
export async function refusable<Empty extends object, Reply extends object>(
  context: Pick<CallContext, 'refusal'>,
  empty: Empty,
  run: () => Promise<Reply>,
): Promise<Reply | (Empty & { error: string; refusal: Refusal })> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof HandfastError)) throw error;
    context.refusal = error;
    const { code, message, detail, retryable } = error;
    return { ...empty, error: `${code}: ${message}`, refusal: { code, message, detail, retryable } };
  }
}
