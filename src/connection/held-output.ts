/**
 * Output of a connection while a reply is being stored: it leaves in order, and no reply leaves before it is on disk.
 *
 * It exists from the first reply whose recorder returns a promise; a journal in memory never returns one.
 */
import type { Encoded } from '../wire/codec.ts';
import type { HandfastError } from '../wire/errors.ts';
import { asError } from '../wire/errors.ts';

interface Item {
  out: Encoded;
  stored: boolean;
}

export class HeldOutput {
  readonly #send: (out: Encoded) => void;
  #items: Item[] = [];
  #empty: PromiseWithResolvers<void> | undefined;

  /** @param send hands a message to the link */
  constructor(send: (out: Encoded) => void) {
    this.#send = send;
  }

  /** True while output waits: all later output waits after it. */
  get waiting(): boolean {
    return this.#items.length > 0;
  }

  /** Resolves when nothing waits. */
  get sent(): Promise<void> {
    if (!this.waiting) return Promise.resolve();
    this.#empty ??= Promise.withResolvers();
    return this.#empty.promise;
  }

  /** Sends a message after the waiting output. */
  push(out: Encoded): void {
    this.#items.push({ out, stored: true });
  }

  /** Sends a reply once it is stored, or the reply that `instead` makes of the failure. */
  hold(out: Encoded, stored: Promise<void>, instead: (error: HandfastError) => Encoded): void {
    const item: Item = { out, stored: false };
    this.#items.push(item);
    stored.then(
      () => this.#settle(item),
      (thrown) => {
        item.out = instead(asError(thrown));
        this.#settle(item);
      },
    );
  }

  /** Drops the waiting output when the link is lost: the journal has it. */
  clear(): void {
    this.#items = [];
    this.#empty?.resolve();
    this.#empty = undefined;
  }

  #settle(item: Item): void {
    item.stored = true;
    let sent = 0;
    for (; this.#items[sent]?.stored === true; sent++) this.#send((this.#items[sent] as Item).out);
    this.#items.splice(0, sent);
    if (!this.waiting) this.clear();
  }
}
