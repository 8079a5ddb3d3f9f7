/**
 * Reads a `text/event-stream` as it arrives and passes on one event after the other.
 *
 * Rules: the event stream format of the HTML standard (fields `event`, `data`, `id`, `retry`, comments, CR, LF and CRLF
 * as line ends). Linear in the bytes for any chunking, and at most about twice the longest accepted message is
 * buffered. UTF-8 is strict: nothing is replaced.
 */
import { Buffer } from 'node:buffer';
import { strictText } from '../strict-text.ts';

/** Returns true if a `Content-Type` names this format: in letters of either case, with parameters or without. */
export const isEventStream = (contentType: string | null | undefined): boolean =>
  /^\s*text\/event-stream\s*(?:;|$)/i.test(contentType ?? '');

/** Reason why an event could not be delivered. */
export interface SseProblem {
  readonly reason: 'too_large' | 'bad_utf8';
  /** The limit that was passed, in bytes, when `reason` is `too_large`. */
  readonly limit?: number;
}

/** Receives the events. Must not throw. */
export interface EventSink {
  /** Receives one event. `id` is the last id seen on this stream so far, `''` before the first. */
  event(type: string, data: string, id: string): void;
  /** Receives an event that could not be delivered; `id` as above. */
  malformed(problem: SseProblem, id: string): void;
  /** Receives the server's wish for the delay before a reconnect. */
  retry(delayMs: number): void;
  /** An event without data, which sets the id of the stream alone. */
  empty?(id: string): void;
}

const LF = 0x0a;
const CR = 0x0d;
/** A line is longer than its message by its field name; other fields may have as much. */
const FIELD_ROOM = 256;
const NOTHING = Buffer.alloc(0);

export class SseReader {
  readonly #sink: EventSink;
  #maxBytes: number;
  /** The unfinished line: the first `#tailBytes` bytes of `#tail`, which grows by doubling. */
  #tail = NOTHING;
  #tailBytes = 0;
  /** Inside a line that is too long; it is skipped up to its end. */
  #skipping = false;
  #afterReturn = false;
  #fresh = true;
  // The event being put together.
  #type = '';
  #data: string | undefined;
  #dataBytes = 0;
  #id = '';
  #problem: SseProblem | undefined;

  /** @param maxBytes longest accepted message, in bytes */
  constructor(sink: EventSink, maxBytes: number) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  setMaxBytes(maxBytes: number): void {
    this.#maxBytes = maxBytes;
  }

  /** Accepts the next bytes of the stream. They are copied where they must outlive the call. */
  push(bytes: Buffer): void {
    const chunk = this.#afterReturn || bytes.includes(CR) ? this.#withoutReturns(bytes) : bytes;
    const last = chunk.lastIndexOf(LF);
    if (last === -1) {
      this.#append(chunk);
      return;
    }
    let start = 0;
    if (this.#tailBytes > 0 || this.#skipping) {
      const end = chunk.indexOf(LF);
      this.#append(chunk.subarray(0, end));
      start = end + 1;
      this.#tailBytesLine();
    }
    if (start <= last) this.#lines(chunk.subarray(start, last + 1));
    if (last + 1 < chunk.length) this.#append(chunk.subarray(last + 1));
  }

  /** Turns CR and CRLF into LF; a CR at the very end may be half of a CRLF. */
  #withoutReturns(bytes: Buffer): Buffer {
    const copy = Buffer.allocUnsafe(bytes.length);
    let length = 0;
    for (const byte of bytes) {
      const second = byte === LF && this.#afterReturn;
      this.#afterReturn = byte === CR;
      if (second) continue;
      copy[length] = byte === CR ? LF : byte;
      length += 1;
    }
    return copy.subarray(0, length);
  }

  #append(piece: Buffer): void {
    if (this.#skipping || piece.length === 0) return;
    const total = this.#tailBytes + piece.length;
    if (total > this.#maxBytes + FIELD_ROOM) {
      this.#skipping = true;
      this.#clear();
      this.#tooLarge();
      return;
    }
    if (total > this.#tail.length) {
      const grown = Buffer.allocUnsafe(Math.max(total, this.#tail.length * 2));
      this.#tail.copy(grown, 0, 0, this.#tailBytes);
      this.#tail = grown;
    }
    piece.copy(this.#tail, this.#tailBytes);
    this.#tailBytes = total;
  }

  #tailBytesLine(): void {
    if (this.#skipping) {
      this.#skipping = false;
      return;
    }
    const line = this.#tail.subarray(0, this.#tailBytes);
    this.#clear();
    this.#lineOfBytes(line);
  }

  #clear(): void {
    this.#tail = NOTHING;
    this.#tailBytes = 0;
  }

  /** Handles whole lines, each with its LF. They are decoded at once; line by line only when one of them has an error. */
  #lines(bytes: Buffer): void {
    const text = strictText(bytes);
    if (text === undefined) {
      for (let start = 0; start < bytes.length; ) {
        const end = bytes.indexOf(LF, start);
        this.#lineOfBytes(bytes.subarray(start, end));
        start = end + 1;
      }
      return;
    }
    const ascii = text.length === bytes.length;
    for (let start = 0; start < text.length; ) {
      const end = text.indexOf('\n', start);
      this.#line(text, start, end, ascii);
      start = end + 1;
    }
  }

  #lineOfBytes(bytes: Buffer): void {
    const text = strictText(bytes);
    if (text === undefined) this.#problem ??= { reason: 'bad_utf8' };
    else this.#line(text, 0, text.length, text.length === bytes.length);
  }

  /** Handles one line: the characters `start … end` of `text`. */
  #line(text: string, from: number, end: number, ascii: boolean): void {
    let start = from;
    if (this.#fresh) {
      this.#fresh = false;
      if (text.charCodeAt(start) === 0xfeff) start += 1;
    }
    if (start === end) {
      this.#dispatch();
      return;
    }
    if (text.startsWith('data: ', start)) {
      this.#addData(text.slice(start + 6, end), ascii);
      return;
    }
    if (text.startsWith('id: ', start)) {
      this.#setId(text.slice(start + 4, end));
      return;
    }
    this.#field(text.slice(start, end), ascii);
  }

  /** Handles the rare forms: no blank after the colon, no colon at all, other fields, comments. */
  #field(line: string, ascii: boolean): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'data') this.#addData(value, ascii);
    else if (name === 'id') this.#setId(value);
    else if (name === 'event') this.#type = value;
    else if (name === 'retry' && /^\d{1,9}$/.test(value)) this.#sink.retry(Number(value));
  }

  #setId(value: string): void {
    if (!value.includes('\0')) this.#id = value;
  }

  #addData(value: string, ascii: boolean): void {
    this.#dataBytes += ascii ? value.length : Buffer.byteLength(value);
    if (this.#dataBytes > this.#maxBytes) {
      this.#tooLarge();
      return;
    }
    // A line break inside JSON text is white space, and a message must be one line.
    this.#data = this.#data === undefined ? value : `${this.#data} ${value}`;
    this.#dataBytes += 1;
  }

  #tooLarge(): void {
    this.#problem ??= { reason: 'too_large', limit: this.#maxBytes };
    this.#data = undefined;
  }

  #dispatch(): void {
    const data = this.#data;
    const problem = this.#problem;
    const type = this.#type;
    this.#data = undefined;
    this.#dataBytes = 0;
    this.#problem = undefined;
    this.#type = '';
    if (problem !== undefined) this.#sink.malformed(problem, this.#id);
    else if (data !== undefined && data.trim() !== '') this.#sink.event(type, data, this.#id);
    else if (this.#id !== '') this.#sink.empty?.(this.#id);
  }
}
