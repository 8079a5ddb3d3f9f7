/**
 * The orchestrator's side of every bus: the messages of workers it understands, and the forwarding of one to it.
 */
import type { Log } from '../../base/log.ts';
import type { Feature } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import type { Incoming } from '../messages/decoded.ts';
import type { FleetPeer, PeerEvents } from './peer.ts';

/** Features that an orchestrator understands beside the three messages. */
export const ORCHESTRATOR_FEATURES: readonly Feature[] = ['ack', 'progress', 'lease', 'heartbeat', 'questions'];

/** Resolves when the orchestrator has stored the messages that must be stored; every failure of it is a rejection. */
export async function forwardToOrchestrator(events: PeerEvents, peer: FleetPeer, message: Incoming): Promise<void> {
  await events.received(peer, message);
}

/** Logs that the orchestrator did not store a message. */
export function logNotStored(
  log: Pick<Log, 'warn'> | undefined,
  peer: FleetPeer,
  message: Incoming,
  thrown: unknown,
): void {
  const { code, message: error } = asError(thrown);
  const { task_id } = message as { readonly task_id?: string };
  log?.warn('message was not stored', { peer: peer.peerId, type: message.type, task_id, code, error });
}
