/**
 * Finds attempts that give no sign on a bus that stores them: one that waits on a queue or is leased is fine, however long; one
 * that is nowhere was lost with a server, or dropped by a worker, and is tried again or asked about.
 *
 * @see docs/nats.md#attempts-that-are-nowhere
 */
import type { Log } from '../../base/log.ts';
import { asError } from '../../wire/errors.ts';
import type { OrchestratorBus, Whereabouts } from '../bus/peer.ts';
import type { AttemptFailures } from './attempt-failures.ts';
import type { LeaseTimers } from './lease-timers.ts';
import type { Peers } from './peers.ts';
import { isActive, isOffer, poolOf } from './task-machine.ts';
import { dispatchOf } from './task-record.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';

export interface AttemptFinderOptions {
  readonly name: string;
  readonly registry: TaskRegistry;
  readonly peers: Peers;
  readonly buses: readonly OrchestratorBus[];
  readonly failures: () => AttemptFailures;
  readonly leases: () => LeaseTimers;
  readonly leaseTtlS: number;
  readonly now: () => number;
  readonly log: Log;
  /** Asks the worker of an attempt how it is. */
  poll(tracked: TrackedTask): void;
}

/** Questions to buses at a time. */
const AT_ONCE = 32;

export class AttemptFinder {
  readonly #options: AttemptFinderOptions;
  readonly #looking = new Set<string>();
  readonly #waiting: TrackedTask[] = [];
  #asking = 0;
  #stopped = false;

  constructor(options: AttemptFinderOptions) {
    this.#options = options;
  }

  /** True when the bus of this worker, or of the pool it stands for, can be asked. */
  finds(worker: string | null): boolean {
    return this.#finderOf(worker) !== undefined;
  }

  /** True while it is asked where this attempt is. */
  looks(taskId: string): boolean {
    return this.#looking.has(taskId);
  }

  /** Asks where the attempt is, and decides what follows. */
  look(tracked: TrackedTask): void {
    if (this.#stopped || this.#looking.has(tracked.id)) return;
    this.#looking.add(tracked.id);
    this.#waiting.push(tracked);
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.length = 0;
    this.#looking.clear();
  }

  #next(): void {
    while (this.#asking < AT_ONCE && this.#waiting.length > 0) {
      this.#asking += 1;
      void this.#ask(this.#waiting.shift() as TrackedTask).finally(() => {
        this.#asking -= 1;
        this.#next();
      });
    }
  }

  /** Never rejects. */
  async #ask(tracked: TrackedTask): Promise<void> {
    const { name, leaseTtlS, now, log } = this.#options;
    const { attempt, worker } = tracked.record;
    const find = this.#finderOf(worker);
    let found: Whereabouts | undefined;
    try {
      // Its dispatch is still being sent: that ends by itself.
      if (!tracked.sending) found = await find?.(dispatchOf(tracked.record, name, leaseTtlS, now()));
    } catch (thrown) {
      const { code, message } = asError(thrown);
      log.debug('an attempt could not be looked for', { task_id: tracked.id, attempt, code, error: message });
    }
    this.#looking.delete(tracked.id);
    const { record } = tracked;
    const same = isActive(record) && record.attempt === attempt && record.worker === worker;
    if (same && !this.#stopped && !tracked.superseded) this.#decide(tracked, found);
  }

  #decide(tracked: TrackedTask, found: Whereabouts | undefined): void {
    const { registry, peers, failures, leases, log, poll } = this.#options;
    const { state, worker, attempt } = tracked.record;
    const isOffered = isOffer(worker);
    if (found === undefined && !isOffered) return poll(tracked);
    if (found?.at !== 'nowhere') return leases().renew(tracked);
    log.warn('an attempt is on no queue and no worker has its lease', {
      task_id: tracked.id,
      worker,
      attempt,
      ...found,
    });
    const { startedBy } = found;
    if (startedBy === undefined && (state === 'reserved' || state === 'sent')) {
      return failures().unknownToWorker(tracked);
    }
    if (isOffered && startedBy !== undefined) {
      const incarnation = peers.get(startedBy)?.announced?.incarnation ?? null;
      registry.apply(tracked, { type: 'claimed', worker: startedBy, incarnation, attempt });
      leases().renew(tracked);
    }
    poll(tracked);
  }

  #finderOf(worker: string | null): ((message: ReturnType<typeof dispatchOf>) => Promise<Whereabouts>) | undefined {
    if (worker === null) return undefined;
    if (isOffer(worker)) {
      const bus = this.#options.buses.find(({ offer }) => offer !== undefined);
      return bus?.find && ((message) => bus.find!(poolOf(worker), message));
    }
    const peer = this.#options.peers.get(worker)?.peer;
    return peer?.find && ((message) => peer.find!(message));
  }
}
