/** A signal opens no debugger: in a host from its first moment on, in the launcher of its children, and in any Node that it starts. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Launcher } from '../../src/base/children/launcher.ts';
import { NO_DEBUGGER, nodeProgram } from '../../src/base/node-program.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { root } from '../rules/scan.ts';

const LINUX = { skip: process.platform !== 'linux' && 'reads /proc' };
const SIGUSR1_BIT = 1n << 9n;

/** Returns true if the process has a handler of the signal: before that the signal ends it. */
const handles = (pid: number): boolean => {
  const [, mask = '0'] = /^SigCgt:\s*([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
  return (BigInt(`0x${mask}`) & SIGUSR1_BIT) !== 0n;
};

/** Starts a host with a free port for a debugger. */
function startHost(t: TestContext, ...nodeOptions: readonly string[]) {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'handfast.yaml'), 'listen: ["tcp://127.0.0.1:0"]\n', { mode: 0o600 });
  const main = join(root, 'src/cli/main.ts');
  const words = ['-C', 'handfast-source', ...nodeOptions, main, 'up', '--json', '--config', 'handfast.yaml'];
  const child = spawn(process.execPath, words, {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, HANDFAST_HOME: folder, NODE_OPTIONS: '--inspect-port=127.0.0.1:0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  return { child, pid: child.pid as number, said: () => said };
}

const addressIn = (said: string): string | undefined => /Debugger listening on ws:\/\/([\d.:]+)\//.exec(said)?.[1];

test('a host that gets the signal while it starts and while it runs has no debugger', LINUX, async (t) => {
  const { child, pid, said } = startHost(t);
  let ready = false;
  void once(createInterface({ input: child.stdout }), 'line').then(() => {
    ready = true;
  });
  while (!ready && child.exitCode === null) {
    if (handles(pid)) process.kill(pid, 'SIGUSR1');
    await pause(5);
  }
  process.kill(pid, 'SIGUSR1');
  await pause(300);
  assert.equal(child.exitCode, null, said());
  const address = addressIn(said());
  if (address === undefined) return;
  // The signal arrived before the first line of this package: the debugger it opened is closed.
  await assert.rejects(fetch(`http://${address}/json/list`), said());
});

test('a debugger that an option asks for stays', LINUX, async (t) => {
  const { child, pid, said } = startHost(t, '--inspect=127.0.0.1:0');
  await once(createInterface({ input: child.stdout }), 'line');
  process.kill(pid, 'SIGUSR1');
  const address = addressIn(said());
  assert.equal((await fetch(`http://${address}/json/list`)).status, 200, said());
});

test('a program that has started a child opens none', LINUX, async (t) => {
  const program = `import { startProgram } from ${JSON.stringify(join(root, 'src/base/program.ts'))};
    const { ended } = await startProgram({ argv: ['/bin/sh', '-c', 'kill -USR1 ' + process.pid] });
    await ended;
    await new Promise((resolve) => setTimeout(resolve, 300));
    console.log(process.getBuiltinModule('node:inspector').url() ?? 'none');`;
  const child = spawn(process.execPath, ['--inspect-port=127.0.0.1:0', '--input-type=module', '-e', program], {
    env: { PATH: process.env.PATH, HANDFAST_HOME: temporaryFolder(t) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  assert.equal(line, 'none');
});

test('the launcher of a host and its children open none', LINUX, async (t) => {
  const launcher = new Launcher();
  t.after(() => launcher.close());
  const child = await launcher.launch({
    argv: [...nodeProgram(), '-e', 'setInterval(() => {}, 1e6)'],
    cwd: '/',
    env: {},
  });
  const above = Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1]);
  for (const pid of [above, child.pid]) {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    assert.equal(words[1], NO_DEBUGGER);
    assert.ok(!handles(pid));
  }
});

test('every Node of this package is started in this way', () => {
  const elsewhere = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .filter((name) =>
      /argv: \[process\.execPath|command: process\.execPath|(?:spawn|fork)\(process\.execPath|= \[process\.execPath/.test(
        readFileSync(join(root, 'src', name), 'utf8'),
      ),
    );
  assert.deepEqual(elsewhere, []);
});
