/**
 * The output of one process: numbered pieces in a store of a fixed size, and the readers that follow it. Pieces that a reader
 * has not got are never dropped: the process waits for the reader. Without a reader, the oldest pieces are dropped, or the
 * process waits, as its caller chose.
 */

/** The stream that a process writes to. */
export type StreamName = 'stdout' | 'stderr';

/** One line, or a part of one that is very long. */
export interface Piece {
  /** Counts from 0 within the process. */
  readonly seq: number;
  readonly stream: StreamName;
  readonly text: string;
}

/** A reader; the pieces below `next` are no longer needed for it. */
export interface Cursor {
  next: number;
}

/** Cost of a piece beside its characters, in stores and in windows. */
const PIECE_COST = 64;
/** Number of dropped slots at the front of the list after which the list is moved. */
const MOVED_AT = 4096;

export const costOf = ({ text }: Pick<Piece, 'text'>): number => text.length + PIECE_COST;

export class Output {
  /** Bytes that the process has written. */
  bytes = 0;
  readonly #limit: number;
  readonly #pausing: boolean;
  #pieces: (Piece | undefined)[] = [];
  /** Index of the oldest piece in the list. */
  #head = 0;
  #first = 0;
  #size = 0;
  /** Number below which readers have got the pieces. */
  #read = 0;
  #ended = false;
  readonly #cursors = new Set<Cursor>();
  #room: PromiseWithResolvers<void> | undefined;
  #more: PromiseWithResolvers<void> | undefined;

  /**
   * @param limit of the store, in characters with 64 for each piece
   * @param pausing true: the process waits as long as nothing was read; false: the oldest pieces are dropped
   */
  constructor(limit: number, pausing: boolean) {
    this.#limit = limit;
    this.#pausing = pausing;
  }

  /** Number of the oldest stored piece. */
  get first(): number {
    return this.#first;
  }

  /** Number of the next piece. */
  get next(): number {
    return this.#first + this.#pieces.length - this.#head;
  }

  /** True while the process has to wait for a reader. */
  get full(): boolean {
    return this.#size > this.#limit;
  }

  /** True when no piece will be added. */
  get ended(): boolean {
    return this.#ended;
  }

  push(stream: StreamName, text: string): void {
    const piece = { seq: this.next, stream, text };
    this.#pieces.push(piece);
    this.#size += costOf(piece);
    this.#trim();
    this.#more?.resolve();
    this.#more = undefined;
  }

  /** Records that no further piece will arrive. */
  end(): void {
    this.#ended = true;
    this.#more?.resolve();
    this.#more = undefined;
    this.#room?.resolve();
  }

  /** Resolves when the store is no longer full. */
  room(): Promise<void> {
    if (!this.full || this.#ended) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** Resolves with the next news: a piece, or the end. */
  more(): Promise<void> {
    this.#more ??= Promise.withResolvers();
    return this.#more.promise;
  }

  piece(seq: number): Piece | undefined {
    return this.#pieces[this.#head + seq - this.#first];
  }

  /** Opens a reader: retains the pieces that it has not got, from the given piece on or the oldest that is stored. */
  open(from: number): Cursor {
    const cursor = { next: Math.min(Math.max(from, this.#first), this.next) };
    this.#cursors.add(cursor);
    return cursor;
  }

  /** Records that a reader has got the pieces below `next`. */
  advance(cursor: Cursor, next: number): void {
    if (next <= cursor.next) return;
    cursor.next = Math.min(next, this.next);
    this.#read = Math.max(this.#read, cursor.next);
    if (this.full) this.#trim();
  }

  close(cursor: Cursor): void {
    this.#cursors.delete(cursor);
    if (this.full) this.#trim();
  }

  /** Drops the oldest pieces down to the limit, as far as readers allow. */
  #trim(): void {
    let bound = this.#cursors.size === 0 && !this.#pausing ? this.next : this.#read;
    for (const { next } of this.#cursors) bound = Math.min(bound, next);
    while (this.full && this.#first < bound) {
      this.#size -= costOf(this.#pieces[this.#head] as Piece);
      this.#pieces[this.#head++] = undefined;
      this.#first++;
    }
    if (this.#head > MOVED_AT && this.#head * 2 > this.#pieces.length) {
      this.#pieces = this.#pieces.slice(this.#head);
      this.#head = 0;
    }
    if (this.full) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}
