/**
 * Task records in memory, under the contract of `task.ts`: for trials and tests. Nothing of it outlives the process.
 */
import { fail } from '../../wire/errors.ts';
import { matches, pageLimit, superseded } from './store-query.ts';
import type { Stored, TaskQuery, TaskRecord, TaskStore } from './task.ts';

/** Makes a store that lives and dies with the process. */
export function memoryTaskStore(): TaskStore {
  return new MemoryTaskStore();
}

class MemoryTaskStore implements TaskStore {
  readonly #tasks = new Map<string, Stored>();
  readonly #numbers = new Set<number>();
  #last = 0;
  #closed = false;

  async put(record: TaskRecord, revision: number): Promise<number> {
    this.#check();
    const { task_id: id, number } = record;
    const kept = this.#tasks.get(id);
    if ((kept?.revision ?? 0) !== revision) throw superseded(id);
    if (kept === undefined && this.#numbers.has(number)) throw superseded(id, number);
    this.#tasks.set(id, { record, revision: revision + 1 });
    this.#numbers.add(number);
    this.#last = Math.max(this.#last, number);
    return revision + 1;
  }

  async get(taskId: string): Promise<Stored | undefined> {
    this.#check();
    return this.#tasks.get(taskId);
  }

  async *open(): AsyncIterable<Stored> {
    this.#check();
    const open = [...this.#tasks.values()].filter(({ record }) => record.ended_at === null);
    yield* open.sort((one, other) => one.record.number - other.record.number);
  }

  async find(query: TaskQuery): Promise<readonly TaskRecord[]> {
    this.#check();
    const found = [...this.#tasks.values()].map(({ record }) => record).filter((record) => matches(record, query));
    return found.sort((one, other) => other.number - one.number).slice(0, pageLimit(query));
  }

  async lastNumber(): Promise<number> {
    this.#check();
    return this.#last;
  }

  async prune(before: number, maxTasks: number): Promise<number> {
    this.#check();
    const ended = [...this.#tasks.values()].map(({ record }) => record).filter(({ ended_at }) => ended_at !== null);
    ended.sort((one, other) => one.number - other.number);
    const old = new Set(ended.filter(({ ended_at }) => (ended_at as number) < before));
    const over = this.#tasks.size - old.size - maxTasks;
    for (const record of ended.filter((one) => !old.has(one)).slice(0, Math.max(0, over))) old.add(record);
    for (const { task_id, number } of old) {
      this.#tasks.delete(task_id);
      this.#numbers.delete(number);
    }
    return old.size;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#tasks.clear();
  }

  #check(): void {
    if (this.#closed) throw fail('runtime_error', 'the task store is closed');
  }
}
