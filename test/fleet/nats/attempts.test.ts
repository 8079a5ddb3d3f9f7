/** Where an attempt is, by what a server says of its queue: also by one whose queue is ahead of its stream. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attempts } from '../../../src/fleet/bus/nats/attempts.ts';
import type { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import type { NatsLink } from '../../../src/fleet/bus/nats/connection.ts';
import type { Whereabouts } from '../../../src/fleet/bus/peer.ts';
import { aDispatch } from '../bus-contract.ts';

const QUEUE = { subject: 'a2a.pool.p.dispatch', consumer: 'pool-p' };

interface Said {
  /** Position of the dispatch. */
  readonly position: number;
  readonly isStored: boolean;
  /** Of the consumer: delivered up to, acknowledged up to, to be delivered, to be acknowledged. */
  readonly queue?: readonly [number, number, number, number];
}

/** The answer to what a server says, and the positions that were removed. */
async function found({ position, isStored, queue }: Said): Promise<[Whereabouts, readonly number[]]> {
  const removed: number[] = [];
  const info = async () => {
    if (queue === undefined) throw Object.assign(new Error('none'), { name: 'ConsumerNotFoundError' });
    const [delivered, floor, num_pending, num_ack_pending] = queue;
    return { delivered: { stream_seq: delivered }, ack_floor: { stream_seq: floor }, num_pending, num_ack_pending };
  };
  const streams = {
    getMessage: async () => (isStored ? { header: new Map([['Nats-Msg-Id', 't#1']]) } : null),
    deleteMessage: async (_: string, seq: number) => removed.push(seq) > 0,
  };
  const link = {
    publish: async () => position,
    until: <T>(operation: () => Promise<T>) => operation(),
    manager: async () => ({ consumers: { info }, streams }),
  } as unknown as NatsLink;
  const empty = { get: async () => undefined } as unknown as Bucket;
  const attempts = new Attempts({ link, leases: empty, journal: empty, check: () => {} });
  return [await attempts.find(QUEUE, aDispatch('t')), removed];
}

const onQueue = [{ at: 'queue' }, []];

test('a dispatch that waits behind others, or is not acknowledged, is on its queue', async () => {
  assert.deepEqual(await found({ position: 9, isStored: true, queue: [5, 5, 3, 0] }), onQueue);
  assert.deepEqual(await found({ position: 5, isStored: true, queue: [5, 4, 0, 1] }), onQueue);
  // Others are acknowledged before it.
  assert.deepEqual(await found({ position: 5, isStored: true, queue: [9, 4, 0, 1] }), onQueue);
});

test('a dispatch on a queue that its worker has not made yet is there', async () => {
  assert.deepEqual(await found({ position: 1, isStored: true }), onQueue);
});

test('a dispatch that has left its queue is nowhere', async () => {
  assert.deepEqual(await found({ position: 5, isStored: false, queue: [9, 9, 0, 0] }), [{ at: 'nowhere' }, []]);
  assert.deepEqual(await found({ position: 5, isStored: false, queue: [9, 4, 0, 1] }), [{ at: 'nowhere' }, []]);
});

test('a dispatch that its queue takes for acknowledged is nowhere, and is removed', async () => {
  assert.deepEqual(await found({ position: 5, isStored: true, queue: [7, 7, 4, 0] }), [{ at: 'nowhere' }, [5]]);
  assert.deepEqual(await found({ position: 5, isStored: true, queue: [7, 3, 0, 0] }), [{ at: 'nowhere' }, [5]]);
});
