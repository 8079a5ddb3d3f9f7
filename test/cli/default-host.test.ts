/**
 * A host without a configuration: every capability of the protocol that needs none is there, and nothing in it runs or reaches
 * out.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { connect } from '../../src/connect.ts';
import { asError } from '../../src/wire/errors.ts';
import { User } from './command.ts';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

const codeOf = (call: PromiseLike<unknown>): Promise<string> =>
  Promise.resolve(call).then(
    () => 'no error',
    (thrown: unknown) => asError(thrown).code,
  );

test('proc, toolkits, skill and mcp are there without a configuration, and empty', async () => {
  const user = new User();
  users.push(user);
  const { ready } = await user.up([]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  await using agent = await connect(ready.url, { capabilities: ['tools', 'proc', 'toolkits', 'skill', 'mcp'], token });
  // No program is named.
  assert.equal(await codeOf(agent.proc.spawn(['/bin/true'])), 'proc.denied');
  assert.deepEqual(await agent.proc.list(), []);
  // No server is configured, and none is granted.
  assert.deepEqual(await agent.mcp.servers(), []);
  assert.equal(await codeOf(agent.mcp.register({ cmd: ['/bin/true'] })), 'mcp.not_allowed');
  assert.deepEqual(await agent.skill.list(), []);
  const toolkits = await agent.toolkits.list();
  assert.deepEqual(
    toolkits.map(({ name, enabled }) => [name, enabled]),
    [
      ['filesystem', true],
      ['search', true],
      ['sqlite', false],
    ],
  );
  writeFileSync(join(user.cwd, 'notes.md'), 'Bring milk.\n');
  const found = await agent.tools.call<{ passages: { path: string }[] }>('search_files', { query: 'milk' });
  assert.deepEqual(
    found.data?.passages.map(({ path }) => path),
    ['notes.md'],
  );
  // A session without them sees the same as before.
  await using plain = await connect(ready.url, { capabilities: ['tools'], token });
  const names = (await plain.tools.list()).map(({ name }) => name);
  assert.ok(names.includes('read_file') && !names.includes('search_files'), names.join());
});

test('a restricted token has none of them without a grant', async () => {
  const user = new User();
  users.push(user);
  user.write('ci.token', 'ci-token-of-the-test-0123456789\n');
  const config = user.write(
    'handfast.yaml',
    'auth:\n  tokens:\n    - { name: ci, token_file: ./ci.token, roles: [agent] }\n',
  );
  const { ready } = await user.up(['--config', config]);
  const token = 'ci-token-of-the-test-0123456789';
  for (const capability of ['proc', 'toolkits', 'skill', 'mcp'] as const) {
    assert.equal(await codeOf(connect(ready.url, { capabilities: [capability], token })), 'no_caps', capability);
  }
});
