/** "Did you mean": near words are found, far ones are not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { suggest } from '../../src/base/suggest.ts';

const known = ['max_parallel', 'max_depth', 'queue_limit', 'name', 'id'];

test('a mistyped word gets the nearest known one', () => {
  for (const [word, expected] of [
    ['max_parralel', 'max_parallel'],
    ['maxparallel', 'max_parallel'],
    ['MAX_DEPTH', 'max_depth'],
    ['max_dpeth', 'max_depth'],
    ['queuelimit', 'queue_limit'],
    ['nmae', 'name'],
    ['i', 'id'],
  ] as const) {
    assert.equal(suggest(word, known), expected, word);
  }
});

test('a word that is near to none gets none, however long it is', () => {
  assert.equal(suggest('colour', known), undefined);
  assert.equal(suggest('xy', ['id']), undefined);
  assert.equal(suggest('x'.repeat(1_000_000), known), undefined);
});
