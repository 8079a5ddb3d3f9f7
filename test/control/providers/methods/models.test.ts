/** Keys, model lists and the choice of a model, against a catalogue in OpenRouter's shape. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ModelChoice } from '../../../../src/control/contract/providers.ts';
import { HandfastError } from '../../../../src/wire/errors.ts';
import { type ProviderCatalogue, startProviderCatalogue } from '../../support/provider-catalogue.ts';
import { KNOWN_SESSION, type OpenSettings, openSettings } from '../open-settings.ts';

async function catalogue(t: TestContext): Promise<ProviderCatalogue> {
  const started = await startProviderCatalogue();
  t.after(() => started[Symbol.asyncDispose]());
  return started;
}

/** Opens settings with a key for the catalogue, whose list has been read. */
async function withKey(t: TestContext, options: Parameters<typeof openSettings>[1] = {}) {
  const provider = await catalogue(t);
  const opened = await openSettings(t, { env: provider.env, ...options });
  await opened.call('auth.set.openrouter_key', { api_key: ' demo-key ' });
  return { ...opened, provider };
}

const refused = (code: string, message: string, detail?: object) => (error: HandfastError) => {
  assert.deepEqual([error.code, error.message], [code, message]);
  if (detail !== undefined) assert.deepEqual(error.detail, detail);
  return true;
};

const ROWS = [
  {
    id: 'demo/alpha',
    provider: 'openrouter',
    label: 'Alpha',
    description: 'The first of two models.',
    supportedThinkingLevels: ['OFF', 'MINIMAL', 'LOW', 'MEDIUM', 'HIGH'],
    defaultThinkingLevel: 'MEDIUM',
    routingProviders: ['provx', 'provy'],
    contextWindowTokens: 32_000,
  },
  {
    id: 'demo/beta',
    provider: 'openrouter',
    label: 'Beta',
    description: 'Beta on OpenRouter',
    supportedThinkingLevels: ['OFF'],
    defaultThinkingLevel: 'OFF',
    routingProviders: [],
    contextWindowTokens: 8_000,
  },
];

test('a key is stored and checked, the list is read, and nothing is chosen by it', async (t) => {
  const provider = await catalogue(t);
  const { call, events } = await openSettings(t, { env: provider.env });
  assert.deepEqual(await call('auth.set.openrouter_key', { api_key: ' demo-key ' }), {
    configured: true,
    model_count: 2,
    source: 'remote',
    verified: true,
  });
  assert.equal(events.length, 1);
  const { reason, snapshot } = events[0]!.payload;
  assert.equal(reason, 'openrouter_key_updated');
  assert.deepEqual(snapshot.auth.enabledProviders, ['openrouter']);
  assert.equal(snapshot.auth.hasOpenRouterKey, true);
  assert.deepEqual(snapshot.model, {
    selectedModel: '',
    selectedThinking: 'HIGH',
    selectedOpenRouterProvider: 'any',
    selectedProvider: null,
  });
});

test('model.list has the rows of the provider and asks no network', async (t) => {
  const { call, provider } = await withKey(t);
  const asked = provider.requests.length;
  const list = await call('model.list', { provider: 'openrouter' });
  assert.deepEqual(list, {
    providers: ['openrouter'],
    models: ROWS,
    selected_model: '',
    selected_thinking: 'HIGH',
    selected_provider: null,
    selected_openrouter_provider: 'any',
  });
  assert.deepEqual((await call('model.list')).models, ROWS);
  assert.ok(
    (await call('model.list', { provider: ' openai ' })).models.length > 0,
    'not enabled, but listed when asked for',
  );
  assert.equal(provider.requests.length, asked);
  await assert.rejects(
    call('model.list', { provider: 'other' }),
    refused('schema_violation', 'provider must be one of: openai, openrouter, antigravity', { field: 'provider' }),
  );
});

test('without credentials nothing is enabled and nothing is listed', async (t) => {
  const { call, settings } = await openSettings(t);
  assert.deepEqual(await call('model.list'), {
    providers: [],
    models: [],
    selected_model: '',
    selected_thinking: 'HIGH',
    selected_provider: null,
    selected_openrouter_provider: 'any',
  });
  assert.equal(settings.configured, false);
  await assert.rejects(
    call('model.openrouter.providers', { model_id: 'a/b' }),
    refused('not_configured', 'openrouter api key is not configured'),
  );
});

