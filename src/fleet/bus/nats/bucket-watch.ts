/**
 * Reports every entry of a bucket and every change, again from the start whenever something may have been missed: the connection
 * is restored, the server that reports falls silent, or a report is missing.
 *
 * The client's own watch notices a silent server after 60 to 90 s only, which is longer than a lease or a profile holds.
 */
import { Backoff } from '../../../base/backoff.ts';
import { isLogged } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import type { ConsumerMessages, JetStreamManager, JsMsg } from './client.ts';
import type { NatsLink } from './connection.ts';
import { readingTurns } from './payload.ts';
import { NoReplyError } from './request-mux.ts';

export interface BucketWatchOptions {
  readonly link: NatsLink;
  readonly bucket: string;
  /** Of the keys; `*` stands for one token. */
  readonly subject: string;
  /** Must not throw. */
  readonly report: (message: JsMsg, update: boolean) => void;
}

/** How long a watch may pause between the entries that exist, before it counts as started. */
const FIRST_ENTRIES_MS = 2_000;
/** Two of these without a message from the server, and the watch begins again. */
const IDLE_HEARTBEAT_MS = 2_000;
/** The server removes what reports to a watch that has gone. */
const INACTIVE_MS = 60_000;
const AGAIN = { firstDelayMs: 1_000, maxDelayMs: 15_000 };

const nanos = (ms: number): number => ms * 1_000_000;

/** The reports of one round. */
interface Opened {
  readonly messages: ConsumerMessages;
  /** Entries that existed when it was opened. */
  readonly pending: number;
}

export class BucketWatch {
  readonly #options: BucketWatchOptions;
  readonly #retry = new Backoff(AGAIN);
  #stopListening: (() => void) | undefined;
  #messages: ConsumerMessages | undefined;
  /** Each beginning is another one; only the latest reports. */
  #round = 0;
  #stopped = false;

  private constructor(options: BucketWatchOptions) {
    this.#options = options;
  }

  /** Resolves when the existing entries have been reported. Fails as `NatsLink.until`. */
  static async start(options: BucketWatchOptions): Promise<BucketWatch> {
    const watch = new BucketWatch(options);
    try {
      await watch.#begin();
    } catch (error) {
      watch.stop();
      throw error;
    }
    watch.#stopListening = options.link.onChange((up) => up && void watch.#again());
    return watch;
  }

  stop(): void {
    this.#stopped = true;
    this.#stopListening?.();
    this.#messages?.stop();
  }

  #isOver(round: number): boolean {
    return this.#stopped || round !== this.#round;
  }

  async #begin(): Promise<void> {
    const round = ++this.#round;
    const { link, bucket, subject } = this.#options;
    const manager = await link.manager();
    const { state } = await link.until(() => manager.streams.info(`KV_${bucket}`, { subjects_filter: subject }));
    const opened = await this.#open(manager);
    if (this.#isOver(round)) return opened.messages.stop();
    this.#messages?.stop();
    this.#messages = opened.messages;
    this.#retry.opened();
    // Keys to report, unless they are removed in this moment.
    const existing = Object.keys(state.subjects ?? {}).length;
    const { promise, resolve } = Promise.withResolvers<void>();
    const quiet = setTimeout(resolve, existing === 0 ? 0 : FIRST_ENTRIES_MS);
    const reported = new Set<string>();
    void this.#read(round, opened, (subject) => {
      if (reported.size >= existing) return;
      // The server that reports may be a moment behind the one that counted.
      if (reported.add(subject).size >= existing) resolve();
      else quiet.refresh();
    }).finally(resolve);
    await promise;
    clearTimeout(quiet);
  }

  /** Stops each watch that it opened, also when the connection broke meanwhile and another try followed. */
  async #open(manager: JetStreamManager): Promise<Opened> {
    const { link, bucket, subject } = this.#options;
    const { AckPolicy, DeliverPolicy } = link.packages.jetstream;
    let messages: ConsumerMessages | undefined;
    let tries = 0;
    try {
      return await link.until(async () => {
        const mine = ++tries;
        const shared = { deliver_subject: link.inbox(), idle_heartbeat: nanos(IDLE_HEARTBEAT_MS) };
        const consumer = await link.js.consumers.getBoundPushConsumer(shared);
        // On a closed connection the client would start its timer for heartbeats, fail, and never clear it.
        if (mine !== tries || link.connection.isClosed()) throw new NoReplyError('the connection is down', false);
        const opening = consumer.consume();
        messages?.stop();
        messages = await opening;
        const { num_pending } = await manager.consumers.add(`KV_${bucket}`, {
          ...shared,
          filter_subject: subject,
          deliver_policy: DeliverPolicy.LastPerSubject,
          ack_policy: AckPolicy.None,
          max_deliver: 1,
          flow_control: true,
          inactive_threshold: nanos(INACTIVE_MS),
          num_replicas: 1,
          mem_storage: true,
        });
        return { messages, pending: num_pending };
      });
    } catch (error) {
      tries = -1;
      messages?.stop();
      throw error;
    }
  }

  /** Reports until something is missing or the round is over. Never rejects. */
  async #read(round: number, { messages, pending }: Opened, reported: (subject: string) => void): Promise<void> {
    const { link, bucket, report } = this.#options;
    let why = 'it ended';
    void (async () => {
      for await (const { type } of messages.status()) {
        if (type !== 'heartbeats_missed' && type !== 'consumer_deleted') continue;
        why = type;
        messages.stop();
      }
    })();
    let received = 0;
    try {
      for await (const message of messages) {
        while (readingTurns.over) await readingTurns.next();
        if (this.#isOver(round)) break;
        if (message.info.deliverySequence !== ++received) {
          why = 'a report is missing';
          break;
        }
        report(message, received > pending);
        reported(message.subject);
      }
    } catch (error) {
      why = (error as Error).message;
    }
    if (this.#isOver(round) || !link.up) return;
    const delayMs = this.#retry.next();
    if (isLogged(this.#retry.failures)) link.log?.info('the watch of a bucket begins again', { bucket, why });
    await sleep(delayMs, link.closing);
    if (!this.#isOver(round)) void this.#again();
  }

  /** Until it has begun. While the connection is down the next change of that begins it. */
  async #again(): Promise<void> {
    const { link, bucket } = this.#options;
    while (!this.#stopped && link.up && !link.closing.aborted) {
      const round = this.#round + 1;
      try {
        return await this.#begin();
      } catch (error) {
        // The connection was restored meanwhile, and that has begun another round.
        if (this.#isOver(round)) return;
        const delayMs = this.#retry.next();
        if (isLogged(this.#retry.failures)) {
          link.log?.warn('bucket cannot be watched', { bucket, error: (error as Error).message });
        }
        await sleep(delayMs, link.closing);
      }
    }
  }
}
