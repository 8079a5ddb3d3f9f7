/**
 * The planning API of the A2E Python SDK against Handfast's host over stdio, and `agent.planning` against the SDK's own
 * planning plugin, over HTTP and over stdin and stdout. The plugin's deviations are listed, and a better one passes
 * too.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Agent, connect } from '../../src/connect.ts';
import { asError } from '../../src/wire/errors.ts';
import { commandOf, environment, type Program, skip, start } from './python-sdk.ts';

const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');

describe('the planning API of the Python SDK’s agent', { skip }, () => {
  const home = mkdtempSync(join(tmpdir(), 'handfast-interop-planning-'));
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio'];
    process.env.HANDFAST_HOME = home;
    const agent = start(commandOf('python-planning.py', JSON.stringify(target)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  test('creates plans, with its columns as they are', () => {
    assert.deepEqual(
      [results.create.success, results.create.columns],
      [true, ['backlog', 'todo', 'in_progress', 'done']],
    );
    assert.deepEqual(results.commas.columns, ['to, do', 'do,ne']);
    assert.deepEqual(
      results.plans.plans.map(({ name }: { name: string }) => name),
      ['release', 'commas'],
    );
  });

  test('adds and changes tasks, and is refused with success false', () => {
    const { add, done } = results;
    assert.deepEqual([add.success, add.status, results['add after'].success], [true, 'backlog', true]);
    assert.deepEqual([done.success, done.task_id], [true, add.task_id]);
    // Without changes, which the SDK's own host does not answer.
    assert.equal(results['no change'].success, true);
    assert.equal(results['other column'].success, true);
    for (const refused of ['add to no plan', 'blocked', 'cycle', 'no task']) {
      assert.equal(results[refused].success, false, refused);
    }
  });

  test('lists by plan and by status alone, and reads boards', () => {
    const titles = (tasks: { title: string }[]) => tasks.map(({ title }) => title);
    assert.deepEqual(titles(results.list.tasks), ['Write the docs', 'Publish']);
    assert.deepEqual(titles(results['by status'].tasks), ['Write the docs']);
    assert.equal(results['list of no plan'].code, 'planning.unknown_plan');
    const [board] = results.board.boards;
    assert.deepEqual([titles(board.tasks.backlog), titles(board.tasks.done)], [['Publish'], ['Write the docs']]);
    assert.equal(results.boards.boards.length, 2);
  });

  test('claims by raw message, which its client has no call for', () => {
    assert.deepEqual([results['raw claim'].task?.title, results['raw claim'].fence], ['Celebrate', 1]);
  });
});

for (const binding of ['http', 'stdio'] as const) {
  describe(`the planning plugin of a Python host, over ${binding}`, { skip }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'handfast-interop-planning-host-'));
    let host: Program | undefined;
    let agent: Agent<'planning'>;

    before(async () => {
      const command = commandOf('python-planning-host.py', binding, folder);
      if (binding === 'http') host = start(command);
      const address =
        host === undefined
          ? `stdio:${command.map((word) => `'${word}'`).join(' ')}`
          : (await host.line()).replace('listening ', '');
      agent = await connect(address, { capabilities: ['planning'], env: environment(), timeoutMs: 10_000 });
    });
    after(async () => {
      await agent?.close();
      await host?.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    test('plans are created and listed, tasks added, changed and read', async () => {
      const { planning } = agent;
      const plan = await planning.createPlan('release');
      assert.deepEqual([plan.name, plan.columns], ['release', ['backlog', 'todo', 'in_progress', 'done']]);
      assert.ok((await planning.plans()).some(({ plan_id }) => plan_id === plan.plan_id));
      const task = await planning.add(plan.plan_id, 'Write the docs', { status: 'todo', assignee: 'ana' });
      assert.deepEqual([task.title, task.status], ['Write the docs', 'todo']);
      await planning.update(plan.plan_id, task.task_id, { status: 'done' });
      const [listed] = await planning.tasks(plan.plan_id);
      assert.deepEqual([listed?.task_id, listed?.status, listed?.assignee], [task.task_id, 'done', 'ana']);
      const [board] = await planning.boards(plan.plan_id);
      assert.deepEqual(
        board?.tasks.done?.map(({ title }) => title),
        ['Write the docs'],
      );
    });

    test('a refusal without a code is planning.refused; additions of ours are refused by code', async () => {
      const { planning } = agent;
      const plan = await planning.createPlan('other');
      const code = (call: Promise<unknown>) =>
        call.then(
          () => 'done',
          (thrown: unknown) => asError(thrown).code,
        );
      assert.equal(await code(planning.update(plan.plan_id, '0f1e2d3c4b5a', { status: 'done' })), 'planning.refused');
      for (const call of [planning.plan(plan.plan_id), planning.ready(plan.plan_id), planning.claim(plan.plan_id)]) {
        assert.ok(['parse_error', 'invalid_message'].includes(await code(call)));
      }
      // The link stays open.
      assert.equal((await planning.plans()).length >= 2, true);
    });
  });
}
