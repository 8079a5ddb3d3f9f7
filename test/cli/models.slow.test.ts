/** A model from the command line, for a user with nothing but the key of a provider: how one is found, said and chosen. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '../../src/control.ts';
import { type ModelServer, startModelServer } from '../../src/testing/model-server.ts';
import { User } from './command.ts';

/** Answers with its name, refuses two keys and one model as providers do. */
async function provider(t: TestContext): Promise<ModelServer> {
  const server = await startModelServer({
    models: ['claude-opus-4-5', 'claude-sonnet-4-5-20250929'],
    otherwise: ({ body, headers }) => {
      const key = headers['x-api-key'];
      if (key !== 'sk-ant-valid-0123') {
        return { error: `API key ${key} is invalid or expired`, status: 401, error_code: 'authentication_error' };
      }
      if (body.model === 'no-such-model')
        return { error: 'model: no-such-model', status: 404, error_code: 'not_found_error' };
      return { text: `Hello from ${body.model}.` };
    },
  });
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

/** Makes a user with the key of a provider, and the environment. */
function userOf(t: TestContext, server?: ModelServer, key = 'sk-ant-valid-0123') {
  const user = new User();
  t.after(() => user.leave());
  const keyed = server && { ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: server.baseUrl('anthropic') };
  return { user, env: { HANDFAST_KEYRING: 'off', ...keyed } };
}

const NEXT_STEPS = /handfast auth login .*ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or OPENROUTER_API_KEY/;

test('a key alone is enough: a prompt is answered by the default model of its provider, which is said', async (t) => {
  const server = await provider(t);
  const { user, env } = userOf(t, server);
  const sent = await user.run(['session', 'send', 'new', 'hi'], { env });
  assert.deepEqual([sent.code, sent.stdout], [0, 'Hello from claude-sonnet-4-5-20250929.\n']);
  const said =
    /^session [0-9a-f-]{36}\nmodel anthropic\/claude-sonnet-4-5-20250929 \(the default of anthropic, by ANTHROPIC_API_KEY; .*\)\n$/;
  assert.match(sent.stderr, said);

  const chat = await user.run(['chat', '--new'], { input: 'hi\n', env });
  assert.equal(chat.stdout, 'Hello from claude-sonnet-4-5-20250929.\n');
  assert.match(chat.stderr, /^model anthropic\/claude-sonnet-4-5-20250929 /m);

  const acp = await user.run(['acp'], { env });
  assert.deepEqual([acp.code, acp.stdout], [0, '']);
  assert.match(acp.stderr, /^handfast: model anthropic\/claude-sonnet-4-5-20250929 /);
});

test('without a key the commands to run are named, by each command', async (t) => {
  const { user, env } = userOf(t);
  const sent = await user.run(['session', 'send', 'new', 'hi'], { env });
  assert.match(sent.stderr, NEXT_STEPS);
  assert.match((await user.run(['chat', '--new'], { input: 'say "x"\n', env })).stderr, NEXT_STEPS);
  assert.match((await user.run(['acp'], { env })).stderr, NEXT_STEPS);
});

test('a model that is named is not replaced by the rehearsal backend: without a provider the command fails', async (t) => {
  const { user, env } = userOf(t);
  const words = ['--model', 'claude-opus-4-5'];
  for (const command of [
    ['session', 'send', 'new', 'hi', ...words],
    ['chat', ...words],
    ['acp', ...words],
  ]) {
    const { code, stdout, stderr } = await user.run(command, { input: 'hi\n', env });
    assert.deepEqual([code === 0, stdout], [false, ''], command.join(' '));
    assert.match(stderr, /the model claude-opus-4-5 cannot be used: /);
    assert.match(stderr, NEXT_STEPS);
  }
});

test('a key that the running server does not have is named as such', async (t) => {
  const { user, env } = userOf(t);
  await user.up([], { env });
  const sent = await user.run(['session', 'send', 'new', 'hi'], {
    env: { ...env, GEMINI_API_KEY: 'AIza-secret-0123' },
  });
  assert.match(sent.stderr, /GEMINI_API_KEY is set here, but not where the server runs: .*handfast auth login google/);
  assert.doesNotMatch(sent.stderr, /AIza/);
});

test('flags choose model and thinking level of a session, at any turn', async (t) => {
  const server = await provider(t);
  const { user, env } = userOf(t, server);
  await user.up([], { env });
  const sent = await user.run(['session', 'send', 'new', '--model', 'claude-opus-4-5', '--thinking', 'off', 'hi']);
  assert.equal(sent.stdout, 'Hello from claude-opus-4-5.\n');
  assert.match(sent.stderr, /^model anthropic\/claude-opus-4-5 \(chosen for this session\)$/m);
  const again = await user.run(['session', 'send', 'last', '--model', 'anthropic/claude-sonnet-4-5-20250929', 'hi']);
  assert.equal(again.stdout, 'Hello from claude-sonnet-4-5-20250929.\n');
  const settings = (await user.json(['session', 'show', 'last'])).settings;
  assert.deepEqual([settings.model, settings.thinking], ['anthropic/claude-sonnet-4-5-20250929', 'OFF']);
  const misplaced = await user.failure(['session', 'send', 'last', '--backend', 'model', 'hi']);
  assert.deepEqual([misplaced.exit, misplaced.code], [2, 'usage']);
});

test('the model of the configuration is used where the session chose none', async (t) => {
  const server = await provider(t);
  const { user, env } = userOf(t, server);
  const config = user.write('own.yaml', 'control:\n  model: anthropic/claude-opus-4-5\n');
  const sent = await user.run(['session', 'send', 'new', '--config', config, 'hi'], { env });
  assert.equal(sent.stdout, 'Hello from claude-opus-4-5.\n');
  assert.match(sent.stderr, /control\.model of the configuration/);
  const flag = await user.run(
    ['session', 'send', 'new', '--config', config, '--model', 'claude-sonnet-4-5-20250929', 'hi'],
    { env },
  );
  assert.equal(flag.stdout, 'Hello from claude-sonnet-4-5-20250929.\n');
});

for (const [what, key, model, next] of [
  ['a key that is not accepted', 'sk-ant-wrong-4567', undefined, /handfast auth login anthropic stores another/],
  ['a model that does not exist', 'sk-ant-valid-0123', 'no-such-model', /handfast model ls lists the models/],
] as const) {
  test(`${what} ends with 5 and the next step, without the key`, async (t) => {
    const server = await provider(t);
    const { user, env } = userOf(t, server, key);
    const words = model === undefined ? [] : ['--model', model];
    const { code, stdout, stderr } = await user.run(['session', 'send', 'new', ...words, 'hi'], { env });
    assert.deepEqual([code, stdout], [5, '']);
    assert.match(stderr, next);
    assert.doesNotMatch(stderr, /sk-ant-/);
  });
}

test('a server of its own denies what it cannot ask about, and leaves that to the next client', async (t) => {
  const { user, env } = userOf(t);
  const { code, stdout } = await user.run(['session', 'send', 'new', 'write "x" to f.txt'], { env });
  assert.equal(code, 0);
  assert.match(stdout, /denied|not allowed/i);
  const detached = await user.failure(['session', 'send', 'new', '--detach', 'say "x"'], { env });
  assert.deepEqual([detached.exit, detached.code], [2, 'usage']);
  await user.up([], { env });
  // Nothing is stored: the next server asks by its own policy.
  assert.equal((await user.json(['session', 'show', 'last'])).settings.approvals, undefined);
});

test('an image is sent from anywhere its user can read', async (t) => {
  const server = await provider(t);
  const { user, env } = userOf(t, server);
  await user.up([], { env });
  const image = join(user.folder, 'dot.png');
  writeFileSync(image, Buffer.from('iVBORw0KGgo=', 'base64'));
  const sent = await user.run(['session', 'send', 'new', '--image', '../dot.png', 'what is it?'], { env });
  assert.equal(sent.code, 0, sent.stderr);
  const { content } = server.requests[0]!.body.messages[0];
  assert.ok(JSON.stringify(content).includes('iVBORw0KGgo='));
  const missing = await user.failure(['session', 'send', 'new', '--image', '../none.png', 'x'], { env });
  assert.deepEqual(
    [missing.exit, missing.code, missing.message],
    [2, 'usage', 'cannot read ../none.png: it does not exist'],
  );
  const text = await user.failure(['session', 'send', 'new', '--image', '../notes.txt', 'x'], { env });
  assert.match(text.message, /^not an image: \.\.\/notes\.txt; supported: \.png/);
});

test('a stream that stalls is ended after control.stream_idle_ms and asked for again', async (t) => {
  const server = await provider(t);
  const { user, env } = userOf(t, server);
  server.play([{ breaks: 'stall' }, { text: 'Half a', breaks: 'stall' }, { text: ' sentence.' }]);
  const config = user.write('own.yaml', 'control: { stream_idle_ms: 1000 }\n');
  const { code, stdout, stderr } = await user.run(['session', 'send', 'new', '--config', config, 'hi'], { env });
  assert.deepEqual([code, stdout], [0, 'Half a sentence.\n']);
  assert.match(stderr, /retrying \(2\/3\)(?:.|\n)*the answer was cut off; continuing \(1\/3\)/);
});

test('a saved chat keeps the thinking level and the routing provider that were in force', async (t) => {
  const server = await startModelServer({ models: ['demo/beta'], otherwise: () => ({ text: 'Hello.' }) });
  t.after(() => server[Symbol.asyncDispose]());
  const user = new User();
  t.after(() => user.leave());
  const env = { HANDFAST_KEYRING: 'off', OPENROUTER_API_KEY: 'k', OPENROUTER_BASE_URL: server.baseUrl('openrouter') };
  const { url } = (await user.up([], { env })).ready;
  await user.json(['model', 'ls']);
  const client = await connect(url, { token: readFileSync(join(user.home, 'token'), 'utf8').trim() });
  t.after(() => client.close());
  await client.rpc.modelSelect({
    model_id: 'demo/beta',
    provider: 'openrouter',
    thinking_level: 'OFF',
    openrouter_provider: 'provx',
  });
  const session = await client.create({ cwd: user.cwd });
  await (await session.prompt('hi')).result();
  const [chat] = (await client.rpc.historyList({})).sessions;
  assert.deepEqual([chat?.thinkingLevel, chat?.openRouterProvider], ['OFF', 'provx']);
});
