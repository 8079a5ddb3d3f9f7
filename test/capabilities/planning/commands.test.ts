/** `handfast plan …` against a running server, as a user types it. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { User } from '../../cli/command.ts';

test('a plan is made, worked on, synced with a file and read, all from the command line', {
  timeout: 240_000,
}, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [planning]\n');
  await user.up(['--config', 'handfast.yaml']);
  const plan = await user.json(['plan', 'create', 'release', '--columns', 'to, do', 'doing', 'done']);
  assert.deepEqual(plan.columns, ['to, do', 'doing', 'done']);
  const docs = await user.json(['plan', 'add', 'release', 'Write the docs']);
  const publish = await user.json(['plan', 'add', 'release', 'Publish', '--after', docs.task_id as string]);
  const claim = await user.json(['plan', 'claim', 'release']);
  assert.deepEqual([claim.title, claim.status, claim.fence], ['Write the docs', 'doing', 1]);
  const renewed = await user.json(['plan', 'renew', 'release', 'Write the docs', '--fence', '1', '--lease', '600']);
  assert.equal(renewed.lease_ms, 600_000);
  const stale = await user.failure(['plan', 'release', 'release', 'Write the docs', '--fence', '7']);
  assert.equal(stale.code, 'planning.claim_lost');
  assert.equal((await user.failure(['plan', 'release', 'release', 'Write the docs'])).code, 'usage');
  const refused = await user.failure(['plan', 'move', 'release', 'Publish', 'done']);
  assert.equal(refused.code, 'planning.blocked');
  await user.json(['plan', 'move', 'release', 'Write the docs', 'done', '--fence', '1']);
  const board = await user.run(['plan', 'board', 'release']);
  assert.match(board.stdout, /^to, do \(1\)\n {2}[0-9a-f]{12} {2}Publish\ndoing \(0\)\ndone \(1\)\n/);
  const file = join(user.cwd, 'plan.md');
  writeFileSync(file, '# Release\n\nKeep this.\n\n- [ ] Celebrate\n');
  const synced = await user.json(['plan', 'sync', 'release', file]);
  assert.equal((synced.added as unknown[]).length, 1);
  const text = readFileSync(file, 'utf8');
  assert.match(
    text,
    /^# Release\n\nKeep this\.\n\n- \[ \] Celebrate <!-- .* -->\n- \[x\] Write the docs <!-- .* -->\n- \[ \] Publish/,
  );
  const history = await user.run(['plan', 'history', 'release', publish.task_id as string]);
  assert.match(history.stdout, /created by /);
  await user.json(['plan', 'move', 'release', 'Publish', 'doing']);
  const words = ['plan', 'configure', 'release', '--rename', 'doing=in work', '--name', 'spring'];
  const configured = await user.json(words);
  assert.deepEqual([configured.name, configured.columns], ['spring', ['to, do', 'in work', 'done']]);
  assert.equal((await user.json(['plan', 'show', 'spring', 'Publish'])).status, 'in work');
  assert.equal((await user.failure(['plan', 'configure', 'spring', '--rename', 'done'])).code, 'usage');
  const unknown = await user.failure(['plan', 'board', 'nope']);
  assert.deepEqual(
    [unknown.code, unknown.message],
    ['planning.unknown_plan', 'there is no plan "nope"; "handfast plan ls" lists them'],
  );
});

test('a wrong command is refused with what is there and what to type', {
  timeout: 240_000,
}, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [planning]\n');
  await user.up(['--config', 'handfast.yaml']);
  const plan = (line: string, ...words: string[]) => user.run(['plan', ...line.split(' '), ...words]);
  /** Returns the message and its code. */
  const refused = async (line: string, ...words: string[]): Promise<string> => {
    const { code, stderr } = await plan(line, ...words);
    assert.notEqual(code, 0);
    return stderr.replace('handfast: ', '').trim();
  };
  assert.match((await plan('ls')).stderr, /no plans yet: handfast plan create <name>/);
  const { plan_id } = await user.json(['plan', 'create', 'w']);
  assert.match((await plan('claim w')).stderr, /no task is ready: 0 open, 0 of them claimed/);
  await user.json(['plan', 'add', 'w', 'Write the docs']);
  const part = await user.json(['plan', 'add', 'w', 'Part', '--parent', 'Write the docs']);
  await user.json(['plan', 'add', 'w', 'Publish', '--after', 'Write the docs', 'Part']);
  assert.equal(
    await refused('add w X --after nope'),
    'there is no task "nope"; "handfast plan tasks w" lists them [planning.unknown_task]',
  );
  assert.equal(
    await refused('move w Publish done'),
    '"Publish" waits for 2 tasks that are not done: "Write the docs", "Part" [planning.blocked]',
  );
  assert.equal((await user.json(['plan', 'claim', 'w'])).task_id, part.task_id);
  assert.match((await plan('claim w')).stderr, /no task is ready: 3 open, 1 of them claimed/);
  assert.equal(
    await refused('move w Part done --fence 9'),
    'the task has no claim with fence 9; its last one has fence 1 [planning.claim_lost]',
  );
  await user.json(['plan', 'move', 'w', 'Part', 'done', '--fence', '1']);
  assert.equal(
    await refused('release w Part --fence 1'),
    'the claim with fence 1 has ended; the task is in "done" [planning.claim_lost]',
  );
  assert.match(await refused('move w Publish todo --if-revision 7'), /^the task has revision 1, not 7; read it, /);
  assert.match(await refused('configure w'), /^pass what to change, .* \[usage\]$/);
  assert.match(await refused('configure w --rename x=y'), /^"x" is not a column of this plan; it has backlog, todo, /);
  assert.match((await plan('configure w --columns todo done')).stderr, /tasks in "backlog", .* no longer a column: 2/);
  assert.match(await refused('sync w nowhere/plan.md'), /^there is no folder .*nowhere \[usage\]$/);
  assert.match(await refused('dispatch w'), /handfast fleet up \(or name its server: --fleet-connect\)/);
  assert.match((await plan('create w')).stderr, /another plan has this name too; name this one by its id/);
  assert.match(
    await refused('board w'),
    /^"w" names 2 plans; pass the id of one: [0-9a-f]{12}, [0-9a-f]{12} \[planning/,
  );
  await user.json(['plan', 'archive', plan_id]);
  assert.match(
    (await plan(`claim ${plan_id}`)).stderr,
    /archived; restore it with: handfast plan archive [0-9a-f]{12} --undo/,
  );
  assert.deepEqual(await user.json(['plan', 'ready', plan_id]), []);
});
