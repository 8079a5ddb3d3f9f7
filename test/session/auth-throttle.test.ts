/** Guessing tokens gets slow, for the guesser alone, in bounded memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuthThrottle, type BackoffSettings, networkOf } from '../../src/session/auth-throttle.ts';

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

test('an address that guesses holds few links at a time; others, and its own after it left, are let in', () => {
  const { backoff } = withClock({ maxPendingConnections: 3 });
  const guesser = '10.0.0.1';
  for (let i = 0; i < 100; i++) assert.ok(backoff.enter(guesser), 'nobody is held back before failing');
  for (let i = 0; i < 100; i++) backoff.leave(guesser);
  for (let i = 0; i < 6; i++) backoff.failed(guesser);
  assert.deepEqual(
    [1, 2, 3, 4, 5].map(() => backoff.enter(guesser)),
    [true, true, true, false, false],
  );
  assert.ok(backoff.enter('10.0.0.2'));
  backoff.leave(guesser);
  assert.ok(backoff.enter(guesser));
  assert.ok(!backoff.enter(guesser));
});

test('a quiet half-life forgets half of the failures, until nothing is remembered', () => {
  const { backoff, clock } = withClock({ halfLifeMs: 1000, maxPendingConnections: 0 });
  for (let i = 0; i < 20; i++) backoff.failed('10.0.0.1');
  assert.ok(!backoff.enter('10.0.0.1'));
  clock.ms += 1000;
  assert.equal(backoff.failed('10.0.0.1').failures, 11);
  clock.ms += 2000;
  assert.ok(backoff.enter('10.0.0.1'), '2 remembered failures are free');
  clock.ms += 2000;
  backoff.leave('10.0.0.1');
  assert.equal(backoff.size, 0);
});

test('addresses that come and go leave nothing behind', () => {
  const { backoff } = withClock();
  for (let i = 0; i < 10_000; i++) {
    const address = `10.0.${i >> 8}.${i & 255}`;
    assert.ok(backoff.enter(address));
    backoff.leave(address);
  }
  assert.equal(backoff.size, 0);
  backoff.leave('never seen');
  assert.equal(backoff.size, 0);
});

test('memory is bounded: the address that failed longest ago is forgotten, not one with an open link', () => {
  const { backoff } = withClock({ maxAddresses: 3 });
  backoff.enter('10.0.0.1');
  for (let i = 2; i < 100; i++) backoff.failed(`10.0.0.${i}`);
  assert.equal(backoff.size, 3);
  assert.equal(backoff.failed('10.0.0.99').failures, 2);
  assert.equal(backoff.failed('10.0.0.50').failures, 1);
  backoff.leave('10.0.0.1');
  assert.equal(backoff.size, 2, 'its open link had kept it');
  for (let i = 0; i < 10; i++) backoff.enter(`10.1.0.${i}`);
  assert.equal(backoff.size, 3);
});

test('a machine is one address, whatever it calls itself', () => {
  assert.equal(networkOf('10.0.0.1'), '10.0.0.1');
  assert.equal(networkOf('::ffff:10.0.0.1'), '10.0.0.1');
  assert.equal(networkOf('2001:db8:0:1::5'), networkOf('2001:0db8:0:0001:ffff:ffff:ffff:ffff'));
  assert.equal(networkOf('2001:db8::1'), '2001:db8:0:0::/64');
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64');
  assert.notEqual(networkOf('2001:db8:0:1::5'), networkOf('2001:db8:0:2::5'));
  assert.equal(networkOf('::1'), '0:0:0:0::/64');
  assert.equal(networkOf('unix:/run/hf.sock'), 'unix:/run/hf.sock');
});
