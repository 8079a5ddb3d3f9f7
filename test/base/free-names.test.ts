import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FreeNames } from '../../src/base/free-names.ts';

test('each name is given once, and equal ones get a number', () => {
  const free = new FreeNames({ isReserved: (name) => name === 'a_3' });
  assert.deepEqual(
    ['a', 'a', 'a', 'a_2', 'b'].map((stem) => free.take(stem)),
    ['a', 'a_2', 'a_4', 'a_2_2', 'b'],
  );
  assert.deepEqual([free.take('c', 'c_1'), free.take('c', 'c_1'), free.take('c')], ['c_1', 'c_2', 'c']);
});

test('a name with a number is no longer than it may be', () => {
  const free = new FreeNames({ longest: 20 });
  const stems = ['x'.repeat(20), 'x'.repeat(20), `${'x'.repeat(19)}y`, `${'x'.repeat(19)}y`, 'x'.repeat(12)];
  const given = stems.map((stem) => free.take(stem));
  assert.equal(new Set(given).size, stems.length);
  for (const name of given) assert.ok(name.length <= 20, name);
});

test('many equal names, and many that differ only where they are cut, are each looked up a few times', () => {
  for (const stemOf of [() => 'x'.repeat(64), (at: number) => `${'x'.repeat(58)}${at % 1_000}`]) {
    let looks = 0;
    const isReserved = (): boolean => {
      looks += 1;
      return false;
    };
    const free = new FreeNames({ isReserved, longest: 64 });
    for (let at = 0; at < 4_000; at += 1) free.take(stemOf(at));
    assert.ok(looks < 10_000, `${looks} looks`);
  }
});
