/**
 * A worker as the orchestrator tracks it, as routing sees it, and as an operator does.
 */
import type { DispatchMode, FleetPeer } from '../bus/peer.ts';
import type { Announced } from '../messages/decoded.ts';
import type { Profile } from '../route/profile.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { WorkerView } from './orchestrator-options.ts';
import type { Attempt } from './task.ts';

/** One worker. */
export interface PeerEntry {
  peer: FleetPeer;
  connected: boolean;
  /** Reason why it is not connected. */
  away: { readonly reason: string; readonly asleep: boolean } | null;
  /** Time since when it is not connected, or does not respond; null: it does. Monotonic. */
  absentSince: number | null;
  /** End of the time in which it may be describing itself for the first time. Monotonic. */
  describeBy: number;
  announced: Announced | null;
  /** Announces received from it since this process started. */
  announces: number;
  /** Time when its description was last known to hold; monotonic. */
  describedAt: number;
  /** Epoch milliseconds. */
  lastSeenAt: number;
  mode: DispatchMode;
  version: string | null;
  warning: string | null;
  /** An operator wants no more tasks there. */
  drained: boolean;
  /** Tasks this orchestrator dispatched to it, and the contexts they run in. */
  readonly tasks: Map<string, string | null>;
  /** Turns it runs for other orchestrators. */
  foreign: number;
  /** Its latest results, newest last; true: the task succeeded. */
  recent: boolean[];
  readonly circuit: CircuitBreaker;
}

/** Lifetime of the description of a worker that sends heartbeats, when it names none: three of them. */
const BEATING_TTL_S = 45;

const NO_HEALTH: ReadonlyMap<string, string> = new Map();

/** Returns the lifetime of a worker's announce, seconds; null: the default of the policy. */
export function ttlOf({ announced, peer }: Pick<PeerEntry, 'announced' | 'peer'>): number | null {
  return announced?.ttl_s ?? (peer.features.has('heartbeat') ? BEATING_TTL_S : null);
}

/**
 * Returns the profile of a worker at a time of the monotonic clock. Of one that is not verified only the connection is known.
 */
export function profileOf(entry: PeerEntry, now: number, verified: boolean): Profile {
  const { peer, announced: said, tasks, recent } = entry;
  const known = verified ? said : null;
  const contexts = [...tasks.values()].filter((context) => context !== null);
  return {
    agent_id: peer.peerId,
    verified,
    age_s: verified ? Math.max(0, now - entry.describedAt) / 1000 : 0,
    model_tier: known?.model_tier ?? 'unknown',
    context_window: known?.context_window ?? null,
    tools: known?.tools ?? [],
    mcp_servers: known?.mcp_servers ?? [],
    mcp_health: known?.mcp_health ?? NO_HEALTH,
    active_tasks: entry.foreign,
    max_concurrent: said?.max_concurrent ?? null,
    repo_state: known?.repo_state ?? null,
    session_fresh: known?.session_fresh ?? null,
    context_id: known?.context_id ?? null,
    overhead_tokens: known?.overhead_tokens ?? null,
    recent_ok: recent.reduce((sum, ok) => sum + (ok ? 1 : 0), 0),
    recent_total: recent.length,
    outstanding: tasks.size,
    busy_contexts: contexts,
    circuit: entry.circuit.state(now),
    draining: entry.drained || said?.draining === true,
    reachable: entry.connected && peer.reachable,
    ...(isJoining(entry, now) && { joining: true }),
    ttl_s: verified ? ttlOf(entry) : null,
    pools: said?.pools ?? [],
  };
}

/** True when it has joined and not announced itself yet. `now` is monotonic. */
export function isJoining({ connected: here, peer, announced, describeBy }: PeerEntry, now: number): boolean {
  return here && peer.structured && peer.reachable && announced === null && now < describeBy;
}

/** Returns whether the announce of a worker is of the process that has, or had, the attempt. */
export function isSameProcess(attempt: Attempt | undefined, { announced }: Pick<PeerEntry, 'announced'>): boolean {
  const incarnation = announced?.incarnation ?? null;
  return attempt?.incarnation === undefined || attempt.incarnation === null || attempt.incarnation === incarnation;
}

/** Returns a worker for operators. `busLostAt`: since when its bus carries nothing, epoch milliseconds. */
export function viewOf(entry: PeerEntry, profile: Profile, ttlS: number, busLostAt?: number): WorkerView {
  const { peer, announced } = entry;
  // One that shut down in order said so; of all others a bus that is down knows nothing, lost or not.
  const unknownSince = entry.away?.asleep === true ? null : (busLostAt ?? null);
  return {
    peer_id: peer.peerId,
    binding: peer.binding,
    address: peer.address,
    status: unknownSince === null ? statusOf(entry, profile, ttlS) : 'unknown',
    unknown_since: unknownSince,
    mode: entry.mode,
    version: entry.version,
    warning: entry.warning,
    claimed_agent_id: announced !== null && announced.agent_id !== peer.peerId ? announced.agent_id : null,
    profile,
    announced,
    tasks: [...entry.tasks.keys()],
    last_seen_at: entry.lastSeenAt,
  };
}

function statusOf({ connected: here, away, announced }: PeerEntry, profile: Profile, ttlS: number): string {
  if (!here) return away?.asleep === true ? 'asleep' : 'gone';
  if (profile.draining) return 'draining';
  if (profile.verified && announced?.not_ready != null) return announced.not_ready;
  if (profile.circuit === 'open') return 'circuit_open';
  if (profile.joining === true) return 'joining';
  if (!profile.verified) return profile.reachable ? 'unverified' : 'unreachable';
  return profile.age_s >= (profile.ttl_s ?? ttlS) ? 'stale' : 'ready';
}
