/**
 * How far a write has come. Node counts the bytes of a write until the last of them is gone, so a long message to a slow
 * reader would look as if nothing moved; the handle below the stream knows better.
 *
 * Used by the links over sockets and pipes to tell slow readers from those that stand still.
 */
import type { Writable } from 'node:stream';

/** What Node keeps behind a socket or pipe. `writeQueueSize` is what its own time limit for idle sockets goes by. */
interface WithHandle {
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/**
 * A number that falls whenever the system takes something of what was written to `stream`, and rises only when more is
 * written. Where nothing is known of the write under way, it falls at its end.
 */
export function unsentBytes(stream: Writable): number {
  const { _handle: handle } = stream as WithHandle;
  return stream.writableLength + (handle?.writeQueueSize ?? 0);
}
