/**
 * Usage of a request, from the provider's report. Pure; nothing is guessed: usage has a cost only where the provider named one.
 */
import type { Usage } from '../../../protocol/session-types.ts';
import type { ProviderFields, ReportedUsage } from './provider-model.ts';

/** Returns usage as the protocol has it; undefined when the provider reported no counts. */
export function usageOf(reported: ReportedUsage, fields: ProviderFields | undefined): Usage | undefined {
  const input = count(reported.inputTokens.total);
  const output = count(reported.outputTokens.total);
  if (input === undefined && output === undefined) return undefined;
  const cost = costOf(reported, fields);
  return {
    input_tokens: input ?? 0,
    output_tokens: output ?? 0,
    reasoning_tokens: count(reported.outputTokens.reasoning) ?? 0,
    cached_input_tokens: count(reported.inputTokens.cacheRead) ?? 0,
    total_tokens: (input ?? 0) + (output ?? 0),
    ...(cost !== undefined && { cost_usd: cost }),
  };
}

/** Returns the cost. OpenRouter reports dollars beside the counts, and so do gateways with its format. */
function costOf(reported: ReportedUsage, fields: ProviderFields | undefined): number | undefined {
  const usage = fields?.openrouter?.usage;
  const cost = typeof usage === 'object' && usage !== null ? (usage as { cost?: unknown }).cost : undefined;
  return amount(cost) ?? amount(reported.raw?.cost);
}

const amount = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
const count = (value: number | undefined): number | undefined => {
  const tokens = amount(value);
  return tokens === undefined ? undefined : Math.round(tokens);
};
