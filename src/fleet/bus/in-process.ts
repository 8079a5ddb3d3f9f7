/**
 * The bus between an orchestrator and workers of the same process: messages are objects that are handed over by reference.
 *
 * The default of a fleet on one machine. Whoever sends an object must not change it afterwards. Messages that have a
 * normalised form are brought into it with the same checks as on a wire; the others are what they are.
 */

import type { Log } from '../../base/log.ts';
import { withTimeout } from '../../base/race.ts';
import type { Feature, FleetMessage, TaskDispatch, TaskResult } from '../../protocol/fleet.ts';
import { asError, fail } from '../../wire/errors.ts';
import { decodeValue } from '../messages/decode.ts';
import type { Dispatched, Incoming } from '../messages/decoded.ts';
import { fleetMessage } from '../messages/encode.ts';
import { forwardToOrchestrator, ORCHESTRATOR_FEATURES } from './forward.ts';
import type { FleetPeer, OrchestratorBus, PeerEvents } from './peer.ts';
import type { DispatchOutcome, ReplyChannel, WorkerPort } from './reply-channel.ts';
import { type Answer, WorkerMessageHandler } from './worker-messages.ts';

export interface InProcessOptions {
  readonly log?: Log;
  /** Seconds between the heartbeats of a worker. Default 15. */
  readonly heartbeatS?: number;
  /** How long a result may take to be kept before its worker is told to send it again, milliseconds. Default 15,000. */
  readonly keepTimeoutMs?: number;
}

const FEATURES: ReadonlySet<Feature> = new Set(ORCHESTRATOR_FEATURES);

