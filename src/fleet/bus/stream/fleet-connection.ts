/**
 * The connection of a stream link, as both its ends use it: the {@link Connection} of all protocols with the fleet's codec,
 * messages that are refused when the peer does not read, and requests that the peer acknowledges.
 *
 * @see docs/protocol/fleet.md#stream-links
 */
import { isLogged } from '../../../base/log.ts';
import { Connection, type ConnectionLimits } from '../../../connection/connection.ts';
import type { PendingCall } from '../../../connection/outgoing-calls.ts';
import type { Traffic } from '../../../connection/traffic.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { untyped } from '../../../protocol/method.ts';
import type { CloseInfo, Link, Message } from '../../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import { FleetCodec, type FleetMalformed } from '../../../wire/fleet.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { MAX_SEND_BUFFER_BYTES, readMessage } from './messages.ts';

/** Messages being handled at once; past it reading from the peer stops, which makes the peer wait. */
const INBOX_LIMIT = 256;

const limits: ConnectionLimits = {
  maxParallel: 1,
  queueLimit: 0,
  maxDepth: 64,
  maxMessageBytes: Number.POSITIVE_INFINITY,
  sendBufferBytes: MAX_SEND_BUFFER_BYTES / 2,
  // A message beyond the bound is refused, not sent: see `send`.
  maxSendBufferBytes: Number.POSITIVE_INFINITY,
  slowConsumerMs: 30_000,
  writeStallMs: 30_000,
  inboxLimit: INBOX_LIMIT,
};

/** The behaviour in which the two ends differ. */
export interface FleetConnectionOwner {
  /** Receives a message that was read. A promise delays further reading while many are pending. */
  receive(message: Incoming): Promise<unknown> | undefined;
  /** Receives input that is not a message of this protocol. */
  malformed(problem: FleetMalformed): void;
  /** Called when the peer has ended its side and still reads. */
  ended(): void;
  /** Called when the link is lost. */
  linkLost(cause: CloseInfo): void;
}

/** A message that the peer acknowledges. */
export interface Asked {
  readonly taskId: string;
  readonly messageId: string;
  readonly timeoutMs: number;
  /** The text of the `timeout` error. */
  readonly late: string;
  readonly signal?: AbortSignal;
}

export class FleetConnection {
  readonly #connection: Connection;
  readonly #asked = new Map<PendingCall, Asked>();
  #malformed = 0;
  #ended = false;

  constructor(owner: FleetConnectionOwner) {
    this.#connection = new Connection(
      {
        route: () => undefined,
        notice: ({ message }) => owner.receive(message as unknown as Incoming),
        malformed: ({ detail }) => owner.malformed(detail as unknown as FleetMalformed),
        failed: (_request, thrown) => asError(thrown),
        ended: () => owner.ended(),
        linkLost: (cause) => owner.linkLost(cause),
      },
      new FleetCodec(readMessage),
      limits,
    );
  }

  /** Counts its messages and its link against these shares. Called before a link is attached. */
  share(traffic: Traffic | undefined): void {
    this.#connection.traffic = traffic;
  }

  // The receiver of an accepted link.

  attach(link: Link): void {
    this.#connection.attach(link);
  }

  message(raw: string | Message): void {
    this.#connection.message(raw);
  }

  /** True while nothing should be sent that can be sent again later: the peer is behind. */
  get congested(): boolean {
    return this.#connection.congested;
  }

  /** Counts malformed input. Returns the count when it is to be logged. */
  countMalformed(): number | undefined {
    const count = ++this.#malformed;
    return isLogged(count) ? count : undefined;
  }

  /**
   * Queues a message. Fails with `over_capacity` when too many bytes are unsent already, and nothing of it is sent then; with
   * `invalid_message` when it cannot be written as JSON. Does nothing once the link is lost.
   */
  send(message: FleetMessage): void {
    this.#checkBacklog();
    try {
      this.#connection.notify(message.type, message);
    } catch (cause) {
      throw unwritable(message, cause);
    }
  }

  #checkBacklog(): void {
    const { link } = this.#connection;
    if (link !== undefined && link.buffered > MAX_SEND_BUFFER_BYTES) {
      throw fail('over_capacity', `${link.peer} does not read`, { retry_after_ms: 1_000 });
    }
  }

  /**
   * Sends a message and resolves when the peer has acknowledged it ({@link settle}). Rejects as {@link send} fails, with
   * `timeout`, with `cancelled`, and with the error of {@link end}; `detail.task_id` names the task.
   */
  async ask(message: FleetMessage, asked: Asked): Promise<void> {
    const { taskId, timeoutMs, late, signal } = asked;
    this.#checkBacklog();
    const calls = this.#connection.calls({
      maxParallel: Number.POSITIVE_INFINITY,
      queueLimit: 0,
      timeoutMs: 0,
    });
    const call = calls.call(untyped(message.type), message, { timeoutMs, signal, streaming: false });
    // Now, not in the next microtask: messages sent after it must arrive after it.
    calls.flush();
    const pending = calls.find(call.id);
    if (pending !== undefined) this.#asked.set(pending, asked);
    try {
      await call;
    } catch (thrown) {
      const { code, message: text } = asError(thrown);
      if (code === 'timeout') throw fail('timeout', late, { task_id: taskId });
      if (code === 'connection_lost') throw fail('connection_lost', text, { task_id: taskId });
      if (code === 'cancelled' && signal?.aborted) throw asError(signal.reason, 'cancelled');
      if (pending === undefined && code !== 'cancelled') throw unwritable(message, thrown);
      throw thrown;
    } finally {
      if (pending !== undefined) this.#asked.delete(pending);
    }
  }

  /**
   * Settles the message of an acknowledgement: the one it names as its cause, the oldest of its task when it names none. False:
   * nothing waits for it.
   */
  settle(taskId: string, causationId: string | undefined, error?: HandfastError): boolean {
    const call = this.#find(taskId, causationId);
    if (call === undefined) return false;
    const calls = this.#connection.calls();
    if (error !== undefined) calls.failure(call, error);
    else calls.reply(call, { type: '', body: undefined });
    return true;
  }

  #find(taskId: string, causationId: string | undefined): PendingCall | undefined {
    for (const [call, asked] of this.#asked) {
      if (call.settled) continue;
      if (causationId === undefined ? asked.taskId === taskId : asked.messageId === causationId) return call;
    }
    return undefined;
  }

  /** True while a message of this task, or with this cause, waits for its acknowledgement. */
  waitsFor(taskId: string, causationId: string | undefined): boolean {
    return this.#find(taskId, causationId) !== undefined;
  }

  /** Resolves when the system has everything that was sent, or the link is lost. */
  async drained(): Promise<void> {
    await this.#connection.link?.drained(0);
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Reads and settles nothing more; sends that wait for an acknowledgement fail. The link is the owner's to close. */
  end(error: () => HandfastError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#connection.ignoreInput();
    this.#connection.settle(error);
  }
}

const unwritable = ({ type }: FleetMessage, cause: unknown): HandfastError =>
  fail('invalid_message', `${type} cannot be written as JSON`, {}, cause);
