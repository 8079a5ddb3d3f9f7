/**
 * `handfast auth` and `handfast model`: keys that come in and go, models that are listed, chosen and tried, and actions that a
 * restricted token cannot do.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type ModelServer, startModelServer } from '../../src/testing/model-server.ts';
import { startLoginService } from '../control/support/login-service.ts';
import { User } from './command.ts';

const KEY = 'sk-ant-valid-0123';

/** Starts a provider that takes one key. */
async function provider(t: TestContext): Promise<ModelServer> {
  const server = await startModelServer({
    models: ['claude-opus-4-5', 'claude-sonnet-4-5'],
    key: KEY,
    otherwise: ({ body }) => ({ text: `Hello from ${body.model}.` }),
  });
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

function userOf(t: TestContext, server: ModelServer) {
  const user = new User();
  t.after(() => user.leave());
  return { user, env: { HANDFAST_KEYRING: 'off', ANTHROPIC_BASE_URL: server.baseUrl('anthropic') } };
}

test('a key is piped in, used, listed without being shown, and removed', async (t) => {
  const { user, env } = userOf(t, await provider(t));
  const login = await user.run(['auth', 'login', 'anthropic'], { env, input: `${KEY}\n` });
  assert.deepEqual([login.code, login.stdout], [0, '']);
  assert.match(login.stderr, /^stored the key of anthropic \(2 models\)\nmodel anthropic\/claude-sonnet-4-5 /);
  const listed = await user.run(['auth', 'ls'], { env });
  assert.match(listed.stdout, /^anthropic +stored key +claude-sonnet-4-5 +2 +ANTHROPIC_API_KEY$/m);
  const { providers, stored_in } = await user.json(['auth', 'ls'], { env });
  assert.equal(stored_in, 'file');
  assert.ok(!JSON.stringify(providers).includes(KEY));
  assert.equal((await user.run(['session', 'send', 'new', 'hi'], { env })).stdout, 'Hello from claude-sonnet-4-5.\n');
  const logout = await user.run(['auth', 'logout', 'anthropic'], { env: { ...env, ANTHROPIC_API_KEY: KEY } });
  assert.equal(logout.stderr, 'removed what was stored for anthropic\nanthropic stays usable, by ANTHROPIC_API_KEY\n');
  assert.equal((await user.json(['auth', 'logout', 'anthropic'], { env })).removed, false);
});

test('a key that is not accepted is not stored, and not shown', async (t) => {
  const { user, env } = userOf(t, await provider(t));
  const { code, stderr } = await user.run(['auth', 'login', 'anthropic'], { env, input: 'sk-ant-wrong-4567\n' });
  assert.equal(code, 3);
  assert.match(stderr, /^handfast: anthropic did not accept the key .*; nothing is stored \[login_failed\]\n$/);
  assert.doesNotMatch(stderr, /sk-ant/);
  const { providers } = await user.json(['auth', 'ls'], { env });
  assert.ok(providers.every(({ usable }: { usable: boolean }) => !usable));
  for (const words of [
    ['auth', 'login', 'anthropic'],
    ['auth', 'login', 'antropic'],
    ['auth', 'logout', 'x'],
  ]) {
    assert.deepEqual([(await user.failure(words, { env })).code], ['usage']);
  }
});

test('a code signs in to a provider', async (t) => {
  const service = await startLoginService();
  t.after(() => service[Symbol.asyncDispose]());
  service.behaviour.device = 'approve';
  service.behaviour.pollsBefore = 0;
  const user = new User();
  t.after(() => user.leave());
  const env = { HANDFAST_KEYRING: 'off', ...service.env };
  const { code, stderr } = await user.run(['auth', 'login', 'openai', '--device'], { env });
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^open http\S+ and enter the code \S+\nsigned in to openai\n/);
  const { providers } = await user.json(['auth', 'ls'], { env });
  assert.equal(providers.find((row: { provider: string }) => row.provider === 'openai').credential, 'sign_in');
});

