/**
 * Joins a worker to a fleet on NATS: it pulls dispatches from its own queue and from those of its pools as it has capacity,
 * runs the attempts it holds the lease of, and leaves its results on the events stream. It stays joined through every outage.
 *
 * @see docs/nats.md
 */

import { orAborted, withTimeout } from '../../../base/race.ts';
import type { ConnectionState, StateChange } from '../../../connection/reconnect.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import { fleetMessage } from '../../messages/encode.ts';
import type { WorkerPort } from '../reply-channel.ts';
import type { Joined } from '../stream/join.ts';
import { Bucket } from './bucket.ts';
import { type NatsLink, type NatsOptions, openNats } from './connection.ts';
import { DispatchConsumer } from './dispatch-consumer.ts';
import { Leases } from './leases.ts';
import { Presence } from './presence.ts';
import { PullConsumer } from './pull-consumer.ts';
import type { Retry } from './redial.ts';
import { NatsReplyChannel } from './reply-channel.ts';
import { ACK_WAIT_S, ensureFleet, ensureWorker, type StorageOptions } from './streams.ts';
import { BUCKETS, consumers, inboxOf, STREAMS, tokenOf } from './subjects.ts';
import { WorkerControl } from './worker-control.ts';

export interface JoinNatsOptions extends NatsOptions, StorageOptions {
  /** Names the fleet in the worker's journal; the same after a restart. Default `nats`. */
  readonly channelName?: string;
  /**
   * Called when the worker has joined, lost its server, is back, or has left, and before every attempt to dial. The NATS client
   * itself dials: of several servers it may dial another one sooner than `retryInMs`.
   */
  readonly onState?: (change: StateChange) => void;
  /** Cancels joining; has no effect once the worker was accepted. `closed` then resolves as after `close`. */
  readonly signal?: AbortSignal;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
}

/** Joins; retries without a limit, unless `connectTimeoutMs` sets one. */
export function joinNats(worker: WorkerPort, options: JoinNatsOptions): Joined {
  return new Membership(worker, options);
}

/** Time between two checks for capacity while the worker has none, in milliseconds. */
const LOOK_MS = 50;
const LEAVE_MS = 5_000;

/** Waits, but not for long. */
const bounded = (ending: Promise<unknown>): Promise<unknown> =>
  withTimeout(ending, LEAVE_MS, () => fail('timeout', 'not ended in time')).catch(() => {});

/** The parts of a worker that is a member. */
interface Parts {
  readonly link: NatsLink;
  readonly presence: Presence;
  readonly reception: DispatchConsumer;
  readonly control: WorkerControl;
  readonly pullers: readonly PullConsumer[];
}

class Membership implements Joined {
  readonly accepted: Promise<void>;
  readonly closed: Promise<HandfastError | undefined>;
  readonly peerId: string;
  readonly #worker: WorkerPort;
  readonly #options: JoinNatsOptions;
  readonly #leaving = new AbortController();
  readonly #over = Promise.withResolvers<HandfastError | undefined>();
  #parts: Parts | undefined;
  #look: NodeJS.Timeout | undefined;
  #detach: (() => void) | undefined;
  #reason = 'stopping';
  #ended = false;
  /** True when it has sent SESSION_BYE and accepts no more tasks. */
  #parted = false;

  constructor(worker: WorkerPort, options: JoinNatsOptions) {
    this.#worker = worker;
    this.#options = options;
    this.peerId = worker.agentId;
    const first = Promise.withResolvers<void>();
    this.accepted = first.promise;
    // A caller that does not await it must not get an unhandled rejection.
    this.accepted.catch(() => {});
    this.closed = this.#run(first);
    orAborted(this.accepted, options.signal).catch(() => this.close());
  }

