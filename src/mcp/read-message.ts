/**
 * Reads messages of servers for the official client, which refuses an envelope with a member too many or a `null`, and
 * a whole result for one odd member. A message that cannot be read becomes an error for its request, so that its caller
 * does not wait.
 *
 * It reads messages from pipes and over HTTP.
 */
import { evictOldest } from '../base/evict-oldest.ts';
import { MAX_REPLY_VALUES, moreValues, nestedTooDeeply } from '../wire/depth.ts';
import { isObject, type JsonObject, membersOf, withoutNulls } from '../wire/json.ts';
import { readResult } from './results.ts';
import type { Transport } from './sdk.ts';
import { type TooMany, tooDeep, tooLong } from './too-long.ts';

export type Message = Parameters<NonNullable<Transport['onmessage']>>[0];
export type Id = string | number;

/** Most requests whose methods are stored; a response to an older request stays unchanged. */
const MAX_PENDING = 4_096;
const INTERNAL_ERROR = -32_603;
const MAX_WHY = 300;

const UNREADABLE = 'the response cannot be read';

/** Returns the error for a request whose response cannot be read. */
export const unreadable = (id: unknown, why: string): Message => {
  const message = `${UNREADABLE}: ${why.replaceAll(/\s+/g, ' ').slice(0, MAX_WHY)}`;
  return { jsonrpc: '2.0' as const, id: id as Id, error: { code: INTERNAL_ERROR, message, data: UNREADABLE } };
};

/** Returns true if an error is for a response that could not be read: the server may have run its request. */
export const isUnreadable = (thrown: unknown): boolean =>
  (thrown as { readonly data?: unknown } | null)?.data === UNREADABLE;

/** Reads the messages of one connection. */
export class MessageReader {
  /** Methods of the requests that were sent. */
  readonly #pending = new Map<Id, string>();
  readonly #isStateless: () => boolean;

  constructor(isStateless: () => boolean) {
    this.#isStateless = isStateless;
  }

  /** Notes a message that is sent. */
  sent(message: object): void {
    const { id, method, params } = message as {
      readonly id?: Id;
      readonly method?: string;
      readonly params?: JsonObject;
    };
    if (method === 'notifications/cancelled') this.#pending.delete(params?.requestId as Id);
    if (id === undefined || method === undefined) return;
    this.#pending.set(id, method);
    evictOldest(this.#pending, MAX_PENDING);
  }

  /**
   * Returns the messages of a text for this client.
   * @param own the request to which the text replies, if the transport names it
   */
  text(text: string, own?: Id): Message[] {
    if (moreValues(text, MAX_REPLY_VALUES)) return this.tooMany(text, 'values', own);
    let value: unknown;
    try {
      value = JSON.parse(text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text);
    } catch (thrown) {
      return this.#failed(this.#named(text, own), (id) => unreadable(id, notJson(text, thrown as Error)));
    }
    if (nestedTooDeeply(text, value)) {
      const { id, method } = membersOf(value);
      return this.#failed(typeof method === 'string' ? undefined : (own ?? (id as Id)), tooDeep);
    }
    // Revision 2025-03-26 has batches.
    return (Array.isArray(value) ? value : [value]).flatMap((each) => this.#read(each, own));
  }

  /** Returns the error in place of a text that passes a limit. */
  tooMany(text: string, unit: TooMany, own?: Id): Message[] {
    return this.#failed(this.#named(text.slice(0, 200), own), (id) => tooLong(id, unit));
  }

  /** Ends a request with an error; without a known request no message results. */
  #failed(id: Id | undefined, error: (id: Id) => Message): Message[] {
    if (id === undefined) return [];
    this.#pending.delete(id);
    return [error(id)];
  }

  #read(value: unknown, own: Id | undefined): Message[] {
    if (!isObject(value)) return own === undefined ? [] : [unreadable(own, 'it is no JSON object')];
    const { id, method } = value;
    if (typeof method === 'string') return [asked(value, method)];
    const request = this.#requestOf(id, value, own);
    if (request === undefined) return [];
    const wanted = this.#pending.get(request) ?? '';
    this.#pending.delete(request);
    return [this.#response(value, request, wanted)];
  }

  /** Returns the request that a response is for. */
  #requestOf(id: unknown, { error }: JsonObject, own: Id | undefined): Id | undefined {
    if (this.#pending.has(id as Id)) return id as Id;
    // Some servers send numbers back as texts.
    if (typeof id === 'string' && this.#pending.has(Number(id))) return Number(id);
    if (id !== null && id !== undefined) return typeof id === 'string' || typeof id === 'number' ? id : own;
    // An error of a server that could not read the id of the request.
    const [only, other] = this.#pending.keys();
    return own ?? (isObject(error) && other === undefined ? only : undefined);
  }

  #response({ result, error }: JsonObject, id: Id, method: string): Message {
    if (error !== undefined && error !== null && error !== false) return { jsonrpc: '2.0', id, error: errorOf(error) };
    if (result === undefined) return unreadable(id, 'it has neither a result nor an error');
    const read = method === '' ? result : readResult(method, result, this.#isStateless());
    if (isObject(read)) return { jsonrpc: '2.0', id, result: read };
    return unreadable(id, `its result is not one of ${method}`);
  }

  /**
   * Returns the request of this client to which a text without JSON replies: a request or a notification of the server
   * replies to none.
   */
  #named(text: string, own: Id | undefined): Id | undefined {
    const head = text.slice(0, MAX_SEARCHED);
    if (/["'](?:(method)["']\s*:\s*["']|(?:result|error)["']\s*:)/.exec(head)?.[1] !== undefined) return undefined;
    if (own !== undefined) return own;
    const found = /["']id["']\s*:\s*(?:(\d{1,15})\b|["']([^"'\\]{1,128})["'])/.exec(head);
    if (found === null || !/["'](?:jsonrpc|result|error)["']|^\s*"id"/.test(head)) return undefined;
    const id = found[1] === undefined ? (found[2] as string) : Number(found[1]);
    return this.#pending.has(id) ? id : undefined;
  }
}

const BYTE_ORDER_MARK = 0xfe_ff;
const MAX_SEARCHED = 4_096;

/** Returns the reason without the text, which may be long, and may be secret. */
function notJson(text: string, { message }: Error): string {
  if (text.trim() === '') return 'it is empty';
  if (/[:[,]\s*-?(?:NaN|Infinity)\b/.test(text)) return 'it is not JSON: NaN and Infinity are no values of it';
  return `it is not JSON: ${message.replace(/,? ?(?:\.{3})?".*$/s, '').replace(/ in JSON/, '')}`;
}

function errorOf(error: unknown): { code: number; message: string; data?: unknown } {
  if (!isObject(error))
    return { code: INTERNAL_ERROR, message: typeof error === 'string' ? error : JSON.stringify(error) };
  const { code, message, data } = error;
  const number = Number(code);
  return {
    code: code !== null && Number.isSafeInteger(number) ? number : INTERNAL_ERROR,
    message: typeof message === 'string' && message !== '' ? message : 'the server says no more',
    ...(data !== undefined && data !== null && { data }),
  };
}

/** Returns a request or a notification of a server, without members that are null. */
function asked({ id, params }: JsonObject, method: string): Message {
  const read = isObject(params) ? withoutNulls(params) : undefined;
  const isRequest = typeof id === 'string' || typeof id === 'number';
  return {
    jsonrpc: '2.0',
    method,
    ...(isRequest && { id }),
    ...(read !== undefined && {
      params: isObject(read._meta) || read._meta === undefined ? read : { ...read, _meta: {} },
    }),
  } as Message;
}
