/**
 * A link as the message stream the SDK of the Agent Client Protocol works on, so that framing, limits and child
 * processes work as for every other protocol.
 */
import type { CloseInfo, Link, Message } from '../transport/link.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { Stream } from './sdk.ts';

export interface LinkStream {
  readonly stream: Stream;
  /** Resolves when the link has closed. Never rejects. */
  readonly closed: Promise<CloseInfo>;
}

/** A message of either direction of a stream, in the SDK's type. */
type Sent = Stream['writable'] extends WritableStream<infer M> ? M : never;

export interface LinkStreamOptions {
  /** Receives each invalid line. */
  readonly skipped?: (line: string) => void;
  /**
   * Receives each message before the SDK, in order; true = the SDK does not get it. For messages that are to be read more
   * tolerantly than the SDK does.
   */
  readonly take?: (message: Message) => boolean;
}

/**
 * Opens the link. A message over the link's limit ends it: it may have been the reply to a request, which would then wait for
 * ever. Lines that are not JSON objects are skipped: some agents print a line before their first message.
 */
export function linkStream(link: Link, { skipped, take }: LinkStreamOptions = {}): LinkStream {
  const closed = Promise.withResolvers<CloseInfo>();
  let ended = false;
  const readable = new ReadableStream<Sent>({
    start(controller) {
      const end = (finish: () => void): void => {
        if (!ended) finish();
        ended = true;
      };
      link.open({
        message(message) {
          const read = typeof message === 'string' ? objectIn(message) : message;
          if (read === undefined) skipped?.(String(message));
          else if (!ended && take?.(read) !== true) controller.enqueue(read as unknown as Sent);
        },
        malformed({ reason, limit }) {
          const what = reason === 'too_large' ? `a message over ${limit} bytes` : 'bytes that are not UTF-8';
          end(() => controller.error(fail('too_large', `the peer sent ${what}`)));
          link.destroy(`the peer sent ${what}`);
        },
        ended() {
          end(() => controller.close());
          // The peer sends no more requests and gets no more replies, so the stream ends.
          void link.close('the peer closed its side');
        },
        closed(cause) {
          end(() => controller.close());
          closed.resolve(cause);
        },
      });
    },
    cancel() {
      ended = true;
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
