/** The adapter file of the SDK, where the package is not there. */
import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { test } from 'node:test';
import { loadA2aClient, loadA2aServer } from '../../../src/fleet/bus/a2a/sdk.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';

test('without the SDK, both sides say what to install', async () => {
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (!specifier.startsWith('@a2a-js/sdk')) return next(specifier, context);
      throw Object.assign(new Error(`Cannot find package '${specifier}'`), { code: 'ERR_MODULE_NOT_FOUND' });
    },
  });
  try {
    for (const load of [loadA2aServer, loadA2aClient]) {
      await assert.rejects(load(), (error: HandfastError) => {
        assert.equal(error.code, 'not_configured');
        assert.match(error.message, /npm install @a2a-js\/sdk/);
        return true;
      });
    }
  } finally {
    hooks.deregister();
  }
  assert.equal(typeof (await loadA2aClient()).client.ClientFactory, 'function');
});
