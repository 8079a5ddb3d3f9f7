/** The delays of everything that retries: doubling, a bound, jitter. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff, backoffMs, STEADY_MS } from '../../src/base/backoff.ts';

test('each delay is twice the one before, up to the bound', () => {
  const options = { firstDelayMs: 100, maxDelayMs: 1_000, jitter: 0 };
  const delays = [0, 1, 2, 3, 4, 5, 60].map((failures) => backoffMs(failures, options));
  assert.deepEqual(delays, [100, 200, 400, 800, 1_000, 1_000, 1_000]);
});

test('by default half of a delay is random', () => {
  const at = (random: number) => backoffMs(2, { firstDelayMs: 100, random: () => random });
  assert.deepEqual([at(0), at(0.5), at(1)], [200, 300, 400]);
});

test('delays differ between peers without a random source of their own', () => {
  const delays = new Set(Array.from({ length: 20 }, () => backoffMs(3)));
  assert.ok(delays.size > 1);
});

test('a bound below the first delay does not shorten it', () => {
  assert.equal(backoffMs(5, { firstDelayMs: 500, maxDelayMs: 100, jitter: 0 }), 500);
});

test('a backoff counts failures, starts again after a success, and can jump to its longest delay', () => {
  const backoff = new Backoff({ firstDelayMs: 10, maxDelayMs: 80, jitter: 0 });
  assert.deepEqual([backoff.next(), backoff.next(), backoff.next(), backoff.failures], [10, 20, 40, 3]);
  backoff.reset();
  assert.deepEqual([backoff.failures, backoff.next()], [0, 10]);
  backoff.longest();
  assert.equal(backoff.next(), 80);
});

test('to open is a success only for that which stays open', () => {
  let nowMs = 0;
  const backoff = new Backoff({ firstDelayMs: 10, maxDelayMs: 80, jitter: 0 }, () => nowMs);
  const delays = Array.from({ length: 5 }, () => {
    backoff.opened();
    nowMs += STEADY_MS - 1;
    return backoff.next();
  });
  assert.deepEqual(delays, [10, 20, 40, 80, 80]);
  backoff.opened();
  nowMs += STEADY_MS;
  assert.equal(backoff.next(), 10);
  nowMs += 10 * STEADY_MS;
  assert.equal(backoff.next(), 20, 'it was not open since');
});
