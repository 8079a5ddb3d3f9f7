/**
 * `handfast/fleet-nats`: orchestrators and workers of `handfast/fleet` on NATS JetStream, for programs. Apart from it because its
 * types are those of the client packages of NATS, which are installed only where they are used.
 *
 * @see docs/nats.md
 */

import './base/node-version.ts';

export type { NatsOptions } from './fleet/bus/nats/connection.ts';
export { type JoinNatsOptions, joinNats } from './fleet/bus/nats/join.ts';
export { acquireLeadership, type Leadership, type LeadershipOptions } from './fleet/bus/nats/leadership.ts';
export { type NatsBus, type NatsBusOptions, natsBus } from './fleet/bus/nats/orchestrator-bus.ts';
export type { NatsAuth } from './fleet/bus/nats/secrets.ts';
export type { StorageOptions } from './fleet/bus/nats/streams.ts';
export { natsTaskStore } from './fleet/bus/nats/task-store.ts';
export type { NatsTls } from './fleet/bus/nats/tls.ts';
