/**
 * The bus of one process of the orchestrator: the contract of `fleet/bus/peer.ts` over the simulated network. It
 * behaves as stream links do (a dispatch waits for its reply, results are acknowledged when they are stored, silence is
 * noticed), but its messages may get lost, arrive twice, or overtake others.
 */
import { repeat } from '../src/base/timer-queue.ts';
import { forwardToOrchestrator } from '../src/fleet/bus/forward.ts';
import type { FleetPeer, OrchestratorBus, PeerEvents } from '../src/fleet/bus/peer.ts';
import { decodeValue } from '../src/fleet/messages/decode.ts';
import type { Incoming, Reported } from '../src/fleet/messages/decoded.ts';
import { fleetMessage } from '../src/fleet/messages/encode.ts';
import type { Feature, FleetMessage, SessionAnnounce, TaskAck, TaskDispatch } from '../src/protocol/fleet.ts';
import { asError, fail, type HandfastError } from '../src/wire/errors.ts';
import type { Network } from './network.ts';
import type { SimProcess } from './process.ts';
import type { Site } from './site.ts';

/** Time for a worker to reply to a dispatch, milliseconds. */
const ACK_TIMEOUT_MS = 10_000;
/** Silence after which a worker counts as lost: three heartbeats. */
const SILENT_MS = 45_000;
const SWEEP_MS = 7_500;

/** Checks and measurements of the messages of a bus. */
export interface WireObserver {
  /** Called when a message leaves the orchestrator. */
  sent(worker: string, message: FleetMessage): void;
  /** Called when a message of a worker reaches the orchestrator. */
  received(worker: string, message: FleetMessage): void;
  /** Called when the orchestrator has acknowledged that it stored this result. */
  confirmed(result: Reported): void;
}

export interface SimBusOptions {
  readonly process: SimProcess;
  readonly network: Network;
  readonly observer: WireObserver;
  /** Hands a message to the process that is the worker now. */
  readonly deliver: (site: Site, message: FleetMessage) => void;
}

/** A connection, as the worker's end sees it. */
export interface Connection {
  /** False: the other end has closed it, or died. */
  readonly reachable: boolean;
}

export class SimBus implements OrchestratorBus {
  readonly binding = 'stream';
  readonly options: SimBusOptions;
  readonly #peers = new Map<string, SimPeer>();
  #events: PeerEvents | undefined;

  constructor(options: SimBusOptions) {
    this.options = options;
  }