test('a wrong key is kept, as the protocol has it, but told apart', async (t) => {
  const provider = await catalogue(t);
  provider.behaviour.key = 'right-key';
  const { call } = await openSettings(t, { env: provider.env });
  const wrong = await call('auth.set.openrouter_key', { api_key: 'wrong-key' });
  const { host } = new URL(provider.baseUrl);
  // The parts of the key that the provider repeats are not repeated further.
  assert.deepEqual(wrong, {
    configured: true,
    model_count: 1,
    source: 'fallback',
    verified: false,
    message: `${host}: No such key: ***`,
  });
  assert.equal((await call('auth.set.openrouter_key', { api_key: 'right-key' })).verified, true);
  const again = await call('auth.set.openrouter_key', { api_key: 'wrong-key' });
  assert.deepEqual([again.source, again.model_count, again.verified], ['cache', 2, false]);
});

test('a key that cannot be checked now is neither right nor wrong', async (t) => {
  const provider = await catalogue(t);
  provider.behaviour.up = false;
  const { call } = await openSettings(t, { env: provider.env });
  const { verified, source, message } = await call('auth.set.openrouter_key', { api_key: 'k' });
  assert.deepEqual([verified, source], [null, 'fallback']);
  assert.match(message, /down/);
  const { settings } = await openSettings(t, {
    env: { OPENROUTER_BASE_URL: 'http://127.0.0.1:1', OPENROUTER_API_KEY: 'k' },
  });
  await settings.started;
  assert.equal(settings.configured, true);
});

test('giving up while a key is checked leaves the key, and says that it is there', async (t) => {
  const gone = new AbortController();
  const { call, events } = await openSettings(t, {
    env: { OPENROUTER_BASE_URL: 'http://127.0.0.1:1' },
    fetch: () => {
      gone.abort(new HandfastError('cancelled', 'given up'));
      return Promise.reject(new Error('aborted'));
    },
  });
  await assert.rejects(call('auth.set.openrouter_key', { api_key: 'k' }, { signal: gone.signal }), {
    code: 'cancelled',
  });
  assert.equal(events[0]!.payload.reason, 'openrouter_key_updated');
  assert.equal((await call('auth.status')).has_openrouter_key, true);
});

test('the Exa key is stored, and removed by the word skip', async (t) => {
  const { call, events, settings } = await openSettings(t);
  assert.deepEqual(await call('auth.set.exa_key', { api_key: ' demo ' }), { configured: true, skipped: false });
  assert.equal(settings.exaKey(), 'demo');
  assert.deepEqual(await call('auth.set.exa_key', { api_key: ' SKIP ' }), { configured: false, skipped: true });
  assert.equal(settings.exaKey(), undefined);
  assert.deepEqual(
    events.map(({ payload }) => payload.reason),
    ['exa_key_updated', 'exa_key_skipped'],
  );
});

test('who serves a model is asked on demand; an id without an author belongs to none', async (t) => {
  const { call, provider } = await withKey(t);
  assert.deepEqual(await call('model.openrouter.providers', { model_id: 'demo/alpha' }), {
    model_id: 'demo/alpha',
    providers: ['provx', 'provy'],
  });
  const asked = provider.requests.length;
  for (const id of ['plain', 'a/b/c', '../key', 'demo/..']) {
    assert.deepEqual((await call('model.openrouter.providers', { model_id: id })).providers, []);
  }
  assert.equal(provider.requests.length, asked);
  await assert.rejects(call('model.openrouter.providers', { model_id: 'demo/gone' }), { code: 'provider_error' });
});

