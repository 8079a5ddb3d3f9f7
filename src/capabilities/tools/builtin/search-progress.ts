/**
 * The position of a search: a small piece of memory that the search thread writes and the host reads after the thread has
 * ended, so that a search that had to be stopped can report its progress: its current file and the number of files before.
 */

/** Bytes before the path: number of files started, bytes of the path. */
const HEADER_BYTES = 8;
const PATH_BYTES = 4096;

export class SearchProgress {
  /** The memory that both threads share; pass it to the other side and wrap it again there. */
  readonly memory: SharedArrayBuffer;
  readonly #counts: Int32Array;
  readonly #path: Uint8Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(HEADER_BYTES + PATH_BYTES)) {
    this.memory = memory;
    this.#counts = new Int32Array(memory, 0, 2);
    this.#path = new Uint8Array(memory, HEADER_BYTES);
  }

  /** Records that the search starts a file. Longer paths are cut. */
  start(path: string): void {
    this.#counts[0]! += 1;
    this.#counts[1] = new TextEncoder().encodeInto(path, this.#path).written;
  }

  /** Files started so far, the current one included. */
  get files(): number {
    return this.#counts[0]!;
  }

  /** The file started last; `''` before the first. */
  get path(): string {
    return Buffer.from(this.#path.subarray(0, this.#counts[1]!)).toString('utf8');
  }
}
