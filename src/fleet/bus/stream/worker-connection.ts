/**
 * One session of a worker over one stream link: it announces itself, waits to be accepted, and from then on handles the
 * orchestrator's messages, sends the worker's messages, and ends the link of a silent orchestrator.
 *
 * One for each link.
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
import type { CloseInfo, Link } from '../../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { FleetMalformed } from '../../../wire/fleet.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { knownFeatures } from '../features.ts';
import type { ReplyChannel, WorkerPort } from '../reply-channel.ts';
import { WorkerMessageHandler } from '../worker-messages.ts';
import { FleetConnection, type FleetConnectionOwner } from './fleet-connection.ts';
import { bye, MAX_MESSAGE_BYTES, SILENT_HEARTBEATS } from './messages.ts';

export interface WorkerSessionOptions {
  /** Name of the reply channel. Default: the orchestrator's own name. */
  readonly channelName?: string;
  readonly log: Log;
  /** Longest time that the orchestrator may take to accept an announce, milliseconds. */
  readonly acceptTimeoutMs: number;
  /** Longest time that it may take to acknowledge a result, milliseconds. */
  readonly deliverTimeoutMs: number;
  readonly newId: () => string;
}

/** The end of a session. */
export interface SessionEnd {
  readonly cause: CloseInfo;
  /** True when it had been accepted. */
  readonly accepted: boolean;
  /** The reason of the orchestrator's SESSION_BYE, where it sent one. */
  readonly farewell: string | undefined;
  /** The worker sent one. */
  readonly parted: boolean;
}

export class WorkerConnection implements FleetConnectionOwner, ReplyChannel {
  /** Resolves when the orchestrator has accepted the announce, or the link is lost. */
  readonly settled: Promise<void>;
  /** Resolves when the link is lost. */
  readonly gone: Promise<SessionEnd>;
  readonly #worker: WorkerPort;
  readonly #link: Link;
  readonly #options: WorkerSessionOptions;
  readonly #messages: WorkerMessageHandler;
  readonly #connection: FleetConnection;
  readonly #settled = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<SessionEnd>();
  readonly #acceptTimer: NodeJS.Timeout;
  #accepted: SessionAccept | undefined;
  #features: ReadonlySet<Feature> = new Set();
  #detach: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;
  #farewell: string | undefined;
  #parted = false;

