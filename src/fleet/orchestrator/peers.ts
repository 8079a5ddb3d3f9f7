/**
 * The workers an orchestrator knows: the connected ones, the announce of each and its time, its dispatch mode, its tasks, and
 * its circuit breaker. Keeps the profiles of the router up to date.
 *
 * Keyed by the authenticated peer id; the announce of one worker never creates or replaces that of another.
 * @see docs/fleet.md#when-to-announce
 */

import type { Log } from '../../base/log.ts';
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import type { SessionHeartbeat } from '../../protocol/fleet.ts';
import type { FleetPeer } from '../bus/peer.ts';
import type { Announced } from '../messages/decoded.ts';
import { negotiate } from '../phases/negotiate.ts';
import type { AbsentWorker } from '../route/explain.ts';
import type { Profile } from '../route/profile.ts';
import type { Router } from '../route/router.ts';
import type { WorkerCandidate } from '../route/wait-decision.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { isJoining, type PeerEntry, profileOf, ttlOf } from './peer-profile.ts';

/** Results that count for reliability. */
const RECENT = 20;
/** Workers that left and are still listed. */
const MAX_LOST = 1000;
/**
 * Longest time that a worker that joined may take to announce itself, milliseconds; it gets no task before. Its own probes take
 * nine seconds at most.
 */
const DESCRIBE_MS = 10_000;
/**
 * Time that tasks wait for a worker that left or does not respond, milliseconds: some probes of a peer, or a start of a
 * program.
 */
const AWAY_MS = 60_000;
/** Clock difference worth a warning, milliseconds. */
const SKEW_WARN_MS = 60_000;

/** Outcome of an attempt, as far as it speaks for or against its worker. */
export type Verdict = 'ok' | 'failed' | 'neutral';

export interface PeersOptions {
  readonly router: Router;
  readonly clock: Clock;
  readonly now: () => number;
  readonly inlineHints: boolean;
  readonly log: Log;
  /** Called when something changed that may let this worker accept a task. */
  changed(peerId: string): void;
  /** Called when its announce has expired: it should announce itself again. */
  expired(entry: PeerEntry): void;
}

export class Peers {
  readonly #options: PeersOptions;
  readonly #entries = new Map<string, PeerEntry>();
  readonly #expiries: TimerQueue<string>;
  readonly #circuits: TimerQueue<string>;
  readonly #descriptions: TimerQueue<string>;
  readonly #absences: TimerQueue<string>;
  #present = 0;

  constructor(options: PeersOptions) {
    this.#options = options;
    this.#expiries = new TimerQueue(options.clock, (peerId) => this.#expire(peerId));
    this.#circuits = new TimerQueue(options.clock, (peerId) => this.#refresh(this.get(peerId)));
    this.#descriptions = new TimerQueue(options.clock, (peerId) => this.#refresh(this.get(peerId)));
    this.#absences = new TimerQueue(options.clock, (peerId) => options.changed(peerId));
  }

  get(peerId: string): PeerEntry | undefined {
    return this.#entries.get(peerId);
  }

  all(): IterableIterator<PeerEntry> {
    return this.#entries.values();
  }

  /** Returns number of workers that have joined and not announced themselves yet, without these. */
  joining(excluded: ReadonlySet<string>): number {
    const now = this.#options.clock.monotonic();
    let count = 0;
    for (const entry of this.#entries.values()) {
      if (isJoining(entry, now) && !excluded.has(entry.peer.peerId)) count += 1;
    }
    return count;
  }

  joined(peer: FleetPeer): PeerEntry {
    let entry = this.#entries.get(peer.peerId);
    if (entry === undefined) {
      this.#evictLost();
      entry = this.#created(peer);
      this.#entries.set(peer.peerId, entry);
    }
    entry.peer = peer;
    if (!entry.connected) this.#present += 1;
    entry.connected = true;
    entry.away = null;
    entry.lastSeenAt = this.#options.now();
    this.#noteReachable(entry);
    this.#negotiate(entry);
    this.#refresh(entry);
    return entry;
  }

  /** False: it belongs to an earlier connection, or was not known. */
  left(peer: FleetPeer, reason: string, asleep: boolean): boolean {
    const entry = this.#entries.get(peer.peerId);
    if (entry === undefined || entry.peer !== peer || !entry.connected) return false;
    this.#present -= 1;
    entry.connected = false;
    entry.away = { reason, asleep };
    this.#expiries.clear(peer.peerId);
    this.#descriptions.clear(peer.peerId);
    this.#noteAbsent(entry);
    this.#options.router.remove(peer.peerId);
    this.#options.changed(peer.peerId);
    return true;
  }

