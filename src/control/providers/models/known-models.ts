/**
 * Built-in facts about models: the rows shown before a provider's list was read for the first time, and the facts its list
 * leaves out (OpenAI's names models and nothing else).
 *
 * Facts are matched by the beginning of a model's id, longest first; they only fill in what a provider left out.
 */
import type { ModelOption, Provider, Thinking } from '../../../protocol/session-types.ts';

/** Levels of a model that can think and whose provider names none. */
export const REASONING_LEVELS: readonly Thinking[] = ['OFF', 'MINIMAL', 'LOW', 'MEDIUM', 'HIGH'];
/** Levels of a model that cannot. */
export const PLAIN_LEVELS: readonly Thinking[] = ['OFF'];

interface Facts {
  readonly levels: readonly Thinking[];
  readonly contextWindowTokens?: number;
}

const effort = (levels: readonly Thinking[], contextWindowTokens: number): Facts => ({ levels, contextWindowTokens });
const plain = (contextWindowTokens: number): Facts => ({ levels: PLAIN_LEVELS, contextWindowTokens });
const LOW_TO_HIGH: readonly Thinking[] = ['LOW', 'MEDIUM', 'HIGH'];
const LOW_TO_XHIGH: readonly Thinking[] = [...LOW_TO_HIGH, 'XHIGH'];
const OFF_TO_HIGH: readonly Thinking[] = ['OFF', ...LOW_TO_HIGH];
const OFF_TO_XHIGH: readonly Thinking[] = [...OFF_TO_HIGH, 'XHIGH'];

/** Beginning of a model id → facts. Sources: the providers' model pages. */
const FACTS: Readonly<Partial<Record<Provider, Readonly<Record<string, Facts>>>>> = {
  openai: {
    'gpt-5': effort(['MINIMAL', ...LOW_TO_HIGH], 400_000),
    'gpt-5-codex': effort(LOW_TO_HIGH, 400_000),
    'gpt-5-chat': plain(128_000),
    'gpt-5.1': effort(OFF_TO_HIGH, 400_000),
    'gpt-5.1-codex': effort(LOW_TO_HIGH, 400_000),
    'gpt-5.1-codex-max': effort(LOW_TO_XHIGH, 400_000),
    'gpt-5.1-chat': plain(128_000),
    'gpt-5.2': effort(OFF_TO_XHIGH, 400_000),
    'gpt-5.2-codex': effort(LOW_TO_XHIGH, 400_000),
    'gpt-5.2-chat': plain(128_000),
    'gpt-5.3-codex': effort(LOW_TO_XHIGH, 400_000),
    'gpt-4.1': plain(1_047_576),
    'gpt-4o': plain(128_000),
    o1: effort(LOW_TO_HIGH, 200_000),
    o3: effort(LOW_TO_HIGH, 200_000),
    'o4-mini': effort(LOW_TO_HIGH, 200_000),
  },
  anthropic: {
    'claude-': { levels: REASONING_LEVELS, contextWindowTokens: 200_000 },
    'claude-3-5': plain(200_000),
    'claude-3-haiku': plain(200_000),
    'claude-3-opus': plain(200_000),
  },
  google: {
    'gemini-2.5': { levels: REASONING_LEVELS, contextWindowTokens: 1_048_576 },
    'gemini-3': { levels: REASONING_LEVELS, contextWindowTokens: 1_048_576 },
  },
  antigravity: {
    'claude-': { levels: PLAIN_LEVELS, contextWindowTokens: 200_000 },
    'gemini-': { levels: REASONING_LEVELS, contextWindowTokens: 1_048_576 },
  },
};

/** Returns the known facts of a model; undefined when none is known. */
export function factsOf(provider: Provider, id: string): Facts | undefined {
  const table = FACTS[provider] ?? {};
  const beginnings = Object.keys(table).filter((beginning) => id.startsWith(beginning));
  const longest = beginnings.sort((one, other) => other.length - one.length)[0];
  return longest === undefined ? undefined : table[longest];
}

/** The facts that a provider lists of one of its models. */
export interface ModelFacts {
  readonly id: string;
  readonly label?: string;
  readonly description?: string;
  readonly levels?: readonly Thinking[];
  readonly defaultLevel?: Thinking;
  readonly contextWindowTokens?: number;
  readonly routingProviders?: readonly string[];
}

