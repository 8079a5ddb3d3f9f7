/**
 * Guessing tokens gets slow, only for the guesser, in bounded memory.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../src/base/log.ts';
import type { Timer } from '../../src/base/timer-queue.ts';
import { networkOf } from '../../src/connection/origin.ts';
import { AuthThrottle, type BackoffSettings } from '../../src/session/auth-throttle.ts';

/** A timer that rings when the test wants it. */
const collect =
  (timers: (() => void)[]): Timer =>
  (run) => {
    timers.push(run);
    return () => {};
  };

function withClock(settings: BackoffSettings = {}) {
  const clock = { ms: 1_000 };
  return { clock, backoff: new AuthThrottle({ now: () => clock.ms, ...settings }) };
}

test('the first failures cost nothing, then each refusal takes twice as long, up to a bound', () => {
  const { backoff } = withClock();
  const delays = Array.from({ length: 12 }, () => backoff.failed('10.0.0.1').delayMs);
  assert.deepEqual(delays, [0, 0, 0, 0, 0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
});

test('only the 1st, 2nd, 4th, 8th … failure is reported', () => {
  const { backoff } = withClock();
  const reported = Array.from({ length: 1000 }, () => backoff.failed('10.0.0.1')).filter(({ report }) => report);
  assert.deepEqual(
    reported.map(({ failures }) => failures),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  );
});

test('few refusals of an address wait at a time; past that it gets none, and others have theirs', () => {
  const timers: (() => void)[] = [];
  const { backoff } = withClock({ freeFailures: 0, maxDelayed: 2, timer: collect(timers) });
  const outcomes: string[] = [];
  const guess = (origin: string, name: string): void =>
    backoff.refuseLink(
      { origin, awaitRefusal: () => outcomes.push(`${name} waits`), drop: () => outcomes.push(`${name} dropped`) },
      silentLog,
      'a wrong token',
      () => outcomes.push(`${name} refused`),
    );
  for (const name of ['a', 'b', 'c', 'd', 'e']) guess('10.0.0.1', name);
  guess('10.0.0.2', 'other');
  // The fourth is one that is written down, so it is refused in order.
  assert.deepEqual(outcomes, [
    'a waits',
    'b waits',
    'c waits',
    'c dropped',
    'd waits',
    'd refused',
    'e waits',
    'e dropped',
    'other waits',
  ]);
  outcomes.length = 0;
  for (const run of timers.splice(0)) run();
  guess('10.0.0.1', 'f');
  assert.deepEqual(outcomes, ['a refused', 'b refused', 'other refused', 'f waits']);
});

test('a request is refused after its delay, or at once when too many wait', async () => {
  const timers: (() => void)[] = [];
  const { backoff } = withClock({ freeFailures: 1, maxDelayed: 1, timer: collect(timers) });
  assert.equal(await backoff.delayRefusal('10.0.0.1'), false);
  const waits = backoff.delayRefusal('10.0.0.1');
  assert.equal(await backoff.delayRefusal('10.0.0.1'), true);
  timers[0]?.();
  assert.equal(await waits, false);
});

test('a quiet half-life forgets half of the failures', () => {
  const { backoff, clock } = withClock({ halfLifeMs: 1000 });
  for (let i = 0; i < 20; i++) backoff.failed('10.0.0.1');
  clock.ms += 1000;
  assert.equal(backoff.failed('10.0.0.1').failures, 11);
  clock.ms += 2000;
  assert.equal(backoff.failed('10.0.0.1').failures, 3);
});

test('memory is bounded: the address that failed longest ago is forgotten', () => {
  const { backoff } = withClock({ maxAddresses: 3 });
  for (let i = 1; i < 100; i++) backoff.failed(`10.0.0.${i}`);
  assert.equal(backoff.size, 3);
  assert.equal(backoff.failed('10.0.0.99').failures, 2);
  assert.equal(backoff.failed('10.0.0.50').failures, 1);
});

test('a machine is one address, under all of its names', () => {
  assert.equal(networkOf('10.0.0.1'), '10.0.0.1');
  assert.equal(networkOf('::ffff:10.0.0.1'), '10.0.0.1');
  assert.equal(networkOf('2001:db8:0:1::5'), networkOf('2001:0db8:0:0001:ffff:ffff:ffff:ffff'));
  assert.equal(networkOf('2001:db8::1'), '2001:db8:0:0::/64');
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64');
  assert.notEqual(networkOf('2001:db8:0:1::5'), networkOf('2001:db8:0:2::5'));
  assert.equal(networkOf('::1'), '0:0:0:0::/64');
  assert.equal(networkOf('unix:/run/hf.sock'), 'unix:/run/hf.sock');
});
