/**
 * Waits of the NATS client between attempts to reach a lost server, and the reports about them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redial } from '../../../src/fleet/bus/nats/redial.ts';

/** Makes a client that asks and dials as the test says; time passes when the test says so. */
function client() {
  let nowMs = 0;
  const retries: { attempt: number; retryInMs: number }[] = [];
  const redial = new Redial({ firstDelayMs: 100, maxDelayMs: 1_000, jitter: 0 }, () => nowMs);
  redial.onRetry = (retry) => retries.push(retry);
  return {
    redial,
    retries,
    pass: (ms: number) => {
      nowMs += ms;
    },
    settle: () => new Promise(setImmediate),
  };
}

test('a delay stays however often the client asks for it, and the next attempt has a longer one, up to the longest', () => {
  const { redial, pass } = client();
  redial.delayMs();
  redial.ended();
  const delays: number[] = [];
  for (let attempt = 0; attempt < 6; attempt++) {
    const delay = redial.delayMs();
    assert.deepEqual([redial.delayMs(), redial.delayMs()], [delay, delay]);
    delays.push(delay);
    redial.dialled();
  }
  assert.deepEqual(delays, [100, 200, 400, 800, 1_000, 1_000]);
  redial.ended();
  assert.deepEqual(
    [redial.lost(), redial.delayMs()],
    [1, 1_000],
    'a connection that breaks at once is a failed attempt',
  );
  redial.ended();
  assert.equal(redial.lost(), 2);
  redial.ended();
  pass(5_000);
  assert.deepEqual([redial.lost(), redial.delayMs()], [1, 100], 'one that stood begins again with the first delay');
});

test('every attempt but the first is reported once, with its number and the time that is left until it', async () => {
  const { redial, retries, pass, settle } = client();
  pass(60_000);
  redial.delayMs();
  assert.equal(redial.retryInMs, 0, 'a connection that held is dialled again at once');
  redial.dialled();
  pass(30);
  redial.delayMs();
  redial.delayMs();
  assert.deepEqual(retries, [], 'not from within the loop of the client');
  await settle();
  redial.dialled();
  pass(500);
  redial.delayMs();
  await settle();
  assert.deepEqual(retries, [
    { attempt: 2, retryInMs: 170 },
    { attempt: 3, retryInMs: 0 },
  ]);
});
