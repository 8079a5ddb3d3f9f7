/**
 * The progress of a write. Node counts all bytes of a write until the last one is written, so a long message to a slow
 * reader would look stalled; the handle below the stream has the exact number.
 *
 * Links over sockets and pipes distinguish slow readers from those that read nothing by it.
 */
import type { Writable } from 'node:stream';

/** Node's handle behind a socket or pipe. Node's own idle timeout of sockets uses `writeQueueSize` too. */
interface WithHandle {
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/**
 * Returns a number that falls whenever the system accepts bytes written to `stream`, and rises only when more is
 * written. Without a handle it falls only at the end of a write.
 */
export function unsentBytes(stream: Writable): number {
  const { _handle: handle } = stream as WithHandle;
  return stream.writableLength + (handle?.writeQueueSize ?? 0);
}
