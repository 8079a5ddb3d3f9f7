/**
 * A link over byte streams: a socket, or a pair of pipes.
 *
 * `socket.ts`, `stdio.ts` and `subprocess.ts` create the streams and handle their peculiarities. This file has the
 * shared part: framing, packed writes, half-close, backpressure, and a close that is bounded and reported once.
 */
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { toAscii } from '../wire/ascii.ts';
import { type BadLine, LineReader, type LineSink } from '../wire/frame.ts';
import {
  type CloseInfo,
  DEFAULT_MAX_MESSAGE_BYTES,
  type Link,
  type LinkMeter,
  type LinkReceiver,
  type TransportKind,
} from './link.ts';
import { ProtocolSniffer } from './protocol-sniffer.ts';
import { type OutboxTarget, SendBuffer } from './send-buffer.ts';
import { unsentBytes } from './unsent-bytes.ts';

const DEFAULT_GRACE_MS = 2000;

/** The way in which the streams of a link ended: by themselves, because the time to close was up, or by `destroy`. */
export type Ending = 'finished' | 'expired' | 'dropped';

export interface StreamLinkOptions {
  readonly transport: TransportKind;
  readonly peer: string;
  /** The same object as `writable` for a socket. Must not flow yet. A socket must allow half-open. */
  readonly readable: Readable;
  readonly writable: Writable;
  readonly maxMessageBytes?: number;
  /** A carriage return alone ends a message too. Default false. */
  readonly loneReturns?: boolean;
  /** Closes the link at once when its first bytes are HTTP or TLS. */
  readonly firstByteGuard?: boolean;
  /**
   * True when closing needs nothing from the peer: written bytes are safe once the system has them. By default a link
   * waits, within its grace, until the peer has ended its side too, because closing earlier may destroy data in
   * transit.
   */
  readonly closesAlone?: boolean;
  /**
   * Does the last work after the streams have ended and before `closed` is reported, such as waiting for a process.
   * Must settle.
   */
  readonly settle?: (cause: CloseInfo, ending: Ending, graceMs: number) => Promise<CloseInfo>;
}

/**
 * Memory that sockets with `onread` read into, shared by all of them: a chunk is used up before the next read, so nothing
 * in it means anything between two reads. Reading so costs a third less CPU for a small message than a fresh buffer each.
 */
const sharedReadBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** Target of the bytes of a socket once its link exists. */
export interface ReadTarget {
  link?: { receive(chunk: Buffer, reused: boolean): void };
}

/**
 * Returns the `onread` option of a socket whose data goes to `target`. A separate function, so that no value of the
 * caller's scope lives as long as the socket. The memory is shared only on systems that read when data has arrived; on
 * Windows reads are started ahead, so each socket gets separate memory.
 */
export function readInto(target: ReadTarget): {
  buffer: Uint8Array;
  callback: (bytes: number, buffer: Uint8Array) => boolean;
} {
  const memory = process.platform === 'win32' ? Buffer.allocUnsafeSlow(64 * 1024) : sharedReadBuffer;
  return {
    buffer: memory,
    callback(bytes) {
      target.link?.receive(memory.subarray(0, bytes), true);
      return true;
    },
  };
}

/** The writing side of a link as its outbox sees it. */
class StreamTarget implements OutboxTarget {
  readonly #writable: Writable;
  readonly outbox = new SendBuffer(this);

  constructor(writable: Writable) {
    this.#writable = writable;
  }

