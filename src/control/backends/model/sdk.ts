/**
 * The adapter file of the AI SDK: the only file that imports its provider packages, each when a model of its provider is first
 * asked for. They are optional peers; the error names the missing one and the command that installs it.
 *
 * The models are used through the SDK's provider interface (`doStream`) and not through its `streamText`: this project has its
 * own rounds, tool calls, retries and limits, and each layer in between costs time on every delta.
 */
import { randomUUID } from 'node:crypto';
import type { OpenAIProvider } from '@ai-sdk/openai';
import type { Provider } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { ModelChoice, ProviderAccess } from '../../contract/providers.ts';
import { boundedBody } from './bounded-body.ts';
import { cloudCodeFetch } from './cloud-code.ts';
import { finishedStream } from './finished-stream.ts';
import type { ProviderModel } from './provider-model.ts';
import { EFFORT } from './request-settings.ts';

type Fetch = typeof globalThis.fetch;
type SdkModel = ReturnType<OpenAIProvider['languageModel']>;

/** The package of each provider and the major version this code is written for. */
const PACKAGES: Readonly<Record<Provider, readonly [name: string, major: number]>> = {
  openai: ['@ai-sdk/openai', 4],
  openrouter: ['@openrouter/ai-sdk-provider', 3],
  anthropic: ['@ai-sdk/anthropic', 4],
  google: ['@ai-sdk/google', 4],
  antigravity: ['@ai-sdk/google', 4],
  compatible: ['@ai-sdk/openai-compatible', 3],
};

/**
 * Makes the model of a choice, reached with `access`. `thinks` is false where nothing about thinking may be sent. Cheap
 * after the first call for a provider. Fails with `not_configured` when the provider's package is not installed, or is of
 * another major version.
 * @param received called for every piece of an answer's body: providers keep a stream alive with comments the SDK does not
 *   report
 */
export async function openModel(
  choice: ModelChoice,
  access: ProviderAccess,
  thinks: boolean,
  received: () => void = () => {},
): Promise<ProviderModel> {
  const [name, major] = PACKAGES[choice.provider];
  let model: SdkModel;
  try {
    model = await MAKERS[choice.provider](choice, access, thinks, watchedFetch(received));
  } catch (error) {
    throw isMissing(error, name) ? notInstalled(choice.provider, name, major, 'is not installed') : error;
  }
  if (model.specificationVersion !== 'v4') {
    throw notInstalled(choice.provider, name, major, 'is installed in another version');
  }
  // The tools' schemas are JSON Schema by their own check; the SDK's type for them is narrower than it needs.
  return { doStream: (call) => model.doStream(call as Parameters<SdkModel['doStream']>[0]) };
}

type Maker = (choice: ModelChoice, access: ProviderAccess, thinks: boolean, fetch: Fetch) => Promise<SdkModel>;

/** A `fetch` for chat completions, whose streams mark their end in more than one way. */
const finishing =
  (fetch: Fetch): Fetch =>
  async (input, init) => {
    const response = await fetch(input, init);
    const isStream = /^text\/event-stream/i.test(response.headers.get('content-type') ?? '');
    if (!response.ok || response.body === null || !isStream) return response;
    const { status, statusText, headers, body } = response;
    return new Response(body.pipeThrough(finishedStream()), { status, statusText, headers });
  };

/** A `fetch` that reports each piece of an answer, and hands on no more at once than others can wait for. */
function watchedFetch(received: () => void): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (response.body === null) return response;
    const { status, statusText, headers } = response;
    const body = boundedBody(response.body, received) as ReadableStream<Uint8Array<ArrayBuffer>>;
    return new Response(body, { status, statusText, headers });
  };
}

const MAKERS: Readonly<Record<Provider, Maker>> = {
  async openai(choice, { baseUrl, token, headers }, _thinks, fetch) {
    const { createOpenAI } = await import('@ai-sdk/openai');
    return createOpenAI({ baseURL: baseUrl, apiKey: token, headers: { ...headers }, fetch }).responses(choice.model);
  },
  async openrouter(choice, { baseUrl, token, headers }, thinks, fetch) {
    const { createOpenRouter } = await import('@openrouter/ai-sdk-provider');
    const openRouter = createOpenRouter({
      baseURL: baseUrl,
      apiKey: token,
      headers: { ...headers },
      fetch: finishing(fetch),
      // Asks for usage in the stream.
      compatibility: 'strict',
    });
    return openRouter.chat(choice.model, {
      usage: { include: true },
      // The package wants it when the model is made, not with the request.
      ...(thinks && { reasoning: { effort: EFFORT[choice.thinking] } }),
      ...(choice.openRouterProvider !== 'any' && { provider: { order: [choice.openRouterProvider] } }),
      // Anthropic's models cache the repeated part of a request only on request; the others do so by themselves.
      ...(choice.model.startsWith('anthropic/') && { cache_control: { type: 'ephemeral' } }),
    });
  },
  async anthropic(choice, { baseUrl, token, kind, headers }, _thinks, fetch) {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    const credential = kind === 'oauth' ? { authToken: token } : { apiKey: token };
    return createAnthropic({ baseURL: baseUrl, ...credential, headers: { ...headers }, fetch }).languageModel(
      choice.model,
    );
  },
  async google(choice, { baseUrl, token, headers }, _thinks, fetch) {
    const { createGoogle } = await import('@ai-sdk/google');
    return createGoogle({ baseURL: baseUrl, apiKey: token, headers: { ...headers }, fetch }).languageModel(
      choice.model,
    );
  },
  async antigravity(choice, access, _thinks, fetch) {
    const { createGoogle } = await import('@ai-sdk/google');
    // The key is only there because the package insists on one; `cloudCodeFetch` replaces every header.
    return createGoogle({
      baseURL: access.baseUrl,
      apiKey: 'unused',
      fetch: cloudCodeFetch(choice.model, access, randomUUID, fetch),
    }).languageModel(choice.model);
  },
  async compatible(choice, { baseUrl, token, headers }, _thinks, fetch) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    return createOpenAICompatible({
      name: 'compatible',
      baseURL: baseUrl,
      // Local servers need none.
      apiKey: token === '' ? undefined : token,
      headers: { ...headers },
      includeUsage: true,
      fetch: finishing(fetch),
    }).chatModel(choice.model);
  },
};

/** True when this package, or one it needs, cannot be found. */
function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') && error.message.includes(name);
}

function notInstalled(provider: Provider, name: string, major: number, what: string): Error {
  const install = `npm install ${name}@${major}`;
  return fail('not_configured', `models of ${provider} need the package ${name}, which ${what}; run: ${install}`, {
    provider,
    package: name,
    install,
  });
}
