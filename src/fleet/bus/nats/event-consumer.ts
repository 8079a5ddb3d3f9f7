/**
 * Forwards the events of workers: each message of the events stream goes to the orchestrator in order and is acknowledged when
 * it was stored; one that could not be stored is redelivered. Dispatches that no worker could accept end here as well.
 *
 * @see docs/nats.md#dead-letters
 */
import { backoffMs } from '../../../base/backoff.ts';
import { evictOldest } from '../../../base/evict-oldest.ts';
import { asError } from '../../../wire/errors.ts';
import { decode } from '../../messages/decode.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import { resultMessage } from '../../messages/encode.ts';
import type { PeerEvents } from '../peer.ts';
import type { NatsLink } from './connection.ts';
import { pack, unpack } from './payload.ts';
import type { NatsPeer } from './peer.ts';
import { type Delivery, PullConsumer } from './pull-consumer.ts';
import { RESULT_ACK_WAIT_S } from './streams.ts';
import { consumers, readConsumer, readEventSubject, STREAMS, tokenOf } from './subjects.ts';

export interface EventConsumerOptions {
  readonly link: NatsLink;
  /** Token of the orchestrator's name. */
  readonly name: string;
  readonly events: PeerEvents;
  readonly peer: (agent: string) => NatsPeer;
  readonly pool: (pool: string) => NatsPeer;
  /** Stands for a sender that is not believed. */
  readonly unknown: NatsPeer;
  /** True when this account may speak for a worker, by its token. */
  readonly believes: (agent: string) => boolean;
  readonly restore: () => Promise<void>;
}

/** Messages that are stored at the same time, at most; each may have 1 MiB. */
const MAX_IN_FLIGHT = 256;
/** Stored messages whose acknowledgement may have been lost. */
const MAX_STORED = 16_384;
const RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/** Messages that only workers send. */
const FROM_WORKERS = new Set<Incoming['type']>(['TASK_RESULT', 'TASK_ACK', 'TASK_PROGRESS', 'TASK_QUESTION']);

export class EventConsumer {
  readonly #options: EventConsumerOptions;
  readonly #puller: PullConsumer;
  /** By {@link Delivery.id}; when they arrived, in monotonic milliseconds. */
  readonly #inFlight = new Map<string, { readonly delivery: Delivery; readonly since: number }>();
  readonly #stored = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #stopped = false;

