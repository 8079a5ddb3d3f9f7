/** The right to be the orchestrator of a name, where the server is slow to say what it did. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Bucket, Entry } from '../../../src/fleet/bus/nats/bucket.ts';
import { LeaderLease } from '../../../src/fleet/bus/nats/leader-lease.ts';
import { fail } from '../../../src/wire/errors.ts';

/** A bucket of one key, as a server keeps it. */
class OneKey {
  entry: Pick<Entry, 'value' | 'revision'> | undefined;
  /** The next write is done, and nobody hears of it in time. */
  late = false;

  async get() {
    return this.entry;
  }

  async create(_key: string, value: Uint8Array): Promise<number | undefined> {
    return this.#write(value, this.entry === undefined);
  }

  async update(_key: string, value: Uint8Array, revision: number): Promise<number | undefined> {
    return this.#write(value, this.entry?.revision === revision);
  }

  release(): void {
    this.entry = undefined;
  }

  #write(value: Uint8Array, fits: boolean): number | undefined {
    if (!fits) return undefined;
    this.entry = { value, revision: (this.entry?.revision ?? 0) + 1 };
    if (!this.late) return this.entry.revision;
    this.late = false;
    throw fail('timeout', 'no answer in time');
  }
}

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
  await pass();
  await pass();
  assert.deepEqual([lost, lease.held, bucket.entry?.revision], [[], true, 4]);
  // One that really takes it is noticed.
  await new LeaderLease({ ...options, incarnation: 'second', lost: () => {} }).acquire();
  await pass();
  assert.deepEqual([lost, lease.held], [['superseded'], false]);
});
