/**
 * `handfast doctor` about capabilities: the parts behind each, and how to get a missing one.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { builtinCapabilities } from '../../src/capabilities/index.ts';
import { type Json, User } from './command.ts';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

/** Returns the checks by name. */
async function checksOf(user: User): Promise<Map<unknown, Json>> {
  const { stdout } = await user.run(['doctor', '--json']);
  const { checks } = JSON.parse(stdout) as { checks: Json[] };
  // The port of the defaults may be in use on this machine.
  assert.deepEqual(
    checks.filter(({ name, status }) => status === 'fail' && name !== 'listen'),
    [],
  );
  return new Map(checks.map((check) => [check.name, check]));
}

test('without a configuration every capability is there, and says what it lacks', async () => {
  const user = new User();
  users.push(user);
  const checks = await checksOf(user);
  for (const { name } of builtinCapabilities) assert.equal(checks.get(name)?.status, 'ok', name);
  assert.match(String(checks.get('toolkits')?.fix), /git, http, process/);
  assert.match(String(checks.get('proc')?.fix), /programs/);
  assert.match(String(checks.get('multi_agent')?.fix), /kinds/);
});

test('a capability that the configuration does not name is off, and how to add it is said', async () => {
  const user = new User();
  users.push(user);
  writeFileSync(join(user.cwd, 'handfast.yaml'), 'plugins: [tools, memory]\n');
  await user.run(['trust', 'add', '--yes']);
  const checks = await checksOf(user);
  for (const { name } of builtinCapabilities) {
    const isOn = name === 'tools' || name === 'memory';
    assert.equal(checks.get(name)?.status, isOn ? 'ok' : 'off', name);
    if (!isOn) assert.match(String(checks.get(name)?.fix), new RegExp(`add ${name} to plugins`));
  }
  const { stdout } = await user.run(['doctor']);
  assert.match(stdout, /^off {3}planning {5}Plans of tasks/m);
  assert.match(stdout, /^ +→ add planning to plugins: of handfast\.yaml$/m);
});

test('with a configuration that cannot be used it says what it could not check', async () => {
  const user = new User();
  users.push(user);
  const file = user.write('broken.yaml', 'plugins: [toolz]\n');
  const { code, stdout } = await user.run(['doctor', '--config', file, '--json']);
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: Json[] };
  assert.deepEqual([code, ok], [2, false]);
  const names = checks.map(({ name }) => name);
  for (const { name } of builtinCapabilities) assert.ok(!names.includes(name), name);
  const { status, message, fix } = checks[names.indexOf('config') + 1];
  assert.equal(status, 'warn');
  assert.match(message, /^addresses, capabilities and model: /);
  assert.match(fix, /"config"/);
});
