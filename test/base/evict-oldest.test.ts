import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setNewest } from '../../src/base/evict-oldest.ts';

test('a map keeps its newest entries, and an entry that is stored again is the newest', () => {
  const entries = new Map<string, number>();
  for (const [at, key] of ['a', 'b', 'c', 'a', 'd'].entries()) setNewest(entries, key, at, 3);
  assert.deepEqual(
    [...entries],
    [
      ['c', 2],
      ['a', 3],
      ['d', 4],
    ],
  );
});

test('a map that holds more than its bound shrinks to it', () => {
  const entries = new Map(Array.from({ length: 9 }, (_, at) => [at, at]));
  setNewest(entries, 9, 9, 2);
  assert.deepEqual([...entries.keys()], [8, 9]);
});
