/**
 * `handfast fleet`, `worker`, `task` and `route` as their users type them, each command a separate process.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Json, User } from './command.ts';
import { fleet, newRepository } from './fleet-bench.ts';

test('a task is handed in, done by the right worker, and comes back as a checked result', async (t) => {
  const { user, ready, json } = await fleet(t);
  assert.deepEqual([ready.fleet, ready.workers], ['trial', ['small', 'large']]);
  const workers = await json('fleet', 'workers');
  assert.deepEqual(workers.map(({ peer_id, status }: Json) => [peer_id, status]).sort(), [
    ['large', 'ready'],
    ['small', 'ready'],
  ]);
  const { code, stdout, stderr } = await user.run([
    'task',
    'submit',
    'append "three" to README.md',
    '--min-tier',
    'opus',
    '--budget',
    '5000',
    '--deadline',
    '10m',
    '--wait',
  ]);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /decided {4}→ large \(\d+ of 1000\)/);
  assert.match(stdout, /^done, \d+ tokens/);
  assert.match(stdout, /^files: README\.md$/m);
  const [task] = await json('task', 'ls');
  assert.deepEqual([task.state, task.worker, task.result.artifacts.files_changed], ['done', 'large', ['README.md']]);
  for (let look = 0; look < 50; look += 1) {
    const { verified } = await json('task', 'show', 'last');
    if (verified === 'yes') break;
    assert.ok(look < 49, `verified: ${verified}`);
    await pause(100);
  }
  const shown = await user.run(['task', 'show', 'last']);
  assert.match(shown.stdout, /^why {7}→ large/m);
  assert.match(shown.stdout, /^verified {2}yes/m);
});

test('a requirement that no worker meets is refused before anything is spent, and explained', async (t) => {
  const { user, json } = await fleet(t);
  const refused = await user.run([
    'task',
    'submit',
    'read README.md',
    '--require-mcp',
    'context_mode',
    '--wait',
    '--json',
  ]);
  assert.equal(refused.code, 5);
  const last = JSON.parse(refused.stdout.trim().split('\n').at(-1) as string);
  assert.deepEqual([last.state, last.parked, last.attempt, last.tokens_spent], ['blocked', true, 0, 0]);
  const explained = await user.run(['route', 'explain', 'last']);
  assert.match(explained.stdout, /large +missing_mcp:context_mode/);
  const [parked] = await json('task', 'ls', '--parked');
  assert.equal(parked.task_id, last.task_id);
  assert.equal((await json('task', 'drop', 'last')).state, 'blocked');
  assert.deepEqual(await json('task', 'ls', '--parked'), []);
  const described = await json('route', 'explain', '--brief', 'anything', '--min-tier', 'opus');
  assert.equal(described.chosen, 'large');
});

test('a batch runs in the order of its dependencies, and a running task can be steered and canceled', async (t) => {
  const { user, json, repo } = await fleet(t);
  const file = user.write(
    'release.yaml',
    `tasks:
  - { id: ship, brief: 'append "ship" to log.txt', after: build, access: read }
  - { id: build, brief: 'wait 200 ms', access: read }
`,
  );
  await json('task', 'batch', file);
  assert.equal((await user.run(['task', 'result', 'build'])).code, 0);
  // It may only read, so it could not write its file.
  assert.equal((await user.run(['task', 'result', 'ship'])).code, 5);
  assert.throws(() => readFileSync(join(repo, 'log.txt')));
  const long = await json('task', 'submit', 'wait 60000 ms', '--access', 'read', '--worker', 'small');
  for (let look = 0; (await json('task', 'show', long.task_id)).state !== 'running'; look += 1) {
    assert.ok(look < 50);
    await pause(50);
  }
  assert.equal((await user.run(['task', 'steer', long.task_id, 'say "hello"'])).code, 0);
  await user.run(['task', 'cancel', long.task_id, '--reason', 'enough']);
  assert.equal((await user.run(['task', 'result', long.task_id])).code, 5);
  const { state, result } = await json('task', 'show', long.task_id);
  assert.ok(['canceled', 'error', 'partial'].includes(state), `${state} ${JSON.stringify(result)}`);
});

test('a worker of another process joins, works, and says goodbye', async (t) => {
  const { user, json } = await fleet(t);
  const worker = user.start(['worker', '--id', 'guest', '--executor', 'rehearsal', '--repo', user.cwd, '--json']);
  await worker.says('"ready":true');
  const task = await json('task', 'submit', 'say "hi"', '--worker', 'guest', '--access', 'read');
  assert.equal((await user.run(['task', 'result', task.task_id])).code, 0);
  await json('fleet', 'drain', 'guest');
  const drained = (await json('fleet', 'workers')).find(({ peer_id }: Json) => peer_id === 'guest');
  assert.equal(drained.status, 'draining');
  worker.child.kill('SIGTERM');
  assert.equal((await worker.ended()).code, 0);
  const gone = (await json('fleet', 'workers')).find(({ peer_id }: Json) => peer_id === 'guest');
  assert.equal(gone.status, 'asleep');
});

test('a result of a worker that joined from this machine is verified in its repository', async (t) => {
  const { user, json } = await fleet(t);
  const repo = newRepository(join(user.cwd, 'guest'));
  const worker = user.start(['worker', '--id', 'guest', '--executor', 'rehearsal', '--repo', repo, '--json']);
  await worker.says('"ready":true');
  await json('task', 'submit', 'append "three" to README.md', '--worker', 'guest', '--id', 'append');
  assert.equal((await user.run(['task', 'result', 'append'])).code, 0);
  for (let looks = 0; looks < 100; looks += 1) {
    if ((await json('task', 'show', 'append')).verified !== null) break;
    await pause(100);
  }
  const { stdout } = await user.run(['task', 'show', 'append']);
  assert.match(stdout, /^verified {2}yes/m);
});

test('tasks outlive a killed orchestrator', async (t) => {
  const { user, up, json } = await fleet(t);
  const task = await json('task', 'submit', 'wait 100 ms', '--access', 'read', '--retry-safe', '--id', 'kept');
  up.child.kill('SIGKILL');
  await up.ended();
  const again = user.start(['fleet', 'up', join(user.cwd, 'fleet.yaml'), '--json']);
  await again.says('"ready":true');
  const same = await json('task', 'submit', 'wait 100 ms', '--access', 'read', '--retry-safe', '--id', 'kept');
  assert.equal(same.number, task.number);
  assert.equal((await user.run(['task', 'result', 'kept'])).code, 0);
});

test('what is wrong is said in one line, with its exit code', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const nobody = await user.run(['task', 'ls']);
  assert.deepEqual([nobody.code, nobody.stderr.includes('no fleet of this user is running')], [4, true]);
  const wrong = await user.run(['fleet', 'up', user.write('fleet.yaml', 'workers: [{ id: a, executor: claud }]\n')]);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /fleet\.yaml:1:\d+: at workers\[0\]\.executor\.kind: .*did you mean "claude"/);
  assert.equal((await user.run(['worker'])).code, 2);
  assert.equal((await user.run(['task', 'submit', 'x', '--deadline', 'soon'])).code, 2);
});

test('a stranger operates nothing', async (t) => {
  const { user, ready } = await fleet(t);
  const file = user.write('token', 'this is not the token of anybody\n');
  const refused = await user.run(['--connect', ready.url, '--token-file', file, 'task', 'ls']);
  assert.equal(refused.code, 3);
});