test('weakness 15: a level the model lacks is replaced by its default, and the answer says so', async (t) => {
  const { call, events } = await withKey(t);
  const select = (params: object) => call('model.select', { provider: 'openrouter', ...params });
  assert.deepEqual(await select({ model_id: 'demo/beta', thinking_level: 'HIGH' }), {
    selected_model: 'demo/beta',
    selected_provider: 'openrouter',
    selected_thinking: 'OFF',
    selected_openrouter_provider: 'any',
    replaced_thinking: 'HIGH',
  });
  assert.equal(events.at(-1)!.payload.reason, 'model_selected');
  assert.deepEqual(events.at(-1)!.payload.snapshot.model, {
    selectedModel: 'demo/beta',
    selectedThinking: 'OFF',
    selectedOpenRouterProvider: 'any',
    selectedProvider: 'openrouter',
  });
  assert.deepEqual(
    await select({ model_id: ' demo/alpha ', thinking_level: 'BOGUS', openrouter_provider: ' ProvX ' }),
    {
      selected_model: 'demo/alpha',
      selected_provider: 'openrouter',
      selected_thinking: 'MEDIUM',
      selected_openrouter_provider: 'provx',
      replaced_thinking: 'BOGUS',
    },
  );
  // Left out, the routing provider goes back to any; a level the model has is used and nothing is replaced.
  assert.deepEqual(await select({ model_id: 'demo/alpha', thinking_level: 'low' }), {
    selected_model: 'demo/alpha',
    selected_provider: 'openrouter',
    selected_thinking: 'LOW',
    selected_openrouter_provider: 'any',
  });
});

test('weakness 15: model.select looks at everything before it changes anything', async (t) => {
  const { call, events, settings } = await withKey(t, {
    compress: (id) => Promise.reject(new HandfastError('provider_error', `no summary for ${id}`)),
  });
  await call('model.select', { model_id: 'demo/beta', provider: 'openrouter', thinking_level: 'OFF' });
  const before = settings.snapshotParts().model;
  const told = events.length;
  const select = (params: object) =>
    call('model.select', { model_id: 'demo/alpha', provider: 'openrouter', thinking_level: 'LOW', ...params });
  await assert.rejects(
    select({ provider: 'x', thinking_level: undefined }),
    refused('schema_violation', 'provider must be openai, openrouter, or antigravity', { field: 'provider' }),
  );
  await assert.rejects(
    select({ model_id: 'm' }),
    refused('not_found', 'unknown model for provider openrouter: m', { provider: 'openrouter', model: 'm' }),
  );
  await assert.rejects(
    select({ compress_immediately: true }),
    refused('runtime_error', 'session_id is required when compress_immediately is true'),
  );
  await assert.rejects(
    select({ compress_immediately: true, session_id: 'nope' }),
    refused('session_not_found', 'unknown session: nope'),
  );
  await assert.rejects(
    select({ compress_immediately: true, session_id: KNOWN_SESSION }),
    refused('provider_error', `no summary for ${KNOWN_SESSION}`),
  );
  assert.deepEqual(settings.snapshotParts().model, before);
  assert.equal(events.length, told);
});

test('compress_immediately compresses for the model that was asked for, and answers what came of it', async (t) => {
  const asked: [string, ModelChoice][] = [];
  const { call } = await withKey(t, {
    async compress(id, choice) {
      asked.push([id, choice]);
      return {
        compressed: asked.length > 1,
        reason: 'manual',
        estimated_tokens_before: 0,
        estimated_tokens_after: 0,
        model_context_window: 32_000,
        target_limit: 26_240,
        anchor_event_index_before: 0,
        anchor_event_index_after: 0,
      };
    },
  });
  const select = () =>
    call('model.select', {
      ...{ model_id: 'demo/alpha', provider: 'openrouter', thinking_level: 'LOW' },
      ...{ compress_immediately: true, session_id: KNOWN_SESSION },
    });
  assert.deepEqual((await select()).compression, {
    requested: true,
    applied: false,
    reason: 'none',
    estimated_tokens_before: 0,
    estimated_tokens_after: 0,
    model_context_window: 32_000,
    target_limit: 26_240,
    anchor_event_index_before: 0,
    anchor_event_index_after: 0,
  });
  assert.equal(asked[0]![0], KNOWN_SESSION);
  assert.deepEqual([asked[0]![1].model, asked[0]![1].option?.contextWindowTokens], ['demo/alpha', 32_000]);
  assert.deepEqual((await select()).compression.reason, 'auto');
});

