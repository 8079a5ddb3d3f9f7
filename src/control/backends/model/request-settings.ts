/**
 * The settings of a request beside the conversation: thinking, privacy, caching. Pure.
 *
 * Thinking levels become the SDK's `reasoning`, which it maps per model: OpenAI's effort, Anthropic's adaptive thinking or
 * budget, Google's level or budget. Settings that the SDK leaves open are set here; OpenRouter's is set when the model is made.
 */
import type { Thinking } from '../../../protocol/session-types.ts';
import type { ModelChoice } from '../../contract/providers.ts';
import type { ModelCall, ProviderFields, ReasoningEffort } from './provider-model.ts';

/** Thinking levels as the SDK, and OpenRouter's package, call them. */
export const EFFORT = {
  OFF: 'none',
  MINIMAL: 'minimal',
  LOW: 'low',
  MEDIUM: 'medium',
  HIGH: 'high',
  XHIGH: 'xhigh',
} as const satisfies Readonly<Record<Thinking, ReasoningEffort>>;

/**
 * True when thinking may be spoken of to this model at all. Many servers refuse a request that sets it for a model that
 * cannot think; of a server that is only OpenAI-compatible, nothing is assumed that the catalogue does not state.
 */
export function canThink({ provider, thinking, option }: ModelChoice): boolean {
  const levels = option?.supportedThinkingLevels;
  if (levels === undefined) return thinking !== 'OFF' && provider !== 'compatible';
  if (!levels.some((level) => level !== 'OFF')) return false;
  return provider !== 'compatible' || thinking !== 'OFF';
}

/**
 * Returns settings of a request for `choice`. `sessionId` groups requests with the same beginning, for the provider's cache.
 * Temperature and the like are left to the provider, for whose defaults these models are tuned.
 */
export function requestSettings(
  choice: ModelChoice,
  sessionId: string,
): Pick<ModelCall, 'reasoning' | 'providerOptions'> {
  const thinks = canThink(choice);
  const fields = providerFields(choice, sessionId, thinks);
  return {
    ...(thinks && choice.provider !== 'openrouter' && { reasoning: EFFORT[choice.thinking] }),
    ...(fields !== undefined && { providerOptions: fields }),
  };
}

function providerFields(
  { provider, thinking }: ModelChoice,
  sessionId: string,
  thinks: boolean,
): ProviderFields | undefined {
  switch (provider) {
    case 'openai':
      return {
        openai: {
          // The conversation is stored here and sent whole; the provider need not store it. Reasoning is sent encrypted.
          store: false,
          promptCacheKey: sessionId,
          ...(thinks && thinking !== 'OFF' && { reasoningSummary: 'auto' }),
        },
      };
    case 'anthropic':
      // The part of a request that repeats the one before is read from the cache.
      return { anthropic: { cacheControl: { type: 'ephemeral' } } };
    case 'google':
    case 'antigravity':
      return thinks && thinking !== 'OFF' ? { google: { thinkingConfig: { includeThoughts: true } } } : undefined;
    default:
      return undefined;
  }
}
