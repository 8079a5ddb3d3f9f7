/**
 * The words of session RPC that its schemas and the code share.
 *
 * Used by `session-types.schema.ts`; the rest of the project imports them from `session-types.ts`.
 */

/** The first three are the protocol's; the others appear only where they are configured. */
export const PROVIDERS = ['openai', 'openrouter', 'antigravity', 'anthropic', 'google', 'compatible'] as const;
export type Provider = (typeof PROVIDERS)[number];

export const THINKING_LEVELS = ['OFF', 'MINIMAL', 'LOW', 'MEDIUM', 'HIGH', 'XHIGH'] as const;
export type Thinking = (typeof THINKING_LEVELS)[number];

/** Why a turn ended. Sent as `stop_reason` on every terminal event. */
export const STOP_REASONS = [
  'end_turn',
  'max_tokens',
  'max_rounds',
  'refusal',
  'interrupted',
  'timeout',
  'cleared',
  'shutdown',
  'restart',
  'closed',
  'error',
] as const;
export type StopReason = (typeof STOP_REASONS)[number];
