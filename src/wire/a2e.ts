/**
 * Writes and reads A2E messages: envelope, both version stamps, times and ids. Pure: no link, no state beyond counters.
 *
 * Text links get JSON text, the in-memory pair gets objects; both hold the same fields. The envelope is written by hand
 * around one JSON.stringify of the body, and times are formatted once a millisecond: formatting a fractional number costs
 * more than all of the rest.
 *
 * @see docs/protocol/a2e.md#base-fields
 */
import { errorTable, fail, HandfastError, nameOfA2E } from './errors.ts';
import { isObject } from './json.ts';

/** A decoded message. */
type Message = Record<string, unknown>;

const OPEN_BRACE = 0x7b;
const VERSION = '1.0';
const STAMPS = `","a2e":"${VERSION}","version":"${VERSION}","ts":`;

/** Names and ids as almost everybody writes them: nothing in them has to be escaped. */
const PLAIN = /^[\w./:-]{1,64}$/;

/** Quotes an id or a name for JSON. Looking at the characters costs half of what JSON.stringify does. */
export const quote = (text: string): string => (PLAIN.test(text) ? `"${text}"` : JSON.stringify(text));

/**
 * True for a text that is the same between quotes in JSON. Types of messages are written as they are, so those that come
 * from users are held to this.
 */
export function isVerbatim(text: unknown): text is string {
  return typeof text === 'string' && JSON.stringify(text).length === text.length + 2;
}

/**
 * Writes the messages of one session. `ids` start with a random prefix and count up, so they are unique without asking
 * the random generator for each message.
 */
export class A2EWriter {
  readonly #prefix: string;
  readonly #now: () => number;
  #count = 0;
  #ms = -1;
  #fresh = false;
  #stampedMs = -1;
  #seconds = '';

  /**
   * @param prefix what ids begin with; anything in it but letters, digits, `_` and `-` is left out, because ids are not
   *   quoted
   * @param now epoch milliseconds
   */
  constructor(prefix: string = randomPrefix(), now: () => number = Date.now) {
    this.#prefix = prefix.replace(/[^\w-]/g, '');
    this.#now = now;
  }

  /** The next message id. */
  id(): string {
    return this.#prefix + this.#count++;
  }

  /** Epoch milliseconds, asked of the clock once for all that happens without a break. */
  now(): number {
    if (!this.#fresh) {
      this.#fresh = true;
      this.#ms = this.#now();
      queueMicrotask(this.#expire);
    }
    return this.#ms;
  }

  readonly #expire = (): void => {
    this.#fresh = false;
  };

  /** Epoch seconds as JSON text with millisecond digits. */
  stamp(): string {
    const ms = this.now();
    if (ms !== this.#stampedMs) {
      this.#stampedMs = ms;
      this.#seconds = (ms / 1000).toFixed(3);
    }
    return this.#seconds;
  }

  /** A message that answers nothing: requests, cancels, pushes. */
  message(text: boolean, type: string, id: string, body: object): string | Message {
    if (!text) return { ...body, type, id, a2e: VERSION, version: VERSION, ts: this.now() / 1000 };
    return `{"type":"${type}","id":"${id}${STAMPS}${this.stamp()}${members(body, false)}`;
  }

  /**
   * An answer to `request` (already quoted), with its own members as text or as an object.
   * `cursor` is written when it is above 0.
   */
  reply(
    text: boolean,
    type: string,
    request: string,
    rawRequest: string,
    body: object,
    cursor: number,
    write?: (body: never, seconds: string) => string,
  ): string | Message {
    if (!text) {
      const message: Message = {
        ...body,
        type,
        id: this.id(),
        a2e: VERSION,
        version: VERSION,
        ts: this.now() / 1000,
        req_id: rawRequest,
      };
      if (cursor > 0) message.cursor = cursor;
      else if (message.cursor !== undefined) delete message.cursor;
      return message;
    }
    const tail = write === undefined ? members(body, true) : `,${write(body as never, this.stamp())}}`;
    const head = `{"type":"${type}","id":"${this.#prefix}${this.#count++}${STAMPS}${this.stamp()},"req_id":${request}`;
    return cursor > 0 ? `${head},"cursor":${cursor}${tail}` : head + tail;
  }

