/**
 * Holds the documents of commands with `--json` to `schema/cli.json`, on a real host and a real fleet: every command that ends
 * by itself is run, names are in snake case, and each document fits its schema. The same lines are the examples of the help
 * that need nothing but these servers.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { startModelServer } from '../../src/testing/model-server.ts';
import { root } from '../rules/scan.ts';
import { type Json, User } from './command.ts';

const schemas = readdirSync(join(root, 'schema')).map((name) => ({
  ...JSON.parse(readFileSync(join(root, 'schema', name), 'utf8')),
  $id: name,
}));
const ajv = new Ajv2020({ strict: false, schemas, formats: { 'date-time': true, uri: true } });

/** Commands that are not run here: they serve until they are stopped, or the tests of their own area run them. */
const elsewhere = [
  'up',
  'fleet up',
  'record run',
  'replay',
  'worker',
  'chat',
  'approve yes',
  'approve no',
  'task answer',
  'task steer',
  'task drop',
  'env play',
  'env run',
  'env record',
  'env spaces',
  'env serve-gym',
  'plan watch',
  'proc attach',
  'mcp login',
];

const user = new User();
after(() => user.leave());

before(async () => {
  user.write('README.md', 'one\ntwo\n');
  user.write('notes.txt', 'say "a note"');
  user.write(
    'tasks.yaml',
    'tasks:\n  - { id: first, access: read, brief: \'say "a"\' }\n  - { id: second, access: read, brief: \'say "b"\' }\n',
  );
  const git = (...words: string[]) => execFileSync('git', words, { cwd: user.cwd, stdio: 'ignore' });
  git('init', '-q', '.');
  git('add', '-A');
  git('-c', 'user.name=t', '-c', 'user.email=t@localhost', 'commit', '-qm', 'all');
  const file = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
  const everything = { name: 'everything', command: process.execPath, args: [file, 'stdio'] };
  const tracker = { name: 'tracker', url: 'http://127.0.0.1:9/mcp', disabled: true };
  const mcp = { use: 'mcp', options: { servers: [everything, tracker] } };
  const proc = { use: 'proc', options: { programs: ['sh'] } };
  const skill = { use: 'skill', options: { roots: ['./skills'] } };
  const echo = [process.execPath, fileURLToPath(new URL('../support/echo-subagent.mjs', import.meta.url))];
  const agents = { use: 'multi_agent', options: { kinds: [{ name: 'echo', command: echo }] } };
  const plugins = ['tools', 'chains', 'env', 'learning', 'memory', 'planning', mcp, proc, skill, 'toolkits', agents];
  user.write('host.yaml', `plugins: ${JSON.stringify(plugins)}\n`);
  const { command, ready } = await user.up(['--config', 'host.yaml']);
  check('up', ready);
  assert.equal(command.stderr, '');
  const fleet = user.start(['fleet', 'up', '--json', '--port', '0']);
  await fleet.says('\n');
  check('fleet up', JSON.parse(fleet.stdout));
  const worker = user.start(['worker', '--id', 'trial-1', '--executor', 'rehearsal', '--repo', '.', '--json']);
  await worker.says('\n');
  check('worker', JSON.parse(worker.stdout));
});

/** Asserts that a document fits the schema of this command. */
function check(words: string, document: Json): void {
  const validate = ajv.getSchema(`cli.json#/$defs/${encodeURIComponent(words)}`);
  assert.ok(validate, `schema/cli.json has no ${words}`);
  assert.ok(validate(document), `${words}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(document)}`);
}

/** Returns the names in Handfast's own documents that are not in snake case. Names by a protocol or a user stay as they are. */
function misspelt(document: Json): string[] {
  if (Array.isArray(document)) return document.flatMap(misspelt);
  if (typeof document !== 'object' || document === null) return [];
  const foreign = [
    'payload',
    'data',
    'input_schema',
    'schema',
    'make',
    'output_schema',
    'input_parameters',
    'files',
    'messages',
    'history',
    'metadata',
    'announced',
    'annotations',
    'body',
  ];
  return Object.entries(document).flatMap(([name, value]) => [
    ...(/[A-Z]/.test(name) ? [name] : []),
    ...(foreign.includes(name) ? [] : misspelt(value)),
  ]);
}

const run = new Set<string>();

