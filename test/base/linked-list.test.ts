/** Lists whose members hold their own places. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Linked, LinkedList } from '../../src/base/linked-list.ts';
import fc from '../support/properties.ts';

class Item implements Linked<Item> {
  list: LinkedList<Item> | undefined;
  previous: Item | undefined;
  next: Item | undefined;
}

test('lists have what an array in the order of adding has, and a thing is in one list at a time', () => {
  const step = fc.record({
    item: fc.integer({ min: 0, max: 5 }),
    list: fc.integer({ min: 0, max: 1 }),
    kind: fc.constantFrom('add', 'delete', 'clear'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const items = Array.from({ length: 6 }, () => new Item());
      const lists = [new LinkedList<Item>(), new LinkedList<Item>()];
      const expected: [Item[], Item[]] = [[], []];
      for (const { item: at, list: which, kind } of steps) {
        const item = items[at] as Item;
        const list = lists[which] as LinkedList<Item>;
        const wasIn = expected[which]?.includes(item);
        if (kind === 'add') {
          for (const each of [0, 1] as const) expected[each] = expected[each].filter((other) => other !== item);
          expected[which as 0 | 1].push(item);
          list.add(item);
        } else if (kind === 'delete') {
          expected[which as 0 | 1] = expected[which as 0 | 1].filter((other) => other !== item);
          assert.equal(list.delete(item), wasIn);
        } else {
          expected[which as 0 | 1] = [];
          list.clear();
        }
        for (const each of [0, 1] as const) {
          assert.deepEqual(
            [...(lists[each] as LinkedList<Item>)].map((one) => items.indexOf(one)),
            expected[each].map((one) => items.indexOf(one)),
          );
          assert.equal(lists[each]?.size, expected[each].length);
          assert.equal(lists[each]?.first, expected[each][0]);
        }
      }
    }),
  );
});

test('what is given out may be removed while the list is read', () => {
  const list = new LinkedList<Item>();
  const items = [new Item(), new Item(), new Item()];
  for (const item of items) list.add(item);
  const seen: Item[] = [];
  for (const item of list) {
    seen.push(item);
    list.delete(item);
  }
  assert.equal(seen.length, 3);
  assert.equal(list.size, 0);
  assert.equal(list.first, undefined);
});
