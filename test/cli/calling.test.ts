/**
 * The commands that call a host, against one host that all tests of this file share: their output for people and for programs,
 * and the exit code of every way to fail.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { User } from './command.ts';

/** Tools for the needs of these tests. */
const PLUGIN = `
import { setTimeout as pause } from 'node:timers/promises';
import { fail, tool, toolsPlugin } from 'handfast';
const object = (properties, required = []) => ({ type: 'object', properties, required });
export const plugin = toolsPlugin({
  name: 'testing',
  tools: [
    tool({ name: 'typed', description: 'Gives back its arguments.', kind: 'test', tags: ['a', 'b'],
      input: object({ text: { type: 'string' }, n: { type: 'integer' }, on: { type: 'boolean' },
        list: { type: 'array', items: { type: 'integer' } }, map: { type: 'object' }, either: { type: ['number', 'null'] } }),
      run: (args) => args }),
    tool({ name: 'hidden', description: 'Not in plain lists.', deferred: true, run: () => 'found' }),
    tool({ name: 'refuses', description: 'Fails.', run: () => { throw fail('tool_error', 'no \\u001b[31mway'); } }),
    tool({ name: 'waits', description: 'Waits until it is stopped.',
      run: (_args, { signal, emit, log }) => new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => { log.warn('waits was stopped', { code: signal.reason.code }); reject(signal.reason); });
        emit('status', { message: 'waiting' });
      }) }),
    tool({ name: 'steps', description: 'Tells how far it is.',
      async run(_args, { emit }) {
        await emit('progress', { pct: 50, message: 'half' });
        await emit('status', { message: 'nearly' });
        return { done: true };
      } }),
  ],
});
`;

const CONFIG = `
plugins:
  - use: tools
    options: { shell: true }
  - ./testing.mjs
auth:
  tokens:
    - { name: guest, token: guest-token-of-this-test, tools: { allow: [typed] } }
`;

const user = new User();
let host: Awaited<ReturnType<User['up']>>;
/** Time at which it was known to be up. */
let upSince = 0;

before(async () => {
  user.write('testing.mjs', PLUGIN);
  user.write('handfast.yaml', CONFIG);
  user.write('README.md', '# Title\nsecond line\n');
  host = await user.up(['--config', 'handfast.yaml']);
  upSince = performance.now();
});

after(() => user.leave());

test('ping says how far the host is, as often as it is asked to', async () => {
  const { code, stdout } = await user.run(['ping']);
  assert.equal(code, 0);
  assert.match(stdout, /^pong from http:\/\/127\.0\.0\.1:\d+: [\d.]+ ms, up [\d.]+ s\n$/);

  const upSeconds = (performance.now() - upSince) / 1000;
  const many = await user.run(['ping', '--count', '3', '--json']);
  const lines = many.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ seq, address }) => [seq, address]),
    [1, 2, 3].map((seq) => [seq, host.ready.url]),
  );
  assert.ok(lines[0].uptime_seconds >= upSeconds, 'the age of the host and not of the session that asks');
});

test('the host, the token and --json may be named before the command, where they mean the same', async () => {
  const { token_file, url } = host.ready;
  const asked = ['--token-file', token_file as string, '--connect', url];
  const before = await user.run([...asked, '--json', 'tools', 'ls', '--kind', 'test']);
  const behind = await user.run(['tools', 'ls', '--kind', 'test', ...asked, '--json']);
  assert.equal(before.code, 0);
  assert.equal(JSON.parse(before.stdout)[0].name, 'typed');
  assert.deepEqual(before, behind);
  // The one that stands last counts, as between two behind the command.
  assert.equal((await user.run(['--connect', 'tcp://127.0.0.1:1', 'ping', '--connect', url])).code, 0);

  const wrong = user.write('guessed.token', 'not-the-token-of-this-host\n');
  assert.equal((await user.run([`--token-file=${wrong}`, `--connect=${url}`, 'ping'])).code, 3);
});

