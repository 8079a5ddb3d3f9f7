/** `handfast demo`: every scene comes to its end, and nothing of it is left. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, test } from 'node:test';
import { DemoHost } from '../../src/cli/demo/demo-host.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { User } from './command.ts';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

test('the demo plays every scene, and leaves nothing behind', async (t) => {
  const user = new User();
  users.push(user);
  const TMPDIR = temporaryFolder(t);
  const { stdout, stderr, code } = await user.run(['demo', '--json'], { env: { TMPDIR } });
  assert.equal(code, 0, stderr);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { scene: number; kind: string; text: string });
  const kinds = (scene: number) => lines.filter((line) => line.scene === scene).map(({ kind }) => kind);
  assert.deepEqual(kinds(1), ['refused', 'accepted', 'granted', 'not here']);
  assert.deepEqual(kinds(2), ['event', 'event', 'event', 'reply']);
  assert.deepEqual(kinds(3).toSorted(), [...Array(6).fill('event'), 'lost', 'resumed', 'counted'].toSorted());
  assert.deepEqual(kinds(4), ['asked', 'allowed', 'written']);
  assert.deepEqual(kinds(5), ['done', 'done', 'killed', 'up again', 'resumed']);
  assert.deepEqual(kinds(6), ['announced', 'killed', 'refused', 'rerouted', 'done']);
  const refused = lines.find(({ scene, kind }) => scene === 6 && kind === 'refused')?.text ?? '';
  assert.match(refused, /^by near: .*files.*0 tokens/);
  assert.match(lines.find(({ kind }) => kind === 'rerouted')?.text ?? '', /far/);
  assert.deepEqual(readdirSync(TMPDIR), []);
});

test('an interrupted demo ends its host and removes its folder', async (t) => {
  const user = new User();
  users.push(user);
  const TMPDIR = temporaryFolder(t);
  const command = user.start(['demo'], { env: { TMPDIR } });
  await command.says('part 1');
  command.child.kill('SIGINT');
  const { code } = await command.ended();
  assert.equal(code, 130);
  assert.deepEqual(readdirSync(TMPDIR), []);
});

test('a host of an interrupted demo does not start any more', async (t) => {
  const home = temporaryFolder(t);
  const host = new DemoHost({ home, workspace: home, signal: AbortSignal.abort(new Error('interrupted')) });
  await assert.rejects(host.start(), /interrupted/);
  assert.equal(host.pid, undefined);
});
