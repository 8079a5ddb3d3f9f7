/** The defaults that are written out must be those that are declared. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../src/config/config.ts';
import { defaultConfig } from '../../src/server/default-config.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

test('the defaults are what a configuration without a file loads, wherever it is', async (t) => {
  const cwd = temporaryFolder(t);
  for (const env of [{ HANDFAST_HOME: '/somewhere/else' }, {}]) {
    assert.deepEqual(defaultConfig({ env, cwd }), await loadConfig(undefined, { env, cwd }));
  }
});
