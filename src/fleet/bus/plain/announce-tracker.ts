/**
 * Which clients have had the worker's description: it goes with the first message of each context, and again after it has
 * changed.
 *
 * Used by `worker-adapter.ts`.
 */

import type { Log } from '../../../base/log.ts';
import { withTimeout } from '../../../base/race.ts';
import type { SessionAnnounce } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { Scope } from '../a2a/task-store.ts';
import { evictOldest } from '../evict-oldest.ts';
import type { WorkerPort } from '../reply-channel.ts';

/** How long the description of a worker is waited for before an answer goes out without, milliseconds. */
const ANNOUNCE_MS = 1_500;
/** Contexts that are remembered. */
const MAX_CONTEXTS = 10_000;

const keyOf = ({ tenant, owner }: Scope, contextId: string): string => JSON.stringify([tenant, owner, contextId]);

export class AnnounceTracker {
  readonly #worker: WorkerPort;
  readonly #log: Log;
  readonly #told = new Set<string>();

  constructor(worker: WorkerPort, log: Log) {
    this.#worker = worker;
    this.#log = log;
  }

  /** The description, where this client has not had it in this context and it is to be had soon. Never rejects. */
  async next(scope: Scope, contextId: string): Promise<SessionAnnounce | undefined> {
    if (this.#told.has(keyOf(scope, contextId))) return undefined;
    try {
      const announce = this.#worker.announce(contextId);
      return await withTimeout(announce, ANNOUNCE_MS, () =>
        fail('timeout', 'the worker took too long to describe itself'),
      );
    } catch (thrown) {
      this.#log.warn('the worker could not describe itself', { error: asError(thrown).message });
      return undefined;
    }
  }

  told(scope: Scope, contextId: string): void {
    this.#told.add(keyOf(scope, contextId));
    evictOldest(this.#told, MAX_CONTEXTS);
  }

  /** The worker is another one than all have been told. */
  outdated(): void {
    this.#told.clear();
  }
}
