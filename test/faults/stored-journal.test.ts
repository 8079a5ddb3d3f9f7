/**
 * The stored journal after its host was killed: the owner of a session reads it, no other principal does, and no unused
 * number appears.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '../../src/index.ts';
import { type Json, User } from '../cli/command.ts';

const CONFIG = `
journal: { kind: sqlite }
plugins: [{ use: tools }]
auth:
  tokens:
    - { name: ann, token: token-of-ann-in-this-test, tools: { allow: [list_dir] } }
    - { name: bob, token: token-of-bob-in-this-test, tools: { allow: [list_dir] } }
`;
const ANN = { env: { HANDFAST_TOKEN: 'token-of-ann-in-this-test' } };
const BOB = { env: { HANDFAST_TOKEN: 'token-of-bob-in-this-test' } };

test('the owner of a session reads its journal, also after its host was killed; another principal does not', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write('handfast.yaml', CONFIG);
  const up = () => user.up(['--config', 'handfast.yaml']);
  const before = await up();
  const agent = await connect(before.ready.url, { capabilities: ['tools'], token: ANN.env.HANDFAST_TOKEN });
  const id = agent.sessionId;
  await agent.tools.call('list_dir', { path: '.' });
  await agent.close();

  const listed = async (who: typeof ANN) => (await user.json<Json[]>(['tail'], who)).map((line) => line.session_id);
  const kinds = async () =>
    (await user.run(['tail', id, '--json'], ANN)).stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).kind);
  assert.ok((await listed(ANN)).includes(id), 'a session that ended is listed for its owner');
  assert.deepEqual(await kinds(), ['request', 'reply']);

  // The list was read from written entries, so all of it survives the kill.
  before.command.child.kill('SIGKILL');
  await before.command.ended();
  await up();
  assert.ok((await listed(ANN)).includes(id));
  assert.deepEqual((await kinds()).slice(0, 2), ['request', 'reply']);
  const shown = await user.run(['tail', id], ANN);
  assert.match(shown.stdout, /#2 reply/);
  for (const [, number] of shown.stdout.matchAll(/#(\d+)/g)) {
    assert.ok(Number(number) <= 2, `#${number} was never used:\n${shown.stdout}`);
  }
  assert.ok(!(await listed(BOB)).includes(id));
  const refused = await user.failure(['tail', id], BOB);
  assert.deepEqual([refused.exit, refused.code], [3, 'session_not_found']);
});
