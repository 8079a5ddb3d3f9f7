/**
 * The messages of an orchestrator to a worker about its tasks: by request, with a reply at once, and from the stream that mirrors the
 * requests, for those that were missed. Each message is handled once, whichever way it comes first.
 */
import { evictOldest } from '../../../base/evict-oldest.ts';
import { decode } from '../../messages/decode.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import type { Msg, MsgHdrs, Subscription } from './client.ts';
import type { NatsLink } from './connection.ts';
import type { Answer } from './dispatch-consumer.ts';
import { pack, unpack } from './payload.ts';
import { type Delivery, PullConsumer } from './pull-consumer.ts';
import { consumers, STREAMS, subjects, tokenOf } from './subjects.ts';

/** Types of messages a worker handles here. */
const HANDLED = new Set<Incoming['type']>([
  'TASK_CANCEL',
  'TASK_STEER',
  'TASK_POLL',
  'TASK_ANSWER',
  'ANNOUNCE_REQUEST',
]);

/** Messages under way, and those remembered so that they are not handled again. */
const MAX_IN_FLIGHT = 64;
const MAX_REMEMBERED = 4096;

export interface ControlOptions {
  readonly link: NatsLink;
  readonly agentId: string;
  readonly handle: (message: Exclude<Incoming, Dispatched>, reply: (answer: Answer) => void) => void;
  /** Sends a reply when its request does not wait any more. */
  readonly send: (answer: Answer) => void;
  readonly restore: () => Promise<void>;
}

export class WorkerControl {
  readonly #options: ControlOptions;
  readonly #seen = new Set<string>();
  readonly #subscriptions: readonly Subscription[];
  readonly #puller: PullConsumer;

  constructor(options: ControlOptions) {
    this.#options = options;
    const { link, agentId, restore } = options;
    const agent = tokenOf(agentId);
    const callback = (error: Error | null, message: Msg): void => {
      if (error) link.log?.error('requests cannot be received', { error: error.message });
      else this.#request(message);
    };
    this.#subscriptions = [subjects.control(agent, '*'), subjects.requests(agent)].map((subject) =>
      link.connection.subscribe(subject, { callback }),
    );
    this.#puller = new PullConsumer(link, {
      stream: STREAMS.control,
      consumer: consumers.control(agent),
      capacity: () => MAX_IN_FLIGHT,
      onDelivery: (delivery) => this.#missed(delivery),
      restore,
    });
  }

  stop(): void {
    this.#puller.stop();
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
  }

  #request(message: Msg): void {
    if (!this.#isNew(message.headers)) return;
    this.#take(message.subject, message.data, (answer) => {
      if (message.reply !== undefined && message.reply !== '') this.#options.link.notify(message.reply, pack(answer));
      else this.#options.send(answer);
    });
  }

  #missed(delivery: Delivery): void {
    // Acknowledged first: a message that kills the worker must not do so again and again, and its sender asks again.
    delivery.ack();
    if (this.#isNew(delivery.headers))
      this.#take(delivery.subject, delivery.data, (answer) => this.#options.send(answer));
  }

  #take(subject: string, data: Uint8Array, reply: (answer: Answer) => void): void {
    const { link, handle } = this.#options;
    try {
      const decoded = decode(unpack(data));
      if (!decoded.valid) {
        link.log?.warn('malformed request', { subject, codes: decoded.errors.map(({ code }) => code) });
        return;
      }
      const { message } = decoded;
      const taskId = (message as { readonly task_id?: string }).task_id;
      const elsewhere = taskId !== undefined && !subject.endsWith(`.task.${tokenOf(taskId)}.control`);
      if (!HANDLED.has(message.type) || elsewhere)
        link.log?.warn('request of an unsupported type', { subject, type: message.type });
      else handle(message as Exclude<Incoming, Dispatched>, reply);
    } catch (error) {
      link.log?.warn('malformed request', { subject, error: (error as Error).message });
    }
  }

  #isNew(headers: MsgHdrs | undefined): boolean {
    const id = headers?.get('Nats-Msg-Id') ?? '';
    if (id === '') return true;
    if (this.#seen.has(id)) return false;
    evictOldest(this.#seen.add(id), MAX_REMEMBERED);
    return true;
  }
}
