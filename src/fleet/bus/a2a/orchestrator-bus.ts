/**
 * The bus to A2A 1.0 agents: workers of ours that are served as agents, and agents that have never heard of fleets. Each is
 * found by its card, looked after by it, and called through the official SDK.
 *
 * @see docs/a2a.md#peers
 */

import type { BackoffOptions } from '../../../base/backoff.ts';
import type { Log } from '../../../base/log.ts';
import type { OrchestratorBus, PeerEvents } from '../peer.ts';
import { PeerHealthChecker, type PeerWatchOptions } from '../plain/peer-health.ts';
import { A2aPeer, type A2aPeerOwner } from './peer.ts';
import type { A2aPeerOptions } from './settings.ts';

export type { A2aPeerOptions } from './settings.ts';

export interface A2aBusOptions extends PeerWatchOptions {
  readonly peers: readonly A2aPeerOptions[];
  /** Longest wait for an answer, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
  /** Between two questions about a task that is not streamed. Default 250 ms, doubled up to 15 s while nothing happens. */
  readonly pollDelay?: BackoffOptions;
  readonly newId?: () => string;
}

/** Makes the bus. Fails with `config_invalid` for two peers of one name, or an address that is none. */
export function a2aBus(options: A2aBusOptions): OrchestratorBus {
  return new AgentsBus(options);
}

class AgentsBus implements OrchestratorBus, A2aPeerOwner {
  readonly binding = 'a2a';
  readonly log: Log;
  readonly callTimeoutMs: number | undefined;
  readonly pollDelay: BackoffOptions | undefined;
  readonly newId: () => string;
  readonly #watch: PeerHealthChecker<A2aPeer>;

  constructor(options: A2aBusOptions) {
    this.log = options.log;
    this.callTimeoutMs = options.callTimeoutMs;
    this.pollDelay = options.pollDelay;
    this.newId = options.newId ?? (() => crypto.randomUUID());
    const peers = options.peers.map((peer) => new A2aPeer(peer, this));
    this.#watch = new PeerHealthChecker(peers, options);
  }

  get events(): PeerEvents {
    return this.#watch.events;
  }

  get stopping(): AbortSignal {
    return this.#watch.stopping;
  }

  async start(events: PeerEvents): Promise<void> {
    this.#watch.start(events);
  }

  stop(): Promise<void> {
    return this.#watch.stop();
  }

  doubt(peer: A2aPeer): void {
    this.#watch.probeNow(peer);
  }
}
