/**
 * The capabilities of a host in sessions of its models: tools that are found by search, the task list, recall.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { call, create, names, started, turn } from './session-stand.ts';

test('a model has memory, skills and its task list as tools, finds the others by search, and the search says what they cost', async (t) => {
  const stand = await started(t);
  const session = await create(stand.peer);
  const [first, second, third] = await turn(stand, session, 'which games are there?', [
    call('tool_search', { query: 'environments list' }),
    call('env_list', {}),
    { text: 'done' },
  ]);
  const listed = names(first);
  for (const name of ['memory_search', 'memory_store', 'update_plan', 'tool_search', 'read_file']) {
    assert.ok(listed.includes(name), `${name} in ${listed.join(' ')}`);
  }
  assert.ok(!listed.includes('env_list') && !listed.includes('learning_decide'), listed.join(' '));
  const found = JSON.parse(second.messages.at(-1).content);
  const [tool] = found.result?.tools ?? found.tools;
  assert.equal(tool.name, 'env_list');
  assert.ok(tool.tokens > 10);
  assert.ok(names(second).includes('env_list'));
  assert.match(third.messages.at(-1).content, /FrozenLake-v1/);
  const { tools } = (await stand.peer.call('tools.list')) as { tools: { name: string; tokens: number }[] };
  assert.ok(tools.every(({ tokens }) => tokens > 0));
});

test('a task list is shown, stored as a plan, and replaced as the model says', async (t) => {
  const stand = await started(t);
  const session = await create(stand.peer);
  const entry = (content: string, status: string, priority?: string) => ({
    content,
    status,
    ...(priority && { priority }),
  });
  await turn(stand, session, 'go', [
    call('update_plan', { entries: [entry('read', 'in_progress', 'high'), entry('write', 'pending')] }, 'a'),
    call('update_plan', { entries: [entry('read', 'completed'), entry('check', 'in_progress')] }, 'b'),
    call('update_plan', { entries: [entry('read', 'later')] }, 'c'),
    { text: 'done' },
  ]);
  const plans = stand.peer.events.filter(({ type }) => type === 'session.plan').map(({ payload }) => payload.entries);
  assert.deepEqual(plans, [
    [entry('read', 'in_progress', 'high'), entry('write', 'pending')],
    [entry('read', 'completed'), entry('check', 'in_progress')],
  ]);
  const agent = await connect(stand.tcp, { token: stand.token, capabilities: ['planning'] });
  t.after(() => agent.close());
  const [board] = await agent.planning.boards();
  assert.equal(board?.name, `session ${session}`);
  const titles = (column: string) => board?.tasks[column]?.map(({ title }) => title) ?? [];
  assert.deepEqual([titles('pending'), titles('in_progress'), titles('completed')], [[], ['check'], ['read']]);
});

test('what others change on the board is the task list of the session too, and the model reads it with the next prompt', async (t) => {
  let stand = await started(t);
  const session = await create(stand.peer);
  const entries = [
    { content: 'read', status: 'in_progress', priority: 'high' },
    { content: 'write', status: 'pending' },
  ];
  await turn(stand, session, 'go', [call('update_plan', { entries }), { text: 'done' }]);
  const board = async () => {
    const agent = await connect(stand.tcp, { token: stand.token, capabilities: ['planning'] });
    t.after(() => agent.close());
    const [plan] = await agent.planning.plans();
    return { planning: agent.planning, id: plan?.plan_id ?? '' };
  };
  const changed = () =>
    stand.peer.events
      .filter(({ type, payload }) => type === 'session.plan' && payload.elsewhere === true)
      .map(({ payload }) => payload.entries as { content: string; status: string }[]);
  const { planning, id } = await board();
  const task = async (title: string) => (await planning.tasks(id)).find((one) => one.title === title)?.task_id ?? '';
  await planning.update(id, await task('read'), { status: 'completed' });
  await planning.add(id, 'check', { status: 'pending' });
  await stand.peer.recorder.until(() => changed().at(-1)?.length === 3, 'the list with the task of others');
  assert.deepEqual(changed().at(-1), [
    { content: 'read', status: 'completed', priority: 'high' },
    { content: 'write', status: 'pending' },
    { content: 'check', status: 'pending' },
  ]);
  const [told, after] = await turn(stand, session, 'continue', [
    call('update_plan', { entries: [{ content: 'write', status: 'completed' }] }),
    { text: 'ok' },
  ]);
  const said = JSON.stringify(told.messages);
  assert.match(said, /task list was changed by others.*check/);
  assert.deepEqual(JSON.parse(after.messages.at(-1).content), { done: 1, open: 0 });
  const before = changed().length;
  stand = await stand.restart();
  const again = await board();
  const [line] = await again.planning.tasks(again.id);
  assert.equal(line?.title, 'write');
  await again.planning.update(again.id, line?.task_id ?? '', { title: 'write more', status: 'pending', force: true });
  const [next] = await turn(stand, session, 'what is left?', [{ text: 'more' }]);
  assert.match(JSON.stringify(next.messages), /changed by others.*write more/);
  assert.ok(before > 0);
});

test('what was remembered is recalled for a prompt that has to do with it, shown, and once in a session', async (t) => {
  let stand = await started(t);
  const first = await create(stand.peer);
  await turn(stand, first, 'note that', [
    call('memory_store', { key: 'deploy/window', content: 'Releases to production happen on Tuesdays only' }),
    { text: 'noted' },
  ]);
  stand = await stand.restart();
  const session = await create(stand.peer);
  const [body] = await turn(stand, session, 'when can I deploy releases to production?', [{ text: 'on Tuesday' }]);
  const said = JSON.stringify(body.messages);
  assert.match(said, /deploy\/window: Releases to production happen on Tuesdays only/);
  const shown = async (id: string) =>
    ((await stand.peer.call('session.messages', { session_id: id })).messages as { kind: string; text: string }[])
      .filter(({ kind }) => kind === 'system')
      .map(({ text }) => text);
  assert.deepEqual(await shown(session), [
    'recalled from memory: deploy/window (Releases to production happen on Tuesdays only)',
  ]);
  const [again] = await turn(stand, session, 'and releases to production on Friday?', [{ text: 'no' }]);
  assert.equal(JSON.stringify(again.messages).split('deploy/window').length, 2, 'once');
  const other = await create(stand.peer);
  const [unrelated] = await turn(stand, other, 'paint the fence green', [{ text: 'ok' }]);
  assert.doesNotMatch(JSON.stringify(unrelated.messages), /deploy/);
  const off = await create(stand.peer, { recall: false });
  const [without] = await turn(stand, off, 'when can I deploy releases to production?', [{ text: 'no idea' }]);
  assert.doesNotMatch(JSON.stringify(without.messages), /deploy\/window/);
  await stand.peer.call('session.configure', { session_id: off, recall: true });
  const [on] = await turn(stand, off, 'deploy releases to production?', [{ text: 'Tuesday' }]);
  assert.match(JSON.stringify(on.messages), /deploy\/window/);
});

test('sessions in another folder remember the same, and their tools work there', async (t) => {
  const stand = await started(t);
  const elsewhere = join(stand.folder, 'elsewhere');
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, 'here.txt'), 'in the other folder');
  const session = await create(stand.peer, { cwd: elsewhere });
  const bodies = await turn(stand, session, 'go', [
    call('memory_store', { key: 'place', content: 'the other folder' }),
    call('read_file', { path: 'here.txt' }),
    { text: 'ok' },
  ]);
  assert.match(bodies[2].messages.at(-1).content, /in the other folder/);
  const here = await create(stand.peer);
  const [, read] = await turn(stand, here, 'go', [call('memory_recall', { key: 'place' }), { text: 'ok' }]);
  assert.match(read.messages.at(-1).content, /the other folder/);
});

test('a principal without a capability has none of its tools', async (t) => {
  const token = 'x'.repeat(40);
  const rights = 'capabilities: [tools], sessions: { drive: own, read: own }, backends: ["*"]';
  const stand = await started(t, '', `auth: { tokens: [{ name: narrow, token: "${token}", ${rights} }] }`, { token });
  const session = await create(stand.peer);
  const [body] = await turn(stand, session, 'hello', [{ text: 'hi' }]);
  assert.ok(names(body).includes('read_file'));
  assert.deepEqual(
    names(body).filter((name) => /^(memory|env|plan|learning|skill)/.test(name)),
    [],
  );
});
