/** `handfast env …` against a running host, as a user types it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { User } from '../../cli/command.ts';
import { gymPython, skip } from './gym-python.ts';

test('env check prints what keeps its contract, and fails where the options do not fit', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [env]\n');
  await user.up(['--config', 'handfast.yaml']);
  const passed = await user.run(['env', 'check', 'FrozenLake-v1', '--steps', '40', '--make', '{"is_slippery":false}']);
  assert.deepEqual([passed.code, passed.stdout], [0, 'FrozenLake-v1 keeps the contract\n']);
  assert.deepEqual(await user.json(['env', 'check', 'Blackjack-v1']), { findings: [] });
  assert.equal((await user.failure(['env', 'check', 'FrozenLake-v9'])).code, 'runtime_error');
  assert.equal((await user.failure(['env', 'check', 'Taxi-v4', '--steps', 'all'])).code, 'usage');
  assert.equal((await user.failure(['env', 'check', 'Taxi-v4', '--steps', '1001'])).code, 'usage');
});

test('env check prints the findings of an environment of Python, and exits with 1', { skip }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const gym = `{ name: ReusesAfterEight-v0, module: broken_environments, python: ${gymPython()} }`;
  user.write('handfast.yaml', `listen: http://127.0.0.1:0\nplugins: [{ use: env, options: { gym: [${gym}] } }]\n`);
  await user.up(['--config', 'handfast.yaml'], { env: { PYTHONPATH: join(import.meta.dirname, 'fixtures') } });
  const found = await user.run(['env', 'check', 'gym/ReusesAfterEight-v0']);
  assert.equal(found.code, 1);
  assert.match(
    found.stdout,
    /^reuse, step 0\n {2}expected {2}what was returned .*\n {2}found {5}.*\n {2}mend {6}return a copy/,
  );
  assert.match(found.stderr, /^Gymnasium's own checker: passes$/m);
  const { code, stdout } = await user.run(['env', 'check', 'gym/ReusesAfterEight-v0', '--json']);
  const { findings, gymnasium } = JSON.parse(stdout) as { findings: { rule: string }[]; gymnasium: unknown };
  assert.deepEqual(
    [code, findings.map(({ rule }) => rule), gymnasium],
    [1, ['reuse'], { problem: null, warnings: [] }],
  );
});
