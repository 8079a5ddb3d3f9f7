/**
 * Tasks that wait for other tasks. A task may be routed when all tasks it names are `done`; one that ends otherwise ends the
 * tasks that wait for it, and so on along the chain.
 */
import { fail } from '../../wire/errors.ts';
import type { TaskRecord } from './task.ts';
import { isEnded } from './task-machine.ts';

/** State of a dependency. */
type DependencyState = 'done' | 'open' | { readonly failed: string };

export class Dependencies {
  /** Task → tasks that it still waits for. */
  readonly #waits = new Map<string, Set<string>>();
  /** Task → tasks that wait for it. */
  readonly #waiters = new Map<string, Set<string>>();

  /** Tasks that wait for others. */
  get size(): number {
    return this.#waits.size;
  }

  isWaiting(taskId: string): boolean {
    return this.#waits.has(taskId);
  }

  /**
   * Notes the tasks that a task waits for. Returns the reason why it never can run, if one of these has ended otherwise than
   * done.
   */
  add(taskId: string, dependencies: Iterable<TaskRecord>): string | undefined {
    const open: string[] = [];
    for (const record of dependencies) {
      const standing = dependencyStateOf(record);
      if (standing === 'open') open.push(record.task_id);
      else if (standing !== 'done') return standing.failed;
    }
    this.remove(taskId);
    if (open.length === 0) return undefined;
    this.#waits.set(taskId, new Set(open));
    for (const id of open) {
      const waiters = this.#waiters.get(id);
      if (waiters === undefined) this.#waiters.set(id, new Set([taskId]));
      else waiters.add(taskId);
    }
    return undefined;
  }

  /** Removes the waits of a task that ended itself. */
  remove(taskId: string): void {
    for (const id of this.#waits.get(taskId) ?? []) {
      const waiters = this.#waiters.get(id);
      if (waiters?.delete(taskId) && waiters.size === 0) this.#waiters.delete(id);
    }
    this.#waits.delete(taskId);
  }

  /** Ends the waits for an ended task: returns the tasks that may run now, or those that never can, with the reason. */
  ended(record: TaskRecord): {
    readonly ready: readonly string[];
    readonly failed: readonly string[];
    readonly why: string;
  } {
    const waiters = [...(this.#waiters.get(record.task_id) ?? [])];
    this.#waiters.delete(record.task_id);
    const standing = dependencyStateOf(record);
    const ready: string[] = [];
    const failed: string[] = [];
    for (const id of waiters) {
      const waits = this.#waits.get(id);
      if (standing === 'done') {
        waits?.delete(record.task_id);
        if (waits !== undefined && waits.size > 0) continue;
        this.#waits.delete(id);
        ready.push(id);
      } else {
        this.remove(id);
        failed.push(id);
      }
    }
    return { ready, failed, why: typeof standing === 'string' ? '' : standing.failed };
  }
}

function dependencyStateOf(record: TaskRecord): DependencyState {
  if (!isEnded(record)) return 'open';
  if (record.state === 'done') return 'done';
  return { failed: `dependency_failed: ${record.task_id} ended as ${record.state}` };
}

/**
 * Returns the requests of a batch in an order in which each comes after the requests it waits for. Fails with
 * `schema_violation` when some wait for each other in a circle; `detail.cycle` names them.
 */
export function inOrder<T extends { readonly id: string; readonly after: readonly string[] }>(
  batch: readonly T[],
): T[] {
  const byId = new Map(batch.map((one) => [one.id, one]));
  const missing = new Map(batch.map(({ id, after }) => [id, after.filter((other) => byId.has(other)).length]));
  const followers = new Map<string, T[]>();
  for (const one of batch) {
    for (const other of one.after) {
      if (!byId.has(other)) continue;
      const known = followers.get(other);
      if (known === undefined) followers.set(other, [one]);
      else known.push(one);
    }
  }
  const ordered = batch.filter(({ id }) => missing.get(id) === 0);
  for (let at = 0; at < ordered.length; at += 1) {
    for (const follower of followers.get((ordered[at] as T).id) ?? []) {
      const left = (missing.get(follower.id) as number) - 1;
      missing.set(follower.id, left);
      if (left === 0) ordered.push(follower);
    }
  }
  if (ordered.length === batch.length) return ordered;
  const cycle = [...missing].filter(([, left]) => left > 0).map(([id]) => id);
  throw fail('schema_violation', `tasks wait for each other: ${cycle.slice(0, 8).join(', ')}`, {
    path: '/after',
    cycle,
  });
}
