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
    this.#streams.set(taskId, { cursor: 0, waiting: [], submitter });
  }

  write(taskId: string, kind: string, body: object): void {
    let stream = this.#streams.get(taskId);
    if (stream === undefined) {
      stream = { cursor: undefined, waiting: [], submitter: undefined };
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
    let cursor = stream.cursor as number;
    const entries = stream.waiting.map((entry) => ({ ...entry, cursor: ++cursor }));
    stream.waiting = [];
    stream.cursor = cursor;
    const refused = this.#journal.append(taskStream(taskId), entries, 'volatile', stream.submitter);
    // An earlier task of this name used these cursors.
    refused?.catch(() => this.#again(taskId, stream, entries));
  }

  async #again(taskId: string, stream: Stream, entries: readonly NewEntry[]): Promise<void> {
    try {
      const { last } = await this.#journal.read(taskStream(taskId), Number.MAX_SAFE_INTEGER, 1);
      if (last === 0) return;
      let cursor = Math.max(last, stream.cursor ?? 0);
      const moved = entries.map((entry) => ({ ...entry, cursor: ++cursor }));
      stream.cursor = cursor;
      this.#journal.append(taskStream(taskId), moved, 'volatile')?.catch(() => {});
    } catch {
      // The journal is closed or damaged; the record is in the task store.
    }
  }

  async #find(taskId: string, stream: Stream): Promise<void> {
    let last = 0;
    try {
      ({ last } = await this.#journal.read(taskStream(taskId), Number.MAX_SAFE_INTEGER, 1));
    } catch {
      // As above.
    }
    stream.cursor = last;
    if (stream.waiting.length > 0) this.#append(taskId, stream);
  }
}
