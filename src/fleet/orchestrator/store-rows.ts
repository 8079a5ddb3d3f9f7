/**
 * The tables of the task store: statements, prepared once, and the conversion between records and rows.
 *
 * `store-sqlite.ts` owns the transactions.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { findStatement } from './store-find.ts';
import type { Stored, SubmitterUsage, TaskQuery, TaskRecord } from './task.ts';

export type Database = DatabaseSync;

interface Row {
  readonly number: number;
  readonly revision: number;
  readonly record: string;
  readonly spec: string;
  readonly explanation: string;
}

const JOINED = 'SELECT number, revision, record, spec, explanation FROM tasks JOIN reasons USING (number)';

/** Texts to be written. */
interface Unwritten {
  readonly asked?: string;
  readonly why?: string;
}

export class TaskRows {
  readonly #db: Database;
  readonly #insert: StatementSync;
  readonly #update: StatementSync;
  readonly #keepSpec: StatementSync;
  readonly #keepExplanation: StatementSync;
  readonly #get: StatementSync;
  readonly #revision: StatementSync;
  readonly #open: StatementSync;
  readonly #last: StatementSync;
  readonly #keepLast: StatementSync;
  readonly #count: StatementSync;
  readonly #old: StatementSync;
  readonly #forget: StatementSync;
  readonly #forgetReasons: StatementSync;
  readonly #usage: StatementSync;
  readonly #oldestOf: StatementSync;
  readonly #oldestOfNone: StatementSync;
  /** Requests and explanations that are in the file as they are, and of which task. */
  #written = new WeakMap<object, number>();
  readonly #sizes = new WeakMap<object, number>();

