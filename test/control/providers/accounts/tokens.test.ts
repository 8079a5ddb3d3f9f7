/**
 * Tokens of sign-ins: renewed in time, once, for all callers, and never against a sign-out.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { HandfastError } from '../../../../src/wire/errors.ts';
import { type LoginService, startLoginService } from '../../support/login-service.ts';
import { type OpenSettings, openSettings } from '../open-settings.ts';

/** Opens settings that have signed in to OpenAI, on a separate clock. */
async function signedIn(t: TestContext): Promise<OpenSettings & { login: LoginService; clock: { ahead: number } }> {
  const login = await startLoginService();
  t.after(() => login[Symbol.asyncDispose]());
  const clock = { ahead: 0 };
  const opened = await openSettings(t, {
    env: login.env,
    now: () => Date.now() + clock.ahead,
    wait: async () => {},
  });
  await opened.call('auth.connect.openai', { mode: 'device_code' });
  return { ...opened, login, clock };
}

const refreshes = (login: LoginService): number =>
  login.requests.filter((line) => line === 'POST /oauth/token').length - 1;

test('a token that is about to end is renewed once, however many ask for it', async (t) => {
  const { settings, login, clock } = await signedIn(t);
  const first = await settings.access('openai');
  assert.equal((await settings.access('openai')).token, first.token);
  assert.equal(first.baseUrl, `${login.url}/backend-api/codex`);
  clock.ahead = 3_590_000;
  const renewed = await Promise.all([1, 2, 3].map(() => settings.access('openai')));
  assert.equal(refreshes(login), 1);
  assert.equal(new Set(renewed.map(({ token }) => token)).size, 1);
  assert.notEqual(renewed[0]!.token, first.token);
  assert.equal(renewed[0]!.headers['chatgpt-account-id'], 'acct-1');
  // The refresh token was replaced by the next one, so it works a second time.
  clock.ahead += 3_600_000;
  await settings.access('openai');
  assert.equal(refreshes(login), 2);
});

test('a renewed token survives a restart', async (t) => {
  const { settings, login, clock, home } = await signedIn(t);
  clock.ahead = 3_600_000;
  const { token } = await settings.access('openai');
  await settings.stop();
  const again = await openSettings(t, { home, env: login.env, now: () => Date.now() + clock.ahead });
  assert.equal((await again.settings.access('openai')).token, token);
});

test('who gives up waiting for a renewal does not spoil it for the others', async (t) => {
  const { settings, login, clock } = await signedIn(t);
  clock.ahead = 3_600_000;
  const gate = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  login.behaviour.refreshed = () => {
    asked.resolve();
    return gate.promise;
  };
  const impatient = new AbortController();
  const given = assert.rejects(settings.access('openai', impatient.signal), { code: 'cancelled' });
  const patient = settings.access('openai');
  await asked.promise;
  impatient.abort(new HandfastError('cancelled', 'given up'));
  await given;
  gate.resolve();
  assert.match((await patient).token, /^access-/);
  assert.equal(refreshes(login), 1);
});

test('a sign-in whose refresh token is refused has ended, and says so', async (t) => {
  const { settings, login, clock, logs } = await signedIn(t);
  clock.ahead = 3_600_000;
  login.behaviour.refuseRefresh = true;
  await assert.rejects(settings.access('openai'), {
    code: 'login_failed',
    message: 'the sign-in to openai has ended; sign in again',
  });
  assert.ok(logs.some(({ message }) => message === 'a sign-in could not be renewed'));
  assert.ok(!JSON.stringify(logs).includes('refresh-'));
});

test('a sign-out wins over a renewal that is under way, and is sent to the service', async (t) => {
  const { settings, login, clock, call, events } = await signedIn(t);
  clock.ahead = 3_600_000;
  const gate = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  login.behaviour.refreshed = () => {
    asked.resolve();
    return gate.promise;
  };
  const access = assert.rejects(settings.access('openai'), {
    code: 'not_configured',
    message: 'openai model selected, but no chatgpt oauth token is available',
  });
  await asked.promise;
  assert.deepEqual(await call('auth.logout', { provider: 'openai' }), { provider: 'openai', removed: true });
  assert.equal(events.at(-1)!.payload.reason, 'auth_logged_out');
  assert.ok(login.requests.includes('POST /oauth/revoke'));
  gate.resolve();
  await access;
  assert.equal(login.refreshTokens.size, 0, 'the renewed token is revoked as well');
  assert.equal((await call('auth.status')).has_openai_token, false);
  assert.deepEqual(await call('auth.logout', { provider: 'openai' }), { provider: 'openai', removed: false });
});

test('a sign-out succeeds where the service cannot be reached', async (t) => {
  const { login, call, logs } = await signedIn(t);
  await login[Symbol.asyncDispose]();
  assert.deepEqual(await call('auth.logout', { provider: 'openai' }), { provider: 'openai', removed: true });
  assert.ok(logs.some(({ message }) => /could not be revoked/.test(message)));
});
