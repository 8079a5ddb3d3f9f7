/**
 * What a worker remembers of its tasks, on disk: which it took, which it started, how they ended, and which results the
 * other end does not have yet. A task is in here before it is acknowledged, and marked started before anything runs, so
 * that a worker that was killed can say what it had begun and never begins it by itself again.
 *
 * All writes of one turn of the event loop are one commit, synced apart from the thread.
 */
import { GroupCommit } from '../../base/sqlite/group-commit.ts';
import type { Access, TaskResult } from '../../protocol/fleet.ts';
import type { KeptDenial } from './declined-attempts.ts';
import { type JournalDamage, type JournalDatabase, type JournalStatement, openJournalFile } from './journal-file.ts';
import type { ProcessIdentity } from './process-identity.ts';

const STATES = ['accepted', 'started', 'ended'] as const;
export type TaskState = (typeof STATES)[number];

/** What of a dispatch is needed to report on it after a crash. */
export interface TaskAbout {
  readonly context_id: string | null;
  readonly correlation_id?: string;
  readonly causation_id?: string;
  readonly fence?: number;
  readonly access: Access;
  /** Where it works, once that is known. */
  readonly cwd?: string;
  readonly branch?: string | null;
  readonly base_commit?: string | null;
  readonly worktree?: boolean;
}

/** A task as the journal has it. */
export interface JournaledTask {
  readonly taskId: string;
  readonly digest: string;
  readonly attempt: number;
  readonly state: TaskState;
  /** Name of the outlet its result goes to. */
  readonly outlet: string;
  readonly about: TaskAbout;
  readonly processes: readonly ProcessIdentity[];
  /** How often the worker died while it ran. */
  readonly crashes: number;
  readonly result: TaskResult | null;
  readonly delivered: boolean;
}

export type NewTask = Pick<JournaledTask, 'taskId' | 'digest' | 'attempt' | 'outlet' | 'about' | 'crashes'>;

/** A result that waits for its outlet. */
export interface WaitingResult {
  readonly taskId: string;
  readonly attempt: number;
  readonly outlet: string;
}

/** Ended tasks, and denied ones, that are remembered for as long as {@link REMEMBER_MS} says; the oldest beyond are forgotten. */
export const MAX_REMEMBERED = 10_000;
const REMEMBER_MS = 7 * 24 * 3600 * 1000;
/** So many tasks end, or are denied, between two sweeps. */
const SWEEP_EVERY = 500;
/** So long between two looks for what is too old. */
const AGE_EVERY_MS = 3_600_000;

