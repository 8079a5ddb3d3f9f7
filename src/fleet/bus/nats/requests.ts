/**
 * Requests of an orchestrator about a running task: each is stored on the control stream, and the worker replies itself while
 * it is connected. A worker that is not connected finds it on the stream, and replies with an event.
 */
import { within } from '../../../base/race.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import { decode } from '../../messages/decode.ts';
import type { Incoming } from '../../messages/decoded.ts';
import type { FleetPeer } from '../peer.ts';
import type { Msg, Subscription } from './client.ts';
import type { NatsLink } from './connection.ts';
import { pack, readingTurns, unpack } from './payload.ts';
import { isPassing, publishError, readPublishAck } from './publish-ack.ts';

export interface RequestsOptions {
  readonly link: NatsLink;
  readonly answered: (peer: FleetPeer, message: Incoming) => void;
  readonly newId: () => string;
}

interface Waiting {
  readonly peer: FleetPeer;
  readonly taskId: string;
  readonly stored: PromiseWithResolvers<void>;
}

/** Wait for the stream before a request is sent again; number of tries; wait for the reply. */
const STORE_TIMEOUT_MS = 3_000;
const TRIES = 4;
const REPLY_TIMEOUT_MS = 15_000;

export class ControlRequests {
  readonly #options: RequestsOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #prefix: string;
  readonly #subscription: Subscription;
  #last = 0;

  constructor(options: RequestsOptions) {
    this.#options = options;
    const { link } = options;
    this.#prefix = link.inbox();
    this.#subscription = link.connection.subscribe(`${this.#prefix}.*`, {
      callback: (error, message) => {
        if (error) link.log?.error('replies cannot be received', { error: error.message });
        else void this.#receive(message);
      },
    });
  }

  /** Resolves when the control stream has stored it; the worker's reply comes by itself. */
  async send(
    subject: string,
    message: FleetMessage & { readonly task_id: string },
    peer: FleetPeer,
    check: () => void,
    signal?: AbortSignal,
  ): Promise<void> {
    const { link, newId } = this.#options;
    const token = `${++this.#last}`;
    const waiting = { peer, taskId: message.task_id, stored: Promise.withResolvers<void>() };
    // It may fail before the wait starts.
    waiting.stored.promise.catch(() => {});
    this.#waiting.set(token, waiting);
    this.#after(REPLY_TIMEOUT_MS, () => this.#waiting.delete(token));
    // Sent again, it is stored once, and handled once.
    const headers = link.headers({ 'Nats-Msg-Id': newId() });
    const data = pack(message);
    await link.until(
      async () => {
        for (let tries = 1; ; tries++) {
          check();
          link.connection.publish(subject, data, { reply: `${this.#prefix}.${token}`, headers });
          if (await this.#stored(waiting)) return;
          if (tries === TRIES) throw fail('timeout', 'the control stream did not store the message');
        }
      },
      STORE_TIMEOUT_MS * TRIES,
      signal,
    );
  }

  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    for (const { stored } of this.#waiting.values()) stored.reject(fail('unreachable', 'the bus has stopped'));
    this.#waiting.clear();
    this.#subscription.unsubscribe();
  }

  async #stored({ stored }: Waiting): Promise<boolean> {
    return (
      (await within(
        stored.promise.then(() => true),
        STORE_TIMEOUT_MS,
      )) === true
    );
  }

  async #receive(message: Msg): Promise<void> {
    const waiting = this.#waiting.get(message.subject.slice(this.#prefix.length + 1));
    if (waiting === undefined) return;
    const { link, answered } = this.#options;
    if (message.headers?.code === 503) {
      return waiting.stored.reject(fail('unreachable', 'there is no control stream', { peer: waiting.peer.peerId }));
    }
    const acknowledged = readAcknowledgement(message);
    if (acknowledged === 'stored') return waiting.stored.resolve();
    // A passing refusal: the next try asks again.
    if (isPassing(acknowledged)) return;
    if (acknowledged !== undefined) return waiting.stored.reject(publishError(acknowledged));
    // The worker itself has received it: the stream is not needed any more.
    waiting.stored.resolve();
    while (readingTurns.over) await readingTurns.next();
    let decoded: ReturnType<typeof decode>;
    try {
      decoded = decode(unpack(message.data));
    } catch (error) {
      link.log?.warn('malformed reply', { peer: waiting.peer.peerId, error: (error as Error).message });
      return;
    }
    const about = decoded.valid ? (decoded.message as { readonly task_id?: string }).task_id : undefined;
    if (!decoded.valid || about !== waiting.taskId) {
      const codes = decoded.errors.map(({ code }) => code);
      link.log?.warn('reply to another request', { peer: waiting.peer.peerId, codes });
    } else answered(waiting.peer, decoded.message);
  }

  #after(ms: number, work: () => void): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, ms).unref();
    this.#timers.add(timer);
    return timer;
  }
}

/** Reads the acknowledgement of a stream: `stored`, or its error. Undefined: this is not from a stream. */
function readAcknowledgement(message: Msg): 'stored' | Error | undefined {
  // Acknowledgements are short, so that messages of the protocol are not read twice.
  if (message.data.length > 1024) return undefined;
  try {
    readPublishAck(message);
    return 'stored';
  } catch (error) {
    return (error as Error).name === 'JetStreamApiError' ? (error as Error) : undefined;
  }
}
