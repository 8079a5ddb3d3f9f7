/**
 * A host without descriptors left: each way to start a program or a thread fails its own call and names the limit to raise, the host
 * lives, and all of them succeed once descriptors are free.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startChild } from '../../src/base/child.ts';
import { runProgram } from '../../src/base/program.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

interface Attempt {
  readonly phase: string;
  readonly name: string;
  readonly code: string;
  readonly message: string;
}

/** Its number of descriptors left when everything is started at once. */
for (const left of [0, 1, 3, 6, 12]) {
  test(`with ${left} descriptors left a start fails its own call, and later succeeds`, async (t) => {
    const script = join(import.meta.dirname, 'fixtures', 'no-descriptors.ts');
    const words = [process.execPath, '-C', 'handfast-source', script, temporaryFolder(t), String(left)];
    const child = spawn('/bin/sh', ['-c', 'ulimit -n 100; exec "$0" "$@"', ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const [code] = await once(child, 'close');
    const attempts = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Attempt);
    assert.equal(code, 0, `${stdout}\n${stderr}`);
    const without = attempts.filter(({ phase }) => phase === 'without');
    for (const { name, code, message } of without) {
      // A thread that ends while it loads does not always report the reason; the request may be repeated.
      if (code === 'ok' || code === 'NOT_STARTED' || code === 'interrupted') continue;
      assert.match(message, /EMFILE|no file descriptor left; raise its limit|too many files are open/, name);
    }
    assert.ok(without.some((attempt) => attempt.code !== 'ok'));
    if (left === 0) assert.ok(without.every((attempt) => attempt.code !== 'ok'));
    const later = attempts.filter(({ phase }) => phase === 'with');
    assert.equal(later.length, without.length);
    assert.deepEqual(
      later.filter((attempt) => attempt.code !== 'ok'),
      [],
    );
  });
}

const env = { PATH: process.env.PATH };

test('a program is not started in a folder that is missing, and the error names the folder', async (t) => {
  const cwd = join(temporaryFolder(t), 'gone');
  await assert.rejects(runProgram({ argv: ['true'], env, cwd }), {
    code: 'unreachable',
    message: 'cannot start true: the folder it is to run in does not exist',
  });
});

test('arguments that are too long fail the start alone', async () => {
  await assert.rejects(runProgram({ argv: ['true', 'x'.repeat(4_000_000)], env }), {
    code: 'unreachable',
    message: 'cannot start true: its arguments and variables are longer than the system allows; shorten them',
  });
});

test('a file that may not be run fails the start alone', async (t) => {
  const file = join(temporaryFolder(t), 'plain');
  writeFileSync(file, 'text');
  chmodSync(file, 0o600);
  await assert.rejects(runProgram({ argv: [file], env }), { code: 'unreachable', message: /this user may not run it/ });
});

test('a child that could not be started can be signalled, stopped and ended', async () => {
  const child = startChild({ argv: ['/no/such/program'], env, stdin: 'pipe', channel: true });
  child.signal('SIGTERM');
  await child.stop(10);
  await child.kill();
  assert.equal(await child.end(10), 'ended');
  await assert.rejects(child.started, { code: 'ENOENT' });
});
