/**
 * `handfast approve …`: a question of an agent in one terminal is seen and answered in another.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Command, type Json, User } from './command.ts';

const user = new User();
after(() => user.leave());
before(async () => {
  await user.up([], { env: { HANDFAST_KEYRING: 'off' } });
});

/** Starts a turn that asks before it runs a command; returns the command line that waits for it and the question. */
async function asking(command: string): Promise<{ send: Command; id: string }> {
  const send = user.start(['session', 'send', 'new', `run "${command}"`]);
  await send.says('answer: handfast approve', 'stderr');
  const shown = /approve yes\|no ([0-9a-f-]+)/.exec(send.stderr)?.[1] as string;
  const { id } = (await user.json(['approve', 'ls'])).find((approval: Json) => approval.id.startsWith(shown));
  return { send, id };
}

test('nothing asked is an empty list', async () => {
  assert.deepEqual(await user.json(['approve', 'ls']), []);
  assert.match((await user.run(['approve', 'ls'])).stderr, /no pending approvals/);
});

test('a question is listed with what would be done, allowed by the beginning of its id, and then the tool runs', async () => {
  const { send, id } = await asking('echo yes > allowed');
  const { stdout } = await user.run(['approve', 'ls']);
  assert.match(stdout, /^APPROVAL +STATE +EXPIRES +WHAT\n/);
  assert.match(stdout, /pending .*echo yes > allowed/);
  const { code, stderr } = await user.run(['approve', 'yes', id.slice(0, 10)]);
  assert.deepEqual([code, stderr], [0, 'allowed: shell: echo yes > allowed\n']);
  assert.equal((await send.ended()).code, 0);
  assert.equal(readFileSync(join(user.cwd, 'allowed'), 'utf8'), 'yes\n');

  const late = await user.run(['approve', 'no', id]);
  assert.equal(late.code, 5);
  assert.match(late.stderr, /^already allowed by .+: shell: echo yes > allowed\n$/);
});

test('one that is denied is not run, and the agent continues', async () => {
  const { send, id } = await asking('touch denied');
  assert.equal((await user.json(['approve', 'no', id])).approval.state, 'denied');
  const { code, stderr } = await send.ended();
  assert.equal(code, 0);
  assert.match(stderr, /· shell: touch denied: denied by .+\n✗ shell touch denied: not run/);
  assert.equal(existsSync(join(user.cwd, 'denied')), false);
});

test('an answer for the session covers what it says it covers', async () => {
  const { send, id } = await asking('echo again >> session');
  await user.run(['approve', 'yes', id, '--remember', 'session']);
  assert.equal((await send.ended()).code, 0);
  const again = await user.run(['session', 'send', 'last', 'run "echo again >> session"']);
  assert.equal(again.code, 0);
  assert.equal(readFileSync(join(user.cwd, 'session'), 'utf8'), 'again\nagain\n');
});

test('a yes for a program that runs code of others holds once, and says so', async () => {
  const { send, id } = await asking('make --version >> made');
  const { stderr } = await user.run(['approve', 'yes', id, '--remember', 'directory']);
  assert.equal(
    stderr,
    'allowed: shell: make --version >> made (shell: this call, only now: make runs code of others)\n',
  );
  assert.equal((await send.ended()).code, 0);
  const again = await asking('make --version >> made');
  await user.run(['approve', 'no', again.id]);
  await again.send.ended();
});

test('a question to the user takes a JSON object', async () => {
  const send = user.start(['session', 'send', 'new', 'ask "Which one?" with choices "red", "blue"']);
  await send.says('answer: handfast approve', 'stderr');
  const [{ id, kind, schema }] = await user.json(['approve', 'ls']);
  assert.equal(kind, 'question');
  const name = Object.keys(schema.properties)[0] as string;
  const wrong = await user.failure(['approve', 'yes', id, '--content', '[1]']);
  assert.deepEqual([wrong.exit, wrong.code], [2, 'usage']);
  await user.run(['approve', 'yes', id, '--content', JSON.stringify({ [name]: 'blue' })]);
  assert.match((await send.ended()).stdout, /You answered: blue/);
});

test('an unknown approval is not found', async () => {
  const { exit, code } = await user.failure(['approve', 'yes', '00000000-0000-4000-8000-000000000000']);
  assert.deepEqual([exit, code], [5, 'not_found']);
});
