/**
 * The agy adapter: conversations read from its cache one after the other, and outputs that repeat earlier ones.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AgyConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { type FakeCli, fakeCli, type PlayedRun } from './fake-cli.ts';
import { fakeContext, fakeLog, taskOf } from './fake-context.ts';

const CACHE = 'home/.gemini/antigravity-cli/cache/last_conversations.json';

const make = ({ command, home }: FakeCli, config: Partial<AgyConfig> = {}): Executor =>
  makeExecutor({ kind: 'agy', command, env: { HOME: home }, ...config }, { home, log: fakeLog() });

/** Makes a run that leaves its conversation in the cache, as agy does. */
const run = (cli: FakeCli, stdout: string, id: string): PlayedRun => ({
  stdout,
  writes: { [CACHE]: JSON.stringify({ [cli.cwd]: id }) },
});

test('a conversation is read from the cache after its first turn and named on the next, with exactly these arguments', async () => {
  using cli = fakeCli();
  cli.play(run(cli, 'first reply\n', 'uuid-1'), run(cli, 'first reply\nsecond reply\n', 'uuid-1'));
  const first = await make(cli, { sandbox: true, timeoutMs: 500 }).start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.deepEqual([first.text, first.usage, first.warnings], ['first reply', { source: 'unknown' }, undefined]);
  const second = await make(cli).start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.deepEqual([second.text, second.warnings], ['second reply', undefined]);
  const common = ['--dangerously-skip-permissions', '--add-dir', cli.cwd, '--print-timeout'];
  assert.deepEqual(
    cli.runs.map(({ argv }) => argv),
    [
      ['--print', 'do it', ...common, '1s', '--sandbox'],
      ['--conversation', 'uuid-1', '--print', 'go on', ...common, '900s'],
    ],
  );
  assert.equal(cli.runs[0]?.env.AGY_CLI_DISABLE_LATEX, '1');
});

test('an output that does not begin with what was printed is given whole and marked', async () => {
  using cli = fakeCli();
  cli.play(
    run(cli, 'one\n', 'uuid-1'),
    run(cli, 'another beginning\n', 'uuid-1'),
    run(cli, 'another beginning\nthree', 'uuid-1'),
  );
  const executor = make(cli);
  const turn = () => executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  await turn();
  const drifted = await turn();
  assert.equal(drifted.text, 'another beginning');
  assert.deepEqual(drifted.facts, { drift: true });
  assert.equal((await turn()).text, 'three');
});

test('a turn that failed or was cut off brings no earlier reply back', async () => {
  using cli = fakeCli();
  cli.play(
    run(cli, 'one\n', 'uuid-1'),
    { stderr: 'no network\n', code: 1 },
    { stdout: 'on', killedBy: 'SIGKILL' },
    run(cli, 'one\ntwo\n', 'uuid-1'),
  );
  const executor = make(cli);
  const turn = () => executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  await turn();
  assert.equal((await turn()).failure, 'agy ended with exit code 1: no network');
  await turn();
  const two = await turn();
  assert.deepEqual([two.text, two.facts], ['two', undefined]);
});

test('a conversation it did not find has run in a new one, and is not run again', async () => {
  using cli = fakeCli();
  cli.play(run(cli, 'one\n', 'uuid-1'), run(cli, 'Warning: conversation "uuid-1" not found.\none more\n', 'uuid-2'));
  const executor = make(cli);
  await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const outcome = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.equal(outcome.text, 'one more');
  assert.match(outcome.warnings?.join() ?? '', /ran in a new one/);
  assert.equal(cli.runs.length, 2);
  cli.play(run(cli, 'one more\nthird\n', 'uuid-2'));
  assert.equal((await executor.start(taskOf('more'), fakeContext(cli.cwd)).outcome).text, 'third');
  assert.equal(cli.runs[2]?.argv[1], 'uuid-2');
});

test('an id that was in the cache before is not taken for a new conversation', async () => {
  using cli = fakeCli({ stdout: 'hello\n' });
  const conversationsFile = join(cli.home, 'conversations.json');
  writeFileSync(conversationsFile, JSON.stringify({ [cli.cwd]: 'somebody else' }));
  const executor = make(cli, { conversationsFile });
  const outcome = await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.match(outcome.warnings?.join() ?? '', /id of its conversation is unknown/);
  assert.equal(executor.hasConversation('c-1'), false);
});

test('turns that begin a conversation go one after the other, and a stopped one does not hold up the rest', async () => {
  using cli = fakeCli();
  cli.play({ stdout: 'a\n', hangs: true }, run(cli, 'c\n', 'uuid-3'));
  const executor = make(cli);
  const [a, b, c] = [fakeContext(cli.cwd), fakeContext(cli.cwd), fakeContext(cli.cwd)];
  const first = executor.start(taskOf('a', { contextId: 'a' }), a).outcome;
  // It has told of a line, so it has written down that it was started.
  await a.until(({ progressed }) => progressed.some(({ note }) => note === undefined));
  const second = executor.start(taskOf('b', { contextId: 'b' }), b).outcome;
  const third = executor.start(taskOf('c', { contextId: 'c' }), c).outcome;
  b.stop(new Error('cancelled'));
  assert.equal((await second).ending, 'stopped');
  assert.equal(c.pids.length, 0);
  a.stop(new Error('cancelled'));
  await first;
  assert.equal((await third).text, 'c');
  assert.equal(executor.hasConversation('c'), true);
  assert.equal(cli.runs.length, 2);
});
