import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLogged } from '../../src/base/log.ts';

test('what happens again and again is logged the 1st, 2nd, 4th, 8th … time', () => {
  const logged = Array.from({ length: 1_100 }, (_, at) => at + 1).filter(isLogged);
  assert.deepEqual(logged, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
});
