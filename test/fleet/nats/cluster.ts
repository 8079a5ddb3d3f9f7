/**
 * A cluster of three real NATS servers on loopback, for tests: one can be killed at a time, and be started again on its store.
 */
import type { TestContext } from 'node:test';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { within } from '../../contract/recorder.ts';
import { ownPort } from '../../support/own-port.ts';
import { type Installed, NatsServer } from './server.ts';

const SERVERS = 3;
const READY_MS = 180_000;
/** Longest time of one question, in milliseconds: requests to NATS bound themselves, other questions of a test may not. */
const QUESTION_MS = 60_000;
const CLOSE_MS = 10_000;

export class NatsCluster {
  /** By name: `n1` to `n3`. */
  readonly servers: ReadonlyMap<string, NatsServer>;
  /** Aborts with the test: one that ran out of time must not continue and start servers that nothing ends. */
  readonly #signal: AbortSignal;

  private constructor(servers: ReadonlyMap<string, NatsServer>, signal: AbortSignal) {
    this.servers = servers;
    this.#signal = signal;
  }

  /** Starts three servers and waits until they have elected a leader. */
  static async start(context: TestContext, installed: Installed): Promise<NatsCluster> {
    const ports: number[] = [];
    while (ports.length < SERVERS) ports.push(await ownPort());
    const routes = ports.map((port) => `"nats-route://127.0.0.1:${port}"`).join(', ');
    const named = ports.map((port, index): [string, NatsServer] => {
      const cluster = `cluster { name: "test", listen: "127.0.0.1:${port}", routes: [ ${routes} ] }`;
      const name = `n${index + 1}`;
      return [name, new NatsServer(installed, { config: `server_name: "${name}"\n${cluster}` })];
    });
    const cluster = new NatsCluster(new Map(named), context.signal);
    context.after(() => Promise.all(named.map(([, server]) => server.remove())));
    await Promise.all(named.map(([, server]) => server.up()));
    await cluster.until((manager) => manager.getAccountInfo().then(() => true));
    return cluster;
  }

  get urls(): readonly string[] {
    return [...this.servers.values()].map(({ url }) => url);
  }

  /** Returns the server that decides about a stream now. */
  async leader(stream: string): Promise<string> {
    let leader: string | undefined;
    await this.until(async (manager) => {
      leader = (await manager.streams.info(stream)).cluster?.leader;
      return leader !== undefined && leader !== '';
    });
    return leader as string;
  }

  /** Resolves when every copy of every stream is up to date. */
  async healed(): Promise<void> {
    await this.until(async (manager) => {
      for await (const { cluster } of manager.streams.list()) {
        if (!cluster?.leader || cluster.replicas?.length !== SERVERS - 1) return false;
        if (cluster.replicas.some(({ current, offline }) => !current || offline)) return false;
      }
      return true;
    });
  }

  /** Asks until it is so. A question that fails meanwhile, as it does while servers elect a leader, is asked again. */
  async until(so: (manager: JetStreamManager) => Promise<boolean>): Promise<void> {
    const end = performance.now() + READY_MS;
    const settings = { servers: [...this.urls], maxReconnectAttempts: -1, reconnectTimeWait: 100, timeout: 5_000 };
    const connection = await within(connect(settings), 'a connection to the cluster', QUESTION_MS);
    try {
      const manager = await jetstreamManager(connection, { checkAPI: false, timeout: 2_000 });
      let why: unknown = 'not so';
      for (;;) {
        const found = await within(so(manager), 'what was asked of the cluster', QUESTION_MS).catch(
          (error: unknown) => {
            why = error;
            return false;
          },
        );
        this.#signal.throwIfAborted();
        if (found) return;
        if (performance.now() > end) throw new Error(`the cluster was not as it should be in time: ${String(why)}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    } finally {
      await within(connection.close(), 'the connection to close', CLOSE_MS).catch(() => {});
    }
  }
}
