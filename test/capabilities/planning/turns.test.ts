/** Large documents and plans: read in turns, or refused by a named limit without any change. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { inTurns } from '../../support/longest-turn.ts';
import { agentOf, planningHost } from './support.ts';

const document = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, at) => `- [ ] task ${from + at}\n`).join('');

/** Returns the limit by which a request is refused. */
async function limitOf(t: TestContext, what: string, request: () => Promise<unknown>): Promise<unknown> {
  return inTurns(t, what, () =>
    request().then(
      () => 'none',
      ({ code, detail }: { code: string; detail: { limit: string } }) => `${code} ${detail.limit}`,
    ),
  );
}

test('a document that is too large is refused by the name of its limit, and changes nothing', async (t) => {
  const host = await planningHost(t);
  const agent = await agentOf(t, host);
  const { plan_id } = (await agent.request('planning/plan/create', { name: 'board' })) as { plan_id: string };
  const merge = (text: string) => agent.request('planning/markdown/req', { plan_id, text });
  const refused = async (what: string, text: string, limit: string): Promise<void> =>
    assert.equal(await limitOf(t, what, () => merge(text)), `planning.full ${limit}`);
  await refused('lines', document(60_000), 'document_lines');
  await refused('empty lines', '\n'.repeat(1_000_000), 'document_lines');
  await refused('tasks', document(6_000), 'document_tasks');
  await refused('changes', document(1_001), 'changed_tasks');
  await refused('characters', `- [ ] one ${' '.repeat(800_000)}two`, 'document_chars');
  await refused('comments', `- [ ] one ${'<!-- task:'.repeat(80_000)}`, 'document_chars');
  const { tasks } = (await agent.request('planning/task/list', { plan_id })) as { tasks: unknown[] };
  assert.deepEqual(tasks, []);
  const { added } = (await inTurns(t, 'a thousand tasks', () => merge(document(1_000)))) as { added: unknown[] };
  assert.equal(added.length, 1_000);
});

test('a plan of thousands of tasks is read, listed and merged in turns', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const first = await planningHost(t, { stateFile });
  const ana = await agentOf(t, first);
  const { plan_id } = (await ana.request('planning/plan/create', { name: 'board' })) as { plan_id: string };
  for (let at = 0; at < 6; at += 1) {
    await ana.request('planning/markdown/req', { plan_id, append: false, text: document(1_000, at * 1_000) });
  }
  await first.close(0);

  const host = await planningHost(t, { stateFile });
  const [agent, other] = [await agentOf(t, host), await agentOf(t, host, 'ben')];
  // Both ask while the plan is read: it is read once, and both get it.
  const shown = await inTurns(t, 'load', () =>
    Promise.all([agent, other].map((each) => each.request('planning/plan/show/req', { plan_id }))),
  );
  assert.deepEqual(
    shown.map(({ plan }) => (plan as { tasks: number }).tasks),
    [6_000, 6_000],
  );
  const list = { plan_id };
  assert.equal(await limitOf(t, 'list', () => agent.request('planning/task/list', list)), 'planning.full listed_tasks');
  assert.equal(
    await limitOf(t, 'board', () => agent.request('planning/plan/board', list)),
    'planning.full listed_tasks',
  );
  const { tasks, next } = (await agent.request('planning/task/list', { ...list, limit: 100 })) as {
    tasks: { task_id: string }[];
    next: string;
  };
  assert.deepEqual([tasks.length, next], [100, tasks.at(-1)?.task_id]);
  const rename = { plan_id, rename: { todo: 'later' } };
  assert.equal(
    await limitOf(t, 'rename', () => agent.request('planning/plan/configure/req', rename)),
    'planning.full changed_tasks',
  );
  const { text } = (await inTurns(t, 'append', () =>
    agent.request('planning/markdown/req', { plan_id, text: '' }),
  )) as { text: string };
  assert.equal(text.match(/<!-- task:/g)?.length, 6_000);
  const some = text
    .split('\n')
    .slice(0, 5_000)
    .join('\n')
    .replaceAll(/\[ \](?= task \d{1,2} )/g, '[x]');
  const merged = (await inTurns(t, 'merge', () =>
    agent.request('planning/markdown/req', { plan_id, text: some, append: false }),
  )) as { updated: unknown[] };
  assert.equal(merged.updated.length, 100);
});

test('the dependencies of a plan are limited, and a cycle over all of them is found in turns', async (t) => {
  const host = await planningHost(t);
  const agent = await agentOf(t, host);
  const { plan_id } = (await agent.request('planning/plan/create', { name: 'board' })) as { plan_id: string };
  const ids: string[] = [];
  let refused: unknown;
  for (let at = 0; at < 800 && refused === undefined; at += 1) {
    const reply = (await agent.request('planning/task/add', { plan_id, title: `t${at}`, deps: ids.slice(-200) })) as {
      success: boolean;
      task_id: string;
      error?: { detail: { limit: string } };
    };
    if (reply.success) ids.push(reply.task_id);
    else refused = reply.error?.detail.limit;
  }
  assert.equal(refused, 'plan_deps');
  const [first = '', ...rest] = ids;
  await agent.request('planning/task/delete/req', { plan_id, task_id: rest.pop() as string });
  const reply = (await inTurns(t, 'cycle', () =>
    agent.request('planning/task/update', { plan_id, task_id: first, add_deps: [rest.at(-1) as string] }),
  )) as { error?: { code: string } };
  assert.equal(reply.error?.code, 'planning.cycle');
});
