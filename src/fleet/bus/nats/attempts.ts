/**
 * Stores attempts on queues, and finds out where one is: on its queue, leased by a worker, or nowhere. A server that was killed
 * may have lost what it acknowledged, and a worker may have dropped what it acknowledged, without a word to the orchestrator.
 *
 * The order makes the answer certain: a worker takes the lease and the claim before it removes a dispatch from its queue, and
 * gives the lease back when it has sent the result. So the queue is read first, then the lease, then the claim.
 * @see docs/nats.md#life-of-a-dispatch
 */
import { setNewest } from '../../../base/evict-oldest.ts';
import type { TaskDispatch } from '../../../protocol/fleet.ts';
import type { Whereabouts } from '../peer.ts';
import type { Bucket } from './bucket.ts';
import type { ConsumerInfo } from './client.ts';
import type { NatsLink } from './connection.ts';
import { readClaim, readLease } from './leases.ts';
import { pack } from './payload.ts';
import { STREAMS, tokenOf } from './subjects.ts';

/** The queue of a worker or a pool. */
export interface DispatchQueue {
  readonly subject: string;
  readonly consumer: string;
}

export interface AttemptsOptions {
  readonly link: NatsLink;
  readonly leases: Bucket;
  readonly journal: Bucket;
  /** Throws when this orchestrator may not send any more. */
  readonly check: () => void;
}

/** Attempts whose position on the queue is remembered. Of others it is asked for. */
const MAX_REMEMBERED = 100_000;
/** Validity of the state of a queue, for all attempts that are looked for, milliseconds. */
const QUEUE_MS = 2_000;

const MESSAGE_ID = 'Nats-Msg-Id';
/** JetStream's number for a message that is not there. */
const NO_MESSAGE = 10037;

/**
 * True when a message that is stored may still be delivered. A consumer whose server was killed may be ahead of its stream: then it
 * counts what the stream stores next as delivered and acknowledged.
 */
const isOutstanding = ({ num_pending, num_ack_pending, ack_floor }: ConsumerInfo, position: number): boolean =>
  num_pending + num_ack_pending > 0 && position > ack_floor.stream_seq;

interface Looked {
  readonly at: number;
  readonly info: Promise<ConsumerInfo | undefined>;
}

export class Attempts {
  readonly #options: AttemptsOptions;
  /** By message id: the position in the stream. */
  readonly #positions = new Map<string, number>();
  readonly #queues = new Map<string, Looked>();

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }

  /** Stores a dispatch; however often it is sent, an attempt is there once. Resolves with its position. */
  async store({ subject }: DispatchQueue, message: TaskDispatch, signal?: AbortSignal): Promise<number> {
    const { link, check } = this.#options;
    const id = idOf(message);
    const position = await link.publish(subject, pack(message), id, { check, ...(signal && { signal }) });
    setNewest(this.#positions, id, position, MAX_REMEMBERED);
    return position;
  }

  /** Where an attempt is that was stored. Fails as {@link store}. */
  async find(queue: DispatchQueue, message: TaskDispatch): Promise<Whereabouts> {
    const id = idOf(message);
    // Stored again, it is where it was: the stream drops the duplicate.
    const position = this.#positions.get(id) ?? (await this.store(queue, message));
    const info = await this.#queue(queue);
    if (info !== undefined && info.num_pending > 0 && position > info.delivered.stream_seq) return { at: 'queue' };
    const isStored = await this.#isStored(position, id);
    if (isStored && (info === undefined || isOutstanding(info, position))) return { at: 'queue' };
    const { leases, journal } = this.#options;
    const key = tokenOf(message.task.task_id);
    const attempt = message.envelope?.attempt ?? 1;
    const lease = readLease((await leases.get(key))?.value);
    if (lease !== undefined && lease.attempt >= attempt) return { at: 'worker' };
    this.#positions.delete(id);
    // The queue counts it as acknowledged, and never delivers it.
    if (isStored) await this.#remove(position);
    const claim = readClaim((await journal.get(key))?.value);
    return claim?.attempt === attempt ? { at: 'nowhere', startedBy: claim.agent } : { at: 'nowhere' };
  }

  /** A position may have been given twice, when a server lost the end of its stream. */
  async #isStored(seq: number, id: string): Promise<boolean> {
    const { link } = this.#options;
    const manager = await link.manager();
    const found = await link.until(() => manager.streams.getMessage(STREAMS.dispatch, { seq }));
    return found?.header.get(MESSAGE_ID) === id;
  }

  async #remove(seq: number): Promise<void> {
    const { link } = this.#options;
    const manager = await link.manager();
    await link.until(() =>
      manager.streams
        .deleteMessage(STREAMS.dispatch, seq, false)
        .catch((error: Error & { readonly code?: unknown }) => {
          if (error.code !== NO_MESSAGE) throw error;
          return true;
        }),
    );
  }

  /** The server's state of a queue; undefined: its worker has not made it yet. */
  #queue({ consumer }: DispatchQueue): Promise<ConsumerInfo | undefined> {
    const now = performance.now();
    const known = this.#queues.get(consumer);
    if (known !== undefined && now - known.at < QUEUE_MS) return known.info;
    const info = this.#ask(consumer);
    this.#queues.set(consumer, { at: now, info });
    info.catch(() => this.#queues.delete(consumer));
    return info;
  }

  async #ask(consumer: string): Promise<ConsumerInfo | undefined> {
    const { link } = this.#options;
    const manager = await link.manager();
    return link.until(() =>
      manager.consumers.info(STREAMS.dispatch, consumer).catch((error: Error) => {
        if (error.name === 'ConsumerNotFoundError') return undefined;
        throw error;
      }),
    );
  }
}

/** Of the message of an attempt: the same however often it is sent, and by each orchestrator. */
const idOf = ({ task, envelope }: TaskDispatch): string => `${task.task_id}#${envelope?.attempt ?? 1}`;
