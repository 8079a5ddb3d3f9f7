/**
 * What leaves over one stream link, and the watch over a peer that does not read it.
 *
 * Used by both ends, `stream-peer.ts` and `worker-connection.ts`.
 */
import { HIGH_WATER_BYTES, SlowConsumerGuard } from '../../../connection/slow-consumer.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import type { Link } from '../../../transport/link.ts';
import { fail } from '../../../wire/errors.ts';
import { MAX_OUTBOX_BYTES, SLOW_READER_LIMITS, written } from './messages.ts';

export class GuardedSender {
  readonly #link: Link;
  #slow: SlowConsumerGuard | undefined;

  constructor(link: Link) {
    this.#link = link;
  }

  /**
   * True when the peer is so far behind that nothing which can be said again later should be said now.
   */
  get behind(): boolean {
    return this.#link.buffered > HIGH_WATER_BYTES;
  }

  /**
   * Queues a message. Fails with `over_capacity` when too much waits already, and nothing of it was sent then; with
   * `invalid_message` when it cannot be written as JSON.
   */
  put(message: FleetMessage): void {
    const link = this.#link;
    if (link.buffered > MAX_OUTBOX_BYTES) {
      throw fail('over_capacity', `${link.peer} does not read`, { retry_after_ms: 1_000 });
    }
    let out: ReturnType<typeof written>;
    try {
      out = written(link, message);
    } catch (cause) {
      throw fail('invalid_message', `${message.type} cannot be written as JSON`, {}, cause);
    }
    link.send(out);
    const waiting = link.buffered;
    if (waiting <= HIGH_WATER_BYTES) return;
    this.#slow ??= new SlowConsumerGuard(link, SLOW_READER_LIMITS);
    this.#slow.onBuffered(waiting);
  }

  /** The link is gone. */
  stop(): void {
    this.#slow?.stop();
  }
}
