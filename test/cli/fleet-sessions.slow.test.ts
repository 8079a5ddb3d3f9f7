/** A task of a fleet as a session of its control edge: watched, steered, answered and interrupted with the commands of sessions. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../faults/support/fleet-server.ts';
import type { Json } from './command.ts';
import { type Fleet, fleet } from './fleet-bench.ts';

const ends: (() => Promise<void>)[] = [];
let running: Fleet;

before(async () => {
  running = await fleet({ after: (end) => ends.push(end) });
});
after(async () => {
  for (const end of ends) await end();
});

/** Submits a task and gives the session that the events of the task name. */
async function started(id: string, brief: string): Promise<string> {
  const { user, json } = running;
  await json('task', 'submit', '--id', id, '--access', 'read', brief);
  let found: Json;
  await eventually(async () => {
    const sessions = await json('session', 'ls');
    found = sessions.find(({ title }: Json) => title.startsWith(`${id}: `));
    return found !== undefined;
  }, `the session of ${id}`);
  assert.equal(found.backend, 'fleet');
  const watch = user.start(['task', 'watch', id]);
  await watch.says(`handfast session tail ${found.session_id}`, 'stderr');
  watch.child.kill('SIGKILL');
  return found.session_id;
}

test('a task is watched in its session while it runs, steered there, and its reply is the message of its turn', async () => {
  const { user, json } = running;
  const session = await started(
    'watched',
    'wait 1 ms; ask "Ready?" with choices "yes", "no"; wait 1 ms; say "the end"',
  );
  const tail = user.start(['session', 'tail', session, '--follow', '--json']);
  await tail.says('running at ');
  await tail.says('approval.requested');
  await user.run(['session', 'steer', session, 'say "steered"']);
  await tail.says('session.steer.injected');
  const watch = user.start(['task', 'watch', 'watched']);
  await watch.says('steer      say "steered"', 'stderr');
  watch.child.kill('SIGKILL');
  const approvals = await json('approve', 'ls');
  const approval = approvals.find(({ session_id }: Json) => session_id === session);
  assert.match(approval.title, /^watched at \w+: Ready\?/);
  await json('approve', 'yes', approval.id, '--content', '{"answer":"yes"}');
  await tail.says('"session.completed"');
  tail.child.kill('SIGKILL');
  const { state, result } = await json('task', 'show', 'watched');
  assert.equal(state, 'done');
  assert.match(result.prose, /the end/);
  assert.match(result.prose, /steered/);
  const shown = await json('session', 'show', session);
  assert.match(JSON.stringify(shown), /the end/);
});

test('a task that is interrupted in its session is cancelled', async () => {
  const { user, json } = running;
  const session = await started('stopped', 'wait 600 s');
  const { code, stderr } = await user.run(['session', 'interrupt', session]);
  assert.equal(code, 0, stderr);
  await eventually(async () => (await json('task', 'show', 'stopped')).state === 'canceled', 'the end of the task');
});

test('a prompt in the session of a task is a further task of its conversation', async () => {
  const { user, json } = running;
  const session = await started('first', 'wait 200 ms; say "one"');
  await user.run(['task', 'result', 'first']);
  const { code, stdout, stderr } = await user.run(['session', 'send', session, 'say "two"']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /two/);
  const tasks = await json('task', 'ls');
  assert.ok(tasks.some(({ spec }: Json) => spec.brief === 'say "two"' && spec.context_id === 'first'));
});
