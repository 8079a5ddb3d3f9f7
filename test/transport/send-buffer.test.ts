/**
 * Packing: few writes, in order, none while the system is behind, and every waiter is released.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SendBuffer } from '../../src/transport/send-buffer.ts';
import { turns, within } from '../contract/recorder.ts';
import fc from '../support/properties.ts';

/** A target whose system accepts everything at once, or nothing until it is ordered to. */
class Target {
  readonly packs: string[] = [];
  /** Packs that are not the end of a message. */
  readonly parts: string[] = [];
  readonly outbox = new SendBuffer(this);
  blocked = false;
  pending = 0;

  write(pack: string, isLast: boolean): void {
    this.packs.push(pack);
    if (!isLast) this.parts.push(pack);
    if (this.blocked) this.pending += pack.length;
  }

  /** Makes the system accept the pending bytes. */
  take(): void {
    this.pending = 0;
    this.outbox.written();
  }
}

describe('the outbox', () => {
  test('writes all messages of a turn at once, those of the promise callbacks that follow included', async () => {
    const { outbox, packs } = new Target();
    outbox.send('1');
    void Promise.resolve().then(() => outbox.send('2'));
    void (async () => {
      for (let hop = 0; hop < 5; hop++) await null;
      outbox.send('3');
    })();
    assert.deepEqual(packs, []);
    await turns(1);
    assert.deepEqual(packs, ['1\n2\n3']);
    outbox.send('4');
    await turns(1);
    assert.deepEqual(packs, ['1\n2\n3', '4']);
  });

  test('writes early once 8 KiB have come together', () => {
    const { outbox, packs } = new Target();
    for (let n = 0; n < 9; n++) outbox.send('x'.repeat(1000));
    assert.equal(packs.length, 1);
    assert.equal(packs[0]?.length, 9008);
    outbox.send('y'.repeat(9000));
    assert.equal(packs.length, 2);
  });

  test('writes one large message in a turn, of all links, and keeps the order of each link', async () => {
    const large = (mark: string) => mark.repeat(1024 * 1024);
    const targets = [new Target(), new Target(), new Target()];
    const written = () => targets.flatMap(({ packs }) => packs).filter((pack) => pack.length >= 1024 * 1024).length;
    for (const { outbox } of targets) {
      for (const text of ['1', large('2'), '3', large('4'), '5'.repeat(9000), '6']) outbox.send(text);
    }
    assert.equal(written(), 0);
    for (let count = 0, turn = 0; count < 6; turn++) {
      await turns(1);
      assert.ok(written() - count <= 1, `${written() - count} in one turn`);
      count = written();
      assert.ok(turn < 20);
    }
    for (const { packs, outbox } of targets) {
      await outbox.drained(0);
      assert.deepEqual(
        packs
          .join('\n')
          .split('\n')
          .map((line) => line[0]),
        ['1', '2', '3', '4', '5', '6'],
      );
      assert.equal(outbox.buffered, 0);
    }
  });

  test('writes large messages of one link in as many turns, however fast the system takes them', async () => {
    const { outbox, packs } = new Target();
    for (let n = 0; n < 12; n++) outbox.send('x'.repeat(1024 * 1024));
    for (let turn = 1; turn <= 12; turn++) {
      await new Promise(setImmediate);
      assert.equal(packs.length, turn);
    }
    assert.equal(outbox.buffered, 0);
  });

  test('writes a longer one in parts, each in its turn, with nothing between them', async () => {
    const target = new Target();
    const { outbox, packs, parts } = target;
    const long = Array.from({ length: 900_000 }, (_, at) => at.toString(36)).join();
    outbox.send('before');
    outbox.send(long);
    outbox.send('behind');
    await turns(1);
    target.blocked = true;
    outbox.send('last');
    for (let turn = 0; outbox.buffered > 0; turn++) {
      assert.ok(turn < 20);
      const before = packs.length;
      await turns(2);
      assert.ok(packs.length - before <= 1, 'the next part waits until the system has taken the one before');
      target.take();
    }
    assert.ok(packs.every((pack) => pack.length < 2 * 1024 * 1024));
    assert.deepEqual(parts, packs.slice(1, 1 + parts.length));
    assert.equal(packs.slice(1, 2 + parts.length).join(''), long);
    assert.deepEqual([packs[0], ...packs.slice(2 + parts.length)].join(), 'before,behind\nlast');
    assert.equal(outbox.handed, packs.join('').length);
  });

  test('writes nothing while the system is behind, then packs of some 256 KiB one by one', async () => {
    const target = new Target();
    target.blocked = true;
    target.outbox.send('x'.repeat(9000));
    for (let n = 0; n < 3000; n++) target.outbox.send(`${n} ${'y'.repeat(300)}`);
    await turns(2);
    assert.equal(target.packs.length, 1);
    const sent = 9000 + 3000 * 301 + [...Array(3000).keys()].join('').length;
    // Besides the messages at most one line break for each.
    assert.ok(target.outbox.buffered >= sent && target.outbox.buffered < sent + 3000);
    for (let writes = 2; target.pending > 0; writes++) {
      target.take();
      assert.equal(target.packs.length, Math.min(writes, 5));
    }
    assert.ok(target.packs.every((pack) => pack.length < 257 * 1024));
    const numbers = target.packs
      .slice(1)
      .join('\n')
      .split('\n')
      .map((line) => Number.parseInt(line, 10));
    assert.deepEqual(numbers, [...Array(3000).keys()]);
    assert.equal(target.outbox.buffered, 0);
  });

  test('lets a waiter go when its mark is reached and not before', async () => {
    const target = new Target();
    target.blocked = true;
    target.outbox.send('x'.repeat(9000));
    target.outbox.send('y'.repeat(5000));
    const reached: string[] = [];
    const low = target.outbox.drained(0).then(() => reached.push('low'));
    const high = target.outbox.drained(5000).then(() => reached.push('high'));
    await target.outbox.drained(20_000);
    await turns(2);
    assert.deepEqual(reached, []);
    target.take();
    await within(high, 'the high mark');
    assert.deepEqual(reached, ['high']);
    target.take();
    await within(low, 'the low mark');
  });

  test('lets a waiter go when the turn is over and the system took everything', async () => {
    const { outbox, packs } = new Target();
    outbox.send('1');
    await within(outbox.drained(0), 'the end of the turn');
    assert.deepEqual(packs, ['1']);
  });

  test('is silent after closing, and every waiter is settled', async () => {
    const target = new Target();
    target.blocked = true;
    target.outbox.send('x'.repeat(9000));
    target.outbox.send('lost');
    const waiting = target.outbox.drained(0);
    target.outbox.close();
    await within(waiting, 'the waiter');
    target.outbox.send('never');
    await turns(1);
    target.take();
    assert.equal(target.packs.length, 1);
    await target.outbox.drained(0);
  });

  test('gives everything away at its end, though the system is behind', () => {
    const target = new Target();
    target.blocked = true;
    for (const message of ['a'.repeat(9000), 'b'.repeat(300_000), 'c']) target.outbox.send(message);
    target.outbox.flushAll();
    assert.equal(target.packs.join('\n').length, 309_003);
  });

  test('keeps the order and loses nothing, whenever the system blocks and takes', async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 1, max: 90_000 }) },
      { weight: 1, arbitrary: fc.constantFrom('block', 'take', 'turn') },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const target = new Target();
        const sent: string[] = [];
        for (const each of steps) {
          if (each === 'block') target.blocked = true;
          else if (each === 'take') {
            target.blocked = false;
            target.take();
          } else if (each === 'turn') await turns(1);
          else {
            sent.push(`${sent.length}:${'x'.repeat(each as number)}`);
            target.outbox.send(sent.at(-1) as string);
          }
        }
        target.blocked = false;
        target.take();
        await turns(1);
        assert.equal(target.packs.join('\n') === sent.join('\n'), true);
        assert.equal(target.outbox.buffered, 0);
      }),
      { numRuns: 100 },
    );
  });
});
