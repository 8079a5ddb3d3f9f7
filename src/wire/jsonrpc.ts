/**
 * The codec of JSON-RPC 2.0 as session RPC has it: the form of a line, of replies, errors and notifications, and the
 * conversion of errors between the table and the wire. Pure: no link, no state but a counter of ids.
 *
 * It runs in browsers too. Text links get JSON text, the in-memory pair objects.
 * @see docs/protocol/session-rpc.md#lines and docs/protocol/session-rpc.md#errors
 */
import { isLonger } from './ascii.ts';
import {
  type Address,
  type Capacity,
  type Codec,
  type Encoded,
  type Incoming,
  type MalformedInput,
  type Message,
  type MessageId,
  malformedInput,
} from './codec.ts';
import { MAX_DEPTH, MAX_VALUES, moreValues, tooDeep, tooDeeply, tooMany } from './depth.ts';
import { type ErrorName, type ErrorRow, fail, HandfastError, nameOfJsonRpc, rowOf } from './errors.ts';
import { isObject, JsonText, membersOf, resultValue } from './json.ts';
import { topOf } from './top-members.ts';

/** Returns true for a message of JSON-RPC, of any method. */
export const speaksJsonRpc = (message: Message): boolean => Object.hasOwn(message, 'jsonrpc');

/** Length to which the parser's own words are cut, in characters. */
const MAX_PARSER_CHARS = 200;
/** Length to which an unknown method is cut in its refusal, in characters. */
const MAX_METHOD_CHARS = 256;

/** Returns the error for a line that is not JSON. */
export function parseError(why: string): HandfastError {
  return fail('parse_error', `parse error: ${why.slice(0, MAX_PARSER_CHARS)}`);
}

/** Returns the error for a method without a handler. */
export function methodNotFound(method: string): HandfastError {
  const shown = method.length > MAX_METHOD_CHARS ? `${method.slice(0, MAX_METHOD_CHARS)}…` : method;
  return fail('unknown_type', `method not found: ${shown}`, { method: shown });
}

/** Address of the reply to a line that is no request. */
export const NO_REQUEST: Address = Object.freeze({ id: null, idText: 'null' });

/** JSON-RPC 2.0 for one connection. */
export class JsonRpcCodec implements Codec {
  readonly separator: string | undefined;
  readonly uniqueIds = false;
  readonly cancels = true;
  readonly pingType = undefined;
  readonly #calls: boolean;
  readonly #long: LongMessages | undefined;
  #lastId = 0;

  /**
   * @param calls true at the side that calls: it reads replies, and is lenient with other input. The side that only
   *   serves refuses them as invalid requests, and splits lines at carriage returns, which only a byte stream that does
   *   not know this dialect leaves in a line.
   * @param long messages that may be long; absent: all
   */
  constructor({ calls, long }: { readonly calls: boolean; readonly long?: LongMessages }) {
    this.#calls = calls;
    this.#long = long;
    this.separator = calls ? undefined : '\r';
  }

  // Reading.

  /**
   * @param maxDepth deepest nesting of a text; deeper ones are `too_large` and not parsed
   * @param maxValues most values of a text; one with more is `too_large` and not parsed
   */
  read(raw: Encoded, maxDepth: number = MAX_DEPTH, maxValues = MAX_VALUES): Incoming | undefined {
    if (typeof raw !== 'string') return this.#classified(raw, undefined, 0);
    const text = raw.trim();
    if (text === '') return undefined;
    const refusal = this.#tooLarge(text, maxDepth, maxValues);
    if (refusal !== undefined) return refusal;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (thrown) {
      return invalid(parseError((thrown as Error).message));
    }
    return this.#classified(value, text, raw.length);
  }

