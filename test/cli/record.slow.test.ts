/** `handfast record` as its users have it: on pipes and on addresses, with planted secrets, and killed in the middle. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { User } from './command.ts';

const user = new User();
after(() => user.leave());

/** Returns everything that is in a bundle, as one text. */
const textOf = (folder: string): string =>
  readdirSync(join(user.cwd, folder))
    .map((name) => readFileSync(join(user.cwd, folder, name), 'utf8'))
    .join('\n');

const quoted = (words: readonly string[]): string => words.map((word) => JSON.stringify(word)).join(' ');

test('a host that is a command is recorded on pipes, and no planted secret is in the bytes', async () => {
  const secret = 'canary-91c7-Ab!';
  user.write('note.txt', `the key is ${secret}; base64 ${Buffer.from(secret).toString('base64')}\n`);
  user.write('more-secrets', '# known to this test\nanother-canary-55\n');
  user.write('other.txt', 'it says another-canary-55 here\n');
  const words = ['record', '--out', 'pipes', '--secrets', 'more-secrets', '--', ...user.line(['stdio'])];
  const address = `stdio:${quoted(user.line(words))}`;
  const env = { PLANTED_API_KEY: secret };
  const read = await user.run(['tools', 'call', 'read_file', 'path=note.txt', '--connect', address], { env });
  assert.equal(read.code, 0, read.stderr);
  assert.match(read.stdout, /canary-91c7-Ab!/, 'what passes is not changed');
  const text = textOf('pipes');
  assert.ok(!text.includes(secret) && !text.includes(Buffer.from(secret).toString('base64').slice(0, 16)));
  assert.match(text, /the key is \[redacted:env:PLANTED_API_KEY:1\]; base64 \[redacted:env:PLANTED_API_KEY:1\]/);
  const checked = await user.json(['record', 'check', 'pipes']);
  assert.deepEqual([checked.valid, checked.complete, checked.protocol], [true, true, 'a2e']);
});

test('a host at an address is recorded for each of its clients, until a signal', async () => {
  const { ready } = await user.up([]);
  const command = user.start([
    'record',
    '--out',
    'served',
    '--connect',
    ready.url,
    '--listen',
    'http://127.0.0.1:0',
    '--json',
  ]);
  await command.says('\n');
  const { address } = JSON.parse(command.stdout);
  assert.equal((await user.run(['tools', 'call', 'list_dir', 'path=.', '--connect', address])).code, 0);
  assert.equal((await user.run(['ping', '--connect', `${address.replace('http', 'ws')}/ws`])).code, 0);
  assert.equal((await user.run(['session', 'ls', '--connect', address])).code, 0);
  command.child.kill('SIGTERM');
  assert.equal((await command.ended()).code, 0);
  const token = readFileSync(join(user.home, 'token'), 'utf8').trim();
  assert.ok(!textOf('served').includes(token), 'the token of this user is nowhere');
  assert.match(textOf('served'), /"client":"http".*"host":"http"/);
  assert.match(textOf('served'), /"method":"rpc.handshake"/);
  assert.equal((await user.json(['record', 'check', 'served'])).connections, 3);
});

test('a recorder that is killed leaves a bundle that is read and says that it is not complete', async () => {
  const { ready } = await user.up([]);
  const command = user.start([
    'record',
    '--out',
    'killed',
    '--connect',
    ready.url,
    '--listen',
    'tcp://127.0.0.1:0',
    '--json',
  ]);
  await command.says('\n');
  const { address } = JSON.parse(command.stdout);
  assert.equal((await user.run(['tools', 'ls', '--connect', address])).code, 0);
  command.child.kill('SIGKILL');
  await command.ended();
  const file = join(user.cwd, 'killed', 'messages.ndjson');
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, -20));
  const { complete, messages } = await user.json(['record', 'check', 'killed']);
  assert.equal(complete, false);
  assert.ok(messages >= 4);
});

test('wrong use is refused with what to do', async () => {
  const both = await user.failure(['record', '--out', 'x', '--connect', 'tcp://127.0.0.1:1', '--', 'cat']);
  assert.deepEqual([both.exit, both.code], [2, 'usage']);
  const remote = await user.failure([
    'record',
    '--out',
    'x',
    '--connect',
    'tcp://127.0.0.1:1',
    '--listen',
    'tcp://0.0.0.0:0',
  ]);
  assert.equal(remote.code, 'config_invalid');
  assert.equal((await user.failure(['record', 'check', 'nothing-there'])).code, 'not_found');
});