test('weakness 13: a session with a choice of its own keeps it when another model is selected', async (t) => {
  const { call, settings } = await withKey(t);
  await call('model.select', { model_id: 'demo/beta', provider: 'openrouter', thinking_level: 'OFF' });
  const own = settings.choose({ model: 'demo/alpha', provider: 'openrouter', thinking: 'HIGH' })!;
  assert.deepEqual([own.model, own.thinking, own.option?.label], ['demo/alpha', 'HIGH', 'Alpha']);
  assert.deepEqual([settings.choose({})!.model, settings.choose({})!.thinking], ['demo/beta', 'OFF']);
  // A level alone is a choice too; one the model lacks falls back as in model.select.
  await call('model.select', {
    ...{ model_id: 'demo/alpha', provider: 'openrouter', thinking_level: 'LOW', openrouter_provider: 'provy' },
    session_id: KNOWN_SESSION,
  });
  assert.deepEqual([settings.choose({ thinking: 'HIGH' })!.thinking, settings.choose({})!.thinking], ['HIGH', 'LOW']);
  assert.equal(settings.choose({ thinking: 'XHIGH' })!.thinking, 'MEDIUM');
  assert.equal(settings.choose({})!.openRouterProvider, 'provy');
  // The routing provider belongs to the model it was chosen for.
  assert.equal(settings.choose({ model: 'demo/beta' })!.openRouterProvider, 'any');
  assert.equal(settings.choose({ model: 'demo/beta' })!.provider, 'openrouter');
  assert.equal(settings.choose({ openRouterProvider: 'provx' })!.openRouterProvider, 'provx');
});

test('a choice that cannot be used is refused in the protocol’s words', async (t) => {
  const { settings, call } = await openSettings(t);
  const check: (choice: ModelChoice | undefined) => void = settings.check.bind(settings);
  assert.equal(settings.choose({}), undefined);
  assert.throws(() => check(undefined), refused('not_configured', 'select a model from an enabled provider first'));
  await call('model.select', { model_id: 'gpt-5.2', provider: 'openai', thinking_level: 'HIGH' });
  assert.throws(() => check(settings.choose({})), refused('not_configured', 'provider openai is not enabled'));
  await assert.rejects(
    settings.access('openai'),
    refused('not_configured', 'openai model selected, but no chatgpt oauth token is available'),
  );
  await assert.rejects(
    settings.access('openrouter'),
    refused('not_configured', 'openrouter model selected, but no openrouter api key is available'),
  );
  await assert.rejects(
    settings.access('antigravity'),
    refused('not_configured', 'antigravity model selected, but no antigravity oauth token is available'),
  );
});

test('lists are stored over a restart and read again when they are a day old', async (t) => {
  let now = Date.parse('2030-01-01T00:00:00Z');
  const first = await withKey(t, { now: () => now });
  await first.settings.stop();
  const { home, provider } = first;
  const restart = async (): Promise<OpenSettings> => {
    const opened = await openSettings(t, { home, env: provider.env, now: () => now });
    await opened.settings.started;
    return opened;
  };
  const asked = provider.requests.length;
  const second = await restart();
  assert.deepEqual((await second.call('model.list')).models, ROWS);
  assert.equal(provider.requests.length, asked);
  await second.settings.stop();

  now += 25 * 3_600_000;
  const third = await restart();
  assert.ok(provider.requests.slice(asked).includes('/models'));
  await third.settings.stop();

  // Out of reach, the old list still serves.
  now += 25 * 3_600_000;
  provider.behaviour.up = false;
  assert.deepEqual((await (await restart()).call('model.list')).models, ROWS);
});

test('keys in the environment enable their providers; the configuration says which variable', async (t) => {
  const provider = await catalogue(t);
  const { call, settings } = await openSettings(t, {
    env: { ...provider.env, MY_ROUTER_KEY: 'from-env' },
    config: {
      openrouter: { apiKeyEnv: 'MY_ROUTER_KEY' },
      compatible: { baseUrl: 'http://127.0.0.1:1/v1/', models: ['m'] },
    },
  });
  await settings.started;
  assert.deepEqual((await call('auth.status')).enabled_providers, ['openrouter', 'compatible']);
  assert.equal((await settings.access('openrouter')).token, 'from-env');
  assert.deepEqual(await settings.access('compatible'), {
    baseUrl: 'http://127.0.0.1:1/v1',
    token: '',
    kind: 'api_key',
    headers: {},
  });
  const { models } = await call('model.list');
  assert.deepEqual(
    models.map(({ id }: { id: string }) => id),
    ['demo/alpha', 'demo/beta', 'm'],
  );
  // Nothing is stored, so nothing can be removed.
  assert.deepEqual(await call('auth.logout', { provider: 'openrouter' }), { provider: 'openrouter', removed: false });
});

