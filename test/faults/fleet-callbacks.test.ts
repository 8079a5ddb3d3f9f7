/**
 * F-96 for receivers that call back: the sender whose reply counts. A real server with a managed receiver that behaves
 * as deployed ones, over HTTP.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { UpstreamReceiver } from '../fleet/support/upstream-receiver.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { eventually, named, startFleet, tokenOf } from './support/fleet-server.ts';

const OWN = 'the-own-token-of-claude-1';
const TOKENS = [
  named('ann', 'roles: [operator]'),
  named('bob', 'fleet: { worker: ["claude-*"] }'),
  named('other-1', 'roles: [worker]'),
].join('');

/** Starts a server with a peer that acknowledges every task and replies only when the test makes it call. */
async function staged(t: TestContext) {
  const managed = { url: '', token: OWN };
  let token = OWN;
  const receiver = new UpstreamReceiver({ token: () => token, managed, agent: () => new Promise(() => {}) });
  await receiver.listen();
  t.after(() => receiver.close());
  const file = join(temporaryFolder(t), 'claude-1.token');
  writeFileSync(file, OWN);
  const peer = `{ id: claude-1, kind: receiver, url: "${receiver.url}", token_file: ${file} }`;
  const stand = await startFleet(t, TOKENS, `peers:\n  - ${peer}\n`);
  managed.url = stand.url;
  const { task_id } = await stand.orchestrator.submit({ brief: 'x', worker: 'claude-1', context_id: 'c-1' });
  const isState = (state: string) => async () => (await stand.orchestrator.get(task_id)).state === state;
  await eventually(isState('accepted'), 'the receiver to have the task');
  return {
    stand,
    receiver,
    isState,
    async restart(): Promise<void> {
      await stand.restart();
      managed.url = stand.url;
    },
    rotate(next: string): void {
      token = next;
      writeFileSync(file, next);
    },
  };
}

const REPLY = '```json\n{"type":"TASK_RESULT","status":"done","tokens_spent":1}\n```';

test('F-96: a managed receiver replies with its own token, also after that was replaced', async (t) => {
  const { receiver, isState, rotate } = await staged(t);
  rotate('the-next-token-of-claude-1');
  const accepted = async (): Promise<boolean> => {
    const said = (await receiver.call(REPLY, 'c-1', 'the-next-token-of-claude-1')) as { error?: unknown };
    return said.error === undefined;
  };
  await eventually(accepted, 'the new token to be read');
  await eventually(isState('done'), 'the reply to count');
  assert.deepEqual(await receiver.call(REPLY, 'c-1', OWN), { error: 'the token is missing or wrong' });
});

test('after a restart of the server a receiver replies to each of its open tasks, also one without a conversation', async (t) => {
  const { stand, receiver, isState, restart } = await staged(t);
  const { task_id } = await stand.orchestrator.submit({ brief: 'y', worker: 'claude-1' });
  const stateOf = async (id: string) => (await stand.orchestrator.get(id)).state;
  await eventually(async () => (await stateOf(task_id)) === 'accepted', 'the receiver to have both tasks');
  await restart();
  for (const context of [task_id, 'c-1']) {
    const said = (await receiver.call(REPLY, context)) as { error?: unknown };
    assert.equal(said.error, undefined, context);
  }
  await eventually(async () => (await stateOf(task_id)) === 'done', 'the reply to the later task to count');
  await eventually(isState('done'), 'the reply to the earlier task to count');
});

test('F-96: a reply without a token of the peer or the grant for its name is refused, and the log says what to configure', async (t) => {
  const { stand, receiver, isState } = await staged(t);
  const refused = () => stand.lines.filter(({ message }) => message.startsWith("a receiver's"));
  assert.deepEqual(await receiver.call(REPLY, 'c-1', 'a-guess'), { error: 'the token is missing or wrong' });
  assert.match(String(refused()[0]?.fields?.configure), /token_file of the peer in fleet\.yaml.*fleet\.worker/);
  for (const name of ['ann', 'other-1']) {
    const { error } = (await receiver.call(REPLY, 'c-1', tokenOf(name))) as { error?: { message: string } };
    assert.match(error?.message ?? '', new RegExp(`no worker here is ${name}`));
  }
  const [, ann] = refused();
  assert.deepEqual([ann?.fields?.principal, ann?.fields?.grant], ['ann', 'fleet.worker']);
  assert.ok(await isState('accepted')());
  await receiver.call(REPLY, 'c-1', tokenOf('bob'));
  await eventually(isState('done'), 'the reply under a granted name to count');
});

test('F-96: of a receiver that sends no token the log says what is missing in its own configuration', async (t) => {
  const { stand, receiver } = await staged(t);
  const unsigned = new UpstreamReceiver({ managed: { url: stand.url } });
  assert.deepEqual(await unsigned.call(REPLY, 'c-1'), { error: 'the token is missing or wrong' });
  const line = stand.lines.find(({ message }) => message.startsWith("a receiver's"));
  assert.match(String(line?.message), /it sent no token/);
  assert.match(String(line?.fields?.configure), /hermes_auth_token_env in its a2a_receiver\.json/);
  await receiver.call(REPLY, 'c-1', 'a-guess');
  const wrong = stand.lines.findLast(({ message }) => message.startsWith("a receiver's"));
  assert.match(String(wrong?.message), /its token is wrong/);
});
