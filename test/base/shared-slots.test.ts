import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ReleaseSlot, SharedSlots } from '../../src/base/shared-slots.ts';
import { fail } from '../../src/wire/errors.ts';

const never = new AbortController().signal;
const limits = { total: 3, perOwner: 2, queuePerOwner: 2 };

test('an owner gets its share, then waits, then is refused with the time to wait', async () => {
  const slots = new SharedSlots('threads', limits);
  const granted: string[] = [];
  const ask = (owner: string, name: string) =>
    slots.acquire(owner, never).then((release) => {
      granted.push(name);
      return release;
    });
  const first = await ask('a', 'a1');
  await ask('a', 'a2');
  const third = ask('a', 'a3');
  void ask('a', 'a4');
  await assert.rejects(ask('a', 'a5'), { code: 'over_capacity', retryable: true });
  assert.deepEqual([granted, slots.held, slots.refused], [['a1', 'a2'], 2, 1]);
  first();
  first();
  await third;
  assert.deepEqual([granted, slots.held], [['a1', 'a2', 'a3'], 2]);
});

test('what one owner has waiting delays no other, and free slots go round', async () => {
  const slots = new SharedSlots('threads', limits);
  const order: string[] = [];
  const held: ReleaseSlot[] = [];
  const ask = async (owner: string, name: string) => {
    held.push(await slots.acquire(owner, never));
    order.push(name);
  };
  const all = [
    ask('a', 'a1'),
    ask('a', 'a2'),
    ask('a', 'a3'),
    ask('a', 'a4'),
    ask('b', 'b1'),
    ask('c', 'c1'),
    ask('c', 'c2'),
  ];
  await Promise.all([all[0], all[1], all[4]]);
  assert.deepEqual(order, ['a1', 'a2', 'b1']);
  for (let at = 0; at < all.length; at += 1) {
    held[at]?.();
    await new Promise(setImmediate);
  }
  await Promise.all(all);
  assert.deepEqual(order.slice(3), ['a3', 'c1', 'a4', 'c2']);
  assert.equal(slots.held, 0);
});

test('a waiter whose signal aborts leaves the queue and takes nothing', async () => {
  const slots = new SharedSlots('threads', { total: 1, perOwner: 1, queuePerOwner: 1 });
  const release = await slots.acquire('a', never);
  const leaving = new AbortController();
  const waiting = slots.acquire('a', leaving.signal);
  leaving.abort(fail('cancelled', 'given up'));
  await assert.rejects(waiting, { code: 'cancelled' });
  await assert.rejects(slots.acquire('a', leaving.signal), { code: 'cancelled' });
  release();
  assert.equal(slots.held, 0);
  (await slots.acquire('b', never))();
});

test('several slots are granted together or not at all, and one that asks for more than it may hold is refused', async () => {
  const slots = new SharedSlots('processes', { total: 4, perOwner: 3, queuePerOwner: 2 });
  const first = await slots.acquire('a', never, { count: 2 });
  let granted = false;
  const second = slots.acquire('a', never, { count: 2 }).then((release) => {
    granted = true;
    return release;
  });
  await assert.rejects(slots.acquire('a', never, { count: 4 }), { code: 'over_capacity' });
  assert.deepEqual(
    [slots.usedUp('a'), slots.usedUp('a', 2), slots.usedUp('b', 3), slots.usedUp('b', 4)],
    [undefined, 'own', 'all', 'never'],
  );
  await new Promise(setImmediate);
  assert.deepEqual([granted, slots.usage], [false, { used: 2, refused: 1, principals: { a: 2 } }]);
  first();
  (await second)();
  assert.equal(slots.held, 0);
});

test('a wait is bounded, and one that leaves lets those behind it through', async () => {
  const slots = new SharedSlots('processes', { total: 2, perOwner: 2, queuePerOwner: 2 });
  const release = await slots.acquire('a', never);
  const large = slots.acquire('a', never, { count: 2, waitMs: 1 });
  const small = slots.acquire('a', never);
  await assert.rejects(large, { code: 'over_capacity', retryable: true });
  (await small)();
  release();
  assert.equal(slots.held, 0);
});

test('what comes first is served before all that wait, of other owners too, and owners may have shares of their own', async () => {
  const perOwner = (owner: string): number => (owner === 'root' ? 2 : 1);
  const slots = new SharedSlots('turns', { total: 2, perOwner, queuePerOwner: Number.POSITIVE_INFINITY });
  const held = [slots.tryAcquire('root'), slots.tryAcquire('root')];
  assert.equal(slots.tryAcquire('a'), undefined);
  const order: string[] = [];
  const ask = (owner: string, name: string, first = false) =>
    slots.acquire(owner, never, { first }).then((release) => {
      order.push(name);
      return release;
    });
  const waiting = [ask('a', 'a1'), ask('a', 'a2'), ask('root', 'back', true)];
  assert.equal(slots.waiting, 3);
  for (const release of held) release?.();
  (await (waiting[2] as Promise<ReleaseSlot>))();
  (await (waiting[0] as Promise<ReleaseSlot>))();
  await waiting[1];
  assert.deepEqual(order, ['back', 'a1', 'a2']);
});
