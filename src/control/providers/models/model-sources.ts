/**
 * The requests that list the models of each provider and check a key: one request each, and a reader that trusts nothing.
 *
 * Every reply of a provider is cut to sane sizes.
 */
import type { ModelOption, Provider, Thinking } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';
import type { KeyProvider } from '../http/endpoints.ts';
import {
  type Fetch,
  type JsonAnswer,
  messageOf,
  numberOf,
  record,
  records,
  requestJson,
  textOf,
} from '../http/http-json.ts';
import { type ModelFacts, modelRow, PLAIN_LEVELS, REASONING_LEVELS } from './known-models.ts';
import { thinkingOf } from './thinking.ts';

/** Maximum number of models of a provider; the largest known catalogue has a few hundred. */
const MAX_MODELS = 2_000;
const MAX_LIST_BYTES = 16 * 1024 * 1024;
/** ChatGPT's list leaves out models that are too new for the client's version. */
const CHATGPT_CLIENT_VERSION = '1.0.0';

export interface SourceOptions {
  readonly fetch: Fetch;
  readonly signal?: AbortSignal;
}

/** Headers that carry the credential, each provider's own way. */
export function credentialHeaders(provider: Provider, access: Omit<ProviderAccess, 'baseUrl'>): Record<string, string> {
  if (access.token === '') return { ...access.headers };
  if (provider === 'anthropic') {
    return { ...access.headers, 'x-api-key': access.token, 'anthropic-version': '2023-06-01' };
  }
  if (provider === 'google') return { ...access.headers, 'x-goog-api-key': access.token };
  return { ...access.headers, authorization: `Bearer ${access.token}` };
}

/**
 * Fetches the models a provider offers, in its order. Fails with `provider_error`; `detail.status` is the HTTP status where it
 * answered.
 */
export async function fetchModels(
  provider: Provider,
  access: ProviderAccess,
  options: SourceOptions,
): Promise<readonly ModelOption[]> {
  const answer = await requestJson(options.fetch, {
    ...listRequest(provider, access),
    headers: credentialHeaders(provider, access),
    signal: options.signal,
    maxBytes: MAX_LIST_BYTES,
  });
  const body = expectOk(answer, access);
  const listed = access.kind === 'oauth' && provider === 'openai' ? readChatgpt(body) : READERS[provider](body);
  const seen = new Set<string>();
  const rows: ModelOption[] = [];
  for (const facts of listed) {
    if (seen.has(facts.id) || facts.id.length > 200 || rows.length === MAX_MODELS) continue;
    seen.add(facts.id);
    rows.push(modelRow(provider, facts));
  }
  if (rows.length === 0) throw fail('provider_error', `${hostOf(access.baseUrl)} lists no usable models`);
  return rows;
}

/**
 * Returns the providers that serve a model on OpenRouter, in its order: the names its `provider` option takes. Fails with
 * `provider_error`.
 */
export async function fetchRoutingProviders(
  modelId: string,
  access: ProviderAccess,
  options: SourceOptions,
): Promise<readonly string[]> {
  const path = modelId.split('/').map(encodeURIComponent).join('/');
  const answer = await requestJson(options.fetch, {
    url: `${access.baseUrl}/models/${path}/endpoints`,
    headers: credentialHeaders('openrouter', access),
    signal: options.signal,
  });
  const { endpoints } = record(record(expectOk(answer, access)).data);
  const names = records(endpoints).map(({ tag, provider_name }) => {
    // A tag may name the served variant too: `provx/fp8`.
    const slug = textOf(tag)?.split('/')[0] ?? textOf(provider_name)?.replaceAll(' ', '-');
    return slug?.toLowerCase();
  });
  return [...new Set(names.filter((name) => name !== undefined))];
}

/** Result of verifying a key: true = accepted, false = refused, null = the provider could not be reached. */
export interface KeyVerdict {
  readonly verified: boolean | null;
  /** Reason why it is not verified; never holds the key. */
  readonly message?: string;
}

/** Verifies a key at its provider. Rejects only by `signal`. */
export async function verifyKey(
  provider: KeyProvider,
  access: ProviderAccess,
  options: SourceOptions,
): Promise<KeyVerdict> {
  // OpenRouter lists its models without a key; only this address checks the key.
  const request = provider === 'openrouter' ? { url: `${access.baseUrl}/key` } : listRequest(provider, access);
  try {
    const answer = await requestJson(options.fetch, {
      ...request,
      headers: credentialHeaders(provider, access),
      signal: options.signal,
      maxBytes: MAX_LIST_BYTES,
    });
    if (answer.status >= 200 && answer.status < 300) return { verified: true };
    const said = messageOf(answer.body, access.token) ?? `status ${answer.status}`;
    // Google reports a wrong key as a bad request.
    const refused = answer.status === 401 || answer.status === 403 || (provider === 'google' && answer.status === 400);
    return { verified: refused ? false : null, message: `${hostOf(access.baseUrl)}: ${said}` };
  } catch (thrown) {
    options.signal?.throwIfAborted();
    return { verified: null, message: (thrown as Error).message };
  }
}

