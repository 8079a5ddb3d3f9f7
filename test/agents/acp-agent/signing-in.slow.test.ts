/**
 * Keys of model providers from an editor: its messages without one, adding one without a restart, and logout.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { startModelServer } from '../../../src/testing/model-server.ts';
import { User } from '../../cli/command.ts';
import { desktop, startEditor } from './editor.ts';

const AUTH_REQUIRED = -32000;
const KEY = 'sk-ant-valid-0123';

/** Starts a provider that accepts one key. */
async function provider(t: TestContext) {
  const server = await startModelServer({
    models: ['claude-opus-4-5'],
    key: KEY,
    otherwise: () => ({ text: 'Hello.' }),
  });
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

const isAuthRequired = (error: { code?: unknown }): boolean => error.code === AUTH_REQUIRED;

test('without a key an editor is asked to authenticate; a key works at once, and after logout it is asked again', async (t) => {
  const server = await provider(t);
  const place = desktop(t);
  const editor = await startEditor(t, place, { args: ['--backend', 'model'] });
  const { agent } = editor;
  const request = { cwd: place.project, mcpServers: [] };
  await assert.rejects(agent.request('session/new', request), isAuthRequired);
  await assert.rejects(agent.request('authenticate', { methodId: 'key' }), (error: Error & { code?: unknown }) => {
    assert.match(error.message, /handfast auth login anthropic/);
    return isAuthRequired(error);
  });
  const given = (api_key: string) =>
    agent.request('authenticate', {
      methodId: 'key',
      _meta: { provider: 'anthropic', api_key, base_url: server.baseUrl('anthropic') },
    });
  await assert.rejects(given('sk-ant-wrong'), /anthropic did not accept the key/);
  await assert.rejects(agent.request('session/new', request), isAuthRequired);
  await given(KEY);
  const sessionId = await editor.open(place.project);
  assert.equal((await editor.prompt(sessionId, 'hi')).stopReason, 'end_turn');
  assert.equal(editor.said(sessionId), 'Hello.');

  await agent.request('logout', {});
  await assert.rejects(editor.prompt(sessionId, 'hi'), isAuthRequired);
  await given(KEY);
  assert.equal((await editor.prompt(sessionId, 'hi')).stopReason, 'end_turn');
});

test('logout leaves what was not stored here, and says so; a method there is none of is an error', async (t) => {
  const server = await provider(t);
  const place = desktop(t);
  const env = { ANTHROPIC_API_KEY: KEY, ANTHROPIC_BASE_URL: server.baseUrl('anthropic') };
  const editor = await startEditor(t, place, { args: ['--backend', 'model'], env });
  await editor.agent.request('authenticate', { methodId: 'key' });
  await editor.agent.request('logout', {});
  const sessionId = await editor.open(place.project);
  assert.equal((await editor.prompt(sessionId, 'hi')).stopReason, 'end_turn');
  assert.match(editor.stderr(), /still usable, by what was not stored here: anthropic/);
  for (const methodId of ['nothing', 'sign-in-anthropic']) {
    await assert.rejects(editor.agent.request('authenticate', { methodId }), /there is no method/);
  }
});

test('a key that the provider refuses ends a prompt with the request to authenticate, and with another it is answered', async (t) => {
  const server = await provider(t);
  const place = desktop(t);
  const env = { ANTHROPIC_API_KEY: 'sk-ant-revoked-0123', ANTHROPIC_BASE_URL: server.baseUrl('anthropic') };
  const editor = await startEditor(t, place, { args: ['--backend', 'model', '--model', 'claude-opus-4-5'], env });
  const sessionId = await editor.open(place.project);
  await assert.rejects(
    editor.prompt(sessionId, 'hi'),
    (error: Error & { code?: unknown; data?: { kind?: unknown; reason?: unknown } }) => {
      assert.match(error.message, /anthropic did not accept the key/);
      assert.doesNotMatch(error.message, /revoked-0123/);
      assert.equal(error.data?.kind, 'provider_error');
      return isAuthRequired(error);
    },
  );
  await editor.agent.request('authenticate', {
    methodId: 'key',
    _meta: { provider: 'anthropic', api_key: KEY, base_url: server.baseUrl('anthropic') },
  });
  assert.equal((await editor.prompt(sessionId, 'hi')).stopReason, 'end_turn');
  assert.equal(editor.said(sessionId), 'Hello.');
});

test('a token that the server refuses is the request to authenticate too; with a valid one the editor continues', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const config = user.write(
    'own.yaml',
    'auth:\n  tokens:\n    - { name: ed, token: token-of-ed-for-this-test, admin: true }\n',
  );
  const { ready } = await user.up(['--config', config]);
  const place = desktop(t);
  const file = join(place.home, 'token');
  writeFileSync(file, 'another-token-than-that-of-ed\n');
  const args = ['--connect', ready.url, '--token-file', file, '--backend', 'rehearsal'];
  const editor = await startEditor(t, place, { args });
  const { authMethods } = await editor.initialize();
  assert.equal(authMethods?.[0]?.id, 'token');
  const request = { cwd: user.cwd, mcpServers: [] };
  await assert.rejects(editor.agent.request('session/new', request), isAuthRequired);
  await assert.rejects(editor.agent.request('session/list', {}), isAuthRequired);
  await assert.rejects(
    editor.agent.request('authenticate', { methodId: 'token' }),
    (error: Error & { code?: unknown }) => {
      assert.match(error.message, /--token-file/);
      assert.doesNotMatch(error.message, /another-token/);
      return isAuthRequired(error);
    },
  );
  writeFileSync(file, 'token-of-ed-for-this-test\n');
  await editor.agent.request('authenticate', { methodId: 'token' });
  const sessionId = await editor.open(user.cwd);
  assert.equal((await editor.prompt(sessionId, 'say "hello"')).stopReason, 'end_turn');
  assert.match(editor.said(sessionId), /hello/);
});
