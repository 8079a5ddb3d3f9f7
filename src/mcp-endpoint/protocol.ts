/**
 * Names, numbers and texts of the Model Context Protocol, for the server side. Pure.
 *
 * Two eras: sessions (2024-11-05 to 2025-11-25), which start with `initialize`, and requests that stand alone
 * (2026-07-28), each with its version and the capabilities of its client in `_meta`.
 */
import { MAX_VALUES, moreValues, nestedTooDeeply } from '../wire/depth.ts';
import { isObject, withoutNulls } from '../wire/json.ts';

/** Revisions with sessions, the newest first. */
export const SESSION_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;
/** Revisions without. */
export const STATELESS_VERSIONS = ['2026-07-28'] as const;

export const PARSE_ERROR = -32_700;
export const INVALID_REQUEST = -32_600;
export const METHOD_NOT_FOUND = -32_601;
export const INVALID_PARAMS = -32_602;
export const INTERNAL_ERROR = -32_603;
/** For refusals that the protocol has no number for. */
export const SERVER_ERROR = -32_000;
/** Of sessions alone; later revisions have `INVALID_PARAMS`. */
export const RESOURCE_NOT_FOUND = -32_002;
export const HEADER_MISMATCH = -32_020;
export const MISSING_CAPABILITY = -32_021;
export const UNSUPPORTED_VERSION = -32_022;

export const META_VERSION = 'io.modelcontextprotocol/protocolVersion';
export const META_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
export const META_LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
export const META_SERVER = 'io.modelcontextprotocol/serverInfo';
export const META_SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';

/** Levels of log messages, the lowest first. */
export const LOG_LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const isLogLevel = (value: unknown): value is LogLevel => LOG_LEVELS.includes(value as LogLevel);

export type RequestId = string | number;
export type Params = Readonly<Record<string, unknown>>;

/** A message, sorted; `invalid` has the id to reply to, where one can be read. */
export type Received =
  | { readonly kind: 'request'; readonly id: RequestId; readonly method: string; readonly params: Params }
  | { readonly kind: 'notification'; readonly method: string; readonly params: Params }
  | { readonly kind: 'response'; readonly id: RequestId; readonly result?: unknown; readonly error?: unknown }
  | { readonly kind: 'invalid'; readonly id: RequestId | null; readonly reason: string };

const NO_PARAMS: Params = Object.freeze({});

const isId = (value: unknown): value is RequestId => typeof value === 'string' || Number.isSafeInteger(value);

/**
 * Reads a message. Throws `SyntaxError` for a text that is not JSON.
 * @param maxValues values at most, as `wire/depth.ts` counts them; a text with more is not parsed
 */
export function readMessage(text: string, maxValues = MAX_VALUES): Received {
  if (moreValues(text, maxValues)) {
    return { kind: 'invalid', id: null, reason: `more than ${maxValues} values (limits.max_values)` };
  }
  const value: unknown = JSON.parse(text);
  const message = sorted(value);
  if (!nestedTooDeeply(text, value)) return message;
  return { kind: 'invalid', id: message.kind === 'request' ? message.id : null, reason: 'nested too deeply' };
}

function sorted(message: unknown): Received {
  if (Array.isArray(message)) return { kind: 'invalid', id: null, reason: 'batches are not supported' };
  if (!isObject(message)) return { kind: 'invalid', id: null, reason: 'a message must be an object' };
  const { jsonrpc, id, method } = message;
  // Some clients write null for params that they leave out.
  const params = message.params ?? NO_PARAMS;
  const known = isId(id) ? id : null;
  if (jsonrpc !== '2.0') return { kind: 'invalid', id: known, reason: '"jsonrpc" must be "2.0"' };
  if (method === undefined && known !== null && ('result' in message || 'error' in message)) {
    return { kind: 'response', id: known, result: message.result, error: message.error ?? undefined };
  }
  if (typeof method !== 'string') return { kind: 'invalid', id: known, reason: '"method" must be a string' };
  if (!isObject(params)) return { kind: 'invalid', id: known, reason: '"params" must be an object' };
  const isNotification = id === undefined || (id === null && method.startsWith('notifications/'));
  if (isNotification) return { kind: 'notification', method, params: asLeftOut(params) };
  if (known === null) return { kind: 'invalid', id: null, reason: '"id" must be a string or a whole number' };
  return { kind: 'request', id: known, method, params: asLeftOut(params) };
}

const OPTIONAL = ['arguments', 'cursor', '_meta'];

/** Clients in other languages write null for a member that they leave out. */
const asLeftOut = (params: Params): Params => withoutNulls(params, OPTIONAL);

/** An error reply of JSON-RPC, as handlers throw it. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: object | undefined;
  /** The status of the response over HTTP. */
  readonly status: number;

  constructor(code: number, message: string, data?: object, status = 200) {
    super(message);
    this.code = code;
    this.data = data;
    this.status = status;
  }
}

export const invalidParams = (message: string, data?: object): RpcError => new RpcError(INVALID_PARAMS, message, data);

/** Returns the text of a result. */
export const resultText = (id: RequestId, result: string): string =>
  `{"jsonrpc":"2.0","id":${idText(id)},"result":${result}}`;

export function errorText(id: RequestId | null, code: number, message: string, data?: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, ...(data && { data }) } });
}

export const notificationText = (method: string, params: object): string =>
  JSON.stringify({ jsonrpc: '2.0', method, params });

const idText = (id: RequestId): string => (typeof id === 'number' ? String(id) : JSON.stringify(id));

/** Returns the `_meta` of params. */
export const metaOf = ({ _meta }: Params): Params => (isObject(_meta) ? _meta : NO_PARAMS);
