/**
 * One at a time for each task: what is said about a task waits until its dispatch was decided on and begun.
 *
 * Used by both sides of the A2A binding, whose requests may overtake each other.
 */

export class TaskLocks {
  readonly #last = new Map<string, Promise<void>>();

  /** Resolves when it is this caller's turn, with what ends it. */
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
}
