/**
 * The common part of the tests of the model backend: settings that choose the scripted server, and a turn that records its
 * events.
 */

import { messagesOf } from '../../../src/control/backends/model/conversation.ts';
import { type ProviderRoundOptions, providerRound } from '../../../src/control/backends/model/provider-rounds.ts';
import { DEFAULT_LIMITS, type RequestLimits } from '../../../src/control/backends/model/request-limits.ts';
import { openModel } from '../../../src/control/backends/model/sdk.ts';
import { toolNames } from '../../../src/control/backends/model/tool-names.ts';
import type { Turn } from '../../../src/control/contract/backend.ts';
import type { ModelChoice, ProviderAccess, Providers } from '../../../src/control/contract/providers.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import type { ModelPart } from '../../../src/control/rounds/round-model.ts';
import type { Toolbox, ToolOffer } from '../../../src/control/rounds/toolbox.ts';
import type { Provider, Thinking, Usage } from '../../../src/protocol/session-types.ts';
import { NO_USAGE } from '../../../src/protocol/session-types.ts';
import type { Principal } from '../../../src/session/principal.ts';
import type { ModelApi, ModelServer } from '../../../src/testing/model-server.ts';
import { fail } from '../../../src/wire/errors.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';

/** A key that must never be seen anywhere. */
export const KEY = 'sk-test-1234567890abcdef';

/** The API each provider is reached by. */
export const APIS: Readonly<Record<Provider, ModelApi>> = {
  openai: 'responses',
  openrouter: 'openrouter',
  anthropic: 'anthropic',
  google: 'google',
  antigravity: 'cloud-code',
  compatible: 'chat',
};
/** A model of each provider that its package knows to be able to think. */
export const MODELS: Readonly<Record<Provider, string>> = {
  openai: 'gpt-5.1',
  openrouter: 'anthropic/claude-sonnet-4.5',
  anthropic: 'claude-sonnet-4-5',
  google: 'gemini-2.5-pro',
  antigravity: 'gemini-3-pro-high',
  compatible: 'local-model',
};
export const PROVIDERS = Object.keys(APIS) as Provider[];

const LEVELS: readonly Thinking[] = ['OFF', 'LOW', 'MEDIUM', 'HIGH'];

export function choiceOf(provider: Provider, changes: Partial<ModelChoice> & { window?: number } = {}): ModelChoice {
  const { window = 200_000, ...rest } = changes;
  const model = rest.model ?? MODELS[provider];
  const option = {
    id: model,
    provider,
    label: model,
    description: '',
    supportedThinkingLevels: LEVELS,
    contextWindowTokens: window,
  };
  return { provider, model, thinking: 'HIGH', openRouterProvider: 'any', option, ...rest };
}

/** Makes settings that choose one model on the scripted server. */
export function providersFor(
  server: ModelServer,
  choice: ModelChoice | undefined,
  access: Partial<ProviderAccess> = {},
): Providers {
  return {
    configured: true,
    choose: () => choice,
    check(chosen: ModelChoice | undefined): asserts chosen is ModelChoice {
      if (chosen === undefined) throw fail('not_configured', 'select a model from an enabled provider first');
    },
    access: async (provider) => ({
      baseUrl: server.baseUrl(APIS[provider]),
      token: KEY,
      kind: 'api_key',
      headers: {},
      ...access,
    }),
  };
}

export interface AskOptions {
  readonly history?: readonly HistoryItem[];
  readonly tools?: readonly ToolOffer[];
  readonly signal?: AbortSignal;
  readonly limits?: Partial<RequestLimits>;
  readonly access?: Partial<ProviderAccess>;
  readonly open?: ProviderRoundOptions['open'];
  /** The waits between attempts, which then take no time. */
  readonly waits?: number[];
  readonly debug?: ProviderRoundOptions['debug'];
}

export const user = (text: string): HistoryItem => ({ role: 'user', turn: 'turn-1', text });

/** Returns a tool that is offered and not called. */
export const offer = (name: string): ToolOffer => ({
  name,
  description: `Runs ${name}.`,
  inputSchema: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
  risks: [],
});

/** Asks the scripted server one round, without a turn around it. */
export function ask(
  server: ModelServer,
  choice: ModelChoice,
  options: AskOptions = {},
): AsyncGenerator<ModelPart, void> {
  const names = toolNames(options.tools ?? []);
  return providerRound({
    choice,
    providers: providersFor(server, choice, options.access),
    open: options.open ?? openModel,
    sessionId: 'session-1',
    input: () => ({
      system: 'be brief',
      messages: messagesOf(options.history ?? [user('hello')], {
        provider: choice.provider,
        model: choice.model,
        names,
        turnId: 'turn-1',
      }),
      names,
    }),
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    signal: options.signal ?? new AbortController().signal,
    now: () => performance.now(),
    ...(options.debug && { debug: options.debug }),
    wait: async (ms) => {
      options.waits?.push(ms);
    },
  });
}

