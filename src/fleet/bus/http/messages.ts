/**
 * The JSON-RPC dialect of upstream's receivers, both directions, as data: what a request and an answer look like, and which
 * number says what. Written as upstream writes it, read with some kindness. Fleet messages ride in data parts beside the
 * text.
 *
 * Used by `worker-server.ts` and `callbacks.ts` on the worker's side, `peer.ts` and `replies.ts` on the orchestrator's.
 * @see docs/protocol/fleet.md#http
 */
import { FLEET_EXTENSION, type FleetMessage } from '../../../protocol/fleet.ts';
import { isObject } from '../../../wire/json.ts';
import { isId } from '../../messages/names.ts';
import { type Members, readStrictJson } from '../../messages/strict-json.ts';

/** Longest body, either way, bytes. */
export const MAX_BODY_BYTES = 1024 * 1024;
/** Longest text upstream takes, characters; it cuts longer ones without a word, so none is sent. */
export const MAX_TEXT_CHARS = 262_144;

export const CARD_PATH = '/.well-known/agent-card.json';
export const HEALTH_PATH = '/health';
export const RPC_PATH = '/jsonrpc';
/** `GET`, with a token: the worker's SESSION_ANNOUNCE. */
export const ANNOUNCE_PATH = '/announce';

/** JSON-RPC error numbers of the dialect. */
export const RPC = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  /** Inbox, bridge, timeout. */
  failed: -32000,
  /** Busy, as upstream says it; in A2A 1.0 the number means something else. */
  busy: -32001,
  /** Busy, for a peer that speaks our extension: outside the reserved range. */
  fleetBusy: -31001,
} as const;

export type RpcId = string | number | null;

/** What a message holds, either way. */
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
  const json = readStrictJson(body);
  if (!json.ok) {
    const code = json.errors[0]?.code === 'E_NOT_JSON' ? RPC.parse : RPC.request;
    return refused(null, code, `not a request: ${json.errors.map(({ code }) => code).join(', ')}`);
  }
  const { jsonrpc, id: given, method, params } = json.value;
  const id = typeof given === 'string' || typeof given === 'number' ? given : null;
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

/** The message, or what is wrong with it. */
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

/** What is written into a message. */
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

/** A request, as text. */
export function sendMessage(id: string, outgoing: Outgoing): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'SendMessage', params: { message: message('user', outgoing) } });
}

/** An answer that holds a message. */
export function messageAnswer(id: RpcId, outgoing: Outgoing): object {
  return { jsonrpc: '2.0', id, result: { kind: 'message', message: message('agent', outgoing) } };
}

export function errorAnswer(id: RpcId, code: number, text: string, data?: unknown): object {
  return { jsonrpc: '2.0', id, error: { code, message: text, ...(data !== undefined && { data }) } };
}

/**
 * The answer of a busy worker. A peer that does not speak our extension gets upstream's number, which other clients of A2A
 * read as "no such task"; the delay is in the text too, because some clients hand on nothing else.
 */
export function busyAnswer(id: RpcId, speaksFleet: boolean, retryAfterS: number, reason: string): object {
  const text = `busy: ${reason === 'in_flight' ? 'this task is running' : 'a turn of this context is running'}; retry after ${retryAfterS} s`;
  if (!speaksFleet) return errorAnswer(id, RPC.busy, text);
  const info = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: 'FLEET_BUSY',
    domain: new URL(FLEET_EXTENSION).host,
    metadata: { retry_after_s: String(retryAfterS), busy: reason },
  };
  return errorAnswer(id, RPC.fleetBusy, text, [info]);
}

/** What a receiver answered. */
export type HttpReplyBody =
  | { readonly kind: 'message'; readonly message: HttpMessage }
  | {
      readonly kind: 'busy';
      readonly retryAfterS: number | undefined;
      readonly inFlight: boolean;
      readonly text: string;
    }
  | { readonly kind: 'error'; readonly code: number; readonly text: string }
  | { readonly kind: 'unreadable'; readonly why: string };

/** Reads an answer to SendMessage. Never throws. */
export function readAnswer(body: Uint8Array): HttpReplyBody {
  const json = readStrictJson(body);
  if (!json.ok) return { kind: 'unreadable', why: json.errors.map(({ code }) => code).join(', ') };
  const { error, result } = json.value;
  if (isObject(error)) return readError(error);
  if (!isObject(result)) return { kind: 'unreadable', why: 'neither a result nor an error' };
  // Newer receivers answer the message itself.
  const found = readMessage(isObject(result.message) ? result.message : result);
  return typeof found === 'string' ? { kind: 'unreadable', why: found } : { kind: 'message', message: found };
}

function readError({ code, message: text, data }: Members): HttpReplyBody {
  const words = typeof text === 'string' ? text.slice(0, 2_000) : '';
  if (typeof code !== 'number') return { kind: 'unreadable', why: 'an error without a number' };
  // SendMessage names no task, so there is none that could be missing: the number can only mean busy.
  if (code !== RPC.busy && code !== RPC.fleetBusy) return { kind: 'error', code, text: words };
  const info = Array.isArray(data) ? data.find((one) => isObject(one) && one.reason === 'FLEET_BUSY') : undefined;
  const metadata = isObject(info) && isObject(info.metadata) ? info.metadata : {};
  const seconds = Number(metadata.retry_after_s ?? /retry after (\d+(?:\.\d+)?) ?s/.exec(words)?.[1]);
  return {
    kind: 'busy',
    retryAfterS: Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined,
    inFlight: metadata.busy === 'in_flight',
    text: words,
  };
}
