/**
 * The command adapter, and with it the common part of all programs: starting, stopping and detecting silence.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { CommandConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { filterFlags } from '../../../src/fleet/executors/programs/flags.ts';
import { killAfter, wholeSeconds } from '../../../src/fleet/executors/programs/timers.ts';
import { type FakeCli, fakeCli } from './fake-cli.ts';
import { type FakeContext, fakeContext, fakeLog, isAlive, taskOf } from './fake-context.ts';

const make = ({ command, home }: FakeCli, config: Partial<CommandConfig> = {}): Executor =>
  makeExecutor({ kind: 'command', command, ...config }, { home, log: fakeLog() });

test('of prose over the limit the end is stored, and a warning says so', async () => {
  using cli = fakeCli({ stdout: `${'x'.repeat(9 * 1024 * 1024)}\nTHE ANSWER IS 42\n` });
  const { text, ending, warnings } = await make(cli).start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.equal(ending, 'completed');
  assert.match(text.slice(-100), /THE ANSWER IS 42$/);
  assert.deepEqual(warnings, ['its output exceeds the stored limit; the beginning is left out']);
});

test('a program is started in the directory, with closed stdin, its environment and no shell', async () => {
  using cli = fakeCli({ stdout: 'the reply\n' });
  const args = ['--at={cwd}', '{task_id}/{context_id}', '$(touch x)'];
  const executor = make(cli, { args, env: { COLOUR: 'blue', PATH: '/nowhere' } });
  const task = taskOf('a {cwd} "quoted"\nprompt', { tokenBudget: 900, access: 'read' });
  const outcome = await executor.start(task, fakeContext(cli.cwd)).outcome;
  assert.deepEqual(
    [outcome.text, outcome.exitCode, outcome.usage, outcome.ending],
    ['the reply', 0, { source: 'unknown' }, 'completed'],
  );
  const [started] = cli.runs;
  assert.deepEqual(started?.argv, [`--at=${cli.cwd}`, 't-1/c-1', '$(touch x)', 'a {cwd} "quoted"\nprompt']);
  assert.equal(started?.cwd, cli.cwd);
  assert.equal(started?.env.PWD, cli.cwd);
  assert.equal(started?.stdin, '');
  const { COLOUR, HANDFAST_TASK_ID, HANDFAST_ACCESS, HANDFAST_TOKEN_BUDGET, HANDFAST_SESSION, PATH } = started!.env;
  assert.deepEqual(
    [COLOUR, HANDFAST_TASK_ID, HANDFAST_ACCESS, HANDFAST_TOKEN_BUDGET, HANDFAST_SESSION],
    ['blue', 't-1', 'read', '900', undefined],
  );
  assert.match(PATH ?? '', /^\/nowhere:.*\/usr\/bin/);
  assert.equal(executor.hasConversation('c-1'), false);
});

test('lines of JSON tell text, progress, usage and a session, and other lines are text', async () => {
  const frames = [
    { type: 'session', id: 'mine' },
    { type: 'progress', note: 'reads\nfiles', percent: 40 },
    { type: 'usage', input: 10, output: 5 },
    { type: 'text', text: 'one ' },
    { type: 'text', text: 'two' },
    { type: 'usage', input: 900, output: 120, cache_read: 7, cost_usd: 0.01, reasoning: -1 },
  ];
  const stdout = `${frames.map((frame) => JSON.stringify(frame)).join('\n')}\nplain words\n`;
  using cli = fakeCli({ stdout }, { stdout: [{ type: 'error', message: 'out of luck' }] });
  const executor = make(cli, { output: 'json_lines' });
  const context = fakeContext(cli.cwd);
  const outcome = await executor.start(taskOf('do it'), context).outcome;
  assert.equal(outcome.text, 'one two\nplain words');
  assert.deepEqual(outcome.usage, {
    source: 'measured',
    ...{ input: 900, output: 120, reasoning: 0, cache_read: 7, cache_write: 0, cost_usd: 0.01 },
  });
  assert.equal(context.used.length, 2);
  assert.ok(context.progressed.some(({ note, percent }) => note === 'reads files' && percent === 40));
  const again = await make(cli, { output: 'json_lines' }).start(taskOf('more'), fakeContext(cli.cwd)).outcome;
  assert.equal(cli.runs[1]?.env.HANDFAST_SESSION, 'mine');
  assert.equal(again.failure, 'out of luck');
});

test('no output is a failure at any exit code, with what stderr said', async () => {
  using cli = fakeCli({}, { stderr: 'first\n\u001b[31mno licence\u001b[0m\n', code: 3 }, { stdout: 'half\n', code: 3 });
  const executor = make(cli);
  const turn = () => executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  assert.match((await turn()).failure ?? '', /^empty output: command ended without a reply/);
  assert.equal((await turn()).failure, 'command ended with exit code 3: first · no licence');
  const half = await turn();
  assert.deepEqual([half.text, half.exitCode, half.failure], ['half', 3, undefined]);
});

test('a missing program fails the turn, and is reported by the probe', async () => {
  using cli = fakeCli();
  const executor = make(cli, { command: 'handfast-no-such-program' });
  await assert.rejects(executor.start(taskOf('x'), fakeContext(cli.cwd)).outcome, { code: 'unreachable' });
  const readiness = await executor.probe(new AbortController().signal);
  assert.deepEqual(readiness, {
    present: false,
    detail: 'handfast-no-such-program was not found in PATH; install it or set "command" to its path',
  });
});

test('its own timer ends a program, and what it said until then is handed back', async (test) => {
  test.mock.timers.enable({ apis: ['setTimeout'] });
  using cli = fakeCli();
  const turn = async (script: string, begun: (context: FakeContext) => boolean) => {
    const context = fakeContext(cli.cwd);
    const config = { command: '/bin/sh', args: ['-c', script, '{prompt}'], timeoutMs: 10 };
    const { outcome } = make(cli, config).start(taskOf('do it'), context);
    await context.until(begun);
    test.mock.timers.tick(1000);
    return outcome;
  };
  // The second event is a line it has printed.
  const half = await turn('echo half of it; exec sleep 60', ({ progressed }) => progressed.length > 1);
  const nothing = await turn('exec sleep 60', ({ pids }) => pids.length > 0);
  assert.deepEqual([half.ending, half.text, half.failure], ['limit', 'half of it', undefined]);
  assert.equal(nothing.ending, 'limit');
  assert.match(nothing.failure ?? '', /was stopped at its timeout of 1 s/);
});

test('a stopped executor leaves no process behind', async () => {
  using cli = fakeCli({ hangs: true });
  const executor = make(cli);
  const context = fakeContext(cli.cwd);
  const { outcome } = executor.start(taskOf('do it'), context);
  await context.until(({ pids }) => pids.length > 0);
  await executor.stop();
  assert.equal((await outcome).ending, 'stopped');
  assert.equal(isAlive(context.pids[0]!), false);
});

test('a brief is never a flag, never too long, and never holds what no argument can', async () => {
  using cli = fakeCli({ stdout: 'a\n' }, { stdout: 'b\n' });
  const executor = make(cli);
  await executor.start(taskOf('--dangerously'), fakeContext(cli.cwd)).outcome;
  assert.deepEqual(cli.runs[0]?.argv, [' --dangerously']);
  const long = 'ä'.repeat(130_000);
  const context = fakeContext(cli.cwd);
  const running = executor.start(taskOf(long), context).outcome;
  await context.until(({ pids }) => pids.length > 0);
  const [file = ''] = readdirSync(join(cli.home, 'prompts'));
  assert.equal(readFileSync(join(cli.home, 'prompts', file), 'utf8'), long);
  const outcome = await running;
  assert.match(cli.runs[1]?.argv[0] ?? '', /^Your whole task is in the file .*\.md\./);
  assert.match(outcome.warnings?.join() ?? '', /passed in a file/);
  assert.equal(existsSync(join(cli.home, 'prompts', file)), false);
  await assert.rejects(executor.start(taskOf('a\0b'), fakeContext(cli.cwd)).outcome, { code: 'schema_violation' });
});

test('flags of the adapter are left out in every form, and so is what would be the prompt', () => {
  const owned = { '--model': true, '-m': true, '--json': false };
  assert.deepEqual(
    filterFlags(
      [
        '--x',
        'value',
        '--model',
        'a',
        '--model=b',
        '-mc',
        '-m',
        'd',
        '--json',
        'stray',
        '--',
        '--y=1',
        'z',
        '-c',
        'k=v',
        '-',
      ],
      owned,
    ),
    {
      kept: ['--x', 'value', '--y=1', '-c', 'k=v'],
      dropped: ['--model a', '--model=b', '-mc', '-m d', '--json', 'stray', '--', 'z', '-'],
    },
  );
});

test('both timers come from one figure, and ours is never the first', () => {
  assert.deepEqual([0, 1, 500, 1000, 1001].map(wholeSeconds), [1, 1, 1, 1, 2]);
  assert.equal(killAfter(500, 60_000), 61_000);
  assert.equal(killAfter(undefined), undefined);
});

test('arguments that are left out are logged', () => {
  using cli = fakeCli();
  const log = fakeLog();
  makeExecutor({ kind: 'claude', command: cli.command, args: ['--print', '--resume=x'] }, { home: cli.home, log });
  assert.deepEqual(log.lines, [
    'warn ignored arguments that the claude adapter sets itself {"dropped":["--print","--resume=x"]}',
  ]);
});
