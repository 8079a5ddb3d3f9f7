/**
 * What happened to each task, for those who follow it: stream `task:<task_id>` of the journal. Volatile, because the record
 * in the task store is the truth. Entries of one moment are appended together.
 */
import type { Journal, NewEntry } from '../../journal/journal.ts';

/** Name of the stream of a task. */
export function taskStream(taskId: string): string {
  return `task:${taskId}`;
}

/** Entries read at a time. */
const PAGE = 500;

interface Stream {
  /** The last cursor in use; undefined while it is being read. */
  cursor: number | undefined;
  waiting: Omit<NewEntry, 'cursor'>[];
  /** Of a new task, none of whose entries was accepted yet. */
  fresh: boolean;
  /** Entries that were refused; they go before those that wait. */
  refused: Omit<NewEntry, 'cursor'>[];
  /** In whose share the first entry puts it; later ones change nothing. */
  readonly submitter: string | undefined;
}

export class TaskJournal {
  readonly #journal: Journal;
  readonly #now: () => number;
  readonly #streams = new Map<string, Stream>();
  #dirty: [string, Stream][] = [];

  constructor(journal: Journal, now: () => number) {
    this.#journal = journal;
    this.#now = now;
  }

  /** A stream that has no entries yet. */
  begin(taskId: string, submitter: string | undefined): void {
    this.#streams.set(taskId, { cursor: 0, waiting: [], refused: [], fresh: true, submitter });
  }

  write(taskId: string, kind: string, body: object): void {
    let stream = this.#streams.get(taskId);
    if (stream === undefined) {
      stream = { cursor: undefined, waiting: [], refused: [], fresh: false, submitter: undefined };
      this.#streams.set(taskId, stream);
      void this.#find(taskId, stream);
    }
    stream.waiting.push({ ts: this.#now(), kind, request: '', body });
    if (stream.cursor !== undefined && stream.waiting.length === 1) this.#schedule(taskId, stream);
  }

  /** How many entries of this kind the journal has of a task; 0 where it cannot be read. */
  async count(taskId: string, kind: string): Promise<number> {
    let count = 0;
    try {
      for (let after = 0; ; ) {
        const { entries } = await this.#journal.read(taskStream(taskId), after, PAGE);
        count += entries.filter((entry) => entry.kind === kind).length;
        if (entries.length < PAGE) return count;
        after = (entries.at(-1) as { readonly cursor: number }).cursor;
      }
    } catch {
      // The journal is closed or damaged; the record is in the task store.
      return count;
    }
  }

  /** Closes the stream of an ended task; it stays in the journal. */
  end(taskId: string): void {
    // What still waits is written all the same: the pending write has a reference to the stream.
    this.#streams.delete(taskId);
  }

  #schedule(taskId: string, stream: Stream): void {
    if (this.#dirty.length === 0) queueMicrotask(this.#flush);
    this.#dirty.push([taskId, stream]);
  }

  readonly #flush = (): void => {
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const [taskId, stream] of dirty) this.#append(taskId, stream);
  };

  #append(taskId: string, stream: Stream): void {
    let { cursor } = stream;
    // They follow when it is known.
    if (cursor === undefined) return;
    const { waiting } = stream;
    const entries = waiting.map((entry) => ({ ...entry, cursor: ++(cursor as number) }));
    stream.waiting = [];
    stream.cursor = cursor;
    const refused = this.#journal.append(taskStream(taskId), entries, 'volatile', stream.submitter);
    if (refused === undefined) stream.fresh = false;
    else refused.catch(() => this.#replace(taskId, stream, waiting));
  }

  /**
   * An earlier task of this name used these cursors: its events are not those of this one, and may be another submitter's. They
   * are removed, and what was refused follows behind their cursors.
   */
  async #replace(taskId: string, stream: Stream, entries: Stream['waiting']): Promise<void> {
    // Where entries were accepted before, the journal is closed or damaged.
    if (!stream.fresh && stream.cursor !== undefined) return;
    stream.refused.push(...entries);
    if (!stream.fresh) return;
    stream.fresh = false;
    stream.cursor = undefined;
    await this.#find(taskId, stream, () => this.#journal.delete(taskStream(taskId)));
  }

  /** Reads the last cursor, does `then`, and appends what waits. */
  async #find(taskId: string, stream: Stream, then?: () => Promise<void>): Promise<void> {
    let last = 0;
    try {
      ({ last } = await this.#journal.read(taskStream(taskId), Number.MAX_SAFE_INTEGER, 1));
      await then?.();
    } catch {
      // The journal is closed or damaged; the record is in the task store.
    }
    stream.cursor = last;
    stream.waiting = [...stream.refused, ...stream.waiting];
    stream.refused = [];
    if (stream.waiting.length > 0) this.#append(taskId, stream);
  }
}
