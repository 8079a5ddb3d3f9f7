/**
 * Captures the start and the end of a stream of bytes in fixed memory, at any length: the start of a program's output shows its
 * work, the end shows the outcome.
 */
import { counted } from '../../../base/counted.ts';
import { fromCharacter } from '../../../base/strict-text.ts';
import { wholeCharacters } from './text-bytes.ts';

export class OutputCapture {
  readonly #headLimit: number;
  readonly #tailLimit: number;
  #head: Buffer | undefined;
  /** A ring; the newest byte is before `#tailAt`. */
  #tail: Buffer | undefined;
  #tailAt = 0;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#headLimit = Math.ceil(maxBytes / 2);
    this.#tailLimit = maxBytes - this.#headLimit;
  }

  /** The total number of bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** True when a part in the middle was left out. */
  get truncated(): boolean {
    return this.#bytes > this.#headLimit + this.#tailLimit;
  }

  push(chunk: Buffer): void {
    const headRoom = Math.max(0, this.#headLimit - this.#bytes);
    if (headRoom > 0) {
      this.#head ??= Buffer.allocUnsafe(this.#headLimit);
      chunk.copy(this.#head, this.#bytes, 0, headRoom);
    }
    this.#bytes += chunk.length;
    // Only the newest bytes can still be present at the end.
    const rest = chunk.subarray(headRoom).subarray(-this.#tailLimit);
    if (rest.length === 0 || this.#tailLimit === 0) return;
    this.#tail ??= Buffer.allocUnsafe(this.#tailLimit);
    const first = rest.copy(this.#tail, this.#tailAt);
    if (first < rest.length) rest.copy(this.#tail, 0, first);
    this.#tailAt = (this.#tailAt + rest.length) % this.#tailLimit;
  }

  /** Returns the captured bytes as UTF-8 (other bytes show as U+FFFD), with a line for the size of the missing part. */
  text(): string {
    const head = this.#head?.subarray(0, Math.min(this.#bytes, this.#headLimit)) ?? Buffer.alloc(0);
    const tail = this.#orderedTail();
    if (!this.truncated) return Buffer.concat([head, tail]).toString('utf8');
    const front = wholeCharacters(head);
    const back = fromCharacter(tail);
    const missing = this.#bytes - front.length - back.length;
    return `${front.toString('utf8')}\n… ${counted(missing, 'byte')} left out …\n${back.toString('utf8')}`;
  }

  #orderedTail(): Buffer {
    if (this.#tail === undefined) return Buffer.alloc(0);
    const length = Math.min(this.#tailLimit, this.#bytes - this.#headLimit);
    if (length < this.#tailLimit) return this.#tail.subarray(0, length);
    return Buffer.concat([this.#tail.subarray(this.#tailAt), this.#tail.subarray(0, this.#tailAt)]);
  }
}
