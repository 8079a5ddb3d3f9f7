/**
 * Writes and reads A2E messages: envelope, both version stamps, times and ids. Pure: no link, no state beyond counters.
 *
 * Text links get JSON text, the in-memory pair gets objects; both hold the same fields. The envelope is written by hand
 * around one JSON.stringify of the body, and times are formatted once a millisecond: formatting a fractional number
 * costs more than the rest.
 *
 * @see docs/protocol/a2e.md#base-fields
 */
import {
  type Address,
  type Capacity,
  type Codec,
  type Encoded,
  type Incoming,
  type IncomingKind,
  type MalformedInput,
  type Message,
  type MessageId,
  malformedInput,
  shown,
} from './codec.ts';
import { MAX_VALUES, parseBounded } from './depth.ts';
import { errorTable, fail, HandfastError, nameOfA2E } from './errors.ts';
import { isObject } from './json.ts';
import { topOf } from './top-members.ts';

const OPEN_BRACE = 0x7b;
const VERSION = '1.0';
const STAMPS = `","a2e":"${VERSION}","version":"${VERSION}","ts":`;

/**
 * Characters for each value of an ordinary long message, such as a chain of 10,000 nodes: a message with at least this many is
 * built although it has more values than others may have.
 */
const CHARS_A_VALUE = 5.5;

/** Names and ids in their usual form: no character of them has to be escaped. */
const PLAIN = /^[\w./:-]{1,64}$/;

/** Quotes an id or a name for JSON. Checking the characters costs half of the time of JSON.stringify. */
export const quote = (text: string): string => (PLAIN.test(text) ? `"${text}"` : JSON.stringify(text));

/**
 * Returns true for a text that is the same between quotes in JSON. Types of messages are written without escapes, so
 * those that come from users must pass this check.
 */
export function isVerbatim(text: unknown): text is string {
  return typeof text === 'string' && JSON.stringify(text).length === text.length + 2;
}

/** Address of an error about something that was no request. */
export const NO_REQUEST: Address = Object.freeze({ id: '', idText: '""' });

/** Start of the types whose requests may arrive without an id. */
const SUBAGENT = 'SUBAGENT_';
/** Start of the ids that such requests get here; no id that is written starts with it. */
const UNNAMED = 'unnamed ';

/** Returns true when a `cancel` has the members that its schema requires. */
const isCancel = ({ id, req_id, ts }: Message): boolean =>
  isId(id) && isId(req_id) && (ts === undefined || Number.isFinite(ts));
const isId = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** Returns true when a version stamp is absent or of the same major version. */
export function versionFits(stamp: unknown): boolean {
  return stamp === VERSION || stamp === undefined || (typeof stamp === 'string' && /^1(\.\d+)*$/.test(stamp));
}

/**
 * A2E for one connection. Ids start with a random prefix and count up, so they are unique without a call of the random
 * generator for each message.
 */
export class A2ECodec implements Codec {
  readonly separator = undefined;
  readonly uniqueIds = true;
  readonly cancels = false;
  readonly pingType = 'ping';
  readonly #prefix: string;
  readonly #now: () => number;
  #count = 0;
  #ms = -1;
  #fresh = false;
  #stampedMs = -1;
  #seconds = '';

  /**
   * @param prefix start of every id; characters except letters, digits, `_` and `-` are left out, because ids are not
   * quoted
   * @param now epoch milliseconds
   */
  constructor(prefix: string = randomPrefix(), now: () => number = Date.now) {
    this.#prefix = prefix.replace(/[^\w-]/g, '');
    this.#now = now;
  }

  // Reading.

  read(raw: Encoded, maxDepth: number, maxValues = MAX_VALUES): Incoming {
    let message: unknown = raw;
    let size = 0;
    if (typeof raw === 'string') {
      size = raw.length;
      try {
        message = parseBounded(raw, maxDepth, Math.max(maxValues, Math.floor(size / CHARS_A_VALUE)));
      } catch (thrown) {
        if (thrown instanceof SyntaxError) return noMessage(fail('parse_error', 'the line is not JSON'), size);
        return unbuilt(raw, thrown as HandfastError);
      }
      if (!isObject(message)) return noMessage(fail('invalid_message', 'a message is a JSON object'), size);
    }
    const { type, id, req_id, cursor } = message as Message;
    const ref = isId(req_id) ? req_id : undefined;
    const kind = kindOf(message as Message, ref);
    // Requests of subagents may arrive without an id: they get one that never leaves this side.
    const nameless = kind === 'request' && !isId(id) && id !== null && (type as string).startsWith(SUBAGENT);
    return {
      kind,
      type: kind === 'invalid' ? '' : (type as string),
      id: nameless ? `${UNNAMED}${this.#count++}` : typeof id === 'string' ? id : '',
      idText: nameless ? NO_REQUEST.idText : '',
      ref,
      message: message as Message,
      body: message,
      size,
      cursor: typeof cursor === 'number' ? cursor : 0,
      error:
        kind === 'failure' || kind === 'refusal'
          ? errorOf(message as Message)
          : kind === 'invalid'
            ? fail('invalid_message', '"type" must be a non-empty string')
            : undefined,
    };
  }

