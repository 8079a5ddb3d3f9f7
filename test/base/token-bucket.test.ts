import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TokenBucket } from '../../src/base/token-bucket.ts';

/** Returns a bucket whose clock stands until the test moves it. */
function bucketOf(perSecond: () => number) {
  const clock = { ms: 0, reads: 0 };
  const now = (): number => {
    clock.reads++;
    return clock.ms;
  };
  return { clock, bucket: new TokenBucket(perSecond, now) };
}

test("one second's worth may be taken at once, and then so much a second", () => {
  const { clock, bucket } = bucketOf(() => 10);
  for (let at = 0; at < 10; at++) assert.equal(bucket.take(), true);
  assert.equal(bucket.take(), false);
  assert.equal(bucket.waitMs, 1);
  clock.ms = 300;
  for (let at = 0; at < 3; at++) assert.equal(bucket.take(), true);
  assert.equal(bucket.take(), false);
  clock.ms = 60_000;
  let taken = 0;
  while (bucket.take()) taken++;
  assert.equal(taken, 10);
});

test('what is larger than what is left is taken as a debt, and repaid first', () => {
  const { clock, bucket } = bucketOf(() => 100);
  assert.equal(bucket.take(400), true);
  assert.equal(bucket.take(), false);
  assert.equal(bucket.spend(100), false);
  assert.equal(bucket.waitMs, 4_001);
  clock.ms = 4_000;
  assert.equal(bucket.take(), false);
  clock.ms = 4_001;
  assert.equal(bucket.waitMs, 0);
  assert.equal(bucket.take(), true);
});

test('the clock is not read while something is left, and the rate may change', () => {
  let perSecond = 1_000;
  const { clock, bucket } = bucketOf(() => perSecond);
  const { reads } = clock;
  for (let at = 0; at < 1_000; at++) bucket.take();
  assert.equal(clock.reads, reads);
  assert.equal(bucket.take(), false);
  perSecond = 2;
  clock.ms = 500;
  assert.equal(bucket.take(), true);
  assert.equal(bucket.take(), false);
});
