/**
 * The bus over NATS JetStream, on the orchestrator's side: workers are those that write a profile, tasks wait on their
 * queues or on those of pools, and everything workers say comes through one durable consumer that is acknowledged when the
 * orchestrator has kept it. Nothing is lost while the orchestrator is away.
 *
 * Made by whoever puts a fleet together; called by `orchestrator/`.
 * @see docs/nats.md
 */
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Announced, Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import type { OrchestratorBus, PeerEvents } from '../peer.ts';
import { Bucket, type Entry } from './bucket.ts';
import { EventConsumer } from './event-consumer.ts';
import { acquireLeadership, type Leadership, type SeatOptions } from './leadership.ts';
import { readLease } from './leases.ts';
import { keepDispatch, NatsPeer } from './peer.ts';
import { Profiles } from './profiles.ts';
import { ControlRequests } from './requests.ts';
import { BUCKETS, idOf, subjects, tokenOf } from './subjects.ts';

export interface NatsBusOptions extends Omit<SeatOptions, 'signal' | 'standby'> {
  /** Where the orchestrator has its place already. Default: the bus takes one when it starts, and gives it back. */
  readonly leadership?: Leadership;
}

/** A bus, and when it is over by itself. */
export interface NatsBus extends OrchestratorBus {
  /**
   * Resolves when it has ended: with `superseded` when another orchestrator of the name is at work, `connection_lost` when
   * the client gave the connection up. Never rejects.
   */
  readonly ended: Promise<HandfastError | undefined>;
}

/** The bus over these servers. `start` fails with `unreachable`, `auth_failed`, `superseded`, `config_invalid`, `not_configured`. */
export function natsBus(options: NatsBusOptions): NatsBus {
  return new JetStreamBus(options);
}

/** Everything that is there while the bus runs. */
interface Parts {
  readonly leadership: Leadership;
  readonly requests: ControlRequests;
  readonly profiles: Profiles;
  readonly intake: EventConsumer;
  readonly unwatchLeases: () => void;
}

class JetStreamBus implements NatsBus {
  readonly binding = 'nats';
  readonly ended: Promise<HandfastError | undefined>;
  readonly #options: NatsBusOptions;
  readonly #over = Promise.withResolvers<HandfastError | undefined>();
  readonly #stopping = new AbortController();
  /** By the token of their name. */
  readonly #peers = new Map<string, NatsPeer>();
  #parts: Partial<Parts> = {};
  #events: PeerEvents | undefined;

  constructor(options: NatsBusOptions) {
    this.#options = options;
    this.ended = this.#over.promise;
  }

