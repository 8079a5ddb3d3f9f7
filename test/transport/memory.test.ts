/**
 * Peculiarities of links in memory: no copy, deliveries in batches, and no starved event loop.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { memoryPair } from '../../src/transport/memory.ts';
import { Recorder, turns, within } from '../contract/recorder.ts';

describe('links in memory', () => {
  test('hand the very object over, after the code that sent it has run', async () => {
    const [left, right] = memoryPair();
    const recorder = Recorder.on(right);
    const message = { deep: { list: [1, 2, 3] } };
    left.send(message);
    assert.deepEqual(recorder.messages, []);
    await recorder.count(1);
    assert.equal(recorder.messages[0], message);
    assert.equal(left.text, false);
  });

  test('count a nominal size for each message that waits', async () => {
    const [left, right] = memoryPair();
    for (let n = 0; n < 10; n++) left.send({ n });
    assert.equal(left.buffered, 2560);
    assert.equal(right.buffered, 0);
    Recorder.on(right);
    await within(left.drained(), 'the other side to read');
    assert.equal(left.buffered, 0);
  });

  test('let timers and sockets run while two sides answer each other without end', async () => {
    const [left, right] = memoryPair();
    let rounds = 0;
    Recorder.on(right, (message) => right.send(message));
    left.open({
      message(message) {
        rounds += 1;
        left.send(message);
      },
      malformed() {},
      ended() {},
      closed() {},
    });
    left.send({ ball: true });
    await within(turns(20), 'the event loop to go round');
    assert.ok(rounds > 20, `${rounds} rounds in 20 turns`);
    left.destroy();
  });

  test('deliver what is left, in order, when a side pauses in the middle of a batch', async () => {
    const [left, right] = memoryPair();
    const recorder: Recorder = Recorder.on(right, ({ n }) => {
      if (n === 3) right.pause(true);
    });
    for (let n = 0; n < 10; n++) left.send({ n });
    await turns();
    assert.equal(recorder.messages.length, 4);
    left.send({ n: 10 });
    right.pause(false);
    await recorder.count(11);
    assert.deepEqual(
      recorder.messages.map(({ n }) => n),
      [...Array(11).keys()],
    );
  });
});
