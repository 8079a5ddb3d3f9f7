/**
 * The version that is spoken with a peer, beside the cases of the vectors.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { negotiate } from '../../../src/fleet/phases/negotiate.ts';

test('what is no version says nothing, and versions compare as numbers', () => {
  assert.deepEqual(negotiate({ announced: ['2.10', '2.9', 'x', '', '2', '02.1'] }), {
    mode: 'structured',
    version: '2.0',
  });
  assert.deepEqual(negotiate({ announced: ['two', '20.0'] }), {
    mode: 'inline',
    version: null,
    warning: 'no_common_major',
  });
  assert.deepEqual(negotiate({ announced: [] }), { mode: 'inline', version: null });
});

test('another major is never half supported, with any card', () => {
  assert.deepEqual(negotiate({ announced: ['3.0'], cardExtension: true }), {
    mode: 'inline',
    version: null,
    warning: 'no_common_major',
  });
  assert.deepEqual(negotiate({ announced: ['3.0'], inlineHints: false }), {
    mode: 'plain',
    version: null,
    warning: 'no_common_major',
  });
});
