/**
 * The orchestrator's ear for tests of buses: records the events of a bus, stores results as a store would, and lets a test wait
 * for something.
 */
import type { FleetPeer, PeerEvents } from '../../../src/fleet/bus/peer.ts';
import type { Incoming, Reported } from '../../../src/fleet/messages/decoded.ts';
import { within } from '../../contract/recorder.ts';

export interface Heard {
  readonly peerId: string;
  readonly message: Incoming;
}

export class PeerRecorder implements PeerEvents {
  readonly peers = new Map<string, FleetPeer>();
  readonly heard: Heard[] = [];
  /** `joined a`, `left a: why`, `asleep a: why`, in order. */
  readonly comings: string[] = [];
  readonly oddities: (readonly string[])[] = [];
  /** Decides whether a message is kept; throws when it is not. */
  keep: (message: Incoming) => Promise<void> | void = () => {};
  readonly #watchers = new Set<() => void>();

  joined(peer: FleetPeer): void {
    this.peers.set(peer.peerId, peer);
    this.comings.push(`joined ${peer.peerId}`);
    this.#look();
  }

  async received(peer: FleetPeer, message: Incoming): Promise<void> {
    this.heard.push({ peerId: peer.peerId, message });
    this.#look();
    await this.keep(message);
  }

  malformed(_peer: FleetPeer, codes: readonly string[]): void {
    this.oddities.push(codes);
    this.#look();
  }

  left(peer: FleetPeer, reason: string, asleep: boolean): void {
    this.comings.push(`${asleep ? 'asleep' : 'left'} ${peer.peerId}: ${reason}`);
    if (this.peers.get(peer.peerId) === peer) this.peers.delete(peer.peerId);
    this.#look();
  }

  /** Returns everything of one type, in order. */
  of<T extends Incoming['type']>(type: T): Extract<Incoming, { readonly type: T }>[] {
    return this.heard.map(({ message }) => message).filter((message) => message.type === type) as never;
  }

  results(taskId?: string): Reported[] {
    return this.of('TASK_RESULT').filter((result) => taskId === undefined || result.task_id === taskId);
  }

  until(condition: () => boolean, what: string): Promise<void> {
    const met = new Promise<void>((resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#watchers.delete(look);
        resolve();
      };
      this.#watchers.add(look);
      look();
    });
    return within(met, what);
  }

  /** Returns the peer of a name, once it has joined and announced itself. */
  async peer(peerId: string): Promise<FleetPeer> {
    const announced = (): boolean =>
      this.heard.some((heard) => heard.peerId === peerId && heard.message.type === 'SESSION_ANNOUNCE');
    for (;;) {
      await this.until(() => this.peers.has(peerId) && announced(), `${peerId} to join`);
      const peer = this.peers.get(peerId);
      // It may have been lost again before this continued.
      if (peer !== undefined) return peer;
    }
  }

  #look(): void {
    for (const look of [...this.#watchers]) look();
  }
}
