/**
 * A worker's journal in SQLite, under the contract of `journal.ts`.
 *
 * All writes of one turn of the event loop are one commit, synced apart from the thread.
 */

import { GroupCommit } from '../../base/sqlite/group-commit.ts';
import type { DatabaseLoss } from '../../base/sqlite/losses.ts';
import { SteadyClock } from '../../base/steady-clock.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import {
  type JournaledTask,
  MAX_STORED,
  type NewTask,
  STATES,
  type StoredDeclinedAttempt,
  type TaskAbout,
  type TaskState,
  type WaitingResult,
  type WorkerJournal,
} from './journal.ts';
import { type JournalDamage, type JournalDatabase, type JournalStatement, openJournalFile } from './journal-file.ts';
import type { ProcessIdentity } from './process-identity.ts';

/** Retention of ended and declined tasks, milliseconds. */
const RETAIN_MS = 7 * 24 * 3600 * 1000;
/** Tasks that end, or are declined, between two sweeps. */
const SWEEP_EVERY = 500;
/** Time between two sweeps of entries that are too old, in milliseconds. */
const AGE_EVERY_MS = 3_600_000;

export class SqliteWorkerJournal implements WorkerJournal {
  /** Set when the file was damaged and quarantined: its entries of earlier tasks are lost. */
  readonly damage: JournalDamage | undefined;
  /** Set when the file lost writes. */
  readonly loss: DatabaseLoss | undefined;
  readonly #database: JournalDatabase;
  readonly #release: () => void;
  readonly #now: () => number;
  readonly #statements: Record<
    | 'accept'
    | 'start'
    | 'processes'
    | 'end'
    | 'forget'
    | 'deliver'
    | 'find'
    | 'result'
    | 'unfinished'
    | 'undelivered'
    | 'sweepMany'
    | 'sweepOld'
    | 'deny'
    | 'denials'
    | 'sweepDenials'
    | 'worktrees'
    | 'get'
    | 'set',
    JournalStatement
  >;
  readonly #commits: GroupCommit;
  #endedCount = 0;
  #declinedCount = 0;
  readonly #clock: SteadyClock;
  /** Time when the newest task of earlier processes was accepted, epoch milliseconds. */
  readonly #newestBefore: number;
  #agedAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  /**
   * Opens or creates the journal in `home`. Fails as `openJournalFile` does. `now` is epoch milliseconds, `monotonic`
   * milliseconds of a clock that is never set.
   */
  constructor(home: string, now: () => number, monotonic?: () => number) {
    const { database, damage, loss, count, release } = openJournalFile(home, now());
    this.damage = damage;
    this.loss = loss;
    this.#database = database;
    this.#release = release;
    this.#now = now;
    this.#clock = new SteadyClock(now, monotonic);
    this.#newestBefore = Number(database.prepare('SELECT max(accepted_at) AS at FROM tasks').get()?.at ?? 0);
    this.#commits = new GroupCommit({ db: database, what: 'the journal of the worker', count });
    const columns = 'task_id, digest, attempt, state, outlet, about, processes, crashes, result, delivered';
    const prepare = (sql: string) => database.prepare(sql);
    this.#statements = {
      accept: prepare(
        `INSERT OR REPLACE INTO tasks (task_id, digest, attempt, state, outlet, about, crashes, accepted_at)
         VALUES (?, ?, ?, 0, ?, ?, ?, ?)`,
      ),
      start: prepare('UPDATE tasks SET state = 1, about = ? WHERE task_id = ? AND attempt = ? AND state < 2'),
      processes: prepare('UPDATE tasks SET processes = ? WHERE task_id = ? AND attempt = ? AND state < 2'),
      end: prepare(
        `UPDATE tasks SET state = 2, result = ?, crashes = ?, delivered = 0, ended_at = ?
         WHERE task_id = ? AND attempt = ? AND state < 2`,
      ),
      forget: prepare('DELETE FROM tasks WHERE task_id = ? AND attempt = ?'),
      deliver: prepare('UPDATE tasks SET delivered = 1 WHERE task_id = ? AND attempt = ? AND state = 2'),
      find: prepare(`SELECT ${columns} FROM tasks WHERE task_id = ? ORDER BY attempt DESC LIMIT 1`),
      result: prepare('SELECT result FROM tasks WHERE task_id = ? AND attempt = ?'),
      unfinished: prepare(`SELECT ${columns}, accepted_at FROM tasks WHERE state < 2 ORDER BY number`),
      undelivered: prepare(
        'SELECT task_id, attempt, outlet FROM tasks WHERE state = 2 AND delivered = 0 ORDER BY number',
      ),
      sweepMany: prepare(
        `DELETE FROM tasks WHERE number <= (SELECT max(number) FROM tasks) - ${MAX_STORED}
         AND state = 2 AND delivered = 1`,
      ),
      sweepOld: prepare('DELETE FROM tasks WHERE ended_at < ? AND state = 2 AND delivered = 1'),
      deny: prepare(
        'INSERT OR REPLACE INTO denials (task_id, attempt, digest, reason, denied_at) VALUES (?, ?, ?, ?, ?)',
      ),
      denials: prepare('SELECT task_id, attempt, digest, reason FROM denials ORDER BY number'),
      sweepDenials: prepare(
        `DELETE FROM denials
         WHERE denied_at < ? OR number <= (SELECT max(number) FROM denials) - ${MAX_STORED}`,
      ),
      worktrees: prepare(
        `SELECT DISTINCT about ->> 'cwd' AS cwd FROM tasks
         WHERE (state < 2 OR (state = 2 AND delivered = 0)) AND about ->> 'worktree' = 1`,
      ),
      get: prepare('SELECT value FROM small_values WHERE key = ?'),
      set: prepare('INSERT INTO small_values VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value'),
    };
  }

  find(taskId: string): JournaledTask | undefined {
    const row = this.#statements.find.get(taskId);
    return row === undefined ? undefined : taskOf(row);
  }

  result(taskId: string, attempt: number): TaskResult | null {
    const text = this.#statements.result.get(taskId, attempt)?.result;
    return typeof text === 'string' ? (JSON.parse(text) as TaskResult) : null;
  }

  unfinished(): readonly JournaledTask[] {
    const lost = this.loss === undefined ? Number.NEGATIVE_INFINITY : Date.parse(this.loss.found_at);
    return this.#statements.unfinished.all().map((row) => {
      const task = taskOf(row);
      // Its start may be among the writes that were lost.
      return Number(row.accepted_at) > lost ? task : { ...task, state: 'started' };
    });
  }

  undelivered(): readonly WaitingResult[] {
    const rows = this.#statements.undelivered.all();
    return rows.map((row) => ({
      taskId: String(row.task_id),
      attempt: Number(row.attempt),
      outlet: String(row.outlet),
    }));
  }

  accept(task: NewTask): Promise<void> {
    const { taskId, digest, attempt, outlet, about, crashes } = task;
    const at = this.#now();
    const text = JSON.stringify(about);
    return this.#commits.write(() => {
      this.#statements.accept.run(taskId, digest, attempt, outlet, text, crashes, at);
      return text.length;
    });
  }

  start(taskId: string, attempt: number, about: TaskAbout): Promise<void> {
    const text = JSON.stringify(about);
    return this.#commits.write(() => {
      this.#statements.start.run(text, taskId, attempt);
      return text.length;
    });
  }

  processes(taskId: string, attempt: number, processes: readonly ProcessIdentity[]): void {
    const text = JSON.stringify(processes);
    this.#commits.writeBehind(() => {
      this.#statements.processes.run(text, taskId, attempt);
      return text.length;
    });
  }

  end(taskId: string, attempt: number, result: TaskResult, crashes = 0): Promise<void> {
    const text = JSON.stringify(result);
    const at = this.#now();
    return this.#commits.write(() => {
      this.#statements.end.run(text, crashes, at, taskId, attempt);
      this.#endedCount += 1;
      if (this.#endedCount % SWEEP_EVERY === 0) this.#sweep(at);
      return text.length;
    });
  }

  forget(taskId: string, attempt: number): Promise<void> {
    return this.#commits.write(() => {
      this.#statements.forget.run(taskId, attempt);
      return 0;
    });
  }

  delivered(taskId: string, attempt: number): void {
    this.#commits.writeBehind(() => {
      this.#statements.deliver.run(taskId, attempt);
      return 0;
    });
  }

  decline({ taskId, attempt, digest, reason }: StoredDeclinedAttempt): Promise<void> {
    const text = reason === null ? null : JSON.stringify(reason);
    const at = this.#now();
    return this.#commits.write(() => {
      this.#statements.deny.run(taskId, attempt, digest, text, at);
      this.#declinedCount += 1;
      if (this.#declinedCount % SWEEP_EVERY === 0) this.#statements.sweepDenials.run(at - RETAIN_MS);
      return text?.length ?? 0;
    });
  }

  declined(): readonly StoredDeclinedAttempt[] {
    this.#statements.sweepDenials.run(this.#now() - RETAIN_MS);
    return this.#statements.denials.all().map(({ task_id, attempt, digest, reason }) => ({
      taskId: String(task_id),
      attempt: Number(attempt),
      digest: digest as string | null,
      reason: reason === null ? null : JSON.parse(String(reason)),
    }));
  }

  worktrees(): readonly string[] {
    return this.#statements.worktrees.all().flatMap(({ cwd }) => (typeof cwd === 'string' ? [cwd] : []));
  }

  value(key: string): string | undefined {
    return this.#statements.get.get(key)?.value as string | undefined;
  }

  storeValue(key: string, value: string): void {
    this.#commits.writeBehind(() => {
      this.#statements.set.run(key, value);
      return value.length;
    });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#commits.close();
    this.#database.close();
    this.#release();
  }

  #sweep(at: number): void {
    this.#statements.sweepMany.run();
    if (at - this.#agedAt < AGE_EVERY_MS) return;
    this.#agedAt = at;
    if (this.#clock.trusts(this.#newestBefore)) this.#statements.sweepOld.run(at - RETAIN_MS);
  }
}

function taskOf(row: Record<string, unknown>): JournaledTask {
  return {
    taskId: String(row.task_id),
    digest: String(row.digest),
    attempt: Number(row.attempt),
    state: STATES[Number(row.state)] as TaskState,
    outlet: String(row.outlet),
    about: JSON.parse(String(row.about)) as TaskAbout,
    processes: JSON.parse(String(row.processes)) as ProcessIdentity[],
    crashes: Number(row.crashes),
    result: row.result === null ? null : (JSON.parse(String(row.result)) as TaskResult),
    delivered: row.delivered === 1,
  };
}
