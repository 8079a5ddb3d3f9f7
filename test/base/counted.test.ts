/** Numbers with their noun: one, none and many, and plurals of any form. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counted } from '../../src/base/counted.ts';

test('a number and its noun agree', () => {
  assert.deepEqual(
    [0, 1, 2].map((count) => counted(count, 'line')),
    ['0 lines', '1 line', '2 lines'],
  );
  assert.deepEqual(
    [1, 2].map((count) => counted(count, 'entry was', 'entries were')),
    ['1 entry was', '2 entries were'],
  );
});
