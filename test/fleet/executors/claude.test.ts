/**
 * The claude adapter: its arguments, its conversations, its reading of the stream.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ClaudeConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { claudeSession } from '../../../src/fleet/executors/programs/claude.ts';
import { tokensSpent } from '../../../src/fleet/executors/usage.ts';
import { type FakeCli, fakeCli } from './fake-cli.ts';
import { fakeContext, fakeLog, taskOf } from './fake-context.ts';

const make = (
  { command, home }: FakeCli,
  config: Partial<ClaudeConfig> = {},
  trustsFolder?: (cwd: string) => Promise<boolean>,
): Executor =>
  makeExecutor({ kind: 'claude', command, role: 'a worker', ...config }, { home, log: fakeLog(), trustsFolder });

const INIT = { type: 'system', subtype: 'init', session_id: 's-1', model: 'm', tools: ['Bash'], mcp_servers: [] };
const says = (text: string, usage?: object, id = 'm1') => ({
  type: 'assistant',
  message: { id, content: [{ type: 'text', text }], ...(usage && { usage }) },
});
const RESULT = {
  type: 'result',
  subtype: 'success',
  is_error: false,
  result: 'I did it',
  total_cost_usd: 0.01,
  usage: { input_tokens: 120, output_tokens: 480, cache_read_input_tokens: 30_000, cache_creation_input_tokens: 900 },
};

test('the id of a conversation follows from the context, as UUID version 5 in the namespace of URLs', () => {
  assert.equal(claudeSession('ctx-1'), '03ca8885-a6f2-51a3-bb10-cfe9d1cd525a');
});

test('a first turn mints the session, the next one resumes it, with exactly these arguments', async () => {
  using cli = fakeCli({ stdout: [INIT, says('hm'), RESULT] }, { stdout: [INIT, RESULT] });
  const executor = make(cli, { model: 'sonnet', args: ['--max-turns', '7', '--resume', 'x', '--output-format=text'] });
  assert.equal(executor.hasConversation('c-1'), false);
  const outcome = await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.equal(outcome.text, 'I did it');
  assert.equal(outcome.exitCode, 0);
  assert.deepEqual(outcome.usage, {
    source: 'measured',
    input: 120,
    output: 480,
    reasoning: 0,
    cache_read: 30_000,
    cache_write: 900,
    cost_usd: 0.01,
  });
  assert.equal(executor.hasConversation('c-1'), true);
  writeFileSync(join(cli.cwd, '.mcp.json'), '{}');
  await make(cli, { model: 'sonnet' }).start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  const common = [
    ...['--output-format', 'stream-json', '--verbose', '--permission-mode', 'bypassPermissions'],
    ...['--setting-sources', 'user,project,local', '--model', 'sonnet', '--append-system-prompt', 'a worker'],
  ];
  assert.deepEqual(
    cli.runs.map(({ argv }) => argv),
    [
      ['-p', 'do it', ...common, '--max-turns', '7', '--session-id', claudeSession('c-1')],
      ['-p', 'go on', ...common, '--mcp-config', join(cli.cwd, '.mcp.json'), '--resume', 's-1'],
    ],
  );
});

test('the conversation of a finished turn is stored without the mark of an interrupted one', async () => {
  using cli = fakeCli({ stdout: [INIT, says('hm'), RESULT] });
  await make(cli).start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const stored = JSON.parse(readFileSync(join(cli.home, 'executor', 'claude.json'), 'utf8'));
  assert.deepEqual(stored, [['c-1', { session: 's-1' }]]);
});

test('settings and MCP servers of a folder that is not trusted are left out, and the result says so', async () => {
  using cli = fakeCli({ stdout: [INIT, RESULT] }, { stdout: [INIT, RESULT] });
  writeFileSync(join(cli.cwd, '.mcp.json'), '{"mcpServers":{"evil":{"command":"./evil.sh"}}}');
  const asked: string[] = [];
  let trusted = false;
  const executor = make(cli, {}, (cwd) => {
    asked.push(cwd);
    return Promise.resolve(trusted);
  });
  const outcome = await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.match(outcome.warnings?.join() ?? '', /were not used: it is not trusted \(handfast trust add\)/);
  trusted = true;
  await executor.start(taskOf('again'), fakeContext(cli.cwd)).outcome;
  const [without = [], with_ = []] = cli.runs.map(({ argv }) => argv);
  assert.deepEqual(
    [without.includes('--mcp-config'), without[without.indexOf('--setting-sources') + 1]],
    [false, 'user'],
  );
  assert.equal(with_[with_.indexOf('--mcp-config') + 1], join(cli.cwd, '.mcp.json'));
  assert.equal(with_[with_.indexOf('--setting-sources') + 1], 'user,project,local');
  assert.deepEqual(asked, [cli.cwd, cli.cwd]);
});

test('a lost conversation is started again once, and only for its own words', async () => {
  const lost = { stderr: 'No conversation found with session ID: s-1\n', code: 1 };
  using cli = fakeCli({ stdout: [INIT, RESULT] }, lost, { stdout: [INIT, RESULT] }, lost, lost);
  const executor = make(cli);
  const turn = () => executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  await turn();
  const again = await turn();
  assert.equal(again.text, 'I did it');
  assert.match(again.warnings?.join() ?? '', /not found; a new one was started/);
  assert.deepEqual(
    cli.runs.map(({ argv }) => argv.at(-2)),
    ['--session-id', '--resume', '--session-id'],
  );
  const twice = await turn();
  assert.equal(cli.runs.length, 5);
  assert.match(twice.failure ?? '', /exit code 1: No conversation found/);
  assert.equal(executor.hasConversation('c-1'), false);
});

test('a conversation that was begun and is not known here is resumed', async () => {
  using cli = fakeCli({ stderr: 'Error: Session ID x is already in use.\n', code: 1 }, { stdout: [INIT, RESULT] });
  const outcome = await make(cli).start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.equal(outcome.text, 'I did it');
  assert.deepEqual(cli.runs[1]?.argv.slice(-2), ['--resume', claudeSession('c-1')]);
});

test('a reply about lost sessions is no lost session', async () => {
  using cli = fakeCli(
    { stdout: [INIT, RESULT] },
    {
      stdout: [INIT, says('no conversation found'), { ...RESULT, is_error: true, result: 'session not found' }],
      code: 1,
    },
  );
  const executor = make(cli);
  await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const outcome = await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.equal(cli.runs.length, 2);
  assert.equal(outcome.failure, 'claude: session not found');
});

test('the health of MCP servers is read from the first frame, and the turn can be stopped for it', async () => {
  const servers = [
    { name: 'context-mode', status: 'failed' },
    { name: 'Git', status: 'connected' },
    { name: 'constructor', status: 'toString' },
    { name: 'x', status: 'needs-auth' },
  ];
  using cli = fakeCli({ stdout: [{ ...INIT, mcp_servers: servers }], hangs: true });
  const context = fakeContext(cli.cwd, {
    onHealth: (found, running) => found.get('context_mode') !== 'ok' && running.stop(new Error('missing')),
  });
  const outcome = await make(cli).start(taskOf('do it'), context).outcome;
  assert.equal(outcome.ending, 'stopped');
  assert.deepEqual(
    [...context.health],
    [
      ['context_mode', 'error'],
      ['git', 'ok'],
      ['constructor', 'unknown'],
      ['x', 'auth_required'],
    ],
  );
});

test('usage is live by message, never added to the result, and kept when the turn is stopped', async () => {
  const first = { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 100, cache_creation_input_tokens: 2 };
  const frames = [INIT, says('a', first), says('b', first), says('c', { input_tokens: 3, output_tokens: 4 }, 'm2')];
  using cli = fakeCli({ stdout: frames, hangs: true }, { stdout: [...frames, RESULT] });
  const executor = make(cli);
  const context = fakeContext(cli.cwd, { onUsage: (usage, running) => usage.input === 13 && running.stop() });
  const stopped = await executor.start(taskOf('do it'), context).outcome;
  assert.equal(stopped.ending, 'stopped');
  assert.equal(stopped.text, 'c');
  assert.equal(tokensSpent(stopped.usage), 24);
  const whole = await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.equal(tokensSpent(whole.usage), 1500);
});

test('what a sub-agent says is not the reply', async () => {
  const inner = { ...says('looked', { input_tokens: 5, output_tokens: 1 }, 'm2'), parent_tool_use_id: 'toolu_1' };
  using cli = fakeCli({ stdout: [INIT, says('I look'), inner], killedBy: 'SIGTERM' });
  const outcome = await make(cli).start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.deepEqual([outcome.text, tokensSpent(outcome.usage)], ['I look', 6]);
});

test('an error result, a turn limit and no result at all are distinguished', async () => {
  using cli = fakeCli(
    { stdout: [INIT, { type: 'result', subtype: 'error_during_execution', errors: ['quota'] }], code: 1 },
    { stdout: [INIT, says('half'), { type: 'result', subtype: 'error_max_turns', is_error: true }], code: 1 },
    { stdout: [INIT, says('first'), says('last', undefined, 'm2')] },
  );
  const executor = make(cli);
  const turn = () => executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.equal((await turn()).failure, 'claude: quota');
  const limited = await turn();
  assert.deepEqual([limited.ending, limited.text, limited.failure], ['limit', 'half', undefined]);
  const silent = await turn();
  assert.equal(silent.text, 'last');
  assert.deepEqual(silent.usage, { source: 'unknown' });
});