  write(pack: string, isLast: boolean): void {
    // The line break first: appended later, it would make a second copy of a long message.
    this.#writable.write(toAscii(isLast ? `${pack}\n` : pack), 'latin1');
    // Mostly the system accepts everything at once. A callback would then cost a turn through the tick queue for
    // nothing (a tenth of the CPU of a small message), so an empty write requests it only when bytes still wait.
    if (this.#writable.writableLength > 0) this.#writable.write('', 'latin1', this.outbox.written);
  }

  get pending(): number {
    return this.#writable.writableLength;
  }
}

interface Closing {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reason: string;
  readonly graceMs: number;
}

/** A link over a readable and a writable stream of bytes. */
export class StreamLink implements Link, LineSink {
  readonly transport: TransportKind;
  readonly peer: string;
  readonly text = true;
  meter: LinkMeter | undefined;
  readonly #readable: Readable;
  readonly #writable: Writable;
  readonly #options: StreamLinkOptions;
  readonly #reader: LineReader;
  #guard: ProtocolSniffer | undefined;
  /** Made by the first message. */
  #sendBuffer: SendBuffer | undefined;
  #receiver: LinkReceiver | undefined;
  #paused = false;
  /** The reader has had its share of this turn. */
  #behind = false;
  #chunks = 0;
  #opened = false;
  #inputEnded = false;
  #outputBroken = false;
  /** The output was ended by this side, which still reads. */
  #halfEnded = false;
  /** True when everything was written, in order, before the end of the output. */
  #outputFinished = false;
  /** Streams that have not emitted `close`. */
  #streamsOpen: number;
  #closing: Closing | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ending: Ending = 'finished';
  #problem: string | undefined;
  #ended = false;
  #cause: CloseInfo | undefined;