/** Runs a command with `--json`, and holds every line it prints to the schema. */
async function prints(words: string, args: readonly string[] = [], expected = 0): Promise<Json[]> {
  const { code, stdout, stderr } = await user.run([...words.split(' '), ...args, '--json']);
  assert.equal(code, expected, `${words}: ${stderr}`);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.ok(lines.length > 0);
  for (const line of lines) {
    check(words, line);
    assert.deepEqual(misspelt(line), [], words);
  }
  run.add(words);
  return lines;
}

test('of hosts and tools', async () => {
  await prints('ping', ['--count', '2']);
  await prints('demo');
  await prints('caps', ['--cap', 'tools,memory']);
  await prints('tools ls');
  await prints('tools search', ['find text in files']);
  await prints('tools call', ['read_file', 'path=README.md']);
  await prints('tools call', ['grep', '{"pattern":"one"}', '--stream']);
  await prints('call', ['ping']);
  await prints('config reload');
});

test('of sessions', async () => {
  await prints('session send', ['new', 'read README.md and count its lines']);
  await prints('session send', ['last', '@notes.txt', '--detach']);
  const [[session]] = (await prints('tail')) as [[{ session_id: string }]];
  await prints('tail', [session.session_id]);
  await prints('session ls', ['--all', '--cwd', '.']);
  await prints('session show', ['last']);
  await prints('session tail', ['last', '--after', '3']);
  await prints('session steer', ['last', 'say "steered"']);
  await prints('session interrupt', ['last']);
  await prints('session queue', ['last']);
  await prints('session queue', ['last', '--clear']);
  await prints('session export', ['last']);
  await user.run(['session', 'export', 'last', '--out', 'chat.jsonl']);
  await prints('session import', ['chat.jsonl', '--title', 'restored']);
  await prints('session fork', ['last', '--title', 'another way']);
  await prints('session rm', ['last']);
  await prints('approve ls', ['--all']);
});

test('of a fleet', async () => {
  await prints('fleet workers');
  await prints('task submit', ['say "x"', '--access', 'read', '--wait']);
  await prints('task submit', ['say "y"', '--access', 'read', '--after', 'last', '--id', 'named']);
  await prints('task batch', ['tasks.yaml', '--wait']);
  await prints('task ls');
  await prints('task show', ['last']);
  await prints('task watch', ['last']);
  await prints('task result', ['named']);
  await prints('route explain', ['last']);
  await prints('fleet top');
  await prints('fleet drain', ['trial-1', '--wait']);
  await prints('task submit', ['say "z"', '--access', 'read', '--worker', 'elsewhere', '--id', 'waiting']);
  await prints('task cancel', ['waiting', '--reason', 'not needed any more']);
  await prints('task retry', ['waiting', '--worker', 'trial-1']);
  await prints('fleet drain', ['trial-1', '--undo']);
});

test('of conformance', async () => {
  await prints('conformance a2e', ['--list']);
  await prints('conformance session-rpc', ['--list']);
  await prints('conformance fleet', ['--list']);
  const target = (words: string): string => `stdio:${process.execPath} ${join(root, 'src/cli/main.ts')} ${words}`;
  await prints('conformance a2e', ['--target', target('stdio'), '--filter', 'A2E-HS-00*']);
  const worker = target('worker --stdio --id trial-2 --executor rehearsal --repo .');
  await prints('conformance fleet', ['--target', worker, '--filter', 'FLT-WK-00*']);
  await prints('conformance session-rpc', ['--target', target('rpc'), '--filter', 'RPC-FR-00*']);
});

test('of memory', async () => {
  await prints('memory add', ['city', 'Lisbon', '--tag', 'profile']);
  await prints('memory search', ['Lisbon']);
  await prints('memory get', ['city']);
  await prints('memory ls');
  await prints('memory history', ['city']);
  await prints('memory spaces');
  await prints('memory stats');
  const exported = await prints('memory export');
  user.write('memory.jsonl', exported.map((line) => `${JSON.stringify(line)}\n`).join(''));
  await prints('memory import', ['memory.jsonl', '--namespace', 'copy']);
  await prints('memory publish', ['team', 'city']);
  await prints('memory add', ['city', 'Porto']);
  await prints('memory forget', ['city']);
});