  /**
   * Takes a description, whole. Answers `old` when a newer one of the same process is known, `restarted` when it is of
   * another process than the one before.
   */
  announced(entry: PeerEntry, announced: Announced): 'old' | 'known' | 'restarted' {
    const before = entry.announced;
    const sameProcess = before !== null && before.incarnation === announced.incarnation;
    if (sameProcess && before.seq !== null && announced.seq !== null && announced.seq < before.seq) return 'old';
    if (!sameProcess) {
      // Failures of another process are no evidence about this one.
      entry.circuit.succeeded();
      entry.recent = before === null ? entry.recent : [];
    }
    if (announced.agent_id !== entry.peer.peerId && announced.agent_id !== before?.agent_id) {
      this.#options.log.warn('worker announces another name', {
        worker: entry.peer.peerId,
        claimed: announced.agent_id,
      });
    }
    this.#warnOfSkew(entry, announced);
    this.#descriptions.clear(entry.peer.peerId);
    entry.announced = announced;
    entry.announces += 1;
    entry.foreign = Math.max(0, (announced.active_tasks ?? 0) - entry.tasks.size);
    this.#seen(entry);
    this.#negotiate(entry);
    this.#refresh(entry);
    return before !== null && !sameProcess ? 'restarted' : 'known';
  }

  /** Handles a heartbeat; true when it has fewer tasks than expected, so that they should be polled. */
  heartbeat(entry: PeerEntry, { active_tasks, incarnation }: SessionHeartbeat): boolean {
    if (entry.announced !== null && incarnation !== entry.announced.incarnation) return true;
    entry.foreign = Math.max(0, active_tasks - entry.tasks.size);
    this.#seen(entry);
    this.#refresh(entry);
    return active_tasks < entry.tasks.size;
  }

  /** Notes that a task is about to be dispatched to it. */
  reserve(peerId: string, taskId: string, contextId: string | null): void {
    const entry = this.#entries.get(peerId);
    if (entry === undefined || entry.tasks.has(taskId)) return;
    entry.tasks.set(taskId, contextId);
    const probe = entry.circuit.opensAt !== undefined;
    entry.circuit.dispatched();
    if (probe || contextId !== null) this.#update(entry);
    else if (entry.connected) this.#options.router.reserve(peerId);
  }

  /** Removes a task that the worker no longer has; `verdict` is the evidence of its end. */
  release(peerId: string, taskId: string, verdict: Verdict): void {
    const entry = this.#entries.get(peerId);
    const contextId = entry?.tasks.get(taskId);
    if (entry === undefined || contextId === undefined) return;
    entry.tasks.delete(taskId);
    const changed = this.#judge(entry, verdict);
    if (!entry.connected) return;
    if (changed || contextId !== null) this.#update(entry);
    else this.#options.router.release(peerId);
    this.#options.changed(peerId);
  }

  drain(entry: PeerEntry, on: boolean): void {
    entry.drained = on;
    this.#refresh(entry);
  }

  /** Names the present description of a worker; the name changes with each of its announces. */
  marker(peerId: string): string {
    const announced = this.#entries.get(peerId)?.announced ?? null;
    return announced === null ? 'never announced' : `${announced.incarnation ?? ''}#${announced.seq ?? 0}`;
  }

  /** Returns the workers that are left out for a task, because they have not announced since they refused it. */
  excludedOf(excluded: Readonly<Record<string, string>>): ReadonlySet<string> {
    const out = new Set<string>();
    for (const peerId of Object.keys(excluded)) if (this.marker(peerId) === excluded[peerId]) out.add(peerId);
    return out;
  }

  /** Returns the profile of a worker as it is known now, also while it is not connected. */
  profile(entry: PeerEntry): Profile {
    return profileOf(entry, this.#options.clock.monotonic(), this.#verified(entry));
  }

  /** Yields the workers that may accept a task at some time; `only`: the worker of this name. */
  *candidates(only: string | null): IterableIterator<WorkerCandidate> {
    const named = only === null ? undefined : this.#entries.get(only);
    const entries = only === null ? this.#entries.values() : named === undefined ? [] : [named];
    for (const entry of entries) {
      const away = this.#absenceOf(entry);
      const absence = away === null ? 'none' : away.untilMs === null ? 'long' : 'short';
      if (absence !== 'long' || only !== null) yield { profile: this.profile(entry), absence };
    }
  }

  /** Returns the start of a worker's absence: it is not connected, or does not respond; null: it does, or is not known. */
  absenceOf(peerId: string): AbsentWorker | null {
    const entry = this.#entries.get(peerId);
    return entry === undefined ? null : this.#absenceOf(entry);
  }

  stop(): void {
    for (const timers of [this.#expiries, this.#circuits, this.#descriptions, this.#absences]) timers.stop();
  }

  #absenceOf(entry: PeerEntry): AbsentWorker | null {
    const { absentSince, peer } = entry;
    if (absentSince === null || (entry.connected && this.#verified(entry))) return null;
    const untilMs = absentSince + AWAY_MS;
    const counts = this.#options.clock.monotonic() < untilMs;
    return { agent_id: peer.peerId, sinceMs: absentSince, untilMs: counts ? untilMs : null };
  }

  /** Notes that a worker has come: it answers and describes itself, or is one that is called and has not answered yet. */
  #noteReachable(entry: PeerEntry): void {
    const { peer, announced } = entry;
    if (!peer.reachable) {
      if (entry.absentSince === null) this.#noteAbsent(entry);
      return;
    }
    entry.absentSince = null;
    this.#absences.clear(peer.peerId);
    if (announced !== null || !peer.structured) return;
    entry.describeBy = this.#options.clock.monotonic() + DESCRIBE_MS;
    this.#descriptions.set(peer.peerId, entry.describeBy);
  }

  #noteAbsent(entry: PeerEntry): void {
    entry.absentSince = this.#options.clock.monotonic();
    this.#absences.set(entry.peer.peerId, entry.absentSince + AWAY_MS);
  }

  #created(peer: FleetPeer): PeerEntry {
    return {
      peer,
      connected: false,
      away: null,
      absentSince: null,
      describeBy: Number.NEGATIVE_INFINITY,
      announced: null,
      announces: 0,
      describedAt: Number.NEGATIVE_INFINITY,
      lastSeenAt: this.#options.now(),
      mode: 'plain',
      version: null,
      warning: null,
      drained: false,
      tasks: new Map(),
      foreign: 0,
      recent: [],
      circuit: new CircuitBreaker(),
    };
  }

  #evictLost(): void {
    if (this.#entries.size - this.#present < MAX_LOST) return;
    const lost = [...this.#entries.values()].filter(({ connected: here, tasks }) => !here && tasks.size === 0);
    if (lost.length < MAX_LOST) return;
    lost.sort((one, other) => one.lastSeenAt - other.lastSeenAt);
    for (const { peer } of lost.slice(0, lost.length - MAX_LOST + 1)) {
      this.#entries.delete(peer.peerId);
      this.#absences.clear(peer.peerId);
    }
  }

  #negotiate(entry: PeerEntry): void {
    const { announced, peer } = entry;
    const versions = announced?.protocol_versions.length ? announced.protocol_versions : [announced?.protocol_version];
    const { mode, version, warning } = negotiate({
      announced: announced === null ? null : (versions as readonly string[]),
      cardExtension: peer.structured,
      inlineHints: this.#options.inlineHints,
    });
    entry.mode = mode;
    entry.version = version;
    entry.warning = warning ?? null;
  }

  #warnOfSkew({ peer }: PeerEntry, { envelope }: Announced): void {
    const sentAt = envelope.sent_at === undefined ? Number.NaN : Date.parse(envelope.sent_at);
    const skewMs = sentAt - this.#options.now();
    if (!(Math.abs(skewMs) > SKEW_WARN_MS)) return;
    this.#options.log.warn('clock of a worker differs', { worker: peer.peerId, skew_s: Math.round(skewMs / 1000) });
  }

  #seen(entry: PeerEntry): void {
    entry.lastSeenAt = this.#options.now();
    entry.describedAt = this.#options.clock.monotonic();
    if (!entry.connected || entry.announced === null) return;
    this.#expiries.set(entry.peer.peerId, entry.describedAt + this.#ttlMs(entry));
  }

  #ttlMs(entry: PeerEntry): number {
    return (ttlOf(entry) ?? this.#options.router.policy.ttl_s) * 1000;
  }

  #verified(entry: PeerEntry): boolean {
    const { announced, mode, peer, describedAt } = entry;
    if (announced === null || mode !== 'structured') return false;
    // One that can be asked again stays as it was, too old to be chosen; of the others, nothing is known any more.
    if (peer.features.has('announce') || peer.features.has('heartbeat')) return true;
    return this.#options.clock.monotonic() - describedAt < this.#ttlMs(entry);
  }

  #expire(peerId: string): void {
    const entry = this.#entries.get(peerId);
    if (entry === undefined || !entry.connected) return;
    this.#update(entry);
    this.#options.expired(entry);
  }

  /** True when its score changed. */
  #judge(entry: PeerEntry, verdict: Verdict): boolean {
    const { circuit, peer } = entry;
    const now = this.#options.clock.monotonic();
    const before = circuit.state(now);
    if (verdict === 'neutral') {
      circuit.undecided();
      return before !== circuit.state(now);
    }
    const ok = verdict === 'ok';
    const dropped = entry.recent.length === RECENT ? entry.recent.shift() : undefined;
    entry.recent.push(ok);
    if (ok) circuit.succeeded();
    else circuit.failed(now);
    if (circuit.opensAt !== undefined) this.#circuits.set(peer.peerId, circuit.opensAt);
    if (before === 'closed' && circuit.state(now) === 'open') {
      this.#options.log.warn('circuit breaker opened for worker', { worker: peer.peerId });
    }
    return dropped !== ok || before !== circuit.state(now);
  }

  #update(entry: PeerEntry): void {
    if (!entry.connected) return;
    this.#options.router.upsert(this.profile(entry), this.#options.clock.monotonic());
  }

  #refresh(entry: PeerEntry | undefined): void {
    if (entry === undefined || !entry.connected) return;
    this.#update(entry);
    this.#options.changed(entry.peer.peerId);
  }
}
