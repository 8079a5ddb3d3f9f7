/**
 * Patterns with `*`: the same results as a regular expression, without its cost.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitsWildcard, fitsWords } from '../../src/base/wildcard.ts';

/** Returns every text of these letters up to a length. */
const texts = (letters: string, length: number): string[] =>
  length === 0
    ? ['']
    : ['', ...[...letters].flatMap((letter) => texts(letters, length - 1).map((rest) => letter + rest))];

test('a pattern fits what the regular expression of its parts matches', () => {
  const names = new Set(texts('ab\n', 4));
  for (const pattern of new Set(texts('ab*', 4))) {
    const expression = new RegExp(`^${pattern.replaceAll('*', '.*')}$`, 's');
    for (const name of names) {
      assert.equal(fitsWildcard(pattern, name), expression.test(name), JSON.stringify([pattern, name]));
    }
  }
});

test('a long text that nearly fits a pattern of many parts is answered in time that grows with its length alone', () => {
  assert.equal(fitsWildcard(`${'*a'.repeat(30)}*b`, 'a'.repeat(1_000_000)), false);
});

test('words fit as many patterns, and a last ** any further ones', () => {
  const rows: [string, string, boolean][] = [
    ['a *', 'a b', true],
    ['a *', 'a b c', false],
    ['a **', 'a', true],
    ['a **', 'a b c', true],
    ['a **', 'b', false],
    ['** a', 'b a', true],
    ['** a', 'b c a', false],
    ['a ...', 'a b c', false],
  ];
  for (const [patterns, words, fits] of rows) {
    assert.equal(fitsWords(patterns.split(' '), words.split(' ')), fits, `${patterns} | ${words}`);
  }
});