  async start(events: PeerEvents): Promise<void> {
    if (this.#events !== undefined) throw fail('usage', 'this bus was started before');
    this.#events = events;
    try {
      await this.#open();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async offer(pool: string, message: FleetMessage): Promise<void> {
    if (message.type !== 'TASK_DISPATCH') throw fail('usage', `a pool takes no ${message.type}`);
    this.#check();
    const check = (): void => this.#check();
    await keepDispatch(this.#parts.leadership!.link, subjects.poolDispatch(tokenOf(pool)), message, { check });
  }

  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return void (await this.ended);
    this.#stopping.abort();
    await this.#close();
    this.#over.resolve(undefined);
  }

  async #open(): Promise<void> {
    const { name, monotonic, newId = () => crypto.randomUUID() } = this.#options;
    const { signal } = this.#stopping;
    const seat = this.#options.leadership ?? (await acquireLeadership({ ...this.#options, signal }));
    const { link, profileTtlS } = seat;
    this.#parts = { leadership: seat };
    void seat.lost.then((error) => this.#end(error));
    const requests = new ControlRequests({ link, newId, answered: (peer, message) => this.#tell(peer, message) });
    this.#parts = { leadership: seat, requests };
    const profiles = new Profiles(
      await Bucket.open(link, BUCKETS.profiles),
      {
        present: (agent, announce) => this.#present(agent, announce),
        absent: (agent, reason, asleep) => this.#absent(agent, reason, asleep),
        unreadable: (agent, codes) => this.#events!.unreadable(this.#peer(agent), codes),
      },
      { ttlS: profileTtlS, monotonic },
    );
    this.#parts = { leadership: seat, requests, profiles };
    // Who is there is known before what they said is heard.
    await profiles.start();
    const leases = await Bucket.open(link, BUCKETS.leases);
    const unwatchLeases = await leases.watch('*', (entry) => this.#leased(entry));
    const intake = new EventConsumer({
      link,
      name: tokenOf(name),
      events: this.#events!,
      peer: (agent) => this.#peer(agent),
      pool: (pool) => new NatsPeer(`pool:${idOf(pool) ?? pool}`, pool, this.#context()),
      restore: () => seat.restore(),
    });
    this.#parts = { leadership: seat, requests, profiles, unwatchLeases, intake };
    // Stopped meanwhile: whoever stopped it waits for this.
    signal.throwIfAborted();
  }

  async #close(): Promise<void> {
    const { leadership: seat, requests, profiles, unwatchLeases, intake } = this.#parts;
    for (const peer of this.#peers.values()) peer.present = false;
    await intake?.stop();
    unwatchLeases?.();
    profiles?.stop();
    requests?.stop();
    if (this.#options.leadership === undefined) await seat?.leave();
  }

  /** Somebody else goes on, or there is no way to go on: everything here ends, so that nothing is decided twice. */
  async #end(error: HandfastError): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#stopping.abort();
    this.#options.log?.error('the NATS bus has ended', { name: this.#options.name, error: error.message });
    for (const peer of [...this.#peers.values()].filter(({ present }) => present)) {
      peer.present = false;
      this.#events?.left(peer, error.message, false);
    }
    await this.#close();
    this.#over.resolve(error);
  }

  #check(): void {
    const { leadership: seat } = this.#parts;
    if (seat === undefined || this.#stopping.signal.aborted) throw fail('unreachable', 'the NATS bus does not run');
    seat.check();
  }

  #context() {
    return { link: this.#parts.leadership!.link, requests: this.#parts.requests!, check: () => this.#check() };
  }

  /** The peer of a token. One whose name is too long for its token is named by its announce. */
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
    const peer = this.#peer(agent, announce.agent_id);
    peer.features = new Set(announce.features);
    if (!peer.present) {
      peer.present = true;
      this.#events!.joined(peer);
    }
    this.#tell(peer, announce);
  }

  #absent(agent: string, reason: string, asleep: boolean): void {
    const peer = this.#peers.get(agent);
    if (peer === undefined || !peer.present || this.#stopping.signal.aborted) return;
    peer.present = false;
    this.#events!.left(peer, reason, asleep);
  }

  /** A renewed lease says that its task goes on; the first of each is told by its TASK_ACK. */
  #leased({ value, update, gone, revision, key }: Entry): void {
    const lease = gone ? undefined : readLease(value);
    if (lease === undefined || (update && lease.renewed === 0)) return;
    const { agent, attempt, ttl_s } = lease;
    const taskId = lease.task_id;
    if (tokenOf(taskId) !== key) return;
    const held = { accepted: true, state: 'running', lease: { ttl_s, fence: revision } } as const;
    this.#tell(this.#peer(tokenOf(agent), agent), fleetMessage('TASK_ACK', { task_id: taskId, ...held }, { attempt }));
  }

  /** What need not be kept. */
  #tell(peer: NatsPeer, message: Incoming): void {
    if (this.#stopping.signal.aborted) return;
    void (async () => {
      try {
        await this.#events!.received(peer, message);
      } catch (thrown) {
        const { code, message: why } = asError(thrown);
        this.#options.log?.warn('a message was not kept', {
          worker: peer.peerId,
          type: message.type,
          code,
          error: why,
        });
      }
    })();
  }
}
