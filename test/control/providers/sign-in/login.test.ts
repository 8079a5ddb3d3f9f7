/** Sign-ins: their events in order, every way they end, and that nothing of them is left behind. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isHeadless } from '../../../../src/control/providers/sign-in/openai-login.ts';
import { HandfastError } from '../../../../src/wire/errors.ts';
import { temporaryFolder } from '../../../host/temporary-folder.ts';
import { type LoginService, PROFILE, startLoginService } from '../../support/login-service.ts';
import { openSettings } from '../open-settings.ts';

async function service(t: TestContext): Promise<LoginService> {
  const started = await startLoginService();
  t.after(() => started[Symbol.asyncDispose]());
  return started;
}

/** Makes a clock whose time passes only when a caller waits. */
function virtualTime() {
  let time = Date.parse('2030-01-01T00:00:00Z');
  const waits: number[] = [];
  return {
    waits,
    now: () => time,
    wait: async (ms: number, signal: AbortSignal) => {
      signal.throwIfAborted();
      waits.push(ms);
      time += ms;
    },
  };
}

const isError = (code: string, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof HandfastError);
  assert.equal(error.code, code);
  assert.match(error.message, message);
  return true;
};

/**
 * Asserts that the page of a sign-in is closed. Another server may have its port by now: for that server, the state of this
 * sign-in is wrong.
 */
async function assertClosed(address: string): Promise<void> {
  const { searchParams } = new URL(address);
  const visit = `${searchParams.get('redirect_uri')}?error=late&state=${searchParams.get('state')}`;
  const status = await fetch(visit).then(
    (response) => response.status,
    () => 'no server',
  );
  assert.ok(['no server', 400, 404].includes(status), `the page answers ${status}`);
}

test('a sign-in by device code tells url, code and completion before it answers', async (t) => {
  const login = await service(t);
  login.behaviour.pollsBefore = 2;
  const { now, wait, waits } = virtualTime();
  const { call, events, settings } = await openSettings(t, { env: login.env, now, wait });
  const result = await call('auth.connect.openai', { mode: 'device_code', originator: 'demo' });
  assert.deepEqual(result, { provider: 'openai', login_method: 'device_code', account_id: 'acct-1' });
  assert.deepEqual(
    events.map(({ type, payload }) => (type === 'state.changed' ? [type, payload.reason] : [type, payload])),
    [
      ['auth.flow.started', { provider: 'openai' }],
      ['auth.flow.url', { provider: 'openai', url: `${login.url}/codex/device` }],
      [
        'auth.flow.device_code',
        {
          provider: 'openai',
          verification_url: `${login.url}/codex/device`,
          user_code: 'ABCD-1234',
          interval_seconds: 1,
          expires_in_seconds: 900,
        },
      ],
      ['auth.flow.completed', result],
      ['state.changed', 'auth_openai_connected'],
    ],
  );
  assert.deepEqual(waits, [1_000, 1_000, 1_000]);
  const { snapshot } = events.at(-1)!.payload;
  assert.equal(snapshot.auth.hasOpenAiToken, true);
  // Nothing was chosen before, so the sign-in chose a model.
  assert.equal(snapshot.model.selectedProvider, 'openai');
  assert.equal((await settings.access('openai')).headers['chatgpt-account-id'], 'acct-1');
});

test('a sign-in in a browser comes back through the loopback page, which shows the outcome', async (t) => {
  const login = await service(t);
  const { call, event, types } = await openSettings(t, { env: login.env });
  const answer = call('auth.connect.openai', { mode: 'browser', originator: 'demo' });
  const { payload } = await event('auth.flow.url');
  const url = new URL(payload.url);
  assert.equal(url.searchParams.get('originator'), 'demo');
  assert.match(url.searchParams.get('redirect_uri')!, /^http:\/\/localhost:\d+\/auth\/callback$/);
  const page = await login.browse(payload.url);
  assert.equal(page.status, 200);
  assert.match(page.text, /You are signed in/);
  assert.deepEqual(await answer, { provider: 'openai', login_method: 'browser', account_id: 'acct-1' });
  assert.deepEqual(types(), ['auth.flow.started', 'auth.flow.url', 'auth.flow.completed', 'state.changed']);
  // Used once: the page is gone.
  await assertClosed(payload.url);
});

test('auto uses the browser on a desktop, and where a headless host has an issuer without device codes', async (t) => {
  const login = await service(t);
  login.behaviour.device = 'none';
  const { call, event, types } = await openSettings(t, { env: login.env, platform: 'linux' });
  const answer = call('auth.connect.openai');
  await login.browse((await event('auth.flow.url')).payload.url);
  assert.equal((await answer).login_method, 'browser');
  assert.equal(types().filter((type) => type === 'auth.flow.url').length, 1);
  await assert.rejects(
    call('auth.connect.openai', { mode: 'device_code' }),
    isError('login_failed', /no sign-in by device/),
  );
});

