/**
 * A fleet on a separate NATS server, for tests: opens orchestrators and workers, and ends them with the test.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { Log } from '../../../src/base/log.ts';
import { type JoinNatsOptions, joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { type NatsBus, type NatsBusOptions, natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import type { StorageOptions } from '../../../src/fleet/bus/nats/streams.ts';
import type { WorkerPort } from '../../../src/fleet/bus/reply-channel.ts';
import type { Joined } from '../../../src/fleet/bus/stream/join.ts';
import { within } from '../../contract/recorder.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { type Installed, NatsServer, type ServerSettings } from './server.ts';

const say =
  (level: string) =>
  (message: string, fields?: Record<string, unknown>): void => {
    if (process.env.NATS_TEST_LOG) console.error(level, message, JSON.stringify(fields ?? {}));
  };

/** Quiet, unless `NATS_TEST_LOG` is set. */
export const log: Log = { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') };

/** A worker of pools. */
export class PoolWorker extends ScriptedWorker {
  override readonly pools: readonly string[];

  constructor(pools: readonly string[], options: ConstructorParameters<typeof ScriptedWorker>[0]) {
    super(options);
    this.pools = pools;
  }
}

export class NatsFleet {
  readonly server: NatsServer;
  /** For all members, so that it does not matter which one makes the buckets. */
  storage: StorageOptions = {};
  readonly #members: (() => Promise<void>)[] = [];

  private constructor(server: NatsServer) {
    this.server = server;
  }

  static async start(context: TestContext, installed: Installed, settings?: ServerSettings): Promise<NatsFleet> {
    const server = new NatsServer(installed, settings);
    const fleet = new NatsFleet(server);
    // The server goes last: a member that leaves reports it.
    context.after(async () => {
      // The server goes although a member could not leave, or is not done: otherwise this process would stay for ever.
      const left = await Promise.allSettled(fleet.#members.map((leave) => within(leave(), 'a member to leave')));
      await server.remove();
      for (const outcome of left) if (outcome.status === 'rejected') throw outcome.reason;
    });
    await server.up();
    return fleet;
  }

  /** Starts an orchestrator. */
  async orchestrator(options: Partial<NatsBusOptions> = {}): Promise<{ bus: NatsBus; events: PeerRecorder }> {
    const bus = natsBus({ servers: this.server.url, name: 'main', log, ...this.storage, ...options });
    const events = new PeerRecorder();
    this.#members.push(() => bus.close());
    await bus.start(events);
    return { bus, events };
  }

  /** Makes a worker join. */
  async worker<W extends WorkerPort>(worker: W, options: Partial<JoinNatsOptions> = {}): Promise<Joined> {
    const joined = joinNats(worker, { servers: this.server.url, log, ...this.storage, ...options });
    this.#members.push(() => joined.close());
    await within(joined.accepted, 'the worker to be accepted');
    return joined;
  }

  /** Registers work for the end of the test, before the server goes. */
  onEnd(work: () => Promise<void>): void {
    this.#members.push(work);
  }

  /** Starts a worker in a separate process and waits until it has joined. `heard` gets its output. */
  async child(options: Record<string, unknown>, heard: (said: string) => void = () => {}): Promise<ChildProcess> {
    const settings = JSON.stringify({ ...this.storage, ...options });
    const child = fork(join(import.meta.dirname, 'worker-child.ts'), [this.server.url, settings], {
      execArgv: ['-C', 'handfast-source'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#members.push(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    });
    const ready = new Promise<void>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the worker ended with ${code}`)));
      child.on('message', (said: string) => (said === 'ready' ? resolve() : heard(said)));
    });
    await within(ready, 'the worker to join');
    child.removeAllListeners('exit');
    return child;
  }

  /** Kills it, without a word. */
  async kill(child: ChildProcess): Promise<void> {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await within(gone, 'the worker to end');
  }

  /** Returns the path of the journal of a worker of this fleet. */
  journal(name: string): string {
    return this.server.file(`${name}.journal`);
  }

  /** Dispatches on the queues. */
  async waiting(): Promise<number> {
    return this.manage(async (manager) => (await manager.streams.info('A2A_DISPATCH')).state.messages);
  }

  /** Dispatches that were delivered, or are to be, and that are not acknowledged. */
  async outstanding(): Promise<number> {
    return this.manage(async (manager) => {
      let outstanding = 0;
      for await (const info of manager.consumers.list('A2A_DISPATCH'))
        outstanding += info.num_pending + info.num_ack_pending;
      return outstanding;
    });
  }

  /**
   * Takes deliveries of a consumer of dispatches without a reply, until `expected` have come and no more do; returns their
   * number.
   */
  async swallow(consumer: string, expected: number): Promise<number> {
    return this.manage(async (manager) => {
      const pull = await manager.jetstream().consumers.get('A2A_DISPATCH', consumer);
      let deliveries = 0;
      while ((await pull.next({ expires: deliveries < expected ? 20_000 : 1000 })) !== null) deliveries++;
      return deliveries;
    });
  }

  /** Waits for something only the server can tell. */
  async until(condition: () => Promise<boolean>, what: string, withinMs = 120_000): Promise<void> {
    const end = performance.now() + withinMs;
    while (!(await condition())) {
      if (performance.now() > end) throw new Error(`not in time: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async manage<T>(work: (manager: JetStreamManager) => Promise<T>): Promise<T> {
    const connection = await connect({ servers: this.server.url });
    try {
      return await work(await jetstreamManager(connection));
    } finally {
      await connection.close();
    }
  }
}
