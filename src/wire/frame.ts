/**
 * Cuts a stream of bytes into lines of text: the framing of every byte pipe and of packed WebSocket frames.
 *
 * It serves all readers of newline-delimited JSON, for each chunk as it arrives. It never parses JSON. Rules:
 * docs/protocol/a2e.md#framing.
 *
 * No peer is read without end: past its share of a turn the reader holds the rest of its input, continues in the next
 * turn, and asks its transport to read no more meanwhile. The same holds for the end of a pause. All readers together
 * have a share of a turn, too: those that come later in it wait in a queue.
 *
 * Cost: linear in the bytes for any chunking. Text inside one chunk is copied once, a line that spans chunks twice
 * (three times for the part after its first character above ASCII), and no more than the longest accepted line is held.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { ReadersInLine, TurnShare, turnIsFull } from './turn-share.ts';

/** Reason why a piece of input is malformed. It has been skipped; reading continues with the next line. */
export interface BadLine {
  readonly reason: 'too_large' | 'bad_utf8';
  /** The limit that was passed, in bytes, when `reason` is `too_large`. */
  readonly limit?: number;
}

/** The receiver of the lines. Called in order, from inside `push`, `frame` and `end` or in a later turn; must not throw. */
export interface LineSink {
  /** Receives one line without its line break: never empty or blank, and valid UTF-8 on the wire. */
  line(text: string): void;
  malformed(problem: BadLine): void;
  /**
   * Called with true when the reader has had its share of this turn and holds the rest, so feed it no more; further
   * input waits. Called with false when all input that waited, for this reason or during a pause, was delivered.
   */
  behind?(behind: boolean): void;
}

const NEWLINE = 10;
const RETURN = 13;
const OPEN_BRACE = 123;
const BYTE_ORDER_MARK = 0xfeff;
const REPLACEMENT = '\ufffd';

/**
 * Bytes of short lines that are decoded at once. Lines are slices of that text, which saves a call into native code for
 * each; it is small because a caller that retains one line retains the rest of its block too.
 */
const RUN_BYTES = 4096;

/** Pieces of an unfinished line below this many bytes are gathered in blocks instead of stored separately. */
const SMALL_BYTES = 1024;
const BLOCK_BYTES = 4096;

/** A longer frame is cut in the turn behind that in which it arrived. */
const LONG_FRAME_BYTES = 2 * 1024 * 1024;

/** Units of a share after which it is asked. Asking for each line would cost more than a short line does. */
const SPENT_AT_ONCE = 16;
const KIB_SHIFT = 10;

/** Returns true when the text is only spaces, tabs and carriage returns. */
function isBlank(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 9 && code !== RETURN) return false;
  }
  return true;
}

/** Writes a newline over every carriage return. */
function returnsToNewlines(bytes: Buffer): void {
  for (let at = bytes.indexOf(RETURN); at !== -1; at = bytes.indexOf(RETURN, at + 1)) bytes[at] = NEWLINE;
}

/**
 * The line cutter.
 *
 * - LF and CRLF end a line; a CR elsewhere stays in the text, or ends a line too (`loneReturns`). Blank lines and a byte
 *   order mark at the start are skipped.
 * - UTF-8 is checked strictly: a line with an invalid sequence is `malformed`, never repaired with U+FFFD.
 * - A line longer than the limit is reported once, as soon as it is known, and skipped up to its newline unbuffered.
 * - The sink may call `setMaxBytes`, `pause` and `stop` from inside a call; all count from the next line on.
 */
export class LineReader {
  readonly #sink: LineSink;
  #maxBytes: number;
  /** The beginning of the unfinished line as text, while it is ASCII: later bytes do not affect these. */
  #lineStart = '';
  /** The rest of the unfinished line, in pieces; undefined without one. */
  #pieces: Buffer[] | undefined;
  #heldBytes = 0;
  /** Buffer for small pieces: the last of `#pieces` is its filled part. */
  #block: Buffer | undefined;
  #blockFilled = 0;
  /** Inside an over-long line that was already reported. */
  #skipping = false;
  /** True while no line was seen, so that a byte order mark may follow. */
  #fresh = true;
  readonly #loneReturns: boolean;
  /** True while nothing may be delivered: one of the three below. */
  #halted = false;
  #stopped = false;
  #paused = false;
  /** The rest waits for a later turn, which is scheduled. */
  #yielded = false;
  /** The sink knows that the reader is behind. */
  #behind = false;
  /** Input that waits, in order. */
  #held: Buffer[] | undefined;
  /** The input is frames, not chunks. */
  #framed = false;
  /** Made by the first lines. */
  #share: Pick<TurnShare, 'spend' | 'renew'> | undefined;
  /** False for a reader that was given its share: other readers do not hold it up. */
  readonly #sharesTurns: boolean;
  /** Units spent since the share was asked. */
  #spent = 0;

