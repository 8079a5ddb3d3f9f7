/** Session RPC: a session with an agent, recorded and replayed on both sides. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { User } from '../cli/command.ts';

const user = new User();
after(() => user.leave());

const quoted = (words: readonly string[]): string => words.map((word) => JSON.stringify(word)).join(' ');

test('a session with an agent is recorded, replayed to its client, and played against its server', async () => {
  const server = user.line(['rpc', '--backend', 'rehearsal']);
  const send = (address: string) => user.run(['session', 'send', 'new', 'say "hello"', '--connect', address]);
  const live = await send(`stdio:${quoted(user.line(['record', '--out', 'session', '--', ...server]))}`);
  assert.match(live.stdout, /hello/);
  const replay = user.start(['replay', 'session', '--listen', 'http://127.0.0.1:0', '--once', '--json']);
  await replay.says('\n');
  const again = await send(JSON.parse(replay.stdout).address);
  assert.equal(again.stdout, live.stdout);
  const ended = await replay.ended();
  assert.deepEqual([ended.code, JSON.parse(ended.stdout.trimEnd().split('\n')[1]!).missing], [0, 0], ended.stderr);
  const played = await user.run([
    'replay',
    'session',
    '--as',
    'client',
    '--all',
    '--connect',
    `stdio:${quoted(server)}`,
  ]);
  assert.deepEqual([played.code, played.stdout], [0, 'no difference that matters\n'], played.stderr);
});
