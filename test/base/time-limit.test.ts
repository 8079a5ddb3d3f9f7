import assert from 'node:assert/strict';
import { test } from 'node:test';
import { timeLimit } from '../../src/base/time-limit.ts';

test('work within the limit gives its value, and what it throws comes through', () => {
  const within = timeLimit(60_000);
  assert.equal(
    within(() => 5),
    5,
  );
  const wrong = new Error('no');
  assert.throws(
    () =>
      within(() => {
        throw wrong;
      }),
    (error) => error === wrong,
  );
  assert.equal(
    within(() => within(() => 'inner') + within(() => ' twice')),
    'inner twice',
  );
});

test('work without end is stopped, inside a regular expression too, and the limit can be used again', () => {
  // A busy machine may stop this process for a while at any moment.
  const within = timeLimit(250);
  const slow = /^(a+)+$/;
  assert.throws(() => within(() => slow.test(`${'a'.repeat(40)}!`)), { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
  assert.equal(
    within(() => 1),
    1,
  );
});

test('work that waits for the processor of a busy machine is not cut off, but neither does it wait for ever', () => {
  // A thread that sleeps uses no processor time, like one that the system runs others before.
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const sleep = (ms: number) => Atomics.wait(cell, 0, 0, ms);
  assert.equal(
    timeLimit(100)(() => sleep(300)),
    'timed-out',
  );
  assert.throws(() => timeLimit(5)(() => sleep(60_000)), { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
});
