/**
 * Cases of operators of a fleet that take their time: waiting, stopping, starting again.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { User } from './command.ts';
import { fleet } from './fleet-bench.ts';

/** A worker whose MCP server ends at once. */
const SICK = '  - { id: sick, executor: rehearsal, repo: repo, mcp_servers: [{ name: crashing, command: "false" }] }';

test('a task that waits says until when, and continues without its reader', async (t) => {
  const { user, up, json } = await fleet(t, { workers: SICK });
  const waiting = user.start(['task', 'submit', 'read README.md', '--require-mcp', 'crashing', '--wait']);
  await waiting.says('next attempt at', 'stderr');
  assert.match(
    waiting.stderr,
    /decided {4}no worker now: .*sick left out: crashing .*; next attempt at \d\d:\d\d:\d\dZ/,
  );
  assert.match(up.stderr, /"MCP server does not work","worker":"sick","server":"crashing".*ended with code 1/);
  waiting.child.kill('SIGINT');
  const { code, stdout, stderr } = await waiting.ended();
  assert.deepEqual([code, stdout], [130, '']);
  assert.match(stderr, /the task continues; follow it with: handfast task watch [\da-f-]{36}/);

  const shown = await user.run(['task', 'show', 'last']);
  assert.match(shown.stdout, /^state {5}queued, waits$/m);
  assert.match(shown.stdout, /^waits {5}until \d\d:\d\d:\d\dZ, then the next attempt starts$/m);
  const dropped = await user.run(['task', 'drop', 'last']);
  assert.equal(dropped.code, 5);
  assert.match(dropped.stderr, /is not parked; see: handfast task show/);
  assert.equal((await json('task', 'cancel', 'last')).state, 'canceled');
});

test('a fleet that is stopped lets its workers end what they do', async (t) => {
  const { user, up } = await fleet(t);
  const waiting = user.start(['task', 'submit', 'wait 800 ms; say "done with it"', '--access', 'read', '--wait']);
  await waiting.says('running    at', 'stderr');
  up.child.kill('SIGTERM');
  const { code, stdout, stderr } = await waiting.ended();
  assert.equal(code, 0, stderr);
  assert.match(stdout, /done with it/);
  assert.equal((await up.ended()).code, 0);
});

test('a reader of a task continues when the fleet is back', async (t) => {
  const { user, up, again } = await fleet(t);
  // Long enough that the fleet is killed before it is done.
  const words = ['task', 'submit', 'wait 6000 ms; say "again"', '--access', 'read', '--retry-safe', '--wait'];
  const waiting = user.start(words);
  await waiting.says('running    at', 'stderr');
  up.child.kill('SIGKILL');
  await waiting.says('lost the fleet', 'stderr');
  await again();
  const { code, stdout, stderr } = await waiting.ended();
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^done, /);
});

test('a start that waits for a bus ends at the first Ctrl-C', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const file = user.write('fleet.yaml', 'bus: nats://127.0.0.1:9\nlisten: http://127.0.0.1:0\n');
  const up = user.start(['fleet', 'up', file]);
  await up.says('no NATS server responds yet', 'stderr');
  up.child.kill('SIGINT');
  assert.equal((await up.ended()).code, 0);
});

test('where changes are not committed, only what does not mix with them is done', async (t) => {
  const { user, up, repo, again } = await fleet(t);
  up.child.kill('SIGTERM');
  await up.ended();
  writeFileSync(join(repo, 'notes.txt'), 'not committed\n');
  await again();
  const waiting = user.start(['task', 'submit', 'append "three" to README.md', '--wait']);
  await waiting.says('commit what was changed there, or use --worktree', 'stderr');
  waiting.child.kill('SIGINT');
  await waiting.ended();
  const apart = await user.run(['task', 'submit', 'append "three" to README.md', '--worktree', '--wait']);
  assert.equal(apart.code, 0, apart.stderr);
  assert.doesNotMatch(apart.stderr, /dirty|working tree/);
});

test('of several fleets one is named', async (t) => {
  const { user, json } = await fleet(t);
  const other = user.write('other.yaml', 'name: other\nlisten: http://127.0.0.1:0\n');
  const up = user.start(['fleet', 'up', other]);
  await up.says('Ctrl-C stops it');
  assert.match(up.stdout, /handfast worker --id trial-1 --executor rehearsal/, 'it has no workers yet');
  assert.doesNotMatch(up.stdout, /open tasks/);
  const which = await user.run(['fleet', 'workers']);
  assert.equal(which.code, 2);
  assert.match(which.stderr, /several fleets are running; name one with --fleet:\n {2}(trial|other), process/);
  assert.equal((await json('fleet', 'workers', '--fleet', 'trial')).length, 2);
  assert.deepEqual(await json('fleet', 'workers', '--fleet', 'other'), []);
  const none = await user.run(['fleet', 'workers', '--fleet', 'none']);
  assert.equal(none.code, 4);
  assert.match(none.stderr, /no fleet named none of this user is running/);
});
