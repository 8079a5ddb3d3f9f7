/**
 * The bus to A2A 1.0 agents: workers of ours that are served as agents, and agents that have never heard of fleets. Each is
 * found by its card, looked after by it, and called through the official SDK.
 *
 * @see docs/a2a.md#peers
 */
import type { Log } from '../../../host/context.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { OrchestratorBus, PeerEvents } from '../peer.ts';
import { pause, type RetryDelayOptions } from '../retry-delay.ts';
import { A2aPeer, type A2aPeerOwner } from './a2a-peer.ts';
import type { A2aPeerOptions } from './settings.ts';

export type { A2aPeerOptions } from './settings.ts';

export interface A2aBusOptions {
  readonly peers: readonly A2aPeerOptions[];
  readonly log: Log;
  /** Between two looks at a card, milliseconds. Default 30,000. */
  readonly healthIntervalMs?: number;
  /** Between two announces of an agent that can be asked, milliseconds. Default 300,000. */
  readonly announceIntervalMs?: number;
  /** Longest wait for an answer, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
  /** Between two questions about a task that is not streamed. Default 250 ms, doubled up to 15 s while nothing happens. */
  readonly pollDelay?: RetryDelayOptions;
  /** 0…1. */
  readonly random?: () => number;
  readonly monotonic?: () => number;
  readonly newId?: () => string;
}

/** Looks that must fail in a row before an agent counts as gone: one may be lost to a moment of load. */
const FAILED_LOOKS = 2;

/** Makes the bus. Fails with `config_invalid` for two peers of one name, or an address that is none. */
export function a2aBus(options: A2aBusOptions): OrchestratorBus {
  const names = new Set<string>();
  for (const { id } of options.peers) {
    if (names.has(id)) throw fail('config_invalid', `two peers are named ${id}`, { id });
    names.add(id);
  }
  return new AgentsBus(options);
}

class AgentsBus implements OrchestratorBus, A2aPeerOwner {
  readonly binding = 'a2a';
  readonly log: Log;
  readonly callTimeoutMs: number | undefined;
  readonly pollDelay: RetryDelayOptions | undefined;
  readonly newId: () => string;
  readonly #options: A2aBusOptions;
  readonly #peers: readonly A2aPeer[];
  readonly #stopping = new AbortController();
  /** Wakes the watch over a peer before its time. */
  readonly #wakes = new Map<A2aPeer, () => void>();
  #watches: readonly Promise<void>[] = [];
  #events: PeerEvents | undefined;

  constructor(options: A2aBusOptions) {
    this.#options = options;
    this.log = options.log;
    this.callTimeoutMs = options.callTimeoutMs;
    this.pollDelay = options.pollDelay;
    this.newId = options.newId ?? (() => crypto.randomUUID());
    this.#peers = options.peers.map((peer) => new A2aPeer(peer, this));
  }

  get events(): PeerEvents {
    if (this.#events === undefined) throw fail('runtime_error', 'the bus was not started');
    return this.#events;
  }

  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  async start(events: PeerEvents): Promise<void> {
    if (this.#events !== undefined) throw fail('usage', 'this bus was started before');
    this.#events = events;
    this.#watches = this.#peers.map((peer) => this.#watch(peer));
  }

  async stop(): Promise<void> {
    this.#stopping.abort(fail('interrupted', 'the orchestrator is stopping'));
    await Promise.all(this.#watches);
  }

  doubt(peer: A2aPeer): void {
    this.#wakes.get(peer)?.();
  }

  /** Looks after one agent until the end. Never rejects. */
  async #watch(peer: A2aPeer): Promise<void> {
    const { healthIntervalMs = 30_000, announceIntervalMs = 300_000, random = Math.random } = this.#options;
    const { monotonic = () => performance.now() } = this.#options;
    // Known before it answers, so that an operator sees what is waited for.
    this.#tell(() => this.events.joined(peer));
    let here = false;
    let failures = 0;
    let describedAt = Number.NEGATIVE_INFINITY;
    while (!this.stopping.aborted) {
      try {
        const news = (await peer.connection.discover(this.stopping)) || !here;
        const now = monotonic();
        const describe = news || now - describedAt >= announceIntervalMs;
        // Before it counts as there: one that takes no call of ours is of no use.
        if (describe) await peer.askAnnounce();
        if (describe) describedAt = now;
        peer.reachable = true;
        here = true;
        failures = 0;
        if (news) this.#tell(() => this.events.joined(peer));
      } catch (thrown) {
        if (this.stopping.aborted) break;
        const { code, message, detail } = asError(thrown);
        failures += 1;
        const asleep = typeof detail.asleep === 'string' ? detail.asleep : undefined;
        // One that says so itself, or takes no call of ours, is not asked twice.
        const certain = asleep !== undefined || code === 'unauthorized' || failures >= FAILED_LOOKS;
        if (!here || certain) peer.reachable = false;
        if (here && certain) {
          here = false;
          this.#tell(() => this.events.left(peer, asleep ?? message, asleep !== undefined));
        }
        if (failures === 1) this.log.info('an agent is not at work', { peer: peer.peerId, code, why: message });
      }
      const wait = here && failures > 0 ? healthIntervalMs / 10 : healthIntervalMs;
      await this.#rest(peer, wait * (0.9 + 0.2 * random()));
    }
    peer.reachable = false;
  }

  /** Waits for the next look, which something that went wrong may call for sooner. */
  async #rest(peer: A2aPeer, ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wakes.set(peer, () => woken.abort());
    await pause(ms, AbortSignal.any([woken.signal, this.stopping]));
    this.#wakes.delete(peer);
  }

  #tell(what: () => void): void {
    try {
      what();
    } catch (thrown) {
      this.log.error('the orchestrator could not be told', { error: asError(thrown).message });
    }
  }
}
