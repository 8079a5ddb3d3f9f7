/**
 * Task records in a bucket, under the contract of task stores: each put is compared with the revision the server
 * has, so of two orchestrators only one can go on with a task, whatever they believe. For fleets whose orchestrator may move
 * from one machine to another; on one machine, the SQLite store is faster.
 *
 * Made by whoever puts an orchestrator together.
 * @see docs/nats.md#task-records
 */
import { fail } from '../../../wire/errors.ts';
import { matches, pageLimit, superseded } from '../../orchestrator/store-query.ts';
import type { Stored, TaskQuery, TaskRecord, TaskStore } from '../../orchestrator/task.ts';
import { Bucket, type Entry } from './bucket.ts';
import { type NatsLink, type NatsOptions, openNats } from './connection.ts';
import { MAX_RECORD_BYTES, pack, unpack } from './payload.ts';
import { ensureBucket, type StorageOptions } from './streams.ts';
import { BUCKETS, tokenOf } from './subjects.ts';

export interface NatsTaskStoreOptions extends NatsOptions, Pick<StorageOptions, 'replicas' | 'storage'> {
  /** One for each orchestrator's name. Default `a2a_tasks`. */
  readonly bucket?: string;
}

/** Opens the store. Fails with `unreachable`, `auth_failed`, `not_configured`, `unauthorized`. */
export async function natsTaskStore(options: NatsTaskStoreOptions): Promise<TaskStore> {
  const { bucket: name = BUCKETS.tasks } = options;
  const link = await openNats(`tasks ${name}`, options);
  try {
    await ensureBucket(link, name, options);
    const store = new BucketTaskStore(link, await Bucket.open(link, name));
    await store.load();
    return store;
  } catch (error) {
    await link.close();
    throw error;
  }
}

/** A record as it is kept. */
interface Written {
  /** Another for each write. */
  readonly write: string;
  readonly record: TaskRecord;
}

/** What is known of a record without reading it: what queries ask for. */
interface Known {
  readonly taskId: string;
  readonly revision: number;
  readonly facts: Pick<TaskRecord, 'number' | 'state' | 'parked' | 'worker' | 'ended_at'> & {
    readonly spec: Pick<TaskRecord['spec'], 'batch'>;
  };
}

/** Records read, or removed, at a time. */
const AT_ONCE = 64;

class BucketTaskStore implements TaskStore {
  readonly #link: NatsLink;
  readonly #bucket: Bucket;
  /** By key. */
  readonly #known = new Map<string, Known>();
  readonly #writer = crypto.randomUUID();
  #writes = 0;
  #last = 0;
  #unwatch: (() => void) | undefined;
  #closed = false;

  constructor(link: NatsLink, bucket: Bucket) {
    this.#link = link;
    this.#bucket = bucket;
  }

  async load(): Promise<void> {
    this.#unwatch = await this.#bucket.watch('*', (entry) => this.#learn(entry));
    const manager = await this.#link.manager();
    // Numbers of tasks that were pruned count as well, and so do those whose task was never kept.
    const filter = { subjects_filter: this.#bucket.subject('number.*') };
    const { state } = await this.#link.until(() => manager.streams.info(`KV_${this.#bucket.name}`, filter));
    for (const subject of Object.keys(state.subjects ?? {})) {
      this.#last = Math.max(this.#last, Number(subject.slice(subject.lastIndexOf('.') + 1)) || 0);
    }
  }

  async put(record: TaskRecord, revision: number): Promise<number> {
    this.#check();
    const { task_id: id, number } = record;
    const key = tokenOf(id);
    // Two who write the same must not both believe that they wrote it.
    const value = pack({ write: `${this.#writer}#${++this.#writes}`, record } satisfies Written);
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
    const entry = await this.#bucket.get(tokenOf(taskId));
    if (entry === undefined) return undefined;
    return { record: readRecord(entry.value), revision: entry.revision };
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
    for (let at = 0; at < going.length; at += AT_ONCE) {
      await Promise.all(going.slice(at, at + AT_ONCE).map(([key, known]) => this.#forget(key, known)));
    }
    return going.length;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#unwatch?.();
    await this.#link.close();
  }

  /** Gives a number to a task; fails with `superseded` when another task has it. */
  async #number(taskId: string, number: number): Promise<void> {
    const key = `number.${number}`;
    const given = await this.#bucket.create(key, Buffer.from(JSON.stringify(taskId)));
    if (given !== undefined) return;
    const entry = await this.#bucket.get(key);
    // Given to this task by a try that came no further.
    if (entry !== undefined && Buffer.from(entry.value).toString() === JSON.stringify(taskId)) return;
    throw superseded(taskId, number);
  }

  async #forget(key: string, { facts, taskId }: Known): Promise<void> {
    await this.#bucket.forget(key);
    // The highest number stays, so that no number is given twice.
    if (facts.number < this.#last) await this.#bucket.forget(`number.${facts.number}`);
    if (this.#known.get(key)?.taskId === taskId) this.#known.delete(key);
  }

  #learn({ key, value, revision, gone }: Entry): void {
    const known = this.#known.get(key);
    if (known !== undefined && known.revision >= revision) return;
    if (gone) return void this.#known.delete(key);
    try {
      this.#note(key, readRecord(value), revision);
    } catch (error) {
      this.#link.log?.error('a task record cannot be read', { key, error: (error as Error).message });
    }
  }

  #note(key: string, record: TaskRecord, revision: number): void {
    const known = this.#known.get(key);
    if (known !== undefined && known.revision >= revision) return;
    const { task_id: taskId, number, state, parked, worker, ended_at, spec } = record;
    this.#last = Math.max(this.#last, number);
    this.#known.set(key, {
      taskId,
      revision,
      facts: { number, state, parked, worker, ended_at, spec: { batch: spec.batch } },
    });
  }

  #check(): void {
    if (this.#closed) throw fail('runtime_error', 'the task store is closed');
  }
}

function readRecord(value: Uint8Array): TaskRecord {
  try {
    return (JSON.parse(Buffer.from(unpack(value, MAX_RECORD_BYTES)).toString()) as Written).record;
  } catch (error) {
    throw fail('journal_corrupt', 'a task record cannot be read', {}, error);
  }
}
