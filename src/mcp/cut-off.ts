/**
 * Responses over HTTP that end before their result: the official client waits for them until its time is over. Here a call fails at
 * once, and the end of a stream is reported. One that is too long fails before it is read to its end.
 */
import { isEventStream } from '../base/http/sse-reader.ts';
import { ValueCounter } from '../wire/depth.ts';

const CUT_OFF = 'the response ended before its result';

/** Returns, in place of a response whose stream ended, an error for its request, so that the caller does not wait. */
export const cutOff = (id: string | number) => ({
  jsonrpc: '2.0' as const,
  id,
  error: { code: -32_603, message: CUT_OFF, data: CUT_OFF },
});

/** Returns true for the error of a request whose response was cut off. */
export const isCutOff = (thrown: object): boolean => (thrown as { readonly data?: unknown }).data === CUT_OFF;

/** Returns true if the connection was refused, so that nothing was sent. */
export const isRefusedLink = (thrown: unknown): boolean =>
  (thrown as { readonly cause?: { readonly code?: unknown } }).cause?.code === 'ECONNREFUSED';

export interface Watching {
  /** Most bytes of the body, or of one event of a stream of events. */
  readonly maxBytes: number;
  /** Most values of JSON in it, as `wire/depth.ts` counts them. */
  readonly maxValues: number;
  /** Called when the body ended in any way. */
  readonly onEnd?: (() => void) | undefined;
  /** Called with the unit of which the body has more than its limit; the body fails. */
  readonly onTooLong: (unit: 'bytes' | 'values') => void;
}

/** Returns the response. Its body fails if one of its messages is too long, and its end is reported. */
export function watched(response: Response, { maxBytes, maxValues, onEnd, onTooLong }: Watching): Response {
  const { body, status, statusText, headers } = response;
  if (body === null) return response;
  const isStream = isEventStream(headers.get('content-type'));
  // The length of a compressed body proves nothing.
  const length = headers.has('content-encoding') ? Number.NaN : Number(headers.get('content-length') ?? Number.NaN);
  // A short body cannot have too many values.
  if (!isStream && length <= Math.min(maxBytes, maxValues) && onEnd === undefined) return response;
  const reader = body.getReader();
  const lengthOf = isStream ? lengthOfEvent() : lengthOfAll();
  let values = new ValueCounter();
  const excess = (chunk: Uint8Array): 'bytes' | 'values' | undefined => {
    const bytes = lengthOf(chunk);
    if (bytes > maxBytes) return 'bytes';
    if (values.add(chunk) > maxValues) return 'values';
    // An event has ended within the chunk.
    if (bytes < chunk.length) values = new ValueCounter();
    return undefined;
  };
  const read = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    try {
      const { done, value } = await reader.read();
      const unit = done ? undefined : excess(value);
      if (!done && unit === undefined) return controller.enqueue(value);
      if (unit === undefined) controller.close();
      else {
        onTooLong(unit);
        void reader.cancel().catch(() => {});
        controller.error(new Error(`the response has more than ${unit === 'bytes' ? maxBytes : maxValues} ${unit}`));
      }
    } catch (thrown) {
      controller.error(thrown);
    }
    onEnd?.();
  };
  return new Response(new ReadableStream({ pull: read, cancel: (reason) => reader.cancel(reason) }), {
    status,
    statusText,
    headers,
  });
}

/** Returns a counter of the bytes of all chunks so far. */
function lengthOfAll(): (chunk: Uint8Array) => number {
  let length = 0;
  return (chunk) => {
    length += chunk.length;
    return length;
  };
}

/** Returns a counter of the bytes since the last empty line, which ends an event. */
function lengthOfEvent(): (chunk: Uint8Array) => number {
  let length = 0;
  let end = '';
  return (chunk) => {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    // The empty line may lie across two chunks.
    const joined = end + bytes.toString('latin1', 0, 3);
    const isSplit = /^[\r\n]*(?:\n\n|\r\n\r\n|\r\r)/.test(joined);
    const last = Math.max(...EMPTY_LINES.map((line) => bytes.lastIndexOf(line)));
    length = last >= 0 ? bytes.length - last : isSplit ? bytes.length : length + bytes.length;
    end = /[\r\n]*$/.exec(bytes.toString('latin1', Math.max(0, bytes.length - 3)))?.[0] ?? '';
    return length;
  };
}

const EMPTY_LINES = ['\n\n', '\r\n\r\n', '\r\r'];
