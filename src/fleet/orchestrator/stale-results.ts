/**
 * Results that give their sender no credit: stored in the events of the task they name, at most 32 of a task, and applied to
 * nothing. A worker could otherwise fill the disk with them.
 *
 * @see docs/fleet.md#failure-semantics
 */
import { setNewest } from '../../base/evict-oldest.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import { boundedResult } from '../messages/encode.ts';
import type { StaleReason } from './task-events.ts';
import type { TaskJournal, TaskName } from './task-journal.ts';

/** Kind of their entries. */
const KIND = 'stale_result';
/** Maximum number of entries of one task. */
const MAX_STALE = 32;
/** A longer result, in bytes of JSON, loses its prose, its answer and its artefacts; where that is not enough, all of it. */
const MAX_BYTES = 64 * 1024;
/** Tasks whose entries are counted in memory. */
const MAX_COUNTED = 10_000;

/** A result, its sender and attempt, and the reason why it gives no credit. */
export interface StaleResult {
  readonly worker: string;
  readonly attempt: number | null;
  readonly fence: number | null;
  readonly why: StaleReason;
  readonly result: TaskResult;
}

export class StaleResults {
  readonly #journal: TaskJournal;
  /** Entries by task, those of earlier processes included. */
  readonly #counts = new Map<string, Promise<{ entries: number }>>();

  constructor(journal: TaskJournal) {
    this.#journal = journal;
  }

  /** Stores one; false: the task has as many as it may have. */
  async store(task: TaskName, { result, ...about }: StaleResult): Promise<boolean> {
    const count = await this.#count(task);
    if (count.entries >= MAX_STALE) return false;
    count.entries += 1;
    const { status } = result;
    const shortened = boundedResult(result, MAX_BYTES);
    const fits = Buffer.byteLength(JSON.stringify(shortened)) <= 2 * MAX_BYTES;
    this.#journal.write(task, KIND, { ...about, status, result: fits ? shortened : null });
    return true;
  }

  #count(task: TaskName): Promise<{ entries: number }> {
    let count = this.#counts.get(task.task_id);
    if (count === undefined) {
      count = this.#journal.count(task, KIND).then((entries) => ({ entries }));
      setNewest(this.#counts, task.task_id, count, MAX_COUNTED);
    }
    return count;
  }
}
