/**
 * Behaviour of real programs that they do not document: broken lines, endless lines, no usage, bad exits. The same for all
 * adapters.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExecutorConfig } from '../../../src/fleet/executors/config.ts';
import type { Executor, ExecutorOutcome } from '../../../src/fleet/executors/executor.ts';
import { makeExecutor } from '../../../src/fleet/executors/make.ts';
import { ReplyText } from '../../../src/fleet/executors/reply-text.ts';
import { tokensSpent } from '../../../src/fleet/executors/usage.ts';
import { type FakeCli, fakeCli, type PlayedRun } from './fake-cli.ts';
import { fakeContext, fakeLog, taskOf } from './fake-context.ts';

interface Program {
  readonly config: ExecutorConfig;
  /** A turn that says `done` and has used 12 tokens, a frame each. */
  readonly turn: readonly Readonly<Record<string, unknown>>[];
  /** Members of frames that tell of usage. */
  readonly usage: readonly string[];
}

const message = { id: 'm', content: [{ type: 'text', text: 'done' }], usage: { input_tokens: 10, output_tokens: 2 } };
const programs: Readonly<Record<string, Program>> = {
  claude: {
    config: { kind: 'claude' },
    turn: [
      { type: 'system', subtype: 'init', session_id: 's' },
      { type: 'assistant', message },
      { type: 'result', subtype: 'success', result: 'done', usage: { input_tokens: 10, output_tokens: 2 } },
    ],
    usage: ['usage'],
  },
  codex: {
    config: { kind: 'codex' },
    turn: [
      { type: 'thread.started', thread_id: 's' },
      { type: 'turn.started' },
      { type: 'item.completed', item: { type: 'agent_message', text: 'done' } },
      { type: 'turn.completed', usage: { input_tokens: 10, cached_input_tokens: 0, output_tokens: 2 } },
    ],
    usage: ['usage'],
  },
  opencode: {
    config: { kind: 'opencode' },
    turn: [
      { type: 'text', sessionID: 's', part: { text: 'done' } },
      { type: 'step_finish', sessionID: 's', part: { tokens: { input: 10, output: 2 } } },
    ],
    usage: ['part'],
  },
  command: {
    config: { kind: 'command', command: '', output: 'json_lines' },
    turn: [
      { type: 'text', text: 'done' },
      { type: 'usage', input: 10, output: 2 },
    ],
    usage: ['input', 'output', 'type'],
  },
};

/** A frame for everything a program may add between its own: all of it is passed over. */
const STRANGE = [{ type: 'later', x: 1 }, { type: 7 }, {}, [], null, 'text'];

async function played({ config }: Program, ...runs: readonly PlayedRun[]): Promise<readonly ExecutorOutcome[]> {
  using cli: FakeCli = fakeCli(...runs);
  const { command, home, cwd } = cli;
  const executor: Executor = makeExecutor({ ...config, command } as ExecutorConfig, { home, log: fakeLog() });
  const outcomes: ExecutorOutcome[] = [];
  for (const index of runs.keys()) {
    outcomes.push(await executor.start(taskOf('do it', { contextId: `c-${index}` }), fakeContext(cwd)).outcome);
  }
  return outcomes;
}

const lines = (frames: readonly unknown[]): string => frames.map((frame) => `${JSON.stringify(frame)}\n`).join('');

for (const [name, program] of Object.entries(programs)) {
  const { turn, usage } = program;

  test(`${name}: an exit code other than 0 removes nothing from a reply, and is reported beside it`, async () => {
    const [failed, killed] = await played(program, { stdout: turn, code: 3 }, { stdout: turn, killedBy: 'SIGKILL' });
    for (const outcome of [failed, killed]) {
      assert.deepEqual([outcome?.text, outcome?.failure, outcome?.ending], ['done', undefined, 'completed']);
      assert.equal(tokensSpent(outcome!.usage), 12);
    }
    assert.deepEqual([failed?.exitCode, killed?.exitCode], [3, 137]);
  });

  test(`${name}: no output is a failure with its reason, and no usage is not zero`, async () => {
    const told = turn.map((frame) => Object.fromEntries(Object.entries(frame).filter(([key]) => !usage.includes(key))));
    const [silent, killed, uncounted] = await played(
      program,
      { stderr: 'a warning\n' },
      { killedBy: 'SIGSEGV', stderr: 'core dumped\n' },
      { stdout: [...(name === 'opencode' || name === 'command' ? turn.slice(0, 1) : told)].map(withoutMessageUsage) },
    );
    assert.match(silent?.failure ?? '', new RegExp(`^empty output: ${name} ended without a reply.*a warning`));
    assert.equal(killed?.failure, `${name} was ended by SIGSEGV: core dumped`);
    assert.deepEqual([uncounted?.text, uncounted?.failure], ['done', undefined]);
    for (const outcome of [silent, killed, uncounted]) assert.deepEqual(outcome?.usage, { source: 'unknown' });
  });

  if (name === 'command') continue;
  test(`${name}: lines that are broken, endless or of another kind are passed over`, async () => {
    const broken = ['', '\u001b[33mwarning\u001b[0m', '{"type":"result","result":"no', '{"a":1}}', '\u0000', '[1]'];
    const endless = JSON.stringify({ type: 'result', subtype: 'success', result: 'x'.repeat(3 * 1024 * 1024) });
    const between = `${[...broken, endless].join('\n')}\n${lines(STRANGE)}`;
    const [first = {}, ...rest] = turn;
    const [outcome] = await played(program, {
      stdout: `${between}${lines([first])}${between}${lines(rest)}{"type":"re`,
    });
    assert.deepEqual([outcome?.text, outcome?.failure], ['done', undefined]);
    assert.equal(tokensSpent(outcome!.usage), 12);
  });
}

/** Removes the usage that claude reports inside its messages too. */
function withoutMessageUsage(frame: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (frame.type !== 'assistant') return frame;
  const { usage: _, ...rest } = frame.message as typeof message;
  return { ...frame, message: rest };
}

test('of a reply without end the last words are kept, and that it was longer is known', () => {
  const reply = new ReplyText();
  reply.add('first', 'nothing before the first');
  reply.add('second', '\n');
  assert.deepEqual([reply.text, reply.cut, reply.atLineStart], ['first\nsecond', false, false]);
  for (let piece = 0; piece < 20; piece += 1) reply.add('x'.repeat(1024 * 1024));
  reply.add('the result\n', '\n');
  assert.equal(reply.text.length, 8 * 1024 * 1024);
  assert.deepEqual([reply.text.endsWith('x\nthe result\n'), reply.cut, reply.atLineStart], [true, true, true]);
});
