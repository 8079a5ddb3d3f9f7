/**
 * JSON-RPC 2.0 from the caller's side over one link: requests with their answers, and the server's notifications.
 *
 * One per link; `control.ts` makes a new one for each reconnect. It runs in browsers too, so it uses nothing of Node.
 */

import type { Closed, Link, Message, Receiver } from '../transport/link.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { errorFromRpc } from '../wire/jsonrpc.ts';

export interface CallOptions {
  /** Gives the request up: the server is told, and the call rejects with the signal's reason or `cancelled`. */
  readonly signal?: AbortSignal;
  /** Time for the answer in milliseconds; 0 = none of ours. Default 60,000. */
  readonly timeoutMs?: number;
  /** Told of the result before any message behind it is read: for answers that say how to read what follows. */
  readonly onResult?: (result: unknown) => void;
}

interface Pending {
  readonly onResult: ((result: unknown) => void) | undefined;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: HandfastError) => void;
  readonly timer: ReturnType<typeof setTimeout> | undefined;
  readonly signal: AbortSignal | undefined;
  readonly aborted: (() => void) | undefined;
}

const DEFAULT_TIMEOUT_MS = 60_000;

/** One link with its open requests. */
export class RpcClient implements Receiver {
  readonly #link: Link;
  readonly #onNotification: (method: string, params: unknown) => void;
  readonly #onClosed: (error: HandfastError) => void;
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #ended: HandfastError | undefined;

  constructor(
    link: Link,
    on: {
      readonly notification: (method: string, params: unknown) => void;
      readonly closed: (error: HandfastError) => void;
    },
  ) {
    this.#link = link;
    this.#onNotification = on.notification;
    this.#onClosed = on.closed;
    link.open(this);
  }

  /** Sends a request. Rejects with the server's error, `connection_lost`, `timeout` or `cancelled`. */
  call(method: string, params: unknown, options: CallOptions = {}): Promise<unknown> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS, onResult } = options;
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (signal?.aborted) return Promise.reject(reasonOf(signal));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const giveUp = (error: HandfastError): void => {
        if (!this.#settle(id)) return;
        this.#send({ jsonrpc: '2.0', method: '$/cancel_request', params: { id } });
        reject(error);
      };
      const aborted = signal && (() => giveUp(reasonOf(signal)));
      const timer =
        timeoutMs === 0
          ? undefined
          : setTimeout(() => giveUp(fail('timeout', `${method} was not answered in ${timeoutMs} ms`)), timeoutMs);
      this.#pending.set(id, { resolve, reject, timer, signal, aborted, onResult });
      if (aborted) signal.addEventListener('abort', aborted, { once: true });
      this.#send({ jsonrpc: '2.0', id, method, params });
    });
  }

  /** Closes the link in good order; open calls reject with `connection_lost`. */
  async close(): Promise<void> {
    this.#end(fail('connection_lost', 'the connection was closed'));
    await this.#link.close();
  }

  message(raw: string | Message): void {
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = JSON.parse(raw);
      } catch {
        return this.#broken('the server sent a line that is not JSON');
      }
    }
    if (typeof message !== 'object' || message === null) return;
    const { id, method, result, error, params } = message as Message;
    if (typeof method === 'string') return this.#onNotification(method, params);
    const pending = typeof id === 'number' ? this.#settle(id) : undefined;
    if (pending === undefined) return;
    if (error !== undefined) return pending.reject(errorFromRpc(error));
    pending.onResult?.(result);
    pending.resolve(result);
  }

  malformed(): void {
    this.#broken('the server sent a line that cannot be read');
  }

  ended(): void {
    this.#link.destroy('the server ended');
  }

  closed(cause: Closed): void {
    this.#end(fail('connection_lost', `the link ended: ${cause.reason}`));
  }

  #broken(reason: string): void {
    this.#link.destroy(reason);
    this.#end(fail('connection_lost', reason));
  }

  #send(message: Message): void {
    this.#link.send(this.#link.text ? JSON.stringify(message) : message);
  }

  /** Takes a request out of the open ones. */
  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    if (pending.aborted) pending.signal?.removeEventListener('abort', pending.aborted);
    return pending;
  }

  #end(error: HandfastError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(error);
    this.#onClosed(error);
  }
}

/** What a signal was aborted with, as an error of the table. */
function reasonOf(signal: AbortSignal): HandfastError {
  const { reason } = signal;
  if (typeof reason === 'object' && reason !== null && 'code' in reason && typeof reason.code === 'string') {
    return reason as HandfastError;
  }
  return fail('cancelled', 'the caller gave the request up', {}, reason);
}
