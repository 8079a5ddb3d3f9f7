/**
 * The tables of the task store: statements, prepared once, and how a record becomes a row and a row a record.
 *
 * Used by `store-sqlite.ts`, which owns the transactions.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Stored, TaskQuery, TaskRecord } from './task.ts';

export type Database = DatabaseSync;

interface Row {
  readonly number: number;
  readonly revision: number;
  readonly record: string;
  readonly spec: string;
  readonly explanation: string;
}

const JOINED = 'SELECT number, revision, record, spec, explanation FROM tasks JOIN reasons USING (number)';

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
  readonly #oldest: StatementSync;
  readonly #forget: StatementSync;
  readonly #forgetReasons: StatementSync;
  /** Requests and explanations that are in the file as they are, and of which task. */
  #written = new WeakMap<object, number>();

  constructor(db: Database) {
    this.#db = db;
    this.#insert = db.prepare(
      `INSERT INTO tasks (number, task_id, revision, state, parked, worker, batch, submitter, ended_at, record)
       VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    );
    this.#update = db.prepare(
      `UPDATE tasks SET revision = revision + 1, state = ?, parked = ?, worker = ?, ended_at = ?, record = ?
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
    this.#count = db.prepare('SELECT count(*) AS count FROM tasks');
    this.#old = db.prepare('SELECT number FROM tasks WHERE ended_at < ? ORDER BY ended_at LIMIT ?');
    this.#oldest = db.prepare('SELECT number FROM tasks WHERE ended_at IS NOT NULL ORDER BY number LIMIT ?');
    this.#forget = db.prepare('DELETE FROM tasks WHERE number = ?');
    this.#forgetReasons = db.prepare('DELETE FROM reasons WHERE number = ?');
  }

  /** Writes a record over the revision it was made from, and returns how many bytes; undefined when another one is stored. */
  put(record: TaskRecord, revision: number): number | undefined {
    const { number, task_id, state, worker, spec, submitter = null, ended_at } = record;
    const parked = record.parked ? 1 : 0;
    const text = textOf(record);
    const { changes } =
      revision === 0
        ? this.#insert.run(number, task_id, state, parked, worker, spec.batch, submitter, ended_at, text)
        : this.#update.run(state, parked, worker, ended_at, text, number, task_id, revision);
    return changes === 0 ? undefined : text.length + this.#putReasons(record);
  }

  #putReasons({ number, spec, explanation }: TaskRecord): number {
    let bytes = 0;
    const decided = explanation === null || this.#written.get(explanation) === number;
    if (this.#written.get(spec) !== number) {
      const asked = JSON.stringify(spec);
      const why = JSON.stringify(explanation);
      this.#keepSpec.run(number, asked, why);
      bytes = asked.length + why.length;
      this.#written.set(spec, number);
    } else if (!decided) {
      const why = JSON.stringify(explanation);
      this.#keepExplanation.run(why, number);
      bytes = why.length;
    }
    if (!decided) this.#written.set(explanation, number);
    return bytes;
  }

  /** The transaction was rolled back: what it wrote is not there. */
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

  find({ states, parked, batch, worker, submitter, before }: TaskQuery, limit: number): TaskRecord[] {
    const conditions: string[] = [];
    const values: (string | number)[] = [];
    const where = (condition: string, ...given: (string | number)[]): void => {
      conditions.push(condition);
      values.push(...given);
    };
    if (states !== undefined) where(`state IN (${states.map(() => '?').join(', ')})`, ...states);
    if (parked !== undefined) where('parked = ?', parked ? 1 : 0);
    if (batch !== undefined) where('batch = ?', batch);
    if (worker !== undefined) where('worker = ?', worker);
    if (submitter !== undefined) where('submitter = ?', submitter);
    if (before !== undefined) where('number < ?', before);
    const filter = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
    const sql = `${JOINED}${filter} ORDER BY number DESC LIMIT ?`;
    return this.#db
      .prepare(sql)
      .all(...values, limit)
      .map((row) => this.#stored(row).record);
  }

  lastNumber(): number {
    return (this.#last.get() as { last: number }).last;
  }

  /** Forgets at most `limit` tasks that ended before a time, or are the oldest of too many; returns how many. */
  prune(before: number, maxTasks: number, limit: number): number {
    const old = this.#old.all(before, limit);
    const over = (this.#count.get() as { count: number }).count - old.length - maxTasks;
    const oldest = over > 0 ? this.#oldest.all(Math.min(over + old.length, limit)) : [];
    const numbers = new Set([...old, ...oldest].map(({ number }) => number as number).slice(0, limit));
    if (numbers.size === 0) return 0;
    // A number is not given twice, not even when the highest one is forgotten.
    this.#keepLast.run(this.lastNumber());
    for (const number of numbers) {
      this.#forget.run(number);
      this.#forgetReasons.run(number);
    }
    return numbers.size;
  }

  #stored(row: object): Stored {
    const { number, revision, ...texts } = row as Row;
    const spec = JSON.parse(texts.spec) as TaskRecord['spec'];
    const explanation = JSON.parse(texts.explanation) as TaskRecord['explanation'];
    this.#written.set(spec, number);
    if (explanation !== null) this.#written.set(explanation, number);
    return { record: { ...(JSON.parse(texts.record) as TaskRecord), spec, explanation }, revision };
  }
}

/** A record without what has a table of its own. Members that are undefined are left out, and a plain copy is quick. */
function textOf(record: TaskRecord): string {
  return JSON.stringify({ ...record, spec: undefined, explanation: undefined });
}