  constructor(db: Database) {
    this.#db = db;
    this.#insert = db.prepare(
      `INSERT INTO tasks (number, task_id, revision, state, parked, worker, batch, submitter, ended_at, record, bytes)
       VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    );
    this.#update = db.prepare(
      `UPDATE tasks SET revision = revision + 1, state = ?, parked = ?, worker = ?, ended_at = ?, record = ?, bytes = ?
       WHERE number = ? AND task_id = ? AND revision = ?`,
    );
    this.#keepSpec = db.prepare('INSERT OR REPLACE INTO reasons (number, spec, explanation) VALUES (?, ?, ?)');
    this.#keepExplanation = db.prepare('UPDATE reasons SET explanation = ? WHERE number = ?');
    this.#get = db.prepare(`${JOINED} WHERE task_id = ?`);
    this.#revision = db.prepare('SELECT revision FROM tasks WHERE task_id = ?');
    this.#open = db.prepare(`${JOINED} WHERE ended_at IS NULL AND number > ? ORDER BY number LIMIT ?`);
    this.#last = db.prepare(
      `SELECT max(coalesce((SELECT max(number) FROM tasks), 0),
                  coalesce((SELECT value FROM counters WHERE name = 'last_number'), 0)) AS last`,
    );
    this.#keepLast = db.prepare(`INSERT OR REPLACE INTO counters (name, value) VALUES ('last_number', ?)`);
    // Counting the rows would read all of them.
    this.#count = db.prepare('SELECT coalesce(sum(tasks), 0) AS count FROM usage');
    this.#old = db.prepare('SELECT number FROM tasks WHERE ended_at < ? ORDER BY ended_at LIMIT ?');
    this.#forget = db.prepare('DELETE FROM tasks WHERE number = ?');
    this.#forgetReasons = db.prepare('DELETE FROM reasons WHERE number = ?');
    this.#usage = db.prepare('SELECT submitter, bytes, tasks FROM usage WHERE tasks > 0');
    const oldest = (whose: string) =>
      db.prepare(`SELECT number, bytes FROM tasks WHERE ${whose} AND ended_at IS NOT NULL ORDER BY number LIMIT ?`);
    this.#oldestOf = oldest('submitter = ?');
    this.#oldestOfNone = oldest('submitter IS NULL');
  }

  /** Writes a record over the revision it was made from, and returns its bytes; undefined when another one is stored. */
  put(record: TaskRecord, revision: number): number | undefined {
    const { number, task_id, state, worker, spec, submitter = null, ended_at } = record;
    const parked = record.parked ? 1 : 0;
    const text = textOf(record);
    const unwritten = this.#unwritten(record);
    const bytes = text.length + this.#sizeOf(spec) + this.#sizeOf(record.explanation);
    const { changes } =
      revision === 0
        ? this.#insert.run(number, task_id, state, parked, worker, spec.batch, submitter, ended_at, text, bytes)
        : this.#update.run(state, parked, worker, ended_at, text, bytes, number, task_id, revision);
    return changes === 0 ? undefined : text.length + this.#putReasons(record, unwritten);
  }

  /** Returns the characters of a part that was stored, or is about to be. */
  #sizeOf(part: object | null): number {
    return (part !== null && this.#sizes.get(part)) || 0;
  }

  /** Returns the texts of request and explanation that the file does not have as they are. */
  #unwritten({ number, spec, explanation }: TaskRecord): Unwritten {
    const isNew = this.#written.get(spec) !== number;
    const isDecided = explanation === null || this.#written.get(explanation) === number;
    return {
      ...(isNew && { asked: this.#textOf(spec) }),
      ...((isNew || !isDecided) && { why: this.#textOf(explanation) }),
    };
  }

  #textOf(part: object | null): string {
    const text = JSON.stringify(part);
    if (part !== null) this.#sizes.set(part, text.length);
    return text;
  }

  #putReasons({ number, spec, explanation }: TaskRecord, { asked, why }: Unwritten): number {
    if (why === undefined) return 0;
    if (asked === undefined) this.#keepExplanation.run(why, number);
    else this.#keepSpec.run(number, asked, why);
    this.#written.set(spec, number);
    if (explanation !== null) this.#written.set(explanation, number);
    return (asked?.length ?? 0) + why.length;
  }

  /** Forgets the rows of a transaction that was rolled back: they were not written. */
  forgetWritten(): void {
    this.#written = new WeakMap();
  }

  get(taskId: string): Stored | undefined {
    const row = this.#get.get(taskId);
    return row === undefined ? undefined : this.#stored(row);
  }

  revisionOf(taskId: string): number | undefined {
    return this.#revision.get(taskId)?.revision as number | undefined;
  }

  open(after: number, limit: number): Stored[] {
    return this.#open.all(after, limit).map((row) => this.#stored(row));
  }

  find(query: TaskQuery, limit: number): TaskRecord[] {
    const statement = findStatement(query, limit);
    if (statement === undefined) return [];
    const { sql, values } = statement;
    return this.#db
      .prepare(`${JOINED} WHERE number IN (${sql}) ORDER BY number DESC`)
      .all(...values)
      .map((row) => this.#stored(row).record);
  }

  lastNumber(): number {
    return (this.#last.get() as { last: number }).last;
  }

  /** Returns the storage of the tasks of each submitter; `''` = tasks without one. */
  usage(): SubmitterUsage[] {
    return this.#usage.all() as unknown as SubmitterUsage[];
  }

  /**
   * Removes at least `bytes` bytes of the oldest ended tasks of a submitter, and at most `limit` tasks; returns the removed
   * bytes.
   */
  evict(submitter: string, bytes: number, limit: number): number {
    const numbers = new Set<number>();
    let evicted = 0;
    for (const row of this.#oldest(submitter, limit)) {
      if (evicted >= bytes) break;
      numbers.add(row.number);
      evicted += row.bytes;
    }
    this.#forgetAll(numbers);
    return evicted;
  }

  /**
   * Removes at most `limit` tasks that ended before a time, or are the oldest of too many, of submitters with more than an
   * equal part; returns their number.
   */
  prune(before: number, maxTasks: number, limit: number): number {
    const numbers = new Set(this.#old.all(before, limit).map(({ number }) => number as number));
    let over = (this.#count.get() as { count: number }).count - numbers.size - maxTasks;
    const usage = over > 0 ? this.usage() : [];
    for (const { submitter, tasks } of usage) {
      const surplus = Math.min(over, Math.ceil(tasks - maxTasks / usage.length), limit - numbers.size);
      if (surplus <= 0) continue;
      // Some of the oldest ones are among the old ones.
      for (const { number } of this.#oldest(submitter, surplus + numbers.size)) {
        if (over === 0 || numbers.size >= limit) break;
        if (numbers.has(number)) continue;
        numbers.add(number);
        over -= 1;
      }
    }
    this.#forgetAll(numbers);
    return numbers.size;
  }

  /** Returns the oldest ended tasks of a submitter, or of none. */
  #oldest(submitter: string, limit: number): Iterable<{ readonly number: number; readonly bytes: number }> {
    const rows = submitter === '' ? this.#oldestOfNone.iterate(limit) : this.#oldestOf.iterate(submitter, limit);
    return rows as Iterable<unknown> as Iterable<{ readonly number: number; readonly bytes: number }>;
  }

  #forgetAll(numbers: ReadonlySet<number>): void {
    if (numbers.size === 0) return;
    // A number is not given twice, not even when the highest one is removed.
    this.#keepLast.run(this.lastNumber());
    for (const number of numbers) {
      this.#forget.run(number);
      this.#forgetReasons.run(number);
    }
  }

  #stored(row: object): Stored {
    const { number, revision, ...texts } = row as Row;
    const spec = JSON.parse(texts.spec) as TaskRecord['spec'];
    const explanation = JSON.parse(texts.explanation) as TaskRecord['explanation'];
    this.#written.set(spec, number);
    this.#sizes.set(spec, texts.spec.length);
    if (explanation !== null) {
      this.#written.set(explanation, number);
      this.#sizes.set(explanation, texts.explanation.length);
    }
    return { record: { ...(JSON.parse(texts.record) as TaskRecord), spec, explanation }, revision };
  }
}

/**
 * Returns the text of a record without the members that have a separate table. Members that are undefined are left out, and a
 * plain copy is quick.
 */
function textOf(record: TaskRecord): string {
  return JSON.stringify({ ...record, spec: undefined, explanation: undefined });
}
