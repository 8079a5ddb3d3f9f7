/**
 * The clients that have received the worker's announce: it goes with the first message of each context, and again after it has
 * changed.
 */

import { evictOldest } from '../../../base/evict-oldest.ts';
import type { Log } from '../../../base/log.ts';
import { withTimeout } from '../../../base/race.ts';
import type { SessionAnnounce } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { WorkerPort } from '../reply-channel.ts';

/** Contexts that are remembered. */
const MAX_CONTEXTS = 10_000;

export class AnnounceTracker {
  readonly #worker: WorkerPort;
  readonly #log: Log;
  readonly #sent = new Set<string>();

  constructor(worker: WorkerPort, log: Log) {
    this.#worker = worker;
    this.#log = log;
  }

  /** True when the client of this key has received the announce. */
  has(key: string): boolean {
    return this.#sent.has(key);
  }

  add(key: string): void {
    this.#sent.add(key);
    evictOldest(this.#sent, MAX_CONTEXTS);
  }

  delete(key: string): void {
    this.#sent.delete(key);
  }

  /** Forgets the clients when the announce has changed: every client receives it again. */
  clear(): void {
    this.#sent.clear();
  }

  /** Returns the worker's announce; undefined when it fails or takes longer than `timeoutMs`. Never rejects. */
  async describe(contextId: string, timeoutMs: number): Promise<SessionAnnounce | undefined> {
    try {
      const announce = this.#worker.announce(contextId);
      return await withTimeout(announce, timeoutMs, () => fail('timeout', `no announce within ${timeoutMs} ms`));
    } catch (thrown) {
      this.#log.warn('worker could not make its announce', { error: asError(thrown).message });
      return undefined;
    }
  }
}
