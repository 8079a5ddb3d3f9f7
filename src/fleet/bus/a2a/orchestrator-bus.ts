/**
 * The bus to A2A 1.0 agents: Handfast workers that are served as agents, and agents without the fleet protocol. Each is found
 * by its card, health-checked by it, and called through the official SDK.
 *
 * Programs import it from `handfast/fleet`.
 * @see docs/a2a.md#peers
 */
import type { BackoffOptions } from '../../../base/backoff.ts';
import type { OrchestratorBus } from '../peer.ts';
import { PlainBus, type PlainBusOptions } from '../plain/orchestrator-bus.ts';
import type { A2aPeerOwner } from './inbound.ts';
import { A2aPeer } from './peer.ts';

export interface A2aBusOptions extends PlainBusOptions {
  /** Time between two polls of a task that is not streamed. Default 250 ms, doubled up to 15 s while nothing happens. */
  readonly pollDelay?: BackoffOptions;
}

/** Makes the bus. Fails with `config_invalid` for two peers of one name, or an invalid address. */
export function a2aBus(options: A2aBusOptions): OrchestratorBus {
  return new AgentsBus(options);
}

class AgentsBus extends PlainBus<A2aPeer> implements A2aPeerOwner {
  readonly binding = 'a2a';
  readonly pollDelay: BackoffOptions | undefined;

  constructor(options: A2aBusOptions) {
    super(options);
    this.pollDelay = options.pollDelay;
    this.supervise(options.peers.map((peer) => new A2aPeer(peer, this)));
  }
}
