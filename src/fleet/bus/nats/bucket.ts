/**
 * A key-value bucket, with outcomes where the client has errors: another writer was first, or the outcome is unknown. An
 * unknown outcome is resolved by a read, so values must differ between writers.
 *
 * For leases, claims, profiles and task records.
 */
import { Backoff } from '../../../base/backoff.ts';
import { isLogged } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import type { KV } from './client.ts';
import type { NatsLink } from './connection.ts';
import { readingTurns } from './payload.ts';
import { openBucket } from './streams.ts';

const WRITE_MS = 10_000;
/** Longest pause of a watch between the entries that exist, before it counts as started, milliseconds. */
const FIRST_ENTRIES_MS = 2_000;
const WATCH_AGAIN = { firstDelayMs: 1_000, maxDelayMs: 15_000 };

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

const isConflict = (error: unknown): boolean => WRONG_SEQUENCE.has((error as { code?: unknown }).code as number);

export class Bucket {
  readonly name: string;
  readonly #link: NatsLink;
  readonly #kv: KV;
  readonly #check: () => void;

  constructor(link: NatsLink, name: string, kv: KV, check: () => void = () => {}) {
    this.#link = link;
    this.name = name;
    this.#kv = kv;
    this.#check = check;
  }

  /** Opens a bucket that exists. `check` throws when writes to it are not allowed any more. */
  static async open(link: NatsLink, name: string, check?: () => void): Promise<Bucket> {
    return new Bucket(link, name, await openBucket(link, name), check);
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
   * Calls `listener` with every entry and every change, again from the start whenever the connection is restored. Resolves
   * with the function that ends it, when the existing entries have been reported.
   */
  async watch(key: string, listener: (entry: Entry) => void): Promise<() => void> {
    let ended = false;
    let current: { stop(): void } | undefined;
    let round = 0;
    const retry = new Backoff(WATCH_AGAIN);
    const failed = (message: string, { message: error }: Error): Promise<void> => {
      const delayMs = retry.next();
      if (isLogged(retry.failures)) this.#link.log?.warn(message, { bucket: this.name, error });
      return sleep(delayMs, this.#link.closing);
    };
    const begin = async (): Promise<void> => {
      const mine = ++round;
      const manager = await this.#link.manager();
      const filter = { subjects_filter: this.subject(key) };
      const { state } = await this.#link.until(() => manager.streams.info(`KV_${this.name}`, filter));
      const watch = await this.#link.until(() => this.#kv.watch({ key }));
      if (ended || mine !== round) return watch.stop();
      current?.stop();
      current = watch;
      retry.opened();
      const { promise, resolve } = Promise.withResolvers<void>();
      // Keys to report, unless they are removed in this moment.
      const existing = Object.keys(state.subjects ?? {}).length;
      const quiet = setTimeout(resolve, existing === 0 ? 0 : FIRST_ENTRIES_MS);
      const reported = new Set<string>();
      void (async () => {
        for await (const entry of watch) {
          while (readingTurns.over) await readingTurns.next();
          if (mine !== round) break;
          const { operation, revision, value, isUpdate: update } = entry;
          try {
            listener({ key: entry.key, value, revision, update, removed: operation !== 'PUT' });
          } catch (error) {
            this.setAside(entry.key, (error as Error).message);
          }
          if (reported.size >= existing) continue;
          // The server that reports may be a moment behind the one that counted.
          if (reported.add(entry.key).size >= existing) resolve();
          else quiet.refresh();
        }
        resolve();
      })().catch((error: Error) => {
        resolve();
        const again = failed('the watch of a bucket has ended', error);
        if (mine === round) void again.then(watchAgain);
      });
      await promise;
      clearTimeout(quiet);
    };
    const watchAgain = async (): Promise<void> => {
      while (!ended && this.#link.up) {
        try {
          return await begin();
        } catch (error) {
          await failed('bucket cannot be watched', error as Error);
        }
      }
    };
    await begin();
    const stopListening = this.#link.onChange((up) => up && void watchAgain());
    return () => {
      ended = true;
      stopListening();
      current?.stop();
    };
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
    const removed = REMOVED.some((name) => found.header.get(name) !== '');
    return { key, value: found.data, revision: found.seq, update: false, removed };
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
