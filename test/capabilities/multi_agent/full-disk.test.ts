/** Subagents on a full disk: nothing is acknowledged that is not stored, and a failed write succeeds once there is space. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../../src/connect.ts';
import { asError } from '../../../src/wire/errors.ts';
import { Command, User } from '../../cli/command.ts';

const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

const program = fileURLToPath(new URL('../../server/control/gated-agent.ts', import.meta.url));
const command = JSON.stringify([process.execPath, '-C', 'handfast-source', program]);
const kinds = `[{ name: a, command: ${command} }, { name: r, executor: { kind: rehearsal } }]`;

test('a spawn and a task that cannot be stored are refused with disk_full, and so is the wait for an end; then all is there', {
  skip: noLimit,
  timeout: 180_000,
}, async (t) => {
  const user = new User();
  users.push(user);
  const config = user.write(
    'full.yaml',
    `audit: { enabled: false }\nplugins: [{ use: multi_agent, options: { kinds: ${kinds} } }]`,
  );
  const line = user.line(['up', '--json', '--port', '0', '--config', config]);
  const limited = new Command(spawn(line[0] as string, line.slice(1), { cwd: user.cwd, env: user.environment() }));
  t.after(() => limited.child.kill('SIGKILL'));
  await limited.says('\n');
  /** Sets the size above which files do not grow. */
  const limit = (bytes: string) =>
    spawnSync('prlimit', [`--fsize=${bytes}:unlimited`, '--pid', `${limited.child.pid}`]);
  const { url, token_file } = JSON.parse(limited.stdout) as { url: string; token_file: string };
  const token = readFileSync(token_file, 'utf8').trim();
  const agent = await connect(url, { capabilities: ['multi_agent'], agentId: 'lead', token });
  t.after(() => agent.close());
  const lead = agent.multi_agent;
  const worker = await lead.spawn('worker', { kind: 'a' });
  const gate = `${user.cwd}/gate`;
  const gated = await worker.delegate(`gate ${gate}`);
  const idle = await lead.spawn('idle', { kind: 'a' });
  const codeOf = (one: PromiseLike<unknown>) => Promise.resolve(one).then(undefined, (thrown) => asError(thrown).code);
  limit('1000');
  assert.equal(await codeOf(lead.spawn('refused', { kind: 'r' })), 'disk_full');
  assert.equal(await codeOf(idle.delegate('more')), 'disk_full');
  // A refused subagent does not exist: it takes no slot and no task.
  assert.deepEqual(
    (await lead.list()).map(({ name, status }) => [name, status]),
    [
      ['worker', 'RUNNING'],
      ['idle', 'READY'],
    ],
  );
  assert.equal(await codeOf(idle.result()), 'multi_agent.no_task');
  writeFileSync(gate, '');
  assert.equal(await codeOf(worker.result({ taskId: gated })), 'disk_full');
  assert.equal(await codeOf(worker.terminate()), 'disk_full');
  limit('unlimited');
  const { status, result } = await worker.result({ taskId: gated });
  assert.deepEqual([status, result], ['COMPLETED', { done: `gate ${gate}` }]);
  await idle.run('more');
  limited.child.kill('SIGKILL');
  await limited.ended();
  const { ready } = await user.up(['--config', config]);
  const again = await connect(ready.url, {
    capabilities: ['multi_agent'],
    agentId: 'lead',
    token: readFileSync(ready.token_file as string, 'utf8').trim(),
  });
  t.after(() => again.close());
  const ended = await again.multi_agent.subagent(worker.id).result({ taskId: gated });
  assert.deepEqual([ended.status, ended.result], ['COMPLETED', result]);
});
