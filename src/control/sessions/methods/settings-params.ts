/**
 * The settings that a session may decide for itself, read from the parameters of `session.create` and `session.configure`.
 * Unknown members are left out.
 */
import { wrongParam } from '../../../protocol/rpc-reader.ts';
import { PROVIDERS, type SessionSettings, THINKING_LEVELS } from '../../../protocol/session-types.ts';
import { isObject } from '../../../wire/json.ts';

/** The parameters both methods have; absent = not given. */
export interface SettingsParams {
  readonly model?: string;
  readonly provider?: string;
  readonly thinking_level?: string;
  readonly openrouter_provider?: string;
  readonly backend?: string;
  readonly approvals?: 'ask' | 'allow' | 'deny';
  readonly parallel_tools?: boolean;
  readonly max_rounds?: number;
  readonly turn_timeout_ms?: number;
  readonly recall?: boolean;
  readonly mode?: string;
  readonly mcp_servers?: unknown;
}

/** Reads the settings that were given. Fails with `schema_violation` and the field. */
export function settingsFrom(params: SettingsParams, method: string): SessionSettings {
  const settings = {
    model: params.model,
    provider: oneOf(params.provider?.toLowerCase(), PROVIDERS, method, 'provider'),
    thinking: oneOf(params.thinking_level?.toUpperCase(), THINKING_LEVELS, method, 'thinking_level'),
    openRouterProvider: params.openrouter_provider?.toLowerCase(),
    backend: params.backend,
    approvals: params.approvals,
    parallelTools: params.parallel_tools,
    maxRounds: count(params.max_rounds, method, 'max_rounds'),
    turnTimeoutMs: count(params.turn_timeout_ms, method, 'turn_timeout_ms'),
    recall: params.recall,
    mode: params.mode,
    mcpServers: servers(params.mcp_servers, method),
  };
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function oneOf<Word extends string>(
  value: string | undefined,
  words: readonly Word[],
  method: string,
  field: string,
): Word | undefined {
  if (value === undefined || words.includes(value as Word)) return value as Word | undefined;
  throw wrongParam(method, field, `one of: ${words.join(', ')}`);
}

function count(value: number | undefined, method: string, field: string): number | undefined {
  if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) return value;
  throw wrongParam(method, field, 'a whole number above 0');
}

function servers(value: unknown, method: string): SessionSettings['mcpServers'] {
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value) && value.every(isObject)) return value;
  throw wrongParam(method, 'mcp_servers', 'an array of objects');
}