  /** Returns the refusal of a text that is not parsed. */
  #tooLarge(text: string, maxDepth: number, maxValues: number): Incoming | undefined {
    const long = this.#long;
    if (long !== undefined && isLonger(text, long.above)) {
      const { members, values, levels } = topOf(text, ['method', 'id'], long.above);
      const { method = '', id = 'null' } = members;
      // A message, as far as it was read: its refusal has the id of its request.
      const refuse = (error: HandfastError): Incoming => ({ ...invalid(error), ...addressIn(id), message: {} });
      if (!long.methods.has(nameIn(method))) return refuse(long.refusal);
      if (levels > maxDepth) return refuse(tooDeeply(maxDepth));
      return values > maxValues ? refuse(tooMany(maxValues)) : undefined;
    }
    if (maxDepth !== Number.POSITIVE_INFINITY && tooDeep(text, maxDepth)) return invalid(tooDeeply(maxDepth));
    return moreValues(text, maxValues) ? invalid(tooMany(maxValues)) : undefined;
  }

  #classified(value: unknown, text: string | undefined, size: number): Incoming | undefined {
    if (this.#calls) return isObject(value) ? called(value, size) : undefined;
    if (Array.isArray(value)) return invalid(fail('batch_not_supported', 'batch requests are not supported'));
    if (!isObject(value)) return notOne();
    const { jsonrpc, method, id } = value;
    if (jsonrpc !== '2.0' || typeof method !== 'string' || method.trim() === '') return notOne();
    if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number') return notOne();
    return asked(value, method, typeof id === 'number' ? numberText(id, text) : '', size);
  }

  objection(): undefined {}

  unknownType(method: string): HandfastError {
    return methodNotFound(method);
  }

  overCapacity({ maxParallel, retryAfterMs }: Capacity): HandfastError {
    return fail('over_capacity', 'too many requests of this connection are running', {
      max_in_flight: maxParallel,
      retry_after_ms: retryAfterMs,
    });
  }

  malformed(problem: MalformedInput): HandfastError {
    const error = malformedInput(problem);
    return error.code === 'parse_error' ? parseError(error.message) : error;
  }

  // Writing.

  id(): number {
    return ++this.#lastId;
  }

  request(text: boolean, method: string, id: MessageId, params: object): Encoded {
    const message = { jsonrpc: '2.0', id, method, params };
    return text ? JSON.stringify(message) : message;
  }

  /** Writes a reply. A missing result is `null`. */
  reply(text: boolean, _type: string, request: Address, result: unknown): Encoded {
    if (!text) return { jsonrpc: '2.0', id: request.id, result: result === undefined ? null : resultValue(result) };
    const json = result instanceof JsonText ? result.text() : JSON.stringify(result);
    return `{"jsonrpc":"2.0","id":${idText(request)},"result":${json === undefined ? 'null' : json}}`;
  }

  /** Writes an error reply that can always be sent: data that is not JSON is left out. */
  failure(text: boolean, request: Address, error: HandfastError): Encoded {
    const body = rpcErrorOf(error);
    if (!text) return { jsonrpc: '2.0', id: request.id, error: body };
    let json: string;
    try {
      json = JSON.stringify(body);
    } catch {
      const { reason, kind, retryable } = body.data;
      json = JSON.stringify({ ...body, data: { reason, kind, retryable } });
    }
    return `{"jsonrpc":"2.0","id":${idText(request)},"error":${json}}`;
  }

  /** Writes an event. The protocol has no events of a request: they are notifications with the method's name. */
  event(text: boolean, method: string, _request: Address, type: string, payload: object, seq: number): Encoded {
    return this.notice(text, method, { type, payload, seq });
  }

  cancel(text: boolean, id: MessageId): Encoded {
    return this.notice(text, CANCEL, { id });
  }

  notice(text: boolean, method: string, params: object): Encoded {
    if (!text) return { jsonrpc: '2.0', method, params };
    return `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`;
  }

  pong(text: boolean, request: Address, body: object): Encoded {
    return this.reply(text, '', request, body);
  }
}

/** Messages of the calling side that may be long. All others are refused by their text. */
export interface LongMessages {
  /** Bytes that any message may have. */
  readonly above: number;
  /** Methods whose requests may be longer. */
  readonly methods: ReadonlySet<string>;
  /** The error for all others. */
  readonly refusal: HandfastError;
}

/** Returns the value of a member that is in a text as JSON; undefined for none, and for an object or array. */
function valueIn(json: string): unknown {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' ? undefined : value;
  } catch {
    return undefined;
  }
}

function nameIn(json: string): string {
  const name = valueIn(json);
  return typeof name === 'string' ? name : '';
}

function addressIn(json: string): Address {
  const id = valueIn(json);
  return typeof id === 'string' || typeof id === 'number' ? { id, idText: json } : NO_REQUEST;
}

/** The notification that withdraws a request. */
const CANCEL = '$/cancel_request';

/** Classifies a request, or without an `id` member a notification; JSON text has no undefined. */
function asked(message: Message, method: string, idText: string, size: number): Incoming {
  const { id, params } = message;
  const base = { type: method, idText, message, body: params, size, cursor: 0, error: undefined };
  if (id !== undefined) return { ...base, kind: 'request', id: id as MessageId, ref: undefined };
  const ref = method === CANCEL ? (params as { id?: MessageId } | null | undefined)?.id : undefined;
  return { ...base, kind: method === CANCEL ? 'cancel' : 'notice', id: null, ref };
}

