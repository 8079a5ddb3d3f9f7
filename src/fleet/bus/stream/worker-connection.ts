/**
 * One session of a worker over one stream link: it announces itself, waits to be accepted, and from then on takes what the
 * orchestrator sends, sends what the worker says, and notices when the orchestrator is gone.
 *
 * Made by `join.ts`, one for each link.
 * @see docs/protocol/fleet.md#stream-links
 */
import type { Log } from '../../../base/log.ts';
import {
  FEATURE_OF,
  type Feature,
  type FleetMessage,
  type SessionAccept,
  type SessionAnnounce,
  type TaskAck,
  type TaskResult,
} from '../../../protocol/fleet.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Decoded, Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { knownFeatures } from '../features.ts';
import type { ReplyChannel, WorkerPort } from '../reply-channel.ts';
import { WorkerMessageHandler } from '../worker-messages.ts';
import { GuardedSender } from './guarded-sender.ts';
import { bye, codeOf, MAX_MESSAGE_BYTES, readMessage, SILENT_HEARTBEATS } from './messages.ts';

/** Messages being handled at once; past it the orchestrator is not read from, and feels it. */
const MAX_PENDING = 256;

export interface WorkerSessionOptions {
  /** Name of the outlet; default: what the orchestrator calls itself. */
  readonly channelName?: string;
  readonly log: Log;
  /** How long the orchestrator may take to accept an announce, milliseconds. */
  readonly acceptTimeoutMs: number;
  /** How long it may take to confirm a result, milliseconds. */
  readonly deliverTimeoutMs: number;
  readonly newId: () => string;
}

/** How a session ended. */
export interface SessionEnd {
  readonly cause: CloseInfo;
  /** It had been accepted. */
  readonly accepted: boolean;
  /** The reason of the orchestrator's SESSION_BYE, where it said one. */
  readonly farewell: string | undefined;
  /** The worker said one. */
  readonly parted: boolean;
}

interface Delivery {
  readonly taskId: string;
  readonly messageId: string;
  readonly settle: (failure?: HandfastError) => void;
}

export class WorkerConnection implements LinkReceiver, ReplyChannel {
  /** Resolves when the orchestrator has accepted the announce, or the link is gone. */
  readonly settled: Promise<void>;
  /** Resolves when the link is gone. */
  readonly gone: Promise<SessionEnd>;
  readonly #worker: WorkerPort;
  readonly #link: Link;
  readonly #options: WorkerSessionOptions;
  readonly #intake: WorkerMessageHandler;
  readonly #out: GuardedSender;
  readonly #settled = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<SessionEnd>();
  readonly #deliveries = new Set<Delivery>();
  readonly #acceptTimer: NodeJS.Timeout;
  #accepted: SessionAccept | undefined;
  #features: ReadonlySet<Feature> = new Set();
  #detach: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;
  #unreadable = 0;
  #held = false;
  #over = false;
  #farewell: string | undefined;
  #parted = false;

