/**
 * Two links in one process that hand message objects over by reference: no text, no copy.
 *
 * For an agent and a host in one process, and for tests of the real stack without a wire. The sender of an object must
 * not change it afterwards.
 */
import type { CloseInfo, Link, LinkReceiver, Message } from './link.ts';

/** Bytes that one message counts in `buffered`: nothing is serialised, so its real size is not known. */
const NOMINAL_BYTES = 256;

/**
 * Deliveries happen in microtasks, which cost a twentieth of a turn of the event loop. Two sides that reply to each
 * other without pause would starve timers and sockets, so a delivery waits for the next turn after a fixed number.
 */
const DELIVERIES_PER_TURN = 64;

/** An emptied queue retains its memory up to this many entries. */
const MAX_RETAINED_SLOTS = 1024;

const DEFAULT_GRACE_MS = 2000;

interface Waiter {
  readonly lowWaterBytes: number;
  readonly resolve: () => void;
}

class MemoryLink implements Link {
  readonly transport = 'memory';
  readonly peer = 'memory';
  readonly text = false;
  #other!: MemoryLink;
  #receiver: LinkReceiver | undefined;
  /** Messages for this side: `#inbox[#head .. #count)`. */
  #inbox: (Message | undefined)[] = [];
  #head = 0;
  #count = 0;
  #scheduled = false;
  #deliveries = 0;
  #paused = false;
  #endNotified = false;
  /** Senders on the other side that wait for room here. */
  #waiters: Waiter[] | undefined;
  #closing: { promise: Promise<void>; resolve: () => void; reason: string; timer: NodeJS.Timeout } | undefined;
  #cause: CloseInfo | undefined;
  #causeNotified = false;

  /** Ties two sides together; each needs the other, so neither can be complete before. */
  static pair(): [Link, Link] {
    const left = new MemoryLink();
    const right = new MemoryLink();
    left.#other = right;
    right.#other = left;
    return [left, right];
  }

  open(receiver: LinkReceiver): void {
    this.#receiver = receiver;
    if (this.#cause !== undefined) this.#notifyCause();
    else this.#schedule();
  }

  send(message: string | Message): void {
    if (this.#closing === undefined && this.#cause === undefined) this.#other.#enqueue(message as Message);
  }

  get buffered(): number {
    return (this.#other.#count - this.#other.#head) * NOMINAL_BYTES;
  }

  drained(lowWaterBytes = 0): Promise<void> {
    if (this.#cause !== undefined || this.buffered <= lowWaterBytes) return Promise.resolve();
    return new Promise((resolve) => {
      this.#other.#waiters ??= [];
      this.#other.#waiters.push({ lowWaterBytes, resolve });
    });
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    if (!paused) this.#schedule();
  }

  /** Objects have no size in bytes; the limit is for wires. */
  setMaxMessageBytes(_bytes: number): void {}

  close(reason = 'closed', graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (this.#closing !== undefined) return this.#closing.promise;
    if (this.#cause !== undefined) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => this.#end(false, `the peer did not finish within ${graceMs} ms`), graceMs);
    this.#closing = { promise, resolve, reason, timer };
    this.#clearInbox();
    if (this.#other.#closing === undefined) this.#other.#schedule();
    else this.#end(true, reason);
    return promise;
  }

  destroy(reason = 'dropped'): void {
    if (this.#cause === undefined) this.#end(false, reason);
  }

  #enqueue(message: Message): void {
    // A side that is closing listens no more.
    if (this.#closing !== undefined) return;
    this.#inbox[this.#count++] = message;
    if (!this.#scheduled) this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#paused || this.#receiver === undefined || this.#cause !== undefined) return;
    this.#scheduled = true;
    if (++this.#deliveries < DELIVERIES_PER_TURN) queueMicrotask(this.#deliver);
    else {
      this.#deliveries = 0;
      setImmediate(this.#deliver);
    }
  }

  readonly #deliver = (): void => {
    this.#scheduled = false;
    // Messages that arrive while this batch is handed over belong to the next one; closing empties the inbox during the
    // loop.
    for (let left = this.#count - this.#head; left > 0 && this.#head < this.#count && !this.#paused; left--) {
      const message = this.#inbox[this.#head] as Message;
      this.#inbox[this.#head++] = undefined;
      this.#receiver?.message(message);
    }
    if (this.#head === this.#count) {
      if (this.#count > MAX_RETAINED_SLOTS) this.#inbox = [];
      this.#head = 0;
      this.#count = 0;
    } else this.#schedule();
    if (this.#waiters !== undefined) this.#release();
    if (this.#head === this.#count && this.#other.#closing !== undefined) this.#notifyEnd();
  };

  #notifyEnd(): void {
    if (this.#endNotified || this.#paused || this.#closing !== undefined || this.#cause !== undefined) return;
    this.#endNotified = true;
    this.#receiver?.ended();
  }

  /** Ends both sides; each notifies its receiver with its own reason. */
  #end(clean: boolean, reason: string): void {
    const other = this.#other;
    this.#notifyClosed({ clean, reason });
    other.#notifyClosed({ clean, reason: other.#closing?.reason ?? (clean ? reason : 'the peer dropped the link') });
  }

  #notifyClosed(cause: CloseInfo): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    this.#clearInbox();
    this.#release();
    if (this.#closing !== undefined) clearTimeout(this.#closing.timer);
    this.#closing?.resolve();
    if (this.#receiver !== undefined) this.#notifyCause();
  }

  #notifyCause(): void {
    if (this.#causeNotified) return;
    this.#causeNotified = true;
    queueMicrotask(() => this.#receiver?.closed(this.#cause as CloseInfo));
  }

  #clearInbox(): void {
    this.#inbox = [];
    this.#head = 0;
    this.#count = 0;
    this.#release();
  }

  #release(): void {
    const waiters = this.#waiters;
    if (waiters === undefined) return;
    const waiting = (this.#count - this.#head) * NOMINAL_BYTES;
    const left = waiters.filter((waiter) => waiter.lowWaterBytes < waiting);
    this.#waiters = left.length === 0 ? undefined : left;
    for (const waiter of waiters) if (waiter.lowWaterBytes >= waiting) waiter.resolve();
  }
}

/**
 * Returns two connected links. Messages of one arrive at the other in order, after the sender's code has run, all
 * messages of one turn together.
 */
export function memoryPair(): [Link, Link] {
  return MemoryLink.pair();
}
