/**
 * The interface between a dialect and a connection: a codec that classifies messages, writes messages, and holds as
 * values the rules in which its specification differs from others. Pure: no link, no state beyond counters and a clock.
 *
 * `wire/a2e.ts` and `wire/jsonrpc.ts` implement {@link Codec}; `connection/` uses nothing else of a dialect.
 */
import { fail, type HandfastError } from './errors.ts';

/** A decoded message. */
export type Message = Record<string, unknown>;

/** A message as a link sends it: JSON text on text links, an object on the in-memory pair. */
export type Encoded = string | Message;

/** The id of a request. */
export type MessageId = string | number | null;

/** The request a reply or an event names. */
export interface Address {
  readonly id: MessageId;
  /** The id as JSON text; `''` until a codec needs it. */
  idText: string;
}

/**
 * `request` asks for a reply · `reply` and `failure` complete the request `ref` · `event` belongs to it · `cancel`
 * withdraws it · `notice` is a message that belongs to no request · `ping` asks for a `pong` · `refusal` is an error
 * about something that was no request, or about the whole session · `invalid` is no message of this dialect.
 */
export type IncomingKind =
  | 'request'
  | 'reply'
  | 'failure'
  | 'event'
  | 'cancel'
  | 'notice'
  | 'ping'
  | 'pong'
  | 'refusal'
  | 'invalid';

/** One message that was read. */
export interface Incoming extends Address {
  readonly kind: IncomingKind;
  /** Its type or method; `''` where it has none. */
  readonly type: string;
  /** The request it belongs to; undefined where it names none. */
  readonly ref: MessageId | undefined;
  /** The decoded message; undefined when the input was no JSON object. */
  readonly message: Message | undefined;
  /** Argument of handlers: the parameters or the result if the dialect separates them, else the message. */
  readonly body: unknown;
  /** Characters of its text; 0 when it arrived as an object. */
  readonly size: number;
  /** Its position in the peer's journal; 0 = none. */
  readonly cursor: number;
  /** Of `failure`, `refusal` and `invalid`. */
  readonly error: HandfastError | undefined;
}

/** Reason why a link could not turn its input into a message; see `transport/link.ts`. */
export interface MalformedInput {
  readonly reason: 'too_large' | 'bad_utf8';
  readonly limit?: number;
}

/** Numbers a refusal for lack of capacity reports. */
export interface Capacity {
  readonly maxParallel: number;
  readonly queueLimit: number;
  readonly retryAfterMs: number;
}

/** One dialect, for one connection. All writers throw the errors of `JSON.stringify`; `text` = the link sends JSON text. */
export interface Codec {
  // Rules that differ by specification.

  /** Character that separates messages within one line; undefined where a line is one message. */
  readonly separator: string | undefined;
  /** True: two open requests of one peer may not have the same id. */
  readonly uniqueIds: boolean;
  /** True when every peer understands `cancel`; else it has to be agreed. */
  readonly cancels: boolean;
  /** Type of the request that asks for a sign of life and is not counted; undefined where the dialect has none. */
  readonly pingType: string | undefined;

  // Reading.

  /**
   * Classifies a message. Undefined = to be ignored. Never throws.
   * @param maxValues values of a text at most, as `depth.ts` counts them; default: the limit for a message that is served
   */
  read(raw: Encoded, maxDepth: number, maxValues?: number): Incoming | undefined;
  /** Returns the reason why a served request cannot be accepted in its form; undefined = it can. */
  objection(request: Incoming): HandfastError | undefined;
  /** Returns the error for a type without a handler. */
  unknownType(type: string): HandfastError;
  /** Returns the error for a request beyond the limits. */
  overCapacity(capacity: Capacity): HandfastError;
  /** Returns the error for input that was no text. */
  malformed(problem: MalformedInput): HandfastError;

  // Writing.

  /** Returns an id for the next request. */
  id(): MessageId;
  request(text: boolean, type: string, id: MessageId, body: object, cursor: number): Encoded;
  /** Writes a reply. `write` = the body's own writer, if a method has one. */
  reply(
    text: boolean,
    type: string,
    request: Address,
    body: unknown,
    cursor: number,
    write?: (body: never, seconds: string) => string,
  ): Encoded;
  /** Writes an error reply. `capability` = the capability of the failing request. */
  failure(text: boolean, request: Address, error: HandfastError, cursor: number, capability?: string): Encoded;
  event(
    text: boolean,
    type: string,
    request: Address,
    kind: string,
    data: object,
    seq: number,
    cursor: number,
  ): Encoded;
  cancel(text: boolean, id: MessageId): Encoded;
  /** Writes a message that belongs to no request. */
  notice(text: boolean, type: string, body: object, cursor: number): Encoded;
  /** Writes the reply to a ping. */
  pong(text: boolean, request: Address, body: object): Encoded;
}

/** Returns the error for input that a link could not turn into a message. */
export function malformedInput(problem: MalformedInput): HandfastError {
  return problem.reason === 'bad_utf8'
    ? fail('parse_error', 'the line is not valid UTF-8')
    : fail('too_large', `the line exceeds the message size limit of ${problem.limit} bytes`, {
        limit: problem.limit,
        unit: 'bytes',
      });
}

/** Returns a type name for an error message: short, printable. */
export function shown(type: string): string {
  return JSON.stringify(type.length > 64 ? `${type.slice(0, 64)}…` : type);
}
