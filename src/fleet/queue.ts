/**
 * The queue of tasks that wait to be routed: ordered by priority, with ageing against starvation.
 *
 * Ageing: each priority has a fixed head start, and tasks go in order of `enqueuedAtMs − head start`. So a task gains on every
 * later task by one millisecond a millisecond. Once it has waited longer than the difference of two head starts, nothing newer
 * of the higher priority passes it: at most 20 minutes for a low task against an urgent one. The order of two tasks never
 * changes while they wait, so it is a plain heap: O(log n) to put in, take out and withdraw.
 *
 * Every pool has a separate heap, so that a pool without a free worker does not delay the others. The pools of the dispatcher
 * are tasks of equal requirements.
 * @see docs/fleet.md#routing
 */

import { counted } from '../base/counted.ts';
import { Heap } from '../base/heap.ts';
import type { Priority } from '../protocol/fleet.ts';
import { fail } from '../wire/errors.ts';

/** Seconds by which a priority goes before a low task of the same moment. */
export const HEAD_START_S: Readonly<Record<Priority, number>> = { low: 0, normal: 900, high: 1140, urgent: 1200 };

export interface QueuedTask {
  readonly task_id: string;
  readonly priority: Priority;
  /** Time when it was first queued, epoch milliseconds; unchanged when it is queued again, so that its age counts. */
  readonly enqueuedAtMs: number;
  readonly pool: string | null;
}

interface Waiting {
  readonly task: QueuedTask;
  /** Lower goes first. */
  readonly turnMs: number;
  /** Order of arrival, among equals. */
  readonly number: number;
  readonly pool: Pool;
  heapIndex: number;
}

interface Pool {
  readonly name: string | null;
  readonly waiting: Heap<Waiting>;
  heapIndex: number;
}

export class TaskQueue {
  readonly #maxTasks: number;
  readonly #byId = new Map<string, Waiting>();
  readonly #pools = new Map<string | null, Pool>();
  readonly #paused = new Set<string | null>();
  /** Pools with tasks, by their first one: running pools, and paused ones. */
  readonly #goingPools = new Heap<Pool>(isBefore);
  readonly #pausedPools = new Heap<Pool>(isBefore);
  #number = 0;

  /** `maxTasks`: most that wait at once; the caller refuses new tasks before that. */
  constructor({ maxTasks = 1_000_000 } = {}) {
    this.#maxTasks = maxTasks;
  }

  get size(): number {
    return this.#byId.size;
  }

  has(taskId: string): boolean {
    return this.#byId.has(taskId);
  }

  /** Puts a task in; one that is in already gets its new position. Fails with `over_capacity`. */
  push(task: QueuedTask): void {
    this.remove(task.task_id);
    if (this.#byId.size >= this.#maxTasks) {
      throw fail(
        'over_capacity',
        `the queue is full: ${counted(this.#maxTasks, 'task waits', 'tasks wait')}; submit again later`,
        {
          limit: this.#maxTasks,
        },
      );
    }
    const pool = this.#poolOf(task.pool);
    const turnMs = task.enqueuedAtMs - HEAD_START_S[task.priority] * 1000;
    const waiting: Waiting = { task, turnMs, number: this.#number++, pool, heapIndex: -1 };
    this.#byId.set(task.task_id, waiting);
    this.#change(pool, () => pool.waiting.push(waiting));
  }

  /** `take` skips this pool until it is resumed; its tasks continue to age. */
  pause(pool: string | null): void {
    if (this.#paused.has(pool)) return;
    this.#paused.add(pool);
    const found = this.#pools.get(pool);
    if (found !== undefined && this.#goingPools.remove(found)) this.#pausedPools.push(found);
  }

  resume(pool: string | null): void {
    if (!this.#paused.delete(pool)) return;
    const found = this.#pools.get(pool);
    if (found !== undefined && this.#pausedPools.remove(found)) this.#goingPools.push(found);
  }

  /** Returns, of the paused pools that pass, the one with the task whose turn it would be; undefined: none has a task. */
  firstPaused(passes: (pool: string | null) => boolean): string | null | undefined {
    return this.#pausedPools.first(({ name }) => passes(name))?.name;
  }

  /** Removes and returns the next task; undefined: all pools that have tasks are paused. */
  take(): QueuedTask | undefined {
    const next = this.peek();
    if (next !== undefined) this.remove(next.task_id);
    return next;
  }

  /** Returns the task that `take` would give. */
  peek(): QueuedTask | undefined {
    return this.#goingPools.peek()?.waiting.peek()?.task;
  }

  /** Withdraws a task; false: it does not wait here. */
  remove(taskId: string): boolean {
    const waiting = this.#byId.get(taskId);
    if (waiting === undefined) return false;
    this.#byId.delete(taskId);
    const { pool } = waiting;
    this.#change(pool, () => pool.waiting.remove(waiting));
    return true;
  }

  /** Changes a pool. A pool is ordered by its first task, so it leaves its heap before that one changes. */
  #change(pool: Pool, change: () => void): void {
    const pools = this.#paused.has(pool.name) ? this.#pausedPools : this.#goingPools;
    pools.remove(pool);
    change();
    if (pool.waiting.size > 0) pools.push(pool);
    else this.#pools.delete(pool.name);
  }

  #poolOf(name: string | null): Pool {
    let pool = this.#pools.get(name);
    if (pool === undefined) {
      pool = { name, waiting: new Heap(goesBefore), heapIndex: -1 };
      this.#pools.set(name, pool);
    }
    return pool;
  }
}

function goesBefore(left: Waiting, right: Waiting): boolean {
  return left.turnMs === right.turnMs ? left.number < right.number : left.turnMs < right.turnMs;
}

/** Pools in a heap have tasks. */
function isBefore(left: Pool, right: Pool): boolean {
  return goesBefore(left.waiting.peek() as Waiting, right.waiting.peek() as Waiting);
}
