/** `handfast proc attach` and `run --pty` at a real terminal: keys, size, detaching, the end, and the restored terminal. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { User } from '../../cli/command.ts';
import { AtTerminal } from './at-terminal.ts';
import { isAlive, until } from './support.ts';

async function siteOf(t: TestContext) {
  const user = new User();
  t.after(() => user.leave());
  const config = user.write(
    'handfast.yaml',
    'listen: http://127.0.0.1:0\nplugins: [{ use: proc, options: { programs: [sh, cat] } }]\n',
  );
  const { ready } = await user.up(['--config', config]);
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const agent = await connect(ready.url, { capabilities: ['proc'], token });
  t.after(() => agent.close());
  return { user, agent };
}

const pty = { cols: 80, rows: 24 };

test('a user is at the terminal of a process: keys, size, leaving, coming back, its end', {
  timeout: 240_000,
}, async (t) => {
  const { user, agent } = await siteOf(t);
  const shell = await agent.proc.spawn(['sh'], { pty, env: { PS1: 'ready> ' } });
  const first = new AtTerminal(t, user, ['proc', 'attach', shell.id.slice(0, 8), '--history']);
  await first.says('ready> ');
  first.terminal.write('stty size; printf "\\033[?1049h\\033[?25lfull"\r');
  await first.says(/25 90\r\n.*full/s);
  first.terminal.resize({ cols: 101, rows: 31 });
  await until(async () => (await shell.info()).pty?.cols === 101, 'the size');
  await first.terminal.write('cat\r');
  // A shell drops an interrupt that arrives before its child has become the program: the echo shows that it has.
  await first.terminal.write('again\r');
  await first.says(/again\r\nagain\r\n/);
  await first.terminal.write('\x03');
  await first.says('ready> ');
  // A key that is sent only with the next one.
  await first.terminal.write('\x10');
  await first.terminal.write('\x11');
  const left = await first.says(/same\r\n/);
  assert.ok(left.includes('\x1b[?1049l\x1b[?25h'), left);
  assert.match(left, /left running: handfast proc attach [0-9a-f]{12}\r\ncode=0=/);
  assert.ok(isAlive(shell.pid));

  const second = new AtTerminal(t, user, ['proc', 'attach', shell.id]);
  await until(async () => (await shell.info()).pty?.rows === 25, 'the size of the second one');
  await second.terminal.write('exit 7\r');
  await second.says(/code=7=\r\nsame\r\n/);
});

test('a program is run at the terminal, and every key goes to it', { timeout: 240_000 }, async (t) => {
  const { user } = await siteOf(t);
  const script = 'trap "echo keyed; exit 4" INT; stty size; echo $TERM; while :; do sleep 0.1; done';
  const run = new AtTerminal(t, user, ['proc', 'run', '--pty', '--', 'sh', '-c', script]);
  await run.says(/25 90\r\nxterm\r\n/);
  await run.terminal.write('\x03');
  await run.says(/keyed\r\n.*code=4=\r\nsame\r\n/s);
});

test('without a terminal the output is printed as it is, with the exit code', { timeout: 240_000 }, async (t) => {
  const { user, agent } = await siteOf(t);
  const child = await agent.proc.spawn(['sh', '-c', 'read -r line; printf "got "; echo "$line"; exit 5'], { pty });
  const attached = user.start(['proc', 'attach', child.id]);
  const ending = attached.ended();
  // The process is listed once the host has a reader: earlier output is not shown.
  await until(async () => {
    const text = (await user.run(['proc', 'ls'])).stdout;
    return text.includes('running');
  }, 'the process');
  const ran = await user.run([
    'proc',
    'run',
    '--pty',
    '--',
    'sh',
    '-c',
    'tty >/dev/null && echo "at a terminal"; exit 6',
  ]);
  assert.deepEqual([ran.code, ran.stdout], [6, 'at a terminal\r\n']);
  await child.write('a line\r');
  assert.equal((await ending).code, 5);
  assert.match((await user.run(['proc', 'logs', child.id])).stdout, /^a line\r\ngot a line\r\n$/);
});
