/**
 * The limits of a host and their defaults. Apart from `host.ts`, so that a default configuration can be made without
 * loading the host.
 */
import type { ConnectionLimits } from '../connection/connection.ts';
import { DEFAULT_LIVENESS_TIMEOUT_MS } from '../connection/liveness.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../transport/link.ts';

/** Every number a host keeps to. All optional in `HostOptions`. */
export interface HostLimits extends ConnectionLimits {
  /** Absolute time for a handshake. Default 10,000. */
  readonly handshakeTimeoutMs: number;
  /** Links before their handshake at once. Default 128. */
  readonly maxPendingConnections: number;
  /** Default 10,000. */
  readonly maxSessions: number;
  /** A session without traffic ends. Default 15 minutes; 0 = never. */
  readonly idleTimeoutMs: number;
  /** A link that is silent for so long, although its peer was pinged, is dropped. Default 15,000; 0 = never. */
  readonly livenessTimeoutMs: number;
  /** A session without a link waits so long for a new one. Default 60,000; 0 = not at all: resume is not offered. */
  readonly resumeWindowMs: number;
  /** Time running work is granted when the host stops. Default 10,000. */
  readonly shutdownTimeoutMs: number;
}

export const defaultHostLimits: HostLimits = {
  maxParallel: 4,
  queueLimit: 256,
  maxDepth: 64,
  maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
  sendBufferBytes: 4 * 1024 * 1024,
  slowConsumerMs: 30_000,
  writeStallMs: 30_000,
  handshakeTimeoutMs: 10_000,
  maxPendingConnections: 128,
  maxSessions: 10_000,
  idleTimeoutMs: 15 * 60_000,
  livenessTimeoutMs: DEFAULT_LIVENESS_TIMEOUT_MS,
  resumeWindowMs: 60_000,
  shutdownTimeoutMs: 10_000,
};
