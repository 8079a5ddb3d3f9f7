/**
 * Notifications of a server of the generation without sessions: it sends only notifications that a stream requests, and
 * a stream requests all at once. Holds one stream open: opened again with additional resources, and with a delay after
 * it ended.
 *
 * `connection.ts` opens the streams.
 */
import { Backoff } from '../base/backoff.ts';
import { processTimer } from '../base/timer-queue.ts';
import { fail } from '../wire/errors.ts';

/** An open stream. */
export interface Stream {
  /** The resources whose changes the server will report. */
  readonly resources: readonly string[];
  /** Resolves when it has ended. */
  readonly closed: Promise<unknown>;
  close(): Promise<void>;
}

const DELAYS = { firstDelayMs: 500, maxDelayMs: 30_000 };

export class Listening {
  readonly #listen: (resources: readonly string[]) => Promise<Stream>;
  readonly #resources = new Set<string>();
  #stream: Stream | undefined;
  /** One change at a time. */
  #changing: Promise<void> = Promise.resolve();
  readonly #backoff = new Backoff(DELAYS);
  #isEnded = false;

  /** @param listen opens a stream for lists that change, and for these resources */
  constructor(listen: (resources: readonly string[]) => Promise<Stream>) {
    this.#listen = listen;
  }

  /** Opens the stream for lists that change; where the server refuses, nothing is opened. Never rejects. */
  start(): Promise<void> {
    return this.#change(async () => this.#open()).catch(() => {});
  }

  /**
   * Adds a resource. Rejects as opening a stream does, and with `not_supported` if the server does not report changes
   * of the resource.
   */
  add(uri: string): Promise<void> {
    return this.#change(async () => {
      this.#resources.add(uri);
      try {
        await this.#open();
        if (this.#stream?.resources.includes(uri) === true) return;
        throw fail('unknown_type', 'the server has no subscriptions of this resource');
      } catch (thrown) {
        this.#resources.delete(uri);
        throw thrown;
      }
    });
  }

  remove(uri: string): Promise<void> {
    return this.#change(async () => {
      if (this.#resources.delete(uri)) await this.#open();
    });
  }

  /** Opens no further stream. The connection closes the last one. */
  end(): void {
    this.#isEnded = true;
  }

  #change(work: () => Promise<void>): Promise<void> {
    const changed = this.#changing.then(work);
    this.#changing = changed.catch(() => {});
    return changed;
  }

  /** Opens a stream. The new stream exists before the old one ends: no change is missed between them. */
  async #open(): Promise<void> {
    const stream = await this.#listen([...this.#resources]);
    const before = this.#stream;
    this.#stream = stream;
    this.#backoff.opened();
    void stream.closed.then(() => this.#lost(stream));
    await before?.close();
  }

  #lost(stream: Stream): void {
    if (stream !== this.#stream) return;
    this.#stream = undefined;
    this.#again();
  }

  #again(): void {
    if (this.#isEnded) return;
    processTimer(() => {
      if (this.#isEnded || this.#stream !== undefined) return;
      this.#change(async () => this.#open()).catch(() => this.#again());
    }, this.#backoff.next());
  }
}