test('caps shows what is granted and why the rest is refused', async () => {
  const { code, stdout } = await user.run(['caps', '--cap', 'tools,memory']);
  assert.equal(code, 0);
  assert.match(stdout, /^CAPABILITY +GRANTED +ABOUT\ntools +yes +.*\nmemory +no +no plugin loaded\n/);
  const document = await user.json(['caps']);
  assert.equal(document.capabilities.length, 12);
  assert.equal(document.capabilities.find((each: { capability: string }) => each.capability === 'tools').enabled, true);
  assert.ok(document.extensions.includes('handfast/resume'));
});

test('tools are listed by kind and tag, deferred ones only when asked for', async () => {
  const { stdout } = await user.run(['tools', 'ls']);
  assert.match(stdout, /^NAME +KIND +RISKS +DESCRIPTION\n/);
  assert.match(stdout, /\nread_file +file +reads +Reads a text file/);
  assert.doesNotMatch(stdout, /hidden/);

  const names = async (...words: string[]) =>
    (await user.json<{ name: string }[]>(['tools', 'ls', ...words])).map(({ name }) => name);
  assert.deepEqual(await names('--kind', 'test'), ['typed']);
  assert.deepEqual(await names('--tag', 'a', '--tag', 'b'), ['typed']);
  assert.ok((await names('--all')).includes('hidden'));
});

test('tools are found by words, the best match first', async () => {
  const [first] = await user.json<{ name: string }[]>(['tools', 'search', 'hidden']);
  assert.equal(first?.name, 'hidden');
  assert.match((await user.run(['tools', 'search', 'typed'])).stdout, /\ntyped /);
});

test('words become arguments of the types the tool declares', async () => {
  const words = ['text=1=2', 'n=7', 'on=true', 'list=1', 'list=2', 'map={"k":[]}', 'either=null', 'other={"x":1}'];
  const { data } = await user.json(['tools', 'call', 'typed', ...words]);
  assert.deepEqual(data, {
    text: '1=2',
    n: 7,
    on: true,
    list: [1, 2],
    map: { k: [] },
    either: null,
    other: { x: 1 },
  });
});

test('arguments come as JSON, from a file, or from standard input', async () => {
  user.write('arguments.json', '{"text":"from a file"}');
  const ways: [string, string | undefined, string][] = [
    ['{"text":"from the line"}', undefined, 'from the line'],
    ['@arguments.json', undefined, 'from a file'],
    ['-', '{"text":"from standard input"}', 'from standard input'],
  ];
  for (const [word, input, text] of ways) {
    assert.deepEqual((await user.json(['tools', 'call', 'typed', word], { input })).data, { text });
  }
});

test('a result that is a text is printed as that text, any other as indented JSON', async () => {
  assert.equal((await user.run(['tools', 'call', 'read_file', 'path=README.md'])).stdout, '# Title\nsecond line\n');
  assert.equal((await user.run(['tools', 'call', 'hidden'])).stdout, 'found\n');
  assert.equal((await user.run(['tools', 'call', 'typed', 'n=1'])).stdout, '{\n  "n": 1\n}\n');
});

test('the output of a program goes to the same stream it was written to, whole or as it comes', async () => {
  const call = ['tools', 'call', 'shell', 'command=echo out; echo err >&2; exit 3'];
  for (const words of [call, [...call, '--stream']]) {
    const { code, stdout, stderr } = await user.run(words);
    // A program that fails is a result, not a failed call.
    assert.deepEqual({ code, stdout }, { code: 0, stdout: 'out\n' });
    assert.match(stderr, /^err\n\(exit code 3\)\n$/);
  }
});

test('events are shown on stderr for people and as lines before the result for programs', async () => {
  const { stdout, stderr } = await user.run(['tools', 'call', 'steps', '--stream']);
  assert.deepEqual([JSON.parse(stdout), stderr], [{ done: true }, '50 % half\nnearly\n']);
  const lines = (await user.run(['tools', 'call', 'steps', '--stream', '--json'])).stdout.trimEnd().split('\n');
  const [first, second, last] = lines.map((line) => JSON.parse(line));
  assert.deepEqual(first, { event: { kind: 'progress', data: { pct: 50, message: 'half' }, seq: 0 } });
  assert.equal(second.event.seq, 1);
  assert.deepEqual(last.result.data, { done: true });
});

