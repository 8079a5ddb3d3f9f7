/**
 * Gathers the messages a link sends into few writes, and counts the bytes that still wait.
 *
 * For links that write text. One write for many messages is worth more than any other measure on the sending side; the
 * number of messages in one write is a measured choice: {@link EARLY_CHARS}.
 */

/** The target to which a send buffer writes. */
export interface OutboxTarget {
  /**
   * Accepts one or several messages with a newline between them, or a part of a long one, and writes them as ASCII
   * (`wire/ascii.ts`). Must not throw. When `pending` is above zero afterwards, {@link SendBuffer.written} must be called once it
   * has fallen.
   * @param isLast false: the rest of the message follows with the next call
   */
  write(pack: string, isLast: boolean): void;
  /** Bytes accepted and not yet passed to the operating system. Zero right after a write the system accepted at once. */
  readonly pending: number;
}

/**
 * A pack of this many characters leaves at once instead of at the end of the turn: the peer starts on the first answers
 * while the rest are still being made. Measured with 64 calls in flight between two processes: packs of 4 KiB cost a
 * fifth more CPU a call than these, packs of 16 KiB and one write a turn leave the peer without work meanwhile.
 */
const EARLY_CHARS = 8192;

/** While the system is behind, packs are closed at this size, so that a frame stays far below the limit of a peer. */
const PACK_CHARS = 256 * 1024;

/** A part of a message with so many characters is written in a separate turn of the event loop; links take turns. */
const LARGE_CHARS = 1024 * 1024;

interface Waiter {
  readonly lowWaterBytes: number;
  readonly resolve: () => void;
}

/**
 * The queue in front of one writer. Made when a link sends for the first time.
 *
 * Messages of one turn of the event loop leave together, when the turn is over: after all promise callbacks that follow
 * from it. While the target has unsent bytes, everything waits here.
 */
export class SendBuffer {
  readonly #target: OutboxTarget;
  /** The pack being filled. Adding to it makes a rope; it is flattened once, when the target writes it. */
  #pack = '';
  /** Closed packs in front of it, while the target is behind. */
  #packs: string[] | undefined;
  #packsChars = 0;
  #scheduled = false;
  /** A large message waits for its turn, and every later message with it. */
  #inLine = false;
  /** The oldest pack is the rest of a message. */
  #isPart = false;
  #waiters: Waiter[] | undefined;
  #closed = false;
  /** Characters given to the target so far. */
  handed = 0;

  constructor(target: OutboxTarget) {
    this.#target = target;
  }

  /** Bytes not yet accepted by the system. Characters above ASCII count as one until they are written. */
  get buffered(): number {
    return this.#pack.length + this.#packsChars + this.#target.pending;
  }

