/**
 * The sending half of an HTTP client link: messages leave in order, one `POST /send` at a time, and everything that was
 * queued meanwhile leaves with the next one when the server accepts several lines a body.
 *
 * A failed POST is repeated only when that cannot deliver it twice: it was refused, it never left, or the server counts
 * bodies (`X-Send-Sequence`). Otherwise the link is reported as lost and the session above resumes, which knows the
 * replied requests.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { type BackoffOptions, backoffMs } from '../../base/backoff.ts';
import { unsentBytes } from '../unsent-bytes.ts';
import { type HttpHeaders, type HttpTarget, isRefused, retryAfterMs } from './http-request.ts';

export interface PostQueueOptions {
  readonly target: HttpTarget;
  readonly headers: HttpHeaders;
  /** True when the server accepts several lines a body and counts bodies. */
  readonly packs: boolean;
  /** Time for which one POST may stay without a response. */
  readonly answerTimeoutMs: number;
  /** Time for which one body is retried before the link is abandoned. */
  readonly retryTotalMs: number;
  /** Returns monotonic milliseconds. */
  readonly now: () => number;
  /** Returns 0 ≤ x < 1, to spread retries. */
  readonly random: () => number;
  /** Called at most once, when sending has ended. */
  readonly failed: (reason: string) => void;
}

/** Longest body of several messages: the size that a server accepts even before the handshake. */
const PACK_BYTES = 64 * 1024;
/** Empty cells at the front of the queue before it is moved up. */
const SLACK = 1_024;
const DELAYS: BackoffOptions = { firstDelayMs: 100, maxDelayMs: 2_000 };
/** A refusal is read up to here. */
const MAX_ANSWER_CHARS = 4_096;

/** Failures of a request that never reached the server. */
const NOT_SENT = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

export class PostQueue {
  readonly #options: PostQueueOptions;
  readonly #texts: string[] = [];
  #head = 0;
  #buffered = 0;
  /** True from the first queued message until the queue is empty again. */
  #busy = false;
  #stopped = false;
  // The body in transit.
  #body = '';
  #bodyBytes = 0;
  #sequence = 0;
  #request: ClientRequest | undefined;
  #retries = 0;
  #firstFailureAt = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #waiters: { lowWaterBytes: number; resolve: () => void }[] = [];

  constructor(options: PostQueueOptions) {
    this.#options = options;
  }

  /** Bytes of messages whose POST has no response yet. */
  get buffered(): number {
    return this.#buffered;
  }

  /** Changes whenever the server or the system below accepts queued bytes. */
  get progress(): number {
    const socket = this.#request?.socket;
    return this.#sequence - (socket ? unsentBytes(socket) : 0);
  }

