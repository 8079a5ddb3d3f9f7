/** `handfast proc …` against a running server, as a user types it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { User } from '../../cli/command.ts';
import { isAlive, until } from './support.ts';

test('programs are run, listed, read and ended from the command line', { timeout: 240_000 }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  user.write(
    'handfast.yaml',
    'listen: http://127.0.0.1:0\nplugins:\n  - { use: proc, options: { programs: [sh, cat, "sleep 60*"] } }\n',
  );
  await user.up(['--config', 'handfast.yaml']);
  const ran = await user.run(['proc', 'run', '--env', 'A=a b', '--', 'sh', '-c', 'echo "$A"; echo oops >&2; exit 7']);
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, 'a b\n', 'oops\n']);
  const killed = await user.run(['proc', 'run', '--', 'sh', '-c', 'kill -TERM $$']);
  assert.equal(killed.code, 143);
  const late = await user.run(['proc', 'run', '--timeout', '0.5', '--', 'sleep', '600']);
  assert.deepEqual([late.code, late.stderr], [143, 'ended: its time was over\n']);
  const exact = await user.run(['proc', 'run', '--', 'sh', '-c', "printf 'a\\r\\n\\nb'; printf oops >&2"]);
  assert.deepEqual([exact.stdout, exact.stderr], ['a\r\n\nb', 'oops']);
  const prompt = user.start(['proc', 'run', '--', 'sh', '-c', "printf 'name? '; sleep 600"]);
  await prompt.says('name? ');
  prompt.child.kill('SIGINT');
  await prompt.ended();
  const many = await user.run(['proc', 'run', '--', 'sh', '-c', 'seq 100000']);
  assert.equal(many.stdout, Array.from({ length: 100_000 }, (_, at) => `${at + 1}\n`).join(''));
  const denied = await user.failure(['proc', 'run', '--', 'sleep', '5']);
  assert.deepEqual(
    [denied.code, denied.message],
    ['proc.denied', 'Command not allowed; programs that may run: sh, cat, sleep 60*'],
  );
  await until(async () => (await user.run(['proc', 'ls'])).stderr === 'no processes\n', 'an empty list');

  const running = user.start(['proc', 'run', '--', 'sh', '-c', 'echo begun; sleep 600']);
  await running.says('begun');
  const [listed] = await user.json(['proc', 'ls']);
  assert.deepEqual([listed.state, listed.cmd], ['running', 'sh -c echo begun; sleep 600']);
  const id = (listed.proc_id as string).slice(0, 8);
  assert.equal((await user.run(['proc', 'logs', id])).stdout, 'begun\n');
  assert.match((await user.run(['proc', 'ls'])).stdout, new RegExp(`${id}\\w* +running +${listed.pid} +handfast-cli`));
  assert.equal((await user.run(['proc', 'kill', id, '--signal', 'SIGINT'])).stdout, 'stopped\n');
  assert.equal((await running.ended()).code, 130);
  await until(() => !isAlive(listed.pid as number), 'its end');
  const unknown = await user.failure(['proc', 'kill', 'nope']);
  assert.deepEqual(
    [unknown.code, unknown.message],
    ['unknown_proc', 'no process has an id that starts with "nope"; see: handfast proc ls'],
  );

  // Its output has no reader any more, as behind `| head`.
  const unread = user.start(['proc', 'run', '--', 'sh', '-c', 'while :; do echo again; done']);
  await unread.says('again');
  const [flood] = await user.json(['proc', 'ls']);
  unread.child.stdout.destroy();
  const quiet = await unread.ended();
  assert.deepEqual([quiet.code, quiet.stderr], [0, '']);
  await until(() => !isAlive(flood.pid as number), 'the end of what nobody reads');

  // The command that started it is lost: its session ends, and the process with it.
  const lost = user.start(['proc', 'run', '--', 'sh', '-c', 'echo begun; sleep 600']);
  await lost.says('begun');
  const [{ pid }] = await user.json(['proc', 'ls']);
  lost.child.kill('SIGINT');
  await lost.ended();
  await until(() => !isAlive(pid as number), 'the end of what was left');
});
