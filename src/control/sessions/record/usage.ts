/**
 * Sums of the usage of turns.
 */
import type { Usage } from '../../../protocol/session-types.ts';

/** Adds both; the sum has a cost when one of them has. */
export function addUsage(one: Usage, other: Usage): Usage {
  const cost =
    one.cost_usd === undefined && other.cost_usd === undefined
      ? undefined
      : (one.cost_usd ?? 0) + (other.cost_usd ?? 0);
  return {
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    reasoning_tokens: one.reasoning_tokens + other.reasoning_tokens,
    cached_input_tokens: one.cached_input_tokens + other.cached_input_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    ...(cost !== undefined && { cost_usd: cost }),
  };
}
