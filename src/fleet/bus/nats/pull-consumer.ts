/**
 * Pulls messages from a durable consumer, never more at a time than its owner has capacity for: a full worker leaves them to
 * others of its pool, and a slow orchestrator leaves them on the server.
 *
 * For dispatches, controls and events.
 */

import { Backoff } from '../../../base/backoff.ts';
import { isLogged } from '../../../base/log.ts';
import { withTimeout } from '../../../base/race.ts';
import { sleep } from '../../../base/sleep.ts';
import type { Msg, MsgHdrs, Subscription } from './client.ts';
import type { NatsLink } from './connection.ts';
import { readingTurns } from './payload.ts';
import { NoReplyError } from './request-mux.ts';

/** Longest time a server may take to confirm an acknowledgement, milliseconds. */
const CONFIRM_MS = 2_000;

/** One delivery of a message. Exactly one of `ack`, `confirm`, `nak` and `end` settles it. */
export class Delivery {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly headers: MsgHdrs | undefined;
  /** Place in the stream. */
  readonly seq: number;
  /**
   * The message, however often it is delivered: its place and when it was stored. The place alone is not enough: when a server
   * that had the end of a stream is killed, the next one may give its places to other messages.
   */
  readonly id: string;
  /** How often it was delivered, with this time. */
  deliveries: number;
  #reply: string;
  readonly #link: NatsLink;

  constructor(link: NatsLink, { subject, data, headers, reply = '' }: Msg) {
    this.#link = link;
    this.subject = subject;
    this.data = data;
    this.headers = headers;
    this.#reply = reply;
    // $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.…, behind a domain and an account on later servers
    const parts = reply.split('.');
    const at = parts.length === 9 ? 4 : 6;
    this.deliveries = Number(parts[at]);
    this.seq = Number(parts[at + 1]);
    this.id = `${this.seq} ${parts[at + 3]}`;
  }

  /** Acknowledges the message. Not awaited: when the acknowledgement is lost, the message is redelivered. */
  ack(): void {
    this.#respond('+ACK');
  }

  /** Takes over from the same message that was redelivered: the response goes to that delivery from now on. */
  adopt(newer: Delivery): void {
    this.#reply = newer.#reply;
    this.deliveries = newer.deliveries;
  }

  /**
   * Acknowledges the message; true when the server confirms it. A server that was killed may not know this delivery any more:
   * it does not reply then, and redelivers the message.
   */
  async confirm(): Promise<boolean> {
    try {
      const confirmed = this.#link.attempt(() => this.#link.ask(this.#reply, '+ACK'));
      await withTimeout(confirmed, CONFIRM_MS, () => new NoReplyError('the acknowledgement was not confirmed', true));
      return true;
    } catch (error) {
      if (error instanceof NoReplyError) return false;
      throw error;
    }
  }

  /** Asks for redelivery after this time. */
  nak(delayMs = 0): void {
    this.#respond(delayMs > 0 ? `-NAK {"delay":${Math.round(delayMs * 1_000_000)}}` : '-NAK');
  }

  /** Reports progress: the message must not be redelivered yet. */
  working(): void {
    this.#respond('+WPI');
  }

  /** Ends redelivery of the message. */
  end(reason: string): void {
    // Servers before 2.11 do not know a reason here, and redeliver.
    this.#respond(this.#link.atLeast(2, 11) ? `+TERM ${reason}` : '+TERM');
  }

  #respond(word: string): void {
    this.#link.notify(this.#reply, Buffer.from(word));
  }
}

export interface PullOptions {
  readonly stream: string;
  readonly consumer: string;
  /** Returns the number of messages the owner can accept now, including those that were requested and have not arrived yet. */
  readonly capacity: () => number;
  /** Must not throw. */
  readonly onDelivery: (delivery: Delivery) => void;
  /** Called when the consumer seems to be removed; makes it again. */
  readonly restore: () => Promise<void>;
}

const EXPIRES_MS = 30_000;
const IDLE_HEARTBEAT_MS = 2_000;
/** After this silence a request counts as dropped by the server, or lost on the way. */
const SILENCE_MS = 2 * IDLE_HEARTBEAT_MS + 1_000;
const RESTORE_AGAIN = { firstDelayMs: 1_000, maxDelayMs: 15_000 };

/** Requests messages as capacity appears. */
export class PullConsumer {
  readonly #link: NatsLink;
  readonly #options: PullOptions;
  readonly #subject: string;
  readonly #watchdog: NodeJS.Timeout;
  readonly #stopListening: () => void;
  readonly #stopped = new AbortController();
  #inbox: Subscription | undefined;
  /** Requested, and neither delivered nor abandoned by the server. */
  #requested = 0;
  /** Delivered, and not handed to the owner yet. */
  #waiting = 0;
  #receivedAt = performance.now();
  #scheduled: NodeJS.Immediate | undefined;
  #restoring = false;
  readonly #retry = new Backoff(RESTORE_AGAIN);

