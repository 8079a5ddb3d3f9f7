/** The opencode adapter: its arguments, its sessions, the sum of its steps. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OpencodeConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { tokensSpent } from '../../../src/fleet/executors/usage.ts';
import { type FakeCli, fakeCli } from './fake-cli.ts';
import { fakeContext, fakeLog, taskOf } from './fake-context.ts';

const make = ({ command, home }: FakeCli, config: Partial<OpencodeConfig> = {}): Executor =>
  makeExecutor({ kind: 'opencode', command, ...config }, { home, log: fakeLog() });

const frame = (type: string, part: object, sessionID = 'ses_1') => ({ type, sessionID, part });
const step = (input: number, output: number) =>
  frame('step_finish', { tokens: { input, output, reasoning: 3, cache: { read: 50, write: 2 } }, cost: 0.5 });
const TURN = [
  frame('step_start', {}),
  frame('text', { text: 'I will write it' }),
  frame('tool_use', { tool: 'bash', state: { title: 'Writes a note' } }),
  step(100, 10),
  frame('text', { text: '```json\n{}\n```' }),
  step(20, 5),
];

test('a session is started and continued, its steps are summed and its texts joined', async () => {
  using cli = fakeCli({ stdout: TURN }, { stdout: TURN });
  const context = fakeContext(cli.cwd);
  const outcome = await make(cli, { agent: 'build', model: 'p/m' }).start(taskOf('do it'), context).outcome;
  assert.equal(outcome.text, 'I will write it\n```json\n{}\n```');
  assert.equal(tokensSpent(outcome.usage), 100 + 10 + 20 + 5 + 6 + 4);
  assert.equal(outcome.usage.cost_usd, 1);
  assert.deepEqual(
    context.used.map((usage) => tokensSpent(usage)),
    [115, 145],
  );
  assert.ok(context.progressed.some(({ note }) => note === 'bash Writes a note'));
  await make(cli, { args: ['--thinking', '--session=x', '--format', 'default'] }).start(
    taskOf('go on'),
    fakeContext(cli.cwd),
  ).outcome;
  assert.deepEqual(
    cli.runs.map(({ argv }) => argv),
    [
      ['run', 'do it', '--format', 'json', '--dangerously-skip-permissions', '--agent', 'build', '--model', 'p/m'],
      ['run', '--session', 'ses_1', 'go on', '--format', 'json', '--dangerously-skip-permissions', '--thinking'],
    ],
  );
});

test('its word for a lost session is known in colour, and starts another one', async () => {
  const lost = { stderr: '\u001b[91m\u001b[1mError: \u001b[0mSession not found\n', code: 1 };
  using cli = fakeCli({ stdout: TURN }, lost, { stdout: TURN });
  const executor = make(cli);
  await executor.start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const outcome = await executor.start(taskOf('go on'), fakeContext(cli.cwd)).outcome;
  assert.equal(outcome.failure, undefined);
  assert.deepEqual(
    cli.runs.map(({ argv }) => argv.includes('--session')),
    [false, true, false],
  );
});

test('an error frame is a failure, at any exit code, unless it continues behind it', async () => {
  const error = { type: 'error', sessionID: 'ses_1', error: { name: 'APIError', data: { message: 'no credit' } } };
  using cli = fakeCli({ stdout: [error] }, { stdout: [frame('step_start', {}), error, ...TURN] });
  const turn = () => make(cli).start(taskOf('do it'), fakeContext(cli.cwd)).outcome;
  const ended = await turn();
  assert.equal(ended.failure, 'opencode: no credit');
  assert.deepEqual(ended.usage, { source: 'unknown' });
  assert.equal((await turn()).failure, undefined);
});