  objection({ id, message }: Pick<Incoming, 'id' | 'message'>): HandfastError | undefined {
    const { a2e, version, type, id: given } = message as Message;
    // Only a ping may go without an id: its sender needs no more than any pong.
    if (id === '' && (type !== 'ping' || given !== undefined)) {
      return fail('invalid_message', 'a request needs an id: a non-empty string');
    }
    if (versionFits(a2e) && versionFits(version)) return undefined;
    return fail('version_mismatch', 'this host speaks A2E 1.x');
  }

  unknownType(type: string): HandfastError {
    return fail('unknown_type', `unsupported message type ${shown(type)}`);
  }

  overCapacity({ maxParallel, queueLimit, retryAfterMs }: Capacity): HandfastError {
    const detail = { retry_after_ms: retryAfterMs, max_parallel: maxParallel, queue_limit: queueLimit };
    return fail('over_capacity', 'too many requests are running and waiting', detail);
  }

  malformed(problem: MalformedInput): HandfastError {
    return malformedInput(problem);
  }

  // Writing.

  id(): string {
    return this.#prefix + this.#count++;
  }

  /** Returns epoch milliseconds, read from the clock once for all calls that happen without a break. */
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

  /** Returns epoch seconds as JSON text with millisecond digits. */
  stamp(): string {
    const ms = this.now();
    if (ms !== this.#stampedMs) {
      this.#stampedMs = ms;
      this.#seconds = (ms / 1000).toFixed(3);
    }
    return this.#seconds;
  }

  request(text: boolean, type: string, id: MessageId, body: object, cursor = 0): Encoded {
    if (!text) {
      const message: Message = { ...body, type, id, a2e: VERSION, version: VERSION, ts: this.now() / 1000 };
      if (cursor > 0) message.cursor = cursor;
      return message;
    }
    const head = `{"type":"${type}","id":"${id}${STAMPS}${this.stamp()}`;
    return (cursor > 0 ? `${head},"cursor":${cursor}` : head) + members(body, cursor > 0 ? 'stamped' : 'plain');
  }

  notice(text: boolean, type: string, body: object, cursor = 0): Encoded {
    return this.request(text, type, this.id(), body, cursor);
  }

  cancel(text: boolean, id: MessageId): Encoded {
    return this.request(text, 'cancel', this.id(), { req_id: id });
  }

  reply(
    text: boolean,
    type: string,
    request: Address,
    body: unknown,
    cursor: number,
    write?: (body: never, seconds: string) => string,
  ): Encoded {
    const own = (body ?? {}) as object;
    if (!text) {
      const message: Message = {
        ...own,
        type,
        id: this.id(),
        a2e: VERSION,
        version: VERSION,
        ts: this.now() / 1000,
        req_id: request.idText === NO_REQUEST.idText ? '' : request.id,
      };
      if (cursor > 0) message.cursor = cursor;
      else if (message.cursor !== undefined) delete message.cursor;
      return message;
    }
    const tail = write === undefined ? members(own, 'reply') : `,${write(own as never, this.stamp())}}`;
    const head = `{"type":"${type}","id":"${this.#prefix}${this.#count++}${STAMPS}${this.stamp()},"req_id":${quoted(request)}`;
    return cursor > 0 ? `${head},"cursor":${cursor}${tail}` : head + tail;
  }

  failure(text: boolean, request: Address, error: HandfastError, cursor: number, capability?: string): Encoded {
    return this.reply(text, 'error', request, errorBody(error, capability), cursor);
  }

  pong(text: boolean, request: Address, body: object): Encoded {
    return this.reply(text, 'pong', request, body, 0);
  }

  event(
    text: boolean,
    type: string,
    request: Address,
    kind: string,
    data: object,
    seq: number,
    cursor: number,
  ): Encoded {
    if (!text) {
      const message: Message = {
        type,
        id: this.id(),
        a2e: VERSION,
        version: VERSION,
        ts: this.now() / 1000,
        kind,
        req_id: request.id,
        data,
        seq,
      };
      if (cursor > 0) message.cursor = cursor;
      return message;
    }
    const head = `{"type":"${type}","id":"${this.#prefix}${this.#count++}${STAMPS}${this.stamp()},"kind":${quote(kind)},"req_id":${quoted(request)}`;
    return `${cursor > 0 ? `${head},"cursor":${cursor}` : head},"data":${objectText(data)},"seq":${seq}}`;
  }
}

