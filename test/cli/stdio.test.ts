/**
 * `handfast stdio` as a process: stdout carries messages and nothing else, also when plugins print; it ends with its
 * input; and it loads little, because its parent waits for it.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Json, PRINT_IMPORTS, User } from './command.ts';

const user = new User();
after(() => user.leave());

const handshake = (token = '') => ({
  type: 'handshake/req',
  id: 'hs',
  a2e: '1.0',
  version: '1.0',
  ts: 1,
  agent_id: 'test',
  agent_caps: ['tools'],
  auth_token: token,
});

const call = (tool_name: string, args: object = {}) => ({
  type: 'tool/call/req',
  id: 'call',
  a2e: '1.0',
  version: '1.0',
  ts: 1,
  tool_name,
  arguments: args,
  timeout: 10,
});

const lines = (...messages: object[]): string => messages.map((message) => `${JSON.stringify(message)}\n`).join('');
const messages = (stdout: string): Json[] =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

test('it answers what it was asked, then ends with its input: exit code 0, nothing on stderr', async () => {
  user.write('note.txt', 'kept');
  const input = lines(handshake(), call('read_file', { path: 'note.txt' }));
  const { code, stdout, stderr } = await user.run(['stdio'], { input });
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  const [welcome, result, ...rest] = messages(stdout);
  assert.deepEqual([welcome.ok, welcome.max_parallel, result.req_id, rest], [true, 4, 'call', []]);
  assert.equal(result.data.data.content, 'kept');
  assert.equal((await user.run(['stdio'])).code, 0, 'no input at all is fine');
  assert.equal((await user.run(['--json', 'stdio'])).code, 0);
});

test('another command can be its parent', async () => {
  const main = new URL('../../src/cli/main.ts', import.meta.url).pathname;
  const address = `stdio:${process.execPath} -C handfast-source ${main} stdio`;
  assert.equal((await user.json(['ping', '--connect', address])).address, address);
});

test('a signal lets running work be answered, then ends it', async () => {
  const command = user.start(['stdio']);
  command.child.stdin.write(lines(handshake()));
  await command.says('"ok":true');
  command.child.kill('SIGTERM');
  assert.equal((await command.ended()).code, 0);
});

test('what plugins print goes to stderr, also while they are loaded', async () => {
  const noisy = new User();
  noisy.write('handfast.yaml', 'plugins: [./noisy.mjs]\nlimits: { max_parallel: 2 }\n');
  noisy.write(
    'noisy.mjs',
    `import { tool, toolsPlugin } from 'handfast';
     console.log('loaded');
     const run = () => { console.log('called'); process.stdout.write('written\\n'); return 1; };
     export const plugin = toolsPlugin({ tools: [tool({ name: 'noisy', description: 'Prints.', run })] });`,
  );
  try {
    const { code, stdout, stderr } = await noisy.run(['stdio', '--config', 'handfast.yaml'], {
      input: lines(handshake(), call('noisy')),
    });
    assert.equal(code, 0);
    const [welcome, result] = messages(stdout);
    assert.deepEqual([welcome.max_parallel, result.data.data], [2, { value: 1 }]);
    assert.equal(stderr, 'loaded\ncalled\nwritten\n');
  } finally {
    await noisy.leave();
  }
});

test('when the configuration lists tokens, the parent must have one', async () => {
  const file = user.write(
    'tokens.yaml',
    'auth: { tokens: { name: parent, token: the-token-of-the-parent, roles: agent } }\n',
  );
  const reasonFor = async (token: string) => {
    const { code, stdout } = await user.run(['stdio', '--config', file], { input: lines(handshake(token)) });
    assert.equal(code, 0);
    return messages(stdout)[0].reason;
  };
  assert.equal(await reasonFor(''), 'auth_failed');
  assert.equal(await reasonFor('the-token-of-the-parent'), '');
});

test('mistakes in options and configuration end with 2 and leave stdout empty', async () => {
  const file = user.write('broken.yaml', 'limits: { max_parallel: many }\n');
  for (const [words, message] of [
    [['stdio', '--confg', file], /stdio accepts --config FILE and --verbose, not "--confg"/],
    [['stdio', `--config=${file}`], /broken\.yaml:1:25: at limits\.max_parallel: expected/],
  ] as const) {
    const { code, stdout, stderr } = await user.run(words);
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
    assert.match(stderr, message);
  }
});

test('without a configuration nothing is loaded that the first handshake does not need', async () => {
  const { stderr } = await user.run(['stdio'], { input: lines(handshake()), node: PRINT_IMPORTS });
  // The audit comes after the reply; the defaults are plain data.
  const late = /host\/audit|base\/(?:file-lock|sqlite\/file)|config\/defaults\.generated/;
  const imports = stderr.split('\n').filter((each) => !late.test(each));
  assert.ok(imports.some((each) => each.endsWith('/src/host/host.ts')));
  const forbidden =
    / imports (?:.*node_modules|node:(?:http|sqlite|fs|crypto|zlib)|.*\/src\/(?:agent|capabilities\/(?:\w+\/client|(?:env|learning|memory|planning|proc)\/(?:messages|plugin))|cli\/program|config\/|server\/http))/;
  assert.deepEqual(
    imports.filter((each) => forbidden.test(each)),
    [],
  );
});