  /** Queues one message. Does nothing after {@link close}. */
  send(text: string): void {
    if (this.#closed) return;
    if (text.length >= LARGE_CHARS) return this.#sendLarge(text);
    this.#pack = this.#pack === '' ? text : `${this.#pack}\n${text}`;
    if (this.#pack.length >= EARLY_CHARS) this.#full();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      queueMicrotask(this.#afterMicrotasks);
    }
  }

  /** Queues a large message as a separate pack. */
  #sendLarge(text: string): void {
    if (!this.#inLine && this.#pack !== '') this.#flush();
    this.#packs ??= [];
    for (const pack of this.#pack === '' ? [text] : [this.#pack, text]) {
      this.#packs.push(pack);
      this.#packsChars += pack.length;
    }
    this.#pack = '';
    this.#waitInLine();
  }

  #waitInLine(): void {
    if (this.#inLine) return;
    this.#inLine = true;
    line.push(this);
    if (line.length === 1) setImmediate(nextInLine);
  }

  /** Writes the queue up to the next large message, when it is this buffer's turn. */
  inTurn(): void {
    this.#inLine = false;
    if (this.#closed) return;
    if (this.#target.pending === 0 && this.#waiting) this.#writePart();
    this.#flush();
  }

  /** Writes the oldest pack, of a large message a part. */
  #writePart(): void {
    const first = this.#packs?.[0] ?? '';
    // A short rest is written with the part before it: each write costs.
    if (first.length < 2 * LARGE_CHARS) return this.#target.write(this.#dequeue(), true);
    (this.#packs as string[])[0] = first.slice(LARGE_CHARS);
    this.#isPart = true;
    this.#packsChars -= LARGE_CHARS;
    this.handed += LARGE_CHARS;
    this.#target.write(first.slice(0, LARGE_CHARS), false);
  }

  /** Called when the target has written or dropped its backlog. */
  readonly written = (): void => {
    if (!this.#closed) this.#flush();
  };

  /** Resolves when `buffered` is at or below the mark, or the outbox is closed. */
  drained(lowWaterBytes: number): Promise<void> {
    if (this.#closed || this.buffered <= lowWaterBytes) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters ??= [];
      this.#waiters.push({ lowWaterBytes, resolve });
    });
  }

  /** Gives everything to the target now, whether it is behind or not. For the last moment before its end. */
  flushAll(): void {
    while (!this.#closed && this.#waiting) this.#target.write(this.#dequeue(), true);
  }

  /** Drops the queue and resolves every waiting `drained`. */
  close(): void {
    this.#closed = true;
    this.#pack = '';
    this.#packs = undefined;
    this.#packsChars = 0;
    this.#release();
  }

  /** A tick that is asked for in a microtask runs when all microtasks have run; one asked for now would run before them. */
  readonly #afterMicrotasks = (): void => process.nextTick(flushTurn, this);

  /** Handles the end of a turn. */
  turn(): void {
    this.#scheduled = false;
    if (!this.#closed) this.#flush();
  }

  #full(): void {
    if (this.#target.pending === 0 && !this.#inLine) this.#flush();
    else if (this.#pack.length >= PACK_CHARS) {
      this.#packs ??= [];
      this.#packs.push(this.#pack);
      this.#packsChars += this.#pack.length;
      this.#pack = '';
    }
  }

  #flush(): void {
    while (!this.#inLine && this.#target.pending === 0 && this.#waiting) {
      if (this.#isPart || (this.#packs?.[0]?.length ?? 0) >= LARGE_CHARS) this.#waitInLine();
      else this.#target.write(this.#dequeue(), true);
    }
    if (this.#waiters !== undefined) this.#release();
  }

  get #waiting(): boolean {
    return this.#pack !== '' || this.#packsChars > 0;
  }

  /** Removes and returns the oldest pack. */
  #dequeue(): string {
    const first = this.#packs?.shift();
    this.#isPart = false;
    if (first !== undefined) {
      this.#packsChars -= first.length;
      this.handed += first.length;
      return first;
    }
    const pack = this.#pack;
    this.#pack = '';
    this.handed += pack.length;
    return pack;
  }

  #release(): void {
    const waiters = this.#waiters ?? [];
    const buffered = this.#closed ? 0 : this.buffered;
    this.#waiters = waiters.filter((waiter) => waiter.lowWaterBytes < buffered);
    if (this.#waiters.length === 0) this.#waiters = undefined;
    for (const waiter of waiters) if (waiter.lowWaterBytes >= buffered) waiter.resolve();
  }
}

/** Send buffers of all links that wait to write a large message. */
const line: SendBuffer[] = [];

function nextInLine(): void {
  // The buffer leaves the queue afterwards: one that is queued again meanwhile must not start a second round of turns.
  line[0]?.inTurn();
  line.shift();
  if (line.length > 0) setImmediate(nextInLine);
}

/** Ends a turn of a send buffer. Shared by all: a closure for each would cost memory on links that mostly rest. */
function flushTurn(outbox: SendBuffer): void {
  outbox.turn();
}
