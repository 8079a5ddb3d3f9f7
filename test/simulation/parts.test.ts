/**
 * The foundations of a simulation: randomness, time, distributions.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram } from '../../simulation/histogram.ts';
import { Random } from '../../simulation/random.ts';
import { VirtualTime } from '../../simulation/virtual-time.ts';

test('streams of one seed are repeatable and do not depend on each other', () => {
  const drawn = (random: Random): number[] => Array.from({ length: 5 }, () => random.next());
  assert.deepEqual(drawn(new Random(3)), drawn(new Random(3)));
  const used = new Random(3);
  drawn(used);
  assert.deepEqual(drawn(used.fork(1)), drawn(new Random(3).fork(1)));
  assert.notDeepEqual(drawn(new Random(3).fork(1)), drawn(new Random(3).fork(2)));
});

test('waits have the mean they are asked for', () => {
  const random = new Random(1);
  const waits = Array.from({ length: 20_000 }, () => random.around(1000));
  const mean = waits.reduce((sum, wait) => sum + wait, 0) / waits.length;
  assert.ok(Math.abs(mean - 1000) < 25, String(mean));
  assert.ok(waits.every((wait) => Number.isInteger(wait) && wait >= 1));
});

test('things happen in the order of their time, then in the order they were planned', () => {
  const time = new VirtualTime();
  const seen: string[] = [];
  const note = (what: string) => () => void seen.push(`${what}@${time.nowMs}`);
  time.after(20, note('late'));
  time.after(10, () => {
    note('first')();
    time.after(0, note('at once'));
    time.after(-5, note('never back'));
  });
  time.after(10, note('second'));
  time.cancel(time.after(15, note('called off')));
  while (time.step());
  assert.deepEqual(seen, ['first@10', 'second@10', 'at once@10', 'never back@10', 'late@20']);
  assert.equal(time.steps, 5);
});

test('a distribution gives its shares to about two percent', () => {
  const histogram = new Histogram();
  for (let value = 0; value <= 10_000; value += 1) histogram.add(value);
  assert.equal(histogram.count, 10_001);
  assert.equal(histogram.mean, 5000);
  assert.equal(histogram.most, 10_000);
  for (const share of [0.1, 0.5, 0.95, 0.99]) {
    const off = histogram.at(share) / (share * 10_000);
    assert.ok(off >= 1 && off < 1.03, `${share}: ${histogram.at(share)}`);
  }
  assert.equal(histogram.at(1), 10_000);
  assert.equal(new Histogram().at(0.5), 0);
});
