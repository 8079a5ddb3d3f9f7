/**
 * The title of a model's thought, as it grows.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ThoughtTitle } from '../../../../src/control/sessions/turns/thought-title.ts';
import fc from '../../../support/properties.ts';

const told = (...pieces: readonly string[]): (string | undefined)[] => {
  const title = new ThoughtTitle();
  return pieces.map((piece) => title.add(piece));
};

test('is the leading bold text, once it is whole, and the next one when there is one', () => {
  assert.deepEqual(told('*', '*Weigh', 'ing Options*', '*\nbody', '\n\n**Then', ' Acting**'), [
    undefined,
    undefined,
    undefined,
    'weighing options',
    'weighing options',
    'then acting',
  ]);
});

test('is else the first line: as it begins, and once more when it is whole', () => {
  assert.deepEqual(told('', '  ', '\n', 'I should', ' look', ' first\n', 'and more', '\nlines'), [
    undefined,
    undefined,
    undefined,
    'i should',
    'i should',
    'i should look first',
    'i should look first',
    'i should look first',
  ]);
});

test('is short, for any input', () => {
  assert.equal(told('x'.repeat(1000))[0]?.length, 80);
  fc.assert(
    fc.property(fc.array(fc.string({ unit: fc.constantFrom('*', 'a', ' ', '\n', 'B') })), (pieces) => {
      for (const title of told(...pieces)) assert.ok(title === undefined || (title.length > 0 && title.length <= 80));
    }),
  );
});