  constructor(options: StreamLinkOptions) {
    this.#options = options;
    this.transport = options.transport;
    this.peer = options.peer;
    this.#readable = options.readable;
    this.#writable = options.writable;
    this.#reader = new LineReader(this, options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES, options.loneReturns);
    if (options.firstByteGuard) this.#guard = new ProtocolSniffer();
    const onError = (error: Error): void => {
      this.#problem ??= error.message;
    };
    this.#readable.on('error', onError);
    this.#readable.on('end', () => {
      this.#inputEnded = true;
      if (!this.#reader.holds) this.#inputEnd();
    });
    this.#readable.once('close', () => this.#inputGone());
    this.#streamsOpen = 1;
    if ((this.#writable as object) === this.#readable) return;
    this.#streamsOpen = 2;
    this.#writable.on('error', onError);
    this.#writable.once('close', () => this.#outputGone());
  }

  open(receiver: LinkReceiver): void {
    this.#receiver = receiver;
    if (this.#opened) return;
    this.#opened = true;
    const cause = this.#cause;
    if (cause !== undefined) return process.nextTick(() => this.#receiver?.closed(cause));
    // A socket that reads into shared memory emits no `data`; its chunks arrive through `receive`.
    this.#readable.on('data', (chunk: Buffer) => this.receive(chunk));
    if (!this.#paused) this.#readable.resume();
  }

  send(message: string | object): void {
    if (this.#closing !== undefined || this.#ended || this.#outputBroken || this.#halfEnded) return;
    this.#sendBuffer ??= new StreamTarget(this.#writable).outbox;
    this.#sendBuffer.send(message as string);
  }

  get buffered(): number {
    return this.#ended || this.#sendBuffer === undefined ? 0 : this.#sendBuffer.buffered;
  }

  get progress(): number {
    return this.#sendBuffer === undefined ? 0 : this.#sendBuffer.handed - unsentBytes(this.#writable);
  }

  get isClosed(): boolean {
    return this.#cause !== undefined;
  }

  get received(): number | undefined {
    return this.#opened && !this.#paused ? this.#chunks : undefined;
  }

  drained(lowWaterBytes = 0): Promise<void> {
    return this.#sendBuffer === undefined ? Promise.resolve() : this.#sendBuffer.drained(lowWaterBytes);
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    this.#reader.pause(paused);
    this.#flow();
  }

  /** Reads on, or does not, as the owner of the link and the reader want it. */
  #flow(): void {
    if (!this.#opened || this.#ended || this.#closing !== undefined) return;
    if (!this.#paused && !this.#behind) return void this.#readable.resume();
    this.#readable.pause();
    // A resume of the same turn is still pending: it would start a socket that was dialled again.
    process.nextTick(() => {
      if ((this.#paused || this.#behind) && this.#closing === undefined) this.#readable.pause();
    });
  }

  setMaxMessageBytes(bytes: number): void {
    this.#reader.setMaxBytes(bytes);
  }

  end(): void {
    if (this.#halfEnded || this.#closing !== undefined || this.#ended || this.#outputBroken) return;
    this.#halfEnded = true;
    this.#endOutput(() => {});
  }

  #endOutput(written: () => void): void {
    this.#sendBuffer?.flushAll();
    this.#writable.end((error?: Error | null) => {
      this.#outputFinished = !error;
      written();
    });
  }

  close(reason = 'closed', graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (this.#closing !== undefined) return this.#closing.promise;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closing = { promise, resolve, reason, graceMs };
    if (this.#cause !== undefined) resolve();
    if (this.#ended) return promise;
    this.#reader.stop();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#problem ??= `the peer did not finish within ${graceMs} ms`;
      this.#drop('expired');
    }, graceMs);
    const written = (): void => {
      if (!this.#options.closesAlone) return;
      this.#readable.destroy();
      // Node's own stdout stays open after its end unless it is destroyed.
      this.#writable.destroy();
    };
    if (this.#halfEnded) written();
    else this.#endOutput(written);
    // The rest of the input is read to its end and dropped: only so the peer's end is seen.
    this.#readable.resume();
    return promise;
  }

  destroy(reason = 'dropped'): void {
    if (this.#ended) return;
    this.#problem = reason;
    this.#drop('dropped');
  }

  /** Accepts bytes of the peer. For the owner of a socket that reads into {@link readInto} memory. */
  receive(chunk: Buffer, reused = false): void {
    this.#chunks += 1;
    if (this.#guard !== undefined) {
      const verdict = this.#guard.judge(chunk);
      if (verdict === 'foreign') return this.destroy('not a message: HTTP or TLS');
      if (verdict === 'ours') this.#guard = undefined;
    }
    this.#reader.push(chunk, reused);
    if (this.meter !== undefined) this.meter(chunk.length, this.#reader.incompleteBytes);
  }

  /** Handles one line of the reader. */
  line(text: string): void {
    this.#receiver?.message(text);
  }

  /** Handles one malformed line of the reader. */
  malformed(problem: BadLine): void {
    this.#receiver?.malformed(problem);
  }

  /** Handles the end of the input: everything before it was delivered. */
  #inputEnd(): void {
    if (this.#closing !== undefined || this.#ended) return;
    this.#reader.end();
    // The last line may have made the receiver close the link.
    if (this.#closing === undefined && !this.#ended) this.#receiver?.ended();
  }

  /** Called when the reader has had its share of this turn, or has delivered the rest. */
  behind(behind: boolean): void {
    this.#behind = behind;
    if (!behind && this.#inputEnded) this.#inputEnd();
    else this.#flow();
  }

  #inputGone(): void {
    if (--this.#streamsOpen === 0) this.#finish();
    else if (!this.#inputEnded && this.#closing === undefined) this.#drop('dropped');
  }

  /** Handles a peer that reads no more. Bytes it has written may still be in transit, so its input gets some time to end. */
  #outputGone(): void {
    this.#outputBroken = true;
    this.#sendBuffer?.close();
    if (--this.#streamsOpen === 0) this.#finish();
    else if (this.#closing === undefined && !this.#ended && !(this.#halfEnded && this.#outputFinished)) {
      this.#problem ??= 'the peer reads no more';
      if (this.#options.closesAlone) this.#drop('dropped');
      else this.#timer ??= setTimeout(() => this.#drop('expired'), DEFAULT_GRACE_MS);
    }
  }

  /** Ends both streams now. */
  #drop(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#ending = ending;
    this.#reader.stop();
    this.#sendBuffer?.close();
    // A reset shows the peer that the link failed; an ordinary close would look like an orderly end.
    // Not while it is being closed: resetting then fails, and the socket would stay.
    if (this.transport === 'tcp' && this.#closing === undefined) (this.#writable as Socket).resetAndDestroy();
    this.#readable.destroy();
    this.#writable.destroy();
  }

  /** Finishes the link: both streams are closed. */
  #finish(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#sendBuffer?.close();
    const clean =
      this.#outputFinished && this.#problem === undefined && (this.#inputEnded || this.#options.closesAlone === true);
    const reason = this.#problem ?? this.#closing?.reason ?? 'the link was lost';
    const { settle } = this.#options;
    if (settle === undefined) return this.#report({ clean, reason });
    const graceMs = this.#closing?.graceMs ?? DEFAULT_GRACE_MS;
    void settle({ clean, reason }, this.#ending, graceMs).then((cause) => this.#report(cause));
  }

  #report(cause: CloseInfo): void {
    this.#cause = cause;
    this.#receiver?.closed(cause);
    this.#closing?.resolve();
  }
}