  get state(): ConnectionState {
    if (this.#ended) return 'closed';
    return this.connected ? 'open' : 'lost';
  }

  get connected(): boolean {
    return this.#parts?.link.up ?? false;
  }

  async close(reason = 'stopping'): Promise<void> {
    this.#reason = reason;
    this.#leaving.abort();
    this.#over.resolve(undefined);
    await this.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #run(first: PromiseWithResolvers<void>): Promise<HandfastError | undefined> {
    let over: HandfastError | undefined;
    let link: NatsLink | undefined;
    try {
      const { connectTimeoutMs = Number.POSITIVE_INFINITY } = this.#options;
      const { signal } = this.#leaving;
      const inboxPrefix = inboxOf(this.peerId);
      const settings = { ...this.#options, connectTimeoutMs };
      const onRetry = (retry: Retry): void => this.#lost(retry);
      link = await openNats(`worker ${this.peerId}`, settings, { signal, inboxPrefix, onRetry });
      void link.lost.then((error) => this.#over.resolve(error));
      this.#parts = await this.#open(link);
      signal.throwIfAborted();
      first.resolve();
      this.#options.onState?.({ state: 'open' });
      over = await this.#over.promise;
    } catch (thrown) {
      over = this.#leaving.signal.aborted ? undefined : asError(thrown);
    }
    first.reject(over ?? fail('cancelled', 'the worker left before it was accepted'));
    await this.#close(link);
    this.#ended = true;
    this.#options.onState?.({ state: 'closed', ...(over !== undefined && { error: over }) });
    return over;
  }

  async #open(link: NatsLink): Promise<Parts> {
    const worker = this.#worker;
    const { channelName = 'nats', monotonic } = this.#options;
    const agent = tokenOf(worker.agentId);
    const pools = worker.pools.map(tokenOf);
    const restore = async (): Promise<void> => {
      await ensureFleet(link, this.#options);
      await ensureWorker(link, agent, pools, worker.maxConcurrent, this.#options);
    };
    const { leaseTtlS: ttlS, profileTtlS } = await ensureFleet(link, this.#options);
    await ensureWorker(link, agent, pools, worker.maxConcurrent, this.#options);
    const bucket = (name: string): Bucket => new Bucket(link, name);
    const presence = new Presence({
      link,
      worker,
      profiles: bucket(BUCKETS.profiles),
      discovery: bucket(BUCKETS.discovery),
      ttlS: profileTtlS,
      taken: (error) => {
        link.log?.error('another worker of this name replaced this one', { agent_id: worker.agentId });
        this.#over.resolve(error);
      },
    });
    const channel = new NatsReplyChannel({
      link,
      name: channelName,
      agentId: worker.agentId,
      announced: (announce) => presence.announce(announce),
      left: (bye) => {
        this.#parted = true;
        void presence.bye(bye);
      },
      delivered: () => this.#freed(),
    });
    const { agentId, incarnation } = worker;
    const reception = new DispatchConsumer({
      link,
      worker,
      channel,
      leases: new Leases({
        leases: bucket(BUCKETS.leases),
        journal: bucket(BUCKETS.journal),
        agent: agentId,
        incarnation,
        ttlS,
        monotonic,
      }),
      freed: () => this.#freed(),
      workingMs: ((this.#options.ackWaitS ?? ACK_WAIT_S) * 1000) / 3,
    });
    // Subscribes before it is visible, so that no message is lost.
    const control = new WorkerControl({
      link,
      agentId,
      restore,
      handle: (message, reply) => reception.handle(message, reply),
      send: (answer) => channel.send(answer),
    });
    try {
      await presence.start(await worker.announce());
    } catch (error) {
      presence.end();
      control.stop();
      await reception.stop();
      throw error;
    }
    this.#attach(link, channel);
    const queues = [consumers.agent(agent), ...pools.map(consumers.pool)];
    const pullers = queues.map(
      (consumer) =>
        new PullConsumer(link, {
          stream: STREAMS.dispatch,
          consumer,
          capacity: () => this.#room(reception),
          onDelivery: (delivery) => reception.receive(delivery),
          restore,
        }),
    );
    return { link, presence, reception, control, pullers };
  }

  /**
   * Attaches the channel to a link: results wait in the worker's outbox while the server is unreachable, and are sent at once
   * when it is back.
   */
  #attach(link: NatsLink, channel: NatsReplyChannel): void {
    this.#detach = this.#worker.attach(channel);
    link.onChange((up) => {
      this.#detach?.();
      this.#detach = up ? this.#worker.attach(channel) : undefined;
      if (this.#leaving.signal.aborted) return;
      if (up) return this.#options.onState?.({ state: 'resumed' });
      const reason = fail('connection_lost', 'the connection to the NATS server is lost');
      this.#lost({ reason, attempt: 1, retryInMs: link.retryInMs });
    });
    link.onRetry((retry) => this.#lost(retry));
  }

  #lost(retry: Retry): void {
    if (!this.#leaving.signal.aborted) this.#options.onState?.({ state: 'lost', ...retry });
  }

  #room(reception: DispatchConsumer): number {
    const room = this.#parted ? 0 : reception.room;
    // Tasks of other bindings end without a notice here.
    if (room === 0) this.#look ??= setTimeout(() => this.#freed(), LOOK_MS).unref();
    return room;
  }

  #freed(): void {
    clearTimeout(this.#look);
    this.#look = undefined;
    this.#parts?.reception.next();
    for (const puller of this.#parts?.pullers ?? []) puller.more();
  }

  async #close(link: NatsLink | undefined): Promise<void> {
    const parts = this.#parts;
    this.#parts = undefined;
    clearTimeout(this.#look);
    if (link === undefined) return;
    if (parts !== undefined) {
      for (const puller of parts.pullers) puller.stop();
      parts.control.stop();
      const { agentId: agent_id, incarnation } = this.#worker;
      const bye = fleetMessage('SESSION_BYE', { agent_id, incarnation, reason: this.#reason });
      await bounded(parts.reception.stop());
      await bounded(parts.presence.bye(bye));
      parts.presence.end();
    }
    this.#detach?.();
    await link.close();
  }
}