  constructor(worker: WorkerPort, link: Link, announce: SessionAnnounce, options: WorkerSessionOptions) {
    this.#worker = worker;
    this.#link = link;
    this.#options = options;
    this.#intake = new WorkerMessageHandler(worker, options.log);
    this.#out = new GuardedSender(link);
    this.settled = this.#settled.promise;
    this.gone = this.#gone.promise;
    this.#acceptTimer = setTimeout(
      () => link.destroy('the announce was not accepted in time'),
      options.acceptTimeoutMs,
    );
    link.setMaxMessageBytes(MAX_MESSAGE_BYTES);
    link.open(this);
    this.#put(announce);
  }

  /** The terms of the session; undefined until they are there. */
  get terms(): SessionAccept | undefined {
    return this.#accepted;
  }

  /**
   * How long the orchestrator may be silent, milliseconds; undefined while it sends no heartbeats. Its heartbeats come by
   * themselves, so nothing need be sent for them.
   */
  get livenessTimeoutMs(): number | undefined {
    if (this.#accepted === undefined || !this.#features.has('heartbeat')) return undefined;
    return SILENT_HEARTBEATS * this.#accepted.heartbeat_s * 1000;
  }

  /** Ends the session in good order. Bounded, never rejects. */
  async leave(reason: string): Promise<void> {
    if (!this.#parted) this.#put(bye(this.#worker.agentId, reason, this.#worker.incarnation));
    this.#parted = true;
    this.#end();
    await this.#link.close(reason);
  }

  // ReplyChannel: what the worker says.

  get name(): string {
    return this.#options.channelName ?? this.#accepted?.envelope?.sender ?? 'orchestrator';
  }

  get features(): ReadonlySet<Feature> {
    return this.#features;
  }

  send(message: FleetMessage): void {
    if (this.#over || this.#accepted === undefined) return;
    if (message.type === 'SESSION_BYE') this.#parted = true;
    const feature = FEATURE_OF[message.type];
    if (feature !== undefined && !this.#features.has(feature)) return;
    // There will be newer progress when the orchestrator reads again.
    if (message.type === 'TASK_PROGRESS' && this.#out.behind) return;
    this.#put(message);
  }

  async deliverResult(result: TaskResult): Promise<void> {
    const { task_id: taskId, envelope } = result;
    const lost = (why: string): HandfastError => fail('connection_lost', why, { task_id: taskId });
    if (this.#over) throw lost('the orchestrator is away');
    const messageId = envelope?.message_id ?? this.#options.newId();
    const message = { ...result, envelope: { ...envelope, message_id: messageId } };
    if (!this.#features.has('ack')) {
      // Nobody will confirm it; that it has left this machine is all that can be known.
      this.#out.put(message);
      await this.#link.drained(0);
      if (this.#over) throw lost('the link ended');
      return;
    }
    return new Promise((resolve, reject) => {
      const settle = (failure?: HandfastError): void => {
        clearTimeout(timer);
        this.#deliveries.delete(delivery);
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const delivery: Delivery = { taskId, messageId, settle };
      const { deliverTimeoutMs } = this.#options;
      const timer = setTimeout(
        () => settle(fail('timeout', 'the result was not confirmed in time', { task_id: taskId })),
        deliverTimeoutMs,
      );
      this.#deliveries.add(delivery);
      try {
        this.#out.put(message);
      } catch (thrown) {
        settle(asError(thrown));
      }
    });
  }

  // Receiver: what the orchestrator says.

  message(raw: string | Message): void {
    if (this.#over) return;
    const decoded = readMessage(raw);
    if (!decoded.valid) return this.#refuse(decoded);
    const { message } = decoded;
    if (message.type === 'SESSION_BYE') return this.#bye(message.reason);
    if (message.type === 'SESSION_ACCEPT') return this.#accept(message);
    if (this.#accepted === undefined) return this.#link.destroy(`${message.type} before the announce was accepted`);
    this.#take(message);
  }

  malformed(problem: Malformed): void {
    if (this.#over) return;
    this.#odd([codeOf(problem)], null);
  }

  ended(): void {
    void this.#link.close('the orchestrator ended the link');
  }

  closed(cause: CloseInfo): void {
    this.#end();
    clearTimeout(this.#acceptTimer);
    this.#settled.resolve();
    const accepted = this.#accepted !== undefined;
    this.#gone.resolve({ cause, accepted, farewell: this.#farewell, parted: this.#parted });
  }

  #accept(accepted: SessionAccept): void {
    if (this.#accepted !== undefined) return;
    clearTimeout(this.#acceptTimer);
    this.#accepted = accepted;
    this.#features = knownFeatures(accepted.features);
    if (this.#features.has('heartbeat')) {
      this.#timer = setInterval(() => this.#beat(), accepted.heartbeat_s * 1000).unref();
    }
    this.#detach = this.#worker.attach(this);
    this.#settled.resolve();
  }

  #beat(): void {
    const { agentId: agent_id, incarnation, activeTasks: active_tasks } = this.#worker;
    const seq = ++this.#beats;
    this.#put(fleetMessage('SESSION_HEARTBEAT', { agent_id, incarnation, seq, active_tasks }));
  }

  #take(message: Incoming): void {
    if (message.type === 'SESSION_HEARTBEAT') return;
    if (message.type === 'TASK_ACK' && this.#confirmed(message)) return;
    const taken = this.#intake.take(message, this, this.#reply);
    if (this.#intake.pending > MAX_PENDING && !this.#held) this.#hold(true);
    void taken.then((known) => {
      if (!known) this.#odd(['E_TYPE'], message.type);
      if (this.#held && this.#intake.pending <= MAX_PENDING / 2) this.#hold(false);
    });
  }

  readonly #reply = (answer: FleetMessage): void => this.#put(answer);

  /** The orchestrator has a result for good, or could not keep it. False: the worker itself may know of it. */
  #confirmed({ task_id: taskId, accepted, envelope }: TaskAck): boolean {
    const causationId = envelope?.causation_id;
    for (const delivery of this.#deliveries) {
      if (causationId === undefined ? delivery.taskId !== taskId : delivery.messageId !== causationId) continue;
      delivery.settle(
        accepted ? undefined : fail('over_capacity', 'the result could not be kept', { task_id: taskId }),
      );
      return true;
    }
    // Nobody waits any more for a result that was not kept: it is in the outbox already.
    return !accepted;
  }

  #bye(reason: string): void {
    this.#farewell = reason;
    this.#end();
    void this.#link.close('the orchestrator said goodbye');
  }

  #refuse({ taskId, type, errors }: Extract<Decoded, { valid: false }>): void {
    const dispatch = type === 'TASK_DISPATCH' && this.#accepted !== undefined;
    if (dispatch && this.#intake.unreadable(taskId, errors, this.#reply)) return;
    this.#odd(
      errors.map(({ code }) => code),
      type,
    );
  }

  /** Counts what is no message. Written down for the 1st, 2nd, 4th, 8th … time only. */
  #odd(codes: readonly string[], type: string | null): void {
    const count = ++this.#unreadable;
    if ((count & (count - 1)) !== 0) return;
    this.#options.log.warn('the orchestrator sent what is no message', { peer: this.#link.peer, type, codes, count });
  }

  /** Sends, or drops what cannot be sent: whoever misses it asks again. */
  #put(message: FleetMessage): void {
    if (this.#over) return;
    try {
      this.#out.put(message);
    } catch (thrown) {
      const { code } = asError(thrown);
      this.#options.log.warn('a message was not sent', { peer: this.#link.peer, type: message.type, code });
    }
  }

  #hold(held: boolean): void {
    this.#held = held;
    this.#link.pause(held);
  }

  /** Nothing is sent or taken any more; what waits for a confirmation waits in the outbox again. */
  #end(): void {
    if (this.#over) return;
    this.#over = true;
    clearInterval(this.#timer);
    this.#out.stop();
    this.#detach?.();
    for (const { taskId, settle } of [...this.#deliveries]) {
      settle(fail('connection_lost', 'the link ended before the result was confirmed', { task_id: taskId }));
    }
  }
}
