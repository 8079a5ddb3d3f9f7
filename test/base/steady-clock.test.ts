/**
 * The times at which the wall clock may decide the age of records.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SteadyClock } from '../../src/base/steady-clock.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const YEAR_MS = 365 * DAY_MS;
const START = Date.UTC(2031, 0, 1);

function clock() {
  const time = { passed: 0, offset: 0 };
  const steady = new SteadyClock(
    () => START + time.passed + time.offset,
    () => time.passed,
  );
  return { time, steady };
}

test('a clock near the newest record is trusted at once, also one that was set back', () => {
  const { time, steady } = clock();
  assert.ok(steady.trusts(START - HOUR_MS));
  assert.ok(steady.trusts(0));
  time.offset = -YEAR_MS;
  assert.ok(steady.trusts(START - HOUR_MS));
});

test('a clock that is a year ahead at the start, and is corrected within the hour, decides nothing', () => {
  const { time, steady } = clock();
  assert.ok(!steady.trusts(START - YEAR_MS));
  time.passed = HOUR_MS / 2;
  assert.ok(!steady.trusts(START - YEAR_MS));
  time.offset = -YEAR_MS;
  assert.ok(steady.trusts(START - YEAR_MS));
});

test('after a pause of a year it is trusted an hour later', () => {
  const { time, steady } = clock();
  assert.ok(!steady.trusts(START - YEAR_MS));
  assert.ok(!steady.trusts());
  time.passed = HOUR_MS;
  assert.ok(steady.trusts(START - YEAR_MS));
  assert.ok(steady.trusts());
});

test('a jump while the process runs is doubted for an hour', () => {
  const { time, steady } = clock();
  assert.ok(steady.trusts(START));
  time.passed = 2 * HOUR_MS;
  time.offset = YEAR_MS;
  assert.ok(!steady.trusts(START));
  time.passed += HOUR_MS - 1;
  assert.ok(!steady.trusts(START));
  time.passed += 1;
  assert.ok(steady.trusts(START));
});
