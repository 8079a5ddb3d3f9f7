/** Keys of model providers from an editor: what it receives without one, how one is given without a restart, and logout. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { startModelServer } from '../../../src/testing/model-server.ts';
import { desktop, startEditor } from './editor.ts';

const AUTH_REQUIRED = -32000;
const KEY = 'sk-ant-valid-0123';

/** A provider that accepts one key. */
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
