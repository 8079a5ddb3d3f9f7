/**
 * The reading of each provider's list: the rows, the entries left out, and the parts of an answer that are not believed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProviderAccess } from '../../../../src/control/contract/providers.ts';
import { fetchModels, verifyKey } from '../../../../src/control/providers/models/model-sources.ts';
import { thinkingFor } from '../../../../src/control/providers/models/thinking.ts';
import type { ModelOption, Provider } from '../../../../src/protocol/session-types.ts';

const ACCESS: ProviderAccess = { baseUrl: 'https://api.example/v1', token: 'k', kind: 'api_key', headers: {} };

/** Makes a provider that gives one answer and records its requests. */
function answering(body: unknown, status = 200) {
  const asked: { url: string; headers: Record<string, string>; body: unknown }[] = [];
  const answer: typeof fetch = async (input, init) => {
    asked.push({
      url: String(input),
      headers: Object.fromEntries(new Headers(init?.headers)),
      body: init?.body,
    });
    return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status });
  };
  return { asked, fetch: answer };
}

async function rows(provider: Provider, body: unknown, access: Partial<ProviderAccess> = {}) {
  const { asked, fetch } = answering(body);
  const models = await fetchModels(provider, { ...ACCESS, ...access }, { fetch });
  return { models, asked: asked[0]! };
}

const brief = ({ id, label, supportedThinkingLevels, defaultThinkingLevel, contextWindowTokens }: ModelOption) => ({
  id,
  label,
  levels: supportedThinkingLevels?.join(),
  standard: defaultThinkingLevel,
  window: contextWindowTokens,
});

test('OpenAI: the models that answer in a chat, with what is known of them', async () => {
  const { models, asked } = await rows('openai', {
    data: ['gpt-5.2', 'gpt-4o-audio-preview', 'text-embedding-3-small', 'gpt-4o', 'o3-2025-04-16', 'gpt-4o', 7].map(
      (id) => ({
        id,
      }),
    ),
  });
  assert.equal(asked.url, 'https://api.example/v1/models');
  assert.equal(asked.headers.authorization, 'Bearer k');
  assert.deepEqual(models.map(brief), [
    { id: 'gpt-5.2', label: 'gpt-5.2', levels: 'OFF,LOW,MEDIUM,HIGH,XHIGH', standard: 'MEDIUM', window: 400_000 },
    { id: 'gpt-4o', label: 'gpt-4o', levels: 'OFF', standard: 'OFF', window: 128_000 },
    { id: 'o3-2025-04-16', label: 'o3-2025-04-16', levels: 'LOW,MEDIUM,HIGH', standard: 'MEDIUM', window: 200_000 },
  ]);
  assert.ok(models.every(({ description }) => description.length > 0));
});

test('ChatGPT: the list behind a sign-in, with its own words for efforts', async () => {
  const efforts = (...names: string[]) => names.map((effort) => ({ effort, description: '' }));
  const { models, asked } = await rows(
    'openai',
    {
      models: [
        {
          slug: 'gpt-x',
          display_name: 'GPT X',
          description: 'Works.',
          supported_reasoning_levels: efforts('none', 'low', 'ultra', 'xhigh'),
          default_reasoning_level: 'low',
          context_window: 272_000,
          visibility: 'list',
        },
        { slug: 'gpt-hidden', visibility: 'hide' },
      ],
    },
    { kind: 'oauth', baseUrl: 'https://chat.example/backend-api/codex' },
  );
  assert.match(asked.url, /\/codex\/models\?client_version=/);
  assert.deepEqual(models.map(brief), [
    { id: 'gpt-x', label: 'GPT X', levels: 'OFF,LOW,XHIGH', standard: 'LOW', window: 272_000 },
  ]);
});