test('of learning', async () => {
  const [decided] = (await prints('learning decide', ['search', 'lexical', 'hybrid'])) as [{ experience_id: string }];
  await prints('learning reward', [decided.experience_id, '1']);
  await prints('learning stats');
  // A reward of no decision is a separate experience.
  assert.equal((await user.run(['learning', 'reward', 'of-no-decision', '1'])).code, 1);
  const [experiences] = await prints('learning experiences');
  assert.equal(experiences.length, 1);
  await prints('learning feedback');
  await prints('learning adapt', ['search']);
  await prints('learning plan');
  const proposal = JSON.stringify({ path: 'router.weights.grep', new_value: 0.7 });
  await prints('learning review', [proposal]);
  const [applied] = (await prints('learning apply', [proposal])) as [{ refinement_id: string }];
  await prints('learning history');
  await prints('learning rollback', [applied.refinement_id]);
  await prints('learning evaluate', ['search', '--option', 'hybrid']);
  await prints('learning forget', ['search']);
});

test('of MCP servers', async () => {
  await prints('mcp tools', ['everything']);
  await prints('mcp ls');
  await prints('mcp call', ['everything', 'echo', '{"message": "hello"}']);
  const [resources] = await prints('mcp resources', ['everything']);
  await prints('mcp read', [resources[0].uri]);
  await prints('mcp prompts');
  await prints('mcp prompt', ['args-prompt', '{"city": "Lisbon"}', '--server', 'everything']);
  await prints('mcp templates', ['everything']);
  await prints('mcp complete', ['completable-prompt', 'department', 'S']);
  await prints('mcp config', ['claude']);
  await prints('mcp logout', ['tracker', '--config', 'host.yaml']);
  await prints('mcp accept', ['everything']);
  await prints('mcp logs', ['everything']);
});

test('of processes', async () => {
  const waiting = user.start(['proc', 'run', '--json', '--', 'sh', '-c', 'echo hello; exec sleep 600']);
  await waiting.says('hello');
  const [[{ proc_id }]] = await prints('proc ls');
  await prints('proc logs', [proc_id]);
  await prints('proc kill', [proc_id]);
  const { code, stdout } = await waiting.ended();
  assert.equal(code, 143);
  for (const line of stdout.trimEnd().split('\n')) check('proc run', JSON.parse(line));
  await prints('proc run', ['--', 'sh', '-c', 'echo hello']);
});

test('of chain files', async () => {
  await prints('chain new', ['nightly.yaml']);
  await prints('chain check', ['nightly.yaml']);
  await prints('chain show', ['nightly.yaml']);
  await prints('chain show', ['nightly.yaml', '--svg', 'nightly.svg']);
  await prints('chain dry-run', ['nightly.yaml', '--sample', 'find={"paths": ["a.md"]}']);
});

test('of runs of chains', async () => {
  await prints('chain new', ['files.yaml']);
  const [{ chain_id: id }] = await prints('chain run', ['files.yaml']);
  await prints('chain put', ['files.yaml']);
  await prints('chain run', ['files@1']);
  await prints('chain ls');
  await prints('chain ls', ['files']);
  await prints('chain get', ['files']);
  await prints('chain get', ['files', '--draw']);
  await prints('chain get', ['files', '--svg', 'files.svg']);
  await prints('chain rm', ['files@1']);
  await prints('chain runs');
  await prints('chain status', [id]);
  await prints('chain history', [id]);
  await prints('chain retry-from', [id, 'any']);
  user.write(
    'waits.yaml',
    `nodes:
  - { node_id: ask, kind: wait, wait: { approval: "Go on?" } }
  - { node_id: go, kind: wait, wait: { event: go }, after: [ask] }
  - { node_id: late, kind: wait, wait: { event: never }, after: [go] }
`,
  );
  const running = user.start(['chain', 'run', 'waits.yaml', '--json']);
  let waiting: Json[] = [];
  for (const until = Date.now() + 60_000; waiting.length === 0 && Date.now() < until; ) {
    [waiting] = await prints('chain runs', ['--state', 'waiting']);
  }
  const [{ chain_id: second }] = waiting;
  await prints('chain approvals');
  await prints('chain approve', [second, 'ask']);
  await prints('chain deliver', [second, 'go', '{"ok": true}']);
  await prints('chain pause', [second]);
  await running.ended();
  const resumed = user.start(['chain', 'resume', second, '--json']);
  waiting = [];
  for (const until = Date.now() + 60_000; waiting.length === 0 && Date.now() < until; ) {
    [waiting] = await prints('chain runs', ['--state', 'waiting']);
  }
  await prints('chain cancel', [second]);
  const { stdout } = await resumed.ended();
  check('chain resume', JSON.parse(stdout));
  run.add('chain resume');
});

test('of toolkits', async () => {
  await prints('toolkits ls');
  await prints('toolkits show', ['filesystem']);
  await prints('toolkits configure', ['filesystem', '{}']);
  await prints('toolkits enable', ['search']);
  await prints('toolkits disable', ['search']);
  await prints('toolkits search', ['move']);
});

