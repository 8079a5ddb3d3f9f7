/** `handfast mcp …` against a running server, as a user types it. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { User } from '../../cli/command.ts';
import { everything, oddCommand } from './support.ts';

test('servers are listed, called and their changes accepted from the command line', { timeout: 240_000 }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const [command, ...args] = oddCommand;
  const servers = [everything, { name: 'odd', command, args }, { name: 'gone', command, disabled: true }];
  const plugins = JSON.stringify(['tools', { use: 'mcp', options: { servers } }]);
  user.write('handfast.yaml', `listen: http://127.0.0.1:0\nplugins: ${plugins}\n`);
  await user.up(['--config', 'handfast.yaml']);
  const before = await user.run(['mcp', 'ls']);
  assert.match(before.stdout, /^everything +stdio +idle *$/m);
  assert.match(before.stdout, /^gone +stdio +disabled +switched off in the configuration$/m);
  const tools = await user.run(['mcp', 'tools', 'everything']);
  assert.match(tools.stdout, /^everything__echo +reads +Echoes back the input string$/m);
  const echoed = await user.run(['mcp', 'call', 'everything', 'echo', '{"message": "hello"}']);
  assert.equal(echoed.stdout, 'Echo: hello\n');
  const data = await user.json(['mcp', 'call', 'everything', 'get-structured-content', '{"location": "Chicago"}']);
  assert.equal(typeof data.temperature, 'number');
  assert.equal((await user.failure(['mcp', 'call', 'everything', 'echo', 'hello'])).code, 'usage');
  assert.match((await user.run(['mcp', 'resources', 'odd'])).stdout, /^odd:249 +odd +r249$/m);
  assert.match((await user.run(['mcp', 'read', 'odd:5'])).stdout, /^of \d+$/m);
  assert.match((await user.run(['mcp', 'prompts'])).stdout, /^greet +odd +who *$/m);
  assert.equal((await user.run(['mcp', 'prompt', 'greet', '{"who": "Ada"}'])).stdout, 'user: Greet Ada\n');
  assert.match(
    (await user.run(['mcp', 'templates'])).stdout,
    /^demo:\/\/resource\/dynamic\/text\/\{resourceId\} +everything +text\/plain/m,
  );
  assert.equal(
    (await user.run(['mcp', 'complete', 'completable-prompt', 'department', 'S'])).stdout,
    'Sales\nSupport\n',
  );
  const completed = await user.json([
    'mcp',
    'complete',
    'demo://resource/dynamic/text/{resourceId}',
    'resourceId',
    '5',
  ]);
  assert.deepEqual(completed, ['5']);
  assert.equal((await user.failure(['mcp', 'call', 'gone', 'pid'])).code, 'unknown_tool');
  await user.run(['mcp', 'call', 'odd', 'shifty']);
  writeFileSync(join(user.cwd, 'DEFINITION'), 'another');
  await user.failure(['mcp', 'call', 'odd', 'die']);
  const refused = await user.failure(['mcp', 'call', 'odd', 'shifty']);
  assert.equal(refused.code, 'tool_changed');
  assert.match((await user.run(['mcp', 'ls'])).stdout, /^odd +stdio +ready +10 +changed, not accepted: shifty$/m);
  assert.equal((await user.run(['mcp', 'accept', 'odd'])).stdout, 'accepted: shifty\n');
  assert.equal((await user.run(['mcp', 'call', 'odd', 'shifty'])).stdout, 'another\n');
  assert.match((await user.run(['mcp', 'logs', 'odd'])).stdout, /odd server: starting/);
  assert.equal((await user.failure(['mcp', 'logs', 'none'])).code, 'not_found');
  const doctor = await user.run(['doctor', '--config', 'handfast.yaml']);
  assert.match(doctor.stdout, /^ok +mcp +3 servers, 1 of them switched off$/m);
});

test('a host without MCP servers says how they are loaded', { timeout: 240_000 }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [tools]\n');
  await user.up(['--config', 'handfast.yaml']);
  const { code, message } = await user.failure(['mcp', 'ls']);
  assert.equal(code, 'capability_missing');
  assert.match(message, /^capability mcp was not granted: .+; the configuration of the host loads it with plugins/);
});
