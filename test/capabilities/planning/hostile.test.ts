/** Requests of a hostile agent: documents made to be slow, cycles through thousands of tasks, names of prototypes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HandfastError } from '../../../src/wire/errors.ts';
import { agentOf, parseMarkdown, planningHost } from './support.ts';

async function refusal(work: Promise<unknown>): Promise<HandfastError> {
  const error = await work.then(
    () => assert.fail('was not refused'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof HandfastError, String(error));
  return error;
}

// Quadratic work takes longer than that.
test('a line of many spaces is read in linear time', { timeout: 120_000 }, () => {
  const many = ' '.repeat(200_000);
  const hostile = [
    `- [ ] a${many}b\n`,
    `- [ ] ${many}b\n`,
    `- [ ] a${'\t'.repeat(200_000)}<!-- task:\n`,
    `${many}- [x] a\n`,
  ];
  for (const text of hostile) assert.deepEqual(parseMarkdown(text).lines, [text]);
});

test('a cycle through many tasks is refused with no more of them than a message should have', async (t) => {
  const { planning } = await agentOf(t, await planningHost(t));
  const { plan_id } = await planning.createPlan('chain');
  const [title, length] = ['x'.repeat(1_000), 2_000];
  const first = await planning.add(plan_id, title);
  let last = first;
  for (let at = 1; at < length; at += 1) last = await planning.add(plan_id, title, { deps: [last.task_id] });
  const { code, message, detail } = await refusal(planning.update(plan_id, first.task_id, { deps: [last.task_id] }));
  assert.equal(code, 'planning.cycle');
  assert.ok(JSON.stringify({ message, detail }).length < 65_536);
  const { cycle, length: tasks } = detail as { cycle: string[]; length: number };
  assert.deepEqual([cycle[0], cycle.length, tasks], [first.task_id, 100, length]);
});

test('a claim is good for its fence, agent and principal alone, and names of prototypes are names', async (t) => {
  const principals = ['ana', 'bo'].map((name) => ({ name, capabilities: ['planning'] }));
  const host = await planningHost(t, { principals });
  const { planning } = await agentOf(t, host, 'same', 'ana');
  const bo = await agentOf(t, host, 'same', 'bo');
  const { plan_id } = await planning.createPlan('p', { columns: ['__proto__', 'constructor', 'done'] });
  const metadata = JSON.parse('{"__proto__":{"bad":1},"constructor":{"bad":1}}') as Record<string, unknown>;
  const { task_id } = await planning.add(plan_id, 'a', { metadata });
  assert.deepEqual(Object.keys((await planning.task(plan_id, task_id)).metadata ?? {}), ['__proto__', 'constructor']);
  assert.equal(({} as { bad?: number }).bad, undefined);
  const [board] = await planning.boards(plan_id);
  assert.deepEqual(Object.entries(board?.counts ?? {}), [
    ['__proto__', 1],
    ['constructor', 0],
    ['done', 0],
  ]);
  assert.equal((await refusal(bo.planning.task(plan_id, task_id))).code, 'planning.unknown_plan');
  await planning.share(plan_id, 'bo', 'write');
  const claim = await planning.claim(plan_id, { renew: false });
  const fence = claim?.fence ?? 0;
  for (const wrong of [fence + 1, Number.MAX_SAFE_INTEGER]) {
    assert.equal(
      (await refusal(planning.update(plan_id, task_id, { status: 'done', fence: wrong }))).code,
      'planning.claim_lost',
    );
  }
  assert.equal(
    (await refusal(bo.planning.update(plan_id, task_id, { status: 'done', fence }))).code,
    'planning.claim_lost',
  );
  await planning.share(plan_id, 'bo', 'none');
  assert.equal((await refusal(bo.planning.update(plan_id, task_id, { title: 'b' }))).code, 'planning.unknown_plan');
  assert.equal((await refusal(planning.add(plan_id, '\ud800'))).code, 'planning.invalid');
});

test('pages of tasks and of history fit into a message, and have all of them', async (t) => {
  const { planning } = await agentOf(t, await planningHost(t));
  const { plan_id } = await planning.createPlan('long');
  const metadata = { text: 'é'.repeat(5_000) };
  for (let at = 0; at < 300; at += 1) await planning.add(plan_id, `task ${at} ${'x'.repeat(900)}`, { metadata });
  const [task] = await planning.tasks(plan_id);
  for (let at = 0; at < 300; at += 1) {
    await planning.update(plan_id, task?.task_id ?? '', { metadata: { text: `${'é'.repeat(5_000)}${at}` } });
  }
  assert.equal((await planning.tasks(plan_id)).length, 300);
  const seqs = await Array.fromAsync(planning.history(plan_id), ({ seq }) => seq);
  assert.deepEqual(
    seqs,
    Array.from({ length: 601 }, (_, at) => at + 1),
  );
  assert.equal((await Array.fromAsync(planning.history(plan_id, task?.task_id))).length, 301);
});
