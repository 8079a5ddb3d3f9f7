/** Programs that are started and stopped in the same moment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { programEnvironment, startProgram } from '../../src/base/program.ts';
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