  constructor(link: NatsLink, options: PullOptions) {
    this.#link = link;
    this.#options = options;
    this.#subject = `$JS.API.CONSUMER.MSG.NEXT.${options.stream}.${options.consumer}`;
    this.#stopListening = link.onChange((up) => up && this.#restart());
    this.#watchdog = setInterval(() => this.#check(), IDLE_HEARTBEAT_MS).unref();
    this.#restart();
  }

  /** Notes that the owner may have more capacity. Requests once for all changes in one turn of the event loop. */
  more(): void {
    this.#scheduled ??= setImmediate(() => {
      this.#scheduled = undefined;
      this.#request();
    });
  }

  /** Stops requesting; messages in transit are redelivered elsewhere, or later. */
  stop(): void {
    this.#stopped.abort();
    this.#stopListening();
    clearInterval(this.#watchdog);
    if (this.#scheduled !== undefined) clearImmediate(this.#scheduled);
    this.#inbox?.unsubscribe();
  }

  #request(): void {
    if (this.#stopped.signal.aborted || this.#restoring || !this.#link.up || this.#inbox === undefined) return;
    const room = this.#options.capacity() - this.#waiting;
    const missing = room - this.#requested;
    // Many small requests cost more than a little capacity that stays unused for a moment.
    if (missing <= 0 || (missing < room / 4 && this.#requested > 0)) return;
    const request = { batch: missing, expires: EXPIRES_MS * 1e6, idle_heartbeat: IDLE_HEARTBEAT_MS * 1e6 };
    if (this.#requested === 0) this.#receivedAt = performance.now();
    this.#requested += missing;
    this.#link.connection.publish(this.#subject, JSON.stringify(request), { reply: this.#inbox.getSubject() });
  }

  /** Drops open requests, with a new inbox so that the server drops them too, and requests again. */
  #restart(): void {
    if (this.#stopped.signal.aborted || this.#link.connection.isClosed()) return;
    this.#inbox?.unsubscribe();
    this.#requested = 0;
    this.#receivedAt = performance.now();
    const inbox = this.#link.connection.subscribe(this.#link.inbox(), {
      callback: (error, message) => {
        if (this.#inbox !== inbox) return;
        if (error) this.#link.log?.error('messages cannot be received', { error: error.message });
        else this.#receive(message, inbox.getSubject());
      },
    });
    this.#inbox = inbox;
    this.#request();
  }

  #receive(message: Msg, inbox: string): void {
    this.#receivedAt = performance.now();
    if (message.subject !== inbox) {
      this.#requested = Math.max(0, this.#requested - 1);
      return void this.#deliver(new Delivery(this.#link, message));
    }
    const code = message.headers?.code ?? 0;
    if (code === 100) return;
    const left = Number(message.headers?.get('Nats-Pending-Messages') ?? 0);
    this.#requested = Math.max(0, this.#requested - left);
    if (code === 408 || code === 404) return this.more();
    // No such consumer, a leader that changed, a server that stops: check, and start again.
    void this.#restore(message.headers?.description || `${code}`);
  }

  /** Delivers in the order of arrival. Never rejects. */
  async #deliver(delivery: Delivery): Promise<void> {
    this.#waiting += 1;
    while (readingTurns.over) await readingTurns.next();
    this.#waiting -= 1;
    if (this.#stopped.signal.aborted) return delivery.nak();
    this.#options.onDelivery(delivery);
    this.more();
  }

  #check(): void {
    if (!this.#link.up) return;
    if (this.#requested > 0 && performance.now() - this.#receivedAt > SILENCE_MS) this.#restart();
    // Capacity may have appeared without a notice.
    else this.#request();
  }

  async #restore(reason: string): Promise<void> {
    if (this.#restoring) return;
    this.#restoring = true;
    const { signal } = this.#stopped;
    try {
      this.#link.log?.debug('consumer is restored', { consumer: this.#options.consumer, reason });
      await sleep(this.#retry.next(), signal);
      if (!signal.aborted) await this.#options.restore();
      this.#retry.opened();
    } catch (error) {
      if (isLogged(this.#retry.failures)) {
        this.#link.log?.warn('a consumer could not be restored', {
          consumer: this.#options.consumer,
          error: (error as Error).message,
        });
      }
    } finally {
      this.#restoring = false;
      this.#restart();
    }
  }
}
