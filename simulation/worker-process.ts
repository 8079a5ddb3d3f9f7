/**
 * One start of a worker: the shipped worker over a simulated executor, journal, repository and MCP servers, and the
 * client that connects it to the orchestrator, and reconnects.
 */
import { repeat } from '../src/base/timer-queue.ts';
import { ORCHESTRATOR_FEATURES } from '../src/fleet/bus/forward.ts';
import type { ReplyChannel } from '../src/fleet/bus/reply-channel.ts';
import { WorkerMessageHandler } from '../src/fleet/bus/worker-messages.ts';
import { decodeValue } from '../src/fleet/messages/decode.ts';
import { fleetMessage } from '../src/fleet/messages/encode.ts';
import type { RepositoryReader, TreeState } from '../src/fleet/worker/repository/git.ts';
import { createWorker, type Worker } from '../src/fleet/worker/worker.ts';
import { FEATURE_OF, type FleetMessage, type SessionAnnounce, type TaskResult } from '../src/protocol/fleet.ts';
import { fail, type HandfastError } from '../src/wire/errors.ts';
import { DiskWriter } from './disk.ts';
import { type RunObserver, simExecutor } from './executor.ts';
import type { SimLog } from './log.ts';
import type { Network } from './network.ts';
import { SimProcess } from './process.ts';
import type { Random } from './random.ts';
import type { Connection } from './sim-bus.ts';
import type { Site } from './site.ts';
import type { VirtualTime } from './virtual-time.ts';
import { type JournalObserver, memoryWorkerJournal, type WorkerDisk } from './worker-disk.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

/** Between two heartbeats; an orchestrator that missed this many is lost. */
const HEARTBEAT_MS = 15_000;
const MAX_MISSED = 3;
/** Time for the orchestrator to acknowledge a result. */
const DELIVER_TIMEOUT_MS = 15_000;
/** Bounds of the time between two tries to connect, and the duration of connecting. */
const REDIAL_MS: readonly [number, number] = [500, 2500];
const DIAL_MS = 30;

/** Checks and measurements at a worker. */
export interface WorkerObserver extends RunObserver, JournalObserver {
  /** Called when a message leaves the worker. */
  sent(message: FleetMessage): void;
  /** Called when a message of the orchestrator reaches the worker. */
  received(message: FleetMessage): void;
}

/** The orchestrator, as a worker reaches it. */
export interface OrchestratorAddress {
  /** Connects the worker; undefined if no process listens, or the announce was not accepted. */
  admit(announce: SessionAnnounce): Connection | undefined;
  receive(message: FleetMessage): void;
}

export interface WorkerProcessOptions {
  readonly site: Site;
  readonly disk: WorkerDisk;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly network: Network;
  readonly orchestrator: OrchestratorAddress;
  readonly taskOf: (taskId: string) => SimTask;
  readonly observer: WorkerObserver;
  readonly log: SimLog;
}

/** A result that was sent and not confirmed yet. */
interface Delivery {
  readonly messageId: string | undefined;
  readonly settle: (failure?: HandfastError) => void;
}

export class WorkerProcess implements ReplyChannel {
  readonly name = 'orchestrator';
  readonly features = new Set(ORCHESTRATOR_FEATURES);
  readonly #options: WorkerProcessOptions;
  readonly #process: SimProcess;
  readonly #writer: DiskWriter;
  readonly #deliveries = new Set<Delivery>();
  #worker: Worker | undefined;
  #handler: WorkerMessageHandler | undefined;
  #connection: Connection | undefined;
  /** Undoes the setup of a connection; undefined without one. */
  #disconnect: (() => void) | undefined;
  #beats = 0;

  constructor(options: WorkerProcessOptions) {
    this.#options = options;
    this.#process = new SimProcess(options.time);
    this.#writer = new DiskWriter(this.#process, options.random);
  }

  get worker(): Worker | undefined {
    return this.#worker;
  }