function listRequest(provider: Provider, access: ProviderAccess): { url: string; body?: unknown } {
  const { baseUrl, kind } = access;
  if (provider === 'antigravity') {
    return { url: `${baseUrl}/v1internal:fetchAvailableModels`, body: { project: access.project } };
  }
  if (provider === 'google') return { url: `${baseUrl}/models?pageSize=1000` };
  if (provider === 'anthropic') return { url: `${baseUrl}/models?limit=1000` };
  if (provider === 'openai' && kind === 'oauth') {
    return { url: `${baseUrl}/models?client_version=${CHATGPT_CLIENT_VERSION}` };
  }
  return { url: `${baseUrl}/models` };
}

type Reader = (body: unknown) => ModelFacts[];

const READERS: Readonly<Record<Provider, Reader>> = {
  openai: (body) => records(record(body).data).flatMap(({ id }) => (isChatModel(id) ? [{ id }] : [])),
  openrouter: (body) =>
    records(record(body).data).flatMap((entry) => {
      const id = textOf(entry.id);
      const { output_modalities } = record(entry.architecture);
      const writes = !Array.isArray(output_modalities) || output_modalities.includes('text');
      if (id === undefined || !writes) return [];
      const parameters = Array.isArray(entry.supported_parameters) ? entry.supported_parameters : [];
      return {
        id,
        label: textOf(entry.name),
        description: textOf(entry.description),
        levels: parameters.includes('reasoning') ? REASONING_LEVELS : PLAIN_LEVELS,
        contextWindowTokens: numberOf(entry.context_length),
      };
    }),
  anthropic: (body) =>
    records(record(body).data).flatMap((entry) => {
      const id = textOf(entry.id);
      if (id === undefined) return [];
      return { id, label: textOf(entry.display_name), contextWindowTokens: numberOf(entry.max_input_tokens) };
    }),
  google: (body) =>
    records(record(body).models).flatMap((entry) => {
      const id = textOf(entry.name)?.replace(/^models\//, '');
      const methods = entry.supportedGenerationMethods;
      if (id === undefined || !Array.isArray(methods) || !methods.includes('generateContent')) return [];
      return {
        id,
        label: textOf(entry.displayName),
        description: textOf(entry.description),
        levels: typeof entry.thinking === 'boolean' ? (entry.thinking ? REASONING_LEVELS : PLAIN_LEVELS) : undefined,
        contextWindowTokens: numberOf(entry.inputTokenLimit),
      };
    }),
  compatible: (body) =>
    records(record(body).data).flatMap((entry) => {
      const id = textOf(entry.id);
      if (id === undefined) return [];
      const window = numberOf(entry.context_length) ?? numberOf(entry.max_model_len);
      return { id, label: textOf(entry.name), contextWindowTokens: window };
    }),
  antigravity: (body) =>
    Object.entries(record(record(body).models)).map(([id, entry]) => {
      const { displayName, maxTokens, supportsThinking } = record(entry);
      return {
        id,
        label: textOf(displayName),
        levels: supportsThinking === true ? REASONING_LEVELS : undefined,
        contextWindowTokens: numberOf(maxTokens),
      };
    }),
};

/** The list behind a ChatGPT sign-in, which uses other names for efforts. */
const readChatgpt: Reader = (body) =>
  records(record(body).models).flatMap((entry) => {
    const id = textOf(entry.slug);
    if (id === undefined || entry.visibility === 'hide') return [];
    const levels = records(entry.supported_reasoning_levels)
      .map(({ effort }) => effortOf(effort))
      .filter((level) => level !== undefined);
    return {
      id,
      label: textOf(entry.display_name),
      description: textOf(entry.description),
      levels: levels.length > 0 ? levels : undefined,
      defaultLevel: effortOf(entry.default_reasoning_level),
      contextWindowTokens: numberOf(entry.context_window),
    };
  });

const effortOf = (effort: unknown): Thinking | undefined =>
  effort === 'none' ? 'OFF' : thinkingOf(textOf(effort) ?? '');

/**
 * True for a model of a chat. OpenAI lists everything it serves; these are the families that answer in a chat, less their
 * special builds.
 */
function isChatModel(id: unknown): id is string {
  return (
    typeof id === 'string' &&
    /^(?:gpt-[4-9]|o\d|chatgpt-)/.test(id) &&
    !/audio|realtime|image|search|transcribe|tts|embedding|instruct|deep-research/.test(id)
  );
}

/** Returns the body of a good answer. Fails with `provider_error` for any other; `detail.status` is the HTTP status. */
export function expectOk(answer: JsonAnswer, access: Pick<ProviderAccess, 'baseUrl' | 'token'>): unknown {
  const { status, body } = answer;
  const good = status >= 200 && status < 300;
  if (good && body !== undefined) return body;
  const said = good ? 'the answer is not JSON' : (messageOf(body, access.token) ?? `status ${status}`);
  const host = hostOf(access.baseUrl);
  throw fail('provider_error', `${host}: ${said}`, { host, status });
}

const hostOf = (address: string): string => new URL(address).host;
