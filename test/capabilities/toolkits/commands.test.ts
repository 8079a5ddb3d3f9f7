/** `handfast toolkits …` against a running server, as a user types it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { User } from '../../cli/command.ts';
import { namesOf } from './support.ts';

test('toolkits are listed, shown, configured, enabled, disabled and searched from the command line', {
  timeout: 240_000,
}, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [tools, toolkits]\n');
  const { ready } = await user.up(['--config', 'handfast.yaml']);
  assert.match((await user.run(['toolkits', 'ls'])).stdout, /^filesystem +enabled +8 +\d+ +Files of the workspace/m);
  assert.match(
    (await user.run(['toolkits', 'show', 'filesystem'])).stdout,
    /^delete_file +writes, destructive +Deletes/m,
  );
  assert.match((await user.run(['toolkits', 'search', 'move', 'file'])).stdout, /^move_file +filesystem +Moves/m);
  assert.match((await user.run(['toolkits', 'configure', 'search'])).stdout, /^search: enabled, configured; 2 tools/);

  assert.match((await user.run(['tools', 'ls'])).stdout, /^move_file /m);
  await user.run(['tools', 'call', 'make_directory', 'path=made']);
  assert.match((await user.run(['tools', 'call', 'list_dir', 'path=.'])).stdout, /made/);

  // Another session, which stays unchanged.
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const agent = await connect(ready.url, { capabilities: ['toolkits', 'tools'], token });
  t.after(() => agent.close());
  const session = ['--session', agent.sessionId];
  assert.match((await user.run(['toolkits', 'disable', 'filesystem', ...session])).stdout, /^filesystem: off; 8 tools/);
  const [filesystem] = await user.json(['toolkits', 'ls', ...session]);
  assert.equal(filesystem.enabled, false);
  assert.equal(namesOf(await agent.tools.list()).includes('move_file'), false);
  await user.run(['toolkits', 'enable', 'filesystem', ...session]);
  assert.equal(namesOf(await agent.tools.list()).includes('move_file'), true);

  for (const [words, code, message] of [
    [['show', 'nothing'], 'toolkits.unknown', /^there is no toolkit "nothing" for this principal/],
    [['configure', 'search', 'no JSON'], 'usage', /^the configuration must be a JSON object/],
    [
      ['configure', 'search', '{"a": 1}'],
      'toolkits.invalid',
      /^the configuration of search: \/a is not a known property/,
    ],
    [['enable', 'search', '--session', 'nope'], 'toolkits.unknown', /^there is no session "nope" with toolkits/],
  ] as const) {
    const failure = await user.failure(['toolkits', ...words]);
    assert.equal(failure.code, code);
    assert.match(failure.message as string, message);
  }
});