  async start(): Promise<void> {
    const { site, disk, time, random, taskOf, observer, log } = this.#options;
    const { clock } = this.#process;
    let ids = 0;
    const now = (): number => EPOCH_MS + time.nowMs + site.skewMs;
    const worker = await createWorker(
      {
        agentId: site.name,
        executor: simExecutor({
          site,
          time,
          process: this.#process,
          taskOf,
          startedAttempt: (taskId) => {
            const stored = disk.latest(taskId);
            return stored?.state === 'started' ? stored.attempt : undefined;
          },
          observer,
        }),
        cwd: '/',
        home: '/',
        modelTier: site.tier,
        contextWindow: site.window,
        tools: site.tools,
        // Never started: `probeServer` answers for them.
        mcpServers: site.servers.map((name) => ({ name, stdio: { command: name } })),
        pools: site.pools,
        maxConcurrent: site.capacity,
        overheadTokens: site.overhead,
        log,
        now,
        ...clock,
        newId: () => `${site.name}.${site.incarnation}.${++ids}`,
      },
      {
        journal: memoryWorkerJournal(disk, this.#writer, observer),
        repository: repositoryOf(site),
        probeServer: async ({ name }) => {
          const health = site.health.get(name) as 'ok' | 'timeout';
          return { health, tools: [], detail: health };
        },
        random: () => random.next(),
      },
    );
    this.#worker = worker;
    this.#handler = new WorkerMessageHandler(worker, log);
    await worker.start();
    this.#dialIn(0);
  }

  kill(): void {
    this.#writer.crash();
    this.#process.kill();
  }

  /** Handles a message of the orchestrator. */
  receive(message: FleetMessage): void {
    if (this.#handler === undefined || this.#disconnect === undefined) return;
    this.#options.observer.received(message);
    const decoded = decodeValue(message);
    if (!decoded.valid) return this.#options.log.error('a worker cannot read a message', { errors: decoded.errors });
    const { message: incoming } = decoded;
    if (incoming.type === 'TASK_ACK') {
      const { accepted, envelope } = incoming;
      const delivery = [...this.#deliveries].find(({ messageId }) => messageId === envelope?.causation_id);
      if (delivery !== undefined) {
        return delivery.settle(accepted ? undefined : fail('over_capacity', 'the result could not be stored'));
      }
      if (!accepted) return;
    }
    void this.#handler.receive(incoming, this, (answer) => this.#put(answer));
  }

  /** Notices a connection that the other end has closed, where that end can be reached. */
  checkConnection(): void {
    const { site, network } = this.#options;
    if (network.listening && site.reachable && this.#connection?.reachable === false) this.#disconnected();
  }

  #disconnected(): void {
    if (this.#disconnect === undefined) return;
    this.#disconnect();
    this.#disconnect = undefined;
    for (const { settle } of [...this.#deliveries]) settle(fail('connection_lost', 'the connection ended'));
    this.#redial();
  }

  // ReplyChannel: output of the worker.

  send(message: FleetMessage): void {
    const feature = FEATURE_OF[message.type];
    if (feature === undefined || this.features.has(feature)) this.#put(message);
  }

  deliverResult(result: TaskResult): Promise<void> {
    if (this.#disconnect === undefined) return Promise.reject(fail('connection_lost', 'not connected'));
    return new Promise((resolve, reject) => {
      const settle = (failure?: HandfastError): void => {
        cancel();
        this.#deliveries.delete(delivery);
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const delivery: Delivery = { messageId: result.envelope?.message_id, settle };
      const cancel = this.#process.after(DELIVER_TIMEOUT_MS, () =>
        settle(fail('timeout', 'the result was not confirmed')),
      );
      this.#deliveries.add(delivery);
      this.#put(result);
    });
  }

  #put(message: FleetMessage): void {
    const { site, network, orchestrator, observer } = this.#options;
    if (!this.#process.alive || this.#disconnect === undefined) return;
    observer.sent(message);
    network.toOrchestrator(site, () => orchestrator.receive(message));
  }

  #redial(): void {
    this.#dialIn(this.#options.random.between(...REDIAL_MS));
  }

  #dialIn(ms: number): void {
    this.#process.after(ms + DIAL_MS, () => void this.#dial());
  }

  /** Connects, with the first announce; a connection is made or not, and no part of it gets lost. */
  async #dial(): Promise<void> {
    const { site, network, orchestrator } = this.#options;
    const worker = this.#worker as Worker;
    if (!network.listening || !site.reachable) return this.#redial();
    const announce = await worker.announce();
    if (!this.#process.alive || !network.listening || !site.reachable) return this.#redial();
    this.#connection = orchestrator.admit(announce);
    if (this.#connection === undefined) return this.#redial();
    let missed = 0;
    const stopBeats = repeat(this.#process.clock.timer, HEARTBEAT_MS, () => {
      missed = network.listening && site.reachable ? 0 : missed + 1;
      if (missed === MAX_MISSED) return this.#disconnected();
      this.checkConnection();
      const { agentId: agent_id, incarnation, activeTasks: active_tasks } = worker;
      this.#put(fleetMessage('SESSION_HEARTBEAT', { agent_id, incarnation, seq: ++this.#beats, active_tasks }));
    });
    // Set before the worker sends the messages that wait for this connection.
    this.#disconnect = stopBeats;
    const detach = worker.attach(this);
    this.#disconnect = () => {
      stopBeats();
      detach();
    };
  }
}

/** Returns the folder of a worker: clean or not, and never changed by a run that ends by itself. */
function repositoryOf(site: Site): RepositoryReader {
  const state = (): TreeState => ({ branch: 'main', head: 'c0ffee', clean: !site.dirty, dirty: [] });
  return {
    treeState: async () => state(),
    placeIn: async () => ({ top: '/', prefix: '' }),
    markTree: async () => ({ ...state(), top: '/', prefix: '', stamps: new Map() }),
    changesSince: async () => ({
      branch: 'main',
      base_commit: 'c0ffee',
      head_commit: 'c0ffee',
      clean: !site.dirty,
      files_changed: [],
      truncated: false,
    }),
  };
}
