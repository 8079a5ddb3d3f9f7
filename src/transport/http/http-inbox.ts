/**
 * The incoming half of an HTTP session: delivers bodies of `POST /send` in order and responds to each when its messages
 * were delivered. While the link is paused the response is delayed: that is the sender's backpressure.
 */
import type { Buffer } from 'node:buffer';
import type { ServerResponse } from 'node:http';
import { type ErrorName, errorTable } from '../../wire/errors.ts';
import { LineReader } from '../../wire/frame.ts';
import { type LinkReceiver, type Malformed, PRE_HANDSHAKE_MAX_MESSAGE_BYTES } from '../link.ts';
import { errorReply, type HttpReply, jsonReply, sendReply } from './http-exchange.ts';

/** A body that is being delivered, or waits for it. */
interface Delivery {
  /** Undefined: it was too long. Released once it was given to its reader. */
  body: Buffer | undefined;
  /** Cuts the body into messages, not more of them a turn than is fair. Set once it is started. */
  reader: LineReader | undefined;
  /** Longest message it may contain, in bytes. */
  readonly limit: number;
  /** The sender's number of this body, from 1, or 0 when it does not count. */
  readonly sequence: number;
  readonly response: ServerResponse;
  /** True once it contained a valid message. */
  accepted: boolean;
  /** The refusal of the first malformed line. */
  refused: HttpReply | undefined;
  answered: boolean;
  sweeps: number;
}

/** Requests to `/send` of one session that may be open at once; plain clients and Handfast's use one. */
const MAX_OPEN_SENDS = 8;

const OK = jsonReply(200, { ok: true });
const TOO_LARGE = refusal(413, 'too_large', 'the message is over the size limit');
const TOO_DEEP = refusal(413, 'too_large', 'the message is nested too deeply');
const BAD_UTF8 = refusal(400, 'parse_error', 'the body is not valid UTF-8');
const NOT_JSON = refusal(400, 'parse_error', 'the body is not JSON');
const NO_OBJECT = refusal(400, 'invalid_message', 'a message is a JSON object');
const OUT_OF_SEQUENCE = errorReply(409, 'invalid_message', 'X-Send-Sequence leaves a gap');
const PAUSED = errorReply(429, 'over_capacity', 'the session is not reading at the moment; nothing was accepted', [
  'Retry-After',
  '1',
]);
/** The response to every request that names an unknown session. */
export const UNKNOWN_SESSION: HttpReply = errorReply(404, 'session_not_found', 'no such session');

export class HttpInbox {
  maxMessageBytes: number;
  readonly #delaySweeps: number;
  readonly #queue: Delivery[] = [];
  #receiver: LinkReceiver | undefined;
  #paused = false;
  #closed = false;
  #scheduled = false;
  #openSends = 0;
  #lastSequence = 0;
  /** Called once the body that was started is delivered, after the client ended the session. */
  #leave: (() => void) | undefined;

  /** @param delaySweeps sweeps for which a response is delayed for a paused link before it is refused with 429 */
  constructor(maxMessageBytes: number, delaySweeps: number) {
    this.maxMessageBytes = maxMessageBytes;
    this.#delaySweeps = delaySweeps;
  }

  /** Requests to `/send` that are not answered yet. */
  get openSends(): number {
    return this.#openSends;
  }

  /** Longest body accepted: several short messages may be packed in one even before the handshake. */
  get maxBodyBytes(): number {
    return Math.max(this.maxMessageBytes, PRE_HANDSHAKE_MAX_MESSAGE_BYTES);
  }

