/** Timers of the process: a delay that is longer than one timer can be is waited for whole. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_DELAY_MS } from '../../src/base/deadlines.ts';
import { keepAliveTimer, processTimer } from '../../src/base/timer-queue.ts';

for (const [name, timer] of Object.entries({ keepAliveTimer, processTimer })) {
  test(`${name} waits for 60 days, and for ever`, (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const sixtyDays = 60 * 86_400_000;
    let rings = 0;
    timer(() => rings++, sixtyDays);
    const cancel = timer(() => rings++, sixtyDays);
    timer(() => rings++, Number.POSITIVE_INFINITY);
    for (let at = 0; at + MAX_DELAY_MS < sixtyDays; at += MAX_DELAY_MS) t.mock.timers.tick(MAX_DELAY_MS);
    assert.equal(rings, 0);
    cancel();
    t.mock.timers.tick(sixtyDays % MAX_DELAY_MS);
    assert.equal(rings, 1);
    t.mock.timers.tick(MAX_DELAY_MS);
    assert.equal(rings, 1);
  });
}