test('Anthropic, Google, Antigravity and others each list in their own way', async () => {
  const anthropic = await rows('anthropic', {
    data: [{ id: 'claude-sonnet-4-5', display_name: 'Claude Sonnet 4.5', max_input_tokens: 1_000_000 }],
  });
  assert.deepEqual(
    [
      anthropic.asked.headers['x-api-key'],
      anthropic.asked.headers.authorization,
      anthropic.asked.headers['anthropic-version'],
    ],
    ['k', undefined, '2023-06-01'],
  );
  assert.deepEqual(anthropic.models.map(brief), [
    {
      id: 'claude-sonnet-4-5',
      label: 'Claude Sonnet 4.5',
      levels: 'OFF,MINIMAL,LOW,MEDIUM,HIGH',
      standard: 'MEDIUM',
      window: 1_000_000,
    },
  ]);

  const google = await rows('google', {
    models: [
      {
        name: 'models/gemini-9',
        displayName: 'Gemini 9',
        inputTokenLimit: 5,
        thinking: true,
        supportedGenerationMethods: ['generateContent'],
      },
      { name: 'models/embedder', supportedGenerationMethods: ['embedContent'] },
    ],
  });
  assert.equal(google.asked.headers['x-goog-api-key'], 'k');
  assert.ok(!google.asked.url.includes('k='), 'the key is never part of an address');
  assert.deepEqual(
    google.models.map(({ id, contextWindowTokens }) => [id, contextWindowTokens]),
    [['gemini-9', 5]],
  );

  const antigravity = await rows(
    'antigravity',
    { models: { 'gemini-3-pro-high': { displayName: 'Gemini 3 Pro', maxTokens: 9 } } },
    { kind: 'oauth', project: 'p' },
  );
  assert.equal(antigravity.asked.body, '{"project":"p"}');
  assert.deepEqual(
    antigravity.models.map(({ id, label }) => [id, label]),
    [['gemini-3-pro-high', 'Gemini 3 Pro']],
  );

  const compatible = await rows('compatible', { data: [{ id: 'local', max_model_len: 4_096 }] }, { token: '' });
  assert.equal(compatible.asked.headers.authorization, undefined);
  assert.deepEqual(compatible.models.map(brief), [
    { id: 'local', label: 'local', levels: 'OFF', standard: 'OFF', window: 4_096 },
  ]);
});

test('long descriptions are cut, long ids and repeated rows left out', async () => {
  const entry = (id: string) => ({ id, name: 'N', description: 'word '.repeat(1_000) });
  const { models } = await rows('openrouter', {
    data: [entry('a/b'), entry('a/b'), entry('x'.repeat(500)), null, 'z'],
  });
  assert.deepEqual(
    models.map(({ id }) => id),
    ['a/b'],
  );
  assert.ok(models[0]!.description.length <= 241);
  assert.ok(models[0]!.description.endsWith('…'));
});

test('an answer that is no list fails with the provider’s host and nothing of the request', async () => {
  for (const [body, status] of [
    ['<html>', 200],
    [{ data: [] }, 200],
    [{ data: 'models' }, 200],
    [{ error: { message: 'over\nquota' } }, 429],
  ] as const) {
    const { fetch } = answering(body, status);
    await assert.rejects(fetchModels('compatible', ACCESS, { fetch }), {
      code: 'provider_error',
      message: /^api\.example/,
    });
  }
});

test('a key is refused by 401 and 403, and by Google with 400; anything else says nothing about it', async () => {
  const verdict = async (provider: 'openai' | 'google', status: number) =>
    (await verifyKey(provider, ACCESS, { fetch: answering({ data: [] }, status).fetch })).verified;
  assert.deepEqual(await Promise.all([200, 400, 401, 403, 404, 429, 500].map((status) => verdict('openai', status))), [
    true,
    null,
    false,
    false,
    null,
    null,
    null,
  ]);
  assert.equal(await verdict('google', 400), false);
});

test('a level the model lacks gives its default, then the middle one of those it has', () => {
  const option = { id: 'm', provider: 'openai', label: 'm', description: 'm' } as const;
  assert.equal(
    thinkingFor({ ...option, supportedThinkingLevels: ['LOW', 'HIGH'], defaultThinkingLevel: 'LOW' }, 'OFF'),
    'LOW',
  );
  assert.equal(thinkingFor({ ...option, supportedThinkingLevels: ['LOW', 'MEDIUM', 'HIGH'] }, 'OFF'), 'MEDIUM');
  assert.equal(thinkingFor(option, 'xhigh'), 'XHIGH');
  assert.equal(thinkingFor(undefined, 'bogus'), 'HIGH');
});
