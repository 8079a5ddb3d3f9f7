/**
 * Cases of operators of a fleet: results, lists, narrow terminals, wrong words. One fleet for all of it.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { type Json, User } from './command.ts';
import { type Fleet, fleet } from './fleet-bench.ts';

let shared: Fleet;
const ends: (() => Promise<void>)[] = [];
before(async () => {
  shared = await fleet({ after: (end) => ends.push(end) });
});
after(async () => {
  for (const end of ends) await end();
});

test('lists tell what is open from what has ended, and say where they stop', async () => {
  const { user, json } = shared;
  const file = user.write(
    'both.yaml',
    // Less than `min_lead_s`, and more than submitting takes on a busy machine: later the deadline would have passed.
    `tasks:
  - { id: late, brief: 'say "late"', deadline: 25s }
  - { id: fine, brief: 'say "fine"', access: read }
`,
  );
  const batch = await user.run(['task', 'batch', file, '--wait']);
  assert.equal(batch.code, 5, 'one of them was not done');
  assert.match(batch.stdout, /^late: blocked, 0 tokens: deadline_too_close.*\nfine: done, /m);
  await user.run(['task', 'submit', 'x', '--worker', 'nobody', '--wait']);
  const open = await json('task', 'show', 'last');
  const ids = (tasks: Json[]) => tasks.map(({ task_id }) => task_id);
  assert.deepEqual(ids(await json('task', 'ls', '--open')), [open.task_id]);
  assert.deepEqual(ids(await json('task', 'watch')), [open.task_id]);
  assert.deepEqual(ids(await json('task', 'ls', '--state', 'done', '--state', 'blocked', '--limit', '2')), [
    open.task_id,
    'fine',
  ]);
  const some = await user.run(['task', 'ls', '--limit', '1']);
  assert.match(some.stderr, /the newest 1; there may be more: --limit/);
  const wrong = await user.run(['task', 'ls', '--state', 'finished']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /Allowed choices are queued, .*canceled/);
  const unknown = await user.run(['task', 'show', '']);
  assert.equal(unknown.code, 2);
  const explained = await user.run(['route', 'explain', 'last']);
  assert.equal(explained.stdout.split('no worker is named nobody').length, 2, 'the sentence is printed once');
});

test('--wait prints the result itself', async () => {
  const { user, json } = shared;
  const read = await user.run(['task', 'submit', 'read README.md and count its lines', '--wait']);
  assert.equal(read.code, 0);
  assert.match(read.stdout, /^done, \d+ tokens/);
  assert.match(read.stdout, /^README\.md has 2 lines\.$/m);
  const next = await json('task', 'submit', 'say "two"', '--after', 'last', '--access', 'read');
  assert.deepEqual(next.spec.after, [(await json('task', 'ls', '--limit', '2'))[1].task_id]);

  // No worker answered it, so it has no result; programs find status and reason all the same.
  const nobody = await user.run(['task', 'submit', 'x', '--worker', 'nobody', '--wait']);
  assert.equal(nobody.code, 5);
  assert.match(nobody.stdout, /unknown_worker: no worker is named nobody; known: large, small$/m);
  assert.match(nobody.stderr, /handfast task retry \S+ \[--worker WORKER\], or: handfast task drop/);
  const { code, stdout } = await user.run(['task', 'result', 'last', '--json']);
  assert.equal(code, 5);
  const result = JSON.parse(stdout);
  assert.deepEqual([result.status, result.tokens_spent], ['blocked', 0]);
  assert.match(result.blocked_reason, /^unknown_worker/);
});

test('what cannot start says what to do instead', async () => {
  const { user, up } = shared;
  const failure = async (...words: string[]): Promise<string> => {
    const { code, stderr } = await user.run(words);
    return `${code} ${stderr.trim().split('\n').at(-1)}`;
  };
  const file = join(user.cwd, 'fleet.yaml');
  assert.match(
    await failure('fleet', 'up', file),
    new RegExp(`^5 .*fleet trial is running: process ${up.child.pid} at http.*handfast fleet workers`),
  );
  const joining = ['worker', '--executor', 'rehearsal', '--id'];
  assert.match(await failure(...joining, 'small'), /^5 .*has a worker of this name already; choose another --id/);
  const token = user.write('token', 'this is not the token of anybody\n');
  assert.match(await failure(...joining, 'guest', '--token-file', token), /^3 .*does not accept the token/);
  assert.match(await failure(...joining, 'guest', '--repo', 'nowhere'), /^2 handfast: --repo: expected a folder/);
  assert.match(await failure('worker', '--id', 'guest', '--executor', 'command'), /^2 .*write a file/);
  const guest = user.start([...joining, 'guest', '--json']);
  await guest.says('"ready":true');
  assert.match(await failure(...joining, 'guest'), /^5 .*worker guest of this user is running already/);
  assert.match(await failure('task', 'submit', ' '), /^2 .*the brief is empty/);
});

test('live views fit the terminal and give it back at Ctrl-C', async () => {
  const { user } = shared;
  await user.run(['task', 'submit', 'a brief of many words', '--worker', 'nobody', '--wait']);
  const env = { COLUMNS: '60', LINES: '12' };
  const top = user.start(['fleet', 'top'], { terminal: true, env });
  await top.says('\u001b[?1049h');
  await top.says('BRIEF');
  top.child.stdin.write('\u0003');
  const { code, stdout } = await top.ended();
  assert.equal(code, 0, stdout);
  const [before = '', shown = ''] = stdout.split('\u001b[?1049h\u001b[?25l');
  const [drawn = '', afterwards = ''] = shown.split('\u001b[?25h\u001b[?1049l');
  assert.equal(before, '');
  assert.match(afterwards, /^fleet trial on in-process\r\n\d workers, 0 queued, 0 under way, \d parked; /);
  for (const line of stripVTControlCharacters(`${drawn}\r\n${afterwards}`).split('\r\n')) {
    assert.ok([...line].length <= 60, `too wide: ${line}`);
  }
  // The id is short, its subject is still there.
  assert.match(afterwards, /^[\da-f]{8} {2}blocked, parked .*a brief of many/m);
});

test('a worker is drained for good', async () => {
  const { user, json } = shared;
  const task = await json('task', 'submit', 'wait 500 ms', '--worker', 'small', '--access', 'read');
  assert.deepEqual(await json('fleet', 'drain', 'small', '--wait'), { peer_id: 'small', draining: true });
  assert.equal((await json('task', 'show', task.task_id)).state, 'done');
  assert.equal((await user.run(['fleet', 'drain', 'small', '--wait', '--undo'])).code, 2);
});
test('a file is checked without starting anything', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const file = user.write('fleet.yaml', 'name: trial\nworkers: [{ id: a, executor: rehearsal }]\n');
  const fine = await user.json(['fleet', 'check', file]);
  assert.deepEqual([fine.ok, fine.fleet, fine.workers], [true, 'trial', ['a']]);
  user.write('fleet.yaml', 'routing: { hooks: [{ when: "1 +", then: reject }] }\n');
  assert.equal((await user.failure(['fleet', 'check'])).code, 'config_invalid');
  user.write('fleet.yaml', 'workres: []\n');
  assert.match((await user.failure(['fleet', 'check'])).message, /fleet\.yaml:1:1: at workres: .*"workers"/);
});
