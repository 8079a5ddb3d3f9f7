/**
 * Health checks of peers that are found at configured addresses and do not dial in: probes each periodically, requests its
 * announce when something has changed, and reports to the orchestrator when it connects and leaves.
 */
import type { Log } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { FleetPeer, PeerEvents } from '../peer.ts';

/** A peer that is probed. */
export interface HealthCheckedPeer extends FleetPeer {
  /** Set by the health checker. */
  reachable: boolean;
  /**
   * Checks that the peer works, and its dialect; true: the dialect has changed. `connected`: it worked at the last probe.
   * Rejects when it does not; `detail.asleep` holds the reason where the peer itself says that it shut down in order.
   */
  probe(connected: boolean): Promise<boolean>;
  /** Requests the peer's announce, where it has one. A rejection means that it accepts no calls: it is down. */
  askAnnounce(): Promise<void>;
}

/** All optional but the log. */
export interface PeerHealthOptions {
  readonly log: Log;
  /** Time between two probes of a peer, milliseconds. Default 30,000. */
  readonly healthIntervalMs?: number;
  /** Time between two announces of a peer that can be asked, milliseconds. Default 300,000. */
  readonly announceIntervalMs?: number;
  /** 0…1. */
  readonly random?: () => number;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
}

/** Probes that must fail in a row before a peer counts as unreachable: one may be lost to a moment of load. */
const FAILED_PROBES = 2;

export class PeerHealthChecker<P extends HealthCheckedPeer> {
  readonly #peers: readonly P[];
  readonly #options: PeerHealthOptions;
  readonly #stopping = new AbortController();
  /** Each ends the wait for the next probe of a peer. */
  readonly #wakes = new Map<P, () => void>();
  #loops: readonly Promise<void>[] = [];
  #events: PeerEvents | undefined;

  /** Fails with `config_invalid` for two peers of one name. */
  constructor(peers: readonly P[], options: PeerHealthOptions) {
    const names = new Set<string>();
    for (const { peerId: name } of peers) {
      if (names.has(name)) throw fail('config_invalid', `two peers are named ${name}; rename one`, { name });
      names.add(name);
    }
    this.#peers = peers;
    this.#options = options;
  }

  /** The receiver of the reports. Fails with `runtime_error` before `start`. */
  get events(): PeerEvents {
    if (this.#events === undefined) throw fail('runtime_error', 'the bus was not started');
    return this.#events;
  }

  /** True from `start` to `stop`. */
  get running(): boolean {
    return this.#events !== undefined && !this.stopping.aborted;
  }

  /** Aborts when `stop` is called. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  start(events: PeerEvents): void {
    if (this.#events !== undefined) throw fail('usage', 'this bus was started before');
    this.#events = events;
    this.#loops = this.#peers.map((peer) => this.#supervise(peer));
  }

  /** Resolves when the last report was made. */
  async stop(): Promise<void> {
    this.#stopping.abort(fail('interrupted', 'the orchestrator is stopping'));
    await Promise.all(this.#loops);
  }

  /** Probes the peer at once: something happened that its health may explain. */
  probeNow(peer: P): void {
    this.#wakes.get(peer)?.();
  }

  /** Probes one peer until the end. Never rejects. */
  async #supervise(peer: P): Promise<void> {
    const { healthIntervalMs = 30_000, announceIntervalMs = 300_000, random = Math.random } = this.#options;
    const { log, monotonic = () => performance.now() } = this.#options;
    // Reported before it responds, so that an operator sees which peer is expected.
    this.#notify(() => this.events.joined(peer));
    let connected = false;
    let failures = 0;
    let describedAt = Number.NEGATIVE_INFINITY;
    while (!this.stopping.aborted) {
      try {
        const news = (await peer.probe(connected)) || !connected;
        if (this.stopping.aborted) break;
        const now = monotonic();
        if (news || now - describedAt >= announceIntervalMs) {
          // Before it counts as connected: a peer that accepts no call is of no use.
          await peer.askAnnounce();
          describedAt = now;
        }
        if (this.stopping.aborted) break;
        if (!connected) log.info('peer is up', { peer: peer.peerId });
        peer.reachable = true;
        connected = true;
        failures = 0;
        if (news) this.#notify(() => this.events.joined(peer));
      } catch (thrown) {
        if (this.stopping.aborted) break;
        const { code, message, detail } = asError(thrown);
        failures += 1;
        const asleep = typeof detail.asleep === 'string' ? detail.asleep : undefined;
        // A peer that reports it itself, or refuses calls, is not probed twice.
        const certain = asleep !== undefined || code === 'unauthorized' || failures >= FAILED_PROBES;
        if (failures === 1) log.info('peer is down', { peer: peer.peerId, code, reason: message });
        if (connected && certain) {
          connected = false;
          peer.reachable = false;
          this.#notify(() => this.events.left(peer, asleep ?? message, asleep !== undefined));
        }
      }
      const wait = connected && failures > 0 ? healthIntervalMs / 10 : healthIntervalMs;
      await this.#untilNext(peer, wait * (0.9 + 0.2 * random()));
    }
    peer.reachable = false;
  }

  /** Waits for the next probe, which a failed call may start sooner. */
  async #untilNext(peer: P, ms: number): Promise<void> {
    const wake = new AbortController();
    this.#wakes.set(peer, () => wake.abort());
    await sleep(ms, AbortSignal.any([wake.signal, this.stopping]));
    this.#wakes.delete(peer);
  }

  #notify(what: () => void): void {
    try {
      what();
    } catch (thrown) {
      this.#options.log.error('orchestrator failed to handle a peer event', { error: asError(thrown).message });
    }
  }
}
