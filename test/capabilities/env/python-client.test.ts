/** Gymnasium code with environments of this host: its own checker, a vector environment, and Minari on recorded data. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { User } from '../../cli/command.ts';
import { gymPython, skip } from './gym-python.ts';

const run = promisify(execFile);
const SCRIPTS = join(import.meta.dirname, '../../../python');
const BOUND = { timeout: 240_000, killSignal: 'SIGKILL' } as const;

async function upFor(t: TestContext) {
  const user = new User();
  t.after(() => user.leave());
  const addresses = ['--listen', 'http://127.0.0.1:0', '--listen', 'tcp://127.0.0.1:0'];
  const command = user.start(['up', ...addresses, '--json']);
  await command.says('\n');
  const { listeners, token_file } = JSON.parse(command.stdout) as { listeners: string[]; token_file: string };
  const [http, tcp] = listeners as [string, string];
  const stdio = `stdio:${user.line(['stdio']).join(' ')}`;
  return { user, addresses: { http, tcp, stdio }, token: readFileSync(token_file, 'utf8').trim() };
}

describe('gymnasium', { skip }, () => {
  for (const kind of ['http', 'tcp', 'stdio'] as const) {
    test(`finds no fault in environments of a host over ${kind}, which are equal to its own`, async (t) => {
      const { user, addresses, token } = await upFor(t);
      const script = join(import.meta.dirname, 'python_client.py');
      const { stdout } = await run(gymPython(), [script, addresses[kind], token], { ...BOUND, cwd: user.cwd });
      assert.deepEqual(JSON.parse(stdout), {
        registered: true,
        checked: 3,
        equal: true,
        refused: 'unknown_action',
        unknown: 'runtime_error',
        vector: [[2, 4], 'float32', true],
        batches: [
          ['NextStep', true, true],
          ['SameStep', true, true],
        ],
        picture: true,
      });
    });
  }

  test('reads what was recorded as a Minari dataset', async (t) => {
    const { user } = await upFor(t);
    const { code, stderr } = await user.run([
      'env',
      'record',
      'CartPole-v1',
      'episodes.jsonl',
      '--episodes',
      '3',
      '--seed',
      '4',
    ]);
    assert.equal(code, 0, stderr);
    const lines = readFileSync(join(user.cwd, 'episodes.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const steps = lines.filter(({ kind }) => kind === 'step');
    const again = await user.run(['env', 'record', 'CartPole-v1', 'episodes.jsonl']);
    assert.deepEqual([again.code, /exists already/.test(again.stderr)], [2, true]);
    const small = await user.run(['env', 'record', 'CartPole-v1', 'small.jsonl', '--max-bytes', '900']);
    assert.match(small.stderr, /would exceed 900 bytes/);
    const env = { ...process.env, MINARI_DATASETS_PATH: join(user.cwd, 'datasets') };
    const options = { ...BOUND, cwd: user.cwd, env };
    await run(gymPython(), [join(SCRIPTS, 'jsonl_to_minari.py'), 'episodes.jsonl', 'handfast/cartpole-v0'], options);
    const look =
      'import minari, json; d = minari.load_dataset("handfast/cartpole-v0"); ' +
      'print(json.dumps([d.total_episodes, int(d.total_steps), [e.observations[-1].tolist() for e in d.iterate_episodes()], [float(e.rewards.sum()) for e in d.iterate_episodes()]]))';
    const { stdout } = await run(gymPython(), ['-c', look], options);
    const [episodes, total, last, returns] = JSON.parse(stdout.trim().split('\n').at(-1) as string);
    assert.deepEqual([episodes, total], [3, steps.length]);
    const ends = steps.filter(({ terminated, truncated }) => terminated || truncated);
    assert.deepEqual(
      last,
      ends.map(({ observation }) => observation),
    );
    assert.deepEqual(
      returns,
      ends.map(({ step }) => step),
    );
  });
});
