/** limits.get: both accounts at once, each answering for itself. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { HandfastError } from '../../../../src/wire/errors.ts';
import { startLoginService } from '../../support/login-service.ts';
import { openSettings } from '../open-settings.ts';

async function connected(t: TestContext, options: Parameters<typeof openSettings>[1] = {}) {
  const login = await startLoginService();
  t.after(() => login[Symbol.asyncDispose]());
  const opened = await openSettings(t, { env: login.env, wait: async () => {}, ...options });
  await opened.call('auth.connect.openai', { mode: 'device_code' });
  return { ...opened, login };
}

const OPENAI = {
  ok: true,
  snapshot: {
    planType: 'plus',
    primary: {
      usedPercent: 12.5,
      remainingPercent: 87.5,
      limitWindowSeconds: 18_000,
      resetAtEpochSeconds: 1_900_000_000,
    },
    secondary: {
      usedPercent: 40,
      remainingPercent: 60,
      limitWindowSeconds: 604_800,
      resetAtEpochSeconds: 1_900_500_000,
    },
  },
};

test('limits need a sign-in; a key is none', async (t) => {
  const { call, settings } = await openSettings(t, {
    env: { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' },
  });
  await settings.started;
  await assert.rejects(call('limits.get'), {
    code: 'not_configured',
    message: 'limits requires at least one oauth provider',
  });
});

test('one account connected: its windows, and null for the other', async (t) => {
  const { call } = await connected(t);
  assert.deepEqual(await call('limits.get'), { openai: OPENAI, antigravity: null });
});

test('both connected: quotas by model; one that fails does not fail the other', async (t) => {
  const { call, event, login } = await connected(t);
  await event('auth.flow.url');
  const answer = call('auth.connect.antigravity');
  await login.browse((await event('auth.flow.url')).payload.url);
  await answer;
  const antigravity = {
    ok: true,
    snapshot: {
      models: [
        { name: 'Claude Sonnet 4.5', remainingPercent: 0, resetTime: '2030-01-02T00:00:00Z' },
        { name: 'Gemini 3 Pro', remainingPercent: 75, resetTime: '2030-01-01T00:00:00Z' },
      ],
    },
  };
  assert.deepEqual(await call('limits.get'), { openai: OPENAI, antigravity });

  login.behaviour.usageStatus = 503;
  const { host } = new URL(login.url);
  assert.deepEqual(await call('limits.get'), {
    openai: { ok: false, message: `${host}: unavailable` },
    antigravity,
  });
  login.behaviour.usageStatus = 200;
  login.behaviour.cloudStatus = 500;
  const { openai, antigravity: failed } = await call('limits.get');
  assert.deepEqual([openai, failed.ok], [OPENAI, false]);
});

test('weakness 22: limits.get ends when its request is given up', async (t) => {
  const hanging = Promise.withResolvers<void>();
  const { call } = await connected(t, {
    fetch: (input, init) => {
      if (!String(input).endsWith('/wham/usage')) return fetch(input, init);
      hanging.resolve();
      return new Promise((_resolve, reject) => {
        init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason));
      });
    },
  });
  const request = new AbortController();
  const answer = assert.rejects(call('limits.get', undefined, { signal: request.signal }), { code: 'cancelled' });
  await hanging.promise;
  request.abort(new HandfastError('cancelled', 'given up'));
  await answer;
});