export class WorkerJournal {
  /** Set when the file was found damaged and moved away: what it knew of earlier tasks is gone. */
  readonly damage: JournalDamage | undefined;
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
  #ended = 0;
  #denied = 0;
  #agedAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  /** Opens or creates the journal in `home`. Fails as `openJournalFile` says. `now` is epoch milliseconds. */
  constructor(home: string, now: () => number) {
    const { database, damage, release } = openJournalFile(home, now());
    this.damage = damage;
    this.#database = database;
    this.#release = release;
    this.#now = now;
    this.#commits = new GroupCommit({ db: database, what: 'the journal of the worker' });
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
      unfinished: prepare(`SELECT ${columns} FROM tasks WHERE state < 2 ORDER BY number`),
      undelivered: prepare(
        'SELECT task_id, attempt, outlet FROM tasks WHERE state = 2 AND delivered = 0 ORDER BY number',
      ),
      sweepMany: prepare(
        `DELETE FROM tasks WHERE number <= (SELECT max(number) FROM tasks) - ${MAX_REMEMBERED}
         AND state = 2 AND delivered = 1`,
      ),
      sweepOld: prepare('DELETE FROM tasks WHERE ended_at < ? AND state = 2 AND delivered = 1'),
      deny: prepare(
        'INSERT OR REPLACE INTO denials (task_id, attempt, digest, reason, denied_at) VALUES (?, ?, ?, ?, ?)',
      ),
      denials: prepare('SELECT task_id, attempt, digest, reason FROM denials ORDER BY number'),
      sweepDenials: prepare(
        `DELETE FROM denials
         WHERE denied_at < ? OR number <= (SELECT max(number) FROM denials) - ${MAX_REMEMBERED}`,
      ),
      worktrees: prepare(
        `SELECT DISTINCT about ->> 'cwd' AS cwd FROM tasks
         WHERE (state < 2 OR (state = 2 AND delivered = 0)) AND about ->> 'worktree' = 1`,
      ),
      get: prepare('SELECT value FROM small_values WHERE key = ?'),
      set: prepare('INSERT INTO small_values VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value'),
    };
  }

  /** What is on disk of the latest attempt at this task; what is being written now may be missing. */
  find(taskId: string): JournaledTask | undefined {
    const row = this.#statements.find.get(taskId);
    return row === undefined ? undefined : taskOf(row);
  }

  /** The result of one attempt; null: there is none. */
  result(taskId: string, attempt: number): TaskResult | null {
    const text = this.#statements.result.get(taskId, attempt)?.result;
    return typeof text === 'string' ? (JSON.parse(text) as TaskResult) : null;
  }

  /** Tasks that were taken and have not ended, in the order they were taken. */
  unfinished(): readonly JournaledTask[] {
    return this.#statements.unfinished.all().map(taskOf);
  }

  /** Results the other end does not have yet, oldest first. */
  undelivered(): readonly WaitingResult[] {
    const rows = this.#statements.undelivered.all();
    return rows.map((row) => ({
      taskId: String(row.task_id),
      attempt: Number(row.attempt),
      outlet: String(row.outlet),
    }));
  }

  /** Keeps an attempt as accepted; resolves when that is on disk. Replaces what there was of the same attempt. */
  accept(task: NewTask): Promise<void> {
    const { taskId, digest, attempt, outlet, about, crashes } = task;
    const at = this.#now();
    const text = JSON.stringify(about);
    return this.#commits.write(() => {
      this.#statements.accept.run(taskId, digest, attempt, outlet, text, crashes, at);
      return text.length;
    });
  }

  /** Something is about to run; resolves when that is on disk. */
  start(taskId: string, attempt: number, about: TaskAbout): Promise<void> {
    const text = JSON.stringify(about);
    return this.#commits.write(() => {
      this.#statements.start.run(text, taskId, attempt);
      return text.length;
    });
  }

  /** Which programs run for it. Nobody waits for this write. */
  processes(taskId: string, attempt: number, processes: readonly ProcessIdentity[]): void {
    const text = JSON.stringify(processes);
    this.#commits.writeBehind(() => {
      this.#statements.processes.run(text, taskId, attempt);
      return text.length;
    });
  }

  /** How it ended; resolves when that is on disk. The result waits for delivery from then on. */
  end(taskId: string, attempt: number, result: TaskResult, crashes = 0): Promise<void> {
    const text = JSON.stringify(result);
    const at = this.#now();
    return this.#commits.write(() => {
      this.#statements.end.run(text, crashes, at, taskId, attempt);
      this.#ended += 1;
      if (this.#ended % SWEEP_EVERY === 0) this.#sweep(at);
      return text.length;
    });
  }

  /** As if it had never been taken. */
  forget(taskId: string, attempt: number): Promise<void> {
    return this.#commits.write(() => {
      this.#statements.forget.run(taskId, attempt);
      return 0;
    });
  }

  /** The other end has the result of this attempt. Nobody waits: at worst it is sent once more. */
  delivered(taskId: string, attempt: number): void {
    this.#commits.writeBehind(() => {
      this.#statements.deliver.run(taskId, attempt);
      return 0;
    });
  }

  /** An attempt that is not begun here, whatever comes; resolves when that is on disk. */
  deny({ taskId, attempt, digest, reason }: KeptDenial): Promise<void> {
    const text = reason === null ? null : JSON.stringify(reason);
    const at = this.#now();
    return this.#commits.write(() => {
      this.#statements.deny.run(taskId, attempt, digest, text, at);
      this.#denied += 1;
      if (this.#denied % SWEEP_EVERY === 0) this.#statements.sweepDenials.run(at - REMEMBER_MS);
      return text?.length ?? 0;
    });
  }

  /** The latest attempt of each task that was denied, oldest first. */
  denials(): readonly KeptDenial[] {
    this.#statements.sweepDenials.run(this.#now() - REMEMBER_MS);
    return this.#statements.denials.all().map(({ task_id, attempt, digest, reason }) => ({
      taskId: String(task_id),
      attempt: Number(attempt),
      digest: digest as string | null,
      reason: reason === null ? null : JSON.parse(String(reason)),
    }));
  }

  /** Folders in worktrees whose tasks go on, or have results the other end does not have yet. */
  worktrees(): readonly string[] {
    return this.#statements.worktrees.all().flatMap(({ cwd }) => (typeof cwd === 'string' ? [cwd] : []));
  }

  /** A value kept under a name, or undefined. */
  value(key: string): string | undefined {
    return this.#statements.get.get(key)?.value as string | undefined;
  }

  keepValue(key: string, value: string): void {
    this.#commits.writeBehind(() => {
      this.#statements.set.run(key, value);
      return value.length;
    });
  }

  /** Commits what waits and gives the file back. Closing twice is fine. */
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
    this.#statements.sweepOld.run(at - REMEMBER_MS);
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