  /**
   * @param maxBytes longest accepted line in bytes, its line break not counted
   * @param loneReturns a CR alone ends a line as well. `push` then writes a newline over each CR of its chunk: CRLF
   *   becomes two, and the blank line between them is skipped for any cut of the chunks
   * @param share bound on the lines delivered in one turn
   */
  constructor(sink: LineSink, maxBytes: number, loneReturns = false, share?: Pick<TurnShare, 'spend' | 'renew'>) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
    this.#loneReturns = loneReturns;
    this.#share = share;
    this.#sharesTurns = share === undefined;
  }

  /** True when all readers together have had their time in this turn. */
  get #isFull(): boolean {
    return this.#sharesTurns && turnIsFull();
  }

  /** True while input waits for a later turn or for the end of a pause. */
  get holds(): boolean {
    return this.#behind || this.#held !== undefined;
  }

  /** Bytes of the line that is not complete yet. */
  get incompleteBytes(): number {
    return this.#heldBytes;
  }

  /** Changes the longest accepted line, in bytes. */
  setMaxBytes(maxBytes: number): void {
    this.#maxBytes = maxBytes;
  }

  /** Stops all delivery, the rest of the current chunk included. */
  stop(): void {
    this.#stopped = true;
    this.#halted = true;
    this.#held = undefined;
    this.#takePieces();
  }

  /** Holds everything from the next line on (true), or delivers it in a later turn (false). */
  pause(paused: boolean): void {
    this.#paused = paused;
    if (paused) this.#halted = true;
    else if (this.#behind || this.#held !== undefined) this.#yield();
    else this.#halted = this.#stopped;
  }

  /**
   * Takes the next bytes.
   *
   * @param reused the memory of `chunk` will be overwritten after the call, so that no part of it may be retained
   */
  push(chunk: Buffer, reused = false): void {
    if (this.#halted) this.#hold(chunk, 0, reused);
    else if (this.#isFull) {
      this.#hold(chunk, 0, reused);
      this.#yield();
    } else this.#cut(chunk, reused);
  }

  /** Takes one whole frame of a transport that has frames: its end also ends a line. Not to be mixed with `push`. */
  frame(chunk: Buffer): void {
    this.#framed = true;
    if (chunk.length === 0) return;
    if (this.#halted) return this.#hold(chunk, 0, false);
    if (chunk.length <= LONG_FRAME_BYTES && !this.#isFull) return this.#frame(chunk);
    // Putting a long one together was the work of this turn.
    this.#hold(chunk, 0, false);
    this.#yield();
  }

  #frame(chunk: Buffer): void {
    const at = this.#lines(chunk, 0, chunk.length);
    if (at < chunk.length) this.#hold(chunk, at, false);
  }

  /** Counts work for the peer that is no line, such as the reply to a ping frame. */
  spend(units: number): void {
    this.#spent += units;
    if (this.#spent < SPENT_AT_ONCE) return;
    this.#share ??= new TurnShare();
    const full = this.#share.spend(this.#spent);
    this.#spent = 0;
    if (full) this.#yield();
  }

  #cut(chunk: Buffer, reused: boolean): void {
    if (this.#loneReturns) returnsToNewlines(chunk);
    let at = 0;
    if (this.#skipping || this.#heldBytes > 0) {
      const end = chunk.indexOf(NEWLINE);
      if (end === -1) {
        if (!this.#skipping) this.#buffer(chunk, 0, reused);
        return;
      }
      if (this.#skipping) this.#skipping = false;
      else this.#heldLine(chunk.subarray(0, end));
      at = end + 1;
    }
    if (at >= chunk.length) return;
    if (!this.#halted) {
      const last = chunk[chunk.length - 1] === NEWLINE ? chunk.length - 1 : chunk.lastIndexOf(NEWLINE);
      if (last >= at) at = this.#lines(chunk, at, last);
      // The start of a line is not delivered, so it can be buffered at once.
      if (at > last && at < chunk.length && !this.#stopped) return this.#buffer(chunk, at, reused);
    }
    if (at < chunk.length) this.#hold(chunk, at, reused);
  }

  #hold(chunk: Buffer, from: number, reused: boolean): void {
    if (this.#stopped) return;
    const rest = from === 0 ? chunk : chunk.subarray(from);
    this.#held ??= [];
    this.#held.push(reused ? Buffer.from(rest) : rest);
  }

  /** Leaves the rest for the next turn. */
  #yield(): void {
    this.#halted = true;
    if (this.#yielded || this.#stopped) return;
    this.#yielded = true;
    inLine.add(this);
    if (this.#behind) return;
    this.#behind = true;
    this.#sink.behind?.(true);
  }

  /** Continues when the next turn has come. */
  continue(): void {
    this.#yielded = false;
    if (this.#stopped || this.#paused) return;
    this.#halted = false;
    this.#share?.renew();
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const [index, chunk] of held.entries()) {
      if (this.#framed) this.#frame(chunk);
      else this.#cut(chunk, false);
      if (!this.#halted) continue;
      // Later chunks come after the rest of this one.
      for (const later of held.slice(index + 1)) this.#hold(later, 0, false);
      break;
    }
    if (this.#halted) return;
    this.#behind = false;
    this.#sink.behind?.(false);
  }

  /** Ends the input: an unterminated last line counts as a line. */
  end(): void {
    this.#skipping = false;
    if (this.#heldBytes > 0) this.#heldLine();
  }

  /**
   * Delivers the lines of a chunk from `at` on. The last one ends at `last`, a newline or the end of a frame. Returns
   * where the next line starts: behind `last`, unless the reader was halted on the way.
   */
  #lines(chunk: Buffer, at: number, last: number): number {
    while (at <= last) {
      const newline = chunk.indexOf(NEWLINE, at);
      const end = newline === -1 ? last : newline;
      if (end === last || end - at >= RUN_BYTES) {
        this.#oneLine(chunk, at, end);
        at = end + 1;
      } else {
        const runEnd = last - at <= RUN_BYTES ? last : chunk.lastIndexOf(NEWLINE, at + RUN_BYTES);
        at = this.#shortLines(chunk, at, runEnd);
      }
      if (this.#halted) break;
    }
    return at;
  }

  /**
   * Decodes the lines of `bytes[at, runEnd)`, at most {@link RUN_BYTES}, at once and delivers them one by one. Returns where
   * the next line starts.
   */
  #shortLines(bytes: Buffer, at: number, runEnd: number): number {
    const run = bytes.toString('utf8', at, runEnd);
    if (run.includes(REPLACEMENT) && !isUtf8(bytes.subarray(at, runEnd))) {
      // One of the lines is invalid: check each alone.
      while (at <= runEnd && !this.#halted) {
        const newline = bytes.indexOf(NEWLINE, at);
        const end = newline === -1 ? runEnd : newline;
        this.#oneLine(bytes, at, end);
        at = end + 1;
      }
      return at;
    }
    let from = 0;
    for (let to = run.indexOf('\n'); to !== -1; to = run.indexOf('\n', from)) {
      this.#shortLine(run, from, to);
      from = to + 1;
      // A position in the text is one in the bytes only where each character is a byte.
      if (this.#halted) return at + (run.length === runEnd - at ? from : Buffer.byteLength(run.slice(0, from)));
    }
    this.#shortLine(run, from, run.length);
    return runEnd + 1;
  }

  /** Delivers one line of a run: only a limit below the length of a run can be passed here. */
  #shortLine(run: string, from: number, to: number): void {
    const end = to > from && run.charCodeAt(to - 1) === RETURN ? to - 1 : to;
    if (this.#maxBytes < RUN_BYTES && Buffer.byteLength(run.slice(from, end)) > this.#maxBytes) this.#tooLarge();
    else this.#deliver(run, from, end);
  }

  /** Delivers one line as bytes, maybe after a start of ASCII text: the limit is checked before it is decoded. */
  #oneLine(bytes: Buffer, from: number, to: number, lineStart = ''): void {
    let end = to;
    if (to > from) {
      if (bytes[to - 1] === RETURN) end--;
    } else if (lineStart.endsWith('\r')) lineStart = lineStart.slice(0, -1);
    if (lineStart.length + end - from > this.#maxBytes) {
      this.#tooLarge();
      return;
    }
    const rest = bytes.toString('utf8', from, end);
    // Decoding replaces invalid bytes by U+FFFD, so a text without it was valid; one with it may contain a real U+FFFD.
    if (rest.includes(REPLACEMENT) && !isUtf8(bytes.subarray(from, end))) {
      this.#fresh = false;
      this.#sink.malformed({ reason: 'bad_utf8' });
      this.spend(1 + ((end - from) >> KIB_SHIFT));
      return;
    }
    const text = lineStart === '' ? rest : lineStart + rest;
    this.#deliver(text, 0, text.length);
  }

  /** Hands over the line `text[from, to)`, its line break already cut off, unless it is blank. */
  #deliver(text: string, from: number, to: number): void {
    if (this.#fresh) {
      this.#fresh = false;
      if (text.charCodeAt(from) === BYTE_ORDER_MARK) from++;
    }
    if (text.charCodeAt(from) === OPEN_BRACE || !isBlank(text, from, to)) this.#sink.line(text.slice(from, to));
    this.spend(1 + ((to - from) >> KIB_SHIFT));
  }

  /** Buffers the rest of a chunk, the start of a line, or starts skipping when the line cannot be accepted. */
  #buffer(chunk: Buffer, from: number, reused: boolean): void {
    const bytes = chunk.length - from;
    if (this.#heldBytes + bytes > this.#maxBytes + 1) {
      this.#skipping = true;
      this.#tooLarge();
      return;
    }
    this.#heldBytes += bytes;
    if (bytes < SMALL_BYTES) {
      this.#pieces ??= [];
      this.#gather(this.#pieces, chunk, from);
      return;
    }
    const piece = from === 0 ? chunk : chunk.subarray(from);
    if (this.#pieces === undefined && isAscii(piece)) {
      this.#lineStart += piece.toString('latin1');
      return;
    }
    this.#pieces ??= [];
    this.#pieces.push(reused ? Buffer.from(piece) : piece);
    this.#block = undefined;
  }

  /** Copies a small piece behind the small piece before it: input in single bytes must not cost an object for each. */
  #gather(pieces: Buffer[], chunk: Buffer, from: number): void {
    const block = this.#block;
    const filled = this.#blockFilled + chunk.length - from;
    if (block === undefined) {
      // The first small piece gets its own size: mostly it is the beginning of a line that the next chunk ends.
      const first = Buffer.from(from === 0 ? chunk : chunk.subarray(from));
      pieces.push(first);
      this.#block = first;
      this.#blockFilled = first.length;
    } else if (filled <= block.length) {
      chunk.copy(block, this.#blockFilled, from);
      pieces[pieces.length - 1] = block.subarray(0, filled);
      this.#blockFilled = filled;
    } else {
      const next = Buffer.allocUnsafe(BLOCK_BYTES);
      chunk.copy(next, 0, from);
      pieces.push(next.subarray(0, chunk.length - from));
      this.#block = next;
      this.#blockFilled = chunk.length - from;
    }
  }

  /** Delivers the buffered line, with its end if more of it has arrived, and releases its memory. */
  #heldLine(rest?: Buffer): void {
    const bytes = this.#heldBytes + (rest === undefined ? 0 : rest.length);
    const lineStart = this.#lineStart;
    const pieces = this.#takePieces();
    if (this.#stopped) return;
    if (bytes > this.#maxBytes + 1) {
      this.#tooLarge();
      return;
    }
    if (rest !== undefined) pieces.push(rest);
    const end = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    this.#oneLine(end, 0, end.length, lineStart);
  }

  #takePieces(): Buffer[] {
    const pieces = this.#pieces ?? [];
    this.#lineStart = '';
    this.#pieces = undefined;
    this.#block = undefined;
    this.#heldBytes = 0;
    return pieces;
  }

  #tooLarge(): void {
    this.#takePieces();
    this.#fresh = false;
    this.#sink.malformed({ reason: 'too_large', limit: this.#maxBytes });
    this.spend(1);
  }
}

/** Readers that wait for a later turn. */
const inLine = new ReadersInLine();