test('models are listed, chosen for all sessions, and tried', async (t) => {
  const { user, env: base } = userOf(t, await provider(t));
  const env = { ...base, ANTHROPIC_API_KEY: KEY };
  assert.match((await user.run(['model', 'ls'], { env })).stdout, /^\* +anthropic\/claude-sonnet-4-5 /m);
  const used = await user.run(['model', 'use', 'claude-opus-4-5', '--thinking', 'low'], { env });
  assert.equal(used.stderr, 'sessions use anthropic/claude-opus-4-5, thinking low, unless they chose another\n');
  assert.equal((await user.run(['session', 'send', 'new', 'hi'], { env })).stdout, 'Hello from claude-opus-4-5.\n');
  const config = user.write('own.yaml', 'control: { model: claude-sonnet-4-5 }\n');
  const overruled = await user.run(['model', 'use', 'claude-opus-4-5', '--config', config], { env });
  assert.match(overruled.stderr, /control\.model of the configuration wins here: anthropic\/claude-sonnet-4-5/);
  const unknown = await user.failure(['model', 'use', 'opus'], { env });
  assert.deepEqual([unknown.exit, unknown.code], [5, 'not_found']);
  assert.match(unknown.message, /did you mean claude-opus-4-5\? handfast model ls lists them$/);
  const tried = await user.json(['model', 'test', 'anthropic/claude-sonnet-4-5'], { env });
  assert.deepEqual(
    [tried.model, tried.text, tried.stop_reason],
    ['claude-sonnet-4-5', 'Hello from claude-sonnet-4-5.', 'end_turn'],
  );
  const sessions = await user.json(['session', 'ls', '--all'], { env }).catch(() => []);
  assert.ok(!JSON.stringify(sessions).includes('model test'));
  const without = await user.failure(['model', 'test'], { env: base });
  assert.equal(without.code, 'not_configured');
  assert.match(without.message, /handfast auth login anthropic/);
});

test('doctor says which model is used, or what to run', async (t) => {
  const { user, env } = userOf(t, await provider(t));
  const none = await user.run(['doctor'], { env });
  assert.match(none.stdout, /^warn +model +no model can be used\n +→ store a key: handfast auth login anthropic/m);
  const keyed = await user.run(['doctor'], { env: { ...env, ANTHROPIC_API_KEY: KEY } });
  assert.match(keyed.stdout, /^ok +model +anthropic\/claude-sonnet-4-5; usable: anthropic by ANTHROPIC_API_KEY$/m);
});

test('a restricted token reads no key and changes nothing that is not its own', async (t) => {
  const { user, env: base } = userOf(t, await provider(t));
  const env = { ...base, ANTHROPIC_API_KEY: KEY };
  const token = user.write('ann.token', 'ann-token-0123456789abcdef0123456789');
  const config = user.write(
    'own.yaml',
    `auth: { tokens: [{ name: ann, token_file: ./ann.token, sessions: { read: own, drive: own }, backends: [model], providers: [openai] }] }\n`,
  );
  const { url } = (await user.up(['--config', config], { env })).ready;
  const ann = ['--connect', url, '--token-file', token];
  const { providers } = await user.json(['auth', 'ls', ...ann]);
  assert.ok(!JSON.stringify(providers).includes(KEY));
  const row = providers.find(({ provider: name }: { provider: string }) => name === 'anthropic');
  assert.deepEqual([row.usable, row.allowed], [true, false]);
  for (const words of [
    ['model', 'use', 'claude-opus-4-5'],
    ['auth', 'logout', 'anthropic'],
  ]) {
    const refused = await user.failure([...words, ...ann]);
    assert.deepEqual([refused.exit, refused.code], [3, 'unauthorized']);
    assert.match(refused.message, /grant settings is missing/);
  }
  const login = await user.run(['auth', 'login', 'anthropic', ...ann], { input: 'sk-ant-other-8901' });
  assert.equal(login.code, 3);
  assert.doesNotMatch(login.stderr, /sk-ant/);
  const sent = await user.run(['session', 'send', 'new', 'hi', ...ann]);
  assert.equal(sent.code, 5);
  assert.match(sent.stderr, /grant providers is missing/);
});