  /** An event of `request` (already quoted). */
  event(
    text: boolean,
    type: string,
    request: string,
    rawRequest: string,
    kind: string,
    data: object,
    seq: number,
    cursor: number,
  ): string | Message {
    if (!text) {
      const message: Message = {
        type,
        id: this.id(),
        a2e: VERSION,
        version: VERSION,
        ts: this.now() / 1000,
        kind,
        req_id: rawRequest,
        data,
        seq,
      };
      if (cursor > 0) message.cursor = cursor;
      return message;
    }
    const head = `{"type":"${type}","id":"${this.#prefix}${this.#count++}${STAMPS}${this.stamp()},"kind":${quote(kind)},"req_id":${request}`;
    return `${cursor > 0 ? `${head},"cursor":${cursor}` : head},"data":${objectText(data)},"seq":${seq}}`;
  }
}

/**
 * The members of `body` after an envelope: `,"a":1}`. Envelope names in it are left out: the envelope is ours.
 * `answers`: the envelope also has `req_id` and maybe `cursor`.
 */
function members(body: object, answers: boolean): string {
  const { type, id, req_id, cursor, ts, a2e, version } = body as Message;
  const clean =
    type === undefined &&
    id === undefined &&
    ts === undefined &&
    a2e === undefined &&
    version === undefined &&
    (!answers || (req_id === undefined && cursor === undefined));
  const json = objectText(clean ? body : cleaned(body as Message, answers));
  return json.length === 2 ? '}' : `,${json.slice(1)}`;
}

/**
 * The JSON of an object. Throws `runtime_error` for what JSON makes something else of, such as a list, a date or nothing:
 * put into a message as it is, it would end the message early or never.
 */
function objectText(value: object): string {
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined || json.charCodeAt(0) !== OPEN_BRACE) throw fail('runtime_error', 'this is no JSON object');
  return json;
}

function cleaned(body: Message, answers: boolean): Message {
  const { type, id, ts, a2e, version, ...request } = body;
  if (!answers) return request;
  const { req_id, cursor, ...answer } = request;
  return answer;
}

/** A copy without the fields the envelope writes. */
export function withoutEnvelope(message: Message): Message {
  const { type, id, req_id, cursor, ts, a2e, version, ...body } = message;
  return body;
}

/** The fields of an `error` message for `error`; rows whose name is not their wire code carry it as `detail.reason`. */
export function errorBody(error: HandfastError, capability: string = error.capability): Message {
  const row = Object.hasOwn(errorTable, error.code) ? errorTable[error.code as keyof typeof errorTable] : undefined;
  const code = row?.a2e ?? error.code;
  return {
    code,
    message: error.message,
    detail: row !== undefined && code !== error.code ? { reason: error.code, ...error.detail } : error.detail,
    retryable: error.retryable,
    capability_name: capability,
  };
}

/** The error a peer's `error` message stands for; codes that are not ours pass unchanged. */
export function errorOf(message: Message): HandfastError {
  const code = typeof message.code === 'string' ? message.code : 'runtime_error';
  const detail = isObject(message.detail) ? message.detail : {};
  return new HandfastError(
    nameOfA2E(code, detail.reason) ?? code,
    typeof message.message === 'string' && message.message !== '' ? message.message : code,
    {
      detail,
      retryable: message.retryable === true,
      capability: typeof message.capability_name === 'string' ? message.capability_name : '',
    },
  );
}

/**
 * Five base-36 characters and a dash. Ids must be unique within their session, not secret; short ones matter because V8
 * keeps strings of up to twelve characters flat, and every id is hashed on both sides.
 */
export function randomPrefix(random: () => number = Math.random): string {
  return `${Math.floor(random() * 36 ** 5)
    .toString(36)
    .padStart(5, '0')}-`;
}
