/**
 * What all buses share on the orchestrator's side: which messages of workers it understands, and how one is handed to it.
 */
import type { Feature } from '../../protocol/fleet.ts';
import type { Incoming } from '../messages/decoded.ts';
import type { FleetPeer, PeerEvents } from './peer.ts';

/** What an orchestrator understands beside the three messages. */
export const ORCHESTRATOR_FEATURES: readonly Feature[] = ['ack', 'progress', 'lease', 'heartbeat', 'questions'];

/** Resolves when the orchestrator has kept what must be kept; whatever goes wrong there is a rejection. */
export async function forwardToOrchestrator(events: PeerEvents, peer: FleetPeer, message: Incoming): Promise<void> {
  await events.received(peer, message);
}
