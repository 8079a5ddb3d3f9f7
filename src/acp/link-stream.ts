/**
 * A link as the message stream the SDK of the Agent Client Protocol works on, so that framing, limits and the life of a
 * child process stay where they are for every other protocol.
 *
 * Called by `agent-process.ts` and by the bridge.
 */
import type { CloseInfo, Link, Message } from '../transport/link.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { Stream } from './sdk.ts';

export interface LinkStream {
  readonly stream: Stream;
  /** Resolves when the link is gone. Never rejects. */
  readonly closed: Promise<CloseInfo>;
}

/** What is on both sides of a stream; the SDK's own type of a message. */
type Sent = Stream['writable'] extends WritableStream<infer M> ? M : never;

export interface LinkStreamOptions {
  /** Told of each line that is no message. */
  readonly skipped?: (line: string) => void;
  /**
   * Sees each message first, in order, before the SDK does; true = it was meant for nobody else. So that what is to be read
   * more tolerantly than the SDK reads it never gets there.
   */
  readonly take?: (message: Message) => boolean;
}

/**
 * Opens the link. A message over the link's limit ends it: the answer to a request may have been in it, and nobody would
 * ever know. Lines that are no JSON objects are skipped; agents print the odd line before they speak.
 */
export function linkStream(link: Link, { skipped, take }: LinkStreamOptions = {}): LinkStream {
  const closed = Promise.withResolvers<CloseInfo>();
  let over = false;
  const readable = new ReadableStream<Sent>({
    start(controller) {
      const end = (finish: () => void): void => {
        if (!over) finish();
        over = true;
      };
      link.open({
        message(message) {
          const read = typeof message === 'string' ? objectIn(message) : message;
          if (read === undefined) skipped?.(String(message));
          else if (!over && take?.(read) !== true) controller.enqueue(read as unknown as Sent);
        },
        malformed({ reason, limit }) {
          const what = reason === 'too_large' ? `a message over ${limit} bytes` : 'bytes that are no UTF-8';
          end(() => controller.error(fail('too_large', `the peer sent ${what}`)));
          link.destroy(`the peer sent ${what}`);
        },
        ended() {
          end(() => controller.close());
          // Both sides only ask and answer: with nobody to ask, and nobody to answer, it is over.
          void link.close('the peer closed its side');
        },
        closed(cause) {
          end(() => controller.close());
          closed.resolve(cause);
        },
      });
    },
    cancel() {
      over = true;
      void link.close();
    },
  });
  const writable = new WritableStream<Sent>({
    write(message) {
      link.send(link.text ? JSON.stringify(message) : (message as unknown as Message));
      return link.drained();
    },
    close: () => link.close(),
    abort: () => link.destroy(),
  });
  return { stream: { readable, writable }, closed: closed.promise };
}

function objectIn(text: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