/** The bus to these workers. Their names must differ; fails with `config_invalid` otherwise. */
export function inProcessBus(workers: readonly WorkerPort[], options: InProcessOptions = {}): OrchestratorBus {
  const names = new Set<string>();
  for (const { agentId } of workers) {
    if (names.has(agentId)) throw fail('config_invalid', `two workers are named ${agentId}`, { agent_id: agentId });
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

  async stop(): Promise<void> {
    clearInterval(this.#beat);
    for (const peer of this.#peers) peer.close();
  }
}

/** One worker, as the orchestrator sees it, and the outlet through which the worker speaks. */
class LocalPeer implements FleetPeer {
  readonly peerId: string;
  readonly binding = 'in-process';
  readonly address: string;
  readonly structured = true;
  readonly durable = false;
  readonly features: ReadonlySet<Feature>;
  readonly #worker: WorkerPort;
  readonly #events: PeerEvents;
  readonly #intake: WorkerMessageHandler;
  readonly #log: Log | undefined;
  readonly #keepTimeoutMs: number;
  readonly #outlet: ReplyChannel;
  #detach: (() => void) | undefined;
  #beats = 0;
  /** Between `joined` and `left`. */
  #here = false;
  #closed = false;

  constructor(worker: WorkerPort, events: PeerEvents, options: InProcessOptions) {
    this.peerId = worker.agentId;
    this.address = `in-process:${worker.agentId}`;
    this.features = new Set(worker.features);
    this.#worker = worker;
    this.#events = events;
    this.#log = options.log;
    this.#keepTimeoutMs = options.keepTimeoutMs ?? 15_000;
    this.#intake = new WorkerMessageHandler(worker, options.log);
    this.#outlet = {
      name: 'in-process',
      features: FEATURES,
      send: (message) => this.#hear(message),
      deliverResult: (result) => this.#keep(result),
    };
  }

  get reachable(): boolean {
    return this.#here;
  }

  async join(): Promise<void> {
    this.#greet();
    try {
      this.#hear(await this.#worker.announce());
    } catch (thrown) {
      this.#log?.warn('a worker could not describe itself', { worker: this.peerId, error: asError(thrown).message });
    }
    if (!this.#closed) this.#detach = this.#worker.attach(this.#outlet);
  }

  close(): void {
    this.#closed = true;
    this.#here = false;
    this.#detach?.();
  }

  beat(): void {
    if (!this.#here) return;
    const { agentId: agent_id, incarnation, activeTasks: active_tasks } = this.#worker;
    const seq = ++this.#beats;
    this.#tell(fleetMessage('SESSION_HEARTBEAT', { agent_id, incarnation, seq, active_tasks }));
  }

  async send(message: FleetMessage): Promise<void> {
    if (!this.#here) throw fail('unreachable', `${this.peerId} is not there`, { peer: this.peerId });
    if (message.type === 'TASK_DISPATCH') return this.#dispatch(message);
    const decoded = decodeValue(message);
    if (!decoded.valid) throw fail('invalid_message', `${message.type} is not valid`, { errors: decoded.errors });
    void this.#intake.take(decoded.message, this.#outlet, this.#answer);
  }

  async #dispatch(message: TaskDispatch): Promise<void> {
    const decoded = decodeValue(message);
    if (!decoded.valid) {
      if (this.#intake.unreadable(decoded.taskId, decoded.errors, this.#answer)) return;
      throw fail('invalid_message', 'the dispatch is not valid', { errors: decoded.errors });
    }
    const dispatch = decoded.message as Dispatched;
    let reception: DispatchOutcome;
    try {
      reception = await this.#intake.dispatch(dispatch, this.#outlet, this.#answerDispatch);
    } catch (thrown) {
      const { code, message: why } = asError(thrown);
      throw fail('unreachable', `${this.peerId} could not take the task: ${why}`, { reason: code }, thrown);
    }
    if (reception.kind === 'busy') {
      const { reason, retryAfterS } = reception;
      throw fail('over_capacity', `${this.peerId} is busy`, { reason, retry_after_ms: retryAfterS * 1000 });
    }
  }

  readonly #answer = (answer: Answer): void => this.#hear(answer);

  /** A busy worker is told by the failure of `send`. */
  readonly #answerDispatch = (answer: Answer): void => {
    if (answer.type !== 'TASK_ACK' || answer.accepted) this.#hear(answer);
  };

  /** Anything the worker says that it does not wait for. */
  #hear(message: FleetMessage): void {
    if (this.#closed) return;
    if (message.type === 'SESSION_BYE') return this.#bye(message.reason);
    if (!this.#here) this.#greet();
    const incoming = this.#normalised(message);
    if (incoming !== undefined) this.#tell(incoming);
  }

  async #keep(result: TaskResult): Promise<void> {
    if (this.#closed) throw fail('unreachable', 'the orchestrator is not there');
    const reported = this.#normalised(result);
    if (reported === undefined) throw fail('invalid_message', 'the result is not valid', { task_id: result.task_id });
    const kept = forwardToOrchestrator(this.#events, this, reported);
    await withTimeout(kept, this.#keepTimeoutMs, () => fail('timeout', 'the result was not kept in time'));
  }

  #normalised(message: FleetMessage): Incoming | undefined {
    // Every other message is its own normalised form.
    if (message.type !== 'TASK_RESULT' && message.type !== 'SESSION_ANNOUNCE') return message as Incoming;
    const decoded = decodeValue(message);
    if (decoded.valid) return decoded.message;
    const codes = decoded.errors.map(({ code }) => code);
    this.#log?.warn('a worker sent what is no message', { worker: this.peerId, type: message.type, codes });
    this.#events.unreadable(this, codes);
    return undefined;
  }

  #tell(message: Incoming): void {
    forwardToOrchestrator(this.#events, this, message).catch((thrown: unknown) => {
      const { code, message: why } = asError(thrown);
      this.#log?.warn('a message was not kept', { worker: this.peerId, type: message.type, code, error: why });
    });
  }

  #greet(): void {
    this.#here = true;
    this.#events.joined(this);
  }

  #bye(reason: string): void {
    if (!this.#here) return;
    this.#here = false;
    this.#events.left(this, reason, true);
  }
}
