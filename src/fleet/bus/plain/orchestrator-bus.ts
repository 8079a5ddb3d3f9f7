/**
 * The part of a bus that is equal for all plain peers: found at configured addresses, health-checked, and called with one HTTP
 * client.
 *
 * `http/orchestrator-bus.ts` and `a2a/orchestrator-bus.ts` extend it.
 */
import type { Log } from '../../../base/log.ts';
import type { TokenSource } from '../../../connection/token.ts';
import type { Binding, OrchestratorBus, PeerEvents } from '../peer.ts';
import { HttpClient } from './http-client.ts';
import { type HealthCheckedPeer, PeerHealthChecker, type PeerHealthOptions } from './peer-health.ts';

/** A peer, from the configuration. */
export interface PlainPeerOptions {
  /** Its name here. */
  readonly name: string;
  /** Base address, `http://host:port`. */
  readonly url: string;
  /** Read for each call, and again when it was refused. Sent only to the origin of `url`. */
  readonly token?: TokenSource;
}

/** The members of a bus that its peers use. */
export interface PlainPeerOwner {
  readonly events: PeerEvents;
  readonly client: HttpClient;
  readonly log: Log;
  /** Longest wait for a response to anything but a dispatch, milliseconds. */
  readonly callTimeoutMs: number;
  readonly newId: () => string;
  /** Aborts when the bus stops. */
  readonly stopping: AbortSignal;
  /** Probes the peer at once: something happened that its health may explain. */
  probeNow(peer: HealthCheckedPeer): void;
}

export interface PlainBusOptions extends PeerHealthOptions {
  readonly peers: readonly PlainPeerOptions[];
  /** Longest wait for a response to anything but a dispatch, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
  readonly newId?: () => string;
}

export abstract class PlainBus<P extends HealthCheckedPeer> implements OrchestratorBus, PlainPeerOwner {
  abstract readonly binding: Binding;
  readonly client = new HttpClient();
  readonly log: Log;
  readonly callTimeoutMs: number;
  readonly newId: () => string;
  readonly #options: PlainBusOptions;
  #health: PeerHealthChecker<P> | undefined;

  constructor(options: PlainBusOptions) {
    this.#options = options;
    this.log = options.log;
    this.callTimeoutMs = options.callTimeoutMs ?? 10_000;
    this.newId = options.newId ?? (() => crypto.randomUUID());
  }

  /** Called once, by the constructor of the bus. Fails with `config_invalid` for two peers of one name. */
  protected supervise(peers: readonly P[]): void {
    this.#health = new PeerHealthChecker(peers, this.#options);
  }

  protected get health(): PeerHealthChecker<P> {
    return this.#health as PeerHealthChecker<P>;
  }

  get events(): PeerEvents {
    return this.health.events;
  }

  get stopping(): AbortSignal {
    return this.health.stopping;
  }

  async start(events: PeerEvents): Promise<void> {
    this.health.start(events);
  }

  async close(): Promise<void> {
    const stopped = this.health.stop();
    this.client.close(this.stopping.reason);
    await stopped;
  }

  probeNow(peer: HealthCheckedPeer): void {
    this.health.probeNow(peer as P);
  }
}
