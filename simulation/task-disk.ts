/**
 * The task store of one process of the orchestrator: the memory store that outlives it, with commits that take a
 * moment. The checks see every row when it is handed over and when it is on disk.
 */
import { memoryTaskStore } from '../src/fleet/orchestrator/store-memory.ts';
import type { TaskRecord, TaskStore } from '../src/fleet/orchestrator/task.ts';
import type { DiskWriter } from './disk.ts';

export interface TaskDiskObserver {
  /** Called when a row is on disk. */
  written(record: TaskRecord): void;
}

export class TaskDisk {
  readonly #store = memoryTaskStore();
  readonly #observer: TaskDiskObserver;

  constructor(observer: TaskDiskObserver) {
    this.#observer = observer;
  }

  /** Removes tasks that ended before this time, epoch milliseconds: large runs would not fit in memory. */
  async prune(beforeMs: number): Promise<void> {
    await this.#store.prune(beforeMs, Number.POSITIVE_INFINITY);
  }

  /** Returns the store of a process. */
  open(writer: DiskWriter): TaskStore {
    const store = this.#store;
    return {
      // The memory store has written when `put` returns; its promise only has the outcome.
      put: (record, revision) =>
        writer
          .write(async () => {
            const written = await store.put(record, revision);
            this.#observer.written(record);
            return written;
          })
          .then((written) => written),
      get: (taskId) => store.get(taskId),
      open: () => store.open(),
      find: (query) => store.find(query),
      lastNumber: () => store.lastNumber(),
      prune: (before, maxTasks) => store.prune(before, maxTasks),
      close: async () => {},
    };
  }
}
