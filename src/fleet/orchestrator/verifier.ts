/** Verifies results one or two at a time, in the background, so that a burst of them does not start a program for each. */

import type { TaskRecord } from './task.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';
import { type Verification, verify, whyNotChecked } from './verify.ts';

const AT_ONCE = 2;
/** Maximum number of results that wait; past it a result is not checked. */
const MAX_WAITING = 1000;

type FindRepository = (worker: string) => Promise<string | undefined>;

export class Verifier {
  readonly #registry: TaskRegistry;
  readonly #repositories: ReadonlyMap<string, string>;
  readonly #find: FindRepository | undefined;
  /** Repositories of workers that have joined. */
  readonly #found = new Map<string, string>();
  readonly #waiting: TaskRecord[] = [];
  readonly #running = new Set<TaskRecord>();
  #stopped = false;

  constructor(registry: TaskRegistry, repositories: ReadonlyMap<string, string> = new Map(), find?: FindRepository) {
    this.#registry = registry;
    this.#repositories = repositories;
    this.#find = find;
  }

  /** Notes that a worker has joined: its repository may be another one than before. */
  joined(worker: string): void {
    if (this.#find === undefined || this.#repositories.has(worker)) return;
    const found = (repository: string | undefined): void => {
      if (repository === undefined) this.#found.delete(worker);
      else this.#found.set(worker, repository);
    };
    void this.#find(worker).then(found, () => found(undefined));
  }

  /** Returns the repository of a worker on this machine. */
  repositoryOf(worker: string | null): string | undefined {
    return worker === null ? undefined : (this.#repositories.get(worker) ?? this.#found.get(worker));
  }

  /** Verifies a task that is reported as done. The outcome is stored with the task; at once where nothing can be checked. */
  check(tracked: TrackedTask): void {
    const { record } = tracked;
    if (record.result === null) return;
    const unseen = whyNotChecked(record.result, this.repositoryOf(record.worker));
    if (unseen !== undefined) {
      this.#registry.apply(tracked, { type: 'verified', verified: 'not_checked', reasons: [unseen] });
    } else if (this.#waiting.length >= MAX_WAITING) {
      void this.#store(record, { verified: 'not_checked', reasons: ['too many results came at once'] });
    } else {
      this.#waiting.push(record);
      this.#next();
    }
  }

  /** True while its result is being verified, or will be. */
  has(taskId: string): boolean {
    const same = ({ task_id }: TaskRecord): boolean => task_id === taskId;
    return this.#waiting.some(same) || [...this.#running].some(same);
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.length = 0;
  }

  #next(): void {
    if (this.#running.size >= AT_ONCE) return;
    const record = this.#waiting.shift();
    if (record === undefined) return;
    this.#running.add(record);
    void this.#verify(record).finally(() => {
      this.#running.delete(record);
      this.#next();
    });
  }

  async #verify(record: TaskRecord): Promise<void> {
    const repository = this.repositoryOf(record.worker);
    if (record.result === null || repository === undefined) return;
    const base = record.attempts.find(({ worker }) => worker === record.worker)?.base_commit ?? null;
    await this.#store(record, await verify(record.result, repository, base));
  }

  /** Stores a verification. Never rejects: one that could not be stored leaves the task unverified. */
  async #store(record: TaskRecord, { verified, reasons }: Verification): Promise<void> {
    if (this.#stopped) return;
    try {
      const tracked = await this.#registry.pin(record.task_id);
      if (tracked === undefined) return;
      // Tried again since: that was another result.
      if (tracked.record.result === record.result || tracked.record.attempt === record.attempt) {
        this.#registry.apply(tracked, { type: 'verified', verified, reasons });
        // Followers see `verified` now; `has` must say that nothing is pending.
        this.#running.delete(record);
        await this.#registry.save(tracked);
      }
      this.#registry.release(tracked);
    } catch {
      // The store is closed or full, which is reported where it matters.
    }
  }
}
