/**
 * Cached findings: how often they are made, and the finding for a caller that needs a new one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cached } from '../../../src/fleet/worker/cached.ts';

/** Makes a finding that is made when the test says so; each has its number. */
function byHand(): { readonly cached: Cached<number>; readonly begun: () => number; end(): Promise<void> } {
  let begun = 0;
  const open: (() => void)[] = [];
  const find = (): Promise<number> => {
    const number = ++begun;
    return new Promise((resolve) => open.push(() => resolve(number)));
  };
  return {
    cached: new Cached(find, 0, () => 0),
    begun: () => begun,
    async end() {
      open.shift()?.();
      await new Promise(setImmediate);
    },
  };
}

test('a caller that waits for a finding gets the one that is being made', async () => {
  const { cached, begun, end } = byHand();
  const found = Promise.all([cached.renew(), cached.renew()]);
  await end();
  assert.deepEqual(await found, [1, 1]);
  assert.equal(begun(), 1);
});

test('a caller that needs a new finding gets none that was started before, and shares it with the others', async () => {
  const { cached, begun, end } = byHand();
  const before = cached.renew();
  const found = Promise.all([cached.refresh(), cached.refresh(), cached.refresh()]);
  await end();
  assert.equal(await before, 1);
  const later = cached.refresh();
  await end();
  assert.deepEqual(await found, [2, 2, 2]);
  await end();
  assert.equal(await later, 3, 'the second was under way by then');
  assert.equal(begun(), 3);
  assert.equal(cached.value, 3);
});
