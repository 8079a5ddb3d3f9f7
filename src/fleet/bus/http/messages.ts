/**
 * The JSON-RPC dialect of upstream's receivers, both directions, as data: the forms of a request and a response. Written as
 * upstream writes it; reading accepts the known variants. Fleet messages are data parts beside the text.
 *
 * @see docs/protocol/fleet.md#http
 */
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { isObject } from '../../../wire/json.ts';
import { type Members, readStrictJson } from '../../../wire/strict-json.ts';
import { isId } from '../../messages/names.ts';
import { RPC, type RpcId, readRpcBody, rpcId } from '../plain/rpc.ts';

/** Longest text upstream accepts, characters; it cuts longer ones without a notice, so none is sent. */
export const MAX_TEXT_CHARS = 262_144;

export const HEALTH_PATH = '/health';
export const RPC_PATH = '/jsonrpc';
/** `GET`, with a token: the worker's SESSION_ANNOUNCE. */
export const ANNOUNCE_PATH = '/announce';

/** The content of a message, either way. */
export interface HttpMessage {
  /** All text parts, a blank line between them. */
  readonly text: string;
  readonly data: readonly unknown[];
  readonly contextId: string | null;
  readonly messageId: string | null;
}

export type HttpRequest =
  | { readonly kind: 'message'; readonly id: RpcId; readonly message: HttpMessage }
  | { readonly kind: 'error'; readonly id: RpcId; readonly code: number; readonly message: string };

/** Reads a request. Never throws. */
export function readRequest(body: Uint8Array): HttpRequest {
  const read = readRpcBody(body);
  if (!read.ok) return refused(null, read.code, read.message);
  const { jsonrpc, id: given, method, params } = read.value;
  const id = rpcId(given);
  if (jsonrpc !== '2.0' || typeof method !== 'string') return refused(id, RPC.request, 'not a JSON-RPC 2.0 request');
  if (method !== 'SendMessage' && method !== 'message/send') return refused(id, RPC.method, 'method not found');
  if (!isObject(params)) return refused(id, RPC.params, 'params must be an object');
  if (Object.hasOwn(params, 'contextId')) {
    return refused(id, RPC.params, 'contextId belongs into params.message, not into params');
  }
  const message = readMessage(params.message);
  return typeof message === 'string' ? refused(id, RPC.params, message) : { kind: 'message', id, message };
}

const refused = (id: RpcId, code: number, message: string): HttpRequest => ({ kind: 'error', id, code, message });

/** Returns the message, or the error in it. */
function readMessage(value: unknown): HttpMessage | string {
  if (!isObject(value)) return 'params.message must be an object';
  const { parts, contextId, messageId } = value;
  if (!Array.isArray(parts) || parts.length === 0) return 'params.message.parts must be a list that is not empty';
  if (contextId !== undefined && contextId !== null && contextId !== '' && !isText(contextId)) {
    return 'params.message.contextId is not usable as an id';
  }
  const texts: string[] = [];
  const data: unknown[] = [];
  for (const part of parts) {
    if (!isObject(part)) return 'a part must be an object';
    if (typeof part.text === 'string') texts.push(part.text);
    else if (isObject(part.data)) data.push(part.data);
  }
  if (texts.length === 0 && data.length === 0) return 'there is no text in params.message.parts';
  return {
    text: texts.join('\n\n'),
    data,
    contextId: isText(contextId) ? contextId : null,
    messageId: isText(messageId) ? messageId : null,
  };
}

const isText = (value: unknown): value is string => typeof value === 'string' && isId(value);

/** The content of a message that is written. */
export interface Outgoing {
  readonly text: string;
  readonly data?: readonly FleetMessage[];
  readonly contextId: string;
  readonly messageId?: string;
}

function message(role: 'user' | 'agent', { text, data = [], contextId, messageId }: Outgoing): object {
  // The text first: upstream reads the first part only.
  const parts = [{ text }, ...data.map((one) => ({ data: one, mediaType: 'application/json' }))];
  return { role, parts, contextId, messageId };
}

/** Returns a request as text. */
export function sendMessage(id: string, outgoing: Outgoing): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'SendMessage', params: { message: message('user', outgoing) } });
}

/** Returns a response that holds a message. */
export function messageResponse(id: RpcId, outgoing: Outgoing): object {
  return { jsonrpc: '2.0', id, result: { kind: 'message', message: message('agent', outgoing) } };
}

/** The body of a receiver's response. */
export type HttpReplyBody =
  | { readonly kind: 'message'; readonly message: HttpMessage }
  | { readonly kind: 'busy'; readonly text: string; readonly data: unknown }
  | { readonly kind: 'error'; readonly code: number; readonly text: string }
  | { readonly kind: 'malformed'; readonly reason: string };

/** Reads a response to SendMessage. Never throws. */
export function readReply(body: Uint8Array): HttpReplyBody {
  const json = readStrictJson(body);
  if (!json.ok) return { kind: 'malformed', reason: json.errors.map(({ code }) => code).join(', ') };
  const { error, result } = json.value;
  if (isObject(error)) return readError(error);
  if (!isObject(result)) return { kind: 'malformed', reason: 'neither a result nor an error' };
  // Newer receivers respond with the message itself.
  const found = readMessage(isObject(result.message) ? result.message : result);
  return typeof found === 'string' ? { kind: 'malformed', reason: found } : { kind: 'message', message: found };
}

function readError({ code, message, data }: Members): HttpReplyBody {
  const text = typeof message === 'string' ? message.slice(0, 2_000) : '';
  if (typeof code !== 'number') return { kind: 'malformed', reason: 'an error without a number' };
  // SendMessage names no task, so none can be missing: the number can only mean busy.
  if (code === RPC.busy || code === RPC.fleetBusy) return { kind: 'busy', text, data };
  return { kind: 'error', code, text };
}