test('call sends a message of any type and prints the whole answer', async () => {
  assert.equal((await user.json(['call', 'ping'])).type, 'pong');
  const { stdout } = await user.run(['call', 'tool/list/req', '{"query":"hidden","include_deferred":true}']);
  assert.equal(JSON.parse(stdout).tools[0].name, 'hidden');
});

test('tail lists the sessions, reads one, and follows it until it is interrupted', async () => {
  const working = user.start(['tools', 'call', 'waits', '--stream']);
  await working.says('waiting', 'stderr');
  const [session] = await user.json<{ session_id: string; state: string; agent_id: string }[]>(['tail']);
  assert.deepEqual({ state: session?.state, agent: session?.agent_id }, { state: 'open', agent: 'handfast-cli' });
  const id = session?.session_id as string;
  assert.match((await user.run(['tail'])).stdout, new RegExp(`\\n${id} +open +local +handfast-cli\\n`));

  const lines = (await user.run(['tail', id, '--json'])).stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ cursor, kind, body }) => [cursor, kind, body.type]),
    [
      [1, 'request', 'tool/call/req'],
      [2, 'event', 'tool/event'],
    ],
  );
  const byPrefix = await user.run(['tail', id.slice(0, 8), '--json']);
  assert.deepEqual(
    byPrefix.stdout.split('\n').slice(0, lines.length),
    (await user.run(['tail', id, '--json'])).stdout.split('\n').slice(0, lines.length),
  );
  const after = await user.run(['tail', id, '--after', '1']);
  assert.match(after.stdout, /^[\d:.]+ #2 event +\S+ \{"type":"tool\/event"/);

  const unknown = await user.run(['tail', 'nobody']);
  assert.deepEqual([unknown.code, unknown.stderr], [0, 'the journal has no entries of nobody\n']);

  const interrupted = user.start(['tail', id, '--follow']);
  await interrupted.says('#2');
  interrupted.child.kill('SIGINT');
  assert.equal((await interrupted.ended()).code, 130);

  const following = user.start(['tail', id, '--follow', '--json']);
  await following.says('"cursor":2');
  working.child.kill('SIGINT');
  assert.equal((await working.ended()).code, 130);
  // It ends with the session.
  const { code, stdout } = await following.ended();
  assert.equal(code, 0);
  assert.match(stdout, /"kind":"error"/);
});

test('Ctrl-C during a call stops the tool at the host, then ends with 130', async () => {
  const command = user.start(['tools', 'call', 'waits', '--stream', '--json']);
  await command.says('"waiting"');
  const before = host.command.stderr.length;
  command.child.kill('SIGINT');
  const ended = await command.ended();
  assert.equal(ended.code, 130);
  assert.deepEqual(JSON.parse(ended.stderr).error.code, 'cancelled');
  await host.command.says('"message":"waits was stopped","code":"cancelled"', 'stderr', before);
});

test('a reader that has seen enough ends a command quietly', async () => {
  const command = user.start(['ping', '--count', '100000']);
  await command.says('pong');
  command.child.stdout.destroy();
  const { code, stderr } = await command.ended();
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
});

test('a wrong token, in a file or in the environment, ends with 3', async () => {
  const wrong = user.write('wrong.token', 'not-the-token-of-this-host\n');
  const fromFile = await user.failure(['ping', '--token-file', wrong]);
  assert.deepEqual([fromFile.exit, fromFile.code], [3, 'auth_failed']);
  const fromEnvironment = await user.failure(['tail'], { env: { HANDFAST_TOKEN: 'not-the-token-of-this-host' } });
  assert.deepEqual([fromEnvironment.exit, fromEnvironment.code], [3, 'auth_failed']);
});

