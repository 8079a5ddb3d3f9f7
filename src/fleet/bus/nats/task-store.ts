/**
 * Task records in a bucket, under the contract of task stores, for an orchestrator that another machine may replace: each put
 * is compared with the revision the server has, and made only while the leader lease is held. On one machine, the SQLite store
 * is faster.
 *
 * @see docs/nats.md#task-records
 */
import { fail } from '../../../wire/errors.ts';
import { matches, pageLimit, superseded } from '../../orchestrator/store-query.ts';
import type { Stored, TaskQuery, TaskRecord, TaskStore } from '../../orchestrator/task.ts';
import { Bucket, type Entry } from './bucket.ts';
import type { NatsLink } from './connection.ts';
import type { Leadership } from './leadership.ts';
import { pack } from './payload.ts';
import { readWritten, type Written } from './stored-record.ts';
import { ensureBucket, type StorageOptions } from './streams.ts';
import { tasksBucket, tokenOf } from './subjects.ts';

/**
 * Opens the store of a leading orchestrator, and fences out the leader before it. Fails with `unreachable`,
 * `unauthorized`, `journal_corrupt`.
 */
export async function natsTaskStore(
  seat: Leadership,
  options: Pick<StorageOptions, 'replicas'> = {},
): Promise<TaskStore> {
  const { link, name } = seat;
  const bucket = tasksBucket(name);
  await ensureBucket(link, bucket, { ...options, tightens: true });
  const store = new BucketTaskStore(link, new Bucket(link, bucket, () => seat.check()));
  try {
    await store.load();
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Facts of a record that are known without reading it: those that queries filter by. */
interface Known {
  readonly taskId: string;
  readonly revision: number;
  readonly facts: Pick<TaskRecord, 'number' | 'submitter' | 'state' | 'parked' | 'worker' | 'ended_at'> & {
    readonly spec: Pick<TaskRecord['spec'], 'batch'>;
  };
}

/** Records read, or removed, at a time. */
const AT_ONCE = 64;
/** Maximum number of conflicts on one record with writes that the earlier orchestrator sent in time. */
const REWRITES = 16;

class BucketTaskStore implements TaskStore {
  readonly #link: NatsLink;
  readonly #bucket: Bucket;
  /** Known facts by key. */
  readonly #known = new Map<string, Known>();
  readonly #writer = crypto.randomUUID();
  #writes = 0;
  #last = 0;
  #unwatch: (() => void) | undefined;
  #loaded = false;
  #closed = false;

  constructor(link: NatsLink, bucket: Bucket) {
    this.#link = link;
    this.#bucket = bucket;
  }

  async load(): Promise<void> {
    this.#unwatch = await this.#bucket.watch('*', (entry) => this.#learn(entry));
    const manager = await this.#link.manager();
    const filter = { subjects_filter: this.#bucket.subject('number.*') };
    const { state } = await this.#link.until(() => manager.streams.info(`KV_${this.#bucket.name}`, filter));
    const given: number[] = [];
    for (const subject of Object.keys(state.subjects ?? {})) {
      const key = subject.slice(this.#bucket.subject('').length);
      if (NUMBER_KEY.test(key)) given.push(Number(key.slice(key.indexOf('.') + 1)));
      else this.#aside(key, 'not a number of a task');
    }
    // Numbers of tasks that were pruned count as well, and so do those whose task was never stored.
    for (const number of given) this.#last = Math.max(this.#last, number);
    await this.#shutOut(given);
    this.#loaded = true;
  }

  /**
   * Writes each open record again. Writes that an orchestrator sent before it lost its lease may arrive after this one has
   * read; it cannot write over these records, and tasks it had only given a number cannot come any more.
   */
  async #shutOut(given: readonly number[]): Promise<void> {
    const kept = new Set([...this.#known.values()].map(({ facts }) => facts.number));
    await inPages(
      given.filter((number) => !kept.has(number)),
      (number) => this.#bar(number),
    );
    const open = [...this.#known].filter(([, { facts }]) => facts.ended_at === null);
    await inPages(open, ([key]) => this.#rewrite(key));
  }

  async #bar(number: number): Promise<void> {
    const entry = await this.#bucket.get(numberKey(number));
    if (entry === undefined) return;
    const taskId = readTaskId(entry.value);
    // Its task is unknown, and the number stays given.
    if (taskId === undefined) return this.#aside(numberKey(number), 'not the id of a task');
    const key = tokenOf(taskId);
    if (!this.#known.has(key)) await this.#bucket.preventCreate(key);
    const came = await this.#bucket.get(key);
    if (came !== undefined) return this.#learn(came);
    // The highest number stays, so that no number is given twice.
    if (number < this.#last) await this.#bucket.purge(numberKey(number));
  }

  async #rewrite(key: string): Promise<void> {
    for (let tries = 0; tries < REWRITES; tries++) {
      const entry = await this.#bucket.get(key);
      if (entry === undefined) return void this.#known.delete(key);
      const record = this.#readable(key, entry.value);
      if (record === undefined) return void this.#known.delete(key);
      const kept = await this.#bucket.update(key, this.#written(record), entry.revision);
      if (kept !== undefined) return this.#note(key, record, kept);
    }
    throw superseded(this.#known.get(key)?.taskId ?? key);
  }

  async put(record: TaskRecord, revision: number): Promise<number> {
    this.#check();
    const { task_id: id, number } = record;
    const key = tokenOf(id);
    const value = this.#written(record);
    if (revision === 0) await this.#number(id, number);
    const kept =
      revision === 0 ? await this.#bucket.create(key, value) : await this.#bucket.update(key, value, revision);
    if (kept === undefined) throw superseded(id);
    this.#last = Math.max(this.#last, number);
    this.#note(key, record, kept);
    return kept;
  }

  async get(taskId: string): Promise<Stored | undefined> {
    this.#check();
    const key = tokenOf(taskId);
    const entry = await this.#bucket.get(key);
    const record = entry && this.#readable(key, entry.value);
    return entry && record && { record, revision: entry.revision };
  }

  async *open(): AsyncIterable<Stored> {
    this.#check();
    const open = [...this.#known.values()].filter(({ facts }) => facts.ended_at === null);
    open.sort((one, other) => one.facts.number - other.facts.number);
    for (let at = 0; at < open.length; at += AT_ONCE) {
      const page = await Promise.all(open.slice(at, at + AT_ONCE).map(({ taskId }) => this.get(taskId)));
      for (const stored of page) if (stored !== undefined && stored.record.ended_at === null) yield stored;
    }
  }

  async find(query: TaskQuery): Promise<readonly TaskRecord[]> {
    this.#check();
    const limit = pageLimit(query);
    // A query asks for nothing that is not among the facts.
    const found = [...this.#known.values()].filter(({ facts }) => matches(facts as TaskRecord, query));
    found.sort((one, other) => other.facts.number - one.facts.number);
    const records: TaskRecord[] = [];
    for (let at = 0; at < found.length && records.length < limit; at += AT_ONCE) {
      const page = await Promise.all(found.slice(at, at + AT_ONCE).map(({ taskId }) => this.get(taskId)));
      for (const stored of page) if (stored !== undefined && matches(stored.record, query)) records.push(stored.record);
    }
    return records.slice(0, limit);
  }

  async lastNumber(): Promise<number> {
    this.#check();
    return this.#last;
  }

  async prune(before: number, maxTasks: number): Promise<number> {
    this.#check();
    const ended = [...this.#known].filter(([, { facts }]) => facts.ended_at !== null);
    ended.sort(([, one], [, other]) => one.facts.number - other.facts.number);
    const isOld = ([, { facts }]: (typeof ended)[number]): boolean => (facts.ended_at as number) < before;
    const old = ended.filter(isOld);
    const over = this.#known.size - old.length - maxTasks;
    const going = [...old, ...ended.filter((one) => !isOld(one)).slice(0, Math.max(0, over))];
    await inPages(going, ([key, known]) => this.#forget(key, known));
    return going.length;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#unwatch?.();
  }

  /** Packs a record with a unique mark: two writers of equal records must not both believe that they wrote it. */
  #written(record: TaskRecord): Uint8Array {
    return pack({ write: `${this.#writer}#${++this.#writes}`, record } satisfies Written);
  }

  /** Gives a number to a task; fails with `superseded` when another task has it. */
  async #number(taskId: string, number: number): Promise<void> {
    const key = numberKey(number);
    const given = await this.#bucket.create(key, Buffer.from(JSON.stringify(taskId)));
    if (given !== undefined) return;
    const entry = await this.#bucket.get(key);
    // Given to this task by a try that got no further.
    if (entry !== undefined && Buffer.from(entry.value).toString() === JSON.stringify(taskId)) return;
    throw superseded(taskId, number);
  }

  async #forget(key: string, { facts, taskId }: Known): Promise<void> {
    await this.#bucket.purge(key);
    // The highest number stays, so that no number is given twice.
    if (facts.number < this.#last) await this.#bucket.purge(numberKey(facts.number));
    if (this.#known.get(key)?.taskId === taskId) this.#known.delete(key);
  }

  #learn({ key, value, revision, removed }: Entry): void {
    const known = this.#known.get(key);
    if (known !== undefined && known.revision >= revision) return;
    if (removed) return void this.#known.delete(key);
    try {
      const { write, record } = readWritten(key, value, this.#writer);
      const foreign = this.#loaded && !write.startsWith(this.#writer) && record.ended_at === null;
      if (foreign) {
        // Acknowledged too late: it is on disk, and loaded at the next start.
        const { task_id } = record;
        this.#link.log?.error('a late write of the previous orchestrator was found and replaced', { task_id });
      }
      this.#note(key, record, revision);
    } catch (error) {
      this.#known.delete(key);
      this.#aside(key, (error as Error).message);
    }
  }

  #readable(key: string, value: Uint8Array): TaskRecord | undefined {
    try {
      return readWritten(key, value, this.#writer).record;
    } catch (error) {
      return this.#aside(key, (error as Error).message);
    }
  }

  #aside(key: string, reason: string): undefined {
    this.#bucket.setAside(key, reason);
  }

  #note(key: string, record: TaskRecord, revision: number): void {
    const known = this.#known.get(key);
    if (known !== undefined && known.revision >= revision) return;
    const { task_id: taskId, number, submitter, state, parked, worker, ended_at, spec } = record;
    this.#last = Math.max(this.#last, number);
    this.#known.set(key, {
      taskId,
      revision,
      facts: { number, submitter, state, parked, worker, ended_at, spec: { batch: spec.batch } },
    });
  }

  #check(): void {
    if (this.#closed) throw fail('runtime_error', 'the task store is closed');
  }
}

function readTaskId(value: Uint8Array): string | undefined {
  try {
    const found: unknown = JSON.parse(Buffer.from(value).toString());
    return typeof found === 'string' && found !== '' ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Numbers above are none a counter has reached. */
const NUMBER_KEY = /^number\.[1-9]\d{0,14}$/;
const numberKey = (number: number): string => `number.${number}`;

/** Does something to each, a bounded number at a time. */
async function inPages<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < items.length; at += AT_ONCE) await Promise.all(items.slice(at, at + AT_ONCE).map(work));
}
