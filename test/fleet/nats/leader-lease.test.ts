/**
 * The right to be the orchestrator of a name, where the server is slow to reply.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { LeaderLease } from '../../../src/fleet/bus/nats/leader-lease.ts';
import { OneKey } from './one-key.ts';

test('a renewal that was done and not confirmed in time is not taken for another orchestrator', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const bucket = new OneKey();
  const lost: string[] = [];
  const options = {
    bucket: bucket as unknown as Bucket,
    name: 'fleet',
    instance: 'i',
    ttlS: 30,
    signal: new AbortController().signal,
    monotonic: () => 0,
  };
  const lease = new LeaderLease({ ...options, incarnation: 'first', lost: ({ code }) => lost.push(code) });
  await lease.acquire();
  const pass = async (): Promise<void> => {
    t.mock.timers.tick(10_000);
    await turn();
  };
  bucket.late = true;
  await pass();
  // Finds the entry of the first one.
  await pass();
  await pass();
  assert.deepEqual([lost, lease.held, bucket.entry?.revision], [[], true, 3]);
  // One that really takes it is noticed.
  await new LeaderLease({ ...options, incarnation: 'second', lost: () => {} }).acquire();
  await pass();
  assert.deepEqual([lost, lease.held], [['superseded'], false]);
});
