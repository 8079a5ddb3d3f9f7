/**
 * The events of each task, for clients that follow it: a stream of the journal. Volatile, because the record in the task store
 * is authoritative. Entries of one moment are appended together.
 *
 * Nothing of a task stays in memory here after its end.
 */
import type { Journal, NewEntry } from '../../journal/journal.ts';
import type { TaskRecord } from './task.ts';

/** The parts of a stream's name. */
export type TaskName = Pick<TaskRecord, 'task_id' | 'number'>;

/** Digits of a task's number in the name of its stream. */
const NUMBER_DIGITS = 10;

/**
 * Returns the name of the stream of a task. It starts with the task's number, so that new streams come last in the order of
 * names: a database adds them in one place, for any number of streams.
 */
export function taskStream({ task_id, number }: TaskName): string {
  return `task:${String(number).padStart(NUMBER_DIGITS, '0')}:${task_id}`;
}

/** Entries read at a time. */
const PAGE = 500;

interface Stream {
  readonly name: string;
  /** The last cursor in use; undefined while it is being read. */
  cursor: number | undefined;
  waiting: Omit<NewEntry, 'cursor'>[];
  /** True for the stream of a new task, none of whose entries was accepted yet. */
  fresh: boolean;
  /** Entries that were refused; they go before those that wait. */
  refused: Omit<NewEntry, 'cursor'>[];
  /** The submitter whose share has the first entry; later entries change nothing. */
  readonly submitter: string | undefined;
  /** The task has ended: the waiting entries are its last ones. */
  ended: boolean;
}

export class TaskJournal {
  readonly #journal: Journal;
  readonly #now: () => number;
  readonly #streams = new Map<string, Stream>();
  #dirty: Stream[] = [];

  constructor(journal: Journal, now: () => number) {
    this.#journal = journal;
    this.#now = now;
  }

  /** Begins a stream that has no entries yet. */
  begin(task: TaskName, submitter: string | undefined): void {
    this.#streams.set(task.task_id, streamOf(task, { cursor: 0, fresh: true, submitter }));
  }

  write(task: TaskName, kind: string, body: object): void {
    let stream = this.#streams.get(task.task_id);
    if (stream === undefined) {
      stream = streamOf(task, { cursor: undefined, fresh: false, submitter: undefined });
      this.#streams.set(task.task_id, stream);
      void this.#find(stream);
    }
    stream.waiting.push({ ts: this.#now(), kind, request: '', body });
    if (stream.cursor !== undefined && stream.waiting.length === 1) this.#schedule(stream);
  }

  /** Returns the number of entries of this kind that the journal has of a task; 0 where it cannot be read. */
  async count(task: TaskName, kind: string): Promise<number> {
    let count = 0;
    try {
      for (let after = 0; ; ) {
        const { entries } = await this.#journal.read(taskStream(task), after, PAGE);
        count += entries.filter((entry) => entry.kind === kind).length;
        if (entries.length === 0) return count;
        after = (entries.at(-1) as { readonly cursor: number }).cursor;
      }
    } catch {
      // The journal is closed or damaged; the record is in the task store.
      return count;
    }
  }

  /** Closes the stream of an ended task; it stays in the journal. */
  end(taskId: string): void {
    const stream = this.#streams.get(taskId);
    if (stream === undefined) return;
    // Waiting entries are written all the same: the pending write has a reference to the stream.
    this.#streams.delete(taskId);
    stream.ended = true;
    if (stream.cursor !== undefined && stream.waiting.length === 0) this.#journal.release?.(stream.name);
  }

  #schedule(stream: Stream): void {
    if (this.#dirty.length === 0) queueMicrotask(this.#flush);
    this.#dirty.push(stream);
  }

  readonly #flush = (): void => {
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const stream of dirty) this.#append(stream);
  };

  #append(stream: Stream): void {
    let { cursor } = stream;
    // They follow when it is known.
    if (cursor === undefined) return;
    const { waiting } = stream;
    const entries = waiting.map((entry) => ({ ...entry, cursor: ++(cursor as number) }));
    stream.waiting = [];
    stream.cursor = cursor;
    const refused = this.#journal.append(stream.name, entries, 'volatile', stream.submitter);
    if (refused === undefined) stream.fresh = false;
    else refused.catch(() => this.#replace(stream, waiting));
    if (stream.ended) this.#journal.release?.(stream.name);
  }

  /**
   * Replaces the entries of an earlier task of this name that used these cursors: its events are not those of this task, and
   * may be another submitter's. They are removed, and the refused entries follow behind their cursors.
   */
  async #replace(stream: Stream, entries: Stream['waiting']): Promise<void> {
    // A stream with accepted entries: the journal is closed or damaged.
    if (!stream.fresh && stream.cursor !== undefined) return;
    stream.refused.push(...entries);
    if (!stream.fresh) return;
    stream.fresh = false;
    stream.cursor = undefined;
    await this.#find(stream, () => this.#journal.delete(stream.name));
  }

  /** Reads the last cursor, does `then`, and appends the waiting entries. */
  async #find(stream: Stream, then?: () => Promise<void>): Promise<void> {
    let last = 0;
    try {
      ({ last } = await this.#journal.read(stream.name, Number.MAX_SAFE_INTEGER, 1));
      await then?.();
    } catch {
      // The journal is closed or damaged; the record is in the task store.
    }
    stream.cursor = last;
    stream.waiting = [...stream.refused, ...stream.waiting];
    stream.refused = [];
    if (stream.waiting.length > 0) this.#append(stream);
    else if (stream.ended) this.#journal.release?.(stream.name);
  }
}

function streamOf(task: TaskName, state: Pick<Stream, 'cursor' | 'fresh' | 'submitter'>): Stream {
  return { name: taskStream(task), waiting: [], refused: [], ended: false, ...state };
}
