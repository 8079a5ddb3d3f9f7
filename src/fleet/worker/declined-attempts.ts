/**
 * The attempts a worker declined: refused, busy, or unknown to it when polled. The orchestrator may have sent the task to
 * another worker since, so that a duplicate that comes later must not start. On disk before the reply leaves; looked up in
 * memory, once for every dispatch.
 *
 * @see docs/fleet.md#failure-semantics
 */
import { setNewest } from '../../base/evict-oldest.ts';
import type { Log } from '../../base/log.ts';
import { asError } from '../../wire/errors.ts';
import { type DeclinedAttempt, MAX_STORED, type WorkerJournal } from './journal.ts';

/** Characters of a reason that are stored; names that are missing are left out where they do not fit. */
const MAX_DETAIL = 280;
const MAX_NAMES = 8;

interface Known {
  readonly denial: DeclinedAttempt;
  /** Settles when it is on disk, or cannot be; undefined from then on. */
  written: Promise<void> | undefined;
}

export class DeclinedAttempts {
  readonly #journal: WorkerJournal;
  readonly #log: Log;
  readonly #known = new Map<string, Known>();

  constructor(journal: WorkerJournal, log: Log) {
    this.#journal = journal;
    this.#log = log;
    for (const { taskId, ...denial } of journal.declined()) this.#known.set(taskId, { denial, written: undefined });
  }

  /** Returns the latest attempt of a task that was denied. */
  of(taskId: string): DeclinedAttempt | undefined {
    return this.#known.get(taskId)?.denial;
  }

  /** Resolves when the entry of this task is on disk. At once, with undefined, when no write is under way. */
  written(taskId: string): Promise<void> | undefined {
    return this.#known.get(taskId)?.written;
  }

  /**
   * Stores a denial, unless a later attempt was denied; resolves when it is on disk. Never rejects: a denial that cannot be
   * written stays in memory while this process lives.
   */
  add(taskId: string, denial: DeclinedAttempt): Promise<void> {
    const before = this.#known.get(taskId);
    if (before !== undefined && before.denial.attempt >= denial.attempt) return before.written ?? Promise.resolve();
    const known: Known = { denial: shortened(denial), written: undefined };
    // The newest is the last to be evicted.
    setNewest(this.#known, taskId, known, MAX_STORED);
    const written = this.#write(taskId, known);
    known.written = written;
    return written;
  }

  async #write(taskId: string, known: Known): Promise<void> {
    try {
      await this.#journal.decline({ taskId, ...known.denial });
    } catch (thrown) {
      this.#log.error('declined attempt could not be stored', { task_id: taskId, error: asError(thrown).message });
    }
    known.written = undefined;
  }
}

/** Shortens an entry: the sender of dispatches must not decide on its stored size. */
function shortened({ reason, ...denial }: DeclinedAttempt): DeclinedAttempt {
  if (reason === null) return { ...denial, reason };
  const { code, detail, retryable, missing } = reason;
  const names = missing.length > MAX_NAMES ? [] : missing;
  return { ...denial, reason: { code, detail: detail.slice(0, MAX_DETAIL), retryable, missing: names } };
}