  constructor(options: EventConsumerOptions) {
    this.#options = options;
    const { link, name, restore } = options;
    this.#timer = setInterval(() => this.#keepAlive(), (RESULT_ACK_WAIT_S * 1000) / 2.5).unref();
    this.#puller = new PullConsumer(link, {
      stream: STREAMS.events,
      consumer: consumers.orchestrator(name),
      capacity: () => MAX_IN_FLIGHT - this.#inFlight.size,
      onDelivery: (delivery) => void this.#take(delivery),
      restore,
    });
  }

  /** Stops. A message that was not stored is redelivered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#puller.stop();
    for (const { delivery } of this.#inFlight.values()) delivery.nak();
    this.#inFlight.clear();
  }

  async #take(delivery: Delivery): Promise<void> {
    if (this.#stopped) return delivery.nak();
    if (this.#stored.has(delivery.id)) return delivery.ack();
    // Redelivered while it is being stored: one acknowledgement counts for both.
    if (this.#inFlight.has(delivery.id)) return;
    this.#inFlight.set(delivery.id, { delivery, since: performance.now() });
    try {
      const handled = this.#handle(delivery);
      if (handled !== undefined) await handled;
      if (this.#stopped) return;
      evictOldest(this.#stored.add(delivery.id), MAX_STORED);
      delivery.ack();
    } catch (thrown) {
      if (this.#stopped) return;
      const { code, message } = asError(thrown);
      this.#options.link.log?.warn('message was not stored; it is redelivered', {
        subject: delivery.subject,
        code,
        error: message,
      });
      delivery.nak(backoffMs(delivery.deliveries - 1, { firstDelayMs: RETRY_MS, maxDelayMs: MAX_RETRY_MS }));
    } finally {
      if (this.#inFlight.delete(delivery.id)) this.#puller.more();
    }
  }

  #handle(delivery: Delivery): Promise<void> | void {
    const { events, peer, unknown, believes } = this.#options;
    const about = readEventSubject(delivery.subject);
    if (about !== undefined && about.kind !== 'max_deliveries' && !believes(about.agent)) {
      return events.malformed(unknown, ['E_TYPE']);
    }
    switch (about?.kind) {
      case 'events':
        return this.#message(peer(about.agent), about.task, delivery);
      case 'dead':
        return events.malformed(peer(about.agent), deadCodes(delivery.data));
      case 'max_deliveries':
        return this.#park(about.consumer, delivery.data);
      default:
        // Announces are here for the record; the profiles tell which workers are present.
        return;
    }
  }

  #message(peer: NatsPeer, task: string, delivery: Delivery): Promise<void> | void {
    const { events } = this.#options;
    let text: Uint8Array;
    try {
      text = unpack(delivery.data);
    } catch {
      return events.malformed(peer, ['E_LIMIT']);
    }
    const decoded = decode(text);
    if (!decoded.valid) {
      const codes = decoded.errors.map(({ code }) => code);
      return events.malformed(peer, codes);
    }
    const { message } = decoded;
    const { task_id } = message as { readonly task_id?: string };
    // A worker may publish on its own subjects only, so the message must name the task of its subject.
    if (!FROM_WORKERS.has(message.type) || task_id === undefined || tokenOf(task_id) !== task) {
      return events.malformed(peer, ['E_TYPE']);
    }
    return this.#forward(peer, message);
  }

  /**
   * Parks a dispatch that reached its delivery limit without an acknowledgement of a worker: it crashes each worker, or never
   * ends being decided on. The orchestrator gets a refusal in its name, which its policy parks for an operator; then it is
   * removed from the queue.
   */
  async #park(consumer: string, data: Uint8Array): Promise<void> {
    const { link, events, peer, pool, unknown, believes } = this.#options;
    const { agent, pool: queue } = readConsumer(consumer);
    const advisory = readAdvisory(data);
    if (advisory === undefined || (agent !== undefined && !believes(agent))) {
      return events.malformed(unknown, ['E_TYPE']);
    }
    const manager = await link.manager();
    const { stream_seq: seq, deliveries } = advisory;
    const stored = await link.until(() =>
      manager.streams.getMessage(STREAMS.dispatch, { seq }).catch((error: Error & { readonly code?: unknown }) => {
        if (error.code === NO_MESSAGE) return null;
        throw error;
      }),
    );
    // Acknowledged after all, or parked before.
    if (stored === null) return;
    const from = agent !== undefined ? peer(agent) : pool(queue ?? consumer);
    const dispatch = readDispatch(stored.data);
    if (dispatch === undefined) events.malformed(from, ['E_NOT_JSON']);
    else {
      const { task_id, envelope } = dispatch;
      const refusal = resultMessage(
        {
          task_id,
          status: 'blocked',
          tokens_spent: 0,
          blocked_reason: `max_deliveries: delivered ${deliveries} times, and never acknowledged`,
          blocked: { code: 'max_deliveries', retryable: false },
        },
        { attempt: envelope.attempt ?? 1, causation_id: envelope.message_id },
      );
      const decoded = decode(pack(refusal));
      if (decoded.valid) await this.#forward(from, decoded.message);
    }
    await link.until(() => manager.streams.deleteMessage(STREAMS.dispatch, seq, false));
  }

  /** Forwards a stored event. Its sender may have left since, and must not count as connected. */
  #forward(peer: NatsPeer, message: Incoming): Promise<void> | void {
    const { events } = this.#options;
    const kept = events.received(peer, message);
    if (!peer.present) events.left(peer, 'it is not connected', false);
    return kept;
  }

  #keepAlive(): void {
    const now = performance.now();
    for (const { delivery, since } of this.#inFlight.values()) if (now - since > 1000) delivery.working();
  }
}

/** JetStream's number for a message that is not there. */
const NO_MESSAGE = 10037;

function readDispatch(data: Uint8Array): Dispatched | undefined {
  try {
    const decoded = decode(unpack(data));
    return decoded.valid && decoded.message.type === 'TASK_DISPATCH' ? decoded.message : undefined;
  } catch {
    return undefined;
  }
}

function readAdvisory(data: Uint8Array): { readonly stream_seq: number; readonly deliveries: number } | undefined {
  try {
    const { stream_seq, deliveries } = JSON.parse(Buffer.from(data).toString());
    return Number.isSafeInteger(stream_seq) && stream_seq > 0
      ? { stream_seq, deliveries: Number(deliveries) }
      : undefined;
  } catch {
    return undefined;
  }
}

function deadCodes(data: Uint8Array): readonly string[] {
  try {
    const { codes } = JSON.parse(Buffer.from(data).toString());
    return Array.isArray(codes) ? codes.filter((code) => typeof code === 'string').slice(0, 64) : [];
  } catch {
    return [];
  }
}
