/**
 * The queue of tasks: the next task, the waiting ones, and that none waits for ever.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HEAD_START_S, type QueuedTask, TaskQueue } from '../../src/fleet/queue.ts';
import fc from '../support/properties.ts';

const task = (task_id: string, changes: Partial<QueuedTask> = {}): QueuedTask => ({
  task_id,
  priority: 'normal',
  enqueuedAtMs: 0,
  pool: null,
  ...changes,
});

function drain(queue: TaskQueue): string[] {
  const taken: string[] = [];
  for (let next = queue.take(); next !== undefined; next = queue.take()) taken.push(next.task_id);
  return taken;
}

test('higher priorities go first, equals in the order they came', () => {
  const queue = new TaskQueue();
  for (const [index, priority] of (['low', 'normal', 'high', 'urgent', 'normal', 'low'] as const).entries()) {
    queue.push(task(`${priority}-${index}`, { priority, enqueuedAtMs: index }));
  }
  assert.deepEqual(drain(queue), ['urgent-3', 'high-2', 'normal-1', 'normal-4', 'low-0', 'low-5']);
  assert.equal(queue.size, 0);
});

test('a low task is passed by nothing newer once it has waited out the head start', () => {
  const queue = new TaskQueue();
  queue.push(task('low', { priority: 'low', enqueuedAtMs: 0 }));
  queue.push(task('just before', { priority: 'urgent', enqueuedAtMs: HEAD_START_S.urgent * 1000 - 1 }));
  queue.push(task('just after', { priority: 'urgent', enqueuedAtMs: HEAD_START_S.urgent * 1000 + 1 }));
  assert.deepEqual(drain(queue), ['just before', 'low', 'just after']);
});

test('under an endless flood of urgent tasks a low one is taken within the head start', () => {
  const queue = new TaskQueue();
  queue.push(task('low', { priority: 'low', enqueuedAtMs: 0 }));
  // Two come each second, one is taken: without ageing the low one would never be.
  let atS = 0;
  for (; queue.has('low') && atS < 10_000; atS += 1) {
    queue.push(task(`a-${atS}`, { priority: 'urgent', enqueuedAtMs: atS * 1000 }));
    queue.push(task(`b-${atS}`, { priority: 'urgent', enqueuedAtMs: atS * 1000 }));
    queue.take();
  }
  assert.equal(atS, 2 * HEAD_START_S.urgent + 1);
});

test('a paused pool keeps no task of another pool waiting', () => {
  const queue = new TaskQueue();
  queue.push(task('gpu-1', { pool: 'gpu', priority: 'urgent' }));
  queue.push(task('any-1', { enqueuedAtMs: 1 }));
  queue.push(task('gpu-2', { pool: 'gpu', enqueuedAtMs: 2 }));
  queue.pause('gpu');
  assert.equal(queue.take()?.task_id, 'any-1');
  assert.equal(queue.take(), undefined);
  queue.pause(null);
  queue.resume('gpu');
  assert.equal(queue.take()?.task_id, 'gpu-1');
  assert.equal(queue.take()?.task_id, 'gpu-2');
  assert.equal(queue.remove('gpu-2'), false);
});

test('a pool that is paused waits until it is resumed, and its tasks keep their age', () => {
  const queue = new TaskQueue();
  queue.pause('gpu');
  queue.push(task('gpu-1', { pool: 'gpu' }));
  queue.push(task('any-1', { enqueuedAtMs: 1 }));
  queue.push(task('gpu-2', { pool: 'gpu', enqueuedAtMs: 2 }));
  queue.remove('gpu-2');
  assert.equal(queue.peek()?.task_id, 'any-1');
  queue.resume('gpu');
  queue.resume('gpu');
  assert.deepEqual(drain(queue), ['gpu-1', 'any-1']);
  queue.pause('gpu');
  queue.pause('gpu');
  queue.push(task('gpu-3', { pool: 'gpu' }));
  assert.equal(queue.peek(), undefined);
  queue.remove('gpu-3');
  queue.resume('gpu');
  assert.equal(queue.peek(), undefined);
});

test('of the paused pools the one is found whose task is next, among those that are asked for', () => {
  const queue = new TaskQueue();
  const names = Array.from({ length: 20 }, (_, at) => `p-${at}`);
  for (const [at, pool] of names.entries()) {
    queue.push(task(`t-${at}`, { pool, enqueuedAtMs: (at * 7) % 20 }));
    if (at !== 3) queue.pause(pool);
  }
  assert.equal(
    queue.firstPaused(() => true),
    'p-0',
  );
  for (const asked of [['p-4', 'p-9', 'p-11'], ['p-3'], ['p-19', 'p-6'], []]) {
    const turn = (pool: string): number => (Number(pool.slice(2)) * 7) % 20;
    const expected = asked.filter((pool) => pool !== 'p-3').sort((left, right) => turn(left) - turn(right))[0];
    assert.equal(
      queue.firstPaused((pool) => asked.includes(pool ?? '')),
      expected,
    );
  }
  assert.equal(queue.take()?.task_id, 't-3');
});

test('a task put in again moves, and is there once', () => {
  const queue = new TaskQueue();
  queue.push(task('a', { priority: 'low' }));
  queue.push(task('b'));
  queue.push(task('a', { priority: 'urgent' }));
  assert.deepEqual(drain(queue), ['a', 'b']);
});

test('more tasks than it may hold are refused', () => {
  const queue = new TaskQueue({ maxTasks: 1 });
  queue.push(task('a'));
  queue.push(task('a', { priority: 'high' }));
  assert.throws(() => queue.push(task('b')), { code: 'over_capacity' });
  assert.deepEqual(drain(queue), ['a']);
});

test('it takes what sorting everything by the rule would take, after any history', () => {
  const anyStep = fc.record({
    kind: fc.constantFrom('push', 'push', 'push', 'take', 'remove', 'pause', 'resume'),
    id: fc.integer({ min: 0, max: 25 }).map(String),
    priority: fc.constantFrom('low', 'normal', 'high', 'urgent' as const),
    enqueuedAtMs: fc.integer({ min: 0, max: 2_000_000 }),
    pool: fc.constantFrom(null, 'a', 'b'),
  });
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 80, size: 'max' }), (steps) => {
      const queue = new TaskQueue();
      const plain = new Map<string, QueuedTask & { order: number }>();
      const standing = new Set<string | null>();
      for (const [order, { kind, id, ...rest }] of steps.entries()) {
        if (kind === 'push') {
          queue.push({ task_id: id, ...rest });
          plain.delete(id);
          plain.set(id, { task_id: id, ...rest, order });
        } else if (kind === 'pause') {
          queue.pause(rest.pool);
          standing.add(rest.pool);
        } else if (kind === 'resume') {
          queue.resume(rest.pool);
          standing.delete(rest.pool);
        } else if (kind === 'remove') assert.equal(queue.remove(id), plain.delete(id));
        else {
          const turn = ({ enqueuedAtMs, priority }: QueuedTask) => enqueuedAtMs - HEAD_START_S[priority] * 1000;
          const next = [...plain.values()]
            .filter(({ pool }) => !standing.has(pool))
            .sort((left, right) => turn(left) - turn(right) || left.order - right.order)[0];
          assert.equal(queue.take()?.task_id, next?.task_id);
          if (next !== undefined) plain.delete(next.task_id);
        }
        assert.equal(queue.size, plain.size);
      }
    }),
    { numRuns: 150 },
  );
});
