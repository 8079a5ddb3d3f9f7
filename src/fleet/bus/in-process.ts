/**
 * The bus between an orchestrator and workers of the same process: messages are objects that are passed by reference.
 *
 * The default of a fleet on one machine. A sender must not change an object afterwards. Messages that have a normalised form
 * are brought into it with the same checks as on a wire; the others are passed as they are.
 */

import type { Log } from '../../base/log.ts';
import { withTimeout } from '../../base/race.ts';
import type { Feature, FleetMessage, TaskDispatch, TaskResult } from '../../protocol/fleet.ts';
import { asError, fail } from '../../wire/errors.ts';
import { decodeValue } from '../messages/decode.ts';
import type { Dispatched, Incoming } from '../messages/decoded.ts';
import { fleetMessage } from '../messages/encode.ts';
import { forwardToOrchestrator, logNotStored, ORCHESTRATOR_FEATURES } from './forward.ts';
import type { FleetPeer, OrchestratorBus, PeerEvents } from './peer.ts';
import type { DispatchOutcome, ReplyChannel, WorkerPort } from './reply-channel.ts';
import { WorkerMessageHandler, type WorkerReply } from './worker-messages.ts';

export interface InProcessOptions {
  readonly log?: Log;
  /** Seconds between the heartbeats of a worker. Default 15. */
  readonly heartbeatS?: number;
  /** Longest time that storing a result may take before its worker must send it again, milliseconds. Default 15,000. */
  readonly storeTimeoutMs?: number;
}

const FEATURES: ReadonlySet<Feature> = new Set(ORCHESTRATOR_FEATURES);

/** Makes the bus to these workers. Their names must differ; fails with `config_invalid` otherwise. */
export function inProcessBus(workers: readonly WorkerPort[], options: InProcessOptions = {}): OrchestratorBus {
  const names = new Set<string>();
  for (const { agentId } of workers) {
    if (names.has(agentId))
      throw fail('config_invalid', `two workers are named ${agentId}; rename one`, { agent_id: agentId });
    names.add(agentId);
  }
  return new InProcessBus(workers, options);
}

class InProcessBus implements OrchestratorBus {
  readonly binding = 'in-process';
  readonly #workers: readonly WorkerPort[];
  readonly #options: InProcessOptions;
  #peers: readonly LocalPeer[] = [];
  #beat: NodeJS.Timeout | undefined;
  #started = false;

  constructor(workers: readonly WorkerPort[], options: InProcessOptions) {
    this.#workers = workers;
    this.#options = options;
  }

