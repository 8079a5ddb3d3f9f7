/** The codex adapter: its arguments, its threads, the counters that continue from turn to turn. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { CodexConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { tokensSpent } from '../../../src/fleet/executors/usage.ts';
import { type FakeCli, fakeCli } from './fake-cli.ts';
import { fakeContext, fakeLog, taskOf } from './fake-context.ts';

const make = ({ command, home }: FakeCli, config: Partial<CodexConfig> = {}): Executor =>
  makeExecutor({ kind: 'codex', command, ...config }, { home, log: fakeLog() });

const item = (fields: object) => ({ type: 'item.completed', item: { id: 'i', ...fields } });
const turn = (text: string, input: number, cached: number, output: number, thread = 'th') => ({
  stdout: [
    { type: 'thread.started', thread_id: thread },
    { type: 'turn.started' },
    item({ type: 'command_execution', command: 'ls' }),
    item({ type: 'agent_message', text: 'working' }),
    item({ type: 'agent_message', text }),
    {
      type: 'turn.completed',
      usage: { input_tokens: input, cached_input_tokens: cached, output_tokens: output, reasoning_output_tokens: 1 },
    },
  ],
});
const LOST = { stderr: 'Error: thread/resume failed: no rollout found for thread id th (code -32600)\n', code: 1 };

test('a thread is begun, resumed after a restart, and counted as the difference to its turn before', async () => {
  using cli = fakeCli(
    turn('one', 26_549, 22_272, 1590),
    turn('two', 30_000, 24_000, 2000),
    turn('three', 31_000, 24_500, 2100),
  );
  const context = fakeContext(cli.cwd);
  const first = await make(cli, { model: 'gpt' }).start(taskOf('do it'), context).outcome;
  assert.equal(first.text, 'one');
  assert.equal(tokensSpent(first.usage), 5867);
  assert.ok(context.progressed.some(({ note }) => note === '$ ls'));
  const args = ['-c', 'x=1', '-p', 'work', '--sandbox', 'off', '--ephemeral', '--worktree', 'stray'];
  const executor = make(cli, { model: 'gpt', args });
  assert.equal(executor.hasConversation('c-1'), true);
  const second = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.equal(tokensSpent(second.usage), 30_000 - 24_000 - (26_549 - 22_272) + 410);
  assert.equal(second.usage.cache_read, 24_000 - 22_272);
  const third = await make(cli).start(taskOf('more'), fakeContext(cli.cwd)).outcome;
  assert.equal(tokensSpent(third.usage), 500 + 100);
  assert.deepEqual(
    cli.runs.slice(0, 2).map(({ argv }) => argv),
    [
      ['exec', 'do it', '-s', 'workspace-write', '--json', '--skip-git-repo-check', '-m', 'gpt'],
      [
        ...['exec', '-c', 'x=1', '-p', 'work', '-c', 'sandbox_mode="workspace-write"'],
        ...['resume', 'th', 'go on', '--json', '--skip-git-repo-check', '-m', 'gpt'],
      ],
    ],
  );
});

test('the dead thread is forgotten before the one retry, and the new one is counted from zero', async () => {
  using cli = fakeCli(turn('one', 20_000, 0, 1000), LOST, turn('two', 500, 100, 50, 'th-2'));
  const executor = make(cli);
  await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const outcome = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.equal(outcome.text, 'two');
  assert.equal(tokensSpent(outcome.usage), 450);
  assert.match(outcome.warnings?.join() ?? '', /not found/);
  assert.deepEqual(JSON.parse(readFileSync(join(cli.home, 'executor', 'codex.json'), 'utf8')), [
    ['c-1', { session: 'th-2', counters: { input_tokens: 500, cached_input_tokens: 100, output_tokens: 50 } }],
  ]);
});

test('a lost thread that cannot be started again either is dropped, and tried no third time', async () => {
  using cli = fakeCli(turn('one', 1, 0, 1), LOST, LOST);
  const executor = make(cli);
  await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const outcome = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.match(outcome.failure ?? '', /exit code 1: Error: thread\/resume failed/);
  assert.equal(cli.runs.length, 3);
  assert.equal(make(cli).hasConversation('c-1'), false);
});

test('counters below those of the turn before are floored and told', async () => {
  using cli = fakeCli(turn('one', 5000, 0, 100), turn('two', 700, 0, 150));
  const executor = make(cli);
  await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const outcome = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.equal(tokensSpent(outcome.usage), 50);
  assert.match(outcome.warnings?.join() ?? '', /lower than after the previous turn/);
});

test('a thread that was interrupted is found again, and the tokens it had not counted are pointed out', async () => {
  const begun = { stdout: turn('', 0, 0, 0).stdout.slice(0, 4), hangs: true as const };
  using cli = fakeCli(begun, turn('two', 900, 0, 10));
  const executor = make(cli);
  const context = fakeContext(cli.cwd);
  const { outcome } = executor.start(taskOf('do it'), context);
  await context.until(({ progressed }) => progressed.some(({ note }) => note === 'working'));
  context.stop(new Error('cancelled'));
  const stopped = await outcome;
  assert.deepEqual([stopped.ending, stopped.text, stopped.usage.source], ['stopped', 'working', 'unknown']);
  const second = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.deepEqual(cli.runs[1]?.argv.slice(3, 5), ['resume', 'th']);
  assert.match(second.warnings?.join() ?? '', /interrupted/);
});

test('a failed turn says why', async () => {
  const failed = { type: 'turn.failed', error: { message: 'stream disconnected' } };
  using cli = fakeCli(
    { stdout: [...turn('', 0, 0, 0).stdout.slice(0, 2), failed], code: 1 },
    { stdout: [{ type: 'error', message: 'model m is not supported' }], code: 1 },
    { stdout: [{ type: 'error', message: 'usage limit' }] },
    { stdout: [{ type: 'error', message: 'reconnecting 1/5' }, ...turn('done', 1, 0, 1).stdout], code: 1 },
  );
  const executor = make(cli);
  const run = (contextId: string) => executor.start(taskOf('do it', { contextId }), fakeContext(cli.cwd)).outcome;
  assert.equal((await run('c-1')).failure, 'codex: stream disconnected');
  assert.equal((await run('c-2')).failure, 'codex: model m is not supported');
  assert.equal((await run('c-3')).failure, 'codex: usage limit');
  const found = await run('c-4');
  assert.deepEqual([found.text, found.failure, found.exitCode], ['done', undefined, 1]);
});
