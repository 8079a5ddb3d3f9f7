/**
 * The client side of the HTTP + SSE binding: `connectHttp(url)` makes a {@link Link} out of `POST /session`, an event
 * stream that reconnects, and an ordered queue of `POST /send`.
 *
 * The address is an `http:` or `https:` one. Works with any host of the binding; with Handfast's server it also packs
 * the messages of a turn into one POST, repeats a POST whose response was lost, and resumes the stream without a gap.
 *
 * @see docs/protocol/a2e.md#http-and-sse
 */
import { type ErrorName, fail } from '../../wire/errors.ts';
import {
  type CloseInfo,
  DEFAULT_MAX_MESSAGE_BYTES,
  type Link,
  type LinkLimits,
  type LinkReceiver,
  type Malformed,
  type Message,
} from '../link.ts';
import { refusalText } from '../refusal-text.ts';
import { wireText } from './http-body.ts';
import { EventStream } from './http-event-stream.ts';
import { PostQueue } from './http-post-queue.ts';
import { exchange, type HttpHeaders, type HttpTarget, httpTarget } from './http-request.ts';
import type { HttpResponse } from './http-response.ts';

export interface ConnectHttpOptions extends Partial<LinkLimits> {
  /** Longest wait for one answer while connecting, and for the head of each event stream. Default 10 s. */
  readonly timeoutMs?: number;
  /** Cancels connecting. No effect once the link is open. */
  readonly signal?: AbortSignal;
  /** Sent with every request. */
  readonly headers?: HttpHeaders;
  /**
   * Time for which a lost stream, or a POST that fails, is tried again before the link is closed. Default 15 s. A host
   * that refuses connections is not tried again: it has lost its sessions too.
   */
  readonly reconnectMs?: number;
  /** Timeout of the response to a POST: above the time a host delays it as backpressure. Default 30 s. */
  readonly sendTimeoutMs?: number;
  /** Returns monotonic milliseconds. */
  readonly now?: () => number;
  readonly random?: () => number;
}

/**
 * Opens a link to the host at `url`. Fails with `unreachable` (also when the response times out), `cancelled`,
 * `auth_failed` (401), `unauthorized` (403), `over_capacity` (429, 503) or `usage` (another kind of address).
 */
export async function connectHttp(url: string, options: ConnectHttpOptions = {}): Promise<Link> {
  const { timeoutMs = 10_000, signal } = options;
  const target = await httpTarget(url, options.headers);
  let session: HttpClientSession;
  try {
    session = sessionOf(target, await exchange(target, 'POST', '/session', { timeoutMs, signal }));
  } catch (error) {
    target.close();
    throw error;
  }
  const link = new HttpClientLink(target, session, options);
  // Other hosts may send the head of the stream together with the first event, which they send only after this side's
  // first message.
  if (session.extended) await streamStarted(link, timeoutMs, signal);
  return link;
}

/** Waits until messages of the host have a stream. Fails with `cancelled` or `unreachable`. */
async function streamStarted(link: HttpClientLink, timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
  const timer = setTimeout(() => link.destroy(`no event stream in ${timeoutMs} ms`), timeoutMs);
  const abort = (): void => link.destroy('cancelled');
  signal?.addEventListener('abort', abort);
  if (signal?.aborted) abort();
  await link.ready;
  clearTimeout(timer);
  signal?.removeEventListener('abort', abort);
  const reason = link.lostBecause;
  if (reason === undefined) return;
  if (signal?.aborted) throw fail('cancelled', `connecting to ${link.peer} was cancelled`);
  throw fail('unreachable', `${link.peer}: ${reason}`, { address: link.peer });
}

interface HttpClientSession {
  readonly id: string;
  /** Several messages a POST, numbered bodies, and readers that resume: announced by `"lines": true`. */
  readonly extended: boolean;
}

/** Ids are sent in a header, so only characters that are valid there are accepted. */
const SESSION_ID = /^[\x21-\x7e]{1,256}$/;

/** Statuses that identify a host and its reason; any other means that no host serves this URL. */
const REFUSALS: Readonly<Record<number, ErrorName>> = {
  401: 'auth_failed',
  403: 'unauthorized',
  429: 'over_capacity',
  503: 'over_capacity',
};

function sessionOf(target: HttpTarget, { status, body }: HttpResponse): HttpClientSession {
  const detail = { address: target.origin, status };
  const refusal = REFUSALS[status];
  if (refusal !== undefined) throw fail(refusal, `${target.origin} ${refusalText(status, body.toString())}`, detail);
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    value = undefined;
  }
  const { session_id: id, lines } = (value ?? {}) as Record<string, unknown>;
  if (status < 200 || status > 299 || typeof id !== 'string' || !SESSION_ID.test(id)) {
    throw fail('unreachable', `${target.origin} does not serve A2E over HTTP`, detail);
  }
  return { id, extended: lines === true };
}

