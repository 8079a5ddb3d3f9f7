/**
 * The leader lease of an orchestrator's name. Of two that start, one leads; the other gets `superseded`. It is a key that must be
 * renewed, like the lease of a task.
 *
 * Used by `leadership.ts`.
 * @see docs/nats.md#leader-and-standby
 */

import type { Log } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Bucket, Entry } from './bucket.ts';
import { tokenOf } from './subjects.ts';

export interface OrchestratorLeaseOptions {
  readonly bucket: Bucket;
  readonly name: string;
  /** The same after a restart: then it takes over the lease of the process before at once. */
  readonly instance: string;
  /** Another for each process. */
  readonly incarnation: string;
  readonly ttlS: number;
  readonly signal: AbortSignal;
  /** Another orchestrator has it. Called once. */
  readonly lost: (error: HandfastError) => void;
  readonly monotonic?: () => number;
  readonly log?: Log;
}

interface Holder {
  readonly instance: string;
  readonly incarnation: string;
  readonly renewed: number;
}

const LOOK_MS = 500;

export class LeaderLease {
  readonly #options: OrchestratorLeaseOptions;
  readonly #key: string;
  readonly #monotonic: () => number;
  #revision = 0;
  #renewed = 0;
  #confirmedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;
  #ended = false;

  constructor(options: OrchestratorLeaseOptions) {
    this.#options = options;
    this.#key = tokenOf(options.name);
    this.#monotonic = options.monotonic ?? (() => performance.now());
  }

  /** True while no other orchestrator can have it. */
  get held(): boolean {
    return !this.#ended && this.#monotonic() - this.#confirmedAt < this.#options.ttlS * 1000;
  }

  /**
   * Acquires it, or waits until its holder has not renewed it for its lifetime. Fails with `superseded` when that one is
   * alive; `standby`: waits for its end instead, through outages of the server too.
   */
  async acquire(standby = false): Promise<void> {
    const { signal, name, log } = this.#options;
    let first: Entry | undefined;
    // Its last renewal may be as young as our first read.
    const end = this.#monotonic() + (this.#options.ttlS + 5) * 1000;
    for (;;) {
      signal.throwIfAborted();
      const found = await this.#try().catch((thrown: unknown) => {
        const { code, message } = asError(thrown);
        if (!standby || (code !== 'unreachable' && code !== 'timeout')) throw thrown;
        log?.warn('no NATS server answers while this orchestrator stands by', { name, error: message });
        return undefined;
      });
      if (found === 'taken') return;
      if (found !== undefined && first === undefined && standby) {
        log?.warn('another orchestrator of this name has it: this one stands by', { name });
      }
      first ??= found;
      const alive = found !== undefined && found.revision !== first?.revision;
      if (!standby && (alive || this.#monotonic() > end)) throw this.#superseded();
      await sleep(LOOK_MS, signal);
    }
  }

  /** Releases it. Never rejects. */
  async release(): Promise<void> {
    clearInterval(this.#timer);
    await this.#renewing;
    if (!this.#ended && this.#revision > 0) this.#options.bucket.release(this.#key, this.#revision);
    this.#ended = true;
  }

  /** Acquires it where it is free, or was ours; else its holder. Undefined: another orchestrator was faster. */
  async #try(): Promise<'taken' | Entry | undefined> {
    const { bucket, instance } = this.#options;
    const askedAt = this.#monotonic();
    const entry = await bucket.get(this.#key);
    const holder = entry && readHolder(entry.value);
    if (entry !== undefined && holder !== undefined && holder.instance !== instance) return entry;
    const value = this.#value();
    const revision =
      entry === undefined
        ? await bucket.create(this.#key, value)
        : await bucket.update(this.#key, value, entry.revision);
    if (revision === undefined) return undefined;
    this.#start(revision, askedAt);
    return 'taken';
  }

  #start(revision: number, askedAt: number): void {
    this.#revision = revision;
    this.#confirmedAt = askedAt;
    this.#timer = setInterval(
      () => {
        this.#renewing ??= this.#renew().finally(() => {
          this.#renewing = undefined;
        });
      },
      (this.#options.ttlS * 1000) / 3,
    );
  }

  /** While the server is unreachable nothing is known, and nothing is sent; then the first to write has it. */
  async #renew(): Promise<void> {
    const { bucket, ttlS, signal } = this.#options;
    this.#renewed++;
    const value = this.#value();
    const askedAt = this.#monotonic();
    const withinMs = (ttlS * 1000) / 4;
    try {
      const kept =
        (await bucket.update(this.#key, value, this.#revision, withinMs)) ??
        // It may have expired while the server was unreachable.
        (await bucket.create(this.#key, value, withinMs)) ??
        (await this.#after(value, withinMs));
      if (kept !== undefined) {
        this.#revision = kept;
        this.#confirmedAt = askedAt;
        return;
      }
    } catch {
      // No reply: retried with the next renewal.
      return;
    }
    if (signal.aborted || this.#ended) return;
    this.#ended = true;
    clearInterval(this.#timer);
    this.#options.lost(this.#superseded());
  }

  /** Renews it over a renewal of ours whose reply was lost; undefined: another orchestrator has it. */
  async #after(value: Uint8Array, withinMs: number): Promise<number | undefined> {
    const { bucket, incarnation: life } = this.#options;
    const entry = await bucket.get(this.#key);
    if (entry === undefined || readHolder(entry.value)?.incarnation !== life) return undefined;
    return bucket.update(this.#key, value, entry.revision, withinMs);
  }

  #value(): Uint8Array {
    const { instance, incarnation: life } = this.#options;
    return Buffer.from(JSON.stringify({ instance, incarnation: life, renewed: this.#renewed } satisfies Holder));
  }

  #superseded(): HandfastError {
    const { name } = this.#options;
    return fail('superseded', `another orchestrator named ${name} is the leader`, { name });
  }
}

function readHolder(value: Uint8Array): Holder | undefined {
  try {
    const found = JSON.parse(Buffer.from(value).toString()) as Partial<Holder> | null;
    return typeof found?.instance === 'string' ? (found as Holder) : undefined;
  } catch {
    return undefined;
  }
}
