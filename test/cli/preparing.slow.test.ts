/**
 * The commands around a host: the first ones of a newcomer, those of an operator, and the texts of the command line itself when
 * it is asked or mistaken.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { builtinCapabilities } from '../../src/capabilities/index.ts';
import { packageVersion } from '../../src/cli/package-info.ts';
import { type Json, User } from './command.ts';

const users: User[] = [];

function newUser(): User {
  const user = new User();
  users.push(user);
  return user;
}

after(() => Promise.all(users.map((user) => user.leave())));

test('init, up, and the first own tool works', async () => {
  const user = newUser();
  const { code, stdout } = await user.run(['init']);
  assert.equal(code, 0);
  assert.match(stdout, /^wrote handfast\.yaml\nwrote hello\.mts\n/);
  const { command } = await user.up();
  assert.equal((await user.run(['tools', 'call', 'hello', 'name=world'])).stdout, 'Hello, world!\n');
  const counted = await user.run(['tools', 'call', 'count_down', 'from=2', '--stream']);
  assert.deepEqual([JSON.parse(counted.stdout), counted.stderr], [{ counted: 2 }, '0 % 2\n50 % 1\n']);
  assert.ok((await user.json<{ name: string }[]>(['tools', 'ls'])).some(({ name }) => name === 'read_file'));
  assert.equal(command.stderr, '', 'a fresh configuration gives no warning');

  // Editors find the schema by the first line, without a network.
  const [, schema = ''] =
    /^# yaml-language-server: \$schema=(.+)$/m.exec(readFileSync(join(user.cwd, 'handfast.yaml'), 'utf8')) ?? [];
  assert.equal(JSON.parse(readFileSync(schema, 'utf8')).title, 'handfast.yaml');
  const again = await user.failure(['init']);
  assert.deepEqual([again.exit, again.code], [2, 'usage']);
  user.write('hello.mts', 'changed');
  assert.equal((await user.run(['init', '--force'])).code, 0);
  assert.match(readFileSync(join(user.cwd, 'hello.mts'), 'utf8'), /toolsPlugin/);
  assert.deepEqual((await user.json(['init', 'inner'])).written, [
    join('inner', 'handfast.yaml'),
    join('inner', 'hello.mts'),
  ]);
});

test('init writes into the folder and never through a link that lies there', async () => {
  const user = newUser();
  const other = join(user.folder, 'other');
  symlinkSync(other, join(user.cwd, 'handfast.yaml'));
  const refused = await user.failure(['init']);
  assert.deepEqual([refused.exit, refused.code], [2, 'usage'], 'a link that leads nowhere is there, too');
  assert.equal((await user.run(['init', '--force'])).code, 0);
  assert.equal(existsSync(other), false);
  assert.equal(lstatSync(join(user.cwd, 'handfast.yaml')).isFile(), true);
});

test('config check says that a file is fine, or everything that is wrong with it', async () => {
  const user = newUser();
  assert.match((await user.run(['config', 'check'])).stdout, /^no file: the defaults: fine\n/);
  await user.run(['init']);
  const { plugins, ok } = await user.json(['config', 'check']);
  const builtin = builtinCapabilities.filter(({ byDefault }) => byDefault).map(({ name }) => name);
  assert.deepEqual(
    [ok, (plugins as string[]).toSorted()],
    [true, [...builtin, join(user.cwd, 'hello.mts')].toSorted()],
  );
  const file = user.write('wrong.yaml', 'plugins: [tool]\n');
  const failed = await user.failure(['config', 'check', file]);
  assert.equal(failed.exit, 2);
  assert.match(failed.message, /wrong\.yaml:1:11: at plugins\[0\]: .*did you mean/);
});

test('config check warns of protected files in the workspace, and of principals that may run programs', async () => {
  const user = newUser();
  user.write('ci.token', 'the-token-of-the-ci-job-0001');
  user.write(
    'handfast.yaml',
    `audit: { file: ../audit.jsonl }
plugins: [tools]
auth: { tokens: [{ name: ci, token_file: ./ci.token, capabilities: [tools], tools: { allow: [read_file] } }] }\n`,
  );
  const { exposed } = await user.json(['config', 'check']);
  assert.deepEqual(
    exposed.map((line: string) => line.split(' ')[0]),
    [join(user.cwd, 'handfast.yaml'), join(user.cwd, 'ci.token')],
  );
  assert.match((await user.run(['config', 'check'])).stderr, /^warning: .*handfast\.yaml is in the workspace: /m);
  // Without bubblewrap, no program covers anything.
  user.write(
    'runs.yaml',
    'auth: { tokens: [{ name: ci, token_file: ./ci.token, capabilities: [tools], tools: { allow: [shell] } }] }\n',
  );
  const { stderr } = await user.run(['config', 'check', 'runs.yaml'], { env: { PATH: user.cwd } });
  assert.match(stderr, /^warning: ci may run programs/m);
});

test('config check says how many sessions each principal may have', async () => {
  const user = newUser();
  user.write(
    'handfast.yaml',
    `limits: { max_sessions: 40 }
auth:
  tokens:
    - { name: ci, token: the-token-of-the-ci-job-0001, roles: [agent] }
    - { name: own, token: the-token-of-the-own-job-001, roles: [agent], limits: { max_sessions: 30 } }\n`,
  );
  const { principals } = await user.json<{ principals: { name: string; sessions_at_once: object | null }[] }>([
    'config',
    'check',
  ]);
  assert.deepEqual(
    principals.map(({ name, sessions_at_once }) => [name, sessions_at_once]),
    [
      ['local', null],
      ['ci', { environment: 20, control: 1000 }],
      ['own', { environment: 30, control: 30 }],
    ],
  );
  assert.match((await user.run(['config', 'check'])).stdout, /^ +sessions_at_once +environment 20; control 1000$/m);
});

test('schemas are listed, printed and written', async () => {
  const user = newUser();
  const names = await user.json<string[]>(['schema', 'export']);
  assert.ok(names.includes('a2e') && names.includes('config'));
  assert.equal((await user.run(['schema', 'export'])).stdout, `${names.join('\n')}\n`);
  const { stdout } = await user.run(['schema', 'export', 'config']);
  assert.equal(JSON.parse(stdout).title, 'handfast.yaml');
  const written = await user.json<string[]>(['schema', 'export', '--out', 'out']);
  assert.deepEqual(
    written,
    names.map((name) => join('out', `${name}.json`)),
  );
  for (const file of written) JSON.parse(readFileSync(join(user.cwd, file), 'utf8'));
  const failed = await user.failure(['schema', 'export', 'tols']);
  assert.equal(failed.exit, 2);
  assert.match(failed.message, /did you mean tools\?/);
});

test('the audit of a host is whole, and a changed line is found', async () => {
  const user = newUser();
  const { command } = await user.up();
  await user.run(['tools', 'call', 'list_dir']);
  command.child.kill('SIGTERM');
  await command.ended();
  const report = await user.json(['audit', 'verify']);
  assert.equal(report.ok, true);
  const { file, head } = report.chains[0];
  assert.equal((await user.json(['audit', 'verify', file, '--head', head.hash])).ok, true);
  assert.match((await user.run(['audit', 'verify'])).stdout, /\nwhole: \d+ lines in 1 file\n$/);

  const text = readFileSync(file, 'utf8');
  assert.match(text, /"tool":"list_dir"/);
  writeFileSync(file, text.replace('list_dir', 'edit_txt'));
  const broken = await user.run(['audit', 'verify', file]);
  assert.equal(broken.code, 5);
  assert.match(broken.stdout, /\nbroken at .*:\d+: edited\n$/);
  const nothing = await user.failure(['audit', 'verify', 'nowhere.jsonl']);
  assert.deepEqual([nothing.exit, nothing.code], [2, 'usage']);
});

test('the lines of the audit are listed by time, principal, capability and outcome, page by page', async () => {
  const user = newUser();
  await user.up();
  await user.run(['tools', 'call', 'list_dir']);
  await user.run(['tools', 'call', 'read_file', 'path=missing']);
  await user.run(['memory', 'add', 'city', 'Lisbon']);
  const listed = async (...words: string[]): Promise<Json[]> => {
    const { stdout, code } = await user.run(['audit', 'ls', '--json', ...words]);
    assert.equal(code, 0);
    return stdout === ''
      ? []
      : stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line));
  };
  const types = (lines: Json[]): string[] => lines.map(({ type }) => type);
  const all = await listed();
  assert.deepEqual(
    all.map(({ n }) => n),
    all.map((_, at) => at + 1),
    'the newest last',
  );
  const file = join(user.home, 'hosts', 'handfast', 'audit.jsonl');
  assert.equal(readFileSync(file, 'utf8'), `${all.map((line) => JSON.stringify(line)).join('\n')}\n`, 'as stored');
  assert.ok(types(await listed('--capability', 'memory')).includes('memory/store/req'));
  assert.ok(types(await listed('--capability', 'memory')).every((type) => type.startsWith('memory/')));
  const [failed, ...others] = await listed('--outcome', 'error', '--capability', 'tools');
  assert.deepEqual([failed.tool, failed.principal, others.length], ['read_file', 'local', 0]);
  assert.deepEqual(await listed('--code', failed.error_code), [failed]);
  assert.deepEqual(await listed('--principal', 'another'), []);
  assert.deepEqual(await listed('--since', '1h'), all);
  assert.deepEqual(await listed('--since', new Date(all.at(-1).time + 1).toISOString()), []);
  // Page by page.
  assert.deepEqual(await listed('--limit', '2'), all.slice(-2));
  assert.deepEqual(await listed('--limit', '2', '--before', String(all.at(-2).n)), all.slice(-4, -2));
  const text = await user.run(['audit', 'ls', '--limit', '2', '--code', failed.error_code]);
  assert.match(
    text.stdout,
    /^TIME +PRINCIPAL +TYPE +OUTCOME +MS +DETAIL\n.*tool\/call\/req +error .*, tool read_file\n$/,
  );
  assert.match((await user.run(['audit', 'ls', '--limit', '1'])).stderr, /^older lines: add --before \d+$/m);
  for (const [words, about] of [
    [['nowhere.jsonl'], /no audit log at nowhere.jsonl/],
    [['--since', 'soon'], /"soon" is not a valid time; use a duration/],
    [['--limit', '10001'], /at most 10000/],
    [['--outcome', 'good'], /ok, error, cancelled, refused/],
  ] as const) {
    const { exit, message } = await user.failure(['audit', 'ls', ...words]);
    assert.equal(exit, 2, words.join(' '));
    assert.match(message, about);
  }
});

test('doctor finds nothing wrong with a fresh user, and the running host of another', async () => {
  const user = newUser();
  // The default port may be taken on the machine this runs on.
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\n');
  const config = ['--config', 'handfast.yaml'];
  const fresh = await user.run(['doctor', ...config]);
  assert.equal(fresh.code, 0, fresh.stdout);
  assert.match(fresh.stdout, /^ok {4}node /);
  assert.match(fresh.stdout, /\nok {4}sqlite /);
  assert.match(
    fresh.stdout,
    /\n(?:ok {4}children {5}end with a killed host, but for one that |warn {2}children {5}.*survive)/,
  );
  const { ready } = await user.up(config);
  const { ok, checks } = await user.json(['doctor', ...config]);
  assert.equal(ok, true);
  const host = checks.find(({ name }: { name: string }) => name === 'host');
  assert.ok(host.message.includes(ready.url), host.message);
});

test('doctor says what is wrong and what to do, and ends with the code of the first failure', async () => {
  const user = newUser();
  mkdirSync(user.home);
  chmodSync(user.home, 0o755);
  writeFileSync(join(user.home, 'token'), 'readable-by-everybody-here\n', { mode: 0o644 });
  chmodSync(join(user.home, 'token'), 0o644);
  user.write('handfast.yaml', 'listen: nowhere\n');
  const { code, stdout } = await user.run(['doctor', '--config', 'handfast.yaml']);
  assert.equal(code, 2);
  assert.match(stdout, /\nwarn {2}home .*\n +→ chmod 700 /);
  assert.match(stdout, /\nfail {2}token .*can be read by other users/);
  assert.match(stdout, /\nfail {2}config .*handfast\.yaml:1:9/);
});

test('doctor reports an address that another process uses', async () => {
  const user = newUser();
  const { ready } = await newUser().up();
  user.write('handfast.yaml', `listen: ${ready.url}\n`);
  const { code, stdout } = await user.run(['doctor', '--config', 'handfast.yaml']);
  assert.equal(code, 2);
  assert.match(stdout, /\nfail {2}listen .*the address is already in use\n +→ choose another/);
});

test('help is there for every command and says the exit codes; the version is that of the package', async () => {
  const user = newUser();
  assert.equal((await user.run(['--version'])).stdout, `${packageVersion()}\n`);
  const { code, stdout, stderr } = await user.run(['--help']);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.match(stdout, /Exit codes: 0 done/);
  const commands = [...stdout.matchAll(/^ {2}([a-z]+)(?: \[| <| {2})/gm)].map((match) => match[1] as string);
  assert.deepEqual(commands.slice(0, 3), ['up', 'stdio', 'ping']);
  for (const name of ['tools call', 'stdio', 'doctor']) {
    const help = await user.run([...name.split(' '), '--help']);
    assert.equal(help.code, 0);
    assert.match(help.stdout, new RegExp(`^Usage: handfast ${name} `));
  }
});

test('a command line that cannot be understood ends with 2', async () => {
  const user = newUser();
  const unknown = await user.run(['pong']);
  assert.deepEqual([unknown.code, unknown.stdout], [2, '']);
  assert.match(unknown.stderr, /unknown command 'pong'/);
  for (const words of [
    ['ping', '--conect', 'x'],
    ['up', '--port', '70000'],
    ['tools', 'call'],
    ['ping', 'extra'],
    ['--connect', 'tcp://127.0.0.1:1', 'init'],
    ['--token-file', 'x', 'stdio'],
  ]) {
    const failed = await user.failure(words);
    assert.deepEqual([failed.exit, failed.code], [2, 'usage'], words.join(' '));
  }
  assert.equal((await user.run([])).code, 2);
  assert.equal((await user.run(['tools'])).code, 2);
});

test('a reader that has seen enough ends help and results quietly', async () => {
  const command = newUser().start(['--help']);
  command.child.stdout.destroy();
  assert.equal((await command.ended()).stderr, '');
});

test('output that finds no room is an error with its code, not a crash', { skip: !existsSync('/dev/full') }, () => {
  const full = openSync('/dev/full', 'w');
  const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, ['-C', 'handfast-source', main, '--help'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  });
  closeSync(full);
  assert.equal(status, 5);
  assert.match(stderr, /^handfast: the output could not be written: .* \[disk_full\]\n$/);
});
