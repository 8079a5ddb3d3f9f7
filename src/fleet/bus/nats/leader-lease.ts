/**
 * The leader lease of an orchestrator's name. Of two that start, one leads; the other gets `superseded`. It is a key that must be
 * renewed, like the lease of a task.
 *
 * @see docs/nats.md#leader-and-standby
 */

import type { Log } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Bucket, Entry } from './bucket.ts';
import { RenewedKey } from './renewed-key.ts';
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
  #lease: RenewedKey | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(options: OrchestratorLeaseOptions) {
    this.#options = options;
    this.#key = tokenOf(options.name);
    this.#monotonic = options.monotonic ?? (() => performance.now());
  }

  /** True while no other orchestrator can have it. */
  get held(): boolean {
    return !this.#ended && this.#lease?.confirmedWithin(this.#options.ttlS * 1000) === true;
  }

  /**
   * Acquires it, or waits until its holder has not renewed it for its lifetime. Fails with `superseded` when that one is
   * alive; `standby`: waits for its end instead, through outages of the server too.
   */
  async acquire(standby = false): Promise<void> {
    const { signal, name, log } = this.#options;
    let first: Entry | undefined;
    // Its last renewal may be as young as the first read here.
    const end = this.#monotonic() + (this.#options.ttlS + 5) * 1000;
    for (;;) {
      signal.throwIfAborted();
      const found = await this.#try().catch((thrown: unknown) => {
        const { code, message } = asError(thrown);
        if (!standby || (code !== 'unreachable' && code !== 'timeout')) throw thrown;
        log?.warn('no NATS server responds while this orchestrator is a standby', { name, error: message });
        return undefined;
      });
      if (found === 'taken') return;
      if (found !== undefined && first === undefined && standby) {
        log?.warn('another orchestrator is the leader; running as standby', { name });
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
    await this.#lease?.release();
    this.#ended = true;
  }

  /**
   * Acquires it where it is free, or was held by this instance; else returns its holder. Undefined: another orchestrator was
   * faster.
   */
  async #try(): Promise<'taken' | Entry | undefined> {
    const { bucket, instance } = this.#options;
    const askedAt = this.#monotonic();
    const entry = await bucket.get(this.#key);
    const holder = entry && readHolder(entry.value);
    if (entry !== undefined && holder !== undefined && holder.instance !== instance) return entry;
    if (entry !== undefined && holder === undefined) bucket.setAside(this.#key, 'not a leader lease; replaced');
    const value = this.#value(0);
    const revision =
      entry === undefined
        ? await bucket.create(this.#key, value)
        : await bucket.update(this.#key, value, entry.revision);
    if (revision === undefined) return undefined;
    this.#start(revision, askedAt);
    return 'taken';
  }

  #start(revision: number, askedAt: number): void {
    const { bucket, ttlS } = this.#options;
    const value = (renewals: number): Uint8Array => this.#value(renewals);
    // While the server is unreachable nothing is known, and nothing is sent; then the first to write has it.
    const settings = { bucket, key: this.#key, ttlS, value, restores: true, monotonic: this.#monotonic };
    this.#lease = new RenewedKey(settings, revision, askedAt);
    this.#timer = setInterval(() => void this.#renew(this.#lease as RenewedKey), (ttlS * 1000) / 3);
  }

  async #renew(lease: RenewedKey): Promise<void> {
    // No reply: retried with the next renewal.
    const held = await lease.renew().catch(() => true);
    if (held || this.#options.signal.aborted || this.#ended) return;
    this.#ended = true;
    clearInterval(this.#timer);
    this.#options.lost(this.#superseded());
  }

  #value(renewed: number): Uint8Array {
    const { instance, incarnation } = this.#options;
    return Buffer.from(JSON.stringify({ instance, incarnation, renewed } satisfies Holder));
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
