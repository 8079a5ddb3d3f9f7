/**
 * Shares of principals in an orchestrator: open tasks, and bytes of stored tasks with their results. A principal that has used
 * up its share is refused, or loses its own oldest ended tasks; no other is affected. Operators of the fleet have no share.
 *
 * The shares are checked for each submitted task.
 */
import { type ShareUsage, shareUsage } from '../../base/share-usage.ts';
import { mayStore } from '../../session/shares.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { Submitter, TaskStore } from './task.ts';
import type { TaskRegistry } from './task-registry.ts';

export interface SubmitterLimits {
  /** Open tasks of one submitter. */
  readonly openTasks: number;
  /** Bytes of the stored tasks of one submitter. */
  readonly storedBytes: number;
  /** The same for all submitters together. */
  readonly totalStoredBytes: number;
}

const UNLIMITED: SubmitterLimits = {
  openTasks: Number.POSITIVE_INFINITY,
  storedBytes: Number.POSITIVE_INFINITY,
  totalStoredBytes: Number.POSITIVE_INFINITY,
};

/** Amount removed at a time, as a share of the limit, so that removals are rare. */
const STEP_SHARE = 8;
const RETRY_AFTER_MS = 1_000;

export class SubmitterShares {
  readonly #limits: SubmitterLimits;
  readonly #registry: TaskRegistry;
  readonly #store: TaskStore;
  readonly #refused = { openTasks: 0, storedBytes: 0 };

  constructor(registry: TaskRegistry, store: TaskStore, limits: SubmitterLimits = UNLIMITED) {
    this.#registry = registry;
    this.#store = store;
    this.#limits = limits;
  }

  async usage(): Promise<Readonly<Record<'open_tasks' | 'task_bytes', ShareUsage>>> {
    const open = this.#registry.openBySubmitter;
    const stored = (await this.#store.usage?.()) ?? [];
    const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0);
    const bytes = stored.map(({ submitter, bytes }) => [submitter, bytes] as const);
    return {
      open_tasks: shareUsage(this.#registry.openCount, this.#refused.openTasks, open),
      task_bytes: shareUsage(
        sum(bytes.map(([, amount]) => amount)),
        this.#refused.storedBytes,
        bytes.filter(([submitter]) => submitter !== ''),
      ),
    };
  }

  /** Fails with `over_capacity` when a submitter may not have `count` more open tasks. */
  mustHaveOpen(count: number, submitter: Submitter | undefined): void {
    if (submitter?.ownOnly !== true) return;
    const { openTasks } = this.#limits;
    const has = this.#registry.openBySubmitter.get(submitter.name) ?? 0;
    if (has + count <= openTasks) return;
    this.#refused.openTasks += 1;
    throw overCapacity(`${submitter.name} has ${has} open tasks, its share`, 'open_tasks', openTasks);
  }

  /**
   * Removes the oldest ended tasks of a submitter that stores more than its share. Fails with `over_capacity` when its open
   * tasks alone do.
   */
  async mustHaveRoom(submitter: Submitter | undefined): Promise<void> {
    if (submitter?.ownOnly !== true) return;
    const { name } = submitter;
    let { bytes, most } = await this.#stored(name);
    if (bytes < most) return;
    await this.#store.evict?.(name, bytes - most + most / STEP_SHARE);
    ({ bytes, most } = await this.#stored(name));
    if (bytes < most) return;
    this.#refused.storedBytes += 1;
    throw overCapacity(`the open tasks of ${name} store too much; end some of them`, 'task_bytes', Math.floor(most));
  }

  /** Returns the bytes that a submitter stores, and the maximum. */
  async #stored(name: string): Promise<{ readonly bytes: number; readonly most: number }> {
    const { storedBytes, totalStoredBytes } = this.#limits;
    const all = (await this.#store.usage?.()) ?? [];
    const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    return {
      bytes: all.find(({ submitter }) => submitter === name)?.bytes ?? 0,
      most: mayStore({ bytes: total, owners: all.length }, { own: storedBytes, total: totalStoredBytes }),
    };
  }
}

function overCapacity(message: string, share: string, limit: number): HandfastError {
  return fail('over_capacity', message, { share, limit, retry_after_ms: RETRY_AFTER_MS });
}