  constructor(worker: WorkerPort, link: Link, announce: SessionAnnounce, options: WorkerSessionOptions) {
    this.#worker = worker;
    this.#link = link;
    this.#options = options;
    this.#messages = new WorkerMessageHandler(worker, options.log);
    this.#connection = new FleetConnection(this);
    this.settled = this.#settled.promise;
    this.gone = this.#gone.promise;
    this.#acceptTimer = setTimeout(
      () => link.destroy('the announce was not accepted in time'),
      options.acceptTimeoutMs,
    );
    link.setMaxMessageBytes(MAX_MESSAGE_BYTES);
    this.#connection.attach(link);
    this.#put(announce);
  }

  /** The terms of the session; undefined until they are there. */
  get terms(): SessionAccept | undefined {
    return this.#accepted;
  }

  /**
   * Longest silence of the orchestrator, milliseconds; undefined while it sends no heartbeats. Its heartbeats come by
   * themselves, so nothing need be sent for them.
   */
  get livenessTimeoutMs(): number | undefined {
    if (this.#accepted === undefined || !this.#features.has('heartbeat')) return undefined;
    return SILENT_HEARTBEATS * this.#accepted.heartbeat_s * 1000;
  }

  /** Ends the session in order. Bounded, never rejects. */
  async leave(reason: string): Promise<void> {
    if (!this.#parted) this.#put(bye(this.#worker.agentId, reason, this.#worker.incarnation));
    this.#parted = true;
    this.#end();
    await this.#link.close(reason);
  }

  // ReplyChannel: the worker's messages.

  get name(): string {
    return this.#options.channelName ?? this.#accepted?.envelope?.sender ?? 'orchestrator';
  }

  get features(): ReadonlySet<Feature> {
    return this.#features;
  }

  send(message: FleetMessage): void {
    if (this.#connection.ended || this.#accepted === undefined) return;
    if (message.type === 'SESSION_BYE') this.#parted = true;
    const feature = FEATURE_OF[message.type];
    if (feature !== undefined && !this.#features.has(feature)) return;
    // There will be newer progress when the orchestrator reads again.
    if (message.type === 'TASK_PROGRESS' && this.#connection.congested) return;
    this.#put(message);
  }

  async deliverResult(result: TaskResult): Promise<void> {
    const { task_id: taskId, envelope } = result;
    const lost = (why: string): HandfastError => fail('connection_lost', why, { task_id: taskId });
    if (this.#connection.ended) throw lost('the orchestrator is not connected');
    const messageId = envelope?.message_id ?? this.#options.newId();
    const message = { ...result, envelope: { ...envelope, message_id: messageId } };
    if (this.#features.has('ack')) {
      const { deliverTimeoutMs: timeoutMs } = this.#options;
      const late = `the orchestrator did not acknowledge the result within ${timeoutMs} ms`;
      return this.#connection.ask(message, { taskId, messageId, timeoutMs, late });
    }
    // It will not be acknowledged; that it has left this machine is all that can be known.
    this.#connection.send(message);
    await this.#connection.drained();
    if (this.#connection.ended) throw lost('the link ended');
  }

  // From the orchestrator.

  receive(message: Incoming): Promise<unknown> | undefined {
    if (message.type === 'SESSION_BYE') this.#bye(message.reason);
    else if (message.type === 'SESSION_ACCEPT') this.#accept(message);
    else if (this.#accepted === undefined) this.#link.destroy(`${message.type} before the announce was accepted`);
    else if (message.type === 'TASK_ACK' && this.#acknowledged(message)) return undefined;
    else if (message.type !== 'SESSION_HEARTBEAT') return this.#handle(message);
    return undefined;
  }

  malformed({ type, taskId, errors }: FleetMalformed): void {
    const dispatch = type === 'TASK_DISPATCH' && this.#accepted !== undefined;
    if (dispatch && this.#messages.malformed(taskId, errors, this.#reply)) return;
    this.#reportMalformed(
      errors.map(({ code }) => code),
      type,
    );
  }

  ended(): void {
    void this.#link.close('the orchestrator ended the link');
  }

  linkLost(cause: CloseInfo): void {
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

  async #handle(message: Incoming): Promise<void> {
    const handled = await this.#messages.receive(message, this, this.#reply);
    if (!handled) this.#reportMalformed(['E_TYPE'], message.type);
  }

  readonly #reply = (reply: FleetMessage): void => this.#put(reply);

  /**
   * Handles an acknowledgement: the orchestrator has stored a result, or could not. False: the worker itself may know the
   * acknowledged message.
   */
  #acknowledged({ task_id: taskId, accepted, envelope }: TaskAck): boolean {
    const error = accepted ? undefined : fail('over_capacity', 'the result could not be stored', { task_id: taskId });
    // Nothing waits any more for a result that was not stored: it is in the outbox already.
    return this.#connection.settle(taskId, envelope?.causation_id, error) || !accepted;
  }

  #bye(reason: string): void {
    this.#farewell = reason;
    this.#end();
    void this.#link.close('the orchestrator said goodbye');
  }

  #reportMalformed(codes: readonly string[], type: string | null): void {
    const count = this.#connection.countMalformed();
    if (count === undefined) return;
    this.#options.log.warn('the orchestrator sent invalid messages', { peer: this.#link.peer, type, codes, count });
  }

  /** Sends, or drops a message that cannot be sent: a peer that misses it asks again. */
  #put(message: FleetMessage): void {
    if (this.#connection.ended) return;
    try {
      this.#connection.send(message);
    } catch (thrown) {
      const { code } = asError(thrown);
      this.#options.log.warn('a message was not sent', { peer: this.#link.peer, type: message.type, code });
    }
  }

  /** Ends sending and reading; results that wait for an acknowledgement wait in the outbox again. */
  #end(): void {
    if (this.#connection.ended) return;
    clearInterval(this.#timer);
    this.#connection.end(() => fail('connection_lost', 'the link ended before the result was acknowledged'));
    this.#detach?.();
  }
}
