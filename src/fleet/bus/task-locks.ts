/**
 * One message at a time for each task: a message about a task waits until the dispatch before it was decided on and started.
 *
 * For the A2A binding, whose requests may overtake each other.
 */

export class TaskLocks {
  readonly #last = new Map<string, Promise<void>>();

  /** Resolves with the function that releases the lock, when it is this caller's turn. */
  async acquire(taskId: string): Promise<() => void> {
    const before = this.#last.get(taskId);
    const { promise, resolve } = Promise.withResolvers<void>();
    const mine = before === undefined ? promise : before.then(() => promise);
    this.#last.set(taskId, mine);
    await before;
    return () => {
      resolve();
      if (this.#last.get(taskId) === mine) this.#last.delete(taskId);
    };
  }

  /** Runs `work` under the lock of a task; at once without a task. */
  async run<T>(taskId: string, work: () => Promise<T>): Promise<T> {
    if (taskId === '') return work();
    const release = await this.acquire(taskId);
    try {
      return await work();
    } finally {
      release();
    }
  }
}
