/** A model from the command line, for a user with nothing but the key of a provider: how one is found and chosen. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startModelServer } from '../../src/testing/model-server.ts';
import { User } from './command.ts';

test('with a key alone a turn fails with the way to choose a model, and one is chosen by its id', async (t) => {
  await using provider = await startModelServer({
    models: ['gpt-5.2', 'gpt-5-mini'],
    otherwise: ({ body }) => ({ text: `Hello from ${body.model}.` }),
  });
  const env = { HANDFAST_KEYRING: 'off', OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: provider.baseUrl('responses') };
  const user = new User();
  t.after(() => user.leave());
  await user.up([], { env });

  const refused = await user.run(['session', 'send', 'new', 'hello']);
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /select a model .*\[not_configured\]\n.*\/model ID, or --model ID for a new session\n$/);

  const sent = await user.run(['session', 'send', 'new', '--model', 'gpt-5-mini', 'hello']);
  assert.deepEqual([sent.code, sent.stdout], [0, 'Hello from gpt-5-mini.\n']);

  const chat = await user.run(['chat', '--new'], { input: '/model\n/model gpt-5.2\nhello\n' });
  assert.match(chat.stdout, /^gpt-5\.2 +.*\ngpt-5-mini .*\nHello from gpt-5\.2\.\n$/);
  assert.match(chat.stderr, /this session uses gpt-5\.2/);

  const misplaced = await user.failure(['session', 'send', 'last', '--model', 'gpt-5.2', 'hello']);
  assert.deepEqual([misplaced.exit, misplaced.code], [2, 'usage']);
});
