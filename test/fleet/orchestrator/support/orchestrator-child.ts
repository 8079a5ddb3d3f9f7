/**
 * An orchestrator over a real file in a separate process, which may be killed at any moment. Its workers live in the test.
 */

import type { Binding, FleetPeer, OrchestratorBus, PeerEvents } from '../../../../src/fleet/bus/peer.ts';
import { decodeValue } from '../../../../src/fleet/messages/decode.ts';
import { createOrchestrator } from '../../../../src/fleet/orchestrator/orchestrator.ts';
import { sqliteTaskStore } from '../../../../src/fleet/orchestrator/store-sqlite.ts';
import { memoryJournal } from '../../../../src/journal/memory.ts';
import type { Feature, FleetMessage } from '../../../../src/protocol/fleet.ts';
import { asError } from '../../../../src/wire/errors.ts';

/** Messages of the test. */
export type ToChild =
  | { readonly kind: 'submit'; readonly task_id: string; readonly retry_safe: boolean }
  | { readonly kind: 'say'; readonly number: number; readonly peer: string; readonly message: FleetMessage };

/** Replies of the child. */
export type FromChild =
  | { readonly kind: 'ready' }
  | { readonly kind: 'submitted'; readonly task_id: string }
  | { readonly kind: 'kept'; readonly number: number; readonly ok: boolean }
  | { readonly kind: 'send'; readonly peer: string; readonly message: FleetMessage };

const features: ReadonlySet<Feature> = new Set(['ack', 'progress', 'lease', 'poll', 'cancel']);
const tell = (message: FromChild): void => void process.send?.(message);

class Bus implements OrchestratorBus {
  readonly binding: Binding = 'stream';
  readonly #peers = new Map<string, FleetPeer>();
  #events: PeerEvents | undefined;

  async start(events: PeerEvents): Promise<void> {
    this.#events = events;
  }

  async close(): Promise<void> {}

  async hear(peerId: string, value: FleetMessage): Promise<void> {
    const decoded = decodeValue(value);
    if (!decoded.valid || this.#events === undefined) throw new Error('not a message');
    let peer = this.#peers.get(peerId);
    if (peer === undefined) {
      peer = {
        peerId,
        binding: 'stream',
        address: 'test',
        structured: true,
        durable: false,
        reachable: true,
        features,
        send: async (message) => tell({ kind: 'send', peer: peerId, message }),
      };
      this.#peers.set(peerId, peer);
      this.#events.joined(peer);
    }
    await this.#events.received(peer, decoded.message);
  }
}

const bus = new Bus();
const orchestrator = createOrchestrator({
  name: 'child',
  store: await sqliteTaskStore({ file: process.argv[2] as string }),
  journal: memoryJournal(),
  buses: [bus],
  leaseTtlS: 2,
  log: { debug() {}, info() {}, warn() {}, error() {} },
});
await orchestrator.start();

process.on('message', async (message: ToChild) => {
  if (message.kind === 'submit') {
    const { task_id, retry_safe } = message;
    await orchestrator.submit({ task_id, brief: `work on ${task_id}`, retry_safe });
    return tell({ kind: 'submitted', task_id });
  }
  try {
    await bus.hear(message.peer, message.message);
    tell({ kind: 'kept', number: message.number, ok: true });
  } catch (thrown) {
    asError(thrown);
    tell({ kind: 'kept', number: message.number, ok: false });
  }
});
tell({ kind: 'ready' });
