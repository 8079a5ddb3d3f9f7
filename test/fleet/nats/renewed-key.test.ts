/** A key that is renewed: one renewal at a time, lost replies, other holders, expiry. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { RenewedKey, type RenewedKeyOptions } from '../../../src/fleet/bus/nats/renewed-key.ts';
import { OneKey } from './one-key.ts';

async function held(more: Partial<RenewedKeyOptions> = {}) {
  const bucket = new OneKey();
  const clock = { nowMs: 0 };
  const value = (renewals: number): Uint8Array => Buffer.from(`mine ${renewals}`);
  const revision = (await bucket.create('key', value(0))) as number;
  const monotonic = (): number => clock.nowMs;
  const options = { bucket: bucket as unknown as Bucket, key: 'key', ttlS: 30, value, monotonic, ...more };
  return { bucket, clock, key: new RenewedKey(options, revision, 0) };
}

test('renewals that are asked for at once are one, and each is another value', async () => {
  const { bucket, key } = await held();
  assert.deepEqual(await Promise.all([key.renew(), key.renew(), key.renew()]), [true, true, true]);
  assert.equal(bucket.writes, 2);
  assert.equal(await key.renew(), true);
  assert.deepEqual([bucket.entry?.revision, bucket.text], [3, 'mine 2']);
});

test('it counts as confirmed from the moment a renewal was asked for, and not by one without a reply', async () => {
  const { bucket, clock, key } = await held();
  clock.nowMs = 10_000;
  assert.deepEqual([key.confirmedWithin(10_001), key.confirmedWithin(10_000)], [true, false]);
  bucket.late = true;
  await assert.rejects(key.renew(), { code: 'timeout' });
  assert.equal(key.confirmedWithin(10_000), false);
  assert.equal(await key.renew(), true, 'the write whose reply was lost is ours');
  assert.equal(bucket.entry?.revision, 2);
  assert.equal(key.confirmedWithin(1), true);
});

test('a key that another holder has written is lost for good, and is not deleted', async () => {
  const { bucket, key } = await held({ restores: true });
  await bucket.update('key', Buffer.from('theirs'), 1);
  assert.deepEqual([await key.renew(), await key.renew(), key.confirmedWithin(60_000)], [false, false, false]);
  await key.release();
  assert.equal(bucket.text, 'theirs');
});

test('a key that has expired is lost, or written again where its holder wants that', async () => {
  const lost = await held();
  lost.bucket.entry = undefined;
  assert.equal(await lost.key.renew(), false);
  assert.equal(lost.bucket.text, undefined);
  const restored = await held({ restores: true });
  restored.bucket.entry = undefined;
  assert.equal(await restored.key.renew(), true);
  assert.equal(restored.bucket.text, 'mine 1');
  await restored.key.release();
  assert.equal(restored.bucket.text, undefined);
  assert.equal(await restored.key.renew(), false);
});
