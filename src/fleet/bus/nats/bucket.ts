/**
 * A key-value bucket, with outcomes where the client has errors: another writer was first, or the outcome is unknown. An
 * unknown outcome is resolved by a read, so values must differ between writers.
 *
 * For leases, claims, profiles and task records.
 */
import { BucketWatch } from './bucket-watch.ts';
import type { JsMsg, MsgHdrs } from './client.ts';
import type { NatsLink } from './connection.ts';

const WRITE_MS = 10_000;

export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
  /** False for entries from before the start of the watch. */
  readonly update: boolean;
  /** The key was deleted, or has expired. */
  readonly removed: boolean;
}

/** Error numbers of JetStream for a write that expected another revision. */
const WRONG_SEQUENCE = new Set([10071, 10164]);
/** Headers of a message that marks a key as removed. */
const REMOVED = ['KV-Operation', 'Nats-Marker-Reason'];
const EXPECTED = 'Nats-Expected-Last-Subject-Sequence';

const isRemoval = (headers: MsgHdrs | undefined): boolean => REMOVED.some((name) => headers?.has(name) === true);

const isConflict = (error: unknown): boolean => WRONG_SEQUENCE.has((error as { code?: unknown }).code as number);

export class Bucket {
  readonly name: string;
  readonly #link: NatsLink;
  readonly #check: () => void;

  /** A bucket that exists. `check` throws when writes to it are not allowed any more. */
  constructor(link: NatsLink, name: string, check: () => void = () => {}) {
    this.#link = link;
    this.name = name;
    this.#check = check;
  }

  /** Writes a key that does not exist; undefined when it does. Resolves with its revision. */
  create(key: string, value: Uint8Array, withinMs?: number): Promise<number | undefined> {
    return this.#decided(
      key,
      value,
      async () => {
        try {
          return await this.#write(key, value, 0);
        } catch (error) {
          if (!isConflict(error)) throw error;
          // A key that was deleted, or has expired with a marker, does not exist, but has a revision.
          const entry = await this.#latest(key);
          if (entry === undefined || !entry.removed) throw error;
          return this.#write(key, value, entry.revision);
        }
      },
      withinMs,
    );
  }

  /** Writes over this revision; undefined when the key has another one, or is removed. Resolves with the new revision. */
  update(key: string, value: Uint8Array, revision: number, withinMs?: number): Promise<number | undefined> {
    return this.#decided(key, value, () => this.#write(key, value, revision), withinMs);
  }

  put(key: string, value: Uint8Array): Promise<number> {
    return this.#link.until(() => this.#link.store(this.subject(key), value, {}));
  }

  async get(key: string): Promise<Entry | undefined> {
    const entry = await this.#link.until(() => this.#latest(key));
    return entry?.removed === false ? entry : undefined;
  }

  /** Prevents the creation of a key that was never written, also by a writer that lost its rights without notice. */
  async preventCreate(key: string): Promise<void> {
    const marker = { 'KV-Operation': 'DEL', [EXPECTED]: '0' };
    try {
      await this.#link.until(() => this.#link.store(this.subject(key), new Uint8Array(), marker));
    } catch (error) {
      // Written meanwhile, or prevented before: a read shows it.
      if (!isConflict((error as Error).cause)) throw error;
    }
  }

  /** Deletes a key if it still has this revision. Not awaited: a bucket with a ttl evicts it anyway. */
  release(key: string, revision: number): void {
    if (!this.#link.up) return;
    const headers = this.#link.headers({ 'KV-Operation': 'DEL', [EXPECTED]: `${revision}` });
    try {
      this.#link.connection.publish(this.subject(key), '', { headers });
    } catch (error) {
      this.#link.log?.debug('key was not released', { bucket: this.name, error: (error as Error).message });
    }
  }

  /** Removes a key and its history. */
  async purge(key: string): Promise<void> {
    const manager = await this.#link.manager();
    await this.#link.until(() => manager.streams.purge(`KV_${this.name}`, { filter: this.subject(key) }));
  }

  /** Handles a value of a key that could not be read. */
  setAside(key: string, reason: string): void {
    this.#link.aside.note({ bucket: this.name, key, reasons: [reason] });
  }

  subject(key: string): string {
    return `$KV.${this.name}.${key}`;
  }

  /**
   * Calls `listener` with every entry and every change, again from the start whenever something may have been missed. Resolves
   * with the function that ends it, when the existing entries have been reported.
   */
  async watch(key: string, listener: (entry: Entry) => void): Promise<() => void> {
    const report = (message: JsMsg, update: boolean): void => {
      const changed = message.subject.slice(this.subject('').length);
      const removed = isRemoval(message.headers);
      try {
        listener({ key: changed, value: message.data, revision: message.seq, update, removed });
      } catch (error) {
        this.setAside(changed, (error as Error).message);
      }
    };
    const watched = { link: this.#link, bucket: this.name, subject: this.subject(key), report };
    const watch = await BucketWatch.start(watched);
    return () => watch.stop();
  }

  /**
   * Reads the stored entry from the one server that decides about writes. The client's own read asks any server with a copy,
   * which may be a moment behind: then a write by this process would look like another writer's.
   */
  async #latest(key: string): Promise<Entry | undefined> {
    const manager = await this.#link.manager();
    const last_by_subj = this.subject(key);
    const found = await manager.streams.getMessage(`KV_${this.name}`, { last_by_subj });
    if (found === null) return undefined;
    return { key, value: found.data, revision: found.seq, update: false, removed: isRemoval(found.header) };
  }

  async #write(key: string, value: Uint8Array, revision: number): Promise<number> {
    this.#check();
    return this.#link.store(this.subject(key), value, { [EXPECTED]: `${revision}` });
  }

  /** Returns the revision a write made; undefined when another writer was first. Reads, when an earlier try had no reply. */
  #decided(
    key: string,
    value: Uint8Array,
    write: () => Promise<number>,
    withinMs = WRITE_MS,
  ): Promise<number | undefined> {
    let tried = false;
    const mine = async (): Promise<number | undefined> => {
      const entry = await this.#latest(key);
      return entry !== undefined && Buffer.from(value).equals(entry.value) ? entry.revision : undefined;
    };
    return this.#link.until(async () => {
      const before = tried ? await mine() : undefined;
      if (before !== undefined) return before;
      tried = true;
      try {
        return await write();
      } catch (error) {
        if (isConflict(error)) return mine();
        throw error;
      }
    }, withinMs);
  }
}
