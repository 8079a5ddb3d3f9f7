/**
 * Reads and writes JSON-RPC 2.0 as session RPC has it: what a line is, how answers, errors and notifications look, and
 * how an error of the table becomes one of the wire and comes back. Pure: no link, no state.
 *
 * Used by `control/rpc/` and by the client; it runs in browsers too. Text links get JSON text, the in-memory pair objects.
 * @see docs/protocol/session-rpc.md#lines and docs/protocol/session-rpc.md#errors
 */
import { MAX_DEPTH, tooDeep } from './depth.ts';
import { type ErrorName, type ErrorRow, fail, HandfastError, nameOfJsonRpc, rowOf } from './errors.ts';
import { JsonText, membersOf, resultValue } from './json.ts';

/** A decoded message. */
type Message = Record<string, unknown>;

export type RpcId = string | number | null;

/** A request. `idText` is the id as JSON: a number that JavaScript cannot hold exactly goes back as it came. */
export interface RpcRequest {
  readonly kind: 'request';
  readonly id: RpcId;
  readonly idText: string;
  /** As it came: not trimmed, case kept. */
  readonly method: string;
  readonly params: unknown;
}

export interface RpcNotification {
  readonly kind: 'notification';
  readonly method: string;
  readonly params: unknown;
}

/** A line that is neither; it is answered with `error` and the id `null`. */
export interface RpcInvalid {
  readonly kind: 'invalid';
  readonly error: HandfastError;
}

export type RpcIncoming = RpcRequest | RpcNotification | RpcInvalid;

/** True for a message of JSON-RPC, of whatever method. */
export const speaksJsonRpc = (message: Message): boolean => Object.hasOwn(message, 'jsonrpc');

/** What is shown of the parser's own words, in characters. */
const MAX_PARSER_CHARS = 200;
/** What is told back of a method nobody knows, in characters. */
const MAX_METHOD_CHARS = 256;

/**
 * What one line, or one message of the in-memory pair, is. Undefined: a blank line, which is ignored.
 *
 * @param maxDepth nesting of a text at most; deeper ones are `too_large` and not parsed
 */
export function readRpc(raw: string | Message, maxDepth: number = MAX_DEPTH): RpcIncoming | undefined {
  if (typeof raw !== 'string') return classified(raw, undefined);
  const text = raw.trim();
  if (text === '') return undefined;
  if (tooDeep(text, maxDepth)) {
    return invalid(fail('too_large', 'the message is nested too deeply', { limit: maxDepth, unit: 'levels' }));
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return invalid(parseError((thrown as Error).message));
  }
  return classified(value, text);
}

/** The error for a line that is not JSON. */
export function parseError(why: string): HandfastError {
  return fail('parse_error', `parse error: ${why.slice(0, MAX_PARSER_CHARS)}`);
}

/** The error for a method nobody serves. */
export function methodNotFound(method: string): HandfastError {
  const shown = method.length > MAX_METHOD_CHARS ? `${method.slice(0, MAX_METHOD_CHARS)}…` : method;
  return fail('unknown_type', `method not found: ${shown}`, { method: shown });
}

function classified(value: unknown, text: string | undefined): RpcIncoming {
  if (Array.isArray(value)) return invalid(fail('batch_not_supported', 'batch requests are not supported'));
  if (typeof value !== 'object' || value === null) return notOne();
  const { jsonrpc, method, id, params } = value as Message;
  if (jsonrpc !== '2.0' || typeof method !== 'string' || method.trim() === '') return notOne();
  // Without an `id` member; JSON text has no undefined.
  if (id === undefined) return { kind: 'notification', method, params };
  if (typeof id === 'number') return { kind: 'request', id, idText: numberText(id, text), method, params };
  if (typeof id === 'string') return { kind: 'request', id, idText: JSON.stringify(id), method, params };
  if (id === null) return { kind: 'request', id, idText: 'null', method, params };
  return notOne();
}

