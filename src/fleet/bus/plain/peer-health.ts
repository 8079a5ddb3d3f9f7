/**
 * Looks after peers that are found at configured addresses and do not dial in: asks each again and again whether it is at
 * work, has it describe itself when something is new, and tells the orchestrator when it comes and goes.
 *
 * Used by the buses whose peers are called over HTTP: `fleet/bus/http/orchestrator-bus.ts` and `fleet/bus/a2a/orchestrator-bus.ts`.
 */
import type { Log } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { FleetPeer, PeerEvents } from '../peer.ts';

/** A peer that is looked after. */
export interface HealthCheckedPeer extends FleetPeer {
  /** Set by the watch. */
  reachable: boolean;
  /**
   * Looks whether the peer is at work and what it speaks; true: that is something else than before. `here`: it was at work
   * the last time. Rejects when it is not; `detail.asleep` holds the reason where the peer itself says that it rests.
   */
  probe(here: boolean): Promise<boolean>;
  /** Has the peer describe itself, where it can. A rejection means that it takes no calls: it is not at work. */
  askAnnounce(): Promise<void>;
}

/** All optional but the log. */
export interface PeerWatchOptions {
  readonly log: Log;
  /** Between two looks at a peer, milliseconds. Default 30,000. */
  readonly healthIntervalMs?: number;
  /** Between two announces of a peer that can be asked, milliseconds. Default 300,000. */
  readonly announceIntervalMs?: number;
  /** 0…1. */
  readonly random?: () => number;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
}

/** Looks that must fail in a row before a peer counts as gone: one may be lost to a moment of load. */
const FAILED_LOOKS = 2;

export class PeerHealthChecker<P extends HealthCheckedPeer> {
  readonly #peers: readonly P[];
  readonly #options: PeerWatchOptions;
  readonly #stopping = new AbortController();
  /** Each cuts the wait for the next look at a peer short. */
  readonly #wakes = new Map<P, () => void>();
  #watches: readonly Promise<void>[] = [];
  #events: PeerEvents | undefined;

  /** Fails with `config_invalid` for two peers of one name. */
  constructor(peers: readonly P[], options: PeerWatchOptions) {
    const names = new Set<string>();
    for (const { peerId: name } of peers) {
      if (names.has(name)) throw fail('config_invalid', `two peers are named ${name}`, { name });
      names.add(name);
    }
    this.#peers = peers;
    this.#options = options;
  }

  /** Who is told. Fails with `runtime_error` before `start`. */
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
    this.#watches = this.#peers.map((peer) => this.#watch(peer));
  }

  /** Resolves when nothing is told any more. */
  async stop(): Promise<void> {
    this.#stopping.abort(fail('interrupted', 'the orchestrator is stopping'));
    await Promise.all(this.#watches);
  }

  /** Something happened that the peer should be looked at for. */
  probeNow(peer: P): void {
    this.#wakes.get(peer)?.();
  }

  /** Looks after one peer until the end. Never rejects. */
  async #watch(peer: P): Promise<void> {
    const { healthIntervalMs = 30_000, announceIntervalMs = 300_000, random = Math.random } = this.#options;
    const { log, monotonic = () => performance.now() } = this.#options;
    // Known before it answers, so that an operator sees what is waited for.
    this.#tell(() => this.events.joined(peer));
    let here = false;
    let failures = 0;
    let describedAt = Number.NEGATIVE_INFINITY;
    while (!this.stopping.aborted) {
      try {
        const news = (await peer.probe(here)) || !here;
        if (this.stopping.aborted) break;
        const now = monotonic();
        if (news || now - describedAt >= announceIntervalMs) {
          // Before it counts as there: one that takes no call of ours is of no use.
          await peer.askAnnounce();
          describedAt = now;
        }
        if (this.stopping.aborted) break;
        if (!here) log.info('a peer is at work', { peer: peer.peerId });
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
        if (failures === 1) log.info('a peer is not at work', { peer: peer.peerId, code, why: message });
        if (here && certain) {
          here = false;
          peer.reachable = false;
          this.#tell(() => this.events.left(peer, asleep ?? message, asleep !== undefined));
        }
      }
      const wait = here && failures > 0 ? healthIntervalMs / 10 : healthIntervalMs;
      await this.#rest(peer, wait * (0.9 + 0.2 * random()));
    }
    peer.reachable = false;
  }

  /** Waits for the next look, which something that went wrong may call for sooner. */
  async #rest(peer: P, ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wakes.set(peer, () => woken.abort());
    await sleep(ms, AbortSignal.any([woken.signal, this.stopping]));
    this.#wakes.delete(peer);
  }

  #tell(what: () => void): void {
    try {
      what();
    } catch (thrown) {
      this.#options.log.error('the orchestrator could not be told', { error: asError(thrown).message });
    }
  }
}
