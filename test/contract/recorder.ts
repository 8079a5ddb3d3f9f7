/**
 * A receiver that records its input and lets a test wait for it. For the transport tests.
 */
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../../src/transport/link.ts';

/** Time for which a test waits for an event that should happen at once, on a busy machine too. */
export const PATIENCE_MS = 60_000;

/** Rejects with a readable message when `promise` takes too long. */
export async function within<T>(promise: Promise<T>, what: string, timeoutMs = PATIENCE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${timeoutMs} ms for ${what}`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lets the event loop run for some turns, so that pending work of this process can happen. */
export async function turns(count = 5): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Parses a message. A receiver must not throw, and the last line of a peer that vanished may be half a message. */
function parse(text: string): Message {
  try {
    return JSON.parse(text) as Message;
  } catch {
    return { unreadable: text };
  }
}

export class Recorder implements LinkReceiver {
  readonly messages: Message[] = [];
  readonly texts: string[] = [];
  readonly problems: Malformed[] = [];
  endings = 0;
  readonly causes: CloseInfo[] = [];
  /** Number of calls after `closed`: none is permitted. */
  lateCalls = 0;
  readonly #watchers = new Set<() => void>();
  readonly #onMessage: ((message: Message) => void) | undefined;

  /** Calls `onMessage` for each message, after it was written down. */
  constructor(onMessage?: (message: Message) => void) {
    this.#onMessage = onMessage;
  }

  /** Opens a link with a new recorder. */
  static on(link: Link, onMessage?: (message: Message) => void): Recorder {
    const recorder = new Recorder(onMessage);
    link.open(recorder);
    return recorder;
  }

  /** Opens a link with a recorder that, like a session with nothing to do, closes it when the peer has ended. */
  static closing(link: Link): Recorder {
    const recorder = new Recorder();
    recorder.onEnded = () => void link.close('closed', PATIENCE_MS);
    link.open(recorder);
    return recorder;
  }

  onEnded: (() => void) | undefined;

  message(message: string | Message): void {
    this.#called();
    if (typeof message === 'string') this.texts.push(message);
    const parsed = typeof message === 'string' ? parse(message) : message;
    this.messages.push(parsed);
    this.#onMessage?.(parsed);
    this.#look();
  }

  malformed(problem: Malformed): void {
    this.#called();
    this.problems.push(problem);
    this.#look();
  }

  ended(): void {
    this.#called();
    this.endings += 1;
    this.onEnded?.();
    this.#look();
  }

  closed(cause: CloseInfo): void {
    this.#called();
    this.causes.push(cause);
    this.#look();
  }

  /** Resolves when `condition` is true, which is looked at after each call. */
  until(condition: () => boolean, what: string): Promise<void> {
    const met = new Promise<void>((resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#watchers.delete(look);
        resolve();
      };
      this.#watchers.add(look);
      look();
    });
    return within(met, what);
  }

  /** Resolves when that many messages have arrived. */
  count(messages: number): Promise<void> {
    return this.until(() => this.messages.length >= messages, `${messages} messages`);
  }

  /** Resolves with the end of the link. */
  async end(): Promise<CloseInfo> {
    await this.until(() => this.causes.length > 0, 'the link to close');
    return this.causes[0] as CloseInfo;
  }

  #called(): void {
    if (this.causes.length > 0) this.lateCalls += 1;
  }

  #look(): void {
    for (const look of [...this.#watchers]) look();
  }
}
