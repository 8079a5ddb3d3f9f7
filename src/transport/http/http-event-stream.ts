/**
 * The receiving half of an HTTP client link: holds `GET /stream` open, reconnects with `Last-Event-ID` when it breaks, and
 * reports its final end.
 *
 * A reconnect is tried at once, then with doubling delay, for a bounded time in all.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { backoffMs } from '../../base/backoff.ts';
import { type EventSink, isEventStream, SseReader } from '../../base/http/sse-reader.ts';
import type { CloseInfo, Malformed } from '../link.ts';
import { type HttpHeaders, type HttpTarget, isRefused } from './http-request.ts';

export interface EventStreamOptions {
  readonly target: HttpTarget;
  readonly headers: HttpHeaders;
  /** True when the server accepts a `Last-Event-ID` on the first request of a reader. */
  readonly resumes: boolean;
  /** Timeout of the response head. */
  readonly answerTimeoutMs: number;
  /** Total time for reconnecting. */
  readonly reconnectMs: number;
  readonly maxMessageBytes: number;
  /** Returns monotonic milliseconds. */
  readonly now: () => number;
  /** Returns 0 ≤ x < 1, to spread reconnects. */
  readonly random: () => number;
}

export interface StreamSink {
  /** Called when a stream started, and again after each reconnect. */
  started(): void;
  message(text: string): void;
  malformed(problem: Malformed): void;
  /** Called at most once, last, when the stream has ended. `mayRemain`: the host may still have the session. */
  finished(cause: CloseInfo, mayRemain: boolean): void;
}

/** Until the server wishes otherwise. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5_000;

export class EventStream implements EventSink {
  readonly #options: EventStreamOptions;
  readonly #sink: StreamSink;
  #maxMessageBytes: number;
  #paused = true;
  #stopped = false;
  #lastId: string;
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  #reader: SseReader | undefined;
  #firstDelayMs = FIRST_DELAY_MS;
  /** Attempts since the last event. */
  #attempts = 0;
  /** Pieces of event streams received, comments included. */
  chunks = 0;
  #lostAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Reads nothing before the first `pause(false)`. */
  constructor(options: EventStreamOptions, sink: StreamSink) {
    this.#options = options;
    this.#sink = sink;
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#lastId = options.resumes ? '0' : '';
    this.#connect();
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    if (paused) this.#response?.pause();
    else this.#response?.resume();
  }

  setMaxMessageBytes(bytes: number): void {
    this.#maxMessageBytes = bytes;
    this.#reader?.setMaxBytes(bytes);
  }

  /** Ends the stream; the sink receives no further calls. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#request?.destroy();
  }

  // ── Input from the reader ──

  event(type: string, data: string, id: string): void {
    if (this.#stopped) return;
    this.#seen(id);
    if (type === '' || type === 'message') this.#sink.message(data);
    else if (type === 'gap') this.#abandon(gapReason(data));
    else if (type === 'end') this.#finish(endCause(data), false);
  }

  malformed(problem: Malformed, id: string): void {
    if (this.#stopped) return;
    this.#seen(id);
    this.#sink.malformed(problem);
  }

  retry(delayMs: number): void {
    this.#firstDelayMs = Math.min(MAX_DELAY_MS, Math.max(1, delayMs));
  }

  #seen(id: string): void {
    if (id !== '') this.#lastId = id;
    this.#attempts = 0;
  }

  // ── The connection ──

  #connect(): void {
    const { target, headers, answerTimeoutMs } = this.#options;
    const own: Record<string, string> = { ...headers, Accept: 'text/event-stream', 'Cache-Control': 'no-cache' };
    if (this.#lastId !== '') own['Last-Event-ID'] = this.#lastId;
    const request = target.start('GET', '/stream', own);
    this.#request = request;
    this.#timer = setTimeout(() => request.destroy(new Error('the event stream did not start')), answerTimeoutMs);
    request.on('error', (error) => {
      // No process listens there any more, so the session is lost too; the owner reconnects at once.
      if (isRefused(error) && this.#request === request)
        this.#abandon(`the host refuses connections: ${error.message}`);
      else this.#lost(request, error.message);
    });
    request.on('response', (response) => {
      clearTimeout(this.#timer);
      if (this.#request === request && !this.#stopped) this.#answered(request, response);
      else response.destroy();
    });
    request.end();
  }

  #answered(request: ClientRequest, response: IncomingMessage): void {
    const status = response.statusCode ?? 0;
    response.on('error', (error) => this.#lost(request, error.message));
    if (status !== 200) {
      response.resume();
      if (status === 404 || status === 410) {
        this.#finish({ clean: false, reason: 'the host no longer knows this session' }, false);
      } else if (status === 408 || status === 429 || status >= 500) this.#lost(request, `the host answers ${status}`);
      else this.#abandon(`the host answered ${status} to the event stream`);
      return;
    }
    if (!isEventStream(response.headers['content-type'])) {
      this.#abandon('the host did not send an event stream');
      return;
    }
    this.#lostAt = undefined;
    this.#response = response;
    const reader = new SseReader(this, this.#maxMessageBytes);
    this.#reader = reader;
    response.on('data', (chunk: Buffer) => {
      this.chunks += 1;
      if (!this.#stopped) reader.push(chunk);
    });
    response.on('end', () => this.#lost(request, 'the event stream ended'));
    if (this.#paused) response.pause();
    this.#sink.started();
  }

  /** Handles the end of one attempt, or of a stream that ran. */
  #lost(request: ClientRequest, reason: string): void {
    if (this.#stopped || this.#request !== request) return;
    clearTimeout(this.#timer);
    this.#request = undefined;
    this.#response = undefined;
    this.#reader = undefined;
    const { now, random, reconnectMs } = this.#options;
    this.#lostAt ??= now();
    const leftMs = this.#lostAt + reconnectMs - now();
    if (leftMs <= 0) {
      this.#abandon(`the event stream was lost: ${reason}`);
      return;
    }
    const delays = { firstDelayMs: this.#firstDelayMs, maxDelayMs: MAX_DELAY_MS, random };
    const delayMs = this.#attempts === 0 ? 0 : backoffMs(this.#attempts - 1, delays);
    this.#attempts += 1;
    this.#timer = setTimeout(() => this.#connect(), Math.min(delayMs, leftMs));
  }

  #abandon(reason: string): void {
    this.#finish({ clean: false, reason }, true);
  }

  #finish(cause: CloseInfo, mayRemain: boolean): void {
    if (this.#stopped) return;
    this.stop();
    this.#sink.finished(cause, mayRemain);
  }
}

/** Returns the reason in the event of Handfast's server for messages it can no longer send. */
function gapReason(data: string): string {
  const { from, to } = fieldsOf(data);
  return Number.isInteger(from) && Number.isInteger(to)
    ? `messages ${from} to ${to} of this link are lost`
    : 'messages of this link are lost';
}

/** Returns the reason in the event of Handfast's server that ends the link. */
function endCause(data: string): CloseInfo {
  const { clean, reason } = fieldsOf(data);
  return { clean: clean === true, reason: typeof reason === 'string' ? reason : 'the host ended the link' };
}

function fieldsOf(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