test('any provider takes a key and an address of its own; the wrong ones are refused by field', async (t) => {
  const provider = await catalogue(t);
  const { call, settings, events } = await openSettings(t);
  const set = (params: object) => call('auth.set.api_key', { api_key: 'k', ...params });
  assert.deepEqual(await set({ provider: 'compatible', base_url: `${provider.baseUrl}/` }), {
    provider: 'compatible',
    configured: true,
    verified: true,
    model_count: 3,
  });
  assert.equal(events.at(-1)!.payload.reason, 'api_key_updated');
  assert.equal((await settings.access('compatible')).baseUrl, provider.baseUrl);
  for (const [params, field] of [
    [{ provider: 'other' }, 'provider'],
    [{ provider: 'antigravity' }, 'provider'],
    [{ provider: 'openai', base_url: 'ftp://files.example' }, 'base_url'],
    [{ provider: 'openai', base_url: 'https://user:password@api.example' }, 'base_url'],
  ] as const) {
    await assert.rejects(set(params), (error: HandfastError) => {
      assert.deepEqual([error.code, error.detail], ['schema_violation', { field }]);
      assert.ok(!error.message.includes('password'));
      return true;
    });
  }
  assert.deepEqual(await call('auth.logout', { provider: 'compatible' }), { provider: 'compatible', removed: true });
  await assert.rejects(set({ provider: 'compatible' }), { code: 'schema_violation' });
});

test('a key alone gives a default model; the status says what decided, and never holds a key', async (t) => {
  const provider = await catalogue(t);
  const env = { ...provider.env, OPENROUTER_API_KEY: 'demo-key' };
  const opened = await openSettings(t, { env });
  const status = await opened.call('model.status', {});
  const choice = { provider: 'openrouter', model: 'demo/alpha', thinking: 'HIGH', source: 'credential', usable: true };
  assert.deepEqual(status.choice, choice);
  const row = status.providers.find((one: { provider: string }) => one.provider === 'openrouter');
  assert.deepEqual(row, {
    provider: 'openrouter',
    usable: true,
    credential: 'environment',
    variables: ['OPENROUTER_API_KEY'],
    signs_in: false,
    default_model: 'demo/alpha',
    model_count: 2,
    audio: true,
    allowed: true,
  });
  assert.ok(!JSON.stringify(status).includes('demo-key'));
  // A stored choice wins over the default, the session over both.
  await opened.call('model.select', { model_id: 'demo/beta', provider: 'openrouter', thinking_level: 'off' });
  assert.deepEqual(opened.settings.choose({})?.model, 'demo/beta');
  assert.equal((await opened.call('model.status', {})).choice.source, 'stored');
  assert.equal(opened.settings.choose({ model: 'demo/alpha' })?.model, 'demo/alpha');
});

test('the model of the configuration wins over the stored one, and is read as ID or PROVIDER/ID', async (t) => {
  const provider = await catalogue(t);
  const env = {
    ...provider.env,
    OPENROUTER_API_KEY: 'demo-key',
    ANTHROPIC_API_KEY: 'a',
    ANTHROPIC_BASE_URL: provider.env.OPENROUTER_BASE_URL!,
  };
  const { settings, call } = await openSettings(t, { env, model: 'demo/beta' });
  await settings.started;
  await call('model.select', { model_id: 'demo/alpha', provider: 'openrouter', thinking_level: 'off' });
  const { choice } = await call('model.status', {});
  assert.deepEqual([choice.provider, choice.model, choice.source], ['openrouter', 'demo/beta', 'file']);
  const named = (model: string) => {
    const { provider: name, model: id } = settings.choose({ model })!;
    return `${name} ${id}`;
  };
  assert.equal(named('demo/alpha'), 'openrouter demo/alpha');
  assert.equal(named('openrouter/demo/alpha'), 'openrouter demo/alpha');
  // Not in a list: the provider that is named, else the family of the name.
  assert.equal(named('anthropic/claude-9'), 'anthropic claude-9');
  assert.equal(named('claude-9'), 'anthropic claude-9');
  // Named, but without a key: said so, and not sent elsewhere.
  assert.equal(named('google/gemini-9'), 'google gemini-9');
});
