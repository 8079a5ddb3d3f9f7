/**
 * The bus over NATS JetStream, on the orchestrator's side: every worker writes a profile, tasks wait on the queues of workers
 * or pools, and one durable consumer brings all events of workers. An event is acknowledged when the orchestrator has stored
 * it, so none is lost while the orchestrator is down.
 *
 * @see docs/nats.md
 */
import type { FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import type { Announced, Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { forwardToOrchestrator, logNotStored } from '../forward.ts';
import type { BusOutage, FleetPeer, OrchestratorBus, PeerEvents, Whereabouts } from '../peer.ts';
import { Attempts, type DispatchQueue } from './attempts.ts';
import { Bucket, type Entry } from './bucket.ts';
import { EventConsumer } from './event-consumer.ts';
import { acquireLeadership, type Leadership, type LeadershipOptions } from './leadership.ts';
import { readLease } from './leases.ts';
import { NatsPeer } from './peer.ts';
import { Profiles } from './profiles.ts';
import { ControlRequests } from './requests.ts';
import { BUCKETS, consumers, idOf, isWorkerToken, subjects, tokenOf } from './subjects.ts';

export interface NatsBusOptions extends Omit<LeadershipOptions, 'signal' | 'standby'> {
  /** A leadership acquired before. Default: the bus acquires one when it starts, and releases it when it stops. */
  readonly leadership?: Leadership;
  /**
   * True when this account may speak for a worker, by its token. Default: for every worker.
   * @internal
   */
  readonly believes?: (agent: string) => boolean;
  /**
   * The workers of this account are in no pool, because the queues of pools are in another account. Default false.
   * @internal
   */
  readonly withoutPools?: boolean;
}

/** A bus, and when it ends by itself. */
export interface NatsBus extends OrchestratorBus {
  /**
   * Resolves when it has ended: with `superseded` when another orchestrator of the name leads, `connection_lost` when the
   * client abandoned the connection. Never rejects.
   */
  readonly closed: Promise<HandfastError | undefined>;
}

/**
 * Makes the bus over these servers. `start` fails with `unreachable`, `auth_failed`, `superseded`, `config_invalid`,
 * `not_configured`.
 */
export function natsBus(options: NatsBusOptions): NatsBus {
  return new JetStreamBus(options);
}

/** The parts of a running bus. */
interface Parts {
  readonly leadership: Leadership;
  readonly requests: ControlRequests;
  readonly attempts: Attempts;
  readonly profiles: Profiles;
  readonly intake: EventConsumer;
  readonly unwatchLeases: () => void;
}

class JetStreamBus implements NatsBus {
  readonly binding = 'nats';
  readonly closed: Promise<HandfastError | undefined>;
  readonly #options: NatsBusOptions;
  readonly #ended = Promise.withResolvers<HandfastError | undefined>();
  readonly #stopping = new AbortController();
  /** Peers by the token of their name. */
  readonly #peers = new Map<string, NatsPeer>();
  #parts: Partial<Parts> = {};
  #events: PeerEvents | undefined;

  constructor(options: NatsBusOptions) {
    this.#options = options;
    this.closed = this.#ended.promise;
  }

  async start(events: PeerEvents): Promise<void> {
    if (this.#events !== undefined) throw fail('usage', 'this bus was started before');
    this.#events = events;
    try {
      await this.#open();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async offer(pool: string, message: FleetMessage): Promise<void> {
    if (message.type !== 'TASK_DISPATCH') throw fail('usage', `a pool accepts dispatches only, not ${message.type}`);
    await this.#attempts().store(poolQueue(pool), message);
  }

  async find(pool: string, message: TaskDispatch): Promise<Whereabouts> {
    return this.#attempts().find(poolQueue(pool), message);
  }

  down(): BusOutage | undefined {
    const link = this.#parts.leadership?.link;
    const since = link?.downSince;
    return link === undefined || since === undefined
      ? undefined
      : { reason: `NATS at ${link.address} does not respond`, since };
  }

  async close(): Promise<void> {
    if (this.#stopping.signal.aborted) return void (await this.closed);
    this.#stopping.abort();
    await this.#close();
    this.#ended.resolve(undefined);
  }

  async #open(): Promise<void> {
    const { name, monotonic, newId = () => crypto.randomUUID() } = this.#options;
    const { signal } = this.#stopping;
    const leadership = this.#options.leadership ?? (await acquireLeadership({ ...this.#options, signal }));
    const { link, profileTtlS } = leadership;
    this.#parts = { leadership };
    void leadership.lost.then((error) => this.#end(error));
    const requests = new ControlRequests({ link, newId, answered: (peer, message) => this.#forward(peer, message) });
    const leases = new Bucket(link, BUCKETS.leases);
    const journal = new Bucket(link, BUCKETS.journal);
    const attempts = new Attempts({ link, leases, journal, check: () => this.#check() });
    this.#parts = { leadership, requests, attempts };
    const unknown = new NatsPeer('(unknown)', 'unknown', this.#context());
    link.aside.report(({ bucket, key, reasons }) =>
      this.#events!.malformed((bucket === BUCKETS.profiles && this.#peers.get(key)) || unknown, reasons),
    );
    const profiles = new Profiles(
      new Bucket(link, BUCKETS.profiles),
      {
        present: (agent, announce) => this.#present(agent, announce),
        absent: (agent, reason, asleep) => this.#absent(agent, reason, asleep),
        unreadable: (key, reasons) => link.aside.note({ bucket: BUCKETS.profiles, key, reasons }),
      },
      { ttlS: profileTtlS, monotonic },
    );
    this.#parts = { leadership, requests, attempts, profiles };
    // Profiles are read before events, so that each event has the peer it belongs to.
    await profiles.start();
    const unwatchLeases = await leases.watch('*', (entry) => this.#leased(entry));
    const intake = new EventConsumer({
      link,
      name: tokenOf(name),
      events: this.#events!,
      peer: (agent) => this.#peer(agent),
      unknown,
      believes: (agent) => this.#believes(agent),
      pool: (pool) => new NatsPeer(`pool:${idOf(pool) ?? pool}`, pool, this.#context()),
      restore: () => leadership.restore(),
    });
    this.#parts = { leadership, requests, attempts, profiles, unwatchLeases, intake };
    // Stopped meanwhile: `stop` waits for this.
    signal.throwIfAborted();
  }

  async #close(): Promise<void> {
    const { leadership, requests, profiles, unwatchLeases, intake } = this.#parts;
    for (const peer of this.#peers.values()) peer.present = false;
    await intake?.stop();
    unwatchLeases?.();
    profiles?.stop();
    requests?.stop();
    if (this.#options.leadership === undefined) await leadership?.close();
  }

  /** Ends everything here, so that nothing is decided twice: another orchestrator leads, or the connection cannot continue. */
  async #end(error: HandfastError): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#stopping.abort();
    this.#options.log?.error('the NATS bus has ended', { name: this.#options.name, error: error.message });
    for (const peer of [...this.#peers.values()].filter(({ present }) => present)) {
      peer.present = false;
      this.#events?.left(peer, error.message, false);
    }
    await this.#close();
    this.#ended.resolve(error);
  }

  #check(): void {
    const { leadership } = this.#parts;
    if (leadership === undefined || this.#stopping.signal.aborted)
      throw fail('unreachable', 'the NATS bus is not running');
    leadership.check();
  }

  #context() {
    const { leadership, attempts, requests } = this.#parts;
    return { link: leadership!.link, attempts: attempts!, requests: requests!, check: () => this.#check() };
  }

  #attempts(): Attempts {
    this.#check();
    return this.#parts.attempts!;
  }

  #believes(agent: string): boolean {
    return isWorkerToken(agent) && this.#options.believes?.(agent) !== false;
  }

  /** Returns the peer of a token. One whose name is too long for its token is named by its announce. */
  #peer(agent: string, agentId?: string): NatsPeer {
    const known = this.#peers.get(agent);
    if (known !== undefined) return known;
    const named = agentId !== undefined && tokenOf(agentId) === agent ? agentId : (idOf(agent) ?? agent);
    const peer = new NatsPeer(named, agent, this.#context());
    this.#peers.set(agent, peer);
    return peer;
  }

  #present(agent: string, announce: Announced): void {
    if (this.#stopping.signal.aborted) return;
    if (!this.#believes(agent)) {
      const reasons = ['the key names no worker of this account'];
      return this.#parts.leadership!.link.aside.note({ bucket: BUCKETS.profiles, key: agent, reasons });
    }
    const peer = this.#peer(agent, announce.agent_id);
    peer.features = new Set(announce.features);
    if (!peer.present) {
      peer.present = true;
      this.#events!.joined(peer);
    }
    this.#forward(peer, this.#options.withoutPools ? { ...announce, pools: [] } : announce);
  }

  #absent(agent: string, reason: string, asleep: boolean): void {
    const peer = this.#peers.get(agent);
    if (peer === undefined || !peer.present || this.#stopping.signal.aborted) return;
    peer.present = false;
    this.#events!.left(peer, reason, asleep);
  }

  /** Reads a lease: a renewed one means that its task still runs; a new one is reported by its TASK_ACK. */
  #leased({ value, update, removed, revision, key }: Entry): void {
    if (removed) return;
    const lease = readLease(value);
    if (lease === undefined || tokenOf(lease.task_id) !== key || !this.#believes(tokenOf(lease.agent))) {
      const reasons = ['not the lease of this task by a worker of this account'];
      return this.#parts.leadership!.link.aside.note({ bucket: BUCKETS.leases, key, reasons });
    }
    if (update && lease.renewed === 0) return;
    const { agent, attempt, ttl_s } = lease;
    const taskId = lease.task_id;
    const held = { accepted: true, state: 'running', lease: { ttl_s, fence: revision } } as const;
    this.#forward(
      this.#peer(tokenOf(agent), agent),
      fleetMessage('TASK_ACK', { task_id: taskId, ...held }, { attempt }),
    );
  }

  /** Forwards a message that the stream does not redeliver. */
  #forward(peer: FleetPeer, message: Incoming): void {
    if (this.#stopping.signal.aborted) return;
    forwardToOrchestrator(this.#events!, peer, message).catch((thrown: unknown) =>
      logNotStored(this.#options.log, peer, message, thrown),
    );
  }
}

const poolQueue = (pool: string): DispatchQueue => {
  const token = tokenOf(pool);
  return { subject: subjects.poolDispatch(token), consumer: consumers.pool(token) };
};