/** Returns all parts of a round. */
export async function partsOf(parts: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  return Array.fromAsync(parts);
}

/** Returns the text of all parts of a type. */
export const textOf = (parts: readonly ModelPart[], type: 'thought' | 'answer'): string =>
  parts.map((part) => (part.type === type ? part.text : '')).join('');

/** Returns the one part of a type. */
export function onePart<Type extends ModelPart['type']>(
  parts: readonly ModelPart[],
  type: Type,
): Extract<ModelPart, { type: Type }> {
  const found = parts.filter((part) => part.type === type);
  if (found.length !== 1) throw new Error(`${found.length} parts of type ${type}`);
  return found[0] as Extract<ModelPart, { type: Type }>;
}

/** Returns the answer of a round as the history keeps it. */
export function assistantItem(parts: readonly ModelPart[]): Extract<HistoryItem, { role: 'assistant' }> {
  const calls = parts
    .filter((part) => part.type === 'call')
    .map(({ callId, name, input }) => ({ callId, name, input }));
  const { providerData } = onePart(parts, 'finish');
  return {
    role: 'assistant',
    turn: 'turn-1',
    text: textOf(parts, 'answer'),
    reasoning: textOf(parts, 'thought'),
    ...(calls.length > 0 && { calls }),
    ...(providerData && { providerData }),
  };
}

/** A turn that records the calls of the backend. */
export class RecordedTurn implements Turn {
  readonly id = 'turn-1';
  readonly log: FakeSessionLog;
  readonly principal = { name: 'local' } as Principal;
  readonly settings: Turn['settings'];
  readonly cwd = '/project';
  readonly prompt: Turn['prompt'];
  readonly history: readonly HistoryItem[] = [];
  readonly continued = false;
  readonly #controller = new AbortController();
  readonly signal = this.#controller.signal;
  /** Everything streamed or shown, in order. */
  readonly told: (readonly [what: string, value: unknown])[] = [];
  readonly debugged: (readonly [stage: string, data: unknown])[] = [];
  used: Usage = NO_USAGE;
  /** Called with every event. */
  onTold: ((what: string, value: unknown) => void) | undefined;

  constructor(text: string, options: { history?: readonly HistoryItem[]; settings?: Turn['settings'] } = {}) {
    this.prompt = { text, images: [] };
    this.settings = options.settings ?? {};
    this.log = new FakeSessionLog({ history: [...(options.history ?? []), user(text)] });
  }

  interrupt(): void {
    this.#controller.abort(fail('cancelled', 'interrupted'));
  }

  #tell(what: string, value: unknown): void {
    this.told.push([what, value]);
    this.onTold?.(what, value);
  }

  all(what: string): unknown[] {
    return this.told.filter(([told]) => told === what).map(([, value]) => value);
  }

  thought(text: string): void {
    this.#tell('thought', text);
  }
  answer(text: string): void {
    this.#tell('answer', text);
  }
  status(label: string, detail?: Readonly<Record<string, unknown>>): void {
    this.#tell('status', detail === undefined ? label : { label, ...detail });
  }
  toolStarted(_round: number, call: Parameters<Turn['toolStarted']>[1]): void {
    this.#tell('started', call);
  }
  toolOutput(): void {}
  toolDone(_round: number, done: Parameters<Turn['toolDone']>[1]): void {
    this.#tell('done', done);
  }
  toolResults(_round: number, done: Parameters<Turn['toolResults']>[1]): void {
    this.#tell('results', done);
  }
  usage(used: Usage): void {
    this.used = used;
    this.#tell('usage', used);
  }
  takeSteers(): readonly string[] {
    return [];
  }
  async ask(): ReturnType<Turn['ask']> {
    return { state: 'allowed' } as Awaited<ReturnType<Turn['ask']>>;
  }
  debug(stage: string, data: unknown): void {
    this.debugged.push([stage, data]);
  }
}

/** Environments with one toolbox for all sessions: `bash` echoes, and every other tool answers its name. */
export function environmentsOf(offers: readonly ToolOffer[], results: Readonly<Record<string, unknown>> = {}) {
  const released: string[] = [];
  const toolbox: Toolbox = {
    list: async () => offers,
    find: (name) => offers.find((tool) => tool.name === name),
    call: async ({ name, input, callId }) => ({
      name,
      ok: true,
      input,
      result: results[name] ?? { output: name },
      callId,
    }),
  };
  return {
    for: () => toolbox,
    release: (id: string) => void released.push(id),
    recallOf: () => async () => undefined,
    putPlan: async () => {},
    deliver: async () => {},
    released,
  };
}
