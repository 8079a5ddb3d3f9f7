/**
 * A stream of events as the response to a request: server-sent events with keep-alives, ended when the reader disconnects or does
 * not read.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { orAborted } from '../../../base/race.ts';

/** Proxies and clients take silence for a dead connection. */
const KEEP_ALIVE_MS = 15_000;
/** Longest time a reader may take to make room, milliseconds. */
const DRAIN_MS = 30_000;

export interface SseOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** Returns an event as it is written. */
  format(event: unknown): string;
  /** Returns the text that is written when the events end with a failure. */
  failed(error: unknown): string;
}

/**
 * Writes `first` and everything that follows. Resolves when the stream is over, whichever side ended it; never rejects. The
 * events are asked for no further then.
 */
export async function streamEvents(
  response: ServerResponse,
  first: unknown,
  events: AsyncGenerator<unknown, void, undefined>,
  { headers, format, failed }: SseOptions,
): Promise<void> {
  const disconnected = new AbortController();
  response.once('close', () => disconnected.abort());
  response.writeHead(200, { ...headers, 'X-Content-Type-Options': 'nosniff' });
  const beat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': still here\n\n');
  }, KEEP_ALIVE_MS).unref();
  try {
    await write(response, format(first), disconnected.signal);
    while (!disconnected.signal.aborted) {
      const next = await orAborted(events.next(), disconnected.signal);
      if (next.done) break;
      await write(response, format(next.value), disconnected.signal);
    }
  } catch (error) {
    if (!disconnected.signal.aborted) response.write(failed(error));
  } finally {
    clearInterval(beat);
    response.end();
    // Waits for an event that may never come where one was asked for already; the reader does not wait for that.
    void events.return().catch(() => {});
  }
}

async function write(response: ServerResponse, text: string, disconnected: AbortSignal): Promise<void> {
  if (disconnected.aborted || response.write(text)) return;
  const patience = AbortSignal.any([disconnected, AbortSignal.timeout(DRAIN_MS)]);
  try {
    await once(response, 'drain', { signal: patience });
  } catch {
    response.destroy();
  }
}