  async start(events: PeerEvents): Promise<void> {
    this.#events = events;
    const { process } = this.options;
    repeat(process.clock.timer, SWEEP_MS, () => {
      const before = process.clock.monotonic() - SILENT_MS;
      for (const peer of this.#peers.values()) if (peer.receivedAtMs <= before) this.lost(peer.site, 'silent');
    });
  }

  async close(): Promise<void> {
    for (const peer of this.#peers.values()) peer.close('stopping');
    this.#peers.clear();
  }

  /** Handles the death of its process: the connections are broken, and the orchestrator does not notice. */
  died(): void {
    this.#events = undefined;
    for (const peer of this.#peers.values()) peer.close('the orchestrator died');
    this.#peers.clear();
  }

  /** Handles a worker that has connected and announced itself. Undefined: it must try again. */
  admit(site: Site, announce: SessionAnnounce): Connection | undefined {
    const decoded = decodeValue(announce);
    if (this.#events === undefined || !decoded.valid || decoded.message.type !== 'SESSION_ANNOUNCE') return undefined;
    this.#peers.get(site.name)?.close('superseded');
    const peer = new SimPeer(this, site, this.#events, new Set(decoded.message.features));
    this.#peers.set(site.name, peer);
    this.#events.joined(peer);
    this.options.observer.received(site.name, announce);
    void forwardToOrchestrator(this.#events, peer, decoded.message);
    return peer;
  }

  /** Handles a message of a worker; dropped if the worker has no connection. */
  receive(site: Site, message: FleetMessage): void {
    this.#peers.get(site.name)?.receive(message);
  }

  /** Handles a broken connection to a worker, or one that was silent for too long. */
  lost(site: Site, reason: string): void {
    const peer = this.#peers.get(site.name);
    if (peer === undefined) return;
    this.#peers.delete(site.name);
    peer.close(reason);
    this.#events?.left(peer, reason, false);
  }
}

/** A dispatch the worker has not answered yet. */
interface Asked {
  readonly messageId: string | undefined;
  readonly settle: (failure?: HandfastError) => void;
}

class SimPeer implements FleetPeer {
  readonly site: Site;
  readonly peerId: string;
  readonly binding = 'stream';
  readonly address: string;
  readonly structured = true;
  readonly durable = false;
  readonly #bus: SimBus;
  readonly #events: PeerEvents;
  readonly #asked = new Set<Asked>();
  features: ReadonlySet<Feature>;
  receivedAtMs: number;
  #closed = false;

  constructor(bus: SimBus, site: Site, events: PeerEvents, features: ReadonlySet<Feature>) {
    this.site = site;
    this.peerId = site.name;
    this.address = site.name;
    this.features = features;
    this.#bus = bus;
    this.#events = events;
    this.receivedAtMs = bus.options.process.clock.monotonic();
  }

  get reachable(): boolean {
    return !this.#closed;
  }

  async send(message: FleetMessage, { signal }: { readonly signal?: AbortSignal }): Promise<void> {
    if (this.#closed) throw fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
    signal?.throwIfAborted();
    if (message.type === 'TASK_DISPATCH') return this.#ask(message, signal);
    this.#put(message);
  }

  close(reason: string): void {
    this.#closed = true;
    for (const { settle } of [...this.#asked]) settle(fail('connection_lost', `${this.peerId}: ${reason}`));
  }

  receive(message: FleetMessage): void {
    const { process, observer } = this.#bus.options;
    this.receivedAtMs = process.clock.monotonic();
    observer.received(this.peerId, message);
    const decoded = decodeValue(message);
    if (!decoded.valid)
      return this.#events.malformed(
        this,
        decoded.errors.map(({ code }) => code),
      );
    const { message: incoming } = decoded;
    switch (incoming.type) {
      case 'TASK_ACK':
        return this.#acknowledged(incoming);
      case 'TASK_RESULT':
        this.#find(incoming.envelope.causation_id)?.settle();
        return this.#result(incoming);
      case 'SESSION_ANNOUNCE':
        this.features = new Set(incoming.features);
        return this.#forward(incoming);
      default:
        return this.#forward(incoming);
    }
  }

  #put(message: FleetMessage): void {
    const { process, network, observer, deliver } = this.#bus.options;
    if (!process.alive) return;
    observer.sent(this.peerId, message);
    network.toWorker(this.site, () => deliver(this.site, message));
  }

  #ask(dispatch: TaskDispatch, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (failure?: HandfastError): void => {
        cancel();
        signal?.removeEventListener('abort', abort);
        this.#asked.delete(asked);
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const abort = (): void => settle(asError(signal?.reason, 'cancelled'));
      const asked: Asked = { messageId: dispatch.envelope?.message_id, settle };
      const late = (): void => settle(fail('timeout', `${this.peerId} did not answer the dispatch`));
      const cancel = this.#bus.options.process.after(ACK_TIMEOUT_MS, late);
      signal?.addEventListener('abort', abort, { once: true });
      this.#asked.add(asked);
      this.#put(dispatch);
    });
  }

  #find(causationId: string | undefined): Asked | undefined {
    if (causationId === undefined) return undefined;
    return [...this.#asked].find(({ messageId }) => messageId === causationId);
  }

  #acknowledged(message: TaskAck): void {
    const asked = this.#find(message.envelope?.causation_id);
    if (asked !== undefined && !message.accepted && (message.state === 'busy' || message.state === 'running')) {
      const { retry_after_s = 30, state } = message;
      const reason = state === 'running' ? 'in_flight' : 'context';
      return asked.settle(
        fail('over_capacity', `${this.peerId} is busy`, { reason, retry_after_ms: retry_after_s * 1000 }),
      );
    }
    this.#forward(message);
    asked?.settle();
  }

  #result(result: Reported): void {
    const { message_id: causation_id, attempt } = result.envelope;
    const confirm = (members: Pick<TaskAck, 'accepted' | 'state' | 'retry_after_s'>): void =>
      this.#put(fleetMessage('TASK_ACK', { task_id: result.task_id, ...members }, { causation_id, attempt }));
    forwardToOrchestrator(this.#events, this, result).then(
      () => {
        this.#bus.options.observer.confirmed(result);
        confirm({ accepted: true, state: 'finished' });
      },
      () => confirm({ accepted: false, retry_after_s: 1 }),
    );
  }

  #forward(message: Incoming): void {
    forwardToOrchestrator(this.#events, this, message).catch(() => {});
  }
}