test('another principal gets its own rights and sees only its own sessions', async () => {
  const env = { HANDFAST_TOKEN: 'guest-token-of-this-test' };
  assert.deepEqual(
    (await user.json<{ name: string }[]>(['tools', 'ls'], { env })).map(({ name }) => name),
    ['typed'],
  );
  const denied = await user.failure(['tools', 'call', 'read_file', 'path=README.md'], { env });
  assert.deepEqual([denied.exit, denied.code], [5, 'tool_denied']);
  const waiting = user.start(['tools', 'call', 'waits', '--stream']);
  await waiting.says('waiting', 'stderr');
  assert.deepEqual(await user.json(['tail'], { env }), []);
  const [theirs] = await user.json<{ session_id: string }[]>(['tail']);
  const refused = await user.failure(['tail', theirs?.session_id as string], { env });
  assert.deepEqual([refused.exit, refused.code], [3, 'session_not_found']);
  waiting.child.kill('SIGINT');
  await waiting.ended();
});

test('an address without a listener ends with 4', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  const failed = await user.failure(['ping', '--connect', `tcp://127.0.0.1:${port}`]);
  assert.deepEqual([failed.exit, failed.code], [4, 'unreachable']);
});

test('a failure at the host ends with 5 and says what is meant', async () => {
  const unknown = await user.failure(['tools', 'call', 'read_fil', 'path=x']);
  assert.deepEqual([unknown.exit, unknown.code], [5, 'unknown_tool']);
  assert.match(unknown.message, /did you mean "read_file"\?/);
  assert.equal(
    (await user.run(['call', 'foo'])).stderr,
    'handfast: unsupported message type "foo"; handfast schema export a2e has the message types [unknown_type]\n',
  );
  assert.match((await user.failure(['call', 'tool/call/req'])).message, /\/arguments is required$/);
  const failed = await user.run(['tools', 'call', 'refuses']);
  assert.equal(failed.code, 5);
  assert.equal(failed.stdout, '');
  // The text of a peer is shown, not obeyed.
  assert.equal(failed.stderr, 'handfast: no \\u{1b}[31mway [tool_error]\n');
  const wrong = await user.failure(['tools', 'call', 'typed', '{"n":"seven"}']);
  assert.deepEqual([wrong.exit, wrong.code], [5, 'schema_violation']);
  const nobody = await user.failure(['call', 'nobody/knows/req']);
  assert.deepEqual([nobody.exit, nobody.code], [5, 'unknown_type']);
});

test('capabilities the host does not have end with 6', async () => {
  const refused = await user.failure(['caps', '--cap', 'memory']);
  assert.deepEqual([refused.exit, refused.code], [6, 'no_caps']);
  assert.match(refused.message, /memory: no plugin loaded/);
});

test('a time limit that passes ends with 7, and the tool is stopped', async () => {
  const before = host.command.stderr.length;
  const late = await user.failure(['tools', 'call', 'waits', '--timeout', '0.2']);
  assert.deepEqual([late.exit, late.code], [7, 'timeout']);
  await host.command.says('waits was stopped', 'stderr', before);
});

test('arguments that cannot be right end with 2, without a host being asked', async () => {
  const wrong: [string[], RegExp][] = [
    [['tools', 'call', 'typed', '{"text":'], /not JSON/],
    [['tools', 'call', 'typed', '[1]'], /expected key=value/],
    [['tools', 'call', 'typed', '@missing.json'], /cannot read missing\.json: it does not exist/],
    [['tools', 'call', 'typed', '{}', 'n=1'], /got both/],
    [['tools', 'call', 'typed', 'n=seven'], /n: expected integer, got "seven"/],
    [['tools', 'call', 'typed', 'n=1', 'n=2'], /n was given 2 times/],
    [['tools', 'call', 'typed', '--timeout', 'soon'], /Expected seconds/],
    [['ping', '--connect', 'ftp://127.0.0.1'], /expected http\(s\):\/\/host:port/],
    [['ping', '--token-file', 'missing.token'], /cannot read the token file/],
    [['ping', '--count', '0'], /Expected 1 or more/],
    [['tail', '--connect', 'tcp://127.0.0.1:1'], /needs an HTTP address/],
  ];
  for (const [words, message] of wrong) {
    const failed = await user.failure(words);
    assert.deepEqual([failed.exit, failed.code], [2, 'usage'], words.join(' '));
    assert.match(failed.message, message);
  }
});