class HttpClientLink implements Link {
  readonly transport = 'http';
  readonly text = true;
  readonly peer: string;
  readonly #target: HttpTarget;
  readonly #headers: HttpHeaders;
  readonly #posts: PostQueue;
  readonly #stream: EventStream;
  #receiver: LinkReceiver | undefined;
  #paused = false;
  #closing: Promise<void> | undefined;
  #cause: CloseInfo | undefined;
  readonly #ended = Promise.withResolvers<void>();
  readonly #ready = Promise.withResolvers<void>();

  constructor(target: HttpTarget, session: HttpClientSession, options: ConnectHttpOptions) {
    const { timeoutMs = 10_000, reconnectMs = 15_000, sendTimeoutMs = 30_000 } = options;
    const { now = () => performance.now(), random = Math.random } = options;
    const headers = { 'X-Session-Id': session.id };
    this.peer = target.origin;
    this.#target = target;
    this.#headers = headers;
    this.#posts = new PostQueue({
      target,
      headers,
      packs: session.extended,
      answerTimeoutMs: sendTimeoutMs,
      retryTotalMs: reconnectMs,
      now,
      random,
      failed: (reason) => this.destroy(reason),
    });
    this.#stream = new EventStream(
      {
        target,
        headers,
        resumes: session.extended,
        answerTimeoutMs: timeoutMs,
        reconnectMs,
        maxMessageBytes: options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES,
        now,
        random,
      },
      {
        started: () => this.#ready.resolve(),
        message: (text: string) => this.#receiver?.message(text),
        malformed: (problem: Malformed) => this.#receiver?.malformed(problem),
        finished: (cause: CloseInfo, mayRemain: boolean) =>
          mayRemain ? this.destroy(cause.reason) : this.#finish(cause),
      },
    );
  }

  /** Resolves when the event stream started for the first time, or the link has ended. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** The reason why the link has ended; undefined while it is open. */
  get lostBecause(): string | undefined {
    return this.#cause?.reason;
  }

  open(receiver: LinkReceiver): void {
    const first = this.#receiver === undefined;
    this.#receiver = receiver;
    if (!first) return;
    if (this.#cause !== undefined) this.#notifyClosed(this.#cause);
    else this.#stream.pause(this.#paused);
  }

  send(message: string | Message): void {
    if (this.#closing !== undefined || this.#cause !== undefined) return;
    this.#posts.push(wireText(typeof message === 'string' ? message : JSON.stringify(message)));
  }

  get buffered(): number {
    return this.#posts.buffered;
  }

  get progress(): number {
    return this.#posts.progress;
  }

  get isClosed(): boolean {
    return this.#cause !== undefined;
  }

  get received(): number | undefined {
    return this.#paused || this.#receiver === undefined ? undefined : this.#stream.chunks;
  }

  drained(lowWaterBytes = 0): Promise<void> {
    return this.#posts.drained(lowWaterBytes);
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    if (this.#receiver !== undefined) this.#stream.pause(paused);
  }

  setMaxMessageBytes(bytes: number): void {
    this.#stream.setMaxMessageBytes(bytes);
  }

  close(reason = 'closed', graceMs = 2_000): Promise<void> {
    this.#closing ??= this.#cause === undefined ? this.#endSession(reason, graceMs) : this.#ended.promise;
    return this.#closing;
  }

  destroy(reason = 'destroyed'): void {
    if (this.#cause !== undefined) return;
    this.#finish({ clean: false, reason });
    // Best effort, so that the host need not wait for a stream that will not be opened again.
    const request = this.#target.start(
      'DELETE',
      '/session',
      { ...this.#headers, 'X-Session-End': 'abrupt' },
      { timeoutMs: 2_000, apart: true },
    );
    request.on('timeout', () => request.destroy());
    request.on('error', () => {});
    request.on('response', (response) => response.resume());
    request.end();
  }

  /** Sends everything, then `DELETE /session`. Hosts without that route reply 405, which has the same effect. */
  async #endSession(reason: string, graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.destroy(`the peer did not finish within ${graceMs} ms`), graceMs);
    await this.#posts.drained(0);
    if (this.#cause === undefined) {
      // The host ends the stream as a response to DELETE, which would look like its own decision.
      this.#stream.stop();
      await exchange(this.#target, 'DELETE', '/session', { headers: this.#headers, timeoutMs: graceMs }).catch(
        () => {},
      );
    }
    clearTimeout(timer);
    this.#finish({ clean: true, reason });
    await this.#ended.promise;
  }

  #finish(cause: CloseInfo): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    this.#posts.stop();
    this.#stream.stop();
    this.#target.close();
    this.#ended.resolve();
    this.#ready.resolve();
    if (this.#receiver !== undefined) this.#notifyClosed(cause);
  }

  /** Notifies the receiver in a microtask, because the caller of `destroy` or `open` may be in the middle of an update. */
  #notifyClosed(cause: CloseInfo): void {
    queueMicrotask(() => this.#receiver?.closed(cause));
  }
}