test('headless means CI, ssh, or Linux without a display', () => {
  assert.equal(isHeadless({ DISPLAY: ':0' }, 'linux'), false);
  assert.equal(isHeadless({ WAYLAND_DISPLAY: 'wayland-0' }, 'linux'), false);
  assert.equal(isHeadless({}, 'linux'), true);
  assert.equal(isHeadless({}, 'darwin'), false);
  assert.equal(isHeadless({ SSH_TTY: '/dev/pts/1' }, 'darwin'), true);
  assert.equal(isHeadless({ CI: 'true' }, 'win32'), true);
});

test('a sign-in with Google answers the profile and keeps it out of every event', async (t) => {
  const login = await service(t);
  const { call, event, events, settings } = await openSettings(t, { env: login.env });
  const answer = call('auth.connect.antigravity');
  const { payload } = await event('auth.flow.url');
  assert.equal(new URL(payload.url).searchParams.get('access_type'), 'offline');
  await login.browse(payload.url);
  assert.deepEqual(await answer, { provider: 'antigravity', profile: PROFILE });
  assert.deepEqual(
    events.map(({ type }) => type),
    ['auth.flow.started', 'auth.flow.url', 'auth.flow.completed', 'state.changed'],
  );
  assert.equal(events.at(-1)!.payload.reason, 'auth_antigravity_connected');
  assert.equal(events.at(-1)!.payload.snapshot.auth.hasAntigravityToken, true);
  assert.equal((await settings.access('antigravity')).project, 'project-1');
});

test('weakness 31: the account e-mail is in no event and in no answer but its owner’s', async (t) => {
  const login = await service(t);
  const { call, event, events, settings } = await openSettings(t, { env: login.env });
  const answer = call('auth.connect.antigravity', {}, { principal: 'ada' });
  await login.browse((await event('auth.flow.url')).payload.url);
  await answer;
  await call('onboarding.complete');
  assert.equal(events.filter(({ type }) => type === 'state.changed').length, 2);
  assert.ok(!JSON.stringify(events).includes('ada@example.org'));
  assert.equal(events.at(-1)!.payload.snapshot.auth.antigravityProfile, null);

  assert.deepEqual((await call('auth.status', {}, { principal: 'ada' })).antigravity_profile, PROFILE);
  assert.equal((await call('auth.status', {}, { principal: 'bob' })).antigravity_profile, null);
  assert.equal((await call('auth.status', {}, { principal: 'bob' })).has_antigravity_token, true);
  assert.deepEqual((await call('auth.status', {}, { principal: 'root', admin: true })).antigravity_profile, PROFILE);
  assert.deepEqual(settings.snapshotParts({ name: 'ada' }).auth.antigravityProfile, PROFILE);
  assert.equal(settings.snapshotParts({ name: 'bob' }).auth.antigravityProfile, null);
});

test('weakness 15: an unknown login mode is refused and begins nothing', async (t) => {
  const { call, events } = await openSettings(t);
  await assert.rejects(call('auth.connect.openai', { mode: 'magic' }), (error: HandfastError) => {
    assert.equal(error.code, 'schema_violation');
    assert.deepEqual(error.detail, { field: 'mode' });
    return true;
  });
  assert.deepEqual(events, []);
});

test('a user who says no, in the browser or with the code, fails the sign-in with the reason', async (t) => {
  const login = await service(t);
  login.behaviour.browser = 'deny';
  login.behaviour.device = 'deny';
  const { call, event, events } = await openSettings(t, { env: login.env, ...virtualTime() });
  const inBrowser = assert.rejects(
    call('auth.connect.openai', { mode: 'browser' }),
    isError('login_failed', /^sign-in was refused: access_denied$/),
  );
  const page = await login.browse((await event('auth.flow.url')).payload.url);
  assert.match(page.text, /not signed in/);
  await inBrowser;
  await assert.rejects(
    call('auth.connect.openai', { mode: 'device_code' }),
    isError('login_failed', /^sign-in was refused: access_denied$/),
  );
  const failed = events.filter(({ type }) => type === 'auth.flow.failed').map(({ payload }) => payload);
  assert.deepEqual(failed, [
    { provider: 'openai', message: 'sign-in was refused: access_denied' },
    { provider: 'openai', message: 'sign-in was refused: access_denied' },
  ]);
  assert.equal((await call('auth.status')).has_openai_token, false);
});

test('an unused device code expires', async (t) => {
  const login = await service(t);
  login.behaviour.device = 'wait';
  const { now, wait, waits } = virtualTime();
  const slower = (ms: number, signal: AbortSignal) => wait(ms * 100, signal);
  const { call, types } = await openSettings(t, { env: login.env, now, wait: slower });
  await assert.rejects(call('auth.connect.openai', { mode: 'device_code' }), isError('login_failed', /has expired/));
  assert.equal(types().at(-1), 'auth.flow.failed');
  assert.ok(waits.length <= 10);
});