  async start(events: PeerEvents): Promise<void> {
    if (this.#started) throw fail('usage', 'this bus was started before');
    this.#started = true;
    this.#peers = this.#workers.map((worker) => new LocalPeer(worker, events, this.#options));
    const { heartbeatS = 15 } = this.#options;
    this.#beat = setInterval(() => {
      for (const peer of this.#peers) peer.beat();
    }, heartbeatS * 1000).unref();
    await Promise.all(this.#peers.map((peer) => peer.join()));
  }

  async close(): Promise<void> {
    clearInterval(this.#beat);
    for (const peer of this.#peers) peer.close();
  }
}

/** One worker, as the orchestrator sees it, and its reply channel. */
class LocalPeer implements FleetPeer {
  readonly peerId: string;
  readonly binding = 'in-process';
  readonly address: string;
  readonly structured = true;
  readonly durable = false;
  readonly features: ReadonlySet<Feature>;
  readonly #worker: WorkerPort;
  readonly #events: PeerEvents;
  readonly #handler: WorkerMessageHandler;
  readonly #log: Log | undefined;
  readonly #storeTimeoutMs: number;
  readonly #channel: ReplyChannel;
  #detach: (() => void) | undefined;
  #beats = 0;
  /** True between `joined` and `left`. */
  #connected = false;
  #closed = false;

  constructor(worker: WorkerPort, events: PeerEvents, options: InProcessOptions) {
    this.peerId = worker.agentId;
    this.address = `in-process:${worker.agentId}`;
    this.features = new Set(worker.features);
    this.#worker = worker;
    this.#events = events;
    this.#log = options.log;
    this.#storeTimeoutMs = options.storeTimeoutMs ?? 15_000;
    this.#handler = new WorkerMessageHandler(worker, options.log);
    this.#channel = {
      name: 'in-process',
      features: FEATURES,
      send: (message) => this.#receive(message),
      deliverResult: (result) => this.#store(result),
    };
  }

  get reachable(): boolean {
    return this.#connected;
  }

  async join(): Promise<void> {
    this.#connect();
    try {
      this.#receive(await this.#worker.announce());
    } catch (thrown) {
      this.#log?.warn('worker could not make its announce', { worker: this.peerId, error: asError(thrown).message });
    }
    if (!this.#closed) this.#detach = this.#worker.attach(this.#channel);
  }

  close(): void {
    this.#closed = true;
    this.#connected = false;
    this.#detach?.();
  }

  beat(): void {
    if (!this.#connected) return;
    const { agentId: agent_id, incarnation, activeTasks: active_tasks } = this.#worker;
    const seq = ++this.#beats;
    this.#forward(fleetMessage('SESSION_HEARTBEAT', { agent_id, incarnation, seq, active_tasks }));
  }

  async send(message: FleetMessage): Promise<void> {
    if (!this.#connected) throw fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
    if (message.type === 'TASK_DISPATCH') return this.#dispatch(message);
    const decoded = decodeValue(message);
    if (!decoded.valid) throw fail('invalid_message', `${message.type} is not valid`, { errors: decoded.errors });
    void this.#handler.receive(decoded.message, this.#channel, this.#reply);
  }

  async #dispatch(message: TaskDispatch): Promise<void> {
    const decoded = decodeValue(message);
    if (!decoded.valid) {
      if (this.#handler.malformed(decoded.taskId, decoded.errors, this.#reply)) return;
      throw fail('invalid_message', 'the dispatch is not valid', { errors: decoded.errors });
    }
    const dispatch = decoded.message as Dispatched;
    let outcome: DispatchOutcome;
    try {
      outcome = await this.#handler.dispatch(dispatch, this.#channel, this.#replyToDispatch);
    } catch (thrown) {
      const { code: reason, message } = asError(thrown);
      throw fail('unreachable', `${this.peerId} could not accept the task: ${message}`, { reason }, thrown);
    }
    if (outcome.kind === 'busy') {
      const { reason, retryAfterS } = outcome;
      throw fail('over_capacity', `${this.peerId} is busy`, { reason, retry_after_ms: retryAfterS * 1000 });
    }
  }

  readonly #reply = (answer: WorkerReply): void => this.#receive(answer);

  /** The failure of `send` reports a busy worker. */
  readonly #replyToDispatch = (answer: WorkerReply): void => {
    if (answer.type !== 'TASK_ACK' || answer.accepted) this.#receive(answer);
  };

  /** Handles every message the worker does not wait for. */
  #receive(message: FleetMessage): void {
    if (this.#closed) return;
    if (message.type === 'SESSION_BYE') return this.#bye(message.reason);
    if (!this.#connected) this.#connect();
    const incoming = this.#normalised(message);
    if (incoming !== undefined) this.#forward(incoming);
  }

  async #store(result: TaskResult): Promise<void> {
    if (this.#closed) throw fail('unreachable', 'the orchestrator is not connected');
    const reported = this.#normalised(result);
    if (reported === undefined) throw fail('invalid_message', 'the result is not valid', { task_id: result.task_id });
    const stored = forwardToOrchestrator(this.#events, this, reported);
    const late = () => fail('timeout', `the result was not stored within ${this.#storeTimeoutMs} ms`);
    await withTimeout(stored, this.#storeTimeoutMs, late);
  }

  #normalised(message: FleetMessage): Incoming | undefined {
    // Every other message is its own normalised form.
    if (message.type !== 'TASK_RESULT' && message.type !== 'SESSION_ANNOUNCE') return message as Incoming;
    const decoded = decodeValue(message);
    if (decoded.valid) return decoded.message;
    const codes = decoded.errors.map(({ code }) => code);
    this.#log?.warn('worker sent an invalid message', { worker: this.peerId, type: message.type, codes });
    this.#events.malformed(this, codes);
    return undefined;
  }

  #forward(message: Incoming): void {
    forwardToOrchestrator(this.#events, this, message).catch((thrown: unknown) =>
      logNotStored(this.#log, this, message, thrown),
    );
  }

  #connect(): void {
    this.#connected = true;
    this.#events.joined(this);
  }

  #bye(reason: string): void {
    if (!this.#connected) return;
    this.#connected = false;
    this.#events.left(this, reason, true);
  }
}
