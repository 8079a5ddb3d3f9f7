/** A bucket of one key without a server, for the tests of leases. */
import type { Entry } from '../../../src/fleet/bus/nats/bucket.ts';
import { fail } from '../../../src/wire/errors.ts';

/**
 * A bucket of one key, as a server stores it; like the real one it recognises a write of the same client whose reply was lost.
 */
export class OneKey {
  entry: Pick<Entry, 'value' | 'revision'> | undefined;
  /** The next write is done, and its reply is lost. */
  late = false;
  writes = 0;

  async get() {
    return this.entry;
  }

  async create(_key: string, value: Uint8Array): Promise<number | undefined> {
    return this.#write(value, this.entry === undefined);
  }

  async update(_key: string, value: Uint8Array, revision: number): Promise<number | undefined> {
    return this.#write(value, this.entry?.revision === revision);
  }

  /** The stored text; undefined where nothing is stored. */
  get text(): string | undefined {
    return this.entry === undefined ? undefined : String(this.entry.value);
  }

  release(): void {
    this.entry = undefined;
  }

  #write(value: Uint8Array, fits: boolean): number | undefined {
    this.writes += 1;
    if (!fits) return this.entry && Buffer.from(value).equals(this.entry.value) ? this.entry.revision : undefined;
    this.entry = { value, revision: (this.entry?.revision ?? 0) + 1 };
    if (!this.late) return this.entry.revision;
    this.late = false;
    throw fail('timeout', 'no answer in time');
  }
}