test('a service that is out of reach for a while does not end a sign-in by device code', async (t) => {
  const login = await service(t);
  login.behaviour.pollsBefore = 3;
  let polls = 0;
  const flaky: typeof fetch = (input, init) => {
    if (String(input).endsWith('/deviceauth/token') && ++polls === 2)
      return Promise.reject(new TypeError('no network'));
    return fetch(input, init);
  };
  const { call } = await openSettings(t, { env: login.env, ...virtualTime(), fetch: flaky });
  assert.equal((await call('auth.connect.openai', { mode: 'device_code' })).login_method, 'device_code');
  assert.equal(polls, 5);
});

test('weakness 22: a sign-in ends at once when its request is cancelled', async (t) => {
  const login = await service(t);
  const { call, event, events } = await openSettings(t, { env: login.env });
  const request = new AbortController();
  const answer = assert.rejects(
    call('auth.connect.openai', { mode: 'browser' }, { signal: request.signal }),
    isError('cancelled', /given up/),
  );
  const { payload } = await event('auth.flow.url');
  request.abort(new HandfastError('cancelled', 'the request was given up'));
  await answer;
  assert.deepEqual(events.at(-1), {
    type: 'auth.flow.failed',
    payload: { provider: 'openai', message: 'the request was given up' },
  });
  await assertClosed(payload.url);
});

test('weakness 22: auth.cancel ends the sign-ins of its caller, and of no other principal', async (t) => {
  const login = await service(t);
  login.behaviour.device = 'wait';
  const { call, event } = await openSettings(t, { env: login.env });
  assert.deepEqual(await call('auth.cancel'), { cancelled: false });
  const answer = assert.rejects(
    call('auth.connect.openai', { mode: 'device_code' }, { principal: 'ada' }),
    isError('cancelled', /the sign-in to openai was cancelled/),
  );
  await event('auth.flow.device_code');
  assert.deepEqual(await call('auth.cancel', {}, { principal: 'bob' }), { cancelled: false });
  assert.deepEqual(await call('auth.cancel', { provider: 'antigravity' }, { principal: 'ada' }), { cancelled: false });
  assert.deepEqual(await call('auth.cancel', { provider: 'openai' }, { principal: 'ada' }), { cancelled: true });
  await answer;
  await assert.rejects(call('auth.cancel', { provider: 'other' }), isError('schema_violation', /must be one of/));
});

test('one sign-in per provider at a time; the second is refused with the name of the first, which continues', async (t) => {
  const login = await service(t);
  const { call, event, types } = await openSettings(t, { env: login.env });
  const first = call('auth.connect.openai', { mode: 'browser' });
  const { payload } = await event('auth.flow.url');
  await assert.rejects(
    call('auth.connect.openai', { mode: 'browser' }),
    isError('login_failed', /a sign-in to openai is already running/),
  );
  const other = call('auth.connect.antigravity');
  await login.browse((await event('auth.flow.url')).payload.url);
  await login.browse(payload.url);
  assert.equal((await first).provider, 'openai');
  assert.equal((await other).provider, 'antigravity');
  assert.ok(!types().includes('auth.flow.failed'));
});

test('weakness 23: stopping the server ends a pending sign-in and closes its page', async (t) => {
  const login = await service(t);
  const { call, event, settings } = await openSettings(t, { env: login.env });
  const answer = assert.rejects(
    call('auth.connect.openai', { mode: 'browser' }),
    isError('interrupted', /shutting down/),
  );
  const { payload } = await event('auth.flow.url');
  await settings.stop();
  await answer;
  await assertClosed(payload.url);
});

test('weakness 23: a pending sign-in does not keep the process alive', async (t) => {
  const login = await service(t);
  login.behaviour.device = 'wait';
  const script = join(import.meta.dirname, '..', 'fixtures', 'pending-logins.ts');
  const child = spawn(process.execPath, [script, temporaryFolder(t)], {
    env: { PATH: process.env.PATH, ...login.env },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 120_000,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  const [code, signal] = await once(child, 'close');
  assert.deepEqual([output.trim().split('\n').sort(), code, signal], [['antigravity', 'openai'], 0, null]);
});

test('Antigravity without an OAuth client says what to set, before anything begins', async (t) => {
  const { call, events } = await openSettings(t);
  await assert.rejects(call('auth.connect.antigravity'), isError('not_configured', /HANDFAST_GOOGLE_CLIENT_ID/));
  assert.deepEqual(events, []);
});

test('a sign-in service without TLS is refused off this machine', async (t) => {
  const { call } = await openSettings(t, { env: { HANDFAST_OPENAI_ISSUER: 'http://issuer.example' } });
  await assert.rejects(
    call('auth.connect.openai', { mode: 'browser' }),
    isError('login_failed', /issuer\.example: sign-in needs https/),
  );
});
