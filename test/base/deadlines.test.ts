/**
 * Deadlines of many items behind one timer: each expires when it is due, in order, and distant ones cost nothing.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Deadlines, MAX_DELAY_MS } from '../../src/base/deadlines.ts';

interface Item {
  readonly name: string;
  deadlineAt: number;
}

/** Returns deadlines over a set of items, `after` milliseconds from now each; records the expired ones. */
function watched(after: Readonly<Record<string, number>>) {
  const now = performance.now();
  const items = new Set<Item>();
  const expired: string[] = [];
  let looks = 0;
  const deadlines = new Deadlines<Item>(
    () => {
      looks += 1;
      return items;
    },
    (item) => {
      items.delete(item);
      expired.push(item.name);
    },
  );
  for (const [name, ms] of Object.entries(after)) {
    const item = { name, deadlineAt: now + ms };
    items.add(item);
    deadlines.watch(item.deadlineAt);
  }
  return { deadlines, expired, looks: () => looks };
}

test('what is due expires in the order of the deadlines, not in the order they were set', async () => {
  const { deadlines, expired } = watched({ far: 60_000, last: 30, first: 10, second: 20 });
  for (let waits = 0; waits < 1_000 && expired.length < 3; waits++) await new Promise((done) => setTimeout(done, 5));
  assert.deepEqual(expired, ['first', 'second', 'last']);
  deadlines.clear();
});

test('a deadline further away than a timer can hold is waited for in parts', (t) => {
  t.after(() => mock.timers.reset());
  mock.timers.enable({ apis: ['setTimeout'] });
  const { deadlines, expired, looks } = watched({ month: 2 * MAX_DELAY_MS });
  mock.timers.tick(60_000);
  assert.equal(looks(), 0, 'a delay that is too long for a timer would fire at once');
  mock.timers.tick(MAX_DELAY_MS - 60_000);
  assert.deepEqual([looks(), expired], [1, []]);
  deadlines.clear();
});
