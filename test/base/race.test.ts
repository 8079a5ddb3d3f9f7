/** Bounded waits: on a signal, on a time, and on both. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { orAborted, withGrace, within, withTimeout } from '../../src/base/race.ts';
import { sleep } from '../../src/base/sleep.ts';

const never = new Promise<never>(() => {});

test('work is awaited until the signal aborts, and the abort wins over a result that is ready', async () => {
  const stop = new AbortController();
  const { signal } = stop;
  assert.equal(await orAborted(Promise.resolve(1), signal), 1);
  assert.equal(await orAborted('plain', undefined), 'plain');
  const waiting = orAborted(never, signal);
  assert.equal(getEventListeners(signal, 'abort').length, 1, 'a settled wait leaves no listener');
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await assert.rejects(orAborted(2, signal), /enough/);
  await assert.rejects(
    orAborted(never, signal, () => new Error('translated')),
    /translated/,
  );
});

test('a rejection that comes after the abort is ignored', async () => {
  const { promise, reject } = Promise.withResolvers<never>();
  await assert.rejects(orAborted(promise, AbortSignal.abort('stopped')));
  reject(new Error('too late'));
  await new Promise(setImmediate);
});

test('a timeout rejects with what its caller makes of it, or resolves with nothing', async () => {
  await assert.rejects(
    withTimeout(never, 1, () => new Error('late')),
    /late/,
  );
  assert.equal(await withTimeout(Promise.resolve(3), 60_000, () => new Error('late')), 3);
  assert.equal(await withTimeout(Promise.resolve(4), Number.POSITIVE_INFINITY, () => new Error('late')), 4);
  assert.equal(await within(never, 1), undefined);
  assert.equal(await within(Promise.resolve(5), 60_000), 5);
  await assert.rejects(within(Promise.reject(new Error('failed')), 60_000), /failed/);
});

test('work that ignores an abort has its grace, then the caller decides', async () => {
  const stop = new AbortController();
  const { promise, resolve } = Promise.withResolvers<string>();
  const inTime = withGrace(promise, stop.signal, 60_000, () => 'late');
  const ignoring = withGrace<string>(never, stop.signal, 0, (reason) => `late: ${reason}`);
  const throwing = withGrace<string>(never, stop.signal, 0, (reason) => {
    throw reason;
  });
  stop.abort('stopped');
  resolve('settled');
  assert.equal(await inTime, 'settled');
  assert.equal(await ignoring, 'late: stopped');
  await assert.rejects(throwing, (reason) => reason === 'stopped');
});

test('a sleep ends with its signal and leaves no listener', async () => {
  const stop = new AbortController();
  const sleeping = sleep(60_000, stop.signal);
  assert.equal(getEventListeners(stop.signal, 'abort').length, 1);
  stop.abort();
  await sleeping;
  await sleep(60_000, stop.signal);
  await sleep(1, new AbortController().signal);
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
});
