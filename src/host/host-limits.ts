/**
 * The limits of a host and their defaults. Apart from `host.ts`, so that a default configuration can be made without
 * loading the host.
 */
import { SharedSlots } from '../base/shared-slots.ts';
import { handfastDefaults } from '../config/defaults.generated.ts';
import type { ConnectionLimits } from '../connection/connection.ts';

/** Every number a host keeps to. All optional in `HostOptions`. */
export interface HostLimits extends ConnectionLimits {
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
}

/** Calls of one principal that may wait for a thread. */
const THREAD_QUEUE = 16;

/** The threads of a process by its limits. */
export function threadSlots({ maxThreads, maxThreadsPerPrincipal }: HostLimits): SharedSlots {
  return new SharedSlots('threads', {
    total: maxThreads,
    perOwner: maxThreadsPerPrincipal,
    queuePerOwner: THREAD_QUEUE,
  });
}

/** The defaults of `limits` in `handfast.yaml`. */
export const defaultHostLimits: HostLimits = handfastDefaults.limits;
