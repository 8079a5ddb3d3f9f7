/** Addresses and keys: the environment over the configuration over the defaults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveEndpoints } from '../../../../src/control/providers/http/endpoints.ts';

test('the environment wins over the configuration, which wins over the default', () => {
  const config = {
    openai: { baseUrl: 'https://config.example/v1/', apiKeyEnv: 'MY_KEY' },
    compatible: { models: ['m'] },
  };
  const plain = resolveEndpoints(config, { OPENAI_API_KEY: 'not asked for', MY_KEY: ' mine ' });
  assert.deepEqual(plain.api.openai, {
    baseUrl: 'https://config.example/v1',
    key: 'mine',
    keyEnvs: ['MY_KEY'],
    keyEnv: 'MY_KEY',
  });
  assert.deepEqual(plain.api.anthropic, {
    baseUrl: 'https://api.anthropic.com/v1',
    key: undefined,
    keyEnvs: ['ANTHROPIC_API_KEY'],
    keyEnv: undefined,
  });
  assert.equal(plain.api.compatible.baseUrl, undefined);
  assert.equal(plain.api.compatible.key, undefined);
  const { api } = resolveEndpoints(config, {
    OPENAI_BASE_URL: 'http://127.0.0.1:8080/v1',
    ANTHROPIC_API_KEY: 'a',
    GOOGLE_GENERATIVE_AI_API_KEY: 'g',
    OPENROUTER_API_KEY: '  ',
  });
  assert.equal(api.openai.baseUrl, 'http://127.0.0.1:8080/v1');
  assert.deepEqual([api.anthropic.key, api.google.key, api.openrouter.key], ['a', 'g', undefined]);
});

test('the key of Google is read under each of the names it has elsewhere', () => {
  for (const name of ['GOOGLE_GENERATIVE_AI_API_KEY', 'GEMINI_API_KEY', 'GOOGLE_API_KEY']) {
    const { key, keyEnv } = resolveEndpoints({}, { [name]: 'g' }).api.google;
    assert.deepEqual([key, keyEnv], ['g', name]);
  }
});

test('tokens of another sign-in service never go to the real API by default', () => {
  const real = resolveEndpoints({}, {});
  assert.equal(real.openai.chatgptUrl, 'https://chatgpt.com/backend-api');
  assert.equal(real.antigravity.cloudCodeUrl, 'https://cloudcode-pa.googleapis.com');
  const other = resolveEndpoints(
    {},
    { HANDFAST_OPENAI_ISSUER: 'https://id.example/', HANDFAST_GOOGLE_ISSUER: 'https://g.example' },
  );
  assert.equal(other.openai.chatgptUrl, 'https://id.example/backend-api');
  assert.equal(other.antigravity.cloudCodeUrl, 'https://g.example');
});

test('an address that is none is refused by the name it was given under, and not repeated', () => {
  const refusal = (name: string) => ({ code: 'config_invalid', message: new RegExp(`^${name} must be an http`) });
  assert.throws(
    () => resolveEndpoints({}, { OPENAI_BASE_URL: 'https://user:secret@api.example' }),
    (error: Error) => {
      assert.ok(error.message.startsWith('OPENAI_BASE_URL must be'));
      assert.ok(!error.message.includes('secret'));
      return true;
    },
  );
  assert.throws(
    () => resolveEndpoints({ google: { baseUrl: 'gopher://x' } }, {}),
    refusal('providers\\.google\\.base_url'),
  );
  assert.throws(() => resolveEndpoints({}, { HANDFAST_GOOGLE_ISSUER: 'x' }), refusal('HANDFAST_GOOGLE_ISSUER'));
});