/** Returns the id of a request as JSON text; written once for all its replies and events. */
function quoted(request: Address): string {
  if (request.idText === '') request.idText = quote(request.id as string);
  return request.idText;
}

/** Returns the kind of a message by its type alone. */
function kindOf(message: Message, ref: string | undefined): IncomingKind {
  const { type } = message;
  if (typeof type !== 'string' || type === '') return 'invalid';
  // By the last character first: this runs for every message, and almost all are one of these.
  switch (type.charCodeAt(type.length - 1)) {
    case 0x71:
      if (type.endsWith('/req')) return 'request';
      break;
    case 0x70:
      if (type.endsWith('/resp')) return 'reply';
      break;
    case 0x74:
      if (type.endsWith('/event')) return 'event';
      break;
    case 0x68:
      if (type.endsWith('/push')) return 'notice';
  }
  switch (type) {
    case 'ping':
    case 'pong':
      return type;
    case 'error':
      return ref === undefined ? 'refusal' : 'failure';
    case 'cancel':
      return isCancel(message) ? 'cancel' : 'request';
    case 'shutdown':
      return 'notice';
  }
  if (!type.startsWith(SUBAGENT)) return 'request';
  // An event of a subagent mostly belongs to no request.
  if (type === 'SUBAGENT_EVENT') return ref === undefined ? 'notice' : 'event';
  return /_\w+_RESP$/.test(type) ? 'reply' : 'request';
}

const noMessage = (error: HandfastError, size: number): Incoming => ({
  kind: 'invalid',
  type: '',
  id: '',
  idText: '',
  ref: undefined,
  message: undefined,
  body: undefined,
  size,
  cursor: 0,
  error,
});

/** Returns a message that was not built. Its request gets the error, if its id can be read from the text. */
function unbuilt(text: string, error: HandfastError): Incoming {
  const { id = '""' } = topOf(text, ['id'], text.length).members;
  const [, plain = ''] = /^"([\w./:-]{1,128})"$/.exec(id) ?? [];
  return { ...noMessage(error, text.length), id: plain };
}

/**
 * Returns the members of `body` after an envelope: `,"a":1}`. Envelope names in it are left out: this side writes the
 * envelope. A `reply` has `req_id` and maybe `cursor` in its envelope, a `stamped` request its `cursor`.
 */
function members(body: object, head: 'plain' | 'stamped' | 'reply'): string {
  const { type, id, req_id, cursor, ts, a2e, version } = body as Message;
  const clean =
    type === undefined &&
    id === undefined &&
    ts === undefined &&
    a2e === undefined &&
    version === undefined &&
    (head === 'plain' || (cursor === undefined && (head === 'stamped' || req_id === undefined)));
  const json = objectText(clean ? body : cleaned(body as Message, head));
  return json.length === 2 ? '}' : `,${json.slice(1)}`;
}

/**
 * Returns the JSON of an object. Throws `runtime_error` for values whose JSON is no object, such as a list, a date or
 * undefined: written into a message, they would end it early or never.
 */
function objectText(value: object): string {
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined || json.charCodeAt(0) !== OPEN_BRACE) throw fail('runtime_error', 'not a JSON object');
  return json;
}

function cleaned(body: Message, head: 'plain' | 'stamped' | 'reply'): Message {
  const { type, id, ts, a2e, version, ...request } = body;
  if (head === 'plain') return request;
  const { cursor, ...stamped } = request;
  if (head === 'stamped') return stamped;
  const { req_id, ...reply } = stamped;
  return reply;
}

/** Returns a copy without the fields that the envelope writes. */
export function withoutEnvelope(message: Message): Message {
  const { type, id, req_id, cursor, ts, a2e, version, ...body } = message;
  return body;
}

/**
 * Returns the fields of an `error` message for `error`; rows whose name is not their wire code carry it as
 * `detail.reason`.
 */
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

/** Returns the error that a peer's `error` message stands for; codes outside the error table pass unchanged. */
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
 * Returns five base-36 characters and a dash. Ids must be unique within their session, not secret; short ones matter
 * because V8 keeps strings of up to twelve characters flat, and every id is hashed on both sides.
 */
export function randomPrefix(random: () => number = Math.random): string {
  return `${Math.floor(random() * 36 ** 5)
    .toString(36)
    .padStart(5, '0')}-`;
}