  open(receiver: LinkReceiver): void {
    this.#receiver = receiver;
    this.#deliverSoon();
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    if (this.#leave === undefined) this.#queue[0]?.reader?.pause(paused);
    if (!paused) this.#deliverSoon();
  }

  /** Begins a `/send`; false when too many are open, and then it has been refused. */
  start(response: ServerResponse): boolean {
    if (this.#openSends >= MAX_OPEN_SENDS) {
      sendReply(response, PAUSED);
      return false;
    }
    this.#openSends += 1;
    return true;
  }

  /** Ends a `/send` whose body never arrived. */
  abandon(): void {
    this.#openSends -= 1;
  }

  /** Accepts the body of a started `/send`; undefined = it was longer than {@link maxBodyBytes}. */
  accept(body: Buffer | undefined, sequence: number, response: ServerResponse): void {
    const delivery: Delivery = {
      body,
      reader: undefined,
      limit: this.maxMessageBytes,
      sequence,
      response,
      accepted: false,
      refused: undefined,
      answered: false,
      sweeps: 0,
    };
    if (this.#closed) {
      this.#answer(delivery, UNKNOWN_SESSION);
      return;
    }
    this.#queue.push(delivery);
    this.#deliver();
  }

  /** Handles one tick: refuses bodies delayed long enough, before their client times out and sends them again. */
  sweep(): void {
    for (const delivery of [...this.#queue]) {
      delivery.sweeps += 1;
      if (delivery.sweeps <= this.#delaySweeps || delivery.answered) continue;
      if (delivery.reader !== undefined) {
        // Part of it is delivered, so this side owns the rest.
        this.#answer(delivery, OK);
      } else {
        this.#queue.splice(this.#queue.indexOf(delivery), 1);
        this.#answer(delivery, PAUSED);
      }
    }
  }

  /** Delivers the rest of a body that was started, paused or not, because its sender may count on it; then calls `done`. */
  finish(done: () => void): void {
    const { reader } = this.#queue[0] ?? {};
    if (reader === undefined) return done();
    this.#leave ??= done;
    reader.pause(false);
  }

  /** Stops delivering, and responds to every waiting body. */
  close(): void {
    this.#closed = true;
    for (const delivery of this.#queue.splice(0)) {
      delivery.reader?.stop();
      this.#answer(delivery, delivery.reader === undefined ? UNKNOWN_SESSION : verdict(delivery));
    }
  }

  /** Delivers in a microtask, because the caller of `open` or `pause` may be in the middle of an update. */
  #deliverSoon(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#deliver();
    });
  }

  #deliver(): void {
    if (this.#leave !== undefined) return;
    while (this.#queue.length > 0 && this.#receiver !== undefined && !this.#paused) {
      const delivery = this.#queue[0]!;
      if (delivery.reader === undefined) {
        const refusal = this.#refusal(delivery);
        if (refusal !== undefined) {
          this.#queue.shift();
          this.#answer(delivery, refusal);
          continue;
        }
        if (delivery.sequence > 0) this.#lastSequence = delivery.sequence;
        this.#start(delivery);
      }
      if (delivery.reader?.holds) return;
      this.#delivered(delivery);
    }
  }

  /**
   * Handles a body that the receiver has completely. The receiver may have closed the link meanwhile: then the queue
   * was emptied and replied to already.
   */
  #delivered(delivery: Delivery): void {
    if (this.#queue[0] === delivery) this.#queue.shift();
    this.#answer(delivery, verdict(delivery));
  }

  /** Gives a body to its reader, which may need several turns for it. */
  #start(delivery: Delivery): void {
    const { body, limit } = delivery;
    const malformed = (problem: Malformed): void => {
      delivery.refused ??= problem.reason === 'too_large' ? TOO_LARGE : BAD_UTF8;
      this.#receiver?.malformed(problem);
    };
    const reader = new LineReader(
      {
        line: (text) => {
          // Only the receiver parses the text as JSON; parsing it here as well would double the cost of a message.
          const code = this.#receiver?.message(text);
          if (typeof code !== 'string') delivery.accepted = true;
          else delivery.refused ??= code === 'parse_error' ? NOT_JSON : code === 'too_large' ? TOO_DEEP : NO_OBJECT;
        },
        malformed,
        behind: (behind) => {
          if (behind) return;
          if (this.#leave === undefined) return this.#deliver();
          this.#delivered(delivery);
          this.#leave();
        },
      },
      limit,
    );
    delivery.reader = reader;
    delivery.body = undefined;
    if (body === undefined) malformed({ reason: 'too_large', limit });
    else reader.frame(body);
  }

  /** Returns the reason why a body is not delivered at all: sent before, out of order, or the client has disconnected. */
  #refusal(delivery: Delivery): HttpReply | undefined {
    if (delivery.response.destroyed) return UNKNOWN_SESSION;
    if (delivery.sequence === 0) return undefined;
    if (delivery.sequence <= this.#lastSequence) return OK;
    return delivery.sequence === this.#lastSequence + 1 ? undefined : OUT_OF_SEQUENCE;
  }

  #answer(delivery: Delivery, reply: HttpReply): void {
    if (delivery.answered) return;
    delivery.answered = true;
    this.#openSends -= 1;
    sendReply(delivery.response, reply);
  }
}

/**
 * Returns the response to a delivered body: a refusal only when every line was refused, so that a client does not send
 * an accepted message again. A client that does not number its bodies reads errors on the stream alone: the Python SDK
 * treats any status except 200 as the end of its transport.
 */
const verdict = ({ accepted, refused, sequence }: Delivery): HttpReply =>
  accepted || sequence === 0 ? OK : (refused ?? OK);

/**
 * Returns the response to a numbered body without a valid message. `ok: false` distinguishes it from refusals of the
 * request itself.
 */
function refusal(status: number, code: ErrorName, message: string): HttpReply {
  const { retryable } = errorTable[code];
  return jsonReply(status, { ok: false, detail: message, error: { code, message, retryable } });
}
