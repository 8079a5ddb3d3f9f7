/**
 * Questions of workers at the command line: the shown text, the possible answers, answers that are refused before they are
 * sent.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type Fleet, fleet } from './fleet-bench.ts';

const ends: (() => Promise<void>)[] = [];
let running: Fleet;

before(async () => {
  running = await fleet({ after: (end) => ends.push(end) });
});
after(async () => {
  for (const end of ends) await end();
});

/** Submits a task that asks, and waits until it does. */
async function asking(id: string, brief: string): Promise<void> {
  await running.json('task', 'submit', '--id', id, '--access', 'read', brief);
  for (const end = performance.now() + 60_000; ; await setTimeout(100)) {
    const { questions } = await running.json('task', 'show', id);
    if (questions.length > 0) return;
    assert.ok(performance.now() < end, 'no question');
  }
}

test('a question shows its choices, and an answer is checked against them before it is sent', async () => {
  const { user, json } = running;
  await asking('colour', 'ask "Which colour?" with choices "red", "blue"');
  const { stdout } = await user.run(['task', 'show', 'colour']);
  assert.match(
    stdout,
    /asks {6}Which colour\? \(one of red, blue\); answer: handfast task answer colour \S+ red\|blue/,
  );
  const wrong = await user.run(['task', 'answer', 'colour', 'green']);
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.stderr, /the answer was not sent: .*red, blue/);
  assert.equal((await json('task', 'show', 'colour')).questions.length, 1);
  const answered = await user.run(['task', 'answer', 'colour', 'blue']);
  assert.equal(answered.code, 0, answered.stderr);
  await user.run(['task', 'result', 'colour']);
  const { state, result } = await json('task', 'show', 'colour');
  assert.equal(state, 'done');
  assert.match(result.prose, /blue/);
});

test('a question may be named by the beginning of its id, and denied', async () => {
  const { user, json } = running;
  await asking('denied', 'ask "Which colour?" with choices "red", "blue"');
  const [{ question_id: id }] = (await json('task', 'show', 'denied')).questions;
  const { code, stderr } = await user.run(['task', 'answer', 'denied', id.slice(0, 6), 'no']);
  // "no" is not one of the choices: it denies.
  assert.equal(code, 0, stderr);
  await user.run(['task', 'result', 'denied']);
  assert.equal((await json('task', 'show', 'denied')).questions.length, 0);
});

test('a batch that is waited for names its tasks first, and each line of its outcome', async () => {
  const { user } = running;
  const file = user.write(
    'batch.yaml',
    'tasks:\n  - { id: one, brief: say "first" }\n  - { id: two, brief: say "second" }\n',
  );
  const { code, stdout, stderr } = await user.run(['task', 'batch', file, '--wait']);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /task one {2}say "first"\ntask two {2}say "second"/);
  assert.match(stdout, /^one: done, \d+ tokens/m);
  assert.match(stdout, /^two: done, \d+ tokens/m);
});