test('of subagents', async () => {
  await prints('agents kinds');
  await prints('agents run', ['hello']);
  await prints('agents show', ['sub_']);
  await prints('agents run', ['hello', '--count', '2', '--merge', 'vote']);
  const [found] = await prints('agents ls');
  await prints('agents terminate', [found[0].subagent_id]);
});

test('of skills', async () => {
  await prints('skill new', ['count-lines']);
  await prints('skill check', ['skills']);
  await prints('skill ls');
  await prints('skill show', ['count-lines']);
  await prints('skill run', ['count-lines', '{"path": "README.md"}']);
});

test('of plans and environments', async () => {
  await prints('plan create', ['release']);
  await prints('plan ls');
  await prints('plan add', ['release', 'Write the docs']);
  await prints('plan tasks', ['release']);
  await prints('plan board', ['release']);
  await prints('plan show', ['release']);
  await prints('plan comment', ['release', 'Write the docs', 'figures are missing']);
  await prints('plan ready', ['release']);
  await prints('plan add', ['release', 'say "hello"']);
  await prints('plan dispatch', ['release', 'say "hello"', '--access', 'read']);
  await prints('plan claim', ['release', 'Write the docs']);
  await prints('plan renew', ['release', 'Write the docs', '--fence', '1']);
  await prints('plan release', ['release', 'Write the docs', '--fence', '1']);
  await prints('plan configure', ['release', '--columns', 'backlog', 'todo', 'in_progress', 'review', 'done']);
  await prints('plan history', ['release']);
  await prints('plan share', ['release', 'reviewer', 'read']);
  user.write('TODO.md', '- [ ] Publish\n');
  await prints('plan sync', ['release', 'TODO.md']);
  await prints('plan move', ['release', 'Publish', 'done']);
  await prints('plan archive', ['release']);
  await prints('plan delete', ['release', '--force']);
  await prints('env ls');
  await prints('env check', ['FrozenLake-v1']);
});

test('of recordings', async () => {
  const input = `${JSON.stringify({ type: 'handshake/req', id: '1', agent_caps: ['tools'] })}\n`;
  const { code, stderr } = await user.run(['record', '--out', 'recorded', '--', ...user.line(['stdio'])], { input });
  assert.equal(code, 0, stderr);
  await prints('record check', ['recorded']);
  await prints('diff', ['recorded', 'recorded']);
  await prints('record export', ['recorded', 'recorded.ndjson']);
  await prints('record import', ['recorded.ndjson', 'imported']);
});

test('of models and keys', async (t) => {
  const provider = await startModelServer({ models: ['claude-sonnet-4-5'], otherwise: () => ({ text: 'ok' }) });
  t.after(() => provider[Symbol.asyncDispose]());
  const words = ['auth', 'login', 'anthropic', '--base-url', provider.baseUrl('anthropic'), '--json'];
  const { stdout } = await user.run(words, { input: 'sk-test' });
  check('auth login', JSON.parse(stdout));
  run.add('auth login');
  await prints('auth ls');
  await prints('model ls');
  await prints('model use', ['claude-sonnet-4-5']);
  await prints('model test');
  await prints('auth logout', ['anthropic']);
});

test('of a folder and its files', async () => {
  await prints('init', ['agents']);
  await prints('config check', ['agents/handfast.yaml', '--as', 'local']);
  await prints('fleet check');
  await prints('trust ls');
  // Of the doctor too: a host of the developer may have the default port.
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\n');
  await prints('trust add', ['.', '--yes']);
  await prints('doctor');
  await prints('trust rm', ['.']);
  await prints('schema export');
  const audit = readdirSync(user.home, { recursive: true, encoding: 'utf8' }).find((name) =>
    /audit.*\.jsonl$/.test(name),
  );
  await prints('audit verify', audit === undefined ? [] : [join(user.home, audit)]);
  await prints('audit ls', audit === undefined ? [] : [join(user.home, audit)]);
});

test('and every command that the schema describes was run', () => {
  const described = Object.keys(schemas.find(({ $id }) => $id === 'cli.json').$defs).filter((name) => name !== 'error');
  assert.deepEqual(
    described.filter((words) => !run.has(words) && !elsewhere.includes(words)),
    [],
  );
});

test('a failure is one document too', async () => {
  const { stderr } = await user.run(['tools', 'call', 'nothing', '--json']);
  check('error', JSON.parse(stderr));
});
