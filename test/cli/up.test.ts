/**
 * `handfast up` as a process: its output when it is ready, the addresses on which it can be reached, the addresses it refuses,
 * and that commands find it while it lives and do not when it is dead.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type Json, User } from './command.ts';
import { noTmux, TmuxTerminal } from './tmux.ts';

const users: User[] = [];

function newUser(): User {
  const user = new User();
  users.push(user);
  return user;
}

after(() => Promise.all(users.map((user) => user.leave())));

test('with --json exactly one line says where the host is, and a signal stops it in good order', async () => {
  const user = newUser();
  const { command, ready } = await user.up();
  assert.deepEqual(ready, {
    ready: true,
    url: ready.url,
    listeners: [ready.url],
    token_file: join(user.home, 'token'),
    pid: command.child.pid,
  });
  assert.match(ready.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(statSync(ready.token_file as string).mode & 0o777, 0o600);
  command.child.kill('SIGTERM');
  const { code, stdout, stderr } = await command.ended();
  assert.deepEqual({ code, lines: stdout.split('\n').length, stderr }, { code: 0, lines: 2, stderr: '' });
  assert.deepEqual(readdirSync(join(user.home, 'running')), []);
});

test('for people it says what to type next', async () => {
  const user = newUser();
  const command = user.start(['up', '--port', '0']);
  await command.says('Ctrl-C');
  for (const text of ['host handfast is up', 'http://127.0.0.1:', user.cwd, 'handfast tools ls']) {
    assert.ok(command.stdout.includes(text), text);
  }
  command.child.kill('SIGINT');
  assert.equal((await command.ended()).code, 0);
});

test('a terminal of 80 columns cuts no line of the help and of what a host says', { skip: noTmux }, async () => {
  const user = newUser();
  for (const words of [['--help'], ['up', '--help'], ['fleet', 'workers', '--help'], ['up', '--port', '0']]) {
    const terminal = new TmuxTerminal(user.line(words), { cwd: user.cwd, env: user.environment({}), columns: 80 });
    try {
      const starts = words.at(-1) === '0';
      await terminal.shows(starts ? 'Ctrl-C' : /^exit code \d/m, { history: true });
      const lines = terminal.screen({ history: true, joined: true }).split('\n');
      // Only command lines and paths are longer.
      const cut = lines.filter((line) => line.trimEnd().length > 80 && !/^ +handfast |^ +\S+ +\//.test(line));
      assert.deepEqual(cut, [], words.join(' '));
      if (starts) terminal.press('C-c');
      assert.equal(await terminal.ended(), 0);
    } finally {
      terminal.close();
    }
  }
});

test('one host is reached over every kind of address, and details only with a token', async () => {
  const user = newUser();
  const socket = join(user.folder, 'host.sock');
  const { ready } = await user.up(['--listen', 'tcp://127.0.0.1:0', '--listen', `unix://${socket}`]);
  const [http, tcp, unix] = ready.listeners as [string, string, string];
  assert.equal(unix, `unix://${socket}`);
  assert.equal(http, ready.url);
  for (const address of [http, tcp, unix, `${http.replace('http', 'ws')}/ws`]) {
    assert.equal((await user.json(['ping', '--connect', address])).address, address);
  }
  // Without an address, the nearest host is used.
  assert.equal((await user.json(['ping'])).address, unix);

  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const get = (path: string, authorization?: string) =>
    fetch(http + path, { headers: authorization === undefined ? {} : { authorization } });
  assert.deepEqual(await (await get('/health')).json(), { status: 'ok' });
  for (const authorization of [undefined, 'Bearer wrong', token]) {
    assert.equal((await get('/status', authorization)).status, 401);
    assert.equal((await get('/sessions', authorization)).status, 401);
  }
  const status = (await (await get('/status', `Bearer ${token}`)).json()) as Json;
  assert.deepEqual(
    { status: status.status, host: status.host_id, listeners: status.listeners, dropped: status.audit.dropped },
    { status: 'ok', host: 'handfast', listeners: ready.listeners, dropped: 0 },
  );
  assert.deepEqual([status.dropped_messages, status.journal_failures, status.abandoned], [0, 0, 0]);
});

test('an address that is taken, or that others could reach, ends with 2 and says what to do', async () => {
  const user = newUser();
  const { ready } = await user.up();
  const { port } = new URL(ready.url);
  const taken = await user.failure(['up', '--port', port]);
  assert.deepEqual([taken.exit, taken.code], [2, 'config_invalid']);
  assert.match(taken.message, /the address is already in use; choose another with --port/);
  const open = await user.failure(['up', '--listen', 'tcp://0.0.0.0:0']);
  assert.deepEqual([open.exit, open.code], [2, 'config_invalid']);
  assert.match(open.message, /auth\.tokens.*insecure-bind/);
  const words = ['up', '--listen', 'tcp://0.0.0.0:0', '--insecure-bind'];
  assert.match((await user.failure(words)).message, /expected a loopback address, or a token \(auth\.tokens\), got/);
});

test('--insecure-bind also allows addresses of the configuration, which are refused without it', async () => {
  const user = newUser();
  user.write(
    'handfast.yaml',
    'listen: tcp://0.0.0.0:0\nauth: { tokens: [{ name: guest, token: guest-token-of-this-test }] }\n',
  );
  const refused = await user.failure(['up', '--config', 'handfast.yaml']);
  assert.deepEqual([refused.exit, refused.code], [2, 'config_invalid']);
  assert.match(refused.message, /^handfast\.yaml:1:9: at listen: .*insecure-bind/);
  const command = user.start(['up', '--json', '--insecure-bind', '--config', 'handfast.yaml']);
  await command.says('\n');
  const [address] = JSON.parse(command.stdout).listeners as [string];
  assert.match(address, /^tcp:\/\/0\.0\.0\.0:\d+$/);
  await command.says('other machines can reach this host', 'stderr');
  assert.equal((await user.run(['ping'])).code, 0);
});

test('a configuration with mistakes ends with 2 and names line and column of each', async () => {
  const user = newUser();
  user.write('handfast.yaml', 'host_id: box\nlimits:\n  max_paralel: 3\nlisten: nowhere\n');
  const { code, stdout, stderr } = await user.run(['up', '--config', 'handfast.yaml']);
  assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
  assert.match(stderr, /^handfast: handfast\.yaml has 2 problems:\n/);
  assert.match(stderr, /\nhandfast\.yaml:3:3: at limits\.max_paralel: .*max_parallel/);
  assert.match(stderr, /\nhandfast\.yaml:4:9: at listen/);
  const missing = await user.failure(['up', '--config', 'missing.yaml']);
  assert.deepEqual([missing.exit, missing.code], [2, 'config_invalid']);
});

test('a host that was killed is not found any more, and what it left is cleared away', async () => {
  const user = newUser();
  const { command } = await user.up();
  assert.equal((await user.run(['ping'])).code, 0);
  command.child.kill('SIGKILL');
  await command.ended();
  const [left] = readdirSync(join(user.home, 'running'));
  assert.equal(left, `handfast-${command.child.pid}.json`);
  const failed = await user.failure(['ping']);
  assert.deepEqual([failed.exit, failed.code], [4, 'unreachable']);
  assert.match(failed.message, /no host of this user is running/);
  assert.deepEqual(readdirSync(join(user.home, 'running')), []);
});

test('of several hosts the one of the current folder is meant; from elsewhere one must be named', async () => {
  const here = newUser();
  const there = newUser();
  const env = { HANDFAST_HOME: here.home };
  const first = await here.up();
  const second = await there.up([], { env });
  assert.equal((await here.json(['ping'])).address, first.ready.url);
  assert.equal((await there.json(['ping'], { env })).address, second.ready.url);
  const elsewhere = newUser();
  const failed = await elsewhere.failure(['ping'], { env });
  assert.deepEqual([failed.exit, failed.code], [2, 'usage']);
  for (const { ready } of [first, second]) assert.ok(failed.message.includes(ready.url), failed.message);

  // A printed note names the owner, and a note about a missing host names the place of one.
  const { ready } = first;
  const note = `host handfast at ${ready.url}, process ${ready.pid}, in ${here.cwd}; 1 more running: --connect chooses\n`;
  for (const words of [
    ['session', 'ls'],
    ['chain', 'runs'],
  ]) {
    const { code, stderr } = await here.run(words);
    assert.deepEqual([code, stderr.slice(0, note.length)], [0, note], words.join(' '));
  }
  assert.equal((await here.run(['session', 'ls', '--connect', ready.url])).stderr.includes('more running'), false);
  for (const words of [
    ['session', 'ls'],
    ['session', 'send', 'new', 'hello'],
  ]) {
    const none = await there.failure(words, { env });
    assert.deepEqual([none.exit, none.code], [4, 'unreachable']);
    assert.match(
      none.message,
      /^host handfast, process \d+, in .* serves no sessions: .*; name one that does with --connect:\n/,
    );
    assert.ok(none.message.includes(ready.url) && !none.message.includes(second.ready.url), none.message);
  }
});

test('a rejection a plugin forgot is logged and ends nothing; a plugin that cannot be loaded ends with 2', async () => {
  const user = newUser();
  user.write('handfast.yaml', 'plugins: [./stray.mjs]\n');
  user.write(
    'stray.mjs',
    `import { toolsPlugin } from 'handfast';
     Promise.reject(new Error('forgotten'));
     export const plugin = toolsPlugin({ tools: [] });`,
  );
  const { command } = await user.up(['--config', 'handfast.yaml']);
  await command.says('forgotten', 'stderr');
  assert.equal((await user.run(['ping'])).code, 0);

  user.write('stray.mjs', 'export const plugin = oops;');
  const failed = await user.failure(['up', '--port', '0', '--config', 'handfast.yaml']);
  assert.deepEqual([failed.exit, failed.code], [2, 'config_invalid']);
  assert.match(failed.message, /stray\.mjs cannot be loaded: oops is not defined/);
  assert.equal(existsSync(join(user.home, 'running', `handfast-${process.pid}.json`)), false);
});
