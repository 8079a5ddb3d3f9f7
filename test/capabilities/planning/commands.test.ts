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