const NAMES: Readonly<Record<Provider, string>> = {
  openai: 'OpenAI',
  openrouter: 'OpenRouter',
  antigravity: 'Antigravity',
  anthropic: 'Anthropic',
  google: 'Google',
  compatible: 'the configured server',
};

/** Longest description in a row: lists of hundreds of models are sent in one message. */
const MAX_DESCRIPTION = 240;

/** Makes a row of `model.list` from the provider's facts, completed with the known ones. */
export function modelRow(provider: Provider, listed: ModelFacts): ModelOption {
  const known = factsOf(provider, listed.id);
  const levels = listed.levels ?? known?.levels ?? PLAIN_LEVELS;
  const label = listed.label ?? listed.id;
  return {
    id: listed.id,
    provider,
    label,
    description: shortened(listed.description) ?? `${label} on ${NAMES[provider]}`,
    supportedThinkingLevels: levels,
    defaultThinkingLevel:
      [listed.defaultLevel, 'MEDIUM' as const].find((level) => level && levels.includes(level)) ?? levels[0]!,
    ...(provider === 'openrouter' ? { routingProviders: listed.routingProviders ?? [] } : {}),
    contextWindowTokens: listed.contextWindowTokens ?? known?.contextWindowTokens,
  };
}

function shortened(text: string | undefined): string | undefined {
  const line = text?.replaceAll(/\s+/g, ' ').trim() ?? '';
  if (line.length <= MAX_DESCRIPTION) return line === '' ? undefined : line;
  return `${line.slice(0, MAX_DESCRIPTION).trimEnd()}…`;
}

const FIRST: Readonly<Partial<Record<Provider, readonly ModelFacts[]>>> = {
  openai: [
    { id: 'gpt-5.3-codex', label: 'GPT-5.3 Codex', description: 'For long work on code.' },
    { id: 'gpt-5.2', label: 'GPT-5.2', description: 'For work of any kind.' },
    { id: 'gpt-5.2-codex', label: 'GPT-5.2 Codex', description: 'For work on code.' },
    { id: 'gpt-5.1-codex-mini', label: 'GPT-5.1 Codex mini', description: 'Small and quick, for work on code.' },
  ],
  openrouter: [
    {
      id: 'openrouter/auto',
      label: 'Auto',
      description: 'Chooses a model for each prompt.',
      contextWindowTokens: 128_000,
    },
  ],
  antigravity: [
    { id: 'gemini-3-pro-high', label: 'Gemini 3 Pro', description: 'For long and difficult work.' },
    { id: 'gemini-3-flash', label: 'Gemini 3 Flash', description: 'Quick.' },
    { id: 'claude-sonnet-4-5', label: 'Claude Sonnet 4.5', description: 'For work on code.' },
  ],
  anthropic: [
    { id: 'claude-opus-4-5', label: 'Claude Opus 4.5', description: 'For long and difficult work.' },
    { id: 'claude-sonnet-4-5', label: 'Claude Sonnet 4.5', description: 'For work of any kind.' },
    { id: 'claude-haiku-4-5', label: 'Claude Haiku 4.5', description: 'Small and quick.' },
  ],
  google: [
    { id: 'gemini-2.5-pro', label: 'Gemini 2.5 Pro', description: 'For long and difficult work.' },
    { id: 'gemini-2.5-flash', label: 'Gemini 2.5 Flash', description: 'Quick.' },
  ],
};

/** Returns the rows of a provider whose own list was never read. */
export function firstRows(provider: Provider): readonly ModelOption[] {
  return (FIRST[provider] ?? []).map((facts) => modelRow(provider, facts));
}

/** Models for work of any kind, used where nothing was chosen; a provider without one has the first of its list. */
const DEFAULTS: Readonly<Partial<Record<Provider, string>>> = {
  openai: 'gpt-5.2',
  openrouter: 'openrouter/auto',
  anthropic: 'claude-sonnet-4-5',
  google: 'gemini-2.5-pro',
};

/** Returns the id of the default model of a provider; undefined = the first of its list. */
export const defaultModelId = (provider: Provider): string | undefined => DEFAULTS[provider];
