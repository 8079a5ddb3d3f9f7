/**
 * The tasks that wait to be routed: by priority, but nobody for ever.
 *
 * Ageing: each priority has a fixed head start, and tasks are taken in order of `enqueuedAtMs − head start`. So a task gains
 * on everything that comes after it by one millisecond a millisecond, and once it has waited longer than the difference of
 * two head starts, nothing newer of the higher priority passes it any more: at most 20 minutes for a low task against an
 * urgent one. The order of two tasks never changes while they wait, so it is a plain heap: O(log n) to put in, take out and
 * withdraw, whole numbers only.
 *
 * Every pool has a heap of its own, so that a pool without a free worker keeps nobody else waiting. Tasks wait for others
 * elsewhere: what depends on something is put in when that is done.
 * @see docs/fleet.md#routing
 */

import { Heap } from '../base/heap.ts';
import type { Priority } from '../protocol/fleet.ts';
import { fail } from '../wire/errors.ts';

/** Seconds by which a priority goes before a low task of the same moment. */
export const HEAD_START_S: Readonly<Record<Priority, number>> = { low: 0, normal: 900, high: 1140, urgent: 1200 };

export interface QueuedTask {
  readonly task_id: string;
  readonly priority: Priority;
  /** When it was first put in, epoch milliseconds; the same one when it is put in again, so that it keeps its age. */
  readonly enqueuedAtMs: number;
  /** Epoch milliseconds before which it is not taken; null: at once. */
  readonly notBeforeMs: number | null;
  readonly pool: string | null;
}

interface Waiting {
  readonly task: QueuedTask;
  /** Lower goes first. */
  readonly turnMs: number;
  readonly readyMs: number;
  /** Order of arrival, among equals. */
  readonly number: number;
  /** Where it is, once it is ready. */
  pool: Pool | undefined;
  heapIndex: number;
}

interface Pool {
  readonly name: string | null;
  readonly ready: Heap<Waiting>;
  heapIndex: number;
}

const NOBODY: ReadonlySet<string | null> = new Set();

export class TaskQueue {
  readonly #maxTasks: number;
  readonly #byId = new Map<string, Waiting>();
  readonly #later = new Heap<Waiting>((left, right) => {
    return left.readyMs === right.readyMs ? left.number < right.number : left.readyMs < right.readyMs;
  });
  readonly #pools = new Map<string | null, Pool>();
  readonly #paused = new Set<string | null>();
  /** Pools with something ready, by their first task: those that go, and those that are paused. */
  readonly #heads = new Heap<Pool>((left, right) => goesBefore(left.ready.peek()!, right.ready.peek()!));
  readonly #standing = new Heap<Pool>((left, right) => goesBefore(left.ready.peek()!, right.ready.peek()!));
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

  /** Puts a task in; one that is in already gets its new place. Fails with `over_capacity`. */
  push(task: QueuedTask): void {
    this.remove(task.task_id);
    if (this.#byId.size >= this.#maxTasks) {
      throw fail('over_capacity', `${this.#maxTasks} tasks wait already`, { limit: this.#maxTasks });
    }
    const waiting: Waiting = {
      task,
      turnMs: task.enqueuedAtMs - HEAD_START_S[task.priority] * 1000,
      readyMs: task.notBeforeMs ?? Number.NEGATIVE_INFINITY,
      number: this.#number++,
      pool: undefined,
      heapIndex: -1,
    };
    this.#byId.set(task.task_id, waiting);
    if (task.notBeforeMs === null) this.#makeReady(waiting);
    else this.#later.push(waiting);
  }

  /** Nothing of this pool is taken until it is resumed; its tasks keep their age. */
  pause(pool: string | null): void {
    if (this.#paused.has(pool)) return;
    this.#paused.add(pool);
    const found = this.#pools.get(pool);
    if (found !== undefined && this.#heads.remove(found)) this.#standing.push(found);
  }

  resume(pool: string | null): void {
    if (!this.#paused.delete(pool)) return;
    const found = this.#pools.get(pool);
    if (found !== undefined && this.#standing.remove(found)) this.#heads.push(found);
  }

  /** Of the paused pools that pass, the one with the task whose turn it would be; undefined: none has a task that is ready. */
  firstPaused(nowMs: number, passes: (pool: string | null) => boolean): string | null | undefined {
    this.#ripen(nowMs);
    return this.#standing.first(({ name }) => passes(name))?.name;
  }

  /**
   * Takes the task whose turn it is; undefined: none is ready. `paused`: pools left out this time; for many pools, or many
   * times, `pause` costs less.
   */
  take(nowMs: number, paused: ReadonlySet<string | null> = NOBODY): QueuedTask | undefined {
    const next = this.peek(nowMs, paused);
    if (next !== undefined) this.remove(next.task_id);
    return next;
  }

  /** The task that `take` would answer. */
  peek(nowMs: number, paused: ReadonlySet<string | null> = NOBODY): QueuedTask | undefined {
    this.#ripen(nowMs);
    const aside: Pool[] = [];
    let pool = this.#heads.peek();
    while (pool !== undefined && paused.has(pool.name)) {
      this.#heads.remove(pool);
      aside.push(pool);
      pool = this.#heads.peek();
    }
    for (const one of aside) this.#heads.push(one);
    return pool?.ready.peek()?.task;
  }

  /** Withdraws a task; false: it does not wait here. */
  remove(taskId: string): boolean {
    const waiting = this.#byId.get(taskId);
    if (waiting === undefined) return false;
    this.#byId.delete(taskId);
    const { pool } = waiting;
    if (pool === undefined) return this.#later.remove(waiting);
    this.#changeReady(pool, () => pool.ready.remove(waiting));
    return true;
  }

  /** When there is something to take, of pools that are not paused: now, later (epoch milliseconds), or null. */
  nextAt(nowMs: number, paused: ReadonlySet<string | null> = NOBODY): number | null {
    if (this.peek(nowMs, paused) !== undefined) return nowMs;
    return this.#later.peek()?.readyMs ?? null;
  }

  #ripen(nowMs: number): void {
    for (;;) {
      const first = this.#later.peek();
      if (first === undefined || first.readyMs > nowMs) return;
      this.#later.remove(first);
      this.#makeReady(first);
    }
  }

  #makeReady(waiting: Waiting): void {
    const pool = this.#poolOf(waiting.task.pool);
    waiting.pool = pool;
    this.#changeReady(pool, () => pool.ready.push(waiting));
  }

  /** A pool is ordered by its first task, so it leaves its place before that one changes. */
  #changeReady(pool: Pool, change: () => void): void {
    const among = this.#paused.has(pool.name) ? this.#standing : this.#heads;
    among.remove(pool);
    change();
    if (pool.ready.size > 0) among.push(pool);
    else this.#pools.delete(pool.name);
  }

  #poolOf(name: string | null): Pool {
    let pool = this.#pools.get(name);
    if (pool === undefined) {
      pool = { name, ready: new Heap(goesBefore), heapIndex: -1 };
      this.#pools.set(name, pool);
    }
    return pool;
  }
}

function goesBefore(left: Waiting, right: Waiting): boolean {
  return left.turnMs === right.turnMs ? left.number < right.number : left.turnMs < right.turnMs;
}
