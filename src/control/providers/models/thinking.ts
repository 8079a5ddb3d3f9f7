/**
 * Thinking levels: the level that replaces a requested one that the model does not have. Pure.
 *
 * @see docs/protocol/session-rpc.md#models
 */
import { type ModelOption, THINKING_LEVELS, type Thinking } from '../../../protocol/session-types.ts';

/** The level of an installation where nothing was chosen yet. */
export const FIRST_THINKING: Thinking = 'HIGH';

/** Returns a known level, in any case; undefined for any other text. */
export function thinkingOf(text: string): Thinking | undefined {
  const level = text.toUpperCase() as Thinking;
  return THINKING_LEVELS.includes(level) ? level : undefined;
}

/**
 * Returns the level a model is used with: the asked-for one if the model has it, else the model's default, else the middle one
 * of those it has. Of a model whose levels are not known, every known level is believed.
 */
export function thinkingFor(option: ModelOption | undefined, asked: string): Thinking {
  const level = thinkingOf(asked);
  const supported = option?.supportedThinkingLevels;
  if (level !== undefined && (supported === undefined || supported.includes(level))) return level;
  return option?.defaultThinkingLevel ?? supported?.[Math.floor(supported.length / 2)] ?? FIRST_THINKING;
}
