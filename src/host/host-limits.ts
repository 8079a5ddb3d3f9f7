/**
 * The limits of a host and their defaults. Apart from `host.ts`, so that a default configuration can be created without
 * loading the host.
 */
import { SharedSlots } from '../base/shared-slots.ts';
import { handfastDefaults } from '../config/defaults.generated.ts';
import type { ConnectionLimits } from '../connection/connection.ts';
import type { Principal } from '../session/principal.ts';
import type { TrafficLimits } from '../session/traffic-shares.ts';

/** Every limit of a host. All optional in `HostOptions`. */
export interface HostLimits extends ConnectionLimits, TrafficLimits {
  /** Open requests of one session that may wait for a later message of its agent. Default 256. */
  readonly maxWaiting: number;
  /** Absolute time for a handshake. Default 10,000. */
  readonly handshakeTimeoutMs: number;
  /** Links before their handshake at once. Default 128. */
  readonly maxPendingConnections: number;
  /** Default 10,000. */
  readonly maxSessions: number;
  /** Sessions of one principal that is no administrator. */
  readonly maxSessionsPerPrincipal: number;
  /** A session without traffic ends. Default 15 minutes; 0 = never. */
  readonly idleTimeoutMs: number;
  /** A link that is silent for so long, although its peer was pinged, is dropped. Default 15,000; 0 = never. */
  readonly livenessTimeoutMs: number;
  /** A session without a link waits so long for a new one. Default 60,000; 0 = not at all: resume is not offered. */
  readonly resumeWindowMs: number;
  /** Time running work is granted when the host stops. Default 10,000. */
  readonly shutdownTimeoutMs: number;
  /** Threads that calls may start at once, such as searches. Default 4. */
  readonly maxThreads: number;
  /** Threads of one principal at once. Default 2. */
  readonly maxThreadsPerPrincipal: number;
  /** Programs that calls and sessions may have running at once. Default 256. */
  readonly maxProcesses: number;
  /** Programs of one principal at once. Default 64. */
  readonly maxProcessesPerPrincipal: number;
}

/** Threads and child processes that calls use, in shares of their principals. Hosts of one process share them. */
export interface HostSlots {
  readonly threads: SharedSlots;
  readonly processes: SharedSlots;
}

/** Calls of one principal that may wait for a thread, and for a process. */
const QUEUE_PER_PRINCIPAL = 16;

/** Returns the slots of a process by its limits. */
export function hostSlots(limits: HostLimits): HostSlots {
  const slots = (what: string, total: number, perOwner: number): SharedSlots =>
    new SharedSlots(what, { total, perOwner, queuePerOwner: QUEUE_PER_PRINCIPAL });
  return {
    threads: slots('threads', limits.maxThreads, limits.maxThreadsPerPrincipal),
    processes: slots('processes', limits.maxProcesses, limits.maxProcessesPerPrincipal),
  };
}

/** The limits of a session. */
export type SessionLimits = ConnectionLimits & Pick<HostLimits, 'maxParallel' | 'maxWaiting'>;

/** Returns the limits of a principal's sessions: its limits, within those of the host. */
export function sessionLimits(all: HostLimits, { limits = {} }: Pick<Principal, 'limits'>): SessionLimits {
  const { maxParallel, queueLimit, maxWaiting } = all;
  return {
    ...all,
    maxParallel: Math.min(limits.maxParallel ?? maxParallel, maxParallel),
    queueLimit: Math.min(limits.queueLimit ?? queueLimit, queueLimit),
    maxWaiting: Math.min(limits.maxWaiting ?? maxWaiting, maxWaiting),
  };
}

/** The defaults of `limits` in `handfast.yaml`. */
export const defaultHostLimits: HostLimits = handfastDefaults.limits;
