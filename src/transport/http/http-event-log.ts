/**
 * The outgoing messages of one HTTP session: numbered from 1, stored until delivered, and for a while after, so that a
 * reader that resumes with `Last-Event-ID` gets exactly the messages it missed.
 *
 * Texts are ASCII without line breaks, so lengths are bytes and a text is one SSE line.
 */

/** Event ids that can no longer be sent again, inclusive. */
export interface LostRange {
  readonly from: number;
  readonly to: number;
}

/** Some events as SSE text, and the id of the last of them. */
export interface Frames {
  readonly text: string;
  readonly lastId: number;
}

/** Cells of the array that may be empty at its front before it is moved up. */
const SLACK = 512;

export class EventLog {
  /** Texts of the ids from `#firstId` on, starting at `#head`. */
  readonly #texts: string[] = [];
  #head = 0;
  #firstId = 1;
  #deliveredId = 0;
  #lastId = 0;
  #waitingBytes = 0;
  #replayBytes = 0;
  readonly #maxReplayBytes: number;

  /** @param maxReplayBytes bytes that are stored after delivery */
  constructor(maxReplayBytes: number) {
    this.#maxReplayBytes = maxReplayBytes;
  }

  /** The newest id; 0 before the first. */
  get lastId(): number {
    return this.#lastId;
  }

  /** Bytes of text not delivered yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Messages not delivered yet. */
  get waiting(): number {
    return this.#lastId - this.#deliveredId;
  }

  append(text: string): void {
    this.#texts.push(text);
    this.#lastId += 1;
    this.#waitingBytes += text.length;
  }

  /** Returns the next undelivered events, at least one and up to about `maxBytes`; undefined when all are delivered. */
  next(maxBytes: number): Frames | undefined {
    if (this.#deliveredId === this.#lastId) return undefined;
    let id = this.#deliveredId;
    let text = '';
    do {
      id += 1;
      text += `id: ${id}\ndata: ${this.#textOf(id)}\n\n`;
    } while (id < this.#lastId && text.length < maxBytes);
    return { text, lastId: id };
  }

  /** Marks everything up to `id` as delivered. */
  delivered(id: number): void {
    while (this.#deliveredId < id) {
      this.#deliveredId += 1;
      const { length } = this.#textOf(this.#deliveredId);
      this.#waitingBytes -= length;
      this.#replayBytes += length;
    }
    this.#evict();
  }

  /**
   * Continues after `id`, the last event a returning reader saw (`0 … lastId`). Messages that it missed wait again;
   * those no longer stored are returned as lost.
   */
  resumeAfter(id: number): LostRange | undefined {
    this.delivered(id);
    const reachable = Math.max(id, this.#firstId - 1);
    while (this.#deliveredId > reachable) {
      const { length } = this.#textOf(this.#deliveredId);
      this.#deliveredId -= 1;
      this.#waitingBytes += length;
      this.#replayBytes -= length;
    }
    return id < reachable ? { from: id + 1, to: reachable } : undefined;
  }

  /** Drops everything; used when the session has ended. */
  clear(): void {
    this.#texts.length = 0;
    this.#head = 0;
    this.#firstId = this.#lastId + 1;
    this.#deliveredId = this.#lastId;
    this.#waitingBytes = 0;
    this.#replayBytes = 0;
  }

  #textOf(id: number): string {
    return this.#texts[this.#head + id - this.#firstId]!;
  }

  #evict(): void {
    while (this.#replayBytes > this.#maxReplayBytes) {
      this.#replayBytes -= this.#texts[this.#head]!.length;
      this.#texts[this.#head] = '';
      this.#head += 1;
      this.#firstId += 1;
    }
    // Compacting only when half is empty makes the cost of a message constant.
    if (this.#head > SLACK && this.#head * 2 > this.#texts.length) {
      this.#texts.splice(0, this.#head);
      this.#head = 0;
    }
  }
}
