/**
 * Times at which the outbox sends a result again that the orchestrator did not confirm. The clock is the test's.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { processTimer } from '../../../src/base/timer-queue.ts';
import type { ReplyChannel } from '../../../src/fleet/bus/reply-channel.ts';
import { Outbox } from '../../../src/fleet/worker/outbox.ts';
import type { TaskResult } from '../../../src/protocol/fleet.ts';
import { fail } from '../../../src/wire/errors.ts';

const result = { task_id: 't' } as TaskResult;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => mock.timers.reset());

/** Makes a reply channel that confirms nothing. */
function refusing(name = 'orchestrator'): ReplyChannel & { sent: number } {
  return {
    name,
    features: new Set(),
    sent: 0,
    send() {},
    async deliverResult() {
      this.sent += 1;
      throw fail('unreachable', 'not confirmed');
    },
  };
}

function outbox(random: () => number, delivered: () => void = () => {}): Outbox {
  return new Outbox({ load: () => result, delivered, log: silent, firstDelayMs: 1_000, random, timer: processTimer });
}

/** Lets promise callbacks run; time stands still. */
const settle = () => new Promise(setImmediate);

/** Returns the time until the channel is offered the result again, milliseconds, to within a millisecond. */
async function nextDelay(channel: { sent: number }): Promise<number> {
  await settle();
  const before = channel.sent;
  for (let low = 0, high = 1; ; low = high, high *= 2) {
    for (let ms = low; ms < high; ms += 1) {
      mock.timers.tick(1);
      if (channel.sent > before) return ms + 1;
    }
    await settle();
  }
}

test('the delay before an unconfirmed result is sent again doubles up to a minute', async () => {
  const channel = refusing();
  const box = outbox(() => 1);
  box.attach(channel);
  await box.add('orchestrator', 't', 1, result);
  const delays: number[] = [];
  for (let sends = 0; sends < 8; sends++) delays.push(await nextDelay(channel));
  assert.deepEqual(delays, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  box.close();
});

test('half of the delay is random, so that workers that lost the same orchestrator spread their results', async () => {
  const channel = refusing();
  const box = outbox(() => 0);
  box.attach(channel);
  await box.add('orchestrator', 't', 1, result);
  assert.deepEqual([await nextDelay(channel), await nextDelay(channel)], [500, 1_000]);
  box.close();
});

test('a new connection sends at once, and starts with the first delay again', async () => {
  const first = refusing();
  const box = outbox(() => 1);
  const detach = box.attach(first);
  await box.add('orchestrator', 't', 1, result);
  for (let sends = 0; sends < 3; sends++) await nextDelay(first);
  detach();
  const second = refusing();
  box.attach(second);
  assert.equal(second.sent, 1, 'offered as soon as it is attached');
  assert.equal(await nextDelay(second), 1_000);
  box.close();
});

test('a confirmed result is not sent again', async () => {
  let delivered = 0;
  const box = outbox(
    () => 1,
    () => {
      delivered += 1;
    },
  );
  const channel = refusing();
  box.attach(channel);
  await box.add('orchestrator', 't', 1, result);
  channel.deliverResult = async () => {
    channel.sent += 1;
  };
  await nextDelay(channel);
  await settle();
  mock.timers.tick(3_600_000);
  assert.deepEqual([channel.sent, delivered, box.size], [2, 1, 0]);
});
