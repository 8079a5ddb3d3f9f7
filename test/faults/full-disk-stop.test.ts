/** A server on a full disk ends soon at its first signal, though work runs: its outcome could not be stored. It says which stores fail. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { connect } from '../../src/connect.ts';
import { asError } from '../../src/wire/errors.ts';
import { Command, User } from '../cli/command.ts';

const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

const user = new User();
after(() => user.leave());

test('a server that cannot store does not wait for work that runs', { skip: noLimit, timeout: 60_000 }, async (t) => {
  const config = user.write(
    'full.yaml',
    'limits: { shutdown_timeout_ms: 600000 }\njournal: { kind: sqlite, durable: replies }\nplugins: [tools, planning]\n',
  );
  const line = user.line(['up', '--json', '--port', '0', '--config', config]);
  const server = new Command(spawn(line[0] as string, line.slice(1), { cwd: user.cwd, env: user.environment() }));
  t.after(() => server.child.kill('SIGKILL'));
  await server.says('\n');
  const { url, token_file } = JSON.parse(server.stdout) as { url: string; token_file: string };
  const token = readFileSync(token_file, 'utf8').trim();
  const agent = await connect(url, { capabilities: ['tools', 'planning'], agentId: 'a', token });
  t.after(() => agent.close());
  const ran = agent.tools.call('shell', { command: 'echo runs > started; sleep 600' });
  const failed = Promise.resolve(ran).then(undefined, (thrown) => asError(thrown).code);
  while ((await agent.tools.call('list_dir', { path: '.' }).then(JSON.stringify)).includes('started') === false);
  spawnSync('prlimit', ['--fsize=1000:unlimited', '--pid', `${server.child.pid}`]);
  await assert.rejects(async () => agent.planning.createPlan('p'), { code: 'disk_full' });
  server.child.kill('SIGTERM');
  const { code, stderr } = await server.ended();
  assert.equal(code, 0, stderr);
  assert.match(stderr, /the server ends while stores cannot store.*the journal file could not be written/);
  assert.notEqual(await failed, undefined);
});