/** Classifies input of the side that calls: replies, and the requests and notifications of a server. */
function called(message: Message, size: number): Incoming {
  const { id, method, result, error } = message;
  if (typeof method === 'string') return asked(message, method, '', size);
  const failed = error !== undefined;
  return {
    kind: !failed ? 'reply' : id === null ? 'refusal' : 'failure',
    type: '',
    id: null,
    idText: '',
    ref: id as MessageId | undefined,
    message,
    body: result,
    size,
    cursor: 0,
    error: failed ? errorFromRpc(error) : undefined,
  };
}

const invalid = (error: HandfastError): Incoming => ({
  ...NO_REQUEST,
  kind: 'invalid',
  type: '',
  ref: undefined,
  message: undefined,
  body: undefined,
  size: 0,
  cursor: 0,
  error,
});
const notOne = (): Incoming => invalid(fail('invalid_message', 'invalid request'));

/** Returns the id of a request as JSON text. */
function idText(request: Address): string {
  if (request.idText === '') request.idText = JSON.stringify(request.id);
  return request.idText;
}

/** Returns a numeric id in its written form: past 2^53, and for a fraction of many digits, parsing has changed its value. */
function numberText(id: number, text: string | undefined): string {
  return Number.isSafeInteger(id) || text === undefined ? `${id}` : writtenId(text);
}

/** Returns the digits of the id at the top of a message. It parses the text again, so it is only for ids that need it. */
function writtenId(text: string): string {
  const written = new Map<unknown, string>();
  let id = 'null';
  const parse = JSON.parse as (text: string, reviver: Reviver) => unknown;
  parse(text, function (key, value, context) {
    if (key === 'id' && context.source !== undefined) written.set(this, context.source);
    // The last call is for the message itself.
    if (key === '') id = written.get(value) ?? id;
    return value;
  });
  return id;
}

/** The third parameter shows the written form of a primitive; the types do not know it yet. */
type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown;

// Errors.

/** `error` of an answer. */
export interface RpcErrorBody {
  readonly code: number;
  readonly message: string;
  /** `reason` is the protocol's word, `kind` Handfast's name; then the error's own detail. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The protocol's words for rows that have another name in Handfast. */
const reasons: Partial<Record<ErrorName, string>> = {
  invalid_message: 'invalid_request',
  unknown_type: 'method_not_found',
  schema_violation: 'invalid_params',
  version_mismatch: 'unsupported_protocol_version',
};

const namesByReason = new Map(Object.entries(reasons).map(([name, reason]) => [reason, name as ErrorName]));

/** The number of version 1.0.0 for every failure of the work itself. */
const INTERNAL_ERROR = -32603;

/** Returns the reason of a row on the wire: the protocol's word if it has one, else Handfast's name. */
function reasonOf(name: string, { jsonrpc }: Pick<ErrorRow, 'jsonrpc'>): string {
  return reasons[name as ErrorName] ?? (jsonrpc === INTERNAL_ERROR ? 'internal_error' : name);
}

/** Returns an error in the form of the wire. */
export function rpcErrorOf(error: HandfastError): RpcErrorBody {
  const row = rowOf(error.code, error.detail);
  // `path` is the place where the general validator stopped; this protocol's member is `field`.
  const { path, ...detail } = error.detail;
  const kept = error.code === 'schema_violation' ? detail : error.detail;
  return {
    code: row.jsonrpc,
    message: error.message,
    data: { ...kept, reason: reasonOf(error.code, row), kind: error.code, retryable: error.retryable },
  };
}

/**
 * Returns the error that an `error` member stands for. `data.kind` names it; for servers that do not send it, number
 * and reason decide. `detail` is `data` without the members that became `code` and `retryable`.
 */
export function errorFromRpc(error: unknown): HandfastError {
  const { code, message, data } = objectOf(error);
  const { reason, kind, retryable, ...detail } = objectOf(data);
  const number = typeof code === 'number' ? code : INTERNAL_ERROR;
  const named = typeof reason === 'string' ? (namesByReason.get(reason) ?? reason) : undefined;
  const name = typeof kind === 'string' && kind !== '' ? kind : (nameOfJsonRpc(number, named) ?? 'runtime_error');
  return new HandfastError(name, typeof message === 'string' && message !== '' ? message : name, {
    detail,
    retryable: typeof retryable === 'boolean' ? retryable : undefined,
  });
}

function objectOf(value: unknown): Message {
  return membersOf(value);
}