const invalid = (error: HandfastError): RpcInvalid => ({ kind: 'invalid', error });
const notOne = (): RpcInvalid => invalid(fail('invalid_message', 'invalid request'));

/** A numeric id as it was written: past 2^53, and as a fraction of many digits, parsing has changed its value. */
function numberText(id: number, text: string | undefined): string {
  return Number.isSafeInteger(id) || text === undefined ? `${id}` : writtenId(text);
}

/** The digits of the id at the top of a message. Parses once more, so it is for ids that need it. */
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

/** The third parameter tells how a primitive was written; the types do not know it yet. */
type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown;

// What is written.

/** The answer to a request. Throws when `result` cannot be written as JSON; no result at all is `null`. */
export function writeResult(
  text: boolean,
  request: Pick<RpcRequest, 'id' | 'idText'>,
  result: unknown,
): string | Message {
  if (!text) return { jsonrpc: '2.0', id: request.id, result: result === undefined ? null : resultValue(result) };
  const json = result instanceof JsonText ? result.text() : JSON.stringify(result);
  return `{"jsonrpc":"2.0","id":${request.idText},"result":${json === undefined ? 'null' : json}}`;
}

/** The answer to a line that is no request. */
export const NO_REQUEST: Pick<RpcRequest, 'id' | 'idText'> = Object.freeze({ id: null, idText: 'null' });

/** The error answer. Always something that can be sent: data that is not JSON is left out. */
export function writeError(
  text: boolean,
  request: Pick<RpcRequest, 'id' | 'idText'>,
  error: HandfastError,
): string | Message {
  const body = rpcErrorOf(error);
  if (!text) return { jsonrpc: '2.0', id: request.id, error: body };
  let json: string;
  try {
    json = JSON.stringify(body);
  } catch {
    const { reason, kind, retryable } = body.data;
    json = JSON.stringify({ ...body, data: { reason, kind, retryable } });
  }
  return `{"jsonrpc":"2.0","id":${request.idText},"error":${json}}`;
}

/** A notification, such as `event`. Throws when `params` cannot be written as JSON. */
export function writeNotification(text: boolean, method: string, params: object): string | Message {
  if (!text) return { jsonrpc: '2.0', method, params };
  return `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`;
}

// Errors.

/** `error` of an answer. */
export interface RpcErrorBody {
  readonly code: number;
  readonly message: string;
  /** `reason` is the protocol's word, `kind` our name; then what the error says of itself. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The protocol's words for rows that it calls by another name than we do. */
const reasons: Partial<Record<ErrorName, string>> = {
  invalid_message: 'invalid_request',
  unknown_type: 'method_not_found',
  schema_violation: 'invalid_params',
  version_mismatch: 'unsupported_protocol_version',
};

const namesByReason = new Map(Object.entries(reasons).map(([name, reason]) => [reason, name as ErrorName]));

/** The number of version 1.0.0 for every failure of the work itself. */
const INTERNAL_ERROR = -32603;

/** The reason a row has on the wire: the protocol's word where it has one, else our name. */
function reasonOf(name: string, { jsonrpc }: Pick<ErrorRow, 'jsonrpc'>): string {
  return reasons[name as ErrorName] ?? (jsonrpc === INTERNAL_ERROR ? 'internal_error' : name);
}

/** An error as the wire says it. */
export function rpcErrorOf(error: HandfastError): RpcErrorBody {
  const row = rowOf(error.code, error.detail);
  // `path` is where the general validator stopped; this protocol says `field`.
  const { path, ...detail } = error.detail;
  const kept = error.code === 'schema_violation' ? detail : error.detail;
  return {
    code: row.jsonrpc,
    message: error.message,
    data: { ...kept, reason: reasonOf(error.code, row), kind: error.code, retryable: error.retryable },
  };
}

/**
 * The error an `error` member stands for. `data.kind` names it; servers that do not send it are understood by number and
 * reason. `detail` is `data` without what became `code` and `retryable`.
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