test('a recording is replayed to the command line, and a call that was not recorded says so', async () => {
  user.write('poem.txt', 'so much depends\n');
  const words = ['record', '--out', 'poem', '--', ...user.line(['stdio'])];
  const call = (path: string, address: string) =>
    user.run(['tools', 'call', 'read_file', `path=${path}`, '--connect', address]);
  assert.equal((await call('poem.txt', `stdio:${quoted(user.line(words))}`)).code, 0);
  user.write('poem.txt', 'changed since\n');
  for (const [path, code] of [
    ['poem.txt', 0],
    ['prose.txt', 1],
  ] as const) {
    const replay = user.start(['replay', 'poem', '--listen', 'tcp://127.0.0.1:0', '--once', '--json']);
    await replay.says('\n');
    const called = await call(path, JSON.parse(replay.stdout).address);
    if (code === 0) assert.match(called.stdout, /so much depends/);
    else
      assert.match(
        called.stderr,
        /nearest is #6 tool\/call\/req, which differs at \/arguments\/path: recorded "poem.txt", received "prose.txt"/,
      );
    const ended = await replay.ended();
    assert.equal(ended.code, code, ended.stderr);
    assert.equal(JSON.parse(ended.stdout.trimEnd().split('\n').at(-1)!).misses, code);
  }
});

test('two recordings are compared, and the exit code says whether they differ', async () => {
  for (const [folder, text] of [
    ['before', 'first'],
    ['after', 'other'],
    ['again', 'first'],
  ] as const) {
    user.write('compared.txt', `${text}\n`);
    const words = ['record', '--out', folder, '--', ...user.line(['stdio'])];
    const address = `stdio:${quoted(user.line(words))}`;
    assert.equal((await user.run(['tools', 'call', 'read_file', 'path=compared.txt', '--connect', address])).code, 0);
  }
  assert.deepEqual(await user.json(['diff', 'before', 'again']), { equal: true, divergences: [] });
  const { code, stdout } = await user.run(['diff', 'before', 'after']);
  assert.equal(code, 1);
  assert.match(stdout, /^#7 \/ #7 {2}reply of tool\/call\/req differs at \/data\/data\/content\n/);
  assert.match(stdout, /\n {2}- "first\\n"\n {2}\+ "other\\n"\n/);
  const all = await user.run(['diff', 'before', 'after', '--all', '--json']);
  const paths = JSON.parse(all.stdout).divergences.map(({ path }: { path: string }) => path);
  assert.deepEqual(paths, ['/data/data/content', '/data/data/sha256']);
});

test('the recorded client is played against a live host, from one exported file', async () => {
  user.write('played.txt', 'same\n');
  const words = ['record', '--out', 'played', '--', ...user.line(['stdio'])];
  const call = ['tools', 'call', 'read_file', 'path=played.txt', '--connect', `stdio:${quoted(user.line(words))}`];
  assert.equal((await user.run(call)).code, 0);
  await user.json(['record', 'export', 'played', 'played.ndjson']);
  await user.json(['record', 'import', 'played.ndjson', 'imported']);
  const again = await user.failure(['record', 'import', 'played.ndjson', 'imported']);
  assert.equal(again.code, 'usage');
  const { ready } = await user.up([]);
  const play = ['replay', 'played.ndjson', '--as', 'client', '--connect', ready.url];
  assert.deepEqual(await user.json(play), { equal: true, divergences: [] });
  user.write('played.txt', 'diff\n');
  const { code, stdout } = await user.run(['replay', 'imported', '--as', 'client', '--connect', ready.url]);
  assert.equal(code, 1);
  assert.match(stdout, /reply of tool\/call\/req differs at \/data\/data\/content/);
  assert.equal((await user.failure(['replay', 'imported', '--as', 'client'])).code, 'usage');
});

test('a host that cannot be reached fails the command, and leaves no folder in the way of the next try', async () => {
  for (const host of [
    ['--connect', 'tcp://127.0.0.1:1'],
    ['--', 'no-such-program'],
  ]) {
    const { code, stdout, stderr } = await user.run(['record', '--out', 'unreached', ...host]);
    assert.deepEqual([code, stdout], [4, '']);
    assert.match(
      stderr,
      /^handfast: (?:cannot start no-such-program: it was not found|no peer responds at .*) \[unreachable\]\n$/,
    );
    assert.ok(!existsSync(join(user.cwd, 'unreached')));
  }
});

test('a wrong word behind a group that has a default command is an unknown command', async () => {
  const wrong = [
    [
      ['record', 'ls'],
      "unknown command 'ls' (there are run, check, export, import, help); see: handfast record --help",
    ],
    [['record', 'chek', 'x'], "unknown command 'chek' (Did you mean check?); see: handfast record --help"],
    [['mcp', 'serv'], "unknown command 'serv' (Did you mean serve?); see: handfast mcp --help"],
    [['audit', 'lss'], "unknown command 'lss' (Did you mean ls?); see: handfast audit --help"],
  ] as const;
  for (const [words, message] of wrong) {
    assert.deepEqual(await user.failure(words), { exit: 2, code: 'usage', message });
  }
});
