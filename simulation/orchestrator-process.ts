/**
 * One start of the orchestrator: the shipped one over a simulated bus and store.
 */
import { createOrchestrator } from '../src/fleet/orchestrator/orchestrator.ts';
import type { Orchestrator } from '../src/fleet/orchestrator/orchestrator-options.ts';
import type { Journal } from '../src/journal/journal.ts';
import { DiskWriter } from './disk.ts';
import type { SimLog } from './log.ts';
import { SimProcess } from './process.ts';
import type { Random } from './random.ts';
import { SimBus, type SimBusOptions } from './sim-bus.ts';
import type { TaskDisk } from './task-disk.ts';
import type { VirtualTime } from './virtual-time.ts';
import { EPOCH_MS } from './workload.ts';

/** Leases hold for so long, seconds: the default. */
export const LEASE_TTL_S = 45;

export interface OrchestratorProcessOptions extends Pick<SimBusOptions, 'network' | 'observer' | 'deliver'> {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly disk: TaskDisk;
  readonly log: SimLog;
}

export class OrchestratorProcess {
  readonly bus: SimBus;
  readonly orchestrator: Orchestrator;
  readonly #process: SimProcess;
  readonly #writer: DiskWriter;
  #ready = false;

  constructor({ time, random, disk, log, ...wire }: OrchestratorProcessOptions) {
    this.#process = new SimProcess(time);
    this.#writer = new DiskWriter(this.#process, random);
    this.bus = new SimBus({ process: this.#process, ...wire });
    this.orchestrator = createOrchestrator({
      name: 'orchestrator',
      store: disk.open(this.#writer),
      journal: NO_JOURNAL,
      retainMs: 30 * 60_000,
      buses: [this.bus],
      leaseTtlS: LEASE_TTL_S,
      log,
      now: () => EPOCH_MS + time.nowMs,
      ...this.#process.clock,
      nextTurn: (run) => void this.#process.after(0, run),
      random: () => random.next(),
    });
  }

  /** True when it takes tasks and commands. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Calls `run` after `ms` milliseconds, if it lives then. */
  after(ms: number, run: () => void): void {
    this.#process.after(ms, run);
  }

  async start(): Promise<void> {
    await this.orchestrator.start();
    this.#ready = this.#process.alive;
  }

  kill(): void {
    this.#ready = false;
    this.#writer.crash();
    this.#process.kill();
    this.bus.died();
  }
}

/** Streams for readers of a task: a simulation has none. */
const NO_JOURNAL: Journal = {
  volatileFailures: 0,
  append: () => undefined,
  read: async () => ({ entries: [], gap: undefined, last: 0 }),
  follow: async function* () {},
  sessions: async () => [],
  owner: () => undefined,
  delete: async () => {},
  close: async () => {},
};
