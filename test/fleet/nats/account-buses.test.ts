/** An account of a worker that opens and ends at once is opened less and less often, with few lines in the log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STEADY_MS } from '../../../src/base/backoff.ts';
import { type HoldOptions, holdOpen } from '../../../src/fleet/bus/nats/account-buses.ts';
import { fail } from '../../../src/wire/errors.ts';

/** Long enough, also after a sum of fractions. */
const STABLE_MS = STEADY_MS + 1;

/** Holds something open for a number of delays. Each attempt gives for how many milliseconds it stays open; undefined: it fails. */
async function held(first: number | undefined, attempts: (number | undefined)[], delays: number) {
  let nowMs = 0;
  const waits: number[] = [];
  const lines: string[] = [];
  const stop = new AbortController();
  const options: HoldOptions<number> = {
    open: async () => {
      const next = attempts.length > 1 ? attempts.shift() : attempts[0];
      if (next === undefined) throw fail('unreachable', 'refused');
      return next;
    },
    ended: async (forMs) => {
      nowMs += forMs;
      return fail('connection_lost', 'ended');
    },
    failed: ({ message }) => lines.push(`${waits.length + 1} ${message}`),
    again: () => lines.push(`${waits.length} open`),
    signal: stop.signal,
    now: () => nowMs,
    wait: async (ms) => {
      nowMs += ms;
      if (waits.push(ms) === delays) stop.abort();
    },
  };
  await holdOpen(first, options);
  return { waits, lines };
}

test('what ends as soon as it was opened is a failure each time', async () => {
  const { waits, lines } = await held(0, [0], 100);
  assert.ok((waits[9] as number) >= 15_000, 'the longest delay by half at least');
  assert.deepEqual(
    lines,
    [1, 2, 4, 8, 16, 32, 64].flatMap((times) => [`${times} ended`, `${times} open`]),
  );
});

test('what stayed open is opened again after the first delay, and each end of it is in the log', async () => {
  const { waits, lines } = await held(STABLE_MS, [STABLE_MS], 20);
  assert.ok(waits.every((ms) => ms <= 1_000));
  assert.equal(lines.length, 39, 'the last delay was cut');
});

test('the log has the end of an outage, however often it failed meanwhile', async () => {
  const { lines } = await held(undefined, [undefined, undefined, undefined, STABLE_MS], 5);
  assert.deepEqual(lines, ['2 refused', '4 refused', '4 open', '5 ended']);
});