  /** Queues one ASCII text without line breaks. */
  push(text: string): void {
    if (this.#stopped) return;
    this.#texts.push(text);
    this.#buffered += text.length;
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(postNext, this);
  }

  /** Resolves when at most `lowWaterBytes` are unanswered, or after {@link stop}. */
  drained(lowWaterBytes: number): Promise<void> {
    if (this.#stopped || this.#buffered <= lowWaterBytes) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ lowWaterBytes, resolve }));
  }

  /** Drops everything queued and the running POST. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    clearTimeout(this.#retryTimer);
    this.#request?.destroy();
    this.#request = undefined;
    this.#texts.length = 0;
    this.#buffered = 0;
    this.#wake();
  }

  /** Sends the queued messages: called at the end of a turn, when all messages of the turn are queued. */
  next(): void {
    if (this.#stopped) return;
    if (this.#head === this.#texts.length) {
      this.#texts.length = 0;
      this.#head = 0;
      this.#busy = false;
      return;
    }
    this.#pack();
    this.#sequence += 1;
    this.#retries = 0;
    this.#attempt();
  }

  /** Removes the next message from the queue, with as many more as fit one body. */
  #pack(): void {
    const texts = this.#texts;
    const from = this.#head;
    let to = from + 1;
    let bytes = texts[from]!.length;
    while (this.#options.packs && to < texts.length && bytes + texts[to]!.length + (to - from) <= PACK_BYTES) {
      bytes += texts[to]!.length;
      to += 1;
    }
    this.#body = to === from + 1 ? texts[from]! : texts.slice(from, to).join('\n');
    this.#bodyBytes = bytes;
    this.#head = to;
    texts.fill('', from, to);
    if (to > SLACK) {
      texts.splice(0, to);
      this.#head = 0;
    }
  }

  #attempt(): void {
    const { target, headers, packs, answerTimeoutMs } = this.#options;
    const own: Record<string, string> = {
      ...headers,
      'Content-Type': packs ? 'application/x-ndjson' : 'text/plain',
      'Content-Length': String(this.#body.length),
    };
    if (packs) own['X-Send-Sequence'] = String(this.#sequence);
    const request = target.start('POST', '/send', own, { timeoutMs: answerTimeoutMs });
    this.#request = request;
    request.on('response', (response: IncomingMessage) => {
      let text = '';
      if (response.statusCode === 400) {
        response.setEncoding('latin1').on('data', (chunk: string) => {
          if (text.length < MAX_ANSWER_CHARS) text += chunk;
        });
      } else response.resume();
      response.on('end', () => this.#answered(request, response, text));
      // The status is known, even if the rest of the response is lost.
      response.on('error', () => this.#answered(request, response, text));
    });
    request.on('timeout', () => request.destroy(new Error(`no answer within ${answerTimeoutMs} ms`)));
    request.on('error', (error: NodeJS.ErrnoException) => this.#broken(request, error));
    request.end(this.#body, 'latin1');
  }

  #answered(request: ClientRequest, response: IncomingMessage, text: string): void {
    if (this.#request !== request) return;
    this.#request = undefined;
    const status = response.statusCode ?? 0;
    const { packs } = this.#options;
    // Handfast's server has reported the malformed line to its receiver; the link itself continues.
    const read = packs && (status === 413 || (status === 400 && wasRead(text)));
    if ((status >= 200 && status < 300) || read) this.#done();
    else if (status === 429 || status === 503) this.#retry(`the host answers ${status}`, retryAfterMs(response));
    else if (status === 404) this.#fail('the host no longer knows this session');
    else if (packs && (status === 408 || status >= 500)) this.#retry(`the host answers ${status}`);
    else this.#fail(`the host responded with status ${status} to a message`);
  }

  #broken(request: ClientRequest, error: NodeJS.ErrnoException): void {
    if (this.#request !== request) return;
    this.#request = undefined;
    if (isRefused(error)) return this.#fail(`the host refuses connections: ${error.message}`);
    const notSent = error.syscall === 'connect' || NOT_SENT.has(error.code ?? '');
    if (notSent || this.#options.packs) this.#retry(error.message);
    else this.#fail(`the delivery of the last message is unknown: ${error.message}`);
  }

  #done(): void {
    this.#body = '';
    this.#buffered -= this.#bodyBytes;
    this.#wake();
    setImmediate(postNext, this);
  }

  #retry(reason: string, wishedMs?: number): void {
    const { now, random, retryTotalMs } = this.#options;
    if (this.#retries === 0) this.#firstFailureAt = now();
    const leftMs = this.#firstFailureAt + retryTotalMs - now();
    if (leftMs <= 0) {
      this.#fail(`a message could not be sent: ${reason}`);
      return;
    }
    const plannedMs = backoffMs(this.#retries, { ...DELAYS, random });
    this.#retries += 1;
    this.#retryTimer = setTimeout(() => this.#attempt(), Math.min(wishedMs ?? plannedMs, leftMs));
  }

  #fail(reason: string): void {
    if (!this.#stopped) this.#options.failed(reason);
  }

  #wake(): void {
    if (this.#waiters.length === 0) return;
    this.#waiters = this.#waiters.filter((waiter) => {
      if (!this.#stopped && this.#buffered > waiter.lowWaterBytes) return true;
      waiter.resolve();
      return false;
    });
  }
}

/** Returns true for the response to a body without a valid message: other refusals have no `ok`. */
function wasRead(answer: string): boolean {
  try {
    return (JSON.parse(answer) as { ok?: unknown } | null)?.ok === false;
  } catch {
    return false;
  }
}

function postNext(queue: PostQueue): void {
  queue.next();
}
