import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OpenById } from '../../src/connection/open-by-id.ts';

/** Returns small numbers from a seed, the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('what is open is found as in a Map, for counted ids and for any others', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const below = numbers(seed);
    const open = new OpenById<{ id: string }>();
    const model = new Map<string, { id: string }>();
    const idOf = (): string => {
      const number = below(seed % 2 === 0 ? 40 : 20_000);
      const shapes = [
        `a-${number}`,
        `a-${number}`,
        `a-0${number}`,
        `b${number}`,
        `${number}`,
        `a-${number}x`,
        'a-',
        '',
      ];
      return shapes[below(seed % 3 === 0 ? 1 : shapes.length)] as string;
    };
    for (let step = 0; step < 800; step++) {
      const id = idOf();
      const key = open.keyOf(id);
      assert.equal(open.get(key), model.get(id), id);
      if (model.has(id) && below(2) === 0) {
        assert.equal(open.delete(key), true);
        model.delete(id);
      } else if (model.has(id)) {
        assert.equal(open.get(key)?.id, id);
      } else {
        assert.equal(open.delete(key), false);
        const value = { id };
        open.set(key, value);
        model.set(id, value);
      }
      assert.equal(open.size, model.size);
    }
    assert.deepEqual(new Set(open.values()), new Set(model.values()));
  }
});

test('values come in the order of the numbers, also around the end of the slots and past an old one', () => {
  const open = new OpenById<number>();
  const add = (number: number): void => open.set(open.keyOf(`k-${number}`), number);
  add(5);
  for (let number = 6; number < 10_000; number++) {
    add(number);
    if (number > 12) open.delete(open.keyOf(`k-${number - 6}`));
  }
  const values = open.values();
  assert.equal(values[0], 5);
  assert.deepEqual(
    values,
    [...values].sort((a, b) => a - b),
  );
});

test('ids that look alike are different', () => {
  const open = new OpenById<string>();
  const ids = ['x-7', 'x-07', 'x-007', 'x-7 ', 'x-٧', 'x--7', 'x-7e0', 'x-4294967303', 'x-0', 'x-00', '7', 'y-7'];
  for (const id of ids) open.set(open.keyOf(id), id);
  assert.equal(open.size, ids.length);
  for (const id of ids) assert.equal(open.get(open.keyOf(id)), id);
});

test('an id of another type is none of the open ones', () => {
  const strings = new OpenById<string>();
  strings.set(strings.keyOf('k-7'), 'seven');
  assert.equal(strings.get(strings.keyOf(7)), undefined);
  assert.equal(strings.get(strings.keyOf(null)), undefined);
  const counted = new OpenById<string>();
  counted.set(counted.keyOf(7), 'seven');
  assert.equal(counted.get(counted.keyOf('7')), undefined);
  assert.equal(counted.get(counted.keyOf(7.5)), undefined);
  assert.equal(counted.get(counted.keyOf(7)), 'seven');
});

test('ids that all want one slot are still found', () => {
  const open = new OpenById<number>();
  for (let step = 0; step < 300; step++) open.set(open.keyOf(`k-${step * 4096}`), step);
  assert.equal(open.size, 300);
  for (let step = 0; step < 300; step++) assert.equal(open.get(open.keyOf(`k-${step * 4096}`)), step);
});
