/**
 * Programs: stopped in the moment of their start, the repository in which they work, and the part of a long output that
 * is stored.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { programEnvironment, runProgram, startProgram } from '../../src/base/program.ts';
import { within } from '../contract/recorder.ts';

test('a program that is stopped before its start is known ends all the same', async () => {
  const leaving = new AbortController();
  const env = programEnvironment();
  const starting = startProgram({ argv: ['sleep', '600'], cwd: '/', env, signal: leaving.signal });
  leaving.abort(new Error('cancelled'));
  const { ended } = await starting;
  const { code, killedBy } = await within(ended, 'the end of the program');
  assert.deepEqual([code, killedBy], [143, 'SIGTERM']);
});

test('of an output over the limit the beginning is stored, or the end in whole characters', async () => {
  const script =
    "for (let n = 0; n < 500; n += 1) process.stdout.write('é'.repeat(100)); process.stdout.write('x THE END')";
  const argv: [string, ...string[]] = [process.execPath, '-e', script];
  const options = { argv, cwd: '/', env: programEnvironment(), maxStdoutBytes: 1000 };
  const [start, end] = [await runProgram(options), await runProgram({ ...options, keepsEnd: true })];
  assert.deepEqual([start.stdout, start.truncated], ['é'.repeat(500), true]);
  // 991 bytes are left for letters of two.
  assert.deepEqual([end.stdout, end.truncated], [`${'é'.repeat(495)}x THE END`, true]);
  const whole = await runProgram({ ...options, keepsEnd: true, maxStdoutBytes: 200_000 });
  assert.deepEqual([whole.stdout.length, whole.truncated], [50_009, false]);
});

test('a program works in the repository of its folder, also where this process was started from a hook', () => {
  const hook = {
    PATH: '/bin',
    GIT_DIR: '/a/.git',
    GIT_INDEX_FILE: '/a/.git/index',
    GIT_CONFIG_GLOBAL: '/b',
    GIT_PREFIX: '',
  };
  const env = programEnvironment({}, hook);
  assert.deepEqual(
    Object.keys(env).filter((name) => name.startsWith('GIT_')),
    ['GIT_CONFIG_GLOBAL'],
  );
  assert.equal(programEnvironment({ GIT_DIR: '/c' }, hook).GIT_DIR, '/c', 'a setting of the program stays');
});
