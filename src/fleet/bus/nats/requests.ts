/**
 * Messages of an orchestrator about a task that runs: each is kept on the control stream, and answered by the worker itself
 * where it is there. A worker that is away finds it on the stream, and answers by way of the events.
 *
 * Used by `orchestrator-bus.ts`.
 */
import { within } from '../../../base/race.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import { decode } from '../../messages/decode.ts';
import type { Incoming } from '../../messages/decoded.ts';
import type { FleetPeer } from '../peer.ts';
import type { Msg, Subscription } from './client.ts';
import type { NatsLink } from './connection.ts';
import { pack, unpack } from './payload.ts';
import { publishError, readPublishAck } from './publish-ack.ts';

export interface RequestsOptions {
  readonly link: NatsLink;
  readonly answered: (peer: FleetPeer, message: Incoming) => void;
  readonly newId: () => string;
}

interface Waiting {
  readonly peer: FleetPeer;
  readonly taskId: string;
  readonly kept: PromiseWithResolvers<void>;
}

/** How long the stream may take to keep a request before it is sent again; how often; how long its answer is waited for. */
const KEEP_MS = 3_000;
const TRIES = 4;
const ANSWER_MS = 15_000;

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
        if (error) link.log?.error('answers cannot be received', { error: error.message });
        else this.#receive(message);
      },
    });
  }

  /** Resolves when the control stream has it; what the worker answers comes by itself. */
  async send(
    subject: string,
    message: FleetMessage & { readonly task_id: string },
    peer: FleetPeer,
    check: () => void,
    signal?: AbortSignal,
  ): Promise<void> {
    const { link, newId } = this.#options;
    const token = `${++this.#last}`;
    const waiting = { peer, taskId: message.task_id, kept: Promise.withResolvers<void>() };
    // It may fail before anybody waits for it.
    waiting.kept.promise.catch(() => {});
    this.#waiting.set(token, waiting);
    this.#after(ANSWER_MS, () => this.#waiting.delete(token));
    // Sent again, it is kept once, and handled once.
    const headers = link.headers({ 'Nats-Msg-Id': newId() });
    const data = pack(message);
    await link.until(
      async () => {
        for (let tries = 1; ; tries++) {
          check();
          link.connection.publish(subject, data, { reply: `${this.#prefix}.${token}`, headers });
          if (await this.#kept(waiting)) return;
          if (tries === TRIES) throw fail('timeout', 'the control stream did not keep the message');
        }
      },
      KEEP_MS * TRIES,
      signal,
    );
  }

  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    for (const { kept } of this.#waiting.values()) kept.reject(fail('unreachable', 'the bus has stopped'));
    this.#waiting.clear();
    this.#subscription.unsubscribe();
  }

  async #kept({ kept }: Waiting): Promise<boolean> {
    return (
      (await within(
        kept.promise.then(() => true),
        KEEP_MS,
      )) === true
    );
  }

  #receive(message: Msg): void {
    const waiting = this.#waiting.get(message.subject.slice(this.#prefix.length + 1));
    if (waiting === undefined) return;
    const { link, answered } = this.#options;
    if (message.headers?.code === 503) {
      return waiting.kept.reject(fail('unreachable', 'there is no control stream', { peer: waiting.peer.peerId }));
    }
    const said = readAcknowledgement(message);
    if (said === 'kept') return waiting.kept.resolve();
    if (said !== undefined) return waiting.kept.reject(publishError(said));
    // Heard by the worker itself: it needs no stream any more.
    waiting.kept.resolve();
    let decoded: ReturnType<typeof decode>;
    try {
      decoded = decode(unpack(message.data));
    } catch (error) {
      link.log?.warn('an unreadable answer', { peer: waiting.peer.peerId, error: (error as Error).message });
      return;
    }
    const about = decoded.valid ? (decoded.message as { readonly task_id?: string }).task_id : undefined;
    if (!decoded.valid || about !== waiting.taskId) {
      const codes = decoded.errors.map(({ code }) => code);
      link.log?.warn('an answer to something else', { peer: waiting.peer.peerId, codes });
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

/** What a stream says to a message it was sent: `kept`, or why not. Undefined: these are not its words. */
function readAcknowledgement(message: Msg): 'kept' | Error | undefined {
  // Words of a stream are short, and messages of the protocol need not be read twice for this.
  if (message.data.length > 1024) return undefined;
  try {
    readPublishAck(message);
    return 'kept';
  } catch (error) {
    return (error as Error).name === 'JetStreamApiError' ? (error as Error) : undefined;
  }
}
